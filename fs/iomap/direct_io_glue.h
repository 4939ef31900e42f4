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

/* Whether ->end_io may be called once for many writes.  In C. */
bool iomap_dio_merges_end_io(const struct iomap_dio_ops *dops);

#endif /* _IOMAP_DIRECT_IO_GLUE_H */
