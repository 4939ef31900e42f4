// SPDX-License-Identifier: GPL-2.0
/*
 * Draws random scripts, and shrinks them.
 *
 * A random script contains only what file systems and disks really do, with two
 * exceptions that both implementations warn about: a write to a hole, and a mapping
 * of unknown type.  It avoids the known differences between Rust and C, which
 * Documentation/rust/iomap.rst lists and named scripts show.
 */
#include <linux/bio.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/prandom.h>
#include <linux/string.h>
#include "script.h"

static u32 below(struct rnd_state *r, u32 n)
{
	return prandom_u32_state(r) % n;
}

static bool chance(struct rnd_state *r, u32 percent)
{
	return below(r, 100) < percent;
}

#define PICK(r, ...)							\
({									\
	static const s64 picks[] = { __VA_ARGS__ };			\
	picks[below(r, ARRAY_SIZE(picks))];				\
})

/* @value is drawn only if it is taken. */
#define MAYBE(r, percent, value)	(chance(r, percent) ? (value) : 0)

static void generate_request(struct script *s, struct rnd_state *r)
{
	s->op = PICK(r, OP_READ, OP_READ, OP_WRITE, OP_WRITE, OP_WRITE, OP_SIMPLE);
	s->blkbits = PICK(r, 0, 0, 0, 0, 10, 9, 13, 16);
	s->lbs = MAYBE(r, 20, 4096);
	if (s->lbs && s->blkbits && s->blkbits < 12)
		s->blkbits = 0;

	s64 block = 1LL << (s->blkbits ?: 12), unit = s->lbs ?: 512;

	if (chance(r, 30))
		unit = block;
	s->pos = PICK(r, 0, 0, 1, 2, 7, 8, 9, 100) * unit;
	s->len = PICK(r, 1, 1, 1, 2, 3, 7, 8, 9, 16, 17, 33, 64, 128) * unit;
	if (chance(r, 2))
		s->len = PICK(r, 257, 300, 400) * 4096;
	if (chance(r, 2))
		s->len = 0;
	s->pos += MAYBE(r, 3, PICK(r, 1, 8, 511));
	s->len += MAYBE(r, 3, PICK(r, 1, 8, 511));
	s->len = min_t(s64, s->len, SZ_2M);

	s->async = chance(r, 60);
	s->split = chance(r, 15);
	s->ki_flags |= MAYBE(r, 15, IOCB_NOWAIT);
	if (chance(r, 20) && s->op == OP_WRITE)
		s->ki_flags |= IOCB_DSYNC | MAYBE(r, 30, IOCB_SYNC);
	if (chance(r, 4) && s->op == OP_WRITE)
		s->ki_flags |= IOCB_ATOMIC;
	s->poll = chance(r, 12);
	if (s->poll)
		s->ki_flags |= IOCB_HIPRI;
	s->dio_flags |= MAYBE(r, 10, IOMAP_DIO_FORCE_WAIT);
	s->dio_flags |= MAYBE(r, 8, IOMAP_DIO_OVERWRITE_ONLY);
	s->dio_flags |= MAYBE(r, 25, IOMAP_DIO_PARTIAL);
	/* C hangs if the submitter waits for a polled request (see is_waited_for()). */
	if (s->async && s->ki_flags & IOCB_HIPRI)
		s->dio_flags &= ~(IOMAP_DIO_FORCE_WAIT | IOMAP_DIO_PARTIAL);
	s->dio_flags |= MAYBE(r, 8, IOMAP_DIO_FSBLOCK_ALIGNED);
	s->dio_flags |= MAYBE(r, 15, IOMAP_DIO_BOUNCE);
	s->done_before = MAYBE(r, 15, PICK(r, 1, 4096, 1 << 20));
	s->private = chance(r, 30);
	s->ioprio = MAYBE(r, 10, PICK(r, 0x2004, 0x4000));
}

