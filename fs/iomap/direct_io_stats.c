// SPDX-License-Identifier: GPL-2.0
/*
 * The counters of the Rust direct I/O path: /sys/kernel/debug/iomap/dio_stats.
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include "direct_io_glue.h"

struct iomap_dio_stats {
	unsigned long count[IOMAP_DIO_NR_STATS];
};

static DEFINE_PER_CPU(struct iomap_dio_stats, iomap_dio_stats);

static const char *const iomap_dio_stat_names[IOMAP_DIO_NR_STATS] = {
	[IOMAP_DIO_STAT_SIMPLE_READ] = "simple_read",
	[IOMAP_DIO_STAT_DIRECT] = "direct",
	[IOMAP_DIO_STAT_DEFERRED] = "deferred",
	[IOMAP_DIO_STAT_BOUNCE] = "bounce",
	[IOMAP_DIO_STAT_BY_SUBMITTER] = "by_submitter",
	[IOMAP_DIO_STAT_BY_LAST_BIO] = "by_last_bio",
	[IOMAP_DIO_STAT_BY_WORKER] = "by_worker",
	[IOMAP_DIO_STAT_BY_IOEND] = "by_ioend",
	[IOMAP_DIO_STAT_WORKER_RUNS] = "worker_runs",
	[IOMAP_DIO_STAT_MERGED_RUNS] = "merged_runs",
	[IOMAP_DIO_STAT_MERGED_WRITES] = "merged_writes",
	[IOMAP_DIO_STAT_SHARED_FLUSHES] = "shared_flushes",
	[IOMAP_DIO_STAT_SHARING_WRITES] = "sharing_writes",
	[IOMAP_DIO_STAT_PUNT_UNWRITTEN] = "punt_unwritten",
	[IOMAP_DIO_STAT_PUNT_COW] = "punt_cow",
	[IOMAP_DIO_STAT_PUNT_NEW] = "punt_new",
	[IOMAP_DIO_STAT_PUNT_EXTEND] = "punt_extend",
	[IOMAP_DIO_STAT_PUNT_SYNC] = "punt_sync",
	[IOMAP_DIO_STAT_PUNT_INVALIDATE] = "punt_invalidate",
	[IOMAP_DIO_STAT_PUNT_ERROR] = "punt_error",
	[IOMAP_DIO_STAT_AGAIN_CACHE] = "again_cache",
	[IOMAP_DIO_STAT_AGAIN_MAPPING] = "again_mapping",
	[IOMAP_DIO_STAT_AGAIN_SUBMITTED] = "again_submitted",
};

void iomap_dio_count(unsigned int stat, unsigned long n)
{
	this_cpu_add(iomap_dio_stats.count[stat], n);
}

static int dio_stats_show(struct seq_file *m, void *v)
{
	unsigned int cpu, stat;

	seq_printf(m, "%-16s %10s", "", "sum");
	for_each_possible_cpu(cpu)
		seq_printf(m, "    CPU%-3u", cpu);
	seq_putc(m, '\n');

	for (stat = 0; stat < IOMAP_DIO_NR_STATS; stat++) {
		unsigned long sum = 0;

		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu(iomap_dio_stats, cpu).count[stat]);
		seq_printf(m, "%-16s %10lu", iomap_dio_stat_names[stat], sum);
		for_each_possible_cpu(cpu)
			seq_printf(m, " %9lu",
				   READ_ONCE(per_cpu(iomap_dio_stats, cpu).count[stat]));
		seq_putc(m, '\n');
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(dio_stats);

static int __init iomap_dio_stats_init(void)
{
	debugfs_create_file("dio_stats", 0444, debugfs_create_dir("iomap", NULL),
			    NULL, &dio_stats_fops);
	return 0;
}
fs_initcall(iomap_dio_stats_init);
