// SPDX-License-Identifier: GPL-2.0
/*
 * The simulated world: a file system, a file, a disk and a caller.  They follow a
 * script, and record everything that direct I/O does with them.
 *
 * The player is a thread with memory like that of a user process.  It submits the
 * request and then executes the steps.  If the submitter waits, the completer, another
 * thread, executes the steps.  The completer starts when the player sleeps, and checks
 * after each step that it still sleeps.  So only one of them runs at a time, and a
 * script always leaves the same record.
 */
#include <kunit/test.h>
#include <linux/bio-integrity.h>
#include <linux/blkdev.h>
#include <linux/bug.h>
#include <linux/crc32.h>
#include <linux/file.h>
#include <linux/fs_context.h>
#include <linux/fserror.h>
#include <linux/interrupt.h>
#include <linux/iomap.h>
#include <linux/kthread.h>
#include <linux/mman.h>
#include <linux/mount.h>
#include <linux/pagemap.h>
#include <linux/pseudo_fs.h>
#include <linux/sched/mm.h>
#include <linux/swap.h>
#include <linux/uio.h>
#include <linux/writeback.h>
#include <trace/events/kmem.h>
#include <trace/events/printk.h>
#include <asm/sections.h>
#include "../../internal.h"
#include "../direct_io_compare.h"
#include "../internal.h"
#include "../trace.h"
#include "script.h"
#include "world.h"

#define WORLD_CPU	0
#define WORLD_PAGES	640
#define WORLD_BYTES	((size_t)WORLD_PAGES * PAGE_SIZE)
#define WORLD_BIOS	512
#define WORLD_SEGS	(WORLD_PAGES + 8)
#define DISK_SECTORS	(1ULL << 26)
/* The disk address of the start of the file, in bytes. */
#define FILE_START	(1ULL << 20)
#define PATIENCE	(10 * HZ)
/* Pages of the large folio. */
#define BIG_PAGES	16

struct held_bio {
	struct bio *bio;	/* NULL when it has ended */
	const struct bio *seen;	/* the same after it has ended, for comparison only */
	void *private;		/* bi_private and bi_end_io before SUBMIT_HOOKED */
	bio_end_io_t *end_io;
	struct bio *ioend;	/* for the worker that ends ioends */
	const void *integrity;	/* its protection information, for comparison only */
	u32 crc;		/* of its data when it was submitted */
	bool came;		/* it has reached the disk */
	bool polled;
};

static struct {
	/* For the whole suite. */
	struct vfsmount *mnt;
	struct super_block *sb;
	struct inode *inode;
	struct file *file;
	struct gendisk *disk;
	struct bio_set set;
	struct workqueue_struct *wq;
	struct workqueue_struct *ioend_wq;
	struct workqueue_struct *late_wq;	/* executes one work item at a time */
	struct workqueue_struct *usual_wq;	/* that of the super block, replaced by late_wq */
	struct kthread_worker *player;
	struct kthread_worker *completer;
	struct tasklet_struct tasklet;
	struct kunit_suppressed_warning *warnings;

	/* The caller's memory. */
	struct mm_struct *mm;
	unsigned long user;
	unsigned long absent;
	struct page *pages[WORLD_PAGES];
	int base_refs[WORLD_PAGES];
	struct iovec iov[WORLD_SEGS];
	struct kvec kvec[WORLD_SEGS];
	struct bio_vec bvec[WORLD_SEGS];
	char *inline_data;
	struct page *big;
	unsigned long big_user;

	/* The current request. */
	const struct script *s;
	enum impl impl;
	struct record *rec;
	struct kiocb iocb;
	struct iov_iter iter;
	size_t buffer;		/* offset of its first byte in the memory */
	size_t total;		/* bytes that may be accessed from there */
	size_t count;		/* initial length of the iterator */
	char private;
	unsigned int maps;
	struct held_bio bios[WORLD_BIOS];
	unsigned int nr_bios;
	atomic_t in_flight;
	bool integrity;		/* a bio has protection information */
	bool log;		/* record the kernel messages of the submitter */
	bool cleaned;
	bool returned;
	bool polling;
	bool ending;
	bool steps_over;
	bool inline_steps;
	bool completer_on;
	bool stuck;
	unsigned int completed;
	u64 io_start;
	int zero_refs;
	struct task_struct *dio_waiter;
	struct completion dio_waited;
	bool dio_waits;
	const struct task_struct *ioend_task;
	struct {
		int type, error;
		loff_t pos;
		u64 len;
	} fserror[4];
	atomic_t fserrors;

	struct kthread_work steps_work;
	struct completion soft_done;
	int soft_bio;
} w;

/* --- The record --- */

static DEFINE_RAW_SPINLOCK(say_lock);

void say(const char *fmt, ...)
{
	struct record *rec = w.rec;
	unsigned long flags;
	va_list args;

	if (!rec)
		return;
	raw_spin_lock_irqsave(&say_lock, flags);
	va_start(args, fmt);
	rec->len += vscnprintf(rec->text + rec->len, RECORD_BYTES - rec->len, fmt, args);
	va_end(args);
	if (rec->len + 1 >= RECORD_BYTES)
		rec->full = true;
	raw_spin_unlock_irqrestore(&say_lock, flags);
}

static const char *where(void)
{
	bool step = current == w.completer->task || w.inline_steps;

	if (in_hardirq())
		return step ? "step/hardirq" : "submit/hardirq";
	if (in_serving_softirq())
		return step ? "step/softirq" : "submit/softirq";
	if (current == w.ioend_task)
		return "ioend";
	if (current->flags & PF_WQ_WORKER)
		return "worker";
	if (current == w.completer->task || current == w.player->task)
		return step ? "step" : "submit";
	return "elsewhere";
}

/* Bits for the first pages of the range: cached pages, dirty pages. */
static void say_cache(void)
{
	pgoff_t first = w.s->pos >> PAGE_SHIFT;
	unsigned int in = 0, dirty = 0;

	if (!w.inode->i_mapping->nrpages)
		return;
	rcu_read_lock();
	for (unsigned int i = 0; i < 8; i++) {
		struct folio *folio = xa_load(&w.inode->i_mapping->i_pages, first + i);

		if (!folio || xa_is_value(folio))
			continue;
		in |= 1 << i;
		if (folio_test_dirty(folio))
			dirty |= 1 << i;
	}
	rcu_read_unlock();
	say(" cache=%02x/%02x/%lu", in, dirty, w.inode->i_mapping->nrpages);
}

/* The numbers of pins and of dirty pages of the caller. */
static void say_pages(void)
{
	unsigned int pins = 0, dirty = 0;
	size_t n = min_t(size_t, WORLD_PAGES, DIV_ROUND_UP(w.buffer % PAGE_SIZE + w.total, PAGE_SIZE));

	if (w.cleaned)
		return;
	for (size_t i = 0; i < n; i++) {
		size_t p = w.buffer / PAGE_SIZE + i;

		if (p >= WORLD_PAGES)
			break;
		pins += (page_ref_count(w.pages[p]) - w.base_refs[p]) / GUP_PIN_COUNTING_BIAS;
		dirty += folio_test_dirty(page_folio(w.pages[p]));
	}
	if (w.s->big)
		pins = atomic_read(&page_folio(w.big)->_pincount);
	say(" pins=%u dirty=%u", pins, dirty);
}

static void say_state(void)
{
	int count = atomic_read(&w.inode->i_dio_count);

	say(" dio=%d", count);
	if (count && w.dio_waits && completion_done(&w.dio_waited))
		say(" not waited for");
	say_cache();
	say_pages();
}

/*
 * When a worker completes a polled request, C leaves the address of the freed bio in
 * iocb->private, and Rust does not.  The scripts that show this set .poison.
 */
