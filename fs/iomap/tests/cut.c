// SPDX-License-Identifier: GPL-2.0
/*
 * What a file shows after a power cut during a script.
 *
 * While a script is executed, the parts of the world note the events of a write that matter
 * for what is stable: a mapping, a bio that is submitted or ends, ->end_io(), ->fsync(), and the
 * answer.  Then cut_check() cuts the power before each event and after the last one, and looks
 * at every state that a file system may find afterwards.  A state has three parts.
 *
 * The data: a write is stable when its bio has ended without error, if the disk has no volatile
 * cache, or if the bio has REQ_FUA and the disk supports it; otherwise with the next ->fsync()
 * after that.  Any set of the other writes that were submitted may be there as well, and of
 * the last one in the set any sectors from its start on, unless it has REQ_ATOMIC.
 *
 * The journal: transaction 1 has what the file system did before it returned the mappings
 * (IOMAP_F_DIRTY).  Transaction 2 has what ->end_io() does if there was no error: it converts
 * unwritten blocks (IOMAP_DIO_UNWRITTEN), remaps shared ones (IOMAP_DIO_COW), records new ones,
 * and lets the file grow.  ->fsync() commits what there is.  The file system may also commit at
 * any other time, in this order.  It flushes the cache of the disk before each commit, as ext4
 * and XFS do: what had ended before ->end_io() is stable if transaction 2 is.
 *
 * The timestamps: only ->fsync() with datasync=0 commits them.
 *
 * The rules:
 *
 * ACKED: if a write with O_DSYNC has returned bytes, these are there, and so are the transactions
 *   that make them readable.  If it was O_SYNC, the timestamps are stable as well.
 * OLD: if transaction 2 makes blocks readable, what was to be written to them is there: to
 *   shared blocks the data, to the others also the zeroes around it.
 * SIZE: if transaction 2 lets the file grow, the data up to the new size are there, and the
 *   zeroes in the rest of the last block, which mapped memory shows.
 * ORDER: ->end_io() is called when no bio is in flight, no bio is submitted after it, and
 *   ->fsync() is not called before it.  This is about the events, not about a state.
 * UNTORN: of the data for a mapping with IOMAP_F_ATOMIC_BIO, all is there or nothing.  Of
 *   unwritten, new and shared blocks, OLD says so.
 *
 * Not covered are:
 *
 * - reads, inline data (nobody flushes it, D85), and errors that ->end_io() hides;
 * - under ACKED, the size of a file that grows without IOMAP_F_DIRTY, which asks for the commit;
 * - the zeroes after the end of a file that was larger when the bios were submitted;
 * - the bytes of a bio: it counts by its place, and a bio of zeroes spoils the data below it;
 * - scripts with a mapping that ends within a block that is zeroed, or with too many events;
 * - file systems that do not flush the disk before they commit, such as ext2.
 */
#include <linux/blkdev.h>
#include <linux/prandom.h>
#include "world.h"

#define CUT_EVENTS	400
#define CUT_WRITES	64	/* bits of a mask */
#define CUT_NEEDS	64
/* With more writes than this that are not stable, only some sets of them are looked at: */
#define CUT_ALL		12	/* ... those of none, one, all but one, all, */
#define CUT_SAMPLE	256	/* ... and as many, drawn at random */
/* Of more sectors than this a write is torn after the first, in the middle, and before the last. */
#define CUT_TEARS	8

enum cut_rule {
	ACKED,
	OLD,
	SIZE,
	ORDER,
	UNTORN,
};

static const char *const rules[] = {
	[ACKED]		= "what was acknowledged as stable is there",
	[OLD]		= "no old data behind a conversion",
	[SIZE]		= "no file size before its data",
	[ORDER]		= "the file system is told after the bios, and before the flush",
	[UNTORN]	= "an untorn write is whole or absent",
};

/* A bio, in bytes of the file. */
struct write {
	s64 from, to;
	unsigned int bio;
	unsigned int begins, ends;	/* after these events */
	bool good, through, atomic, zero;
};

/* What a rule wants of the states in which it applies. */
struct need {
	enum cut_rule rule;
	s64 from, to;			/* bytes of the file */
	unsigned int since;		/* applies after so many events, */
	unsigned int if_journal;	/* ... with so many transactions */
	unsigned int journal;		/* wants so many of them, */
	bool times;			/* ... the timestamps, */
	u64 writes;			/* ... and these writes */
	bool never;			/* ... and what is never written */
};

