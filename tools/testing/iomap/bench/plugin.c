// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the instructions that a guest with one processor executes, per kernel function, and
 * has cache.c simulate caches if that is wanted.
 *
 * Arguments, after "-plugin FILE" on the command line of QEMU:
 *
 *   map=PATH   the System.map of the guest's kernel
 *   out=PATH   the file to write
 *   cache=PATH the file for the misses of simulated caches, which take time; can be left out
 *
 * Each time the guest executes the mark in user space, the plugin writes the counts since the last
 * mark and resets them: a line "mark NUMBER USER TIMER", and then a line "ADDRESS INSTRUCTIONS
 * CALLS" for each function that was executed.
 *
 * - USER is the number of instructions in user space.
 * - TIMER is the number of instructions in timer interrupts. This includes soft interrupts after
 *   them, until a soft interrupt ends I/O. The clock causes these instructions and not the load,
 *   so they are not in the count of any function.
 * - CALLS is how often the first instruction of the function was executed.
 *
 * An instruction with a repeat prefix (rep movsb) counts once. A guest processor without ERMS and
 * FSRM does not use it to copy.
 */

#include "plugin.h"

int qemu_plugin_version = 7;

/* nopl 0x10c0d1(%rax,%rax), an instruction without effect that no compiler emits */
static const unsigned char mark[] = { 0x0f, 0x1f, 0x84, 0x00, 0xd1, 0xc0, 0x10, 0x00 };

/* The boundary between user space, below, and the kernel. */
#define KERNEL 0xffff800000000000

/* A timer interrupt begins with the first function, and ends with its return or when I/O ends. */
enum { BEGIN, RETURN, IO_ENDS, NR_TIMER };
static const char *const timer_names[] = {
	"asm_sysvec_apic_timer_interrupt", "irqentry_exit", "blk_done_softirq"
};
static uint64_t timer_starts[NR_TIMER];

/*
 * The counters, in memory of QEMU: index 0 is user space, index 1 is kernel code in no function,
 * then one for each function. The calls follow in the same order.
 */
static struct score *score;
/* How many of each there are. */
static size_t nr = 2;
/* The start addresses of the functions, ascending, at the index of their counter. */
static uint64_t *starts;

static FILE *out, *cache;
static uint64_t marks, timer;
/* The counters at the start of the current timer interrupt, if there is one. */
static uint64_t *before;
int interrupted;

static void on_mark(unsigned int cpu, void *data)
{
	uint64_t *counts = qemu_plugin_scoreboard_find(score, 0);

	fprintf(out, "mark %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", marks++, counts[0], timer);
	for (size_t i = 1; i < nr; i++)
		if (counts[i])
			fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", starts[i], counts[i],
				counts[nr + i]);
	if (fflush(out)) {
		fprintf(stderr, "iomap-count: the counts cannot be written: %m\n");
		exit(1);
	}
	memset(counts, 0, 2 * nr * sizeof(*counts));
	timer = 0;
	if (cache)
		cache_mark(marks - 1, starts);
}

static void on_timer_begin(unsigned int cpu, void *data)
{
	/* Another timer interrupt may interrupt the soft interrupts. */
	if (!interrupted)
		memcpy(before, qemu_plugin_scoreboard_find(score, 0), 2 * nr * sizeof(*before));
	interrupted = 1;
}

static void on_timer_end(unsigned int cpu, void *data)
{
	uint64_t *counts = qemu_plugin_scoreboard_find(score, 0);

	/* Other interrupts also come here. */
	if (!interrupted)
		return;
	for (size_t i = 0; i < nr; i++)
		timer += counts[i] - before[i];
	memcpy(counts, before, 2 * nr * sizeof(*counts));
	interrupted = 0;
}

/* The index of the counter for an address. */
static size_t index_of(uint64_t address)
{
	size_t low = 1, high = nr;

	if (address < KERNEL)
		return 0;
	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (starts[middle] <= address)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void count(struct insn *insn, size_t index)
{
	struct entry entry = { score, index * sizeof(uint64_t) };

	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, entry,
							    1);
}

static void call(struct insn *insn, on_exec *callback)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

/* Adds code to each instruction of a block that counts it. */
static void on_translate(struct tb *tb, void *data)
{
	for (size_t n = 0; n < qemu_plugin_tb_n_insns(tb); n++) {
		struct insn *insn = qemu_plugin_tb_get_insn(tb, n);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		size_t index = index_of(address);
		unsigned char bytes[sizeof(mark)];

		if (address == timer_starts[BEGIN])
			call(insn, on_timer_begin);
		else if (address == timer_starts[RETURN] || address == timer_starts[IO_ENDS])
			call(insn, on_timer_end);
		if (cache)
			cache_translate(insn, index, !n);
		count(insn, index);
		if (index > 1 && address == starts[index])
			count(insn, nr + index);
		if (!index && qemu_plugin_insn_size(insn) == sizeof(mark)) {
			qemu_plugin_insn_data(insn, bytes, sizeof(bytes));
			if (!memcmp(bytes, mark, sizeof(mark)))
				call(insn, on_mark);
		}
	}
}

/* Opens the file that the argument "NAME=" names. */
static FILE *open_argument(int argc, char **argv, const char *name, const char *mode)
{
	FILE *file;

	while (argc && strncmp(argv[argc - 1], name, strlen(name)))
		argc--;
	if (!argc) {
		fprintf(stderr, "iomap-count: %sPATH is missing\n", name);
		return NULL;
	}
	file = fopen(argv[argc - 1] + strlen(name), mode);
	if (!file)
		fprintf(stderr, "iomap-count: %s: %m\n", argv[argc - 1]);
	return file;
}

/* Reads the functions from System.map, which is in the order of addresses. */
static int read_map(FILE *map)
{
	uint64_t address;
	char kind, name[1024];

	starts = calloc(2, sizeof(*starts));
	while (fscanf(map, "%" SCNx64 " %c %1023s", &address, &kind, name) == 3) {
		if (address < KERNEL || !strchr("tTwW", kind))
			continue;
		for (int i = 0; i < NR_TIMER; i++)
			if (!strcmp(name, timer_names[i]))
				timer_starts[i] = address;
		cache_symbol(name, address);
		if (address == starts[nr - 1])
			continue;
		starts = realloc(starts, (nr + 1) * sizeof(*starts));
		starts[nr++] = address;
	}
	for (int i = 0; i < NR_TIMER; i++)
		if (!timer_starts[i]) {
			fprintf(stderr, "iomap-count: System.map has no %s\n", timer_names[i]);
			return 1;
		}
	return 0;
}

/* QEMU calls this after it has loaded the plugin. */
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	FILE *map = open_argument(argc, argv, "map=", "r");

	if (!map || read_map(map))
		return 1;
	out = open_argument(argc, argv, "out=", "w");
	if (!out)
		return 1;
	if (argc > 2) {
		cache = open_argument(argc, argv, "cache=", "w");
		if (!cache)
			return 1;
		cache_begin(cache, nr);
	}
	before = calloc(2 * nr, sizeof(*before));
	score = qemu_plugin_scoreboard_new(2 * nr * sizeof(*before));
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate, NULL);
	return 0;
}
