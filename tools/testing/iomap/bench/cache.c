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
 * caches emptied every 16 I/Os, the batch of most rows, as if other work ran in between.
 *
 * Which lines of code compete for a set of L1i depends on where the linker puts functions, and so on
 * the length of any other. Therefore, each processor has 16 more L1i. For each, every function is
 * moved by a number of lines of its own, as another link might do.
 *
 * The file begins with a line "caches LINE BATCH MOVES SIZE WAYS...", with sizes in bytes, of L1i, L1d
 * and L2. For each mark (plugin.c) there is a line "mark NUMBER", then "user MISSES" and
 * "timer MISSES", and "ADDRESS MISSES" for each function that missed. MISSES are 20 numbers: L1i,
 * L1d, L2 for an instruction, L2 for data, and the other 16 L1i; then the same with emptied caches.
 */

#include "plugin.h"

enum { LINE = 64, PAGE = 4096, BATCH = 16, MOVES = 16 };
enum { L1I, L1D, L2, NR_CACHES, L2_DATA = NR_CACHES, MOVED, NR_MISSES = MOVED + MOVES };
enum { ALONE, EMPTIED, NR_PROCESSORS };
static const struct {
	uint32_t size, ways;
} geometry[NR_CACHES] = { { 32 << 10, 8 }, { 48 << 10, 12 }, { 2 << 20, 16 } };

/* The numbers of the lines in a cache, a set after the other, the most recent of a set first. */
static uint32_t *lines[NR_PROCESSORS][NR_CACHES], *moved[NR_PROCESSORS][MOVES];

typedef uint64_t misses_of[NR_PROCESSORS][NR_MISSES];
/* By index of function, and of timer interrupts behind that. */
static misses_of *misses;
/* By how many lines the function is moved for each of the other L1i; always the same. */
static uint8_t (*moves)[MOVES];

/* What is executed once for each I/O, as in counts.py. */
static const char *const io_names[] = {
	"io_prep_read", "io_prep_write", "io_prep_read_fixed", "io_prep_write_fixed",
	"io_prep_readv", "io_prep_writev", "aio_read", "aio_write",
	"__x64_sys_pread64", "__x64_sys_pwrite64", "__x64_sys_preadv2", "__x64_sys_pwritev2"
};
enum { NR_IO = sizeof(io_names) / sizeof(*io_names) };
static uint64_t io_starts[NR_IO], ios;

static FILE *out;
/* Set by the first mark: before it, caches would only slow down what nobody counts. */
static bool begun;

/* Makes a line the most recent one, in the set of another line. Returns whether it was missing. */
static bool touch(uint32_t *cache, int level, uint32_t line, uint32_t of_set)
{
	uint32_t ways = geometry[level].ways, sets = geometry[level].size / LINE / ways, way = 0;
	uint32_t *set = cache + (of_set & (sets - 1)) * ways;
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
	uint64_t *of;

	for (int i = 0; i < NR_PROCESSORS; i++) {
		of = misses[interrupted ? nr : function][i];
		if (touch(lines[i][l1], l1, line, line)) {
			of[l1]++;
			if (touch(lines[i][L2], L2, line, line))
				of[l1 == L1I ? L2 : L2_DATA]++;
		}
		for (uint32_t j = 0; l1 == L1I && j < MOVES; j++)
			of[MOVED + j] += touch(moved[i][j], L1I, line, line + moves[function][j]);
	}
}

static void on_fetch(unsigned int cpu, void *data)
{
	if (begun)
		use((uintptr_t)data >> 32, (uintptr_t)data, L1I);
}

static void on_data(unsigned int cpu, uint32_t info, uint64_t address, void *data)
{
	const struct hwaddr *hwaddr = begun ? qemu_plugin_get_hwaddr(info, address) : NULL;
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

static size_t size_of(int level)
{
	return geometry[level].size / LINE * sizeof(**lines[0]);
}

static void empty(int processor)
{
	for (int i = 0; i < NR_CACHES; i++)
		memset(lines[processor][i], 0xff, size_of(i));
	for (int i = 0; i < MOVES; i++)
		memset(moved[processor][i], 0xff, size_of(L1I));
}

static void on_io(unsigned int cpu, void *data)
{
	if (++ios % BATCH == 0)
		empty(EMPTIED);
}

void cache_symbol(const char *name, uint64_t address)
{
	for (int i = 0; i < NR_IO; i++)
		if (!strcmp(name, io_names[i]))
			io_starts[i] = address;
}

/* Within a block, an instruction in the line of the one before changes nothing. */
void cache_translate(struct insn *insn, size_t function, bool first)
{
	uint64_t begin = qemu_plugin_insn_vaddr(insn), end = begin + qemu_plugin_insn_size(insn) - 1;
	uint64_t physical;

	for (int i = 0; i < NR_IO; i++)
		if (begin == io_starts[i])
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_io, QEMU_PLUGIN_CB_NO_REGS,
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

void cache_mark(uint64_t number)
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
	if (fflush(out))
		fail("the misses cannot be written: %m");
	memset(misses, 0, (nr + 1) * sizeof(*misses));
	begun = true;
}

void cache_begin(FILE *file)
{
	unsigned short seed[3] = { 0 };

	out = file;
	misses = calloc(nr + 1, sizeof(*misses));
	moves = malloc(nr * sizeof(*moves));
	for (size_t i = 0; i < nr * MOVES; i++)
		moves[i / MOVES][i % MOVES] = nrand48(seed);
	fprintf(out, "caches %d %d %d", LINE, BATCH, MOVES);
	for (int i = 0; i < NR_CACHES; i++)
		fprintf(out, " %u %u", geometry[i].size, geometry[i].ways);
	fputc('\n', out);
	for (int i = 0; i < NR_PROCESSORS; i++) {
		for (int j = 0; j < NR_CACHES; j++)
			lines[i][j] = malloc(size_of(j));
		for (int j = 0; j < MOVES; j++)
			moved[i][j] = malloc(size_of(L1I));
		empty(i);
	}
}