/* A state. */
struct state {
	unsigned int cut;		/* after so many events */
	unsigned int journal;		/* stable transactions */
	bool times;
	u64 on;				/* writes on the media */
	const struct write *torn;	/* ... and a part of this one */
	s64 until;			/* ... up to here */
};

static struct cut_event events[CUT_EVENTS];
static unsigned int nr_events;
static struct write writes[CUT_WRITES];
static unsigned int nr_writes;
static s64 largest_size;		/* of the file when a bio was submitted */
static struct need needs[CUT_NEEDS];
static unsigned int nr_needs;
static bool too_long, left_out;

void cut_begin(void)
{
	nr_events = 0;
	too_long = false;
}

void cut_note(struct cut_event event)
{
	too_long |= nr_events == CUT_EVENTS;
	if (!too_long)
		events[nr_events++] = event;
}

#define for_each_event(e, end)						\
	for (const struct cut_event *e = events; e < events + (end); e++)
#define for_each_write(w)	for (struct write *w = writes; w < writes + nr_writes; w++)

static unsigned int after(const struct cut_event *e)
{
	return e - events + 1;
}

static const struct cut_event *first(enum cut_what what)
{
	for_each_event(e, nr_events)
		if (e->what == what)
			return e;
	return NULL;
}

/* --- What the events mean --- */

static void find_writes(const struct script *s)
{
	nr_writes = 0;
	largest_size = 0;
	for_each_event(e, nr_events) {
		for_each_write(w)
			if (e->what == CUT_ENDED && w->bio == e->n) {
				w->ends = after(e);
				w->good = !e->error;
			}
		left_out |= nr_writes == CUT_WRITES;
		if (e->what != CUT_WRITE || left_out)
			continue;
		largest_size = max(largest_size, e->size);
		writes[nr_writes++] = (struct write){
			.from = e->from, .to = e->to, .bio = e->n,
			.begins = after(e), .ends = UINT_MAX,
			.through = !s->cache || (e->flags & (__force u32)REQ_FUA && s->fua),
			.atomic = e->flags & (__force u32)REQ_ATOMIC, .zero = e->zero,
		};
	}
}

/* Adds what @n wants of the range [@from, @to), which may be empty: data, or anything new. */
static void add_need(struct need n, s64 from, s64 to, bool data)
{
	s64 at = from, was;

	n.from = from;
	n.to = to;
	do {
		was = at;
		for_each_write(w) {
			if (w->from >= to || w->to <= from)
				continue;
			if (data && w->zero) {
				n.never = true;
				continue;
			}
			n.writes |= BIT_ULL(w - writes);
			if (w->from <= at && at < w->to)
				at = w->to;
		}
	} while (at != was);
	n.never |= at < to;
	if (nr_needs == CUT_NEEDS)
		left_out = true;
	else
		needs[nr_needs++] = n;
}

/* Whether the blocks are zeroed around the data. */
static bool is_fresh(const struct cut_event *m)
{
	return m->n == MAP_UNWRITTEN || m->flags & IOMAP_F_NEW;
}

/* What the rules want of the part of a write that went to the mapping @m, up to @to. */
static void find_needs_of(const struct script *s, const struct cut_event *m, s64 to,
		const struct cut_event *told, const struct cut_event *acked)
{
	s64 from = m->from;
	s64 block = 1LL << (s->blkbits ?: 12);
	bool fresh = is_fresh(m), shared = m->flags & IOMAP_F_SHARED;
	bool grows = told && told->to > told->size, converted = true;

	if (told) {
		converted = (m->n != MAP_UNWRITTEN || told->flags & IOMAP_DIO_UNWRITTEN) &&
			    (!shared || told->flags & IOMAP_DIO_COW);
		s64 a = max(from, told->from), b = min(to, told->to);
		struct need n = { .since = after(told), .if_journal = 2 };

		n.rule = OLD;
		if (a < b && fresh && converted)
			add_need(n, round_down(a, block), round_up(b, block), false);
		else if (a < b && shared && converted)
			add_need(n, a, b, false);
		n.rule = SIZE;
		n.never = !converted;
		if (a < b && grows && b > told->size)
			add_need(n, max(a, told->size), b, true);
		/* Zeroes were decided on with the size of the time. */
		if (a < b && grows && b >= largest_size && b == told->to)
			add_need(n, b, round_up(b, block), false);
	}
	if (m->flags & IOMAP_F_ATOMIC_BIO && !fresh && !shared)
		add_need((struct need){ .rule = UNTORN }, from, to, true);

	if (!acked)
		return;
	from = max(from, acked->from);
	to = min(to, acked->to);
	if (from >= to)
		return;

	struct need n = { .rule = ACKED, .since = after(acked), .never = !converted };

	if (fresh || shared)
		n.journal = s->end_io ? 2 : 1;
	else if (m->flags & IOMAP_F_DIRTY)
		n.journal = s->end_io && grows ? 2 : 1;
	if (n.journal == 2 && (!told || from < told->from || to > told->to))
		n.never = true;
	n.times = s->ki_flags & IOCB_SYNC;
	add_need(n, from, to, true);
}

