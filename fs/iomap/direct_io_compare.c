// SPDX-License-Identifier: GPL-2.0
/*
 * Compiles the C implementation of direct I/O under other names.
 *
 * The headers come before the macros, so that the macros rename only the
 * definitions, not the declarations or the tracepoints.  The renamed symbols are
 * not exported: callers go through direct_io_switch.c.
 */
#include <linux/bio-integrity.h>
#include <linux/blk-crypto.h>
#include <linux/export.h>
#include <linux/fscrypt.h>
#include <linux/fserror.h>
#include <linux/init.h>
#include <linux/iomap.h>
#include <linux/pagemap.h>
#include <linux/task_io_accounting_ops.h>
#include "internal.h"
#include "trace.h"
#include "direct_io_compare.h"

#undef EXPORT_SYMBOL_GPL
#define EXPORT_SYMBOL_GPL(sym)

#define iomap_dio_rw			c_iomap_dio_rw
#define __iomap_dio_rw			c___iomap_dio_rw
#define __iomap_dio_read_simple		c___iomap_dio_read_simple
#define iomap_dio_complete		c_iomap_dio_complete
#define iomap_dio_bio_end_io		c_iomap_dio_bio_end_io
#define iomap_finish_ioend_direct	c_iomap_finish_ioend_direct

#include "direct-io.c"
