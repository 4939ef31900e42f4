// SPDX-License-Identifier: GPL-2.0
/*
 * Simulates the caches of the processor of a guest and counts misses per kernel function.
 *
 * The processor has an L1i, an L1d and an L2 for both. Each is physically indexed and replaces the
 * line that was used least recently. A line that misses is put in L1 and L2; a line that leaves L2
 * stays in L1. A write is as a read. There is no prefetch and no speculation, and page tables are
 * read without the caches.
 *
 * There are two processors in one: both execute the same instructions, but the second has its
 * caches emptied at each entry of a system call that submits I/O, as if other work ran in between.
 *
 * The file begins with a line "caches LINE SIZE WAYS...", in bytes, for L1i, L1d and L2. For each
 * mark (plugin.c) there is a line "mark NUMBER MISSES", then "user MISSES" and "timer MISSES", and
 * "ADDRESS MISSES" for each function that missed. MISSES are eight numbers: L1i, L1d, L2 for an
 * instruction and L2 for data; then the same with emptied caches.
 */

#include "plugin.h"

enum { LINE = 64, PAGE = 4096 };
/* L2 misses for data are counted apart, behind those for instructions. */
enum { L1I, L1D, L2, NR_CACHES, NR_MISSES = NR_CACHES + 1 };
enum { ALONE, EMPTIED, NR_PROCESSORS };
static const struct {
	uint32_t size, ways;
} geometry[NR_CACHES] = { { 32 << 10, 8 }, { 48 << 10, 12 }, { 2 << 20, 16 } };

/* The numbers of the lines in a cache, a set after the other, the most recent of a set first. */
static uint32_t *lines[NR_PROCESSORS][NR_CACHES];

typedef uint64_t misses_of[NR_PROCESSORS][NR_MISSES];
/* By index of function, and of timer interrupts behind that. */
static misses_of *misses;
static size_t nr;

static const char *const submit_names[] = {
	"__x64_sys_io_uring_enter", "__x64_sys_io_submit", "__x64_sys_pread64", "__x64_sys_pwrite64"
};
enum { NR_SUBMIT = sizeof(submit_names) / sizeof(*submit_names) };
static uint64_t submit_starts[NR_SUBMIT];

static FILE *out;

/* Makes a line the most recent one. Returns whether it was missing. */
static bool touch(int processor, int level, uint32_t line)
{
	uint32_t ways = geometry[level].ways, sets = geometry[level].size / LINE / ways, way = 0;
	uint32_t *set = lines[processor][level] + (line & (sets - 1)) * ways;
	bool missing;

	while (way < ways - 1 && set[way] != line)
		way++;
	missing = set[way] != line;
	memmove(set + 1, set, way * sizeof(*set));
	set[0] = line;
	return missing;
}

static void use(size_t function, uint32_t line, int l1)
{
	if (interrupted)
		function = nr;
	for (int i = 0; i < NR_PROCESSORS; i++) {
		if (!touch(i, l1, line))
			continue;
		misses[function][i][l1]++;
		if (touch(i, L2, line))
			misses[function][i][L2 + l1]++;
	}
}

static void on_fetch(unsigned int cpu, void *data)
{
	use((uintptr_t)data >> 32, (uintptr_t)data, L1I);
}

static void on_data(unsigned int cpu, uint32_t info, uint64_t address, void *data)
{
	const struct hwaddr *hwaddr = qemu_plugin_get_hwaddr(info, address);
	uint64_t first, last;

	if (!hwaddr || qemu_plugin_hwaddr_is_io(hwaddr))
		return;
	first = qemu_plugin_hwaddr_phys_addr(hwaddr);
	last = first + (1 << qemu_plugin_mem_size_shift(info)) - 1;
	use((uintptr_t)data, first / LINE, L1D);
	/* Where the next page is, is not known; few cross into it. */
	if (first / LINE != last / LINE && first / PAGE == last / PAGE)
		use((uintptr_t)data, last / LINE, L1D);
}

static void empty(int processor)
{
	for (int i = 0; i < NR_CACHES; i++)
		memset(lines[processor][i], 0xff, geometry[i].size / LINE * sizeof(**lines[0]));
}

static void on_submit(unsigned int cpu, void *data)
{
	empty(EMPTIED);
}

void cache_symbol(const char *name, uint64_t address)
{
	for (int i = 0; i < NR_SUBMIT; i++)
		if (!strcmp(name, submit_names[i]))
			submit_starts[i] = address;
}

/* Within a block, an instruction in the line of the one before changes nothing. */
void cache_translate(struct insn *insn, size_t function, bool first)
{
	uint64_t begin = qemu_plugin_insn_vaddr(insn), end = begin + qemu_plugin_insn_size(insn) - 1;
	uint64_t physical;

	for (int i = 0; i < NR_SUBMIT; i++)
		if (begin == submit_starts[i])
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_submit, QEMU_PLUGIN_CB_NO_REGS,
							       NULL);
	for (uint64_t line = begin / LINE; line <= end / LINE; line++) {
		if (line == begin / LINE && !first && begin % LINE)
			continue;
		if (qemu_plugin_translate_vaddr(line * LINE, &physical))
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, on_fetch, QEMU_PLUGIN_CB_NO_REGS,
				(void *)(uintptr_t)((uint64_t)function << 32 | physical / LINE));
	}
	qemu_plugin_register_vcpu_mem_cb(insn, on_data, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
					 (void *)function);
}

static void print(misses_of of)
{
	for (int i = 0; i < NR_PROCESSORS * NR_MISSES; i++)
		fprintf(out, " %" PRIu64, of[i / NR_MISSES][i % NR_MISSES]);
	fputc('\n', out);
}

void cache_mark(uint64_t number, const uint64_t *starts)
{
	static const misses_of none;

	fprintf(out, "mark %" PRIu64 "\nuser", number);
	print(misses[0]);
	fputs("timer", out);
	print(misses[nr]);
	for (size_t i = 1; i < nr; i++) {
		if (!memcmp(misses[i], none, sizeof(none)))
			continue;
		fprintf(out, "%" PRIx64, starts[i]);
		print(misses[i]);
	}
	if (fflush(out)) {
		fprintf(stderr, "iomap-count: the misses cannot be written: %m\n");
		exit(1);
	}
	memset(misses, 0, (nr + 1) * sizeof(*misses));
}

void cache_begin(FILE *file, size_t nr_functions)
{
	out = file;
	nr = nr_functions;
	misses = calloc(nr + 1, sizeof(*misses));
	fprintf(out, "caches %d", LINE);
	for (int i = 0; i < NR_CACHES; i++) {
		fprintf(out, " %u %u", geometry[i].size, geometry[i].ways);
		for (int j = 0; j < NR_PROCESSORS; j++)
			lines[j][i] = malloc(geometry[i].size / LINE * sizeof(**lines[0]));
	}
	fputc('\n', out);
	for (int i = 0; i < NR_PROCESSORS; i++)
		empty(i);
}
