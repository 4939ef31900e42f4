/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declares both implementations of direct I/O under separate names.
 */
#ifndef _IOMAP_DIRECT_IO_COMPARE_H
#define _IOMAP_DIRECT_IO_COMPARE_H

#include <linux/iomap.h>

#define IOMAP_DIO_DECLARE(impl)						\
ssize_t impl##_iomap_dio_rw(struct kiocb *iocb, struct iov_iter *iter,	\
		const struct iomap_ops *ops,				\
		const struct iomap_dio_ops *dops,			\
		unsigned int dio_flags, void *private,			\
		size_t done_before);					\
struct iomap_dio *impl##___iomap_dio_rw(struct kiocb *iocb,		\
		struct iov_iter *iter, const struct iomap_ops *ops,	\
		const struct iomap_dio_ops *dops,			\
		unsigned int dio_flags, void *private,			\
		size_t done_before);					\
ssize_t impl##___iomap_dio_read_simple(struct kiocb *iocb,		\
		struct iov_iter *iter, struct iomap_iter *iomi);	\
ssize_t impl##_iomap_dio_complete(struct iomap_dio *dio);		\
void impl##_iomap_dio_bio_end_io(struct bio *bio);			\
u32 impl##_iomap_finish_ioend_direct(struct iomap_ioend *ioend)

IOMAP_DIO_DECLARE(c);
IOMAP_DIO_DECLARE(rust);

/* Chooses the implementation of new requests. */
void iomap_dio_choose(bool c);

/*
 * The first word of a Rust request.  A C request begins with a pointer to its
 * kiocb, which is never this.
 */
#define IOMAP_DIO_RUST_MARK	1

#endif /* _IOMAP_DIRECT_IO_COMPARE_H */