static void generate_memory(struct script *s, struct rnd_state *r)
{
	s->mem = below(r, NR_MEM);
	s->skew = MAYBE(r, 30, PICK(r, 512, 1024, 4, 8, 2048, 4092) & ~3);
	s->skew |= MAYBE(r, 3, 1);
	if (s->mem != MEM_UBUF && s->mem != MEM_FOLIOQ && chance(r, 60))
		s->seg = PICK(r, 512, 1024, 4096, 4096, 8192, 1536, 65536);
	if (s->mem == MEM_IOVEC && s->seg && chance(r, 10)) {
		s->odd_seg = PICK(r, 1, 2, 5);
		s->dma = 7;
	}
	/* Registered buffers are aligned for the disk. */
	if (s->mem == MEM_BVEC)
		s->skew &= ~511;
	if (s->mem == MEM_UBUF || (s->mem == MEM_IOVEC && !s->odd_seg)) {
		if (chance(r, 8))
			s->fault = PICK(r, 1, 512, 4096, 6144, 8192, 12288, 20480);
		else if (chance(r, 8))
			s->absent = PICK(r, 512, 4096, 8192, 6144, 12288);
		if (s->fault || s->absent)
			s->skew = 0;
	}
	if (s->seg && s->seg + s->skew <= 4096 && s->mem >= MEM_BVEC && chance(r, 10))
		s->same = 1;
}

static void generate_file(struct script *s, struct rnd_state *r)
{
	switch (below(r, 6)) {
	case 0:
		s->size = s->pos + s->len;
		break;
	case 1:
		s->size = s->pos + s->len / 2;
		break;
	case 2:
		s->size = max(s->pos - 512, 0) ?: EMPTY;
		break;
	case 3:
		s->size = s->pos + s->len + PICK(r, 1, 511, 512, 4096);
		break;
	case 4:
		s->size = s->pos ?: EMPTY;
		break;
	}
	if (s->size == 0 && chance(r, 10))
		s->size = EMPTY;
	s->cached = MAYBE(r, 20, below(r, 16));
	s->dirty = MAYBE(r, 10, below(r, 8));
	s->stuck = MAYBE(r, 5, below(r, 8));
	s->wb_error = MAYBE(r, 4, PICK(r, -EIO, -ENOSPC));
	s->fsync_error = MAYBE(r, 10, -EIO);
	s->is_sync = chance(r, 5);
	s->hint = MAYBE(r, 10, below(r, 6));
	s->fresh_wq = chance(r, 2);

	s->cache = chance(r, 50);
	s->fua = chance(r, 50);
	s->nowait = chance(r, 50) || (s->op == OP_SIMPLE && s->ki_flags & IOCB_NOWAIT);
	s->pi = chance(r, 5);
	if (chance(r, 30))
		s->dma = PICK(r, 511, 3, 7);
}

/* Whether the submitter may wait for this polled request, so that nobody polls. */
static bool is_waited_for(const struct script *s)
{
	if (!s->async || !(s->ki_flags & IOCB_HIPRI))
		return false;
	if (s->dio_flags & (IOMAP_DIO_FORCE_WAIT | IOMAP_DIO_PARTIAL))
		return true;
	for (unsigned int i = 0; i < s->maps; i++)
		if (s->map[i].error == -ENOTBLK || s->map[i].end == -ENOTBLK)
			return true;
	return false;
}

/* Without bounce buffers, the protection information of more may not fit one buffer. */
static bool may_be_protected(const struct script *s)
{
	return s->dio_flags & IOMAP_DIO_BOUNCE || s->len <= SZ_64K;
}

