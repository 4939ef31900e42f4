// SPDX-License-Identifier: GPL-2.0
/* One property per case: holes, unwritten extents, end of file, synchronous writes, ... */
#define _GNU_SOURCE
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "dio_test.h"

#ifndef RWF_ATOMIC
#define RWF_ATOMIC	0x40
#endif

static const enum engine_kind plain_engines[] = { ENG_SYNC, ENG_VEC, ENG_AIO, ENG_URING,
						  ENG_URING_FIXED };

static void xtruncate(int fd, u64 size)
{
	CHECK(!ftruncate(fd, size), "truncate to %llu: %s", size, strerror(errno));
}

static void xfallocate(int fd, int mode, u64 off, u64 len)
{
	if (fallocate(fd, mode, off, len)) {
		if (errno == EOPNOTSUPP)
			skip("fallocate mode %d: not supported", mode);
		fail("fallocate mode %d: %s", mode, strerror(errno));
	}
}

/* A new file of pattern data that is on disk and not in the page cache */
static int new_file(const char *name, u8 *data, size_t len)
{
	int fd = xopen(name, O_RDWR | O_CREAT | O_TRUNC);

	fill(data, len, env.seed + len);
	if (len)
		write_all(fd, data, len, 0);
	drop_cache(fd);
	close(fd);
	return xopen(name, O_RDWR | O_DIRECT);
}

/* Reads all of a file in every way and compares. */
static void expect(const char *name, const u8 *want, size_t len)
{
	check_file(name, want, len);
	rec("%s: size=%zu %016llx", name, len, hash(want, len));
}

/* Holes, unwritten and written blocks in turns: each block is an extent of its own. */
static void make_fragments(const char *name, u8 *data, u32 blocks)
{
	u32 bs = max(env.blksz, 4096U);
	int fd = xopen(name, O_RDWR | O_CREAT | O_TRUNC);

	memset(data, 0, (size_t)blocks * bs);
	xtruncate(fd, (u64)blocks * bs);
	for (u32 i = 0; i < blocks; i++) {
		u64 off = (u64)i * bs;

		if (i % 3 == 1) {
			xfallocate(fd, 0, off, bs);
		} else if (i % 3 == 2) {
			fill(data + off, bs, env.seed * 77 + i);
			write_all(fd, data + off, bs, off);
			/* Else delayed allocation puts neighbours together */
			if (i % 24 == 2)
				CHECK(!fsync(fd), "fsync: %s", strerror(errno));
		}
	}
	drop_cache(fd);
	close(fd);
}

static void holes(const void *arg)
{
	size_t len = 1 * MiB;
	u8 *want = xalloc(len), *buf = xalloc(len + MiB);
	int fd = xopen("holes", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);

	xtruncate(fd, len);
	for (size_t i = 0; i < ARRAY_SIZE(plain_engines); i++) {
		struct engine *e = eng_open(plain_engines[i]);
		u64 off = 128 * KiB * (i + 1) + 8192;

		/* All of it a hole at first, then with data in the middle */
		s64 ret = eng_read(e, fd, buf, len, 0, 0);

		CHECK(ret == (s64)len && !memcmp(buf, want, len), "%s: read of a hole: %lld",
		      engine_names[plain_engines[i]], ret);
		fill(want + off, 12 * KiB, i);
		ret = eng_write(e, fd, want + off, 12 * KiB, off, 0);
		CHECK(ret == 12 * KiB, "%s: write into a hole: %lld",
		      engine_names[plain_engines[i]], ret);
		for (u64 o = off - 8192; o < off + 24 * KiB; o += SECTOR) {
			ret = eng_read(e, fd, buf, 8192, o, 0);
			CHECK(ret == 8192 && !memcmp(buf, want + o, 8192),
			      "%s: read across a hole at %llu: %lld",
			      engine_names[plain_engines[i]], o, ret);
		}
		ret = eng_read(e, fd, buf, len, 0, 0);
		CHECK(ret == (s64)len && !memcmp(buf, want, len), "%s: whole read: %lld",
		      engine_names[plain_engines[i]], ret);
		eng_close(e);
	}
	expect("holes", want, len);
	keep("holes");
}

/*
 * Writes of every sector position and length up to two blocks into unwritten space. What surrounds
 * them in the block must read back as zeros, although the disk below holds something else.
 */
static void unwritten(const void *arg)
{
	enum engine_kind kind = (enum engine_kind)(uintptr_t)arg;
	struct engine *e = eng_open(kind);
	u32 bs = max(env.blksz, 1024U), n = 0;
	u32 sectors = bs / SECTOR, step = sectors > 2 ? 3 : 1;
	size_t len = 4 * MiB, pos = 0;
	u8 *want = xalloc(len), *buf = xalloc(len);
	char name[64];
	int fd, bfd;

	snprintf(name, sizeof(name), "unwritten-%s", engine_names[kind]);
	fd = xopen(name, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);
	bfd = xopen(name, O_RDWR);
	xfallocate(fd, 0, 0, len);
	CHECK(eng_read(e, fd, buf, len, 0, 0) == (s64)len && all_bytes(buf, len, 0),
	      "fallocated space does not read as zeros");

	for (u32 first = 0; first < sectors; first++) {
		for (u32 count = 1; count <= 2 * sectors; count += step) {
			u64 off = pos + first * SECTOR;
			u32 bytes = count * SECTOR;
			s64 ret;

			if (pos + 4 * bs > len)
				break;
			fill(want + off, bytes, pos + 1);
			ret = eng_write(e, fd, want + off, bytes, off, 0);
			CHECK(ret == bytes, "write of %u at sector %u of a block: %lld", bytes,
			      first, ret);
			ret = eng_read(e, fd, buf, 4 * bs, pos, 0);
			CHECK(ret == (s64)(4 * bs) && !memcmp(buf, want + pos, 4 * bs),
			      "write of %u at sector %u of a block: wrong data from byte %zu",
			      bytes, first, first_diff(buf, want + pos, 4 * bs));
			/* Some again through the page cache while it is populated */
			if (n++ % 4 == 0) {
				read_all(bfd, buf, 4 * bs, pos);
				CHECK(!memcmp(buf, want + pos, 4 * bs),
				      "page cache is wrong after a write of %u at sector %u",
				      bytes, first);
			}
			/* every other time leave an unwritten block between */
			pos += (1 + first + count + sectors) / sectors * bs + (n & 1) * bs;
		}
	}
	rec("%u writes", n);
	close(bfd);
	expect(name, want, len);
	keep(name);
	eng_close(e);
}

