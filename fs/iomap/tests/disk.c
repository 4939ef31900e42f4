// SPDX-License-Identifier: GPL-2.0
/*
 * The simulated disk: it holds each bio until a script ends it, in any context.
 */
#include <linux/bio-integrity.h>
#include <linux/blkdev.h>
#include <linux/interrupt.h>
#include <linux/iomap.h>
#include "world.h"

unsigned int bio_number(struct bio *bio)
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

u64 accounted(void)
{
#ifdef CONFIG_TASK_IO_ACCOUNTING
	return current->ioac.write_bytes - current->ioac.cancelled_write_bytes;
#else
	return 0;
#endif
}

/*
 * Network devices take references to pages of a bio that are not of slab. The first one must not be
 * theirs.
 */
static bool has_references(struct bio *bio)
{
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
		struct folio *folio = page_folio(bv.bv_page);

		if (!folio_test_slab(folio) && !folio_ref_count(folio))
			return false;
	}
	return true;
}

static void fill(struct bio *bio)
{
	struct bio_integrity_payload *bip = bio_integrity(bio);
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
	if (bip)
		memset(bvec_virt(bip->bip_vec), w.s->pi == 2 ? 0 : 0xff, bip->bip_iter.bi_size);
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
	if (!has_references(bio))
		say("bio%u: a page without a reference\n", n);
	if (op_is_write(bio_op(bio)) && bio_crc(bio) != w.bios[n].crc)
		say("bio%u: the data has changed\n", n);
	if (picked(s->fail, n))
		bio->bi_status = s->status ? (__force blk_status_t)s->status : BLK_STS_IOERR;
	else if (picked(s->fail2, n))
		bio->bi_status = (__force blk_status_t)s->status2;
	else if (bio_op(bio) == REQ_OP_READ)
		fill(bio);
	say("end bio%u status=%d %s\n", n, blk_status_to_errno(bio->bi_status), where());
	if (op_is_write(bio_op(bio)))
		CUT_NOTE(.what = CUT_ENDED, .n = n, .error = blk_status_to_errno(bio->bi_status));
	atomic_dec(&w.in_flight);
	bio_endio(bio);
}

static DECLARE_COMPLETION(soft_done);

static void end_bio_softirq(struct tasklet_struct *tasklet)
{
	end_bio(w.ending_bio);
	complete(&soft_done);
}

static DECLARE_TASKLET(end_softirq, end_bio_softirq);

static void end_bio_worker(struct work_struct *work)
{
	end_bio(w.ending_bio);
}

static DECLARE_WORK(end_worker, end_bio_worker);

void flush_workers(void)
{
	flush_workqueue(w.ioend_wq);
	if (w.sb->s_dio_done_wq)
		flush_workqueue(w.sb->s_dio_done_wq);
}

void disk_end_bio(unsigned int n, enum script_ctx ctx)
{
	unsigned long flags;

	w.ending_bio = n;
	switch (ctx) {
	case CTX_SOFTIRQ:
		reinit_completion(&soft_done);
		local_bh_disable();
		tasklet_schedule(&end_softirq);
		local_bh_enable();
		wait_for_completion_state(&soft_done, TASK_IDLE);
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
		queue_work(system_percpu_wq, &end_worker);
		flush_work(&end_worker);
		break;
	default:
		end_bio(n);
	}
	/* Let the workers finish before the next step. */
	flush_workers();
}

static void note_write(struct bio *bio, unsigned int n)
{
	u64 addr = bio->bi_iter.bi_sector * SECTOR_SIZE;
	/* IOMAP_F_ANON_WRITE: it has no address. */
	s64 pos = addr < FILE_START ? w.bios[n].pos : addr - FILE_START;
	/* The caller's memory may be the zero page as well, but then it is pinned. */
	bool zero = !bio_flagged(bio, BIO_PAGE_PINNED) &&
		    is_zero_folio(page_folio(bio_iter_iovec(bio, bio->bi_iter).bv_page));

	CUT_NOTE(.what = CUT_WRITE, .from = pos, .to = pos + bio->bi_iter.bi_size, .n = n,
		 .flags = (__force u32)bio->bi_opf, .zero = zero, .size = i_size_read(w.inode));
}

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
	say(" acct=%llu%s", accounted() - w.io_start, current->plug ? " plug" : "");
	say_iocb();
	say_state_and_where();

	w.bios[n].came = true;
	if (write) {
		w.bios[n].crc = bio_crc(bio);
		note_write(bio, n);
	}
	if (bio->bi_opf & REQ_POLLED)
		bio->bi_cookie = ~BLK_QC_T_NONE;
	atomic_inc(&w.in_flight);
	if (picked(s->at_once, n)) {
		/* If this sleeps, it is not the submitter that waits. */
		WRITE_ONCE(w.ending, true);
		disk_end_bio(n, s->at_ctx);
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

void disk_set_limits(const struct script *s)
{
	struct queue_limits *lim = &w.disk->queue->limits;

	lim->logical_block_size = s->lbs ?: 512;
	lim->dma_alignment = s->dma ?: 3;
	lim->features &= ~(BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA | BLK_FEAT_NOWAIT | BLK_FEAT_POLL);
	lim->features |= (s->cache ? BLK_FEAT_WRITE_CACHE : 0) | (s->fua ? BLK_FEAT_FUA : 0) |
			 (s->nowait ? BLK_FEAT_NOWAIT : 0) | (s->poll ? BLK_FEAT_POLL : 0);
	lim->atomic_write_unit_min = s->atomic ? 512 : 0;
	lim->atomic_write_unit_max = s->atomic;
	lim->integrity = (struct blk_integrity){ };
	if (s->pi)
		lim->integrity = (struct blk_integrity){
			.csum_type	= BLK_INTEGRITY_CSUM_CRC,
			.metadata_size	= 8,
			.pi_tuple_size	= 8,
			.interval_exp	= ilog2(lim->logical_block_size),
		};
	crypt_set_disk(s->crypt != CRYPT_BLOCK_LAYER);
}

int disk_make(void)
{
	struct queue_limits lim = { .logical_block_size = 512, .dma_alignment = 3 };
	struct gendisk *disk = blk_alloc_disk(&lim, NUMA_NO_NODE);
	int error;

	if (IS_ERR(disk))
		return PTR_ERR(disk);
	disk->fops = &disk_fops;
	disk->flags |= GENHD_FL_NO_PART;
	strscpy(disk->disk_name, "iomapdio0");
	set_capacity(disk, DISK_SECTORS);
	error = add_disk(disk);
	if (error)
		put_disk(disk);
	else
		w.disk = disk;
	return error;
}

void disk_unmake(void)
{
	if (!w.disk)
		return;
	del_gendisk(w.disk);
	put_disk(w.disk);
}