static void generate_maps(struct script *s, struct rnd_state *r)
{
	s64 block = 1LL << (s->blkbits ?: 12);

	if (chance(r, 30))
		return;
	s->maps = 1 + below(r, SCRIPT_MAPS);
	for (unsigned int i = 0; i < s->maps; i++) {
		struct script_map *m = &s->map[i];
		bool write = s->op == OP_WRITE;

		m->type = PICK(r, MAP_MAPPED, MAP_MAPPED, MAP_MAPPED, MAP_MAPPED, MAP_UNWRITTEN,
			       MAP_UNWRITTEN, MAP_HOLE, MAP_INLINE);
		if (m->type == MAP_HOLE && write && !chance(r, 5))
			m->type = MAP_UNWRITTEN;
		m->type = chance(r, 1) ? MAP_DELALLOC : m->type;
		m->type = chance(r, 1) ? MAP_UNKNOWN : m->type;
		if (m->type == MAP_INLINE) {
			/* Inline data fits in one page. */
			if (s->pos + s->len > 4096 || s->blkbits > 12 || s->size > 4096)
				m->type = MAP_MAPPED;
			else
				m->before = 4096;
		}
		/* Mappings usually end at block boundaries. */
		if (chance(r, 60) && m->type != MAP_INLINE) {
			m->len = PICK(r, 1, 1, 2, 3, 8, 16) * block;
			if (i == 0)
				m->len -= s->pos & (block - 1);
			if (chance(r, 3))
				m->len = PICK(r, 1, 512, 700);
		}
		if (chance(r, 20) && m->type != MAP_INLINE)
			m->before = PICK(r, 512, 4096, 65536);
		if (write && chance(r, 15))
			m->flags |= IOMAP_F_NEW;
		if (write && chance(r, 15))
			m->flags |= IOMAP_F_SHARED;
		m->flags |= MAYBE(r, 10, IOMAP_F_DIRTY);
		if (write && m->type == MAP_UNWRITTEN && chance(r, 20))
			m->flags |= IOMAP_F_MIXED;
		if (s->pi && chance(r, 50) && may_be_protected(s))
			m->flags |= IOMAP_F_INTEGRITY;
		if (s->ki_flags & IOCB_ATOMIC && chance(r, 60)) {
			m->flags |= IOMAP_F_ATOMIC_BIO;
			s->atomic = SZ_1M;
		}
		m->flags |= MAYBE(r, 4, PICK(r, IOMAP_F_MERGED, IOMAP_F_BOUNDARY, IOMAP_F_PRIVATE,
					     IOMAP_F_XATTR));
		m->error = MAYBE(r, 6, PICK(r, -EIO, -EAGAIN, -ENOTBLK, -ENOSPC, -ENOPROTOOPT,
					    -EFAULT));
		m->end = MAYBE(r, 6, PICK(r, -EIO, -ENOTBLK, -EAGAIN, 1, 512));
		m->src = MAYBE(r, 10, m->type == MAP_INLINE ? SZ_1M : PICK(r, 1, 1, 2, 3) * block);
		if (is_waited_for(s)) {
			m->error = m->error == -ENOTBLK ? -EIO : m->error;
			m->end = m->end == -ENOTBLK ? -EIO : m->end;
		}
	}
}

/*
 * The block layer decrypts reads in a worker, whose timing varies, and C polls for a
 * bio that the block layer has replaced.  It encrypts a write in parts of BIO_MAX_VECS
 * pages, also one that must not be torn: blk_crypto_fallback_encrypt_bio().
 */
static bool may_be_encrypted(const struct script *s)
{
	s64 vecs = s->len / PAGE_SIZE + (s->seg ? div64_s64(s->len, s->seg) : 0) + 2;

	return s->crypt != CRYPT_BLOCK_LAYER ||
	       (s->op == OP_WRITE && !(s->ki_flags & IOCB_HIPRI) && s->submit == SUBMIT_BY_IOMAP &&
		(!(s->ki_flags & IOCB_ATOMIC) || vecs <= BIO_MAX_VECS));
}

/* Whether a bio may end within the block of another. */
static bool may_be_short(const struct script *s)
{
	/* Also if a later part of the memory is not aligned. What fails later ends no walk. */
	return s->dio_flags & IOMAP_DIO_PARTIAL || s->absent || s->fault ||
	       (s->at_once && (s->fail || s->fail2)) || s->fail_alloc ||
	       (s->skew | s->seg) & ((s->lbs ?: SECTOR_SIZE) - 1);
}

/*
 * With C the zeroes around what follows a short bio, or a mapping that ends within a block, overlap
 * its data (Q17). A walk that a failed bio has ended goes on in the same way.
 */