static void find_needs(const struct script *s)
{
	const struct cut_event *told = first(CUT_TOLD), *acked = first(CUT_ACKED), *next = NULL;
	s64 mask = (1LL << (s->blkbits ?: 12)) - 1;
	bool divided = false, zeroed = false;

	nr_needs = 0;
	for_each_write(w)
		zeroed |= w->zero;
	/* The file system converts nothing after an error, and answers for one that it hides. */
	if (!(s->ki_flags & IOCB_DSYNC || s->is_sync) || (told && told->hidden))
		acked = NULL;
	if (told && told->error)
		told = NULL;
	/* Backwards: the next mapping was asked for when the part before it was done. */
	for (const struct cut_event *m = events + nr_events - 1; m >= events; m--) {
		if (m->what != CUT_MAP)
			continue;
		zeroed |= is_fresh(m);
		divided |= (m->to & mask && m->to < m->size) ||
			   (next && next->from & mask &&
			    (next->n != m->n || next->flags != m->flags));
		if (m->n != MAP_INLINE)
			find_needs_of(s, m, next ? min(m->to, next->from) : m->to, told, acked);
		next = m;
	}
	/* Zeroes around the data of one mapping would overwrite what belongs to another. */
	left_out |= divided && zeroed;
}

/* --- The states --- */

static bool is_broken(const struct state *st, const struct need *n)
{
	u64 missing = n->writes & ~st->on;
	bool some = n->writes & st->on;

	if (st->torn && n->writes & BIT_ULL(st->torn - writes)) {
		some |= max(n->from, st->torn->from) < st->until;
		if (min(n->to, st->torn->to) <= st->until)
			missing &= ~BIT_ULL(st->torn - writes);
	}
	if (n->rule == UNTORN)
		return some && (missing || n->never);
	return missing || n->never || st->journal < n->journal || (n->times && !st->times);
}

static const struct need *broken(const struct state *st)
{
	for (const struct need *n = needs; n < needs + nr_needs; n++)
		if (st->cut >= n->since && st->journal >= n->if_journal && is_broken(st, n))
			return n;
	return NULL;
}

/* Looks at a set of writes, and at the same with the last one torn. */
static const struct need *look_at_set(struct state *st, u64 stable, u64 set, unsigned long *states)
{
	const struct need *n;

	*st = (struct state){
		.cut = st->cut, .journal = st->journal, .times = st->times, .on = stable | set,
	};
	++*states;
	n = broken(st);
	if (n || !set || writes[fls64(set) - 1].atomic)
		return n;

	st->torn = &writes[fls64(set) - 1];
	st->on &= ~BIT_ULL(st->torn - writes);

	s64 sectors = (st->torn->to - st->torn->from) / SECTOR_SIZE;

	for (s64 i = 1; i < sectors && !n; i++) {
		if (sectors > CUT_TEARS && i != 1 && i != sectors / 2 && i != sectors - 1)
			continue;
		st->until = st->torn->from + i * SECTOR_SIZE;
		++*states;
		n = broken(st);
	}
	return n;
}

static const struct need *look_at_sets(struct state *st, u64 stable, u64 maybe,
				       unsigned long *states)
{
	const struct need *n = NULL;
	u64 set = 0;

	if (hweight64(maybe) <= CUT_ALL) {
		do {
			n = look_at_set(st, stable, set, states);
			set = (set - maybe) & maybe;
		} while (set && !n);
		return n;
	}

	struct rnd_state r;

	prandom_seed_state(&r, st->cut);
	n = look_at_set(st, stable, 0, states) ?: look_at_set(st, stable, maybe, states);
	for (unsigned int i = 0; i < CUT_WRITES && !n; i++)
		if (maybe & BIT_ULL(i))
			n = look_at_set(st, stable, BIT_ULL(i), states) ?:
			    look_at_set(st, stable, maybe & ~BIT_ULL(i), states);
	for (unsigned int i = 0; i < CUT_SAMPLE && !n; i++) {
		set = (u64)prandom_u32_state(&r) << 32;
		n = look_at_set(st, stable, maybe & (set | prandom_u32_state(&r)), states);
	}
	return n;
}