/* Sectors of one block in flight together: they must not zero each other. */
static void subblock_parallel(const void *arg)
{
	static const enum engine_kind kinds[] = { ENG_AIO, ENG_URING, ENG_URING_FIXED };
	u32 bs = max(env.blksz, 1024U), per = min(bs / SECTOR, (u32)ENG_DEPTH);
	size_t len = 256 * bs;
	u8 *want = xalloc(len), *buf = xalloc(len);

	if (env.subblock_buffered)
		skip("sub-block writes are not direct here");
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct engine *e = eng_open(kinds[k]);
		int fd = xopen("parallel", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);

		memset(want, 0, len);
		xfallocate(fd, 0, 0, len);
		for (u32 b = 0; b < 64; b++) {
			u64 base = (u64)b * 2 * bs;
			/* into unwritten space, then over what was written */
			for (int pass = 0; pass < 2; pass++) {
				struct req reqs[ENG_DEPTH] = { };

				for (u32 i = 0; i < per; i++) {
					struct req *r = &reqs[i];

					r->write = true;
					r->fd = fd;
					r->off = base + i * SECTOR;
					r->len = SECTOR;
					eng_prep(e, i, r);
					fill(want + r->off, SECTOR, r->off + pass + k);
					req_put_data(r, want + r->off);
				}
				eng_run(e, reqs, per);
				for (u32 i = 0; i < per; i++)
					CHECK(reqs[i].res == SECTOR, "sector %u: %lld", i,
					      reqs[i].res);
			}
			CHECK(eng_read(e, fd, buf, 2 * bs, base, 0) == (s64)(2 * bs) &&
			      !memcmp(buf, want + base, 2 * bs),
			      "%s: block %u: wrong data from byte %zu", engine_names[kinds[k]], b,
			      first_diff(buf, want + base, 2 * bs));
		}
		close(fd);
		expect("parallel", want, len);
		eng_close(e);
	}
}

static const u32 eof_sizes[] = { 1, 511, 512, 513, 4095, 4096, 4097, 10000, 65536 + 7,
				 1048576 + 513 };

/* Reads around every place where a file of that size may end, with each engine */
static void read_around(struct engine *engines[], int fd, const u8 *want, u32 size, u8 *buf)
{
	u64 last = size / SECTOR * SECTOR;
	const u64 offs[] = { 0, last >= 8192 ? last - 8192 : 0, last, last + SECTOR, last + 4096,
			     last + MiB };
	const u32 lens[] = { SECTOR, 4096, 64 * KiB, MiB };

	for (size_t i = 0; i < ARRAY_SIZE(plain_engines); i++) {
		const char *name = engine_names[plain_engines[i]];

		for (size_t o = 0; o < ARRAY_SIZE(offs); o++) {
			for (size_t l = 0; l < ARRAY_SIZE(lens); l++) {
				s64 exp = offs[o] >= size ? 0 : min(size - offs[o], (u64)lens[l]);
				s64 ret = eng_read(engines[i], fd, buf, lens[l], offs[o], 0);

				rec("%s size=%u off=%llu len=%u -> %lld", name, size,
				    (unsigned long long)offs[o], lens[l], (long long)ret);
				CHECK(ret == exp,
				      "%s: %u bytes at %llu of a file of %u: %lld, not %lld",
				      name, lens[l], (unsigned long long)offs[o], size,
				      (long long)ret, (long long)exp);
				CHECK(exp <= 0 || !memcmp(buf, want + offs[o], exp),
				      "wrong data in a file of %u", size);
			}
		}
	}
}

/* Reads at every kind of end of file */
static void eof_reads(const void *arg)
{
	struct engine *engines[ARRAY_SIZE(plain_engines)];
	size_t cap = 2 * MiB;
	u8 *want = xalloc(cap), *buf = xalloc(cap);

	for (size_t i = 0; i < ARRAY_SIZE(plain_engines); i++)
		engines[i] = eng_open(plain_engines[i]);
	for (size_t s = 0; s < ARRAY_SIZE(eof_sizes); s++) {
		int fd = new_file("eof", want, eof_sizes[s]);

		read_around(engines, fd, want, eof_sizes[s], buf);
		close(fd);
	}
}

/* The same on a file system that nobody can write to: make_tree() of run.py made the files. */
static void read_only(const void *arg)
{
	struct engine *engines[ARRAY_SIZE(plain_engines)];
	size_t cap = 2 * MiB;
	u8 *want = xalloc(cap), *buf = xalloc(cap);

	for (size_t i = 0; i < ARRAY_SIZE(plain_engines); i++)
		engines[i] = eng_open(plain_engines[i]);
	for (size_t s = 0; s < ARRAY_SIZE(eof_sizes); s++) {
		u32 size = eof_sizes[s];
		char name[64];
		int fd;

		snprintf(name, sizeof(name), "read-%u", size);
		for (u32 off = 0; off < size; off += 8) {
			/* Some blocks are holes. */
			u64 v = off / 4096 % 5 == 3 ? 0 : ((u64)size << 32) + off;

			memcpy(want + off, &v, 8);
		}
		fd = xopen(name, O_RDONLY | O_DIRECT);
		read_around(engines, fd, want, size, buf);
		close(fd);
		expect(name, want, size);
		keep(name);
	}
}

