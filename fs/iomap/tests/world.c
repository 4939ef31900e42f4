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
#include <linux/blkdev.h>
#include <linux/bug.h>
#include <linux/crc32.h>
#include <linux/file.h>
#include <linux/iomap.h>
#include <linux/kthread.h>
#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/swap.h>
#include <linux/vmalloc.h>
#include <asm/sections.h>
#include "../../internal.h"
#include "../direct_io_compare.h"
#include "world.h"

#define WORLD_CPU	0
#define PATIENCE	(10 * HZ)

struct world w;

/* Waits, with patience; whether @condition is true. */
#define wait_until(condition)						\
({									\
	unsigned long end = jiffies + PATIENCE;				\
	bool met;							\
									\
	while (!(met = (condition)) && !time_after(jiffies, end))	\
		yield();						\
	met;								\
})

/* --- The memory of the caller --- */

static int memory_make(void)
{
	/* Like kunit_attach_mm(), which only works for the thread of the test. */
	w.mm = mm_alloc();
	if (!w.mm)
		return -ENOMEM;
	w.mm->task_size = TASK_SIZE;
	arch_pick_mmap_layout(w.mm, &current->signal->rlim[RLIMIT_STACK]);
	kthread_use_mm(w.mm);

	/* Present pages, then two that may be absent, then an unmapped range. */
	w.user = vm_mmap(NULL, 0, WORLD_BYTES + 4 * PAGE_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, 0);
	w.big = alloc_pages(GFP_KERNEL | __GFP_COMP | __GFP_ZERO, ilog2(BIG_PAGES));
	if (IS_ERR_VALUE(w.user) || !w.big)
		return -ENOMEM;
	/* The last page of the range cannot be accessed. */
	w.big_user = vm_mmap(w.file, 0, (BIG_PAGES + 1) * PAGE_SIZE, PROT_READ | PROT_WRITE,
			MAP_SHARED, SZ_1G);
	if (IS_ERR_VALUE(w.big_user))
		return -ENOMEM;
	vm_munmap(w.user + WORLD_BYTES + 2 * PAGE_SIZE, 2 * PAGE_SIZE);
	w.absent = w.user + WORLD_BYTES;
	for (int i = 0; i < WORLD_PAGES; i++)
		if (get_user_pages_unlocked(w.user + i * PAGE_SIZE, 1, &w.pages[i],
					    FOLL_WRITE) != 1)
			return -ENOMEM;
	for (int i = 0; i < WORLD_PAGES; i++) {
		struct folio_queue *queue = &w.queues[i / FOLIO_BATCH_SIZE];

		if (i % FOLIO_BATCH_SIZE == 0) {
			folioq_init(queue, 0);
			if (i) {
				queue->prev = queue - 1;
				queue->prev->next = queue;
			}
		}
		folioq_append(queue, page_folio(w.pages[i]));
	}
	w.memory = vmap(w.pages, WORLD_PAGES, VM_MAP, PAGE_KERNEL);
	if (!w.memory || crypt_make_key(w.file, (void __user *)w.user))
		return -ENOMEM;
	/* The batches of the LRU lists hold references to pages. */
	lru_add_drain_all();
	for (int i = 0; i < WORLD_PAGES; i++)
		w.base_refs[i] = page_ref_count(w.pages[i]);
	return 0;
}

static void memory_unmake(void)
{
	vunmap(w.memory);
	for (int i = 0; i < WORLD_PAGES; i++)
		if (w.pages[i])
			put_page(w.pages[i]);
	if (w.mm) {
		kthread_unuse_mm(w.mm);
		mmput(w.mm);
	}
	if (w.big)
		__free_pages(w.big, ilog2(BIG_PAGES));
}

/*
 * Makes an iterator of @n segments.  As with a buffer that is registered with io_uring, it begins
 * within the first page and ends within the last one, unless a script asks for other segments.
 */
