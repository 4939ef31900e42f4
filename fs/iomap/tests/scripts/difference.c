// SPDX-License-Identifier: GPL-2.0
/*
 * Scripts by name: where C is odd or wrong.  Those with .differs are all the
 * differences that there are; Documentation/rust/iomap.rst gives the reasons.
 * The others show that both do the same.
 */
#include <linux/blk_types.h>
#include <linux/fs.h>
#include <linux/iomap.h>
#include <linux/sizes.h>
#include "../script.h"

const struct script difference_scripts[] = {
	/* Q1: 7.3-rc7 returned 0 */
	{
		.name = "Q1 D74 the error of a bad buffer survives zeroing of the tail",
		.op = OP_WRITE, .pos = 512, .len = 512, .fault = 4,
		.maps = 1, .map = { { .type = MAP_UNWRITTEN } }, .end_io = 1,
		.result = -EFAULT,
		.shows = { "bio0 write sector=2048 size=512", "vecs=zero:512(1)",
			   "bio1 write sector=2049 size=3584", "vecs=zero:3584(1)",
			   "end_io size=0 error=-14", "return -14 ki_pos=512" },
	},
	{
		.name = "Q1 the error of a bad buffer survives zeroing of the tail of a new block",
		.op = OP_WRITE, .pos = 512, .len = 512, .fault = 4, .async = 1,
		.maps = 1, .map = { { .flags = IOMAP_F_NEW } }, .end_io = 1,
		.dio_flags = IOMAP_DIO_PARTIAL,
		.result = -EFAULT,
		.shows = { "bio1 write", "vecs=zero:3584(1)", "trace queued", "return -529",
			   "end_io size=0 error=-14", "ki_complete -14" },
	},
	{
		.name = "Q1 the error of a bad buffer survives zeroing past the end of the file",
		.op = OP_WRITE, .pos = 512, .len = 512, .fault = 4, .size = 512,
		.result = -EFAULT,
		.shows = { "bio0 write sector=2049 size=3584", "vecs=zero:3584(1)", "return -14" },
	},

	/* Q2 */
	{
		.name = "Q2 a simple read that must not wait works on a disk without nowait",
		.differs = "Q2: REQ_NOWAIT only on devices that take it; C: -EOPNOTSUPP",
		.op = OP_SIMPLE, .len = 4096, .ki_flags = IOCB_NOWAIT,
		.result = 4096,
		.shows = { "bio0 read sector=2048 size=4096 opf=SYNC vecs", "return 4096" },
		.never = { "fserror", "opf=SYNC|NOWAIT" },
	},
	{
		.name = "Q2 so does an asynchronous one, and nothing is reported",
		.differs = "Q2: REQ_NOWAIT only on devices that take it; C: reports -EOPNOTSUPP",
		.op = OP_SIMPLE, .len = 4096, .ki_flags = IOCB_NOWAIT, .async = 1,
		.result = 4096,
		.shows = { "bio0 read sector=2048 size=4096 opf= vecs", "return -529",
			   "ki_complete 4096" },
		.never = { "fserror" },
	},
	{
		.name = "Q2 a disk that knows of it is told",
		.op = OP_SIMPLE, .len = 4096, .ki_flags = IOCB_NOWAIT, .async = 1, .nowait = 1,
		.result = 4096,
		.shows = { "bio0 read sector=2048 size=4096 opf=NOWAIT vecs", "ki_complete 4096" },
	},

	/* Q3 */
	{
		.name = "Q3 the trace of a simple read does not look at a kiocb that is complete",
		.differs = "Q3: nothing of the kiocb is read after submission; C: ki_pos is",
		.op = OP_SIMPLE, .pos = 4096, .len = 4096, .async = 1, .at_once = 1, .poison = 1,
		.result = 4096,
		.shows = { "ki_complete 4096 ki_pos=8192", "trace queued pos=4096 len=4096" },
		/* 0x5a5a5a5a5a */
		.never = { "queued pos=388062927450" },
	},
	{
		.name = "Q3 nor at one that has failed",
		.differs = "Q3: nothing of the kiocb is read after submission; C: ki_pos is",
		.op = OP_SIMPLE, .pos = 4096, .len = 512, .async = 1, .at_once = 1, .poison = 1,
		.fail = 1,
		.result = -EIO,
		.shows = { "ki_complete -5 ki_pos=4096", "trace queued pos=4096 len=512" },
		.never = { "queued pos=388062927450" },
	},

	/* Q4 */
	{
		.name = "Q4 a polled read that failed is not in the kiocb any more",
		.differs = "Q4: iocb->private is cleared on every completion; C: not by a worker",
		.op = OP_READ, .len = 4096, .async = 1, .ki_flags = IOCB_HIPRI, .poll = 1,
		.poison = 1, .fail = 1, .step = { { .what = STEP_POLL } },
		.result = -EIO,
		.shows = { "private=bio0", "poll bio0",
			   "ki_complete -5 ki_pos=0 ki_flags=20000 private=none", " worker\n" },
	},
	{
		.name = "Q4 nor is a polled write whose file has cached pages",
		.differs = "Q4: iocb->private is cleared on every completion; C: not by a worker",
		.op = OP_WRITE, .len = 4096, .async = 1, .ki_flags = IOCB_HIPRI, .poll = 1,
		.poison = 1, .cached = BIT(1), .step = { { .what = STEP_POLL } },
		.result = 4096,
		.shows = { "private=bio0", "poll bio0",
			   "ki_complete 4096 ki_pos=4096 ki_flags=60000 private=none",
			   " worker\n" },
	},
	{
		.name = "Q4 nor is a polled write that is flushed",
		.differs = "Q4: iocb->private is cleared on every completion; C: not by a worker",
		.op = OP_WRITE, .len = 4096, .async = 1, .ki_flags = IOCB_HIPRI | IOCB_DSYNC,
		.poll = 1, .cache = 1, .poison = 1, .end_io = 1,
		.step = { { .what = STEP_END, .ctx = CTX_SOFTIRQ } },
		.result = 4096,
		.shows = { "private=bio0", "end_io size=4096 error=0 flags=68000000",
			   "private=none",
			   "fsync", "ki_complete 4096 ki_pos=4096 ki_flags=60002 private=none",
			   " worker\n" },
	},
	{
		.name = "Q4 D97 both clear it where the bio ends",
		.op = OP_READ, .len = 4096, .async = 1, .ki_flags = IOCB_HIPRI, .poll = 1,
		.poison = 1, .step = { { .what = STEP_END, .ctx = CTX_SOFTIRQ } },
		.result = 4096,
		.shows = { "private=bio0",
			   "ki_complete 4096 ki_pos=4096 ki_flags=20000 private=none" },
	},

	/* A polled bio whose submitter sleeps */
	{
		.name = "D93 D117 a read that is waited for is not left to polling",
		.differs = "a request that waits has nobody who polls; C: the bio is polled",
		.op = OP_READ, .len = 4096, .async = 1, .ki_flags = IOCB_HIPRI, .poll = 1,
		.dio_flags = IOMAP_DIO_FORCE_WAIT,
		.result = 4096,
		.shows = { "bio0 read sector=2048 size=4096 opf=SYNC|IDLE vecs",
			   "ki_flags=20000 private=none", "end bio0", "return 4096" },
		.never = { "POLLED", "private=bio0" },
	},
	{
		.name = "D93 D117 a write that is waited for is not left to polling",
		.differs = "a request that waits has nobody who polls; C: the bio is polled",
		.op = OP_WRITE, .len = 4096, .async = 1, .ki_flags = IOCB_HIPRI, .poll = 1,
		.dio_flags = IOMAP_DIO_FORCE_WAIT, .end_io = 1,
		.result = 4096,
		.shows = { "bio0 write sector=2048 size=4096 opf=SYNC|IDLE vecs",
			   "ki_flags=60000 private=none", "end_io size=4096 error=0 flags=40000000",
			   " submit\n", "return 4096" },
		.never = { "POLLED", "private=bio0" },
	},
	{
		/* Too late for it not to be polled. Rust polls for it; the disk keeps quiet. */
		.name = "D93 D140 a polled bio that has to be waited for after all ends",
		.op = OP_READ, .len = 8192, .async = 1, .ki_flags = IOCB_HIPRI, .poll = 1,
		.maps = 2, .map = { { .len = 4096 }, { .error = -ENOTBLK } },
		.step = { { .what = STEP_END, .ctx = CTX_HARDIRQ } },
		.result = 4096,
		.shows = { "opf=SYNC|IDLE|POLLED vecs", "begin pos=4096", "end bio0",
			   "trace complete error=0 ret=4096", "return 4096" },
		.never = { "ki_complete" },
	},

	/* Mappings that lack something */
	{
		.name = "a read of blocks of no device fails",
		.differs = "a mapping without a device fails; C dereferences NULL", .crashes_c = 1,
		.op = OP_READ, .len = 4096, .maps = 1, .map = { { .nothing = 1 } }, .end_io = 1,
		.result = -EIO,
		.shows = { "end_io size=0 error=-5", "return -5 ki_pos=0", "dio=0", "warned" },
		.never = { "bio0" },
	},
	{
		.name = "a write to unwritten blocks of no device fails",
		.differs = "a mapping without a device fails; C dereferences NULL", .crashes_c = 1,
		.op = OP_WRITE, .pos = 512, .len = 512, .async = 1, .end_io = 1,
		.maps = 1, .map = { { .type = MAP_UNWRITTEN, .nothing = 1 } },
		.result = -EIO,
		.shows = { "end_io size=0 error=-5", "return -5 ki_pos=512", "dio=0", "warned" },
		.never = { "bio0" },
	},
	{
		.name = "a simple read of blocks of no device fails",
		.differs = "a mapping without a device fails; C dereferences NULL", .crashes_c = 1,
		.op = OP_SIMPLE, .len = 4096, .maps = 1, .map = { { .nothing = 1 } },
		.result = -EIO,
		.shows = { "not simple dio=0", "return -5 ki_pos=0", "dio=0", "warned" },
		.never = { "bio0" },
	},
	{
		.name = "a hole needs no device",
		.op = OP_READ, .len = 4096,
		.maps = 1, .map = { { .type = MAP_HOLE, .nothing = 1 } },
		.result = 4096,
		.shows = { "return 4096" },
		.never = { "warned" },
	},
	{
		.name = "D46 a read of inline data that is nowhere fails",
		.op = OP_READ, .len = 512, .size = 512, .end_io = 1,
		.maps = 1, .map = { { .type = MAP_INLINE, .nothing = 1 } },
		.result = -EIO,
		.shows = { "end_io size=0 error=-5", "return -5", "warned" },
	},
	{
		.name = "D46 a read from the middle of inline data that is nowhere fails",
		.differs = "inline data that is nowhere fails; C copies from near NULL",
		.crashes_c = 1, .op = OP_READ, .pos = 512, .len = 512, .size = 1024, .end_io = 1,
		.maps = 1, .map = { { .type = MAP_INLINE, .before = 512, .nothing = 1 } },
		.result = -EIO,
		.shows = { "end_io size=0 error=-5", "return -5 ki_pos=512", "warned" },
	},
	{
		.name = "D46 a write to the middle of inline data that is nowhere fails",
		.differs = "inline data that is nowhere fails; C copies to near NULL",
		.crashes_c = 1, .op = OP_WRITE, .pos = 512, .len = 512, .size = 1024, .end_io = 1,
		.maps = 1, .map = { { .type = MAP_INLINE, .before = 512, .nothing = 1 } },
		.result = -EIO,
		.shows = { "end_io size=0 error=-5", "return -5 ki_pos=512", "warned" },
		.never = { "dirty inode" },
	},

	/* Blocks that no bio can zero: 512 pages */
	{
		.name = "D76 a write to a block that cannot be zeroed before it fails",
		.differs = "what cannot be zeroed fails; C writes and leaves old data around it",
		.op = OP_WRITE, .pos = 512, .len = 512, .size = SZ_2M, .blkbits = 21,
		.maps = 1, .map = { { .type = MAP_UNWRITTEN } }, .end_io = 1,
		.result = -EINVAL,
		.shows = { "end_io size=0 error=-22", "return -22 ki_pos=512", "warned" },
		.never = { "bio0" },
	},
	{
		.name = "D76 a write to a block that cannot be zeroed after it fails",
		.differs = "what cannot be zeroed fails; C writes and leaves old data after it",
		.op = OP_WRITE, .len = 512, .size = SZ_2M, .blkbits = 21, .async = 1,
		.maps = 1, .map = { { .flags = IOMAP_F_NEW } }, .end_io = 1,
		.result = -EINVAL,
		.shows = { "bio0 write sector=2048 size=512", "trace queued", "return -529",
			   "end_io size=512 error=-22", "ki_complete -22", "warned" },
		.never = { "bio1" },
	},
	{
		.name = "D76 a write that leaves nothing to zero does not care",
		.op = OP_WRITE, .len = 512, .size = SZ_2M, .blkbits = 21,
		.result = 512,
		.shows = { "bio0 write sector=2048 size=512", "return 512" },
		.never = { "bio1", "warned" },
	},

	/* What is odd in both */
	{
		.name = "Q5 zeroes after a polled write are polled and take its place in the kiocb",
		.op = OP_WRITE, .len = 512, .size = 512, .async = 1, .ki_flags = IOCB_HIPRI,
		.poll = 1, .step = { { .what = STEP_POLL }, { .what = STEP_END } },
		.result = 512,
		.shows = { "bio0 write", "opf=SYNC|IDLE|POLLED vecs", "ki_flags=60001 private=bio0",
			   "bio1 write", "opf=SYNC|IDLE|POLLED vecs=zero:3584(1)",
			   "ki_flags=60001 private=bio1", "poll bio1", "ki_complete 512" },
	},
	{
		.name = "Q6 D75 zeroes after a write that is written through are not, nor flushed",
		.op = OP_WRITE, .len = 512, .size = 512, .ki_flags = IOCB_DSYNC, .cache = 1,
		.fua = 1,
		.result = 512,
		.shows = { "bio0 write sector=2048 size=512 opf=SYNC|IDLE|FUA vecs",
			   "bio1 write sector=2049 size=3584 opf=SYNC|IDLE vecs=zero:3584(1)",
			   "return 512" },
		.never = { "fsync" },
	},
	{
		.name = "Q7 D51 a position that a disk cannot write to is reported as an I/O error",
		.op = OP_WRITE, .pos = 100, .len = 512, .end_io = 1,
		.result = -EINVAL,
		.shows = { "end_io size=0 error=-22", "return -22 ki_pos=100",
			   "fserror type=3 pos=100 len=0 error=-22" },
		.never = { "bio0" },
	},
	{
		.name = "Q7 D58 memory that cannot be accessed is reported as an I/O error",
		.op = OP_READ, .len = 4096, .fault = 4,
		.result = -EFAULT,
		.shows = { "return -14 ki_pos=0", "fserror type=2 pos=0 len=0 error=-14" },
		.never = { "bio0" },
	},
	{
		.name = "Q7 D150 of a simple read neither is",
		.op = OP_SIMPLE, .len = 4096, .fault = 4,
		.result = -EFAULT,
		.shows = { "return -14 ki_pos=0" },
		.never = { "bio0", "fserror" },
	},
	{
		.name = "Q8 D92 a file system that wants to be atomic in another way is reported",
		.op = OP_WRITE, .pos = 4096, .len = 4096, .ki_flags = IOCB_ATOMIC, .async = 1,
		.maps = 1, .map = { { .error = -ENOPROTOOPT } },
		.result = -ENOPROTOOPT,
		.shows = { "return -92 ki_pos=4096", "fserror type=3 pos=4096 len=0 error=-92" },
	},
	{
		/*
		 * 28 KiB are there. The block layer makes a bio of 16 and unpins none of the other
		 * three pages; the two tries that follow pin these again, and unpin one.
		 */
		.name = "Q9 pages that a bio is cut by within a large folio stay pinned",
		.op = OP_WRITE, .len = SZ_32K, .big = 7 * 4096, .blkbits = 14,
		.dio_flags = IOMAP_DIO_FSBLOCK_ALIGNED | IOMAP_DIO_PARTIAL,
		.result = SZ_16K,
		.shows = { "bio0 write sector=2048 size=16384", "pins=7",
			   "trace complete error=0 ret=16384 ki_pos=16384 dio=0 pins=7",
			   "return 16384", "left=16384" },
		.never = { "bio1" },
	},
	{
		.name = "Q9 pages that a bio consists of do not",
		.op = OP_WRITE, .len = SZ_32K, .big = SZ_32K, .blkbits = 14,
		.dio_flags = IOMAP_DIO_FSBLOCK_ALIGNED,
		.result = SZ_32K,
		.shows = { "bio0 write sector=2048 size=32768", "pins=8", "return 32768",
			   "pins=0" },
	},
	{
		.name = "Q10 a read that no worker of the file system ends is not checked",
		.op = OP_READ, .len = 4096, .pi = 2,
		.maps = 1, .map = { { .flags = IOMAP_F_INTEGRITY } },
		.result = 4096,
		.shows = { " pi ", "end bio0 status=0", "return 4096" },
		.never = { "fserror" },
	},
	{
		.name = "Q11 D90 an atomic write that needs two bios leaves the iterator alone",
		.differs = "Q11: an iterator stands where its length says; C: 131072 bytes on",
		.op = OP_WRITE, .len = 300 * 512, .ki_flags = IOCB_ATOMIC, .atomic = SZ_1M,
		.mem = MEM_IOVEC, .seg = 512, .moved = 1,
		.maps = 1, .map = { { .flags = IOMAP_F_ATOMIC_BIO } },
		.result = -EINVAL,
		.shows = { "return -22 ki_pos=0", "pins=0", "final ki_pos=0", "left=153600",
			   "warned" },
		.never = { "bio0", "moved=" },
	},
	{
		.name = "Q11 D58 so does memory that turns out not to be aligned",
		.differs = "Q11: an iterator stands where its length says; C: 8192 bytes on",
		.op = OP_WRITE, .len = 12288, .mem = MEM_IOVEC, .seg = 4096, .odd_seg = 2, .dma = 7,
		.moved = 1,
		.result = -EINVAL,
		.shows = { "return -22 ki_pos=0", "pins=0", "final ki_pos=0", "left=12288" },
		.never = { "bio0", "moved=" },
	},
	{
		.name = "Q12 D24 a write that falls back at once has no trace of its end",
		.op = OP_WRITE, .len = 4096, .stuck = BIT(0),
		.result = -ENOTBLK,
		.shows = { "trace begin", "trace invalidate_fail pos=0 len=4096", "return -15" },
		.never = { "trace complete" },
	},
	{
		.name = "Q12 D149 a read that was to be simple has two traces of its beginning",
		.op = OP_SIMPLE, .len = 16384, .blkbits = 14, .fault = 12288, .async = 1,
		.result = -EFAULT,
		.shows = { "trace begin", "not simple", "trace begin", "trace complete", "final" },
	},
	{
		.name = "Q15 D4 a read of the long way does not keep the disk from waiting",
		.op = OP_READ, .len = 4096, .ki_flags = IOCB_NOWAIT, .nowait = 1, .async = 1,
		.result = 4096,
		.shows = { "begin pos=0 len=4096 flags=30", "bio0 read", "opf=SYNC|IDLE vecs" },
		.never = { "|NOWAIT" },
	},
	{
		.name = "Q15 D4 nor does a write",
		.op = OP_WRITE, .len = 4096, .ki_flags = IOCB_NOWAIT, .nowait = 1, .async = 1,
		.result = 4096,
		.shows = { "begin pos=0 len=4096 flags=31", "bio0 write", "opf=SYNC|IDLE vecs" },
		.never = { "|NOWAIT" },
	},
	/* Encryption and polling */
	{
		.name = "D61 D93 a write that the block layer encrypts is not left to polling",
		.differs = "the disk gets a copy that nobody can poll for; C: it is polled",
		.op = OP_WRITE, .len = 4096, .async = 1, .ki_flags = IOCB_HIPRI, .poll = 1,
		.crypt = CRYPT_BLOCK_LAYER,
		.result = 4096,
		.shows = { "bio0 write sector=2048 size=4096 opf=SYNC|IDLE vecs=copy", "set=other",
			   "private=none", "return -529 ki_pos=0 ki_flags=60000 private=none",
			   "ki_complete 4096" },
		.never = { "POLLED" },
	},
	{
		.name = "D61 D93 one that the disk encrypts is polled",
		.op = OP_WRITE, .len = 4096, .async = 1, .ki_flags = IOCB_HIPRI, .poll = 1,
		.crypt = CRYPT_DISK, .poison = 1, .step = { { .what = STEP_POLL } },
		.result = 4096,
		.shows = { "opf=SYNC|IDLE|POLLED vecs", "dun=0", "private=bio0", "poll bio0",
			   "ki_complete 4096" },
	},
	{
		.name = "D61 D93 so is a read that the block layer decrypts",
		.op = OP_READ, .len = 4096, .async = 1, .ki_flags = IOCB_HIPRI, .poll = 1,
		.crypt = CRYPT_BLOCK_LAYER, .poison = 1,
		.step = { { .what = STEP_POLL } },
		.result = 4096,
		.shows = { "opf=SYNC|IDLE|POLLED vecs", "private=bio0", "poll bio0",
			   "ki_complete 4096" },
	},
	{ }
};
