// SPDX-License-Identifier: GPL-2.0
/*
 * Code coverage of both implementations, for tools/testing/iomap/coverage.sh.
 *
 * The C file is compiled with the line counters of gcov, and the Rust code with a
 * flag for each edge (Makefile.coverage).  This file contains the functions that the
 * compilers call at run time, and /sys/kernel/debug/iomap_dio_coverage/:
 *
 *   gcda	the data file that belongs to direct_io_compare.gcno
 *   edges	the address of each edge, and whether it was reached
 *
 * kernel/gcov/ cannot be used: with clang its callbacks allocate memory, but User
 * Mode Linux runs constructors before the allocators work, like those of any
 * program.  The functions here only store what the compiler passes.
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <asm/sections.h>

/* --- C: the counters of gcov --- */

#define GCDA_MAGIC		0x67636461
#define GCDA_FUNCTION		0x01000000
#define GCDA_COUNTERS		0x01a10000

void llvm_gcov_init(void (*writeout)(void), void (*reset)(void));
void llvm_gcda_start_file(const char *name, u32 version, u32 checksum);
void llvm_gcda_emit_function(u32 ident, u32 func_checksum, u32 cfg_checksum);
void llvm_gcda_emit_arcs(u32 n, u64 *counters);
void llvm_gcda_summary_info(void);
void llvm_gcda_end_file(void);

static void (*gcov_writeout)(void);
static DEFINE_MUTEX(gcov_mutex);
/* The output of gcov_writeout(), whose callbacks get no argument for it. */
static struct seq_file *gcov_out;

void llvm_gcov_init(void (*writeout)(void), void (*reset)(void))
{
	gcov_writeout = writeout;
}

static void put(u32 word)
{
	seq_write(gcov_out, &word, sizeof(word));
}

void llvm_gcda_start_file(const char *name, u32 version, u32 checksum)
{
	put(GCDA_MAGIC);
	put(version);
	put(checksum);
}

void llvm_gcda_emit_function(u32 ident, u32 func_checksum, u32 cfg_checksum)
{
	put(GCDA_FUNCTION);
	put(3);
	put(ident);
	put(func_checksum);
	put(cfg_checksum);
}

void llvm_gcda_emit_arcs(u32 n, u64 *counters)
{
	put(GCDA_COUNTERS);
	put(2 * n);
	seq_write(gcov_out, counters, n * sizeof(*counters));
}

void llvm_gcda_summary_info(void)
{
}

void llvm_gcda_end_file(void)
{
}

static int gcda_show(struct seq_file *m, void *v)
{
	if (!gcov_writeout)
		return -ENODATA;
	guard(mutex)(&gcov_mutex);
	gcov_out = m;
	gcov_writeout();
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(gcda);

/* --- Rust: a flag for each edge --- */

struct edge {
	unsigned long pc;
	unsigned long flags;
};

void __sanitizer_cov_bool_flag_init(const u8 *begin, const u8 *end);
void __sanitizer_cov_pcs_init(const struct edge *begin, const struct edge *end);

static const u8 *reached, *reached_end;
static const struct edge *edges, *edges_end;

/* Each object calls these with the joined tables of all objects. */
void __sanitizer_cov_bool_flag_init(const u8 *begin, const u8 *end)
{
	reached = begin;
	reached_end = end;
}

void __sanitizer_cov_pcs_init(const struct edge *begin, const struct edge *end)
{
	edges = begin;
	edges_end = end;
}

static int edges_show(struct seq_file *m, void *v)
{
	if (edges == edges_end || edges_end - edges != reached_end - reached)
		return -ENODATA;
	/* The kernel may run at another address than it was linked to. */
	seq_printf(m, "%lx _stext\n", (unsigned long)_stext);
	for (long i = 0; i < edges_end - edges; i++)
		seq_printf(m, "%lx %d\n", edges[i].pc, reached[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(edges);

static int __init coverage_init(void)
{
	struct dentry *dir = debugfs_create_dir("iomap_dio_coverage", NULL);

	debugfs_create_file("gcda", 0400, dir, NULL, &gcda_fops);
	debugfs_create_file("edges", 0400, dir, NULL, &edges_fops);
	return 0;
}
late_initcall(coverage_init);
