// SPDX-License-Identifier: GPL-2.0

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/huge_mm.h>
#include <linux/iomap.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/task_io_accounting_ops.h>
#include <linux/uio.h>

__rust_helper void rust_helper_bio_get(struct bio *bio)
{
	bio_get(bio);
}

__rust_helper void rust_helper_bio_release_pages(struct bio *bio,
						 bool mark_dirty)
{
	bio_release_pages(bio, mark_dirty);
}

__rust_helper bool rust_helper_bdev_write_cache(struct block_device *bdev)
{
	return bdev_write_cache(bdev);
}

__rust_helper unsigned int
rust_helper_max_integrity_io_size(struct queue_limits *lim)
{
	return max_integrity_io_size(lim);
}

__rust_helper void rust_helper_blk_wake_io_task(struct task_struct *waiter)
{
	blk_wake_io_task(waiter);
}

__rust_helper void rust_helper_set_current_state(unsigned int state_value)
{
	set_current_state(state_value);
}

__rust_helper void rust_helper___set_current_state(unsigned int state_value)
{
	__set_current_state(state_value);
}

__rust_helper void *rust_helper_kmem_cache_alloc(struct kmem_cache *cachep,
						 gfp_t flags)
{
	return kmem_cache_alloc(cachep, flags);
}

/* _copy_from_iter() and _copy_to_iter() would skip check_copy_size(). */
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

__rust_helper void rust_helper_i_size_write(struct inode *inode, loff_t i_size)
{
	i_size_write(inode, i_size);
}

__rust_helper void rust_helper_inode_dio_begin(struct inode *inode)
{
	inode_dio_begin(inode);
}

__rust_helper void rust_helper_inode_dio_end(struct inode *inode)
{
	inode_dio_end(inode);
}

__rust_helper void rust_helper_mark_inode_dirty(struct inode *inode)
{
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

__rust_helper struct folio *rust_helper_largest_zero_folio(void)
{
	return largest_zero_folio();
}

__rust_helper size_t rust_helper_folio_size(const struct folio *folio)
{
	return folio_size(folio);
}