static void register_memory(unsigned int dir, unsigned int n, size_t len)
{
	struct bio_vec *first = w.bvec, *last = w.bvec + n - 1;

	iov_iter_bvec(&w.iter, dir, w.bvec, n, len);
	if (!n || w.s->seg)
		return;
	w.iter.iov_offset = first->bv_offset;
	first->bv_len += first->bv_offset;
	first->bv_offset = 0;
	last->bv_len = PAGE_SIZE - last->bv_offset;
}

/* Divides @len bytes into segments, from byte @off on. */
static void make_iter(unsigned int dir, size_t off, size_t len)
{
	const struct script *s = w.s;
	size_t left = len;
	unsigned int n;

	for (n = 0; left && n < WORLD_SEGS; n++) {
		size_t late = s->odd_seg && n >= s->odd_seg ? 4 : 0;
		size_t part = min_t(size_t, left, s->seg ?: len);

		if (s->mem == MEM_IOVEC) {
			w.iov[n].iov_base = (void __user *)(w.user + off + late);
			w.iov[n].iov_len = part;
		} else {
			/* No kernel segment crosses a page boundary. */
			struct page *page = w.pages[off / PAGE_SIZE];
			size_t in_page = off % PAGE_SIZE;

			part = min(part, PAGE_SIZE - in_page);
			w.kvec[n].iov_base = (char *)page_address(page) + in_page;
			w.kvec[n].iov_len = part;
			bvec_set_page(&w.bvec[n], page, part, in_page);
		}
		left -= part;
		if (!s->same)
			off += part;
	}
	if (s->mem == MEM_IOVEC)
		iov_iter_init(&w.iter, dir, w.iov, n, len - left);
	else if (s->mem == MEM_BVEC)
		register_memory(dir, n, len - left);
	else
		iov_iter_kvec(&w.iter, dir, w.kvec, n, len - left);
}

/* Prepares the memory of the request and the iterator. */
static void memory_setup(void)
{
	const struct script *s = w.s;
	unsigned int dir = s->op == OP_WRITE ? ITER_SOURCE : ITER_DEST;
	size_t off = s->skew;

	if (s->absent)
		off = WORLD_BYTES - s->absent;
	else if (s->fault)
		off = WORLD_BYTES + 2 * PAGE_SIZE - s->fault;
	w.buffer = off;
	if (s->big) {
		iov_iter_ubuf(&w.iter, dir, (void __user *)w.big_user + BIG_PAGES * PAGE_SIZE -
			      s->big, s->len);
		return;
	}
	w.total = s->same ? PAGE_SIZE : s->len + 64;
	w.total = min(w.total, WORLD_BYTES - min(off, WORLD_BYTES));

	if (s->absent || s->fault) {
		/* Replace the two pages, so that they are absent again. */
		vm_munmap(w.absent, 2 * PAGE_SIZE);
		if (vm_mmap(NULL, w.absent, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, 0) != w.absent)
			w.stuck = true;
	}
	if (dir == ITER_SOURCE)
		for (size_t i = 0; i < w.total; i += 64)
			memset(w.memory + off + i, (off + i) / 64 * 5 + 3, min(w.total - i, 64));
	else
		memset(w.memory + off, 0x2e, w.total);
	for_each_page_of_request(p)
		folio_clear_dirty(page_folio(w.pages[p]));

	if (s->mem == MEM_UBUF)
		iov_iter_ubuf(&w.iter, dir, (void __user *)(w.user + off), s->len);
	else if (s->mem == MEM_FOLIOQ)
		iov_iter_folio_queue(&w.iter, dir, &w.queues[off / PAGE_SIZE / FOLIO_BATCH_SIZE],
				     off / PAGE_SIZE % FOLIO_BATCH_SIZE, offset_in_page(off),
				     s->len);
	else
		make_iter(dir, off, s->len);
	w.iter.nofault = !!s->absent;
}