static bool private_is_known_to_differ(void)
{
	return w.s->async && w.s->ki_flags & IOCB_HIPRI && !w.s->poison &&
	       (w.completed || current->flags & PF_WQ_WORKER);
}

/*
 * The number of the bio in iocb->private.  A later bio may have the same address, but
 * only a polled bio is stored there.
 */
static unsigned int private_bio(void)
{
	unsigned int found = WORLD_BIOS;

	for (unsigned int i = w.nr_bios; i-- > 0;)
		if (w.bios[i].seen == w.iocb.private) {
			found = i;
			if (w.bios[i].polled)
				break;
		}
	return found;
}

static void say_iocb(void)
{
	unsigned int n;

	say(" ki_pos=%lld ki_flags=%x", w.iocb.ki_pos, w.iocb.ki_flags);
	if (private_is_known_to_differ())
		return;
	if (!w.iocb.private) {
		say(" private=none");
		return;
	}
	n = private_bio();
	if (n < WORLD_BIOS)
		say(" private=bio%u", n);
	else
		say(" private=other");
}

static const struct {
	blk_opf_t flag;
	const char *name;
} opf_names[] = {
	{ REQ_SYNC, "SYNC" }, { REQ_IDLE, "IDLE" }, { REQ_FUA, "FUA" },
	{ REQ_PREFLUSH, "PREFLUSH" }, { REQ_NOWAIT, "NOWAIT" }, { REQ_ATOMIC, "ATOMIC" },
	{ REQ_POLLED, "POLLED" }, { REQ_NOMERGE, "NOMERGE" }, { REQ_INTEGRITY, "INTEGRITY" },
};

static void say_opf(blk_opf_t opf)
{
	/* REQ_ALLOC_CACHE depends on the state of the allocator. */
	blk_opf_t left = opf & ~(REQ_OP_MASK | REQ_ALLOC_CACHE);
	const char *sep = "";

	say(" opf=");
	for (size_t i = 0; i < ARRAY_SIZE(opf_names); i++) {
		if (!(left & opf_names[i].flag))
			continue;
		say("%s%s", sep, opf_names[i].name);
		sep = "|";
		left &= ~opf_names[i].flag;
	}
	if (left)
		say("%s%#x", sep, left);
}

static int page_number(struct page *page)
{
	for (int i = 0; i < WORLD_PAGES; i++)
		if (w.pages[i] == page)
			return i;
	return -1;
}

/* The checksum of the data of a bio that has not ended. */
static u32 bio_crc(struct bio *bio)
{
	struct bvec_iter iter;
	struct bio_vec bv;
	u32 crc = ~0;

	__bio_for_each_bvec(bv, bio, iter, bio->bi_iter)
		crc = crc32(crc, bvec_virt(&bv), bv.bv_len);
	return crc;
}

static void say_vecs(struct bio *bio)
{
	struct bvec_iter iter;
	struct bio_vec bv;
	unsigned int n = 0;

	__bio_for_each_bvec(bv, bio, iter, bio->bi_iter) {
		struct page *page = bv.bv_page + (bv.bv_offset >> PAGE_SHIFT);
		int nr = page_number(page);

		if (n < 3) {
			say(n ? "," : " vecs=");
			if (is_zero_folio(page_folio(page)))
				say("zero:%u", bv.bv_len);
			else if (nr < 0)
				say("copy:%u", bv.bv_len);
			else
				say("p%d+%lu:%u", nr, offset_in_page(bv.bv_offset), bv.bv_len);
		}
		n++;
	}
	say("(%u)", n);
	if (op_is_write(bio_op(bio)))
		say(" crc=%08x", bio_crc(bio));
}

/* --- The disk --- */

static unsigned int bio_number(struct bio *bio)
{
	unsigned int i;

	for (i = 0; i < w.nr_bios; i++)
		if (w.bios[i].bio == bio)
			return i;
	if (i < WORLD_BIOS) {
		w.bios[i] = (struct held_bio){
			.bio = bio, .seen = bio, .polled = bio->bi_opf & REQ_POLLED,
		};
		w.nr_bios++;
		return i;
	}
	/* Too many bios; the record will not be compared. */
	w.rec->full = true;
	return WORLD_BIOS;
}

/* Bytes of writes that are accounted to this thread. */
static u64 accounted(void)
{
#ifdef CONFIG_TASK_IO_ACCOUNTING
	return current->ioac.write_bytes;
#else
	return 0;
#endif
}

static void fill(struct bio *bio)
{
	sector_t sector = bio->bi_iter.bi_sector;
	struct bvec_iter iter;
	struct bio_vec bv;

	__bio_for_each_bvec(bv, bio, iter, bio->bi_iter) {
		char *data = bvec_virt(&bv);

		for (unsigned int i = 0; i < bv.bv_len; i += SECTOR_SIZE, sector++)
			memset(data + i, (sector * 7 + 1) & 0xff,
			       min_t(unsigned int, SECTOR_SIZE, bv.bv_len - i));
	}
	/* All ones disable the check, zeroes make it fail. */
	if (bio_integrity(bio))
		memset(bvec_virt(bio_integrity(bio)->bip_vec), w.s->pi == 2 ? 0 : 0xff,
		       bio_integrity(bio)->bip_iter.bi_size);
}

/* Whether the bit of bio @n is set in @mask; -1 is all bios. */
static bool picked(s64 mask, unsigned int n)
{
	return n < 64 ? mask & BIT_ULL(n) : mask == -1;
}

static void end_bio(unsigned int n)
{
	const struct script *s = w.s;
	struct bio *bio = n < w.nr_bios ? w.bios[n].bio : NULL;

	if (!bio) {
		say("no bio %u\n", n);
		return;
	}
	w.bios[n].bio = NULL;
	if (op_is_write(bio_op(bio)) && bio_crc(bio) != w.bios[n].crc)
		say("bio%u: the data has changed\n", n);
	if (picked(s->fail, n))
		bio->bi_status = s->status ? (__force blk_status_t)s->status : BLK_STS_IOERR;
	else if (picked(s->fail2, n))
		bio->bi_status = (__force blk_status_t)s->status2;
	else if (bio_op(bio) == REQ_OP_READ)
		fill(bio);
	say("end bio%u status=%d %s\n", n, blk_status_to_errno(bio->bi_status), where());
	atomic_dec(&w.in_flight);
	bio_endio(bio);
}

static void soft_fn(struct tasklet_struct *t)
{
	end_bio(w.soft_bio);
	complete(&w.soft_done);
}

struct bio_work {
	struct work_struct work;
	unsigned int n;
};

static void end_bio_work(struct work_struct *work)
{
	end_bio(container_of(work, struct bio_work, work)->n);
}

static void end_bio_in(unsigned int n, enum script_ctx ctx)
{
	struct bio_work work;
	unsigned long flags;

	switch (ctx) {
	case CTX_SOFTIRQ:
		w.soft_bio = n;
		reinit_completion(&w.soft_done);
		local_bh_disable();
		tasklet_schedule(&w.tasklet);
		local_bh_enable();
		wait_for_completion_state(&w.soft_done, TASK_IDLE);
		break;
	case CTX_HARDIRQ:
		local_irq_save(flags);
		irq_enter();
		/* Like the handler of a disk, which PREEMPT_RT runs in a thread. */
		lockdep_hardirq_threaded();
		end_bio(n);
		irq_exit();
		local_irq_restore(flags);
		break;
	case CTX_WORKER:
		work.n = n;
		INIT_WORK_ONSTACK(&work.work, end_bio_work);
		queue_work(w.wq, &work.work);
		flush_work(&work.work);
		destroy_work_on_stack(&work.work);
		break;
	default:
		end_bio(n);
	}
	/* Let the workers finish before the next step. */
	flush_workqueue(w.ioend_wq);
	if (w.sb->s_dio_done_wq)
		flush_workqueue(w.sb->s_dio_done_wq);
}

