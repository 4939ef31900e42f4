// SPDX-License-Identifier: GPL-2.0
/*
 * The parts of the Rust direct I/O path that have to be C: exported symbols, an
 * initcall, and a rate-limited message with a file name.
 */
#include <linux/init.h>
#include <linux/panic.h>
#include <linux/ratelimit.h>
#include "direct_io_glue.h"

EXPORT_SYMBOL_GPL(iomap_dio_rw);
EXPORT_SYMBOL_GPL(__iomap_dio_rw);
EXPORT_SYMBOL_GPL(__iomap_dio_read_simple);
EXPORT_SYMBOL_GPL(iomap_dio_complete);
EXPORT_SYMBOL_GPL(iomap_dio_bio_end_io);

void iomap_dio_warn_collision(struct kiocb *iocb)
{
	pr_warn_ratelimited("Direct I/O collision with buffered writes! File: %pD4 Comm: %.20s\n",
			iocb->ki_filp, current->comm);
}

static int __init iomap_dio_glue_init(void)
{
	if (iomap_dio_rust_init())
		panic("iomap: no memory for direct I/O\n");
	return 0;
}
fs_initcall(iomap_dio_glue_init);