/* Appends of changing size, one after the other, then several in flight */
static void append(const void *arg)
{
	enum engine_kind kind = (enum engine_kind)(uintptr_t)arg;
	struct engine *e = eng_open(kind);
	size_t cap = 4 * MiB, len = 0;
	u8 *want = xalloc(cap), *buf = xalloc(cap);
	u64 rng = env.seed;
	bool seen[4 * ENG_DEPTH] = { };
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "append-%s", engine_names[kind]);
	fd = xopen(name, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_APPEND);
	for (int i = 0; i < 100; i++) {
		u32 n = (rnd_below(&rng, 24) + 1) * SECTOR;
		s64 ret;

		n = (n + env.mem_align - 1) / env.mem_align * env.mem_align;

		fill(want + len, n, i);
		ret = eng_write(e, fd, want + len, n, 0, 0);
		if (ret == -EINVAL && env.always_cow && len % env.blksz)
			skip("XFS takes no append within a block where it always copies on write");
		CHECK(ret == n, "append %d of %u: %lld", i, n, ret);
		len += n;
		CHECK(file_size(fd) == len, "append %d: size %llu, not %zu", i, file_size(fd), len);
		ret = eng_read(e, fd, buf, n, len - n, 0);
		CHECK(ret == n && !memcmp(buf, want + len - n, n), "append %d: reads back wrong",
		      i);
	}
	close(fd);
	expect(name, want, len);
	keep(name);
	/*
	 * XFS and exfat place an append at the size of the moment and move the size when the I/O is
	 * done, so appends in flight together land on each other.
	 */
	if (kind < ENG_AIO || !strcmp(env.fstype, "xfs") || !strcmp(env.fstype, "exfat"))
		return;

	/* Each lands somewhere, and none on another */
	fd = xopen("append-many", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_APPEND);
	for (u32 round = 0; round < 4; round++) {
		struct req reqs[ENG_DEPTH] = { };

		for (u32 i = 0; i < ENG_DEPTH; i++) {
			reqs[i].write = true;
			reqs[i].fd = fd;
			reqs[i].len = 4096;
			eng_prep(e, i, &reqs[i]);
			memset(buf, round * ENG_DEPTH + i + 1, 4096);
			req_put_data(&reqs[i], buf);
		}
		eng_run(e, reqs, ENG_DEPTH);
		for (u32 i = 0; i < ENG_DEPTH; i++)
			CHECK(reqs[i].res == 4096, "append in flight: %lld", reqs[i].res);
	}
	CHECK(file_size(fd) == 4 * ENG_DEPTH * 4096, "appends in flight: size %llu", file_size(fd));
	read_all(fd, buf, 4 * ENG_DEPTH * 4096, 0);
	for (u32 i = 0; i < 4 * ENG_DEPTH; i++) {
		u8 id = buf[i * 4096];

		CHECK(id && id <= 4 * ENG_DEPTH && !seen[id - 1] &&
		      all_bytes(buf + i * 4096, 4096, id),
		      "block %u of the appends is %02x", i, id);
		seen[id - 1] = true;
	}
	close(fd);
	eng_close(e);
}

/* Writes beyond the end: what is skipped is zero, also inside the block that held the old end. */
static void extend(const void *arg)
{
	static const u32 sizes[] = { 0, 100, 512, 4096, 5000, 70000 };
	static const u32 gaps[] = { 0, SECTOR, 3 * SECTOR, 4096, 32 * KiB };
	size_t cap = 256 * KiB;
	u8 *want = xalloc(cap), *buf = xalloc(cap);

	for (size_t i = 0; i < ARRAY_SIZE(plain_engines); i++) {
		struct engine *e = eng_open(plain_engines[i]);

		for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
			for (size_t g = 0; g < ARRAY_SIZE(gaps); g++) {
				u32 size = sizes[s], len = (1 + (s + g) % 12) * SECTOR;
				u64 off = (size + SECTOR - 1) / SECTOR * SECTOR + gaps[g];
				int fd;
				s64 ret;

				/* Every other combination will do for these. */
				if (i && (i + s + g) % 2)
					continue;
				memset(want, 0, cap);
				fd = new_file("extend", want, size);
				fill(want + off, len, off);
				ret = eng_write(e, fd, want + off, len, off, 0);
				CHECK(ret == len, "%s: write of %u at %llu, size %u: %lld",
				      engine_names[plain_engines[i]], len, off, size, ret);
				CHECK(file_size(fd) == off + len, "size %llu, not %llu",
				      file_size(fd), off + len);
				ret = eng_read(e, fd, buf, 128 * KiB, 0, 0);
				CHECK(ret == (s64)(off + len), "read: %lld", ret);
				CHECK(!memcmp(buf, want, ret),
				      "%s: write of %u at %llu, size %u: wrong data from byte %zu: %02x, not %02x",
				      engine_names[plain_engines[i]], len,
				      off, size,
				      first_diff(buf, want, ret), buf[first_diff(buf, want, ret)],
				      want[first_diff(buf, want, ret)]);
				/* What lies behind the end in its block becomes visible now */
				xtruncate(fd, off + len + 8192);
				ret = eng_read(e, fd, buf, 128 * KiB, 0, 0);
				CHECK(ret == (s64)(off + len + 8192) && !memcmp(buf, want, ret),
				      "size %u: behind the end is something else than zeros: byte %zu",
				      size, first_diff(buf, want, off + len + 8192));
				rec("%s size=%u off=%llu len=%u %016llx",
				    engine_names[plain_engines[i]], size, off, len,
				    hash(want, off + len));
				close(fd);
			}
		}
		eng_close(e);
	}
}

/* Truncated inside a written block, then written directly behind the new end */
static void tail_zero(const void *arg)
{
	u32 bs = max(env.blksz, 1024U);
	u8 *want = xalloc(64 * KiB), *buf = xalloc(64 * KiB);

	for (u32 keep_sectors = 0; keep_sectors < bs / SECTOR; keep_sectors++) {
		int fd = new_file("tail", want, 4 * bs);
		u64 size = 2 * bs + keep_sectors * SECTOR;

		xtruncate(fd, size);
		memset(want + size, 0, 64 * KiB - size);
		fill(want + size, SECTOR, size);
		CHECK(xpwritev2(fd, &(struct iovec){ memcpy(buf, want + size, SECTOR), SECTOR }, 1,
				size, 0) == SECTOR, "write at the end: %s", strerror(errno));
		xtruncate(fd, 4 * bs);
		close(fd);
		expect("tail", want, 4 * bs);
	}
}