static bool zeroes_overlap(const struct script *s)
{
	s64 mask = (1LL << (s->blkbits ?: 12)) - 1;
	bool split = false;

	if (s->op != OP_WRITE || s->dio_flags & IOMAP_DIO_FSBLOCK_ALIGNED)
		return false;
	for (unsigned int i = 0; i < s->maps; i++) {
		const struct script_map *m = &s->map[i];

		/* This one or an earlier one ends within a block. */
		split |= (m->len || m->src) && (m->len | m->src | s->pos) & mask;
		if ((m->type == MAP_UNWRITTEN || m->flags & IOMAP_F_NEW) && (may_be_short(s) || split))
			return true;
	}
	return false;
}

/* C polls for the zeroes behind the data, and Rust for the data (Q5). */
static bool polls_for_zeroes(const struct script *s)
{
	s64 ends = s->pos | s->len;

	if (s->op != OP_WRITE || !(s->ki_flags & IOCB_HIPRI) ||
	    s->dio_flags & IOMAP_DIO_FSBLOCK_ALIGNED)
		return false;
	for (unsigned int i = 0; i < s->maps; i++)
		ends |= s->map[i].len | s->map[i].src;
	return ends & ((1LL << (s->blkbits ?: 12)) - 1) || may_be_short(s);
}

/* The pages that a request covers, of those that a script may cache. */
static u64 pages_of(const struct script *s)
{
	u64 n = DIV_ROUND_UP_ULL(offset_in_page(s->pos) + s->len, PAGE_SIZE);

	return BIT_ULL(min(n, 32)) - 1;
}

/*
 * Whether a page may be cached that the write does not transfer.  C then looks for
 * pages to write back or to drop all the same; Rust does not.
 */
static bool pages_elsewhere(const struct script *s)
{
	u64 dirty = s->dirty, all = s->cached | s->dirty | s->stuck;

	for (unsigned int i = 0; i < SCRIPT_STEPS; i++)
		if (s->step[i].what == STEP_CACHE || s->step[i].what == STEP_DIRTY)
			all |= BIT_ULL(s->step[i].arg);
	if (s->op != OP_WRITE)
		return false;
	if (!s->async)
		return dirty & ~pages_of(s);
	return s->dio_flags & IOMAP_DIO_PARTIAL ? all : all & ~pages_of(s);
}

static void confine_pages(struct script *s)
{
	u64 pages = s->dio_flags & IOMAP_DIO_PARTIAL ? 0 : pages_of(s);

	s->cached &= pages;
	s->dirty &= pages;
	s->stuck &= pages;
	for (unsigned int i = 0; i < SCRIPT_STEPS; i++)
		if ((s->step[i].what == STEP_CACHE || s->step[i].what == STEP_DIRTY) &&
		    !(pages & BIT_ULL(s->step[i].arg)))
			s->step[i].what = STEP_SCRIBBLE;
}

/*
 * Whether C bounces a write in more parts than a bio of it has room for, and Rust, in a
 * single-bio request, in one part.
 */
static bool bounced_in_parts(const struct script *s)
{
	return s->op == OP_WRITE && s->dio_flags & IOMAP_DIO_BOUNCE && s->set != SET_OWN &&
	       hweight64(s->len >> SECTOR_SHIFT) > DIV_ROUND_UP_ULL(s->len, PAGE_SIZE);
}

/* Copying back a bounced read may sleep, so file systems end such bios in a worker. */
static bool may_sleep_at_end(const struct script *s)
{
	return s->op != OP_WRITE && s->dio_flags & IOMAP_DIO_BOUNCE && s->submit != SUBMIT_IOEND;
}