/* Looks at all states after a cut. */
static const struct need *look_at_cut(struct state *st, unsigned int cut, unsigned long *states)
{
	unsigned int told = UINT_MAX, flushed = 0, journal = 0, last_journal = 1;
	u64 submitted = 0, stable = 0, before_told = 0;
	const struct need *n = NULL;
	bool times = false;

	for_each_event(e, cut) {
		if (e->what == CUT_TOLD && !e->error) {
			told = after(e);
			last_journal = 2;
		}
		if (e->what != CUT_FLUSHED)
			continue;
		flushed = after(e);
		journal = last_journal;
		times |= !e->n;
	}
	for_each_write(w) {
		u64 bit = BIT_ULL(w - writes);

		if (w->begins > cut)
			continue;
		submitted |= bit;
		if (w->ends > cut || !w->good)
			continue;
		if (w->through || w->ends < flushed)
			stable |= bit;
		if (w->ends < told)
			before_told |= bit;
	}
	for (; journal <= last_journal && !n; journal++) {
		u64 now = stable | (journal == 2 ? before_told : 0);

		*st = (struct state){ .cut = cut, .journal = journal, .times = times };
		n = look_at_sets(st, now, submitted & ~now, states);
	}
	return n;
}

/* The number, from 1, of the event that tells or flushes the file system too early. */
static unsigned int order_broken(void)
{
	const struct cut_event *told = first(CUT_TOLD), *flushed = first(CUT_FLUSHED);

	if (!told)
		return 0;
	for_each_write(w)
		if (w->begins > after(told) || w->ends > after(told))
			return after(told);
	return flushed && flushed < told ? after(flushed) : 0;
}

/* --- What a person needs to see it again --- */

static void print_bios(u64 mask)
{
	for_each_write(w)
		if (mask & BIT_ULL(w - writes))
			pr_cont(" %u", w->bio);
}

static void print_broken(const struct script *s, enum impl impl, const struct state *st,
		const struct need *n)
{
	static const char *const names[] = {
		[CUT_MAP] = "mapping for", [CUT_WRITE] = "write", [CUT_ENDED] = "ended",
		[CUT_TOLD] = "end_io", [CUT_FLUSHED] = "fsync", [CUT_ACKED] = "acknowledged",
	};

	pr_info("cut: %s breaks the rule: %s\n", impl == IMPL_C ? "C" : "Rust",
		rules[n ? n->rule : ORDER]);
	script_print(s);
	for_each_event(e, nr_events)
		pr_info("cut: %3u %s %lld-%lld n=%u flags=%x error=%d%s\n", after(e),
			names[e->what], e->from, e->to, e->n, e->flags, e->error,
			e->zero ? " zeroes" : "");
	if (!n) {
		pr_info("cut: event %u is too early\n", st->cut);
		return;
	}
	pr_info("cut: the power goes after event %u; there are %u transactions and the bios",
		st->cut, st->journal);
	print_bios(st->on);
	if (st->torn)
		pr_cont(", and %u up to byte %lld", st->torn->bio, st->until);
	pr_info("cut: bytes %lld-%lld need %u transactions%s and the bios", n->from, n->to,
		max(n->journal, n->if_journal), n->times ? ", the timestamps" : "");
	print_bios(n->writes);
	pr_cont("%s\n", n->never ? ", and what is not written, or not reachable" : "");
}

void cut_check(const struct script *s, enum impl impl, struct cuts *sum)
{
	struct state st = { };
	const struct need *n = NULL;

	if (s->op != OP_WRITE || !first(CUT_MAP))
		return;
	left_out = too_long;
	if (!left_out) {
		find_writes(s);
		find_needs(s);
	}
	if (left_out) {
		sum->left_out++;
		return;
	}
	sum->scripts++;
	for (unsigned int cut = 0; cut <= nr_events && !n; cut++)
		n = look_at_cut(&st, cut, &sum->states[impl]);
	if (!n) {
		st.cut = order_broken();
		if (!st.cut)
			return;
	}
	sum->violations++;
	sum->broken[impl] = true;
	if (sum->loud)
		print_broken(s, impl, &st, n);
}
