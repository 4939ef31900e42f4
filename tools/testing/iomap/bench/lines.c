// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the cache lines that move between the processors of a guest.
 *
 * Arguments, after "-plugin FILE" on the command line of QEMU:
 *
 *   map=PATH   the System.map of the guest's kernel
 *   out=PATH   the file to write
 *   turn=N     the instructions a processor executes before it is the next one's turn, in the mean
 *   only=turns these turns all the time, and nothing is counted
 *
 * The first line that the plugin writes is "turn N". The guest executes the mark in user space to
 * begin a window and again to end it, and then the plugin writes what it counted:
 *
 *   window NUMBER
 *   call FUNCTION COUNT             how often a function of called[] was called
 *   inode ADDRESS FUNCTION          the first argument of a function *_iomap_begin
 *   moved ADDRESS FUNCTION COUNT    how often the function (0 in user space) moved a line by an
 *                                   access to this address
 *
 * Caches are infinite, and empty when a window begins. A line moves when a processor reads what
 * another has written since it last had the line, or writes what others have. An instruction that
 * reads and writes a line moves it once, as with a lock prefix. Of user space, only the page with
 * the mark counts. Timer interrupts do not.
 */

#include "plugin.h"

/* More of QEMU's plugin interface, see plugin.h, and of glib. */
struct bytes {
	uint8_t *data;
	unsigned int len;
};
struct reg {
	void *handle;
	const char *name, *feature;
	bool readonly;
};
struct regs {
	struct reg *data;
	unsigned int len;
};

enum { QEMU_PLUGIN_CB_R_REGS = 1 };

void qemu_plugin_register_vcpu_tb_exec_cb(struct tb *tb, on_exec *callback, int flags, void *data);
bool qemu_plugin_mem_is_store(uint32_t info);
struct regs *qemu_plugin_get_registers(void);
bool qemu_plugin_read_register(void *handle, struct bytes *to);
struct bytes *g_byte_array_new(void);
struct bytes *g_byte_array_set_size(struct bytes *array, unsigned int size);

/*
 * QEMU exports these, but not for plugins. When processors share a thread, callbacks are given the
 * number of the processor that translated the code, and not of the one that executes it.
 */
extern __thread void *current_cpu;
void cpu_exit(void *cpu);

#define PAGE_SHIFT 12
#define LINE_SHIFT 6
#define MAX_CPUS 8

static struct {
	const char *name;
	uint64_t start, calls;
} called[] = {
	{ .name = "__x64_sys_pread64" },
	{ .name = "__x64_sys_pwrite64" },
	{ .name = "c_iomap_dio_rw" },
	{ .name = "c___iomap_dio_read_simple" },
};
static uint64_t timer_begin, timer_end;

/* The functions *_iomap_begin. */
static uint64_t begins[64];
static size_t nr_begins;

/* Which processors have the line, as bits, and which wrote it last. */
struct line {
	uint64_t number;
	uint8_t holders, writer;
};

struct move {
	uint64_t address, function, count;
};

/* Hash tables. A number or address of 0 is free space. */
#define NR_LINES (1UL << 22)
#define NR_MOVES (1UL << 16)
static struct line *lines;
static struct move *moves;
static size_t used_lines, used_moves;

static struct {
	uint64_t address, function;
} inodes[64];
static size_t nr_inodes;

static void *cpus[MAX_CPUS];
static bool in_timer[MAX_CPUS];
static bool counting, only_turns;
static uint64_t turn, mark_page, windows;
static FILE *out;

/* A number for the processor that executes this. */
static int this_cpu(void)
{
	for (int i = 0; i < MAX_CPUS; i++) {
		if (!cpus[i])
			cpus[i] = current_cpu;
		if (cpus[i] == current_cpu)
			return i;
	}
	fail("the guest has more than 8 processors");
}

static size_t hash(uint64_t a, uint64_t b)
{
	return (a * 0x9e3779b97f4a7c15 ^ b * 0xc2b2ae3d27d4eb4f) >> 32;
}