/* Bytes between the start of the memory and the position of the iterator. */
static size_t moved(void)
{
	size_t n = w.iter.iov_offset;

	if (iov_iter_is_folioq(&w.iter))
		return ((w.iter.folioq - w.queues) * FOLIO_BATCH_SIZE + w.iter.folioq_slot) *
		       PAGE_SIZE + n - w.buffer;
	if (iov_iter_is_bvec(&w.iter) && !w.s->seg && n && w.iter.nr_segs == w.segs)
		n -= offset_in_page(w.buffer);
	for (size_t i = 0; i < w.segs - w.iter.nr_segs; i++)
		n += iter_is_iovec(&w.iter) ? w.iov[i].iov_len : w.kvec[i].iov_len;
	return n;
}

/* --- The request --- */

static void note_answer(ssize_t ret)
{
	if (ret > 0 && w.s->op == OP_WRITE)
		CUT_NOTE(.what = CUT_ACKED, .from = w.s->pos,
			 .to = w.s->pos + ret - w.s->done_before);
}

static void ki_complete(struct kiocb *iocb, long ret)
{
	WRITE_ONCE(w.completed, w.completed + 1);
	w.rec->result = ret;
	note_answer(ret);
	say("ki_complete %ld%s", ret, iocb != &w.iocb ? " another iocb" : "");
	say_iocb();
	say_state_and_where();
	if (w.s->poison) {
		w.iocb.ki_pos = 0x5a5a5a5a5a;
		w.iocb.ki_filp = NULL;
	}
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

static void setup_file(const struct script *s)
{
	struct inode *inode = w.inode;

	inode->i_blkbits = s->blkbits ?: 12;
	inode->i_sb->s_blocksize_bits = inode->i_blkbits;
	inode->i_sb->s_blocksize = 1UL << inode->i_blkbits;
	inode->i_flags = (s->is_sync ? S_SYNC : 0) | (s->crypt ? S_ENCRYPTED : 0);
	inode->i_write_hint = s->hint;
	i_size_write(inode, file_size());
	memset(w.inline_data, 0x77, PAGE_SIZE);

	for (unsigned int i = 0; i < 8; i++)
		if ((s->cached | s->dirty | s->stuck) & BIT(i))
			fs_cache_page(i, s->dirty & BIT(i), s->stuck & BIT(i));
	filemap_check_errors(inode->i_mapping);
	if (!s->dirty)
		mapping_set_error(inode->i_mapping, s->wb_error);
	inode->i_mapping->wb_err = 0;
	w.file->f_wb_err = 0;
	atomic_set(&inode->i_dio_count, s->others);

	if (s->fresh_wq && w.sb->s_dio_done_wq) {
		destroy_workqueue(w.sb->s_dio_done_wq);
		w.sb->s_dio_done_wq = NULL;
	} else if (!s->fresh_wq && !w.sb->s_dio_done_wq) {
		sb_init_dio_done_wq(w.sb);
	}
}

static void setup(const struct script *s)
{
	memset_startat(&w, 0, rec);
	disk_set_limits(s);
	setup_file(s);
	memory_setup();
	w.count = iov_iter_count(&w.iter);
	w.segs = w.iter.nr_segs;
	init_sync_kiocb(&w.iocb, w.file);
	w.iocb.ki_pos = s->pos;
	w.iocb.ki_flags |= s->ki_flags | IOCB_DIRECT;
	if (s->op == OP_WRITE)
		w.iocb.ki_flags |= IOCB_WRITE;
	w.iocb.ki_ioprio = s->ioprio;
	if (s->async)
		w.iocb.ki_complete = ki_complete;

	w.io_start = accounted();
	reinit_completion(&w.dio_waited);
	w.zero_refs = folio_ref_count(largest_zero_folio());
	if (s->untraced)
		record_probes(false);
	if (s->late_wq) {
		w.usual_wq = w.sb->s_dio_done_wq;
		w.sb->s_dio_done_wq = w.late_wq;
		queue_work(w.late_wq, &late);
	}
}

static ssize_t request(void)
{
	/* The callbacks must outlive the call. */
	static struct iomap_dio_ops callbacks;
	const struct script *s = w.s;
	const struct iomap_ops *const all[] = { &fs_ops, &fs_ops_no_end, &fs_ops_next, &fs_ops_both };
	const struct iomap_ops *ops = all[2 * !!s->next + !!s->no_end];
	const struct iomap_dio_ops *dops =
		s->dops || s->end_io || s->submit || s->set ? &callbacks : NULL;
	void *private = s->private ? &w.private : NULL;
	struct iomap_dio *dio;
	ssize_t ret;

	callbacks = (struct iomap_dio_ops){
		.end_io		= s->end_io ? fs_end_io : NULL,
		.submit_io	= s->submit ? fs_submit_io : NULL,
		.bio_set	= s->set == SET_OWN ? &w.set :
				  s->set == SET_IOEND ? &iomap_ioend_bioset : NULL,
		.flags		= s->inline_copy ? IOMAP_DIO_INLINE_UNBOUNCE : 0,
	};
	w.long_way = false;
	if (s->op == OP_SIMPLE) {
		ret = iomap_dio_read_simple(&w.iocb, &w.iter, fs_begin);
		if (ret != -ENOTBLK)
			return ret;
		say("not simple");
		say_state();
		say(" left=%zu\n", iov_iter_count(&w.iter));
	}
	w.long_way = true;
	if (!s->split)
		return iomap_dio_rw(&w.iocb, &w.iter, ops, dops, s->dio_flags, private,
				s->done_before);

	dio = __iomap_dio_rw(&w.iocb, &w.iter, ops, dops, s->dio_flags, private, s->done_before);
	if (IS_ERR_OR_NULL(dio)) {
		say("no dio %ld\n", PTR_ERR(dio));
		return PTR_ERR_OR_ZERO(dio);
	}
	say("dio");
	say_state();
	say("\n");
	return iomap_dio_complete(dio);
}

/* --- The steps --- */

static bool only_a_step_helps(void)
{
	return current != w.completer->task || READ_ONCE(w.returned) ||
	       (atomic_read(&w.in_flight) > 0 && !READ_ONCE(w.ending) &&
		(READ_ONCE(w.polling) ||
		 wait_task_inactive(w.player->task, TASK_UNINTERRUPTIBLE)));
}

/* Waits until only a step can make progress. */
static void settle(void)
{
	if (!wait_until(only_a_step_helps())) {
		w.stuck = true;
		return;
	}
	flush_workers();
	/* The block layer has a worker dirty the pages that are clean after a read. */
	if (w.cleaned)
		__flush_workqueue(system_percpu_wq);
	if (!wait_until(refcount_read(&w.sb->s_pending_errors) <= 1))
		w.stuck = true;
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
	switch (step->what) {
	case STEP_END:
		say("step: end bio%lld\n", step->arg);
		disk_end_bio(step->arg, step->ctx);
		break;
	case STEP_CLEAN:
		say("step: clean pages\n");
		/* A second time would race with the worker that dirties them again. */
		if (w.cleaned)
			break;
		w.cleaned = true;
		for (int i = step->arg; i < WORLD_PAGES; i++)
			folio_clear_dirty(page_folio(w.pages[i]));
		break;
	case STEP_CACHE:
	case STEP_DIRTY:
		say("step: cache page %lld\n", step->arg);
		fs_cache_page(step->arg, step->what == STEP_DIRTY, false);
		break;
	case STEP_SIZE:
		say("step: size %lld\n", step->arg);
		i_size_write(w.inode, step->arg);
		break;
	case STEP_SCRIBBLE:
		say("step: scribble\n");
		memset(w.memory + w.buffer, 0x99, w.total);
		break;
	case STEP_POLL:
		/* After completion the poller finds a freed bio with C, and none with Rust. */
		if (private_is_known_to_differ())
			break;
		say("step: poll");
		say_iocb();
		say("\n");
		/* The end of a bounced read may sleep, but polling is under RCU. */
		if (w.s->op != OP_WRITE && w.s->dio_flags & IOMAP_DIO_BOUNCE &&
		    w.s->submit != SUBMIT_IOEND)
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
			disk_end_bio(i, CTX_TASK);
			/* If the request is stuck, the other bios may release it. */
			if (!w.stuck)
				settle();
		}
}

/* --- The end --- */

/* If pages are clean when their bio ends, a worker dirties and unpins them. */
static void wait_for_pins(void)
{
	for_each_page_of_request(p)
		if (!wait_until(page_ref_count(w.pages[p]) - w.base_refs[p] <
				GUP_PIN_COUNTING_BIAS))
			return;
}

static void final_words(void)
{
	int zero, wb_err;

	if (w.cleaned) {
		wait_for_pins();
		w.cleaned = false;
	}
	if (w.s->poison && w.completed)
		w.iocb.ki_filp = w.file;
	zero = folio_ref_count(largest_zero_folio()) - w.zero_refs;
	wb_err = filemap_check_wb_err(w.inode->i_mapping, w.file->f_wb_err);
	say("final");
	say_iocb();
	say_state();
	/* Nobody looks at the iterator of a request that the call has left in flight. */
	if (!w.completed && !(w.rec->result == -EAGAIN && nowait_differs()))
		say(" left=%zu", iov_iter_count(&w.iter));
	say(" size=%lld completed=%u crc=%08x", i_size_read(w.inode), w.completed,
	    crc32(~0, w.memory + w.buffer, w.total));
	if (memchr_inv(w.inline_data, 0x77, PAGE_SIZE))
		say(" inline=%08x", crc32(~0, w.inline_data, PAGE_SIZE));
	if (zero)
		say(" zero=%d", zero);
	/* In C the position may contradict the length (a known difference); never in Rust. */
	if (moved() + iov_iter_count(&w.iter) != w.count && (w.s->moved || w.impl == IMPL_RUST))
		say(" moved=%zu", moved());
	if (w.dio_waits)
		say(wait_for_completion_timeout(&w.dio_waited, PATIENCE) ? " waited" : " not woken");
	if (w.s->fresh_wq)
		say(" wq=%d", !!w.sb->s_dio_done_wq);
	if (wb_err)
		say(" wb_err=%d", wb_err);
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
		record_probes(true);
	if (w.s->late_wq) {
		flush_workqueue(w.late_wq);
		w.sb->s_dio_done_wq = w.usual_wq;
	}
	if (w.dio_waits) {
		wake_up_var(&w.inode->i_dio_count);
		flush_work(&dio_wait);
	}
}

/* --- A script from beginning to end --- */

struct play {
	const struct script *s;
	enum impl impl;
	struct record *rec;
	int error;
};

static void play(void *arg)
{
	struct play *p = arg;
	const struct script *s = p->s;
	int warned = 0;
	ssize_t ret;

	w.s = s;
	w.impl = p->impl;
	iomap_dio_choose(p->impl == IMPL_C);
	setup(s);
	/* Rust has a worker dirty what a bounced read was copied to; C waits for it. */
	w.cleaned = s->op != OP_WRITE && s->dio_flags & IOMAP_DIO_BOUNCE &&
		    (s->mem == MEM_UBUF || s->mem == MEM_IOVEC) &&
		    (s->submit != SUBMIT_IOEND || s->inline_copy);
	cut_begin();
	p->rec->len = 0;
	p->rec->full = false;
	p->rec->text[0] = '\0';
	if (w.warnings)
		warned = kunit_suppressed_warning_count(w.warnings);
	w.rec = p->rec;

	if (s->allocs || s->fail_alloc)
		allocs_begin(s->fail_alloc);
	WRITE_ONCE(w.log, s->log);
	ret = request();
	WRITE_ONCE(w.log, false);
	if (s->allocs || s->fail_alloc)
		allocs_end();
	if (!w.completed)
		p->rec->result = ret;
	note_answer(ret);
	if (ret != -EIOCBQUEUED)
		w.answered = true;
	say("return %zd", ret);
	say_iocb();
	say_state();
	/* A write that is refused is not accounted in Rust (Q15). */
	if (s->op == OP_WRITE && !(ret == -EAGAIN && nowait_differs()))
		say(" acct=%llu", accounted() - w.io_start);
	say("\n");

	WRITE_ONCE(w.returned, true);
	wake_up_var(&w.returned);
	if (w.completer_on)
		kthread_flush_work(&w.steps_work);
	w.inline_steps = true;
	if (!w.stuck)
		play_steps(NULL);
	w.inline_steps = false;
	/* The block layer decrypts in its own worker, and ends bounced reads there. */
	if (s->crypt == CRYPT_BLOCK_LAYER ||
	    (s->dio_flags & IOMAP_DIO_BOUNCE && !atomic_read(&w.in_flight)))
		wait_until(ret != -EIOCBQUEUED || READ_ONCE(w.completed));
	if (ret == -EIOCBQUEUED && !w.completed)
		w.stuck = true;

	if (w.stuck)
		say("stuck\n");
	else
		final_words();
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
}

struct call {
	struct kthread_work work;
	struct completion done;
	void (*fn)(void *arg);
	void *arg;
};

static void call_fn(struct kthread_work *work)
{
	struct call *call = container_of(work, struct call, work);

	call->fn(call->arg);
	complete(&call->done);
}

static void on_player(void (*fn)(void *arg), void *arg)
{
	struct call call = { .fn = fn, .arg = arg };

	init_completion(&call.done);
	kthread_init_work(&call.work, call_fn);
	kthread_queue_work(w.player, &call.work);
	/* TASK_IDLE, so that the hung task detector ignores this thread. */
	wait_for_completion_state(&call.done, TASK_IDLE);
}

int world_play(const struct script *s, enum impl impl, struct record *rec)
{
	struct play p = { .s = s, .impl = impl, .rec = rec };

	if (s->crashes_c && impl == IMPL_C) {
		rec->len = scnprintf(rec->text, RECORD_BYTES, "crash\n");
		rec->result = 0;
		return 0;
	}
	on_player(play, &p);
	return p.error;
}

/* --- Setting up and tearing down --- */

static void player_init(void *error)
{
	*(int *)error = memory_make();
}

static void player_exit(void *unused)
{
	memory_unmake();
}

static void player_quiet(void *test)
{
	w.warnings = kunit_start_suppress_warning(test);
}

/* Only one of them runs at a time; on one CPU they alternate quickly. */
static struct kthread_worker *make_thread(const char *name)
{
	struct kthread_worker *worker = kthread_run_worker_on_cpu(WORLD_CPU, 0, name);

	return IS_ERR(worker) ? NULL : worker;
}

int world_make(void)
{
	int error;

	init_completion(&w.dio_waited);
	kthread_init_work(&w.steps_work, play_steps);
	error = disk_make() ?: fs_make() ?: bioset_init(&w.set, 4, 0, BIOSET_NEED_BVECS);
	if (error)
		return error;
	w.ioend_wq = alloc_workqueue("dio_script_ioend", WQ_PERCPU, 1);
	w.late_wq = alloc_workqueue("dio_script_late", WQ_PERCPU | WQ_MEM_RECLAIM, 1);
	w.player = make_thread("dio-player/%u");
	w.completer = make_thread("dio-completer/%u");
	if (!w.ioend_wq || !w.late_wq || !w.player || !w.completer)
		return -ENOMEM;
	on_player(player_init, &error);
	if (!error)
		record_probes(true);
	return error;
}

void world_unmake(void)
{
	iomap_dio_choose(false);
	record_probes(false);
	if (w.completer)
		kthread_destroy_worker(w.completer);
	if (w.player) {
		on_player(player_exit, NULL);
		kthread_destroy_worker(w.player);
	}
	if (w.ioend_wq)
		destroy_workqueue(w.ioend_wq);
	if (w.late_wq)
		destroy_workqueue(w.late_wq);
	bioset_exit(&w.set);
	/* The key is evicted from the fallback only if the disk cannot encrypt. */
	crypt_set_disk(false);
	fs_unmake();
	disk_unmake();
	memset(&w, 0, sizeof(w));
}

void world_enter(struct kunit *test)
{
	set_cpus_allowed_ptr(current, cpumask_of(WORLD_CPU));
	on_player(player_quiet, test);
}
