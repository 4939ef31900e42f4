/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface between the Rust direct I/O path and its C glue.
 *
 * Included by bindgen as well, so that the Rust side cannot disagree with it.
 */
#ifndef _IOMAP_DIRECT_IO_GLUE_H
#define _IOMAP_DIRECT_IO_GLUE_H

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/iomap.h>
#include "internal.h"
#include "trace.h"

/* Sets up the memory of requests.  In Rust. */
int iomap_dio_rust_init(void);

/* Warns, rate-limited, that a page was dirtied during direct I/O.  In C. */
void iomap_dio_warn_collision(struct kiocb *iocb);

/* What is counted with CONFIG_IOMAP_DIO_STATS; rust/kernel/iomap/stats.rs explains it. */
enum {
	IOMAP_DIO_STAT_SIMPLE_READ,
	IOMAP_DIO_STAT_DIRECT,
	IOMAP_DIO_STAT_DEFERRED,
	IOMAP_DIO_STAT_BOUNCE,
	IOMAP_DIO_STAT_BY_SUBMITTER,
	IOMAP_DIO_STAT_BY_LAST_BIO,
	IOMAP_DIO_STAT_BY_WORKER,
	IOMAP_DIO_STAT_BY_IOEND,
	IOMAP_DIO_STAT_WORKER_RUNS,
	IOMAP_DIO_STAT_MERGED_RUNS,
	IOMAP_DIO_STAT_MERGED_WRITES,
	IOMAP_DIO_STAT_SHARED_FLUSHES,
	IOMAP_DIO_STAT_SHARING_WRITES,
	IOMAP_DIO_STAT_PUNT_UNWRITTEN,
	IOMAP_DIO_STAT_PUNT_COW,
	IOMAP_DIO_STAT_PUNT_NEW,
	IOMAP_DIO_STAT_PUNT_EXTEND,
	IOMAP_DIO_STAT_PUNT_SYNC,
	IOMAP_DIO_STAT_PUNT_INVALIDATE,
	IOMAP_DIO_STAT_PUNT_ERROR,
	IOMAP_DIO_STAT_AGAIN_CACHE,
	IOMAP_DIO_STAT_AGAIN_MAPPING,
	IOMAP_DIO_STAT_AGAIN_SUBMITTED,
	IOMAP_DIO_NR_STATS
};

/* Counts, in any context.  In C. */
void iomap_dio_count(unsigned int stat, unsigned long n);

#endif /* _IOMAP_DIRECT_IO_GLUE_H */
