/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The numbers of a script.
 * Included wherever something is done with each of them, with F() defined.
 */

/* The request */
F(op)		/* enum script_op */
F(pos)		/* bytes */
F(len)		/* bytes */
F(async)	/* the kiocb has a ki_complete() */
F(split)	/* __iomap_dio_rw() and iomap_dio_complete() by themselves */
F(ki_flags)	/* IOCB_*, besides IOCB_DIRECT and IOCB_WRITE */
F(dio_flags)	/* IOMAP_DIO_* of the caller */
F(done_before)	/* bytes */
F(private)	/* with private data for the file system */
F(ioprio)
F(untraced)	/* the tracepoints are off, as they usually are */
F(log)		/* the record has what the kernel tells its log meanwhile */
F(poison)	/* ki_complete() spoils the kiocb, as one that is freed would be */

/* Its memory */
F(mem)		/* enum script_memory */
F(seg)		/* bytes in each segment but the last; 0: one segment */
F(skew)		/* bytes from the start of a page to that of the memory */
F(odd_seg)	/* from this segment on (1 is the second), each begins 4 bytes late */
F(fault)	/* bytes before the memory cannot be accessed; 0: all can */
F(absent)	/* ... not without a page fault, which is not allowed */
F(same)		/* all of the memory is the same page */
F(big)		/* it is the last so many bytes of a large folio, with nothing behind */
F(moved)	/* the record says where the iterator stands, where C is known to differ */

F(fail_alloc)	/* the kernel has no memory when it is asked for the so-manieth time, from 1 */
F(allocs)	/* the record has what memory the kernel allocates for it, and does not free */

/* The file */
F(size)		/* bytes; 0: 1 MiB; EMPTY */
F(blkbits)	/* log2 of the block size; 0: 12 */
F(cached)	/* bits: pages of the request in the page cache */
F(dirty)	/* bits: ... that are dirty */
F(others)	/* requests of others to it that are in flight */
F(stuck)	/* bits: ... that cannot be dropped */
F(wb_error)	/* what writing them back returns */
F(fsync_error)	/* what ->fsync() returns */
F(is_sync)	/* the inode is marked as S_SYNC */
F(crypt)	/* it is encrypted: enum script_crypt */
F(hint)		/* i_write_hint */
F(late_wq)	/* completions that are deferred wait until the submitter is back */
F(fresh_wq)	/* no completion has been deferred on this super block so far */

/* The disk */
F(lbs)		/* bytes in a logical block; 0: 512 */
F(dma)		/* alignment of memory minus 1; 0: 3 */
F(cache)	/* it has a volatile write cache */
F(fua)		/* ... and can write through it */
F(nowait)	/* it can refuse to wait */
F(poll)		/* it can be polled */
F(atomic)	/* bytes it can write untorn */
F(pi)		/* it has protection information; 2: which is wrong */

/* The file system */
F(next)		/* ->iomap_next() instead of begin and end */
F(no_end)	/* no ->iomap_end() */
F(dops)		/* it has iomap_dio_ops even if there is nothing in them */
F(end_io)	/* ->end_io(): 1 returns the error, 2 returns `end_io_ret` */
F(end_io_ret)
F(submit)	/* enum script_submit */
F(ioend_alone)	/* the worker hands its ioend over by itself, and sees what that returns */
F(set)		/* enum script_set */

/* What becomes of the bios */
F(at_once)	/* bits: these end while they are submitted */
F(at_ctx)	/* ... in this enum script_ctx */
F(fail)		/* bits: these fail with `status` */
F(status)	/* blk_status_t; 0: BLK_STS_IOERR */
F(fail2)	/* bits: these fail with `status2` */
F(status2)