static void sync_writes(const void *arg)
{
	static const struct {
		const char *name;
		int open_flags, rwf;
	} modes[] = {
		{ "O_DSYNC", O_DSYNC, 0 },	{ "O_SYNC", O_SYNC, 0 },
		{ "RWF_DSYNC", 0, RWF_DSYNC },	{ "RWF_SYNC", 0, RWF_SYNC },
	};
	static const u32 lens[] = { SECTOR, 4096, 64 * KiB, 256 * KiB };
	size_t len = 4 * MiB;
	u8 *want = xalloc(len), *buf = xalloc(len);

	for (size_t i = 0; i < ARRAY_SIZE(plain_engines); i++) {
		struct engine *e = eng_open(plain_engines[i]);

		for (size_t m = 0; m < ARRAY_SIZE(modes); m++) {
			u64 end = 3 * MiB;
			int fd;

			/* O_SYNC and RWF_SYNC differ from the others in one flag only. */
			if (m % 2 && plain_engines[i] != ENG_SYNC && plain_engines[i] != ENG_URING)
				continue;
			fd = new_file("dsync", want, 1 * MiB);

			memset(want + MiB, 0, len - MiB);
			close(fd);
			fd = xopen("dsync", O_RDWR | O_DIRECT | modes[m].open_flags);
			xfallocate(fd, 0, MiB, MiB);		/* unwritten */
			xtruncate(fd, 3 * MiB);			/* hole */
			for (size_t l = 0; l < ARRAY_SIZE(lens); l++) {
				u64 places[] = { 512 * KiB + l * SECTOR, MiB + 512 + l * 64 * KiB,
						 2 * MiB + l * 128 * KiB, end };

				/* A block-sized write also where it needs no zeroing */
				if (lens[l] >= 4096)
					places[0] = 64 * KiB * l;
				for (size_t p = 0; p < ARRAY_SIZE(places); p++) {
					u64 off = places[p];
					s64 ret;

					fill(want + off, lens[l], off + m + i);
					ret = eng_write(e, fd, want + off, lens[l], off,
							modes[m].rwf);
					rec("%s %s len=%u off=%llu -> %lld",
					    engine_names[plain_engines[i]], modes[m].name, lens[l],
					    off, ret);
					CHECK(ret == lens[l], "%s: %s write of %u at %llu: %lld",
					      engine_names[plain_engines[i]], modes[m].name,
					      lens[l], off, ret);
				}
				end += lens[l];
				CHECK(file_size(fd) == end, "size %llu, not %llu", file_size(fd),
				      end);
			}
			read_all(fd, buf, end, 0);
			CHECK(!memcmp(buf, want, end), "%s: wrong data from byte %zu",
			      modes[m].name, first_diff(buf, want, end));
			close(fd);
			if (m == 0)
				expect("dsync", want, end);
		}
		eng_close(e);
	}
	keep("dsync");
}

/* Big requests over many extents of all types, with and without a flush */
static void fragments(const void *arg)
{
	u32 bs = max(env.blksz, 4096U), blocks = 96;
	size_t len = (size_t)blocks * bs;
	u8 *want = xalloc(len), *buf = xalloc(len);

	for (size_t i = 0; i < ARRAY_SIZE(plain_engines); i++) {
		struct engine *e = eng_open(plain_engines[i]);

		for (int mode = 0; mode < 3; mode++) {
			static const int flags[] = { 0, RWF_DSYNC, RWF_SYNC };

			if (plain_engines[i] != ENG_SYNC && mode != (int)i % 3)
				continue;

			u64 off = bs * 5 + (mode ? SECTOR : 0);
			u32 n = len - bs * 11 - (mode == 2 ? SECTOR : 0) - off;
			s64 ret;
			int fd;

			make_fragments("fragments", want, blocks);
			fd = xopen("fragments", O_RDWR | O_DIRECT);
			ret = eng_read(e, fd, buf, len, 0, 0);
			CHECK(ret == (s64)len && !memcmp(buf, want, len),
			      "%s: read: %lld, wrong from byte %zu", engine_names[plain_engines[i]],
			      ret, first_diff(buf, want, len));
			n = n / SECTOR * SECTOR;
			fill(want + off, n, mode + 1);
			ret = eng_write(e, fd, want + off, n, off, flags[mode]);
			rec("%s mode=%d -> %lld", engine_names[plain_engines[i]], mode, ret);
			CHECK(ret == n, "%s: write of %u: %lld", engine_names[plain_engines[i]], n,
			      ret);
			ret = eng_read(e, fd, buf, len, 0, 0);
			CHECK(ret == (s64)len && !memcmp(buf, want, len),
			      "%s: after the write: %lld, wrong from byte %zu",
			      engine_names[plain_engines[i]], ret, first_diff(buf, want, len));
			close(fd);
			expect("fragments", want, len);
		}
		eng_close(e);
	}
	keep("fragments");
}

/* More segments than fit one bio, each as small and odd as the device permits */
static void many_segments(const void *arg)
{
	u32 align = env.mem_align, n = 1000;
	size_t cap = 2 * MiB;
	u8 *want = xalloc(cap), *arena = xalloc(2 * cap), *buf = xalloc(cap);
	struct iovec *iov = calloc(n, sizeof(*iov));
	u64 rng = env.seed;

	for (int round = 0; round < 6; round++) {
		int fd = new_file("segments", want, cap);
		size_t total = 0, pos = 0;
		u32 used = 0, unit = round % 3 == 0 ? 512 : round % 3 == 1 ? 3000 : 5000;
		u64 off = round * SECTOR;
		s64 ret;

		for (u32 i = 0; i < n && pos + 16384 < 2 * cap; i++) {
			u32 len = max((u32)rnd_below(&rng, unit) / align * align, align);

			/* The sum has to be whole sectors */
			if (i == n - 1 || total + len + 8192 > cap - off) {
				len = SECTOR - total % SECTOR;
				i = n;
			}
			iov[used++] = (struct iovec){ arena + pos, len };
			total += len;
			pos += len + rnd_below(&rng, 40) * align;
			if (round & 1)
				pos = (pos + 4095) & ~4095UL;
		}
		memset(arena, 0x5c, 2 * cap);
		ret = xpreadv2(fd, iov, used, off, 0);
		rec("round %d: %u segments, %zu bytes -> %lld", round, used, total, ret);
		CHECK(ret == (s64)total, "read of %u segments, %zu bytes: %lld", used, total, ret);
		total = 0;
		for (u32 i = 0; i < used; i++) {
			CHECK(!memcmp(iov[i].iov_base, want + off + total, iov[i].iov_len),
			      "segment %u is wrong", i);
			total += iov[i].iov_len;
			fill(iov[i].iov_base, iov[i].iov_len, i + round);
			memcpy(want + off + total - iov[i].iov_len, iov[i].iov_base,
			       iov[i].iov_len);
		}
		ret = xpwritev2(fd, iov, used, off, 0);
		CHECK(ret == (s64)total, "write of %u segments, %zu bytes: %lld", used, total, ret);
		read_all(fd, buf, cap, 0);
		CHECK(!memcmp(buf, want, cap), "after the write: wrong data from byte %zu",
		      first_diff(buf, want, cap));
		close(fd);
	}
	expect("segments", want, cap);
	keep("segments");
}