static void generate_answers(struct script *s, struct rnd_state *r)
{
	unsigned int i, n;

	/* Few, because probes are removed and added again for it, which takes as long as 30 scripts. */
	s->untraced = chance(r, 1);
	s->next = chance(r, 30);
	s->no_end = chance(r, 30);
	s->dops = chance(r, 30);
	s->end_io = PICK(r, 0, 0, 1, 1, 1, 2);
	if (s->end_io == 2)
		s->end_io_ret = PICK(r, 0, 0, -EIO, -ENOSPC);
	/* Without these callbacks the request can be a single-bio request. */
	if (s->untraced)
		s->end_io = MAYBE(r, 20, s->end_io);
	if (chance(r, s->untraced ? 20 : 50)) {
		s->submit = below(r, NR_SUBMIT);
		s->set = s->submit == SUBMIT_IOEND ? SET_IOEND : below(r, NR_SET);
	}

	s->at_once = MAYBE(r, 40, chance(r, 50) ? U32_MAX : below(r, 16));
	s->at_ctx = below(r, NR_CTX);
	s->fail = MAYBE(r, 25, BIT_ULL(below(r, 4)));
	if (s->fail)
		s->status = PICK(r, 0, 0, STS(NOSPC), STS(AGAIN), STS(MEDIUM), STS(RESOURCE));
	if (s->fail && chance(r, 30)) {
		s->fail2 = BIT_ULL(below(r, 4));
		s->status2 = STS(TIMEOUT);
	}

	n = MAYBE(r, 60, below(r, SCRIPT_STEPS));
	for (i = 0; i < n; i++) {
		struct script_step *step = &s->step[i];

		step->what = PICK(r, STEP_END, STEP_END, STEP_END, STEP_END, STEP_CACHE, STEP_DIRTY,
				  STEP_SIZE, STEP_SCRIBBLE, STEP_CLEAN);
		switch (step->what) {
		case STEP_END:
			step->arg = below(r, 5);
			step->ctx = below(r, NR_CTX);
			break;
		case STEP_SIZE:
			step->arg = PICK(r, 0, 4096, 1 << 20, 1 << 21);
			break;
		default:
			step->arg = below(r, 6);
		}
		if (s->poll && chance(r, 20))
			step->what = STEP_POLL;
	}

	if (may_sleep_at_end(s)) {
		s->at_ctx = PICK(r, CTX_TASK, CTX_WORKER);
		s->ki_flags &= ~IOCB_HIPRI;
		for (i = 0; i < n; i++)
			s->step[i].ctx = PICK(r, CTX_TASK, CTX_WORKER);
	}

	s->ioend_alone = s->submit == SUBMIT_IOEND && chance(r, 20);
	s->others = chance(r, 5);
	if (!s->pi && chance(r, 10))
		s->crypt = PICK(r, CRYPT_DISK, CRYPT_DISK, CRYPT_BLOCK_LAYER);
	if (!may_be_encrypted(s))
		s->crypt = CRYPT_DISK;
	/* Other bio sets may have a cached bio, and then do not allocate. */
	if (s->set == SET_OWN && s->op != OP_SIMPLE && chance(r, 20))
		s->fail_alloc = 1 + below(r, 8);
}

void script_generate(struct script *s, u64 seed)
{
	struct rnd_state r;

	memset(s, 0, sizeof(*s));
	prandom_seed_state(&r, seed * 0x9e3779b97f4a7c15ULL + 1);
	for (unsigned int i = 0; i < 4; i++)
		prandom_u32_state(&r);
	generate_request(s, &r);
	generate_memory(s, &r);
	generate_file(s, &r);
	generate_maps(s, &r);
	generate_answers(s, &r);
	if (zeroes_overlap(s))
		s->dio_flags |= IOMAP_DIO_FSBLOCK_ALIGNED;
	if (polls_for_zeroes(s))
		s->ki_flags &= ~IOCB_HIPRI;
	if (pages_elsewhere(s))
		confine_pages(s);
	if (bounced_in_parts(s))
		s->dio_flags &= ~IOMAP_DIO_BOUNCE;
}

static bool is_interrupt(s64 ctx)
{
	return ctx == CTX_SOFTIRQ || ctx == CTX_HARDIRQ;
}

