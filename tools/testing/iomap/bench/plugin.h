/* SPDX-License-Identifier: GPL-2.0 */
/* What plugin.c, which counts, cache.c, which simulates caches, and lines.c have in common, and map.c. */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What is used of QEMU's plugin interface, in version 7 (QEMU 11.0 and later). QEMU refuses a
 * plugin for a version that it does not support. The header is include/plugins/qemu-plugin.h, which
 * Debian has in no package.
 */
struct tb;
struct insn;
struct score;
struct entry {
	struct score *score;
	size_t offset;
};

struct hwaddr;

enum { QEMU_PLUGIN_INLINE_ADD_U64 = 0, QEMU_PLUGIN_CB_NO_REGS = 0, QEMU_PLUGIN_MEM_RW = 3 };
typedef void on_exec(unsigned int cpu, void *data);
typedef void on_memory(unsigned int cpu, uint32_t info, uint64_t address, void *data);
typedef void on_trans(struct tb *tb, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, on_trans *callback, void *data);
size_t qemu_plugin_tb_n_insns(const struct tb *tb);
struct insn *qemu_plugin_tb_get_insn(const struct tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct insn *insn);
size_t qemu_plugin_insn_size(const struct insn *insn);
size_t qemu_plugin_insn_data(const struct insn *insn, void *to, size_t size);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct insn *insn, int operation,
							 struct entry entry, uint64_t constant);
void qemu_plugin_register_vcpu_insn_exec_cb(struct insn *insn, on_exec *callback, int flags,
					    void *data);
void qemu_plugin_register_vcpu_mem_cb(struct insn *insn, on_memory *callback, int flags, int rw,
				      void *data);
unsigned int qemu_plugin_mem_size_shift(uint32_t info);
struct hwaddr *qemu_plugin_get_hwaddr(uint32_t info, uint64_t address);
bool qemu_plugin_hwaddr_is_io(const struct hwaddr *hwaddr);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct hwaddr *hwaddr);
bool qemu_plugin_translate_vaddr(uint64_t address, uint64_t *physical);
struct score *qemu_plugin_scoreboard_new(size_t size);
void *qemu_plugin_scoreboard_find(struct score *score, unsigned int cpu);

/* map.c: the boundary between user space, below, and the kernel. */
#define KERNEL (1ULL << 63)

/* Ends QEMU. */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);
/* What is behind "NAME=" in an argument; NULL if there is none. */
const char *argument(int argc, char **argv, const char *name);
/* Opens the file that an argument names. */
FILE *open_argument(int argc, char **argv, const char *name, const char *mode);
/* Whether this is the mark, an instruction without effect that no compiler emits. */
bool is_mark(const struct insn *insn);
/*
 * The addresses of the functions, ascending. Index 0 is user space, and 1 is kernel code in no function; both have
 * the address 0.
 */
extern uint64_t *starts;
extern size_t nr;
size_t index_of(uint64_t address);
/* Reads the functions from System.map, the argument "map=", and calls symbol() for each name. */
void read_map(int argc, char **argv);
void symbol(const char *name, uint64_t address);

/* Whether the processor is in a timer interrupt, see plugin.c. */
extern int interrupted;

/* These are called only if the plugin has the argument "cache=". */
void cache_symbol(const char *name, uint64_t address);
void cache_begin(FILE *file);
void cache_translate(struct insn *insn, size_t function, bool first);
void cache_mark(uint64_t number);
