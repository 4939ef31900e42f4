// SPDX-License-Identifier: GPL-2.0

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/fserror.h>
#include <linux/huge_mm.h>
#include <linux/iomap.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/task_io_accounting_ops.h>
#include <linux/uio.h>

__rust_helper bool rust_helper_bdev_write_cache(struct block_device *bdev)
{
	return bdev_write_cache(bdev);
}

/* Zero if the device has no integrity profile. */
__rust_helper unsigned int
rust_helper_iomap_max_integrity_bytes(struct block_device *bdev)
{
	struct queue_limits *lim = bdev_limits(bdev);

	return lim->integrity.metadata_size ? max_integrity_io_size(lim) : 0;
}

__rust_helper void rust_helper_blk_wake_io_task(struct task_struct *waiter)
{
	blk_wake_io_task(waiter);
}

__rust_helper void rust_helper_iomap_dio_set_uninterruptible(void)
{
	set_current_state(TASK_UNINTERRUPTIBLE);
}

__rust_helper void rust_helper_iomap_dio_set_running(void)
{
	__set_current_state(TASK_RUNNING);
}

__rust_helper void *rust_helper_kmem_cache_alloc(struct kmem_cache *cachep,
						 gfp_t flags)
{
	return kmem_cache_alloc(cachep, flags);
}

/* With the checks of a hardened kernel, which the functions behind them do not have. */
__rust_helper size_t rust_helper_copy_from_iter(void *addr, size_t bytes,
						struct iov_iter *i)
{
	return copy_from_iter(addr, bytes, i);
}

__rust_helper size_t rust_helper_copy_to_iter(const void *addr, size_t bytes,
					      struct iov_iter *i)
{
	return copy_to_iter(addr, bytes, i);
}

__rust_helper void rust_helper_task_io_account_write(size_t bytes)
{
	task_io_account_write(bytes);
}

__rust_helper loff_t rust_helper_i_size_read(const struct inode *inode)
{
	return i_size_read(inode);
}

/* An inline mapping was written up to byte @end: the caller holds i_rwsem. */
__rust_helper void rust_helper_iomap_inline_written(struct inode *inode,
						    loff_t end)
{
	if (end > inode->i_size)
		i_size_write(inode, end);
	mark_inode_dirty(inode);
}

__rust_helper bool rust_helper_iocb_is_dsync(const struct kiocb *iocb)
{
	return iocb_is_dsync(iocb);
}

__rust_helper ssize_t rust_helper_generic_write_sync(struct kiocb *iocb,
						     ssize_t count)
{
	return generic_write_sync(iocb, count);
}

__rust_helper void
rust_helper_fserror_report_io_nofs(struct inode *inode, enum fserror_type type,
				   loff_t pos, u64 len, int error)
{
	fserror_report_io(inode, type, pos, len, error, GFP_NOFS);
}

__rust_helper struct folio *rust_helper_largest_zero_folio(void)
{
	return largest_zero_folio();
}

__rust_helper size_t rust_helper_folio_size(const struct folio *folio)
{
	return folio_size(folio);
}

__rust_helper void rust_helper_init_sync_kiocb(struct kiocb *kiocb,
					       struct file *filp)
{
	init_sync_kiocb(kiocb, filp);
}