/* Excludes what no caller, file system or disk does, and the known differences. */
static bool makes_sense(const struct script *s)
{
	bool interrupts = is_interrupt(s->at_ctx) || s->ki_flags & IOCB_HIPRI;

	for (unsigned int i = 0; i < SCRIPT_STEPS; i++)
		interrupts |= is_interrupt(s->step[i].ctx);
	if ((s->submit == SUBMIT_IOEND) != (s->set == SET_IOEND) ||
	    (interrupts && may_sleep_at_end(s)) ||
	    (s->op == OP_SIMPLE && s->ki_flags & IOCB_NOWAIT && !s->nowait) ||
	    (s->op != OP_WRITE && s->ki_flags & (IOCB_DSYNC | IOCB_ATOMIC)) ||
	    (s->mem >= MEM_BVEC && (s->fault || s->absent)) ||
	    (s->same && (!s->seg || s->seg + s->skew > 4096 || s->mem == MEM_UBUF)) ||
	    (s->ki_flags & IOCB_HIPRI && !s->poll) || is_waited_for(s) || zeroes_overlap(s) ||
	    polls_for_zeroes(s) || pages_elsewhere(s) || bounced_in_parts(s) ||
	    s->lbs > 1LL << (s->blkbits ?: 12) || !may_be_encrypted(s) ||
	    (s->fail_alloc && (s->set != SET_OWN || s->op == OP_SIMPLE)))
		return false;
	for (const struct script_map *m = s->map; m < s->map + s->maps; m++)
		if (m->len < 0 || m->before < 0 || m->src < 0 ||
		    (m->flags & IOMAP_F_INTEGRITY && (!s->pi || !may_be_protected(s))) ||
		    (m->type == MAP_INLINE &&
		     (m->before != 4096 || s->pos + s->len > 4096 || s->size > 4096)))
			return false;
	return true;
}

/* Keeps a change if the changed script still fails. */
static bool try(struct script *s, const struct script *changed,
		bool (*fails)(const struct script *s))
{
	if (!memcmp(s, changed, sizeof(*s)) || !makes_sense(changed) || !fails(changed))
		return false;
	*s = *changed;
	return true;
}

static bool shrink_number(struct script *s, struct script *t, s64 *number,
		bool (*fails)(const struct script *s))
{
	*t = *s;

	const s64 old = *number;
	const s64 tries[] = { 0, old / 2, old & ~4095LL, old & ~511LL, old - 4096, old - 512 };

	for (unsigned int i = 0; i < ARRAY_SIZE(tries); i++) {
		/* Of a negative number only zero is smaller. */
		if (old < 0 ? i > 0 : tries[i] < 0 || tries[i] >= old)
			continue;
		*number = tries[i];
		if (try(s, t, fails))
			return true;
		*number = old;
	}
	return false;
}

#define REMOVE(array, i)						\
	(memmove(&array[i], &array[(i) + 1], (ARRAY_SIZE(array) - 1 - (i)) * sizeof(array[0])), \
	 memset(&array[ARRAY_SIZE(array) - 1], 0, sizeof(array[0])))

static bool shrink_once(struct script *s, bool (*fails)(const struct script *s))
{
	/* Too large for the stack. */
	static struct script t;
	bool better = false;

	for (unsigned int i = 0; i < SCRIPT_STEPS && s->step[i].what; i++) {
		t = *s;
		REMOVE(t.step, i);
		better |= try(s, &t, fails);
	}
	for (unsigned int i = 0; i < s->maps; i++) {
		t = *s;
		REMOVE(t.map, i);
		t.maps--;
		better |= try(s, &t, fails);
	}
#define F(name)	better |= shrink_number(s, &t, &t.name, fails);
#include "script_fields.h"
#undef F
	for (unsigned int i = 0; i < s->maps; i++) {
#define F(name)	better |= shrink_number(s, &t, &t.map[i].name, fails);
#include "map_fields.h"
#undef F
	}
	for (unsigned int i = 0; i < SCRIPT_STEPS && s->step[i].what; i++) {
#define F(name)	better |= shrink_number(s, &t, &t.step[i].name, fails);
#include "step_fields.h"
#undef F
	}
	return better;
}

void script_shrink(struct script *s, bool (*fails)(const struct script *s))
{
	for (unsigned int round = 0; round < 20; round++)
		if (!shrink_once(s, fails))
			return;
}