static void count_move(uint64_t address, uint64_t function)
{
	size_t i = hash(address, function) % NR_MOVES;

	while (moves[i].address && (moves[i].address != address || moves[i].function != function))
		i = (i + 1) % NR_MOVES;
	if (!moves[i].address && ++used_moves > NR_MOVES / 2)
		fail("too many lines move for its table");
	moves[i].address = address;
	moves[i].function = function;
	moves[i].count++;
}

/* Does the line move? */
static bool access_line(uint64_t number, int cpu, bool write)
{
	uint8_t me = 1 << cpu, others;
	size_t i = hash(number, 0) % NR_LINES;
	struct line *line;
	bool moves;

	while (lines[i].number && lines[i].number != number)
		i = (i + 1) % NR_LINES;
	line = &lines[i];
	if (!line->number && ++used_lines > NR_LINES / 2)
		fail("the guest accesses too many lines for its table");
	line->number = number;
	others = (line->holders | line->writer) & ~me;
	if (write) {
		moves = others;
		line->holders = line->writer = me;
	} else {
		moves = !(line->holders & me) && line->writer & ~me;
		line->holders |= me;
	}
	return moves;
}

static void on_access(unsigned int wrong, uint32_t info, uint64_t address, void *data)
{
	/* The line that the current instruction has read, if that moved it. */
	static uint64_t read_by, read_line;
	uint64_t pc = (uintptr_t)data, last = address + (1 << qemu_plugin_mem_size_shift(info)) - 1;
	bool write = qemu_plugin_mem_is_store(info);
	int cpu;

	if (!counting || (pc >= KERNEL && address < KERNEL))
		return;
	cpu = this_cpu();
	if (in_timer[cpu])
		return;
	for (uint64_t line = address >> LINE_SHIFT; line <= last >> LINE_SHIFT; line++) {
		bool moved = access_line(line, cpu, write);

		if (moved && !(write && read_by == pc && read_line == line))
			count_move(address, starts[index_of(pc)]);
		if (!write) {
			read_by = moved ? pc : 0;
			read_line = line;
		}
	}
}

static void on_mark(unsigned int wrong, void *data)
{
	counting = !counting;
	if (counting) {
		memset(lines, 0, NR_LINES * sizeof(*lines));
		memset(moves, 0, NR_MOVES * sizeof(*moves));
		used_lines = used_moves = nr_inodes = 0;
		for (size_t i = 0; i < sizeof(called) / sizeof(*called); i++)
			called[i].calls = 0;
		return;
	}
	fprintf(out, "window %" PRIu64 "\n", windows++);
	for (size_t i = 0; i < sizeof(called) / sizeof(*called); i++)
		fprintf(out, "call %s %" PRIu64 "\n", called[i].name, called[i].calls);
	for (size_t i = 0; i < nr_inodes; i++)
		fprintf(out, "inode %" PRIx64 " %" PRIx64 "\n", inodes[i].address,
			inodes[i].function);
	for (size_t i = 0; i < NR_MOVES; i++)
		if (moves[i].address)
			fprintf(out, "moved %" PRIx64 " %" PRIx64 " %" PRIu64 "\n",
				moves[i].address, moves[i].function, moves[i].count);
	if (fflush(out))
		fail("what was counted cannot be written");
}

static void on_call(unsigned int wrong, void *calls)
{
	++*(uint64_t *)calls;
}

static void on_timer_begin(unsigned int wrong, void *data)
{
	in_timer[this_cpu()] = true;
}

static void on_timer_end(unsigned int wrong, void *data)
{
	in_timer[this_cpu()] = false;
}

