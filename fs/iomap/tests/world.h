/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of the simulated world, and the interfaces between its parts.
 */
#ifndef _IOMAP_TESTS_WORLD_H
#define _IOMAP_TESTS_WORLD_H

#include <linux/completion.h>
#include <linux/folio_queue.h>
#include <linux/fserror.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/uio.h>
#include <linux/workqueue.h>
#include "script.h"

#define WORLD_PAGES	640
#define WORLD_BYTES	((size_t)WORLD_PAGES * PAGE_SIZE)
#define WORLD_BIOS	512
#define WORLD_SEGS	(WORLD_PAGES + 8)
#define DISK_SECTORS	(1ULL << 26)
/* Pages of the large folio. */
#define BIG_PAGES	16

struct held_bio {
	struct bio *bio;	/* NULL when it has ended */
	const struct bio *seen;	/* the same after it has ended, for comparison only */
	void *private;		/* bi_private and bi_end_io before SUBMIT_HOOKED */
	bio_end_io_t *end_io;
	struct bio *ioend;	/* for the worker that ends ioends */
	struct work_struct ioend_work;
	const void *integrity;	/* its protection information, for comparison only */
	u32 crc;		/* of its data when it was submitted */
	loff_t pos;		/* in the file, as ->submit_io() was told */
	bool came;		/* it has reached the disk */
	bool polled;
};

struct world {
	/* For the whole suite. */
	struct vfsmount *mnt;
	struct super_block *sb;
	struct inode *inode;
	struct file *file;
	struct gendisk *disk;
	struct bio_set set;
	struct workqueue_struct *ioend_wq;
	struct workqueue_struct *late_wq;	/* executes one work item at a time */
	struct workqueue_struct *usual_wq;	/* that of the super block, replaced by late_wq */
	struct kthread_worker *player;
	struct kthread_worker *completer;
	struct kthread_work steps_work;
	struct completion dio_waited;
	struct kunit_suppressed_warning *warnings;

	/* The caller's memory. */
	struct mm_struct *mm;
	unsigned long user;
	unsigned long absent;
	struct page *pages[WORLD_PAGES];
	char *memory;		/* the same pages in a row, for the kernel */
	int base_refs[WORLD_PAGES];
	struct iovec iov[WORLD_SEGS];
	struct kvec kvec[WORLD_SEGS];
	struct bio_vec bvec[WORLD_SEGS];
	struct folio_queue queues[DIV_ROUND_UP(WORLD_PAGES, FOLIO_BATCH_SIZE)];
	char *inline_data;
	struct page *big;
	unsigned long big_user;

	const struct script *s;
	enum impl impl;

	/* The current request.  A script begins with zeroes from here on. */
	struct record *rec;
	struct kiocb iocb;
	struct iov_iter iter;
	size_t buffer;		/* offset of its first byte in the memory */
	size_t total;		/* bytes that may be accessed from there */
	size_t count;		/* initial length of the iterator */
	size_t segs;		/* initial number of its segments */
	char private;
	unsigned int maps;
	struct held_bio bios[WORLD_BIOS];
	unsigned int nr_bios;
	unsigned int ending_bio;	/* for the tasklet or the worker that ends it */
	atomic_t in_flight;
	bool integrity;		/* a bio has protection information */
	bool log;		/* record the kernel messages of the submitter */
	bool cleaned;		/* a worker may dirty the caller's pages again: not recorded until then */
	bool returned;
	bool long_way;		/* the request is not a simple read, or no longer */
	bool polling;
	bool ending;
	bool steps_over;
	bool inline_steps;
	bool completer_on;
	bool stuck;
	unsigned int completed;
	bool answered;		/* ... or the call has the result */
	u64 io_start;
	int zero_refs;
	struct task_struct *dio_waiter;
	bool dio_waits;
	const struct task_struct *ioend_task;
	struct fserror_event fserror[4];
	atomic_t fserrors;
};

extern struct world w;

/* Each page of the request's memory, by number. */
#define for_each_page_of_request(p)					\
	for (size_t p = w.buffer / PAGE_SIZE;				\
	     p < WORLD_PAGES && p * PAGE_SIZE < w.buffer + w.total; p++)

/* --- record.c: the record --- */

/* Appends to the record. */
__printf(1, 2) void say(const char *fmt, ...);
void say_iocb(void);
void say_state(void);
void say_opf(blk_opf_t opf);
/*
 * Whether a read that is not simple may have REQ_NOWAIT in Rust, and the iterator goes back if the
 * disk then refuses (Q15). Random scripts do not compare this; named ones show it.
 */
bool nowait_differs(void);
void say_vecs(struct bio *bio);
/* Ends a line with the state of the world and the context. */
void say_state_and_where(void);

