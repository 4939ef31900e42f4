/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The numbers of a script, for inclusion with a definition of F().
 */

/* The request */
F(op)		/* enum script_op */
F(pos)		/* bytes */
F(len)		/* bytes */
F(async)	/* the kiocb has a ki_complete() */
F(split)	/* call __iomap_dio_rw() and iomap_dio_complete() separately */
F(ki_flags)	/* IOCB_*, besides IOCB_DIRECT and IOCB_WRITE */
F(dio_flags)	/* IOMAP_DIO_* of the caller */
F(done_before)	/* bytes */
F(private)	/* pass private data for the file system */
F(ioprio)
F(untraced)	/* the tracepoints are disabled, as on most systems */
F(log)		/* record the messages of the kernel during the call */
F(poison)	/* ki_complete() overwrites the kiocb, as if it were freed */

/* Its memory */
F(mem)		/* enum script_memory */
F(seg)		/* bytes in each segment but the last; 0: one segment */
F(skew)		/* bytes from the start of a page to that of the memory */
F(odd_seg)	/* from this segment on (1 is the second), add 4 to each address */
F(fault)	/* bytes before the first inaccessible one; 0: all are accessible */
F(absent)	/* bytes before the first one that needs a (forbidden) page fault */
F(same)		/* all segments are in the same page */
F(big)		/* it is this many bytes at the end of a large folio */
F(moved)	/* record the position of the iterator also for C (known to differ) */

F(fail_alloc)	/* number of the allocation that fails, from 1 */
F(allocs)	/* record the allocations of the call, and those never freed */

/* The file */
F(size)		/* bytes; 0: 1 MiB; EMPTY */
F(blkbits)	/* log2 of the block size; 0: 12 */
F(cached)	/* bits: pages of the range that are in the page cache */
F(dirty)	/* bits: ... and dirty */
F(others)	/* other requests to the file in flight */
F(stuck)	/* bits: cached pages that cannot be dropped */
F(wb_error)	/* the result of their writeback; without dirty pages, of an earlier one */
F(wb_size)	/* bytes: the size from a writeback on */
F(fsync_error)	/* the result of ->fsync() */
F(is_sync)	/* the inode has S_SYNC */
F(crypt)	/* enum script_crypt */
F(hint)		/* i_write_hint */
F(late_wq)	/* the work queue for completions runs after the call has returned */
F(fresh_wq)	/* the super block has no such work queue so far */

/* The disk */
F(lbs)		/* bytes in a logical block; 0: 512 */
F(dma)		/* alignment of memory minus 1; 0: 3 */
F(cache)	/* the disk has a volatile write cache */
F(fua)		/* the disk supports REQ_FUA */
F(nowait)	/* the disk supports REQ_NOWAIT */
F(poll)		/* the disk supports polling */
F(atomic)	/* largest atomic write in bytes */
F(pi)		/* 1: protection information; 2: reads return wrong one */

/* The file system */
F(next)		/* ->iomap_next() instead of ->iomap_begin() and ->iomap_end() */
F(no_end)	/* no ->iomap_end() */
F(dops)		/* pass iomap_dio_ops even if they are empty */
F(end_io)	/* ->end_io(): 1 returns the error, 2 returns `end_io_ret` */
F(end_io_ret)
F(submit)	/* enum script_submit */
F(inline_copy)	/* IOMAP_DIO_INLINE_UNBOUNCE */
F(ioend_alone)	/* the worker calls iomap_finish_ioend_direct() and records its result */
F(ioend_error)	/* ... with this error, if the bio has none */
F(set)		/* enum script_set */

/* The end of the bios */
F(at_once)	/* bits: bios that end during their submission */
F(at_ctx)	/* ... and their context: enum script_ctx */
F(fail)		/* bits: bios that fail with `status` */
F(status)	/* blk_status_t; 0: BLK_STS_IOERR */
F(fail2)	/* bits: bios that fail with `status2` */
F(status2)
