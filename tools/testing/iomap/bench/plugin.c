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
 * mark and resets them: a line "mark NUMBER TIMER", then a line "ADDRESS INSTRUCTIONS CALLS LOCKED
 * BYTES" for each function that was executed.
 *
 * - ADDRESS is where the function begins, 0 for kernel code in no function, "user" for user space.
 * - TIMER is the number of instructions in timer interrupts. This includes soft interrupts after
 *   them, until a soft interrupt ends I/O. The clock causes these instructions and not the load,
 *   so they are not in the count of any function.
 * - CALLS is how often the first instruction of the function was executed.
 * - LOCKED is the number of instructions with a lock prefix, and of xchg with memory.
 * - BYTES is the number of steps of rep movsb and rep stosb. With -icount, QEMU executes such an
 *   instruction again for each byte, so that each step counts as an instruction. A guest processor
 *   without ERMS, FSRM and FSRS does not have the kernel use them; counts.py refuses any other.
 */

#include "plugin.h"

/*
 * A timer interrupt begins with the first function. It ends with its return or when I/O ends, which
 * for null_blk with irqmode=2 is in the timer interrupt itself.
 */
enum { BEGIN, RETURN, SOFTIRQ, NULL_BLK, NR_TIMER };
static const char *const timer_names[] = {
	"asm_sysvec_apic_timer_interrupt", "irqentry_exit", "blk_done_softirq",
	"null_cmd_timer_expired"
};
static uint64_t timer_starts[NR_TIMER];

/* What is counted. */
enum { INSTRUCTIONS, CALLS, LOCKED, BYTES, NR_COUNTS };

/* The counters, in memory of QEMU, NR_COUNTS for each index of starts[]. */
static struct score *score;

static FILE *out, *cache;
static uint64_t marks, timer;
/* The counters at the start of the current timer interrupt, if there is one. */
static uint64_t (*before)[NR_COUNTS];
int interrupted;

static void on_mark(unsigned int cpu, void *data)
{
	uint64_t (*counts)[NR_COUNTS] = qemu_plugin_scoreboard_find(score, 0);

	fprintf(out, "mark %" PRIu64 " %" PRIu64 "\n", marks++, timer);
	for (size_t i = 0; i < nr; i++) {
		if (!counts[i][INSTRUCTIONS])
			continue;
		if (i)
			fprintf(out, "%" PRIx64, starts[i]);
		else
			fprintf(out, "user");
		for (int n = 0; n < NR_COUNTS; n++)
			fprintf(out, " %" PRIu64, counts[i][n]);
		fputc('\n', out);
	}
	if (fflush(out))
		fail("the counts cannot be written: %m");
	memset(counts, 0, nr * sizeof(*counts));
	timer = 0;
	if (cache)
		cache_mark(marks - 1);
}

static void on_timer_begin(unsigned int cpu, void *data)
{
	/* Another timer interrupt may interrupt the soft interrupts. */
	if (!interrupted)
		memcpy(before, qemu_plugin_scoreboard_find(score, 0), nr * sizeof(*before));
	interrupted = 1;
}

static void on_timer_end(unsigned int cpu, void *data)
{
	uint64_t (*counts)[NR_COUNTS] = qemu_plugin_scoreboard_find(score, 0);

	/* Other interrupts also come here. */
	if (!interrupted)
		return;
	for (size_t i = 0; i < nr; i++)
		timer += counts[i][INSTRUCTIONS] - before[i][INSTRUCTIONS];
	memcpy(counts, before, nr * sizeof(*counts));
	interrupted = 0;
}

static void count(struct insn *insn, size_t index, int what)
{
	struct entry entry = { score, (index * NR_COUNTS + what) * sizeof(uint64_t) };

	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, entry,
							    1);
}

static void call(struct insn *insn, on_exec *callback)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

/* What else than an instruction it is: LOCKED, BYTES, or nothing, which is INSTRUCTIONS. */
static int kind_of(const unsigned char *bytes, size_t size)
{
	static const unsigned char prefixes[] = {
		0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3
	};
	int locked = 0, repeated = 0;
	size_t n = 0;

	for (; n < size && memchr(prefixes, bytes[n], sizeof(prefixes)); n++) {
		locked |= bytes[n] == 0xf0;
		repeated |= bytes[n] >= 0xf2;
	}
	if (locked)
		return LOCKED;
	/* REX */
	n += n < size && bytes[n] >> 4 == 4;
	if (n + 1 < size && (bytes[n] | 1) == 0x87 && bytes[n + 1] >> 6 != 3)
		return LOCKED;
	return repeated && n < size && (bytes[n] == 0xa4 || bytes[n] == 0xaa) ? BYTES : INSTRUCTIONS;
}

/* Adds code to each instruction of a block that counts it. */
static void on_translate(struct tb *tb, void *data)
{
	for (size_t n = 0; n < qemu_plugin_tb_n_insns(tb); n++) {
		struct insn *insn = qemu_plugin_tb_get_insn(tb, n);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		size_t index = index_of(address);
		unsigned char bytes[15];
		size_t size = qemu_plugin_insn_data(insn, bytes, sizeof(bytes));
		int kind = kind_of(bytes, size);

		if (address == timer_starts[BEGIN])
			call(insn, on_timer_begin);
		for (int i = RETURN; i < NR_TIMER; i++)
			if (address == timer_starts[i])
				call(insn, on_timer_end);
		if (cache)
			cache_translate(insn, index, !n);
		count(insn, index, INSTRUCTIONS);
		if (kind != INSTRUCTIONS)
			count(insn, index, kind);
		if (index > 1 && address == starts[index])
			count(insn, index, CALLS);
		if (is_mark(insn))
			call(insn, on_mark);
	}
}

void symbol(const char *name, uint64_t address)
{
	for (int i = 0; i < NR_TIMER; i++)
		if (!strcmp(name, timer_names[i]))
			timer_starts[i] = address;
	cache_symbol(name, address);
}

/* QEMU calls this after it has loaded the plugin. */
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	read_map(argc, argv);
	for (int i = 0; i < NR_TIMER; i++)
		if (!timer_starts[i])
			fail("System.map has no %s", timer_names[i]);
	out = open_argument(argc, argv, "out=", "w");
	if (argument(argc, argv, "cache=")) {
		cache = open_argument(argc, argv, "cache=", "w");
		cache_begin(cache);
	}
	before = calloc(nr, sizeof(*before));
	score = qemu_plugin_scoreboard_new(nr * sizeof(*before));
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate, NULL);
	return 0;
}