/* The context, and a pointer that the file system has passed. */
const char *where(void);
const char *private_name(const void *private);
bool private_is_known_to_differ(void);

/* The checksum of the data of a bio that has not ended. */
u32 bio_crc(struct bio *bio);

#define PROBE(on, event, fn, data)					\
	((on) ? (void)register_trace_##event(fn, data) : (void)unregister_trace_##event(fn, data))

/* Begins or ends the recording of tracepoints. */
void record_probes(bool on);

/* --- disk.c: the disk --- */

int disk_make(void);
void disk_unmake(void);
void disk_set_limits(const struct script *s);

/* The number of a bio, a new one if it comes for the first time; WORLD_BIOS if too many came. */
unsigned int bio_number(struct bio *bio);

/* Ends bio @n in a context. */
void disk_end_bio(unsigned int n, enum script_ctx ctx);

/* Lets the workers finish that complete bios and requests. */
void flush_workers(void);

/* Bytes of writes that are accounted to this thread. */
u64 accounted(void);

/* --- filesystem.c: the file system --- */

extern const struct iomap_ops fs_ops, fs_ops_no_end, fs_ops_next, fs_ops_both;

int fs_make(void);
void fs_unmake(void);
int fs_begin(struct inode *inode, loff_t pos, loff_t length, unsigned int flags,
		struct iomap *iomap, struct iomap *srcmap);
int fs_end_io(struct kiocb *iocb, ssize_t size, int error, unsigned int flags);
void fs_submit_io(const struct iomap_iter *iter, struct bio *bio, loff_t pos);

/* Adds page @n of the request to the page cache; a stuck one cannot be dropped. */
void fs_cache_page(unsigned int n, bool dirty, bool stuck);

/* The disk address of the start of the file, in bytes. */
#define FILE_START	(1ULL << 20)

/* --- cut.c: power cuts --- */

/* What matters for what is stable. */
enum cut_what {
	CUT_MAP,	/* a mapping for a write is returned */
	CUT_WRITE,	/* a bio reaches the disk */
	CUT_ENDED,	/* it ends */
	CUT_TOLD,	/* ->end_io() */
	CUT_FLUSHED,	/* ->fsync() */
	CUT_ACKED,	/* the request has a positive result */
};

struct cut_event {
	enum cut_what what;
	s64 from, to;		/* bytes of the file */
	s64 size;		/* where the request ends; CUT_WRITE, CUT_TOLD: of the file */
	unsigned int n;		/* enum script_map_type; number of the bio; datasync */
	unsigned int flags;	/* IOMAP_F_*, REQ_*, IOMAP_DIO_* */
	int error;
	bool zero;		/* a bio of zeroes around the data */
	bool hidden;		/* ->end_io() has hidden an error */
};

/* A script begins without events. */
void cut_begin(void);
void cut_note(struct cut_event event);
#define CUT_NOTE(...)	cut_note((struct cut_event){ __VA_ARGS__ })

/* --- alloc.c: allocations --- */

/*
 * Between allocs_begin() and allocs_end() the allocations of this thread are recorded.
 * Allocation number @fail fails, counted from 1; 0 is none.  allocs_forget() records
 * those that were not freed.
 */
void allocs_begin(unsigned int fail);
void allocs_end(void);
void allocs_forget(void);
void allocs_probes(bool on);

/* --- crypt.c: encryption --- */

#ifdef CONFIG_FS_ENCRYPTION
struct inode *crypt_alloc_inode(struct super_block *sb);
void crypt_free_inode(struct inode *inode);
void crypt_evict_inode(struct inode *inode);

/* Prepares @sb for inodes with a key, and @bdev for inline encryption. */
int crypt_make(struct super_block *sb, struct block_device *bdev);
void crypt_unmake(void);

/* Gives @file a key.  @memory is user memory of this thread. */
int crypt_make_key(struct file *file, void __user *memory);

/* Chooses between encryption by the disk (@can) and by the block layer. */
void crypt_set_disk(bool can);

/* Records the encryption context of @bio. */
void crypt_say(struct bio *bio);
#else
#define crypt_alloc_inode	NULL
#define crypt_free_inode	NULL
#define crypt_evict_inode	NULL
static inline int crypt_make(struct super_block *sb, struct block_device *bdev)
{
	return 0;
}
static inline void crypt_unmake(void) { }
static inline int crypt_make_key(struct file *file, void __user *memory)
{
	return 0;
}
static inline void crypt_set_disk(bool can) { }
static inline void crypt_say(struct bio *bio) { }
#endif

#endif /* _IOMAP_TESTS_WORLD_H */