static void play_steps(struct kthread_work *work);

static void disk_submit_bio(struct bio *bio)
{
	const struct script *s = w.s;
	unsigned int n = bio_number(bio);
	bool write = op_is_write(bio_op(bio));

	if (n == WORLD_BIOS) {
		bio_endio(bio);
		return;
	}
	say("bio%u %s sector=%llu size=%u", n, write ? "write" : "read",
	    (u64)bio->bi_iter.bi_sector, bio->bi_iter.bi_size);
	say_opf(bio->bi_opf);
	say_vecs(bio);
	/*
	 * The implementation may choose between fs_bio_set and a bio set of its own, with a front
	 * pad.  Both are recorded as "fs".
	 */
	say(" hint=%d prio=%d stream=%d set=%s", bio->bi_write_hint, bio->bi_ioprio,
	    bio->bi_write_stream,
	    bio->bi_pool == &w.set ? "own" : bio->bi_pool == &iomap_ioend_bioset ? "ioend" :
	    bio->bi_pool == &fs_bio_set || bio->bi_pool->front_pad ? "fs" : "other");
	crypt_say(bio);
	if (bio_integrity(bio)) {
		say(" pi");
		WRITE_ONCE(w.bios[n].integrity, bio_integrity(bio));
		WRITE_ONCE(w.integrity, true);
	}
	say(" acct=%llu", accounted() - w.io_start);
	if (current->plug)
		say(" plug");
	say_iocb();
	say_state();
	say(" %s\n", where());

	w.bios[n].came = true;
	if (write)
		w.bios[n].crc = bio_crc(bio);
	if (bio->bi_opf & REQ_POLLED)
		bio->bi_cookie = ~BLK_QC_T_NONE;
	atomic_inc(&w.in_flight);
	if (picked(s->at_once, n)) {
		/* If this sleeps, it is not the submitter that waits. */
		WRITE_ONCE(w.ending, true);
		end_bio_in(n, s->at_ctx);
		WRITE_ONCE(w.ending, false);
	} else if (!w.completer_on && current == w.player->task && !w.inline_steps) {
		/* It runs if this thread sleeps. */
		w.completer_on = true;
		kthread_queue_work(w.completer, &w.steps_work);
	}
}

static int disk_poll_bio(struct bio *bio, struct io_comp_batch *iob, unsigned int flags)
{
	/* A waiting submitter polls in Rust only: do not record that, and end nothing. */
	if (current == w.player->task && !w.inline_steps) {
		WRITE_ONCE(w.polling, true);
		return 0;
	}
	for (unsigned int i = 0; i < w.nr_bios; i++)
		if (w.bios[i].bio == bio) {
			say("poll bio%u\n", i);
			end_bio(i);
			return 1;
		}
	/* The bio has ended, so this call depends on what its memory contains by now. */
	return 0;
}

static const struct block_device_operations disk_fops = {
	.owner		= THIS_MODULE,
	.submit_bio	= disk_submit_bio,
	.poll_bio	= disk_poll_bio,
};

/* --- The file system --- */

static const u16 map_types[NR_MAP] = {
	[MAP_MAPPED]	= IOMAP_MAPPED,
	[MAP_UNWRITTEN]	= IOMAP_UNWRITTEN,
	[MAP_HOLE]	= IOMAP_HOLE,
	[MAP_DELALLOC]	= IOMAP_DELALLOC,
	[MAP_INLINE]	= IOMAP_INLINE,
	[MAP_UNKNOWN]	= 77,
};

static int fs_begin(struct inode *inode, loff_t pos, loff_t length, unsigned int flags,
		struct iomap *iomap, struct iomap *srcmap)
{
	static const struct script_map whole = { };
	const struct script *s = w.s;
	const struct script_map *m = &whole;

	if (s->maps)
		m = &s->map[min_t(unsigned int, w.maps, s->maps - 1)];
	w.maps++;

	say("begin pos=%lld len=%lld flags=%x", pos, length, flags);
	if (memchr_inv(iomap, 0, sizeof(*iomap)) || memchr_inv(srcmap, 0, sizeof(*srcmap)))
		say(" old mapping");
	say_state();
	say(" %s\n", where());
	if (inode != w.inode)
		say("another inode\n");
	/* Stop: with mappings of one byte the rest would take minutes. */
	if (w.rec->full)
		return -EIO;
	if (m->size)
		i_size_write(inode, m->size == EMPTY ? 0 : m->size);
	if (m->error)
		return m->error;

	iomap->offset = max_t(loff_t, pos - m->before, 0);
	iomap->length = pos - iomap->offset + (m->len ?: length + SZ_1M);
	iomap->type = map_types[m->type];
	iomap->flags = m->flags;
	iomap->addr = FILE_START + iomap->offset;
	if (m->flags & IOMAP_F_ANON_WRITE || m->type == MAP_HOLE || m->type == MAP_DELALLOC ||
	    m->type == MAP_INLINE)
		iomap->addr = IOMAP_NULL_ADDR;
	if (!m->nothing) {
		iomap->bdev = w.disk->part0;
		if (m->type == MAP_INLINE)
			iomap->inline_data = w.inline_data;
	}
	if (m->src) {
		*srcmap = *iomap;
		srcmap->type = IOMAP_MAPPED;
	}
	return 0;
}

static int fs_end(struct inode *inode, loff_t pos, loff_t length, ssize_t written,
		unsigned int flags, struct iomap *iomap)
{
	const struct script *s = w.s;
	const struct script_map *m;

	say("end pos=%lld len=%lld written=%zd flags=%x", pos, length, written, flags);
	say_state();
	say(" %s\n", where());
	if (!s->maps)
		return 0;
	m = &s->map[min_t(unsigned int, w.maps - 1, s->maps - 1)];
	return m->end;
}

static DEFINE_IOMAP_ITER_NEXT_END(fs_next, fs_begin, fs_end)

static const struct iomap_ops fs_ops = {
	.iomap_begin	= fs_begin,
	.iomap_end	= fs_end,
};

static const struct iomap_ops fs_ops_no_end = {
	.iomap_begin	= fs_begin,
};

static const struct iomap_ops fs_ops_next = {
	.iomap_next	= fs_next,
};

static int fs_end_io(struct kiocb *iocb, ssize_t size, int error, unsigned int flags)
{
	say("end_io size=%zd error=%d flags=%x", size, error, flags);
	if (iocb != &w.iocb)
		say(" another iocb");
	if (current->plug)
		say(" plug");
	say_iocb();
	say_state();
	say(" %s\n", where());
	return w.s->end_io == 2 ? w.s->end_io_ret : error;
}

static void hooked_end_io(struct bio *bio)
{
	struct held_bio *held = bio->bi_private;

	say("hook %s\n", where());
	bio->bi_private = held->private;
	bio->bi_end_io = held->end_io;
	iomap_dio_bio_end_io(bio);
}

static void ioend_work(struct work_struct *work)
{
	struct bio_work *bw = container_of(work, struct bio_work, work);
	struct bio *bio = w.bios[bw->n].ioend;

	w.ioend_task = current;
	say("ioend bio%u\n", bw->n);
	if (w.s->ioend_alone) {
		struct iomap_ioend *ioend = iomap_ioend_from_bio(bio);

		ioend->io_error = blk_status_to_errno(bio->bi_status);
		say("ioend over, vecs=%u\n", iomap_finish_ioend_direct(ioend));
	} else {
		iomap_finish_ioends(iomap_ioend_from_bio(bio), blk_status_to_errno(bio->bi_status));
	}
	w.ioend_task = NULL;
}

static struct bio_work ioend_works[WORLD_BIOS];