/* Larger than one bio can be, from memory in one piece */
static void big_requests(const void *arg)
{
	size_t len = 6 * MiB;
	u8 *want = xalloc(len), *buf = xalloc(len);
	int fd = xopen("big", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);

	fill(want, len, 5);
	write_all(fd, want, len, 0);
	read_all(fd, buf, len, 0);
	CHECK(!memcmp(buf, want, len), "wrong data from byte %zu", first_diff(buf, want, len));
	fill(want, len, 6);
	write_all(fd, want, len, 0);
	memset(buf, 0, len);
	read_all(fd, buf + 4096, len - 4096, 4096);
	CHECK(!memcmp(buf + 4096, want + 4096, len - 4096), "wrong data after overwriting");
	close(fd);
	expect("big", want, len);
	unlink(path_of("big"));
}

/* Positions that need more than 32 bits */
static void far_offsets(const void *arg)
{
	static const u64 offs[] = { (2ULL << 30) - 4096, (4ULL << 30) - 4096, (20ULL << 30) + 512 };
	u8 *want = xalloc(64 * KiB), *buf = xalloc(64 * KiB);
	int fd = xopen("far", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);

	for (size_t i = 0; i < ARRAY_SIZE(offs); i++) {
		fill(want, 64 * KiB, i);
		write_all(fd, want, 64 * KiB, offs[i]);
		read_all(fd, buf, 64 * KiB, offs[i]);
		CHECK(!memcmp(buf, want, 64 * KiB), "wrong data at %llu", offs[i]);
		if (i) {
			read_all(fd, buf, 64 * KiB, offs[i] - 128 * KiB);
			CHECK(all_bytes(buf, 64 * KiB, 0), "no zeros before %llu", offs[i]);
		}
	}
	rec("size %llu", file_size(fd));
	unlink(path_of("far"));
}

static void misaligned(const void *arg)
{
	static const struct {
		u32 off, len, shift;
	} v[] = {
		{ 1, 4096, 0 }, { 4096, 4095, 0 }, { 4096, 1, 0 }, { 256, 512, 0 },
		{ 0, 768, 0 }, { 4096, 4096, 1 }, { 100, 100, 0 }, { 100, 100, 3 },
		{ 65536 - 100, 512, 0 }, { 65536, 100, 0 }, { 65537, 4096, 0 },
	};
	size_t len = 64 * KiB;
	u8 *want = xalloc(256 * KiB), *buf = xalloc(256 * KiB), *data = xalloc(256 * KiB);

	for (size_t k = 0; k < ARRAY_SIZE(plain_engines); k++) {
		struct engine *e = eng_open(plain_engines[k]);

		if (plain_engines[k] == ENG_VEC || plain_engines[k] == ENG_URING_FIXED)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
			int fd = new_file("misaligned", want, len);
			s64 rd, wr;

			/* Behind the end a read ends before anybody looks at its alignment */
			memset(buf, 0, 256 * KiB);
			rd = eng_raw(e, false, fd, buf + v[i].shift, v[i].len, v[i].off, 0);
			rec("%s read off=%u len=%u shift=%u -> %lld",
			    engine_names[plain_engines[k]], v[i].off, v[i].len, v[i].shift, rd);
			fill(data, 256 * KiB, i);
			wr = eng_raw(e, true, fd, data + v[i].shift, v[i].len, v[i].off, 0);
			rec("%s write off=%u len=%u shift=%u -> %lld",
			    engine_names[plain_engines[k]], v[i].off, v[i].len, v[i].shift, wr);
			/* The bounce buffer is aligned, whatever the memory of the caller is. */
			if (env.strict && (!env.bounce || (v[i].off | v[i].len) % SECTOR)) {
				CHECK(rd == (v[i].off >= len ? 0 : -EINVAL),
				      "%s: read of %u at %u, buffer + %u: %lld",
				      engine_names[plain_engines[k]], v[i].len, v[i].off,
				      v[i].shift, rd);
				CHECK(wr == -EINVAL, "%s: write of %u at %u, buffer + %u: %lld",
				      engine_names[plain_engines[k]], v[i].len, v[i].off,
				      v[i].shift, wr);
				check_file("misaligned", want, len);
			} else {
				CHECK(rd <= 0 || !memcmp(buf + v[i].shift, want + v[i].off, rd),
				      "wrong data");
				CHECK(wr == v[i].len || wr == -EINVAL, "write: %lld", wr);
			}
			close(fd);
			rec("%016llx", file_hash("misaligned"));
		}
		eng_close(e);
	}
}

static void zero_length(const void *arg)
{
	u8 *want = xalloc(8192), *buf = xalloc(8192);
	int fd = new_file("zero", want, 8192);

	for (size_t k = 0; k < ARRAY_SIZE(plain_engines); k++) {
		struct engine *e;
		s64 rd, wr;

		if (plain_engines[k] == ENG_VEC || plain_engines[k] == ENG_URING_FIXED)
			continue;
		e = eng_open(plain_engines[k]);
		rd = eng_raw(e, false, fd, buf, 0, 0, 0);
		wr = eng_raw(e, true, fd, buf, 0, 4096, 0);
		rec("%s: %lld %lld", engine_names[plain_engines[k]], rd, wr);
		CHECK(!rd && !wr, "%s: read %lld, write %lld", engine_names[plain_engines[k]], rd,
		      wr);
		eng_close(e);
	}
	close(fd);
	expect("zero", want, 8192);
}

/* Direct I/O sees dirty pages and is seen through cached ones. */
static void coherent(const void *arg)
{
	size_t len = 1 * MiB;
	u8 *want = xalloc(len), *buf = xalloc(len), *map;

	for (size_t k = 0; k < ARRAY_SIZE(plain_engines); k++) {
		const char *en = engine_names[plain_engines[k]];
		struct engine *e = eng_open(plain_engines[k]);
		int fd = new_file("coherent", want, len), bfd = xopen("coherent", O_RDWR);

		map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, bfd, 0);
		CHECK(map != MAP_FAILED, "mmap: %s", strerror(errno));
		for (u32 i = 0; i < 8; i++) {
			u64 off = i * 100 * KiB / SECTOR * SECTOR;
			u32 n = (i % 3 ? 4 : 33) * KiB;

			fill(want + off, n, i + 1);
			if (i & 1)
				memcpy(map + off, want + off, n);
			else
				write_all(bfd, want + off, n, off);
			CHECK(eng_read(e, fd, buf, n, off, 0) == n && !memcmp(buf, want + off, n),
			      "%s: a direct read does not see dirty pages", en);
			/* The whole file is cached by now. */
			read_all(bfd, buf, len, 0);
			fill(want + off, n, i + 100);
			CHECK(eng_write(e, fd, want + off, n, off, 0) == n, "%s: write", en);
			read_all(bfd, buf, len, 0);
			CHECK(!memcmp(buf, want, len),
			      "%s: the page cache does not see a direct write: byte %zu", en,
			      first_diff(buf, want, len));
			CHECK(!memcmp(map, want, len),
			      "%s: a mapping does not see a direct write", en);
		}
		munmap(map, len);
		close(fd);
		close(bfd);
		eng_close(e);
		expect("coherent", want, len);
	}
	keep("coherent");
}

