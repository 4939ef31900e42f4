// SPDX-License-Identifier: GPL-2.0
/*
 * A random mix of everything that can happen to a file, against a model in memory.
 *
 * The sequence follows from the seed alone, so both implementations run the same one and every
 * result can be compared.
 */
#define _GNU_SOURCE
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "dio_test.h"

#define MIX_MAX		(8 * MiB)	/* the file never grows beyond this */

struct mix {
	struct engine *eng;
	u64 rng;
	int dfd, bfd;		/* direct, buffered */
	u8 *map;
	u8 *data;		/* the model: bytes at and beyond size are zero */
	u64 size;
	u8 *tmp;
	char clone[64];		/* name of the file that shares extents with it */
	u64 clone_hash;
	int op;
};

/* New data, for the file as well */
static const u8 *model_write(struct mix *m, u64 off, size_t len, u64 seed)
{
	fill(m->data + off, len, seed);
	m->size = max(m->size, off + len);
	return m->data + off;
}

static void check_range(struct mix *m, const char *what, const void *buf, u64 off, size_t len)
{
	size_t diff = first_diff(buf, m->data + off, len);

	CHECK(!memcmp(buf, m->data + off, len),
	      "op %d: %s of %zu at %llu: wrong data from byte %llu: %02x, not %02x", m->op, what,
	      len, off, off + diff, ((const u8 *)buf)[diff], m->data[off + diff]);
}

/* Below a block, some blocks, or up to what is possible */
static u32 pick_len(struct mix *m, u32 unit, u64 space)
{
	u64 len, big;

	switch (rnd_below(&m->rng, 8)) {
	case 0 ... 2:
		len = (rnd_below(&m->rng, 15) + 1) * SECTOR;
		break;
	case 3 ... 5:
		len = (rnd_below(&m->rng, 16) + 1) * max(env.blksz, unit);
		break;
	case 6:
		len = (rnd_below(&m->rng, 64) + 1) * 4 * KiB;
		break;
	default:
		big = min(space, (u64)ENG_MAX_IO);
		len = rnd_below(&m->rng, big) + 1;
		break;
	}
	len = min(len, (u64)ENG_MAX_IO);
	len = min(round_up(len, unit), space / unit * unit);
	return max(len, (u64)unit);
}

static s64 read_result(const struct mix *m, const struct req *r)
{
	return r->off >= m->size ? 0 : min(m->size - r->off, (u64)r->len);
}

/* btrfs and f2fs end a request early where it would block; the others do all of it or nothing. */
static bool nowait_done(const struct mix *m, const struct req *r)
{
	if (r->res == -EAGAIN || r->res == -EOPNOTSUPP)
		return false;
	if (!env.strict && r->res > 0)
		return r->res == (r->write ? r->len : read_result(m, r));
	return true;
}

/*
 * One to ENG_DEPTH direct requests in flight, each in its own part of the file. A batch that reads
 * and writes stays inside the file, because where a read ends must not depend on which of them is
 * first.
 */