static void ioend_end_io(struct bio *bio)
{
	unsigned int n;

	for (n = w.nr_bios - 1; n > 0; n--)
		if (w.bios[n].seen == bio)
			break;
	w.bios[n].ioend = bio;
	ioend_works[n].n = n;
	INIT_WORK(&ioend_works[n].work, ioend_work);
	queue_work(w.ioend_wq, &ioend_works[n].work);
}

static const char *private_name(const void *private)
{
	return private == &w.private ? "own" : private ? "other" : "none";
}

static void fs_submit_io(const struct iomap_iter *iter, struct bio *bio, loff_t pos)
{
	unsigned int n = bio_number(bio);

	if (n == WORLD_BIOS) {
		submit_bio(bio);
		return;
	}
	say("submit_io bio%u pos=%lld sector=%llu iter pos=%lld len=%llu", n, pos,
	    (u64)bio->bi_iter.bi_sector, iter->pos, iter->len);
	if (iter->inode != w.inode)
		say(" another inode");
	say(" private=%s", private_name(iter->private));
	say_opf(bio->bi_opf);
	crypt_say(bio);
	say(" %s\n", where());
	if (bio->bi_iter.bi_sector > DISK_SECTORS)
		bio->bi_iter.bi_sector = 0;
	switch (w.s->submit) {
	case SUBMIT_HOOKED:
		w.bios[n].private = bio->bi_private;
		w.bios[n].end_io = bio->bi_end_io;
		bio->bi_private = &w.bios[n];
		bio->bi_end_io = hooked_end_io;
		break;
	case SUBMIT_IOEND:
		iomap_init_ioend(iter->inode, bio, pos, IOMAP_IOEND_DIRECT);
		bio->bi_end_io = ioend_end_io;
		break;
	default:
		break;
	}
	submit_bio(bio);
	if (!w.bios[n].came) {
		/* The block layer has refused the bio. Let the worker handle that first. */
		w.bios[n].bio = NULL;
		WRITE_ONCE(w.ending, true);
		flush_workqueue(w.ioend_wq);
		WRITE_ONCE(w.ending, false);
	}
}

static int fs_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	say("fsync %lld-%lld datasync=%d", start, end, datasync);
	say_state();
	say(" %s\n", where());
	return w.s->fsync_error;
}

static int fs_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct folio *folio = NULL;
	int error = 0;

	/* Do not record the flusher. */
	if (current == w.player->task)
		say("writepages %lld-%lld\n", wbc->range_start, wbc->range_end);
	while ((folio = writeback_iter(mapping, wbc, folio, &error))) {
		folio_start_writeback(folio);
		folio_unlock(folio);
		folio_end_writeback(folio);
	}
	if (w.s && w.s->wb_error)
		return w.s->wb_error;
	return error;
}

static bool fs_release_folio(struct folio *folio, gfp_t gfp)
{
	return false;
}

/* The folio stays dirty, so it cannot be dropped. */
static int fs_launder_folio(struct folio *folio)
{
	say("launder page %lu", folio->index);
	say_state();
	say(" %s\n", where());
	return 0;
}

static void fs_invalidate_folio(struct folio *folio, size_t offset, size_t len)
{
	if (folio_test_private(folio))
		folio_detach_private(folio);
}

static const struct address_space_operations fs_aops = {
	.dirty_folio		= filemap_dirty_folio,
	.writepages		= fs_writepages,
	.release_folio		= fs_release_folio,
	.invalidate_folio	= fs_invalidate_folio,
	.launder_folio		= fs_launder_folio,
};

/* Maps a large folio also on architectures without huge pages. */
static int fs_mmap(struct file *file, struct vm_area_struct *vma)
{
	int error = 0;

	for (unsigned int i = 0; i < BIG_PAGES && !error; i++)
		error = vm_insert_page(vma, vma->vm_start + i * PAGE_SIZE, w.big + i);
	return error;
}

static const struct file_operations fs_fops = {
	.owner	= THIS_MODULE,
	.fsync	= fs_fsync,
	.mmap	= fs_mmap,
};

static void fs_dirty_inode(struct inode *inode, int flags)
{
	if (flags & I_DIRTY_INODE)
		say("dirty inode size=%lld %s\n", i_size_read(inode), where());
}

static void fs_report_error(const struct fserror_event *event)
{
	int n = atomic_fetch_inc(&w.fserrors);

	if (n >= ARRAY_SIZE(w.fserror))
		return;
	w.fserror[n].type = event->type;
	w.fserror[n].pos = event->pos;
	w.fserror[n].len = event->len;
	w.fserror[n].error = event->error;
}

static const struct super_operations fs_sops = {
	.alloc_inode	= crypt_alloc_inode,
	.free_inode	= crypt_free_inode,
	.evict_inode	= crypt_evict_inode,
	.dirty_inode	= fs_dirty_inode,
	.report_error	= fs_report_error,
	.statfs		= simple_statfs,
};

static int fs_init_fs_context(struct fs_context *fc)
{
	struct pseudo_fs_context *ctx = init_pseudo(fc, 0x696f6d70);

	if (!ctx)
		return -ENOMEM;
	ctx->ops = &fs_sops;
	return 0;
}

static struct file_system_type fs_type = {
	.owner			= THIS_MODULE,
	.name			= "iomap_dio_script",
	.init_fs_context	= fs_init_fs_context,
	.kill_sb		= kill_anon_super,
};

/* --- Tracepoints --- */

static void probe_begin(void *data, struct kiocb *iocb, struct iov_iter *iter,
		unsigned int dio_flags, size_t done_before)
{
	if (iocb != &w.iocb)
		return;
	say("trace begin pos=%lld count=%zu done_before=%zu ki_flags=%x dio_flags=%x aio=%d %s\n",
	    iocb->ki_pos, iov_iter_count(iter), done_before, iocb->ki_flags, dio_flags,
	    !is_sync_kiocb(iocb), where());
}

static void probe_queued(void *data, struct inode *inode, loff_t pos, u64 len)
{
	if (inode != w.inode)
		return;
	/* C reads the position when the simple read may be completed already. */
	if (w.completed && w.s->op == OP_SIMPLE && !w.s->poison)
		say("trace queued len=%llu\n", len);
	else
		say("trace queued pos=%lld len=%llu%s\n", pos, len, current->plug ? " plug" : "");
}

static void probe_invalidate_fail(void *data, struct inode *inode, loff_t pos, u64 len)
{
	if (inode == w.inode)
		say("trace invalidate_fail pos=%lld len=%llu\n", pos, len);
}

static void probe_complete(void *data, struct kiocb *iocb, int error, ssize_t ret)
{
	if (iocb != &w.iocb)
		return;
	say("trace complete error=%d ret=%zd ki_pos=%lld", error, ret, iocb->ki_pos);
	say_state();
	say(" %s\n", where());
}

static void probe_iter(void *data, struct iomap_iter *iter, const void *ops, unsigned long caller)
{
	if (iter->inode == w.inode)
		say("trace iter pos=%lld len=%llu status=%d flags=%x private=%s\n", iter->pos,
		    iter->len, iter->status, iter->flags, private_name(iter->private));
}

static void probe_dstmap(void *data, struct inode *inode, struct iomap *iomap)
{
	if (inode == w.inode)
		say("trace dstmap %lld+%llu type=%u\n", iomap->offset, iomap->length, iomap->type);
}

static void probe_srcmap(void *data, struct inode *inode, struct iomap *iomap)
{
	if (inode == w.inode)
		say("trace srcmap %lld+%llu type=%u\n", iomap->offset, iomap->length, iomap->type);
}

static void probe_kmem_cache_free(void *data, unsigned long call_site, const void *ptr,
		const struct kmem_cache *s)
{
	/* This is called for every kmem_cache_free() in the system, also between scripts. */
	if (!READ_ONCE(w.integrity) || !ptr)
		return;
	for (unsigned int i = 0; i < w.nr_bios; i++)
		if (READ_ONCE(w.bios[i].integrity) == ptr) {
			WRITE_ONCE(w.bios[i].integrity, NULL);
			say("free the integrity data of bio%u", i);
			say_pages();
			say("\n");
			break;
		}
}