/*
 * A polled write that has to wait for its own completion: the first extent needs nothing done
 * afterwards, so it is polled, but a block of the second one is zeroed, which makes the file system
 * wait. Nobody polls then. C only gets out of that when the disk times out.
 */
static void poll_wait(const void *arg)
{
	u32 bs = max(env.blksz, 1024U);
	u8 *want = xalloc(64 * KiB);
	struct engine *e;
	int fd = new_file("poll-wait", want, bs);
	s64 ret;

	xfallocate(fd, 0, bs, 15 * bs);
	CHECK(!fsync(fd), "fsync: %s", strerror(errno));
	e = eng_open(ENG_URING_POLL);
	ret = eng_read(e, fd, want, bs, 0, 0);
	if (ret == -EOPNOTSUPP)
		skip("%s does not poll", env.disk);
	set_io_timeout("1000");
	fill(want, bs + SECTOR, 3);
	ret = eng_write(e, fd, want, bs + SECTOR, 0, 0);
	set_io_timeout("30000");
	if (ret == -ETIMEDOUT && strcmp(env.impl, "rust"))
		skip("a known defect of the C code: it waits for what nobody polls");
	CHECK(ret == bs + SECTOR, "polled write: %lld", ret);
	eng_close(e);
	close(fd);
	check_file("poll-wait", want, 16 * bs);
}

static u32 resident(void *map, size_t len, u8 *vec)
{
	u32 n = 0;

	CHECK(!mincore(map, len, vec), "mincore: %s", strerror(errno));
	for (size_t i = 0; i < len / 4096; i++)
		n += vec[i] & 1;
	return n;
}

/* A direct read leaves the cache alone, a direct write drops what it covers. */
static void residency(const void *arg)
{
	size_t len = 1 * MiB;
	u8 *want = xalloc(len), *buf = xalloc(len), vec[256];
	int fd = new_file("resident", want, len), bfd = xopen("resident", O_RDWR);
	void *map = mmap(NULL, len, PROT_READ, MAP_SHARED, bfd, 0);
	u32 n;

	CHECK(map != MAP_FAILED, "mmap: %s", strerror(errno));
	read_all(bfd, buf, len, 0);
	n = resident(map, len, vec);
	CHECK(n == 256, "%u of 256 pages cached after a buffered read", n);
	read_all(fd, buf, len, 0);
	n = resident(map, len, vec);
	rec("after read: %u", n);
	CHECK(n == 256, "%u of 256 pages cached after a direct read", n);
	fill(want + 256 * KiB, 64 * KiB, 1);
	write_all(fd, want + 256 * KiB, 64 * KiB, 256 * KiB);
	resident(map, len, vec);
	for (u32 i = 64; i < 80; i++)
		CHECK(!(vec[i] & 1), "page %u still cached after a direct write", i);
	close(fd);
	close(bfd);
	expect("resident", want, len);
}

/* The file is its own buffer. */
static void self_mmap(const void *arg)
{
	size_t len = 1 * MiB, half = len / 2;
	u8 *want = xalloc(len);

	for (size_t k = 0; k < ARRAY_SIZE(plain_engines); k++) {
		struct engine *e;
		int fd;
		u8 *map;
		s64 ret;

		if (plain_engines[k] == ENG_VEC || plain_engines[k] == ENG_URING_FIXED)
			continue;
		e = eng_open(plain_engines[k]);
		fd = new_file("self", want, len);
		map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		CHECK(map != MAP_FAILED, "mmap: %s", strerror(errno));

		/* From the upper half into the lower one, none of the pages present yet */
		ret = eng_raw(e, true, fd, map + half, 64 * KiB, 0, 0);
		rec("%s write from mapping -> %lld", engine_names[plain_engines[k]], ret);
		CHECK(ret == 64 * KiB, "write from the mapping: %lld", ret);
		memcpy(want, want + half, 64 * KiB);
		/* and a read of the lower half into the upper one */
		ret = eng_raw(e, false, fd, map + half + 128 * KiB, 64 * KiB, 128 * KiB, 0);
		rec("%s read into mapping -> %lld", engine_names[plain_engines[k]], ret);
		CHECK(ret == 64 * KiB, "read into the mapping: %lld", ret);
		memcpy(want + half + 128 * KiB, want + 128 * KiB, 64 * KiB);
		CHECK(!memcmp(map, want, len), "wrong data from byte %zu",
		      first_diff(map, want, len));
		/* A read of pages into themselves changes nothing. */
		ret = eng_raw(e, false, fd, map + 256 * KiB, 16 * KiB, 256 * KiB, 0);
		CHECK(ret == 16 * KiB, "read of pages into themselves: %lld", ret);
		munmap(map, len);
		close(fd);
		expect("self", want, len);
		eng_close(e);
	}
}

static s64 one_nowait(bool write, int fd, void *buf, u32 len, u64 off)
{
	struct iovec iov = { buf, len };

	return write ? xpwritev2(fd, &iov, 1, off, RWF_NOWAIT) :
		       xpreadv2(fd, &iov, 1, off, RWF_NOWAIT);
}

/*
 * RWF_NOWAIT: what must be refused is refused, what is refused changes nothing, and what could be
 * done is done sooner or later (a lock that is busy or a time stamp that is due may refuse it).
 */