/* The first argument is a struct inode. */
static void on_iomap_begin(unsigned int wrong, void *data)
{
	static struct bytes *value;
	static void *rdi;
	uint64_t address;

	if (!counting)
		return;
	if (!value) {
		struct regs *regs = qemu_plugin_get_registers();

		value = g_byte_array_new();
		for (unsigned int i = 0; i < regs->len; i++)
			if (!strcmp(regs->data[i].name, "rdi"))
				rdi = regs->data[i].handle;
	}
	g_byte_array_set_size(value, 0);
	if (!rdi || !qemu_plugin_read_register(rdi, value) || value->len != sizeof(address))
		fail("QEMU does not tell the register rdi");
	memcpy(&address, value->data, sizeof(address));
	for (size_t i = 0; i < nr_inodes; i++)
		if (inodes[i].address == address)
			return;
	if (nr_inodes == sizeof(inodes) / sizeof(*inodes))
		return;
	inodes[nr_inodes].address = address;
	inodes[nr_inodes++].function = (uintptr_t)data;
}

static void call(struct insn *insn, on_exec *callback, int flags, void *data)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, flags, data);
}

/* The first instruction of a function. */
static void on_translate_entry(struct insn *insn, uint64_t start)
{
	for (size_t i = 0; i < sizeof(called) / sizeof(*called); i++)
		if (start == called[i].start)
			call(insn, on_call, QEMU_PLUGIN_CB_NO_REGS, &called[i].calls);
	if (start == timer_begin)
		call(insn, on_timer_begin, QEMU_PLUGIN_CB_NO_REGS, NULL);
	if (start == timer_end)
		call(insn, on_timer_end, QEMU_PLUGIN_CB_NO_REGS, NULL);
	for (size_t i = 0; i < nr_begins; i++)
		if (start == begins[i])
			call(insn, on_iomap_begin, QEMU_PLUGIN_CB_R_REGS, (void *)start);
}

/*
 * Before a block of instructions: ends the turn when it is long enough. QEMU's own turns are some
 * milliseconds, which hides contention. After turns of equal length, processors that do the same
 * would stay as far apart as they happen to be.
 */
static void on_block(unsigned int wrong, void *instructions)
{
	static uint32_t random = 1;
	static int64_t left;

	left -= (intptr_t)instructions;
	if (!(counting || only_turns) || left > 0)
		return;
	random ^= random << 13;
	random ^= random >> 17;
	random ^= random << 5;
	left = 1 + random % (2 * turn);
	cpu_exit(current_cpu);
}

static void on_translate(struct tb *tb, void *data)
{
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS,
					     (void *)qemu_plugin_tb_n_insns(tb));
	if (only_turns)
		return;
	for (size_t n = 0; n < qemu_plugin_tb_n_insns(tb); n++) {
		struct insn *insn = qemu_plugin_tb_get_insn(tb, n);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);

		if (is_mark(insn)) {
			call(insn, on_mark, QEMU_PLUGIN_CB_NO_REGS, NULL);
			mark_page = pc >> PAGE_SHIFT;
		}
		if (pc >= KERNEL && pc == starts[index_of(pc)])
			on_translate_entry(insn, pc);
		if (pc >= KERNEL || pc >> PAGE_SHIFT == mark_page)
			qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_RW, (void *)pc);
	}
}

void symbol(const char *name, uint64_t address)
{
	const char *end = strstr(name, "_iomap_begin");

	for (size_t i = 0; i < sizeof(called) / sizeof(*called); i++)
		if (!strcmp(name, called[i].name))
			called[i].start = address;
	if (!strcmp(name, "asm_sysvec_apic_timer_interrupt"))
		timer_begin = address;
	if (!strcmp(name, "irqentry_exit"))
		timer_end = address;
	if (end && !strcmp(end, "_iomap_begin") && nr_begins < sizeof(begins) / sizeof(*begins))
		begins[nr_begins++] = address;
}

/* QEMU calls this after it has loaded the plugin. */
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	const char *length = argument(argc, argv, "turn=");

	read_map(argc, argv);
	out = open_argument(argc, argv, "out=", "w");
	turn = length ? strtoul(length, NULL, 10) : 0;
	if (!turn)
		fail("turn= is missing");
	only_turns = argument(argc, argv, "only=");
	lines = calloc(NR_LINES, sizeof(*lines));
	moves = calloc(NR_MOVES, sizeof(*moves));
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate, NULL);
	fprintf(out, "turn %" PRIu64 "\n", turn);
	return 0;
}