static void op_direct(struct mix *m)
{
	enum engine_kind kind = m->eng->kind;
	int n = kind >= ENG_AIO ? 1 + rnd_below(&m->rng, ENG_DEPTH) : 1;
	int style = rnd_below(&m->rng, 3);	/* 0 read, 1 write, 2 both */
	u64 limit = style == 2 && n > 1 ? m->size : MIX_MAX;
	u64 slot = limit / n / PAGE * PAGE;
	/* In XFS this is so once a file shares extents with another, which op_clone() does. */
	bool buffered = !env.strict || env.reflink;
	/* A polled write of less may wait for itself: see poll_wait(). */
	bool whole = (n > 1 && buffered) || kind == ENG_URING_POLL;
	u32 unit = whole ? max(env.blksz, PAGE) : SECTOR;
	struct req *reqs = m->eng->reqs, *end = reqs + n, *r, retry[ENG_DEPTH];
	int again = 0;

	if (slot < unit)
		return;
	for (int i = 0; i < n; i++) {
		u64 within = rnd_below(&m->rng, slot / unit) * unit;
		struct req new = { .fd = m->dfd, .off = i * slot + within };

		new.write = style == 2 ? rnd_below(&m->rng, 2) : (u64)style;
		new.len = pick_len(m, unit, slot - within);
		new.shift = rnd_below(&m->rng, PAGE / env.mem_align) * env.mem_align;
		new.vec = !rnd_below(&m->rng, 3);
		new.seed = rnd_next(&m->rng);
		switch (rnd_below(&m->rng, 16)) {
		case 0 ... 2: new.rwf = RWF_NOWAIT; break;
		case 3: new.rwf = new.write ? RWF_DSYNC : 0; break;
		case 4: new.rwf = new.write ? RWF_SYNC : 0; break;
		case 5: new.rwf = kind <= ENG_VEC ? RWF_HIPRI : 0; break;
		}
		if (new.write)
			fill(m->tmp, new.len, new.seed);
		eng_add(m->eng, new, new.write ? m->tmp : NULL);
	}
	eng_run(m->eng);

	for (r = reqs; r < end; r++) {
		/* A defect of the C code: see poll_wait(). Again, without polling. */
		if (kind == ENG_URING_POLL && r->res == -ETIMEDOUT && strcmp(env.impl, "rust"))
			r->res = RET((r->write ? pwritev2 : preadv2)(m->dfd, r->iov, r->niov, r->off, 0));
		/* What would have blocked, now or half way, is done again without the flag. */
		if ((r->rwf & RWF_NOWAIT) && !nowait_done(m, r)) {
			retry[again] = *r;
			retry[again++].rwf = 0;
		}
	}
	if (again)
		eng_run_again(m->eng, retry, again);
	for (int i = 0; i < again; i++)
		reqs[retry[i].slot].res = retry[i].res;

	for (r = reqs; r < end; r++) {
		if (!r->write)
			continue;
		ANSWER(r->res, r->len, "%d: write off=%llu len=%u", m->op, r->off, r->len);
		model_write(m, r->off, r->len, r->seed);
	}
	for (r = reqs; r < end; r++) {
		s64 want = read_result(m, r);

		if (r->write)
			continue;
		CHECK(r->res == want, "op %d: direct read of %u at %llu: %lld, not %lld", m->op,
		      r->len, r->off, r->res, want);
		req_check_guards(m->eng, r);
		req_get_data(r, m->tmp, want);
		check_range(m, "direct read", m->tmp, r->off, want);
		rec("%d: read off=%llu len=%u -> %lld %016llx", m->op, r->off, r->len, r->res,
		    hash(m->tmp, want));
	}
}

static u64 pick_off(struct mix *m, u64 limit)
{
	static const u32 units[] = { 1, SECTOR, 4096 };
	u32 unit = units[rnd_below(&m->rng, ARRAY_SIZE(units))];

	return rnd_below(&m->rng, max(limit / unit, 1ULL)) * unit;
}

static void op_buffered_write(struct mix *m)
{
	u64 off = pick_off(m, MIX_MAX);
	size_t len = min(rnd_below(&m->rng, 256 * KiB) + 1, MIX_MAX - off);

	write_all(m->bfd, model_write(m, off, len, rnd_next(&m->rng)), len, off);
}

static void op_buffered_read(struct mix *m)
{
	u64 off = pick_off(m, MIX_MAX);
	size_t len = min(rnd_below(&m->rng, 1 * MiB) + 1, MIX_MAX - off);
	s64 want = off >= m->size ? 0 : min(m->size - off, len);
	s64 ret = RET(pread(m->bfd, m->tmp, len, off));

	CHECK(ret == want, "op %d: buffered read of %zu at %llu: %lld, not %lld", m->op, len, off,
	      ret, want);
	check_range(m, "buffered read", m->tmp, off, want);
}

static void op_mmap(struct mix *m, bool write)
{
	u64 off;
	size_t len;

	if (!m->size)
		return;
	/*
	 * Beyond the initialized size, ntfs3 does not notice such a write, and zeroes what it
	 * wrote when another one moves that size (seen on 7.3 with C and with Rust).
	 */
	if (write && is_fs("ntfs3"))
		return;
	off = rnd_below(&m->rng, m->size);
	len = min(rnd_below(&m->rng, 64 * KiB) + 1, m->size - off);
	if (write)
		memcpy(m->map + off, model_write(m, off, len, rnd_next(&m->rng)), len);
	else
		check_range(m, "mmap read", m->map + off, off, len);
}