static void nowait(const void *arg)
{
	size_t len = 1 * MiB;
	u8 *want = xalloc(2 * len), *buf = xalloc(len);
	int fd = new_file("nowait", want, len), bfd = xopen("nowait", O_RDWR), tries;
	s64 ret = 0;

	memset(want + len, 0, len);
	xtruncate(fd, 2 * len);
	/* so that the extents are in memory */
	read_all(fd, buf, len, 0);
	for (tries = 0; tries < 1000 && ret != 4096; tries++) {
		ret = one_nowait(false, fd, buf, 4096, 8192);
		CHECK(ret == 4096 || ret == -EAGAIN || ret == -EOPNOTSUPP, "read: %lld", ret);
		if (ret == -EOPNOTSUPP)
			skip("RWF_NOWAIT: not supported");
	}
	CHECK(ret == 4096 && !memcmp(buf, want + 8192, 4096), "no read succeeded in %d tries",
	      tries);
	/* larger than the short read path takes */
	for (ret = 0, tries = 0; tries < 1000 && ret != 64 * KiB; tries++)
		ret = one_nowait(false, fd, buf, 64 * KiB, 0);
	/* btrfs may stop at the first extent that is not at hand. */
	CHECK(ret == 64 * KiB || !env.strict, "large read: %lld", ret);
	CHECK(ret < 0 || !memcmp(buf, want, ret), "large read: wrong data");
	for (ret = 0, tries = 0; tries < 1000 && ret != 4096; tries++) {
		/* This one may block, and gets the time stamps up to date. */
		write_all(fd, memcpy(buf, want + 20480, 4096), 4096, 20480);
		fill(buf, 4096, 3);
		ret = one_nowait(true, fd, buf, 4096, 16384);
		CHECK(ret == 4096 || ret == -EAGAIN, "overwrite: %lld", ret);
	}
	/* f2fs and btrfs may need a new place for every write. */
	CHECK(ret == 4096 || !env.strict, "no overwrite succeeded in %d tries", tries);
	if (ret == 4096)
		memcpy(want + 16384, buf, 4096);

	/* A hole needs space. */
	ret = one_nowait(true, fd, buf, 4096, len + 65536);
	rec("write into a hole -> %lld", ret);
	if (ret > 0)
		memcpy(want + len + 65536, buf, ret);
	CHECK(!env.strict || ret == -EAGAIN, "write into a hole: %lld", ret);

	/* Cached pages would have to be dropped, dirty ones to be written first. */
	read_all(bfd, buf, len, 0);
	fill(buf, 4096, 4);
	ret = one_nowait(true, fd, buf, 4096, 32768);
	rec("write to a cached page -> %lld", ret);
	CHECK(ret == -EAGAIN, "write to a cached page: %lld", ret);
	fill(want + 49152, 4096, 5);
	write_all(bfd, want + 49152, 4096, 49152);
	ret = one_nowait(false, fd, buf, 4096, 49152);
	/* Writeback may have come between: then the read is allowed. */
	CHECK(ret == -EAGAIN || (ret == 4096 && !memcmp(buf, want + 49152, 4096)),
	      "read of a dirty page: %lld", ret);
	close(fd);
	close(bfd);
	expect("nowait", want, 2 * len);
}

/* splice(2) and sendfile(2) take what a direct read left in the pipe, up to the end of the file. */
static void splice_read(const void *arg)
{
	size_t len = 200 * KiB + 777, got = 0;
	u8 *want = xalloc(MiB), *buf = xalloc(MiB);
	int fd = new_file("splice", want, len), p[2];
	loff_t off = 0;

	CHECK(!pipe(p), "pipe: %s", strerror(errno));
	while (got < len + 4096) {
		ssize_t n = splice(fd, &off, p[1], NULL, 64 * KiB, 0), r = 0;

		if (n < 0)
			rec("splice at %zu: %s", got, strerror(errno));
		CHECK(n >= 0, "splice at %zu: %s", got, strerror(errno));
		if (!n)
			break;
		while (r < n) {
			ssize_t m = read(p[0], buf + got + r, n - r);

			CHECK(m > 0, "pipe: %zd", m);
			r += m;
		}
		got += n;
	}
	CHECK(got == len, "splice: %zu bytes, not %zu", got, len);
	CHECK(!memcmp(buf, want, len), "splice: wrong data from byte %zu",
	      first_diff(buf, want, len));
	rec("%zu bytes", got);
}

/* A loop device hands its pages over as they are (bvec), with its own completion. */
static void loop_device(const void *arg)
{
	struct loop_config cfg = { .block_size = 512, .info.lo_flags = LO_FLAGS_DIRECT_IO };
	size_t len = 4 * MiB;
	u8 *want = xalloc(len), *buf = xalloc(len);
	char path[64], attr[128], dio = '?';
	int ctl, fd, lfd, nr, ret, afd;

	ctl = open("/dev/loop-control", O_RDWR);
	if (ctl < 0)
		skip("/dev/loop-control: %s", strerror(errno));
	fd = new_file("loop", want, len);
	nr = ioctl(ctl, LOOP_CTL_GET_FREE);
	if (nr < 0)
		skip("LOOP_CTL_GET_FREE: %s", strerror(errno));
	snprintf(path, sizeof(path), "/dev/loop%d", nr);
	/* without devtmpfs or udev there may be no node yet */
	if (access(path, F_OK) && mknod(path, S_IFBLK | 0600, makedev(7, nr)))
		skip("%s: %s", path, strerror(errno));
	lfd = open(path, O_RDWR | O_DIRECT);
	CHECK(lfd >= 0, "%s: %s", path, strerror(errno));
	cfg.fd = fd;
	if (ioctl(lfd, LOOP_CONFIGURE, &cfg))
		fail("LOOP_CONFIGURE: %s", strerror(errno));
	snprintf(attr, sizeof(attr), "/sys/block/loop%d/loop/dio", nr);
	afd = open(attr, O_RDONLY);
	ret = read(afd, &dio, 1);

	u64 rng = env.seed;

	/* The device is gone when the file is: leave nothing behind, whatever is found. */
	for (int i = 0; i < 32; i++) {
		u32 n = (rnd_below(&rng, 256) + 1) * SECTOR;
		u64 off = rnd_below(&rng, (len - n) / SECTOR) * SECTOR;

		if (rnd_below(&rng, 2)) {
			fill(want + off, n, i);
			ret = xpwrite(lfd, memcpy(buf, want + off, n), n, off);
		} else {
			ret = xpread(lfd, buf, n, off);
			if (ret == (int)n && memcmp(buf, want + off, n))
				ret = -EILSEQ;
		}
		if (ret != (int)n)
			break;
		ret = 0;
	}
	fsync(lfd);
	ioctl(lfd, LOOP_CLR_FD);
	close(lfd);
	close(fd);
	if (dio != '1' && !env.strict)
		skip("%s does not take 512-byte requests", env.fstype);
	CHECK(dio == '1', "the loop device did not turn direct I/O on");
	CHECK(!ret, "loop device: %d", ret);
	expect("loop", want, len);
}

