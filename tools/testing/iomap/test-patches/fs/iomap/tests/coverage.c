// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/iomap_dio_coverage: the counters that the compilers have added to direct I/O,
 * for tools/testing/iomap/coverage.sh.  What else a profile contains is in the kernel image.
 */
#include <linux/debugfs.h>
#include <linux/init.h>

extern char __start___llvm_prf_cnts[], __stop___llvm_prf_cnts[];

static struct debugfs_blob_wrapper counters = { .data = __start___llvm_prf_cnts };

static int __init coverage_init(void)
{
	counters.size = __stop___llvm_prf_cnts - __start___llvm_prf_cnts;
	debugfs_create_blob("iomap_dio_coverage", 0400, NULL, &counters);
	return 0;
}
late_initcall(coverage_init);