static void op_truncate(struct mix *m)
{
	u64 size = pick_off(m, MIX_MAX);

	OK(ftruncate(m->bfd, size));
	if (size < m->size)
		memset(m->data + size, 0, m->size - size);
	m->size = size;
}

static void op_fallocate(struct mix *m)
{
	static const int modes[] = {
		0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
	};
	int mode = modes[rnd_below(&m->rng, ARRAY_SIZE(modes))];
	u64 off = pick_off(m, MIX_MAX);
	u64 len = min(rnd_below(&m->rng, 512 * KiB) + 1, MIX_MAX - off);

	if (fallocate(m->bfd, mode, off, len)) {
		CHECK(errno == EOPNOTSUPP, "op %d: fallocate mode %d: %s", m->op, mode,
		      strerror(errno));
		return;
	}
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
		u64 end = min(off + len, m->size);

		if (off < end)
			memset(m->data + off, 0, end - off);
	}
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		m->size = max(m->size, off + len);
}

/* What a clone shares with the file must not change with it. */
static void check_clone(struct mix *m)
{
	CHECK(!m->clone_hash || file_hash(m->clone) == m->clone_hash,
	      "op %d: the clone changed with the file", m->op);
}

static void op_clone(struct mix *m)
{
	int fd;

	if (!env.reflink)
		return;
	check_clone(m);
	fd = create(m->clone, 0);
	OK(ioctl(fd, FICLONE, m->bfd));
	close(fd);
	m->clone_hash = hash(m->data, m->size);
}

CASE(mix, "mix", PLAIN | BIT(ENG_URING_POLL))
{
	int nops = max(160 * env.scale / 100, 20U);
	struct mix m = { .eng = eng_open(arg), .rng = env.seed * 1000 + arg,
			 .data = xalloc(MIX_MAX), .tmp = xalloc(MIX_MAX) };

	snprintf(m.clone, sizeof(m.clone), "%s.clone", case_name);
	m.bfd = create(case_name, 0);
	m.dfd = xopen(case_name, O_RDWR | O_DIRECT);
	m.map = xmap(m.bfd, MIX_MAX, PROT_READ | PROT_WRITE);

	if (arg == ENG_URING_POLL) {
		write_all(m.dfd, m.tmp, PAGE, 0);
		m.size = PAGE;
		/* The disk gets a copy of what the block layer encrypts. C polls for the original. */
		polled_write(m.eng, m.dfd, m.tmp, PAGE, env.encrypted,
			     "it polls for what no disk has seen");
		if (strcmp(env.impl, "rust"))
			set_queue("io_timeout", 1000);
	}
	for (m.op = 0; m.op < nops; m.op++) {
		switch (rnd_below(&m.rng, 20)) {
		case 0 ... 9: op_direct(&m); break;
		case 10: case 11: op_buffered_write(&m); break;
		case 12: op_buffered_read(&m); break;
		case 13: op_mmap(&m, true); break;
		case 14: op_mmap(&m, false); break;
		case 15: op_truncate(&m); break;
		case 16: case 17: op_fallocate(&m); break;
		case 18:
			if (rnd_below(&m.rng, 4))
				op_clone(&m);
			else
				OK(fsync(m.bfd));
			break;
		case 19:
			if (rnd_below(&m.rng, 2))
				drop_cache(m.bfd);
			else
				OK(fdatasync(m.dfd));
			break;
		}
		CHECK(file_size(m.bfd) == m.size, "op %d: size %llu, not %llu", m.op,
		      file_size(m.bfd), m.size);
	}
	check_file(case_name, m.data, m.size);
	rec("end: size=%llu %016llx", m.size, hash(m.data, m.size));
	check_clone(&m);
	if (m.clone_hash)
		keep(m.clone, m.clone_hash);
	eng_close(m.eng);
	close(m.dfd);
	close(m.bfd);
	sync();
	CHECK(write_str("/proc/sys/vm/drop_caches", "1"), "drop_caches: %s", strerror(errno));
	check_file(case_name, m.data, m.size);
}