/* Writes into shared extents: the other file keeps what it had. */
static void reflink(const void *arg)
{
	u32 bs = max(env.blksz, 4096U);
	size_t len = 1 * MiB;
	u8 *orig = xalloc(len), *want = xalloc(len);
	static const u32 offs[] = { 0, 8192, 65536, 262144, 524288 + 512, 786432 };
	static const u32 lens[] = { 4096, 512, 131072, 262144 - 4096, 1024, 262144 };

	if (!env.reflink)
		skip("no reflink");
	for (size_t k = 0; k < ARRAY_SIZE(plain_engines); k++) {
		struct engine *e = eng_open(plain_engines[k]);
		int fd = new_file("shared", orig, len);
		int copy = xopen("copy", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);

		CHECK(!ioctl(copy, FICLONE, fd), "FICLONE: %s", strerror(errno));
		memcpy(want, orig, len);
		for (size_t i = 0; i < ARRAY_SIZE(offs); i++) {
			s64 ret;

			fill(want + offs[i], lens[i], i + k);
			ret = eng_write(e, copy, want + offs[i], lens[i], offs[i],
					i & 1 ? RWF_DSYNC : 0);
			rec("%s off=%u len=%u -> %lld", engine_names[plain_engines[k]], offs[i],
			    lens[i], ret);
			CHECK(ret == lens[i], "%s: write of %u at %u: %lld",
			      engine_names[plain_engines[k]], lens[i], offs[i], ret);
			check_file("shared", orig, len);
			check_file("copy", want, len);
		}
		/* From the other side, a single block in the middle of what is shared */
		fill(orig + 64 * bs, bs, 99 + k);
		CHECK(eng_write(e, fd, orig + 64 * bs, bs, 64 * bs, 0) == bs, "write");
		expect("shared", orig, len);
		expect("copy", want, len);
		close(fd);
		close(copy);
		eng_close(e);
	}
	keep("shared");
	keep("copy");
}

/* RWF_ATOMIC: all of it or EINVAL. XFS does it with copy-on-write where the disk cannot. */
static void atomic_writes(const void *arg)
{
	size_t len = 1 * MiB;
	u8 *want = xalloc(len), *buf = xalloc(len);
	int fd = new_file("atomic", want, len);
	/* struct statx of older headers ends before these fields */
	union {
		struct statx stx;
		u8 raw[256];
	} u = { };
	u32 unit_min, unit_max;

	if (statx(fd, "", AT_EMPTY_PATH, 0x10000U, &u.stx) || !(u.stx.stx_mask & 0x10000U))
		skip("no atomic writes here");
	memcpy(&unit_min, u.raw + 0xa8, 4);
	memcpy(&unit_max, u.raw + 0xac, 4);
	if (!unit_max)
		skip("no atomic writes here");
	rec("unit %u..%u", unit_min, unit_max);
	for (u32 n = unit_min; n <= unit_max && n <= 256 * KiB; n *= 2) {
		static const int flags[] = { RWF_ATOMIC, RWF_ATOMIC | RWF_DSYNC };
		u64 off = n * (256 * KiB / n);

		for (size_t k = 0; k < ARRAY_SIZE(plain_engines); k++) {
			struct engine *e = eng_open(plain_engines[k]);
			/* It has to be one segment, and registered buffers do not count as one. */
			bool can = plain_engines[k] != ENG_URING_FIXED;
			s64 ret;

			if (plain_engines[k] != ENG_VEC) {
				fill(buf, n, n + k);
				ret = eng_write(e, fd, buf, n, off, flags[k & 1]);
				rec("%s %u -> %lld", engine_names[plain_engines[k]], n, ret);
				CHECK(ret == (can ? (s64)n : -EINVAL), "%s: atomic write of %u: %lld",
				      engine_names[plain_engines[k]], n, ret);
				if (can)
					memcpy(want + off, buf, n);
				ret = eng_write(e, fd, want, n, off + SECTOR, RWF_ATOMIC);
				CHECK(ret == -EINVAL, "%s: misplaced atomic write of %u: %lld",
				      engine_names[plain_engines[k]], n, ret);
			}
			eng_close(e);
		}
		read_all(fd, buf, len, 0);
		CHECK(!memcmp(buf, want, len), "wrong data from byte %zu",
		      first_diff(buf, want, len));
	}
	close(fd);
	expect("atomic", want, len);
}

#define ENGINE(fn, prefix, kind, name) { prefix "-" name, fn, (void *)kind }
const struct test_case basic_cases[] = {
	{ "holes", holes, NULL },
	ENGINE(unwritten, "unwritten", ENG_SYNC, "sync"),
	ENGINE(unwritten, "unwritten", ENG_VEC, "vec"),
	ENGINE(unwritten, "unwritten", ENG_AIO, "libaio"),
	ENGINE(unwritten, "unwritten", ENG_URING, "io_uring"),
	ENGINE(unwritten, "unwritten", ENG_URING_FIXED, "io_uring-fixed"),
	{ "subblock-parallel", subblock_parallel, NULL },
	{ "eof-reads", eof_reads, NULL },
	{ "read-only", read_only, NULL },
	ENGINE(append, "append", ENG_SYNC, "sync"),
	ENGINE(append, "append", ENG_AIO, "libaio"),
	ENGINE(append, "append", ENG_URING, "io_uring"),
	{ "extend", extend, NULL },
	{ "tail-zero", tail_zero, NULL },
	{ "sync-writes", sync_writes, NULL },
	{ "fragments", fragments, NULL },
	{ "many-segments", many_segments, NULL },
	{ "big-requests", big_requests, NULL },
	{ "far-offsets", far_offsets, NULL },
	{ "misaligned", misaligned, NULL },
	{ "zero-length", zero_length, NULL },
	{ "coherent", coherent, NULL },
	{ "residency", residency, NULL },
	{ "self-mmap", self_mmap, NULL },
	{ "nowait", nowait, NULL },
	{ "splice", splice_read, NULL },
	{ "loop-device", loop_device, NULL },
	{ "reflink", reflink, NULL },
	{ "atomic", atomic_writes, NULL },
	{ "poll-wait", poll_wait, NULL },
	{ }
};