static void probe_console(void *data, const char *text, size_t len)
{
	if (READ_ONCE(w.log) && current == w.player->task)
		say("log %.*s%s", (int)len, text, len && text[len - 1] == '\n' ? "" : "\n");
}

static void probes(bool on)
{
#define PROBE(event, fn) \
	(on ? (void)register_trace_##event(fn, NULL) : (void)unregister_trace_##event(fn, NULL))
	PROBE(iomap_dio_rw_begin, probe_begin);
	PROBE(iomap_dio_rw_queued, probe_queued);
	PROBE(iomap_dio_invalidate_fail, probe_invalidate_fail);
	PROBE(iomap_dio_complete, probe_complete);
	PROBE(iomap_iter, probe_iter);
	PROBE(iomap_iter_dstmap, probe_dstmap);
	PROBE(iomap_iter_srcmap, probe_srcmap);
	PROBE(kmem_cache_free, probe_kmem_cache_free);
	PROBE(console, probe_console);
#undef PROBE
	allocs_probes(on);
	if (!on)
		tracepoint_synchronize_unregister();
}

/* --- The caller --- */

static void ki_complete(struct kiocb *iocb, long ret)
{
	WRITE_ONCE(w.completed, w.completed + 1);
	w.rec->result = ret;
	say("ki_complete %ld", ret);
	if (iocb != &w.iocb)
		say(" another iocb");
	say_iocb();
	say_state();
	say(" %s\n", where());
	if (w.s->poison) {
		w.iocb.ki_pos = 0x5a5a5a5a5a;
		w.iocb.ki_filp = NULL;
	}
}

static bool memory_init(void)
{
	/* Like kunit_attach_mm(), which only works for the thread of the test. */
	w.mm = mm_alloc();
	if (!w.mm)
		return false;
	w.mm->task_size = TASK_SIZE;
	arch_pick_mmap_layout(w.mm, &current->signal->rlim[RLIMIT_STACK]);
	kthread_use_mm(w.mm);

	/* Present pages, then two that may be absent, then an unmapped range. */
	w.user = vm_mmap(NULL, 0, WORLD_BYTES + 4 * PAGE_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, 0);
	if (IS_ERR_VALUE(w.user))
		return false;
	w.big = alloc_pages(GFP_KERNEL | __GFP_COMP | __GFP_ZERO, ilog2(BIG_PAGES));
	if (!w.big)
		return false;
	/* The last page of the range cannot be accessed. */
	w.big_user = vm_mmap(w.file, 0, (BIG_PAGES + 1) * PAGE_SIZE, PROT_READ | PROT_WRITE,
			MAP_SHARED, SZ_1G);
	if (IS_ERR_VALUE(w.big_user))
		return false;
	vm_munmap(w.user + WORLD_BYTES + 2 * PAGE_SIZE, 2 * PAGE_SIZE);
	w.absent = w.user + WORLD_BYTES;
	mmap_read_lock(w.mm);
	for (int i = 0; i < WORLD_PAGES; i++) {
		if (get_user_pages(w.user + i * PAGE_SIZE, 1, FOLL_WRITE, &w.pages[i]) != 1) {
			mmap_read_unlock(w.mm);
			return false;
		}
	}
	mmap_read_unlock(w.mm);
	if (crypt_make_key(w.file, (void __user *)w.user))
		return false;
	/* The batches of the LRU lists hold references to pages. */
	lru_add_drain_all();
	for (int i = 0; i < WORLD_PAGES; i++)
		w.base_refs[i] = page_ref_count(w.pages[i]);
	return true;
}

static void memory_exit(void)
{
	for (int i = 0; i < WORLD_PAGES; i++)
		if (w.pages[i])
			put_page(w.pages[i]);
	if (w.mm) {
		kthread_unuse_mm(w.mm);
		mmput(w.mm);
		w.mm = NULL;
	}
	if (w.big)
		__free_pages(w.big, ilog2(BIG_PAGES));
}

static char *byte(size_t at)
{
	return (char *)page_address(w.pages[at / PAGE_SIZE]) + at % PAGE_SIZE;
}

static void each_piece(size_t at, size_t len, void (*fn)(char *p, size_t n, size_t at, void *arg),
		void *arg)
{
	while (len && at < WORLD_BYTES) {
		size_t n = min(len, PAGE_SIZE - at % PAGE_SIZE);

		fn(byte(at), n, at, arg);
		at += n;
		len -= n;
	}
}

static void piece_pattern(char *p, size_t n, size_t at, void *arg)
{
	for (size_t i = 0; i < n; i += 64)
		memset(p + i, ((at + i) / 64 * 5 + 3) & 0xff, min_t(size_t, 64, n - i));
}

static void piece_set(char *p, size_t n, size_t at, void *arg)
{
	memset(p, *(char *)arg, n);
}

static void piece_crc(char *p, size_t n, size_t at, void *arg)
{
	*(u32 *)arg = crc32(*(u32 *)arg, p, n);
}

/* Prepares the memory of the request and the iterator. */
static void memory_setup(void)
{
	const struct script *s = w.s;
	unsigned int dir = s->op == OP_WRITE ? ITER_SOURCE : ITER_DEST;
	size_t seg = s->seg ?: s->len, off = s->skew, left = s->len;
	unsigned int n = 0;
	char junk = 0x2e;

	if (s->absent)
		off = WORLD_BYTES - s->absent;
	else if (s->fault)
		off = WORLD_BYTES + 2 * PAGE_SIZE - s->fault;
	w.buffer = off;
	w.total = s->same ? PAGE_SIZE : s->len + 64;

	if (s->big) {
		w.total = 0;
		iov_iter_ubuf(&w.iter, dir, (void __user *)w.big_user + BIG_PAGES * PAGE_SIZE -
			      s->big, s->len);
		return;
	}

	if (s->absent || s->fault) {
		/* Replace the two pages, so that they are absent again. */
		vm_munmap(w.absent, 2 * PAGE_SIZE);
		if (vm_mmap(NULL, w.absent, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, 0) != w.absent)
			w.stuck = true;
	}
	if (dir == ITER_SOURCE)
		each_piece(off, w.total, piece_pattern, NULL);
	else
		each_piece(off, w.total, piece_set, &junk);
	for (size_t p = off / PAGE_SIZE; p < WORLD_PAGES && p * PAGE_SIZE < off + w.total; p++)
		folio_clear_dirty(page_folio(w.pages[p]));

	switch (s->mem) {
	case MEM_UBUF:
		iov_iter_ubuf(&w.iter, dir, (void __user *)(w.user + off), s->len);
		break;
	case MEM_IOVEC:
		while (left && n < WORLD_SEGS) {
			size_t len = min(left, seg);
			size_t late = s->odd_seg && n >= s->odd_seg ? 4 : 0;

			w.iov[n].iov_base = (void __user *)(w.user + off + late);
			w.iov[n++].iov_len = len;
			left -= len;
			if (!s->same)
				off += len;
		}
		iov_iter_init(&w.iter, dir, w.iov, n, s->len - left);
		break;
	default:
		/* No kernel segment crosses a page boundary. */
		while (left && n < WORLD_SEGS) {
			size_t len = min3(left, seg, PAGE_SIZE - off % PAGE_SIZE);

			w.kvec[n].iov_base = byte(off);
			w.kvec[n].iov_len = len;
			bvec_set_page(&w.bvec[n], w.pages[off / PAGE_SIZE], len, off % PAGE_SIZE);
			n++;
			left -= len;
			if (!s->same)
				off += len;
		}
		if (s->mem == MEM_BVEC)
			iov_iter_bvec(&w.iter, dir, w.bvec, n, s->len - left);
		else
			iov_iter_kvec(&w.iter, dir, w.kvec, n, s->len - left);
	}
	w.iter.nofault = !!s->absent;
}

static void cache_add(unsigned int n, bool dirty, bool stuck)
{
	struct address_space *mapping = w.inode->i_mapping;
	struct folio *folio;

	folio = __filemap_get_folio(mapping, (w.s->pos >> PAGE_SHIFT) + n,
			FGP_LOCK | FGP_ACCESSED | FGP_CREAT, GFP_KERNEL);
	if (IS_ERR(folio))
		return;
	folio_mark_uptodate(folio);
	if (stuck && !folio_test_private(folio))
		folio_attach_private(folio, (void *)1);
	if (dirty)
		folio_mark_dirty(folio);
	folio_unlock(folio);
	folio_put(folio);
}

static loff_t file_size(void)
{
	return w.s->size == EMPTY ? 0 : w.s->size ?: SZ_1M;
}

/* Blocks a work queue until the call has returned. */
static void wait_for_return(struct work_struct *work)
{
	wait_var_event(&w.returned, READ_ONCE(w.returned));
}

static DECLARE_WORK(late, wait_for_return);

static void setup(void)
{
	const struct script *s = w.s;
	struct queue_limits *lim = &w.disk->queue->limits;
	struct inode *inode = w.inode;

	lim->logical_block_size = s->lbs ?: 512;
	lim->dma_alignment = s->dma ?: 3;
	lim->features &= ~(BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA | BLK_FEAT_NOWAIT | BLK_FEAT_POLL);
	if (s->cache)
		lim->features |= BLK_FEAT_WRITE_CACHE;
	if (s->fua)
		lim->features |= BLK_FEAT_FUA;
	if (s->nowait)
		lim->features |= BLK_FEAT_NOWAIT;
	if (s->poll)
		lim->features |= BLK_FEAT_POLL;
	lim->atomic_write_unit_min = s->atomic ? 512 : 0;
	lim->atomic_write_unit_max = s->atomic;
	memset(&lim->integrity, 0, sizeof(lim->integrity));
	if (s->pi) {
		lim->integrity.csum_type = BLK_INTEGRITY_CSUM_CRC;
		lim->integrity.metadata_size = 8;
		lim->integrity.pi_tuple_size = 8;
		lim->integrity.interval_exp = ilog2(lim->logical_block_size);
	}

	inode->i_blkbits = s->blkbits ?: 12;
	inode->i_sb->s_blocksize_bits = inode->i_blkbits;
	inode->i_sb->s_blocksize = 1UL << inode->i_blkbits;
	inode->i_flags = (s->is_sync ? S_SYNC : 0) | (s->crypt ? S_ENCRYPTED : 0);
	crypt_set_disk(s->crypt != CRYPT_BLOCK_LAYER);
	inode->i_write_hint = s->hint;
	i_size_write(inode, file_size());
	memset(w.inline_data, 0x77, PAGE_SIZE);

	for (unsigned int i = 0; i < 8; i++)
		if ((s->cached | s->dirty | s->stuck) & BIT(i))
			cache_add(i, s->dirty & BIT(i), s->stuck & BIT(i));

	if (s->fresh_wq && w.sb->s_dio_done_wq) {
		destroy_workqueue(w.sb->s_dio_done_wq);
		w.sb->s_dio_done_wq = NULL;
	} else if (!s->fresh_wq && !w.sb->s_dio_done_wq) {
		sb_init_dio_done_wq(w.sb);
	}

	memory_setup();
	w.count = iov_iter_count(&w.iter);
	init_sync_kiocb(&w.iocb, w.file);
	w.iocb.ki_pos = s->pos;
	w.iocb.ki_flags |= s->ki_flags | IOCB_DIRECT;
	if (s->op == OP_WRITE)
		w.iocb.ki_flags |= IOCB_WRITE;
	w.iocb.ki_ioprio = s->ioprio;
	if (s->async)
		w.iocb.ki_complete = ki_complete;

	w.maps = 0;
	w.nr_bios = 0;
	memset(w.bios, 0, sizeof(w.bios));
	atomic_set(&w.in_flight, 0);
	atomic_set(&w.fserrors, 0);
	w.cleaned = w.returned = w.polling = w.ending = w.steps_over = w.inline_steps = w.completer_on = w.stuck = false;
	w.completed = 0;
	w.io_start = accounted();
	w.dio_waits = false;
	w.dio_waiter = NULL;
	reinit_completion(&w.dio_waited);
	w.zero_refs = folio_ref_count(largest_zero_folio());
	filemap_check_errors(inode->i_mapping);
	if (!s->dirty)
		mapping_set_error(inode->i_mapping, s->wb_error);
	inode->i_mapping->wb_err = 0;
	w.file->f_wb_err = 0;
	atomic_set(&inode->i_dio_count, s->others);
	if (s->untraced)
		probes(false);
	if (s->late_wq) {
		w.usual_wq = w.sb->s_dio_done_wq;
		w.sb->s_dio_done_wq = w.late_wq;
		queue_work(w.late_wq, &late);
	}
}

/* --- Execution --- */

/* Waits until only a step can make progress. */
static void settle(void)
{
	unsigned long end = jiffies + PATIENCE;

	for (;;) {
		if (current != w.completer->task || READ_ONCE(w.returned))
			break;
		if (atomic_read(&w.in_flight) > 0 && !READ_ONCE(w.ending) &&
		    (READ_ONCE(w.polling) ||
		     wait_task_inactive(w.player->task, TASK_UNINTERRUPTIBLE)))
			break;
		if (time_after(jiffies, end)) {
			w.stuck = true;
			return;
		}
		yield();
	}
	flush_workqueue(w.ioend_wq);
	if (w.sb->s_dio_done_wq)
		flush_workqueue(w.sb->s_dio_done_wq);
	/* The block layer has a worker dirty the pages that were cleaned during a read. */
	if (w.cleaned)
		__flush_workqueue(system_percpu_wq);
	while (refcount_read(&w.sb->s_pending_errors) > 1) {
		if (time_after(jiffies, end)) {
			w.stuck = true;
			return;
		}
		yield();
	}
}

static void dio_wait_work(struct work_struct *work)
{
	WRITE_ONCE(w.dio_waiter, current);
	inode_dio_wait(w.inode);
	complete(&w.dio_waited);
}

static DECLARE_WORK(dio_wait, dio_wait_work);

/* Makes another thread wait for the requests, and returns when it sleeps. */
static void wait_elsewhere(void)
{
	w.dio_waits = true;
	queue_work(system_dfl_wq, &dio_wait);
	while (!completion_done(&w.dio_waited) &&
	       (!READ_ONCE(w.dio_waiter) ||
		!wait_task_inactive(w.dio_waiter, TASK_UNINTERRUPTIBLE)))
		yield();
}

static void one_step(const struct script_step *step)
{
	unsigned int n;
	char junk = 0x99;

	switch (step->what) {
	case STEP_END:
		say("step: end bio%lld\n", step->arg);
		end_bio_in(step->arg, step->ctx);
		break;
	case STEP_CLEAN:
		say("step: clean pages\n");
		/* A second time would race with the worker that dirties them again. */
		if (w.cleaned)
			break;
		w.cleaned = true;
		for (n = 0; n < WORLD_PAGES; n++)
			folio_clear_dirty(page_folio(w.pages[n]));
		break;
	case STEP_CACHE:
	case STEP_DIRTY:
		say("step: cache page %lld\n", step->arg);
		cache_add(step->arg, step->what == STEP_DIRTY, false);
		break;
	case STEP_SIZE:
		say("step: size %lld\n", step->arg);
		i_size_write(w.inode, step->arg);
		break;
	case STEP_SCRIBBLE:
		say("step: scribble\n");
		each_piece(w.buffer, w.total, piece_set, &junk);
		break;
	case STEP_POLL:
		/* After completion the poller finds a freed bio with C, and none with Rust. */
		if (private_is_known_to_differ())
			break;
		say("step: poll");
		say_iocb();
		say("\n");
		/* The end of a bounced bio may sleep, but polling is under RCU. */
		if (w.s->dio_flags & IOMAP_DIO_BOUNCE && w.s->submit != SUBMIT_IOEND)
			break;
		/* The bio in iocb->private may be freed, but its memory stays a bio. */
		iocb_bio_iopoll(&w.iocb, NULL, 0);
		break;
	case STEP_WAIT:
		say("step: wait\n");
		wait_elsewhere();
		break;
	}
}

static void play_steps(struct kthread_work *work)
{
	settle();
	if (w.steps_over || (work && READ_ONCE(w.returned)))
		return;		/* The submitter did not wait. The player executes them. */
	w.steps_over = true;
	/* For a polled bio, a waiting submitter polls with Rust and sleeps with C. */
	if (work && !(w.s->ki_flags & IOCB_HIPRI && w.iocb.private))
		say("submitter waits%s\n", w.player->task->in_iowait ? " for I/O" : "");
	else if (work && w.impl == IMPL_RUST && !READ_ONCE(w.polling))
		say("nobody polls\n");
	for (unsigned int i = 0; i < SCRIPT_STEPS && w.s->step[i].what && !w.stuck; i++) {
		one_step(&w.s->step[i]);
		settle();
	}
	for (unsigned int i = 0; i < w.nr_bios; i++)
		if (w.bios[i].bio) {
			end_bio_in(i, CTX_TASK);
			/* If the request is stuck, the other bios may release it. */
			if (!w.stuck)
				settle();
		}
}

static ssize_t request(void)
{
	const struct script *s = w.s;
	const struct iomap_ops *ops = s->next ? &fs_ops_next : s->no_end ? &fs_ops_no_end : &fs_ops;
	struct iomap_dio_ops dops = {
		.end_io		= s->end_io ? fs_end_io : NULL,
		.submit_io	= s->submit ? fs_submit_io : NULL,
		.bio_set	= s->set == SET_OWN ? &w.set :
				  s->set == SET_IOEND ? &iomap_ioend_bioset : NULL,
	};
	static struct iomap_dio_ops kept;
	const struct iomap_dio_ops *d = NULL;
	struct iomap_dio *dio;
	void *private = s->private ? &w.private : NULL;
	ssize_t ret;

	/* The callbacks must outlive the call. */
	kept = dops;
	if (s->dops || s->end_io || s->submit || s->set)
		d = &kept;

	if (s->op == OP_SIMPLE) {
		ret = iomap_dio_read_simple(&w.iocb, &w.iter, fs_begin);
		if (ret != -ENOTBLK)
			return ret;
		say("not simple");
		say_state();
		say(" left=%zu\n", iov_iter_count(&w.iter));
	}
	if (!s->split)
		return iomap_dio_rw(&w.iocb, &w.iter, ops, d, s->dio_flags, private,
				s->done_before);

	dio = __iomap_dio_rw(&w.iocb, &w.iter, ops, d, s->dio_flags, private, s->done_before);
	if (IS_ERR_OR_NULL(dio)) {
		say("no dio %ld\n", PTR_ERR(dio));
		return PTR_ERR_OR_ZERO(dio);
	}
	say("dio");
	say_state();
	say("\n");
	return iomap_dio_complete(dio);
}

/* If pages are clean when their bio ends, a worker dirties and unpins them. */
static void wait_for_pins(void)
{
	unsigned long end = jiffies + PATIENCE;
	size_t first = w.buffer / PAGE_SIZE;

	for (size_t i = first; i < WORLD_PAGES && i * PAGE_SIZE < w.buffer + w.total; i++)
		while (page_ref_count(w.pages[i]) - w.base_refs[i] >= GUP_PIN_COUNTING_BIAS) {
			if (time_after(jiffies, end))
				return;
			yield();
		}
}

/* Bytes between the start of the memory and the position of the iterator. */
static size_t moved(void)
{
	size_t n = w.iter.iov_offset;

	if (iter_is_iovec(&w.iter))
		for (const struct iovec *v = w.iov; v < iter_iov(&w.iter); v++)
			n += v->iov_len;
	else if (iov_iter_is_kvec(&w.iter))
		for (const struct kvec *v = w.kvec; v < w.iter.kvec; v++)
			n += v->iov_len;
	else if (iov_iter_is_bvec(&w.iter))
		for (const struct bio_vec *v = w.bvec; v < w.iter.bvec; v++)
			n += v->bv_len;
	return n;
}

static void final_words(ssize_t ret)
{
	struct address_space *mapping = w.inode->i_mapping;
	u32 crc = ~0;

	if (w.cleaned) {
		wait_for_pins();
		w.cleaned = false;
	}
	if (w.s->poison && w.completed)
		w.iocb.ki_filp = w.file;
	say("final");
	say_iocb();
	say_state();
	say(" left=%zu size=%lld completed=%u", iov_iter_count(&w.iter), i_size_read(w.inode),
	    w.completed);
	each_piece(w.buffer, w.total, piece_crc, &crc);
	say(" crc=%08x", crc);
	if (memchr_inv(w.inline_data, 0x77, PAGE_SIZE))
		say(" inline=%08x", crc32(~0, w.inline_data, PAGE_SIZE));
	if (folio_ref_count(largest_zero_folio()) != w.zero_refs)
		say(" zero=%d", folio_ref_count(largest_zero_folio()) - w.zero_refs);
	/* In C the position may contradict the length (a known difference); never in Rust. */
	if (moved() + iov_iter_count(&w.iter) != w.count && (w.s->moved || w.impl == IMPL_RUST))
		say(" moved=%zu", moved());
	if (w.dio_waits)
		say(wait_for_completion_timeout(&w.dio_waited, HZ) ? " waited" : " not woken");
	if (w.s->fresh_wq)
		say(" wq=%d", !!w.sb->s_dio_done_wq);
	if (filemap_check_wb_err(mapping, w.file->f_wb_err))
		say(" wb_err=%d", filemap_check_wb_err(mapping, w.file->f_wb_err));
	say("\n");
	for (int i = 0; i < min_t(int, atomic_read(&w.fserrors), ARRAY_SIZE(w.fserror)); i++)
		say("fserror type=%d pos=%lld len=%llu error=%d\n", w.fserror[i].type,
		    w.fserror[i].pos, w.fserror[i].len, w.fserror[i].error);
}

static void cleanup(void)
{
	WRITE_ONCE(w.integrity, false);
	while (atomic_read(&page_folio(w.big)->_pincount))
		unpin_user_page(w.big);		/* The block layer leaks some pins. */
	truncate_inode_pages(w.inode->i_mapping, 0);
	filemap_check_errors(w.inode->i_mapping);
	atomic_set(&w.inode->i_dio_count, 0);
	if (w.s->untraced)
		probes(true);
	if (w.s->late_wq) {
		flush_workqueue(w.late_wq);
		w.sb->s_dio_done_wq = w.usual_wq;
	}
	if (w.dio_waits) {
		wake_up_var(&w.inode->i_dio_count);
		flush_work(&dio_wait);
	}
}

struct play {
	struct kthread_work work;
	struct completion done;
	const struct script *s;
	enum impl impl;
	struct record *rec;
	int error;
};

static void play(struct kthread_work *work)
{
	struct play *p = container_of(work, struct play, work);
	unsigned long end;
	int warned = 0;
	ssize_t ret;

	w.s = p->s;
	w.impl = p->impl;
	iomap_dio_choose(p->impl == IMPL_C);
	setup();
	p->rec->len = 0;
	p->rec->full = false;
	p->rec->text[0] = '\0';
	if (w.warnings)
		warned = kunit_suppressed_warning_count(w.warnings);
	w.rec = p->rec;

	if (w.s->allocs || w.s->fail_alloc)
		allocs_begin(w.s->fail_alloc);
	WRITE_ONCE(w.log, w.s->log);
	ret = request();
	WRITE_ONCE(w.log, false);
	if (w.s->allocs || w.s->fail_alloc)
		allocs_end();
	if (!w.completed)
		p->rec->result = ret;
	say("return %zd", ret);
	say_iocb();
	say_state();
	say("\n");

	WRITE_ONCE(w.returned, true);
	wake_up_var(&w.returned);
	if (w.completer_on)
		kthread_flush_work(&w.steps_work);
	w.inline_steps = true;
	if (!w.stuck)
		play_steps(NULL);
	w.inline_steps = false;
	/* The block layer decrypts in its own worker. */
	for (end = jiffies + PATIENCE; w.s->crypt == CRYPT_BLOCK_LAYER && time_before(jiffies, end);
	     yield())
		if (ret != -EIOCBQUEUED || READ_ONCE(w.completed))
			break;
	if (ret == -EIOCBQUEUED && !w.completed)
		w.stuck = true;

	if (w.stuck)
		say("stuck\n");
	else
		final_words(ret);
	if (w.warnings && kunit_suppressed_warning_count(w.warnings) != warned) {
		say("warned\n");
		/* Rearm WARN_ON_ONCE() and the like for the next script. */
		generic_bug_clear_once();
		memset(__start_once, 0, __end_once - __start_once);
	}
	allocs_forget();
	w.rec = NULL;
	cleanup();
	p->error = w.stuck ? -ETIMEDOUT : p->rec->full ? -E2BIG : 0;
	complete(&p->done);
}

int world_play(const struct script *s, enum impl impl, struct record *rec)
{
	struct play p = { .s = s, .impl = impl, .rec = rec };

	if (s->crashes_c && impl == IMPL_C) {
		rec->len = scnprintf(rec->text, RECORD_BYTES, "crash\n");
		rec->result = 0;
		return 0;
	}
	init_completion(&p.done);
	kthread_init_work(&p.work, play);
	kthread_queue_work(w.player, &p.work);
	/* TASK_IDLE, so that the hung task detector ignores this thread. */
	wait_for_completion_state(&p.done, TASK_IDLE);
	return p.error;
}

/* --- Setting up and tearing down --- */

struct call {
	struct kthread_work work;
	struct kunit *test;
	bool ok;
};

static void player_init(struct kthread_work *work)
{
	struct call *call = container_of(work, struct call, work);

	call->ok = memory_init();
}

static void player_exit(struct kthread_work *work)
{
	memory_exit();
}

static void player_quiet(struct kthread_work *work)
{
	struct call *call = container_of(work, struct call, work);

	if (call->test)
		w.warnings = kunit_start_suppress_warning(call->test);
	else
		w.warnings = NULL;
}

static bool on_player(void (*fn)(struct kthread_work *), struct kunit *test)
{
	struct call call = { .test = test, .ok = true };

	kthread_init_work(&call.work, fn);
	kthread_queue_work(w.player, &call.work);
	kthread_flush_work(&call.work);
	return call.ok;
}

static int fs_make(void)
{
	int error = register_filesystem(&fs_type);

	if (error)
		return error;
	w.mnt = kern_mount(&fs_type);
	if (IS_ERR(w.mnt)) {
		error = PTR_ERR(w.mnt);
		w.mnt = NULL;
		return error;
	}
	w.sb = w.mnt->mnt_sb;
	error = super_setup_bdi(w.sb);
	if (error)
		return error;
	error = crypt_make(w.sb, w.disk->part0);
	if (error)
		return error;
	w.inode = new_inode(w.sb);
	if (!w.inode)
		return -ENOMEM;
	w.inode->i_mode = S_IFREG | 0600;
	w.inode->i_mapping->a_ops = &fs_aops;
	w.inode->i_fop = &fs_fops;
	w.file = alloc_file_pseudo(w.inode, w.mnt, "script", O_RDWR | O_DIRECT, &fs_fops);
	if (IS_ERR(w.file)) {
		error = PTR_ERR(w.file);
		w.file = NULL;
		iput(w.inode);
		return error;
	}
	w.inline_data = (char *)get_zeroed_page(GFP_KERNEL);
	return w.inline_data ? 0 : -ENOMEM;
}

static int disk_make(void)
{
	struct queue_limits lim = {
		.logical_block_size	= 512,
		.dma_alignment		= 3,
	};
	int error;

	w.disk = blk_alloc_disk(&lim, NUMA_NO_NODE);
	if (IS_ERR(w.disk)) {
		error = PTR_ERR(w.disk);
		w.disk = NULL;
		return error;
	}
	w.disk->fops = &disk_fops;
	w.disk->flags |= GENHD_FL_NO_PART;
	strscpy(w.disk->disk_name, "iomapdio0");
	set_capacity(w.disk, DISK_SECTORS);
	error = add_disk(w.disk);
	if (error) {
		put_disk(w.disk);
		w.disk = NULL;
	}
	return error;
}

int world_make(void)
{
	int error;

	init_completion(&w.soft_done);
	init_completion(&w.dio_waited);
	tasklet_setup(&w.tasklet, soft_fn);
	kthread_init_work(&w.steps_work, play_steps);
	error = disk_make();
	if (error)
		return error;
	error = fs_make();
	if (error)
		return error;
	error = bioset_init(&w.set, 4, 0, BIOSET_NEED_BVECS);
	if (error)
		return error;
	w.wq = alloc_workqueue("dio_script", WQ_PERCPU, 1);
	w.ioend_wq = alloc_workqueue("dio_script_ioend", WQ_PERCPU, 1);
	w.late_wq = alloc_workqueue("dio_script_late", WQ_PERCPU | WQ_MEM_RECLAIM, 1);
	if (!w.wq || !w.ioend_wq || !w.late_wq)
		return -ENOMEM;
	/* Only one of them runs at a time; on one CPU they alternate quickly. */
	w.player = kthread_run_worker_on_cpu(WORLD_CPU, 0, "dio-player/%u");
	if (IS_ERR(w.player)) {
		w.player = NULL;
		return -ENOMEM;
	}
	w.completer = kthread_run_worker_on_cpu(WORLD_CPU, 0, "dio-completer/%u");
	if (IS_ERR(w.completer)) {
		w.completer = NULL;
		return -ENOMEM;
	}
	if (!on_player(player_init, NULL))
		return -ENOMEM;
	probes(true);
	return 0;
}

void world_unmake(void)
{
	iomap_dio_choose(false);
	probes(false);
	if (w.completer)
		kthread_destroy_worker(w.completer);
	if (w.player) {
		on_player(player_exit, NULL);
		kthread_destroy_worker(w.player);
	}
	if (w.wq)
		destroy_workqueue(w.wq);
	if (w.ioend_wq)
		destroy_workqueue(w.ioend_wq);
	if (w.late_wq)
		destroy_workqueue(w.late_wq);
	bioset_exit(&w.set);
	/* The key is evicted from the fallback only if the disk cannot encrypt. */
	crypt_set_disk(false);
	if (w.file)
		__fput_sync(w.file);
	free_page((unsigned long)w.inline_data);
	if (w.mnt) {
		kern_unmount(w.mnt);
		unregister_filesystem(&fs_type);
		crypt_unmake();
	}
	if (w.disk) {
		del_gendisk(w.disk);
		put_disk(w.disk);
	}
	memset(&w, 0, sizeof(w));
}

void world_enter(struct kunit *test)
{
	set_cpus_allowed_ptr(current, cpumask_of(WORLD_CPU));
	on_player(player_quiet, test);
}

