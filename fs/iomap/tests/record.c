// SPDX-License-Identifier: GPL-2.0
/*
 * The record of the simulated world: what each part writes, and the tracepoints.
 */
#include <linux/blkdev.h>
#include <linux/crc32.h>
#include <linux/iomap.h>
#include <linux/pagemap.h>
#include <trace/events/kmem.h>
#include <trace/events/printk.h>
#include <trace/events/workqueue.h>
#include "../trace.h"
#include "world.h"

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

const char *where(void)
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

	if (w.cleaned)
		return;
	for_each_page_of_request(p) {
		pins += (page_ref_count(w.pages[p]) - w.base_refs[p]) / GUP_PIN_COUNTING_BIAS;
		dirty += folio_test_dirty(page_folio(w.pages[p]));
	}
	if (w.s->big)
		pins = atomic_read(&page_folio(w.big)->_pincount);
	say(" pins=%u dirty=%u", pins, dirty);
}

void say_state(void)
{
	int count = atomic_read(&w.inode->i_dio_count);

	say(" dio=%d", count);
	if (count && w.dio_waits && completion_done(&w.dio_waited))
		say(" not waited for");
	say_cache();
	say_pages();
}

void say_state_and_where(void)
{
	say_state();
	say(" %s\n", where());
}

static bool polled_bio_before_others_has_ended(void)
{
	return w.nr_bios > 1 && w.bios[0].polled && !w.bios[0].bio;
}

/*
 * When a worker or the submitter completes a polled request, and before other bios have
 * ended, C leaves the address of the freed bio in iocb->private, and Rust does not.  The
 * scripts that show this set .poison.
 */
bool private_is_known_to_differ(void)
{
	return w.s->async && w.s->ki_flags & IOCB_HIPRI && !w.s->poison &&
	       (w.completed || w.answered || current->flags & PF_WQ_WORKER ||
		polled_bio_before_others_has_ended());
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

void say_iocb(void)
{
	unsigned int n;

	say(" ki_pos=%lld ki_flags=%x", w.iocb.ki_pos, w.iocb.ki_flags);
	if (private_is_known_to_differ())
		return;
	n = private_bio();
	if (!w.iocb.private)
		say(" private=none");
	else if (n < WORLD_BIOS)
		say(" private=bio%u", n);
	else
		say(" private=other");
}

const char *private_name(const void *private)
{
	return private == &w.private ? "own" : private ? "other" : "none";
}

static const struct {
	blk_opf_t flag;
	const char *name;
} opf_names[] = {
	{ REQ_SYNC, "SYNC" }, { REQ_IDLE, "IDLE" }, { REQ_FUA, "FUA" },
	{ REQ_PREFLUSH, "PREFLUSH" }, { REQ_NOWAIT, "NOWAIT" }, { REQ_ATOMIC, "ATOMIC" },
	{ REQ_POLLED, "POLLED" }, { REQ_NOMERGE, "NOMERGE" }, { REQ_INTEGRITY, "INTEGRITY" },
};

bool nowait_differs(void)
{
	return !w.s->name && w.long_way && w.s->ki_flags & IOCB_NOWAIT;
}

void say_opf(blk_opf_t opf)
{
	/* REQ_ALLOC_CACHE depends on the state of the allocator. */
	blk_opf_t left = opf & ~(REQ_OP_MASK | REQ_ALLOC_CACHE);
	const char *sep = "";

	if (nowait_differs() && !op_is_write(opf))
		left &= ~REQ_NOWAIT;
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

u32 bio_crc(struct bio *bio)
{
	struct bvec_iter iter;
	struct bio_vec bv;
	u32 crc = ~0;

	__bio_for_each_bvec(bv, bio, iter, bio->bi_iter)
		crc = crc32(crc, bvec_virt(&bv), bv.bv_len);
	return crc;
}

void say_vecs(struct bio *bio)
{
	/* A single-bio request has one buffer in Rust. In C they are of powers of two bytes. */
	bool bounced = w.s->dio_flags & IOMAP_DIO_BOUNCE && w.s->set != SET_OWN;
	struct bvec_iter iter;
	struct bio_vec bv;
	unsigned int n = 0;

	__bio_for_each_bvec(bv, bio, iter, bio->bi_iter) {
		struct page *page = bv.bv_page + (bv.bv_offset >> PAGE_SHIFT);
		int nr = page_number(page);

		if (n++ >= 3)
			continue;
		say(n > 1 ? "," : " vecs=");
		if (is_zero_folio(page_folio(page))) {
			say("zero:%u", bv.bv_len);
		} else if (nr >= 0) {
			say("p%d+%lu:%u", nr, offset_in_page(bv.bv_offset), bv.bv_len);
		} else if (bounced) {
			say("copy:%u", bio->bi_iter.bi_size);
			break;
		} else {
			say("copy:%u", bv.bv_len);
		}
	}
	say("(%u)", n);
	if (op_is_write(bio_op(bio)))
		say(" crc=%08x", bio_crc(bio));
}

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
	say_state_and_where();
}

static void probe_iter(void *data, struct iomap_iter *iter, const void *ops, unsigned long caller)
{
	if (iter->inode == w.inode)
		say("trace iter pos=%lld len=%llu status=%d flags=%x private=%s\n", iter->pos,
		    iter->len, iter->status, iter->flags, private_name(iter->private));
}

static const char dstmap[] = "dstmap", srcmap[] = "srcmap";

static void probe_map(void *name, struct inode *inode, struct iomap *iomap)
{
	if (inode == w.inode)
		say("trace %s %lld+%llu type=%u\n", (char *)name, iomap->offset,
		    iomap->length, iomap->type);
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

/* fserror_report() leaves the rest to a worker, so this shows when it is called. */
static void probe_queue_work(void *data, int cpu, struct pool_workqueue *pwq,
			     struct work_struct *work)
{
	char name[32];

	if (!READ_ONCE(w.rec))
		return;
	snprintf(name, sizeof(name), "%ps", work->func);
	if (!strcmp(name, "fserror_worker"))
		say("report dio=%d %s\n", atomic_read(&w.inode->i_dio_count), where());
}

static void probe_console(void *data, const char *text, size_t len)
{
	if (READ_ONCE(w.log) && current == w.player->task)
		say("log %.*s%s", (int)len, text, len && text[len - 1] == '\n' ? "" : "\n");
}

void record_probes(bool on)
{
	PROBE(on, iomap_dio_rw_begin, probe_begin, NULL);
	PROBE(on, iomap_dio_rw_queued, probe_queued, NULL);
	PROBE(on, iomap_dio_invalidate_fail, probe_invalidate_fail, NULL);
	PROBE(on, iomap_dio_complete, probe_complete, NULL);
	PROBE(on, iomap_iter, probe_iter, NULL);
	PROBE(on, iomap_iter_dstmap, probe_map, (void *)dstmap);
	PROBE(on, iomap_iter_srcmap, probe_map, (void *)srcmap);
	PROBE(on, kmem_cache_free, probe_kmem_cache_free, NULL);
	PROBE(on, workqueue_queue_work, probe_queue_work, NULL);
	PROBE(on, console, probe_console, NULL);
	allocs_probes(on);
	if (!on)
		tracepoint_synchronize_unregister();
}
