// SPDX-License-Identifier: GPL-2.0
/* One property per case: holes, unwritten extents, end of file, synchronous writes, ... */
#define _GNU_SOURCE
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "dio_test.h"

/* A new file of pattern data that is on disk and not in the page cache */
static int new_file(const char *name, u8 *data, size_t len)
{
	int fd = create(name, 0);

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
	u32 bs = max(env.blksz, PAGE);
	int fd = create(name, 0);

	memset(data, 0, (size_t)blocks * bs);
	OK(ftruncate(fd, (u64)blocks * bs));
	for (u32 i = 0; i < blocks; i++) {
		u64 off = (u64)i * bs;

		if (i % 3 == 1) {
			xfallocate(fd, 0, off, bs);
		} else if (i % 3 == 2) {
			fill(data + off, bs, env.seed * 77 + i);
			write_all(fd, data + off, bs, off);
			/* Else delayed allocation puts neighbours together */
			if (i % 24 == 2)
				OK(fsync(fd));
		}
	}
	drop_cache(fd);
	close(fd);
}

CASE(holes, "holes")
{
	size_t len = 1 * MiB;
	u8 *want = xalloc(len);
	int fd = create("holes", O_DIRECT);

	OK(ftruncate(fd, len));
	for_each_engine(e, PLAIN) {
		u64 off = 128 * KiB * (e->kind + 1) + 8192;

		/* All of it a hole at first, then with data in the middle */
		CHECK_READ(e, fd, want, len, 0);
		fill(want + off, 12 * KiB, e->kind);
		CHECK_WRITE(e, fd, want + off, 12 * KiB, off, 0);
		for (u64 o = off - 8192; o < off + 24 * KiB; o += SECTOR)
			CHECK_READ(e, fd, want + o, 8192, o);
		CHECK_READ(e, fd, want, len, 0);
	}
	expect("holes", want, len);
}

/*
 * Writes of every sector position and length up to two blocks into unwritten space. What surrounds
 * them in the block must read back as zeros, although the disk below holds something else.
 */
CASE(unwritten, "unwritten", PLAIN)
{
	struct engine *e = eng_open(arg);
	u32 bs = max(env.blksz, 1024U), n = 0;
	u32 sectors = bs / SECTOR, step = sectors > 2 ? 3 : 1;
	size_t len = 4 * MiB, pos = 0;
	u8 *want = xalloc(len);
	int fd = create(case_name, O_DIRECT), bfd = xopen(case_name, O_RDWR);

	xfallocate(fd, 0, 0, len);
	CHECK_READ(e, fd, want, len, 0);
	for (u32 first = 0; first < sectors; first++) {
		for (u32 count = 1; count <= 2 * sectors; count += step) {
			u64 off = pos + first * SECTOR;

			if (pos + 4 * bs > len)
				break;
			fill(want + off, count * SECTOR, pos + 1);
			CHECK_WRITE(e, fd, want + off, count * SECTOR, off, 0);
			CHECK_READ(e, fd, want + pos, 4 * bs, pos);
			/* Some again through the page cache while it is populated */
			if (n++ % 4 == 0)
				CHECK_BYTES(bfd, want + pos, 4 * bs, pos);
			/* every other time leave an unwritten block between */
			pos += (1 + first + count + sectors) / sectors * bs + (n & 1) * bs;
		}
	}
	expect(case_name, want, len);
}

/* Sectors of one block in flight together: they must not zero each other. */
CASE(subblock_parallel, "subblock-parallel")
{
	u32 bs = max(env.blksz, 1024U), per = min(bs / SECTOR, (u32)ENG_DEPTH);
	size_t len = 256 * bs;
	u8 *want = xalloc(len);

	if (!env.strict)
		skip("sub-block writes are not direct here");
	for_each_engine(e, ASYNC) {
		int fd = create("parallel", O_DIRECT);

		memset(want, 0, len);
		xfallocate(fd, 0, 0, len);
		for (u32 b = 0; b < 64; b++) {
			u64 base = (u64)b * 2 * bs;

			/* into unwritten space, then over what was written */
			for (int pass = 0; pass < 2; pass++) {
				for (u64 off = base; off < base + per * SECTOR; off += SECTOR) {
					fill(want + off, SECTOR, off + pass + e->kind - ENG_AIO);
					eng_add(e, (struct req){ .write = true, .fd = fd, .off = off,
								 .len = SECTOR }, want + off);
				}
				CHECK_RUN(e);
			}
			CHECK_READ(e, fd, want + base, 2 * bs, base);
		}
		expect("parallel", want, len);
	}
}

static const u32 eof_sizes[] = { 1, 511, 512, 513, 4095, 4096, 4097, 10000, 65536 + 7,
				 1048576 + 513 };

/* Reads around every place where a file of that size may end, with each engine */
static void read_around(int fd, const u8 *want, u32 size, u8 *buf)
{
	u64 last = size / SECTOR * SECTOR;
	const u64 offs[] = { 0, last >= 8192 ? last - 8192 : 0, last, last + SECTOR, last + 4096,
			     last + MiB };
	const u32 lens[] = { SECTOR, 4096, 64 * KiB, MiB };

	for_each_engine(e, PLAIN) {
		for (size_t i = 0; i < ARRAY_SIZE(offs) * ARRAY_SIZE(lens); i++) {
			u64 off = offs[i / ARRAY_SIZE(lens)];
			u32 len = lens[i % ARRAY_SIZE(lens)];
			s64 exp = off >= size ? 0 : min(size - off, (u64)len);

			ANSWER(eng_read(e, fd, buf, len, off), exp, "%s size=%u off=%llu len=%u", e->name,
			       size, off, len);
			CHECK_SAME(buf, want + off, exp, "%s: %u at %llu of a file of %u", e->name,
				   len, off, size);
		}
	}
}

/* Reads at every kind of end of file */
CASE(eof_reads, "eof-reads")
{
	u8 *want = xalloc(2 * MiB), *buf = xalloc(2 * MiB);

	for (size_t s = 0; s < ARRAY_SIZE(eof_sizes); s++) {
		int fd = new_file("eof", want, eof_sizes[s]);

		read_around(fd, want, eof_sizes[s], buf);
	}
}

/* The same on a file system that nobody can write to: make_tree() of run.py made the files. */
CASE(read_only, "read-only")
{
	u8 *want = xalloc(2 * MiB), *buf = xalloc(2 * MiB);

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
		read_around(fd, want, size, buf);
		expect(name, want, size);
	}
}

/* Appends of changing size, one after the other, then several in flight */
CASE(append, "append", ONE_BUFFER)
{
	struct engine *e = eng_open(arg);
	size_t len = 0, many = 4 * ENG_DEPTH;
	u8 *want = xalloc(4 * MiB), *buf = xalloc(4 * MiB);
	u64 rng = env.seed;
	bool seen[4 * ENG_DEPTH] = { };
	int fd = create(case_name, O_DIRECT | O_APPEND);

	for (int i = 0; i < 100; i++) {
		u32 n = round_up((rnd_below(&rng, 24) + 1) * SECTOR, env.mem_align);
		s64 ret;

		fill(want + len, n, i);
		ret = eng_write(e, fd, want + len, n, 0, 0);
		if (ret == -EINVAL && env.always_cow && len % env.blksz)
			skip("XFS takes no append within a block where it always copies on write");
		CHECK(ret == n, "append %d of %u: %lld", i, n, ret);
		len += n;
		CHECK_SIZE(fd, len);
		CHECK_READ(e, fd, want + len - n, n, len - n);
	}
	expect(case_name, want, len);
	/*
	 * XFS and exfat place an append at the size of the moment and move the size when the I/O is
	 * done, so appends in flight together land on each other.
	 */
	if (arg < ENG_AIO || is_fs("xfs") || is_fs("exfat"))
		return;

	/* Each lands somewhere, and none on another */
	fd = create("append-many", O_DIRECT | O_APPEND);
	for (u32 round = 0; round < 4; round++) {
		for (u32 i = 0; i < ENG_DEPTH; i++) {
			memset(buf, round * ENG_DEPTH + i + 1, 4096);
			eng_add(e, (struct req){ .write = true, .fd = fd, .len = 4096 }, buf);
		}
		CHECK_RUN(e);
	}
	CHECK_SIZE(fd, many * 4096);
	read_all(fd, buf, many * 4096, 0);
	for (u32 i = 0; i < many; i++) {
		u8 id = buf[i * 4096];

		CHECK(id && id <= many && !seen[id - 1] && all_bytes(buf + i * 4096, 4096, id),
		      "block %u of the appends is %02x", i, id);
		seen[id - 1] = true;
	}
}

/* Writes beyond the end: what is skipped is zero, also inside the block that held the old end. */
CASE(extend, "extend")
{
	static const u32 sizes[] = { 0, 100, 512, 4096, 5000, 70000 };
	static const u32 gaps[] = { 0, SECTOR, 3 * SECTOR, 4096, 32 * KiB };
	size_t cap = 256 * KiB;
	u8 *want = xalloc(cap), *buf = xalloc(cap);

	for_each_engine(e, PLAIN) {
		for (size_t i = 0; i < ARRAY_SIZE(sizes) * ARRAY_SIZE(gaps); i++) {
			size_t s = i / ARRAY_SIZE(gaps), g = i % ARRAY_SIZE(gaps);
			u32 size = sizes[s], len = (1 + (s + g) % 12) * SECTOR;
			u64 off = round_up(size, SECTOR) + gaps[g], end = off + len;
			int fd;
			s64 ret;

			/* Every other combination will do for these. */
			if (e->kind != ENG_SYNC && (e->kind + s + g) % 2)
				continue;
			memset(want, 0, cap);
			fd = new_file("extend", want, size);
			fill(want + off, len, off);
			CHECK_WRITE(e, fd, want + off, len, off, 0);
			CHECK_SIZE(fd, end);
			/* What lies behind the end in its block becomes visible then. */
			for (int pass = 0; pass < 2; pass++, end += 8192) {
				if (pass)
					OK(ftruncate(fd, end));
				ret = eng_read(e, fd, buf, 128 * KiB, 0);
				CHECK(ret == (s64)end, "read: %lld, not %llu", ret, end);
				CHECK_SAME(buf, want, end, "%s: write of %u at %llu, size %u",
					   e->name, len, off, size);
			}
		}
	}
}

CASE(sync_writes, "sync-writes")
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
	u8 *want = xalloc(len);
	u64 end;

	for_each_engine(e, PLAIN) {
		for (size_t m = 0; m < ARRAY_SIZE(modes); m++) {
			int fd;

			/* O_SYNC and RWF_SYNC differ from the others in one flag only. */
			if (m % 2 && e->kind != ENG_SYNC && e->kind != ENG_URING)
				continue;
			close(new_file("dsync", want, 1 * MiB));
			memset(want + MiB, 0, len - MiB);
			fd = xopen("dsync", O_RDWR | O_DIRECT | modes[m].open_flags);
			xfallocate(fd, 0, MiB, MiB);		/* unwritten */
			end = 3 * MiB;
			OK(ftruncate(fd, end));			/* hole */
			for (size_t l = 0; l < ARRAY_SIZE(lens); l++) {
				u64 places[] = { 512 * KiB + l * SECTOR, MiB + 512 + l * 64 * KiB,
						 2 * MiB + l * 128 * KiB, end };

				/* A block-sized write also where it needs no zeroing */
				if (lens[l] >= 4096)
					places[0] = 64 * KiB * l;
				for (size_t p = 0; p < ARRAY_SIZE(places); p++) {
					u64 off = places[p];

					fill(want + off, lens[l], off + m + e->kind);
					ANSWER(eng_write(e, fd, want + off, lens[l], off, modes[m].rwf),
					       lens[l], "%s %s len=%u off=%llu", e->name,
					       modes[m].name, lens[l], off);
				}
				end += lens[l];
				CHECK_SIZE(fd, end);
			}
			CHECK_BYTES(fd, want, end, 0);
			if (m == 0)
				expect("dsync", want, end);
		}
	}
	check_file("dsync", want, end);
}

/* Big requests over many extents of all types, with and without a flush */
CASE(fragments, "fragments")
{
	static const int flags[] = { 0, RWF_DSYNC, RWF_SYNC };
	u32 bs = max(env.blksz, PAGE), blocks = 96;
	size_t len = (size_t)blocks * bs;
	u8 *want = xalloc(len);

	for_each_engine(e, PLAIN) {
		for (u32 mode = 0; mode < ARRAY_SIZE(flags); mode++) {
			u64 off = bs * 5 + (mode ? SECTOR : 0);
			u32 n = len - bs * 11 - (mode == 2 ? SECTOR : 0) - off;
			int fd;

			if (e->kind != ENG_SYNC && mode != e->kind % 3)
				continue;
			make_fragments("fragments", want, blocks);
			fd = xopen("fragments", O_RDWR | O_DIRECT);
			CHECK_READ(e, fd, want, len, 0);
			n = n / SECTOR * SECTOR;
			fill(want + off, n, mode + 1);
			ANSWER(eng_write(e, fd, want + off, n, off, flags[mode]), n, "%s mode=%d",
			       e->name, mode);
			CHECK_READ(e, fd, want, len, 0);
			expect("fragments", want, len);
		}
	}
}

/* More segments than fit one bio, each as small and odd as the device permits */
CASE(many_segments, "many-segments")
{
	u32 align = env.mem_align, n = 1000;
	size_t cap = 2 * MiB;
	u8 *want = xalloc(cap), *arena = xalloc(2 * cap);
	struct iovec *iov = calloc(n, sizeof(*iov));
	u64 rng = env.seed;

	for (int round = 0; round < 6; round++) {
		int fd = new_file("segments", want, cap);
		size_t total = 0, pos = 0;
		u32 used = 0, unit = round % 3 == 0 ? 512 : round % 3 == 1 ? 3000 : 5000;
		u64 off = round * SECTOR;
		u8 *next = want + off;

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
				pos = round_up(pos, PAGE);
		}
		memset(arena, 0x5c, 2 * cap);
		ANSWER(RET(preadv2(fd, iov, used, off, 0)), total, "round %d: %u segments, %zu bytes",
		       round, used, total);
		for (u32 i = 0; i < used; i++) {
			CHECK(!memcmp(iov[i].iov_base, next, iov[i].iov_len), "segment %u is wrong", i);
			fill(iov[i].iov_base, iov[i].iov_len, i + round);
			next = mempcpy(next, iov[i].iov_base, iov[i].iov_len);
		}
		ANSWER(RET(pwritev2(fd, iov, used, off, 0)), total, "round %d: write", round);
		CHECK_BYTES(fd, want, cap, 0);
	}
	expect("segments", want, cap);
}

/* Larger than one bio can be, from memory in one piece */
CASE(big_requests, "big-requests")
{
	size_t len = 6 * MiB;
	u8 *want = xalloc(len);
	int fd = create("big", O_DIRECT);

	fill(want, len, 5);
	write_all(fd, want, len, 0);
	CHECK_BYTES(fd, want, len, 0);
	fill(want, len, 6);
	write_all(fd, want, len, 0);
	CHECK_BYTES(fd, want + 4096, len - 4096, 4096);
	expect("big", want, len);
}

/* Positions that need more than 32 bits */
CASE(far_offsets, "far-offsets")
{
	static const u64 offs[] = { (2ULL << 30) - 4096, (4ULL << 30) - 4096, (20ULL << 30) + 512 };
	u8 *want = xalloc(64 * KiB), *zeros = xalloc(64 * KiB);
	int fd = create("far", O_DIRECT);

	for (size_t i = 0; i < ARRAY_SIZE(offs); i++) {
		fill(want, 64 * KiB, i);
		write_all(fd, want, 64 * KiB, offs[i]);
		CHECK_BYTES(fd, want, 64 * KiB, offs[i]);
		if (i)
			CHECK_BYTES(fd, zeros, 64 * KiB, offs[i] - 128 * KiB);
	}
	CHECK_SIZE(fd, offs[ARRAY_SIZE(offs) - 1] + 64 * KiB);
	unlink("far");
}

CASE(misaligned, "misaligned")
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

	for_each_engine(e, ONE_BUFFER) {
		for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
			u32 off = v[i].off, n = v[i].len, shift = v[i].shift;
			/* The bounce buffer is aligned, whatever the memory of the caller is. */
			bool refused = env.strict && (!env.bounce || (off | n) % SECTOR);
			int fd = new_file("misaligned", want, len);
			s64 ret;

			memset(buf, 0, 256 * KiB);
			ret = eng_raw(e, false, fd, buf + shift, n, off);
			/* Behind the end a read ends before anybody looks at its alignment */
			ANSWER_IF(ret, !refused || ret == (off >= len ? 0 : -EINVAL),
			       "%s read off=%u len=%u shift=%u", e->name, off, n, shift);
			if (ret > 0)
				CHECK_SAME(buf + shift, want + off, ret, "read");
			fill(data, 256 * KiB, i);
			ret = eng_raw(e, true, fd, data + shift, n, off);
			ANSWER_IF(ret, ret == -EINVAL || (!refused && ret == n),
			       "%s write off=%u len=%u shift=%u", e->name, off, n, shift);
			if (refused)
				check_file("misaligned", want, len);
			rec("%016llx", file_hash("misaligned"));
		}
	}
}

CASE(zero_length, "zero-length")
{
	u8 *want = xalloc(8192), *buf = xalloc(8192);
	int fd = new_file("zero", want, 8192);

	for_each_engine(e, ONE_BUFFER) {
		ANSWER(eng_raw(e, false, fd, buf, 0, 0), 0, "%s read", e->name);
		ANSWER(eng_raw(e, true, fd, buf, 0, 4096), 0, "%s write", e->name);
	}
	expect("zero", want, 8192);
}

/* Direct I/O sees dirty pages and is seen through cached ones. */
CASE(coherent, "coherent")
{
	size_t len = 1 * MiB;
	u8 *want = xalloc(len), *map;

	for_each_engine(e, PLAIN) {
		int fd = new_file("coherent", want, len), bfd = xopen("coherent", O_RDWR);

		map = xmap(bfd, len, PROT_READ | PROT_WRITE);
		for (u32 i = 0; i < 8; i++) {
			u64 off = i * 100 * KiB / SECTOR * SECTOR;
			u32 n = (i % 3 ? 4 : 33) * KiB;

			fill(want + off, n, i + 1);
			if (i & 1)
				memcpy(map + off, want + off, n);
			else
				write_all(bfd, want + off, n, off);
			CHECK_READ(e, fd, want + off, n, off);
			/* The whole file is cached by now. */
			CHECK_BYTES(bfd, want, len, 0);
			fill(want + off, n, i + 100);
			CHECK_WRITE(e, fd, want + off, n, off, 0);
			CHECK_BYTES(bfd, want, len, 0);
			CHECK_SAME(map, want, len, "%s: a mapping after a direct write", e->name);
		}
		munmap(map, len);
		expect("coherent", want, len);
	}
}

/*
 * A polled write that has to wait for its own completion: the first extent needs nothing done
 * afterwards, so it is polled, but a block of the second one is zeroed, which makes the file system
 * wait. Nobody polls then. C only gets out of that when the disk times out.
 */
CASE(poll_wait, "poll-wait")
{
	u32 bs = max(env.blksz, 1024U);
	u8 *want = xalloc(64 * KiB);
	int fd = new_file("poll-wait", want, bs);

	xfallocate(fd, 0, bs, 15 * bs);
	OK(fsync(fd));
	fill(want, bs + SECTOR, 3);
	polled_write(eng_open(ENG_URING_POLL), fd, want, bs + SECTOR, true,
		     "it waits for what nobody polls");
	check_file("poll-wait", want, 16 * bs);
}

/*
 * Zeroes follow a polled write to the end of the file.  C polls for them in place of the data, which
 * leads nowhere if the disk got both as one request.
 */
CASE(poll_tail, "poll-tail")
{
	u32 len = max(env.blksz, 1024U) + SECTOR;
	u8 *want = xalloc(len);
	int fd = new_file("poll-tail", want, len);

	OK(fsync(fd));
	fill(want, len, 3);
	polled_write(eng_open(ENG_URING_POLL), fd, want, len, true, "it polls for zeroes, not for the data");
	expect("poll-tail", want, len);
}

/* A direct read leaves the cache alone, a direct write drops what it covers. */
CASE(residency, "residency")
{
	size_t len = 1 * MiB;
	u8 *want = xalloc(len), vec[256];
	int fd = new_file("resident", want, len), bfd = xopen("resident", O_RDWR);
	void *map = xmap(bfd, len, PROT_READ);

	/* after a buffered read, then after a direct one */
	for (int pass = 0; pass < 2; pass++) {
		u32 n = 0;

		CHECK_BYTES(pass ? fd : bfd, want, len, 0);
		OK(mincore(map, len, vec));
		for (size_t i = 0; i < ARRAY_SIZE(vec); i++)
			n += vec[i] & 1;
		CHECK(n == 256, "%u of 256 pages cached after read %d", n, pass);
	}
	fill(want + 256 * KiB, 64 * KiB, 1);
	write_all(fd, want + 256 * KiB, 64 * KiB, 256 * KiB);
	OK(mincore(map, len, vec));
	for (u32 i = 64; i < 80; i++)
		CHECK(!(vec[i] & 1), "page %u still cached after a direct write", i);
	expect("resident", want, len);
}

/* The file is its own buffer. */
CASE(self_mmap, "self-mmap")
{
	size_t len = 1 * MiB, half = len / 2, n = 64 * KiB, up = half + 128 * KiB;
	u8 *want = xalloc(len);

	for_each_engine(e, ONE_BUFFER) {
		int fd = new_file("self", want, len);
		u8 *map = xmap(fd, len, PROT_READ | PROT_WRITE);

		/* From the upper half into the lower one, none of the pages present yet */
		ANSWER(eng_raw(e, true, fd, map + half, n, 0), n, "%s write from mapping", e->name);
		memcpy(want, want + half, n);
		/* and a read of the lower half into the upper one */
		ANSWER(eng_raw(e, false, fd, map + up, n, 128 * KiB), n, "%s read into mapping", e->name);
		memcpy(want + up, want + 128 * KiB, n);
		CHECK_SAME(map, want, len, "mapping");
		/* A read of pages into themselves changes nothing. */
		ANSWER(eng_raw(e, false, fd, map + 256 * KiB, 16 * KiB, 256 * KiB), 16 * KiB,
		       "%s read of pages into themselves", e->name);
		munmap(map, len);
		expect("self", want, len);
	}
}

/* What is in the way of a request that was refused gets a moment to go. */
static s64 pause_if_refused(s64 ret)
{
	if (ret == -EAGAIN)
		usleep(1000);
	return ret;
}

static s64 nowait_read(int fd, void *buf, u32 len, u64 off)
{
	return pause_if_refused(RET(preadv2(fd, &(struct iovec){ buf, len }, 1, off, RWF_NOWAIT)));
}

static s64 nowait_write(int fd, void *buf, u32 len, u64 off)
{
	return pause_if_refused(RET(pwritev2(fd, &(struct iovec){ buf, len }, 1, off, RWF_NOWAIT)));
}

static void not_lazy(void)
{
	OK(mount("none", env.dir, NULL, MS_REMOUNT, NULL));
}

/* No time stamp that is due refuses what comes now. */
static void make_lazy(void)
{
	at_end = not_lazy;
	OK(mount("none", env.dir, NULL, MS_REMOUNT | MS_LAZYTIME, NULL));
}

/*
 * RWF_NOWAIT: what must be refused is refused, what is refused changes nothing, and what could be
 * done is done sooner or later (a lock that is busy or a time stamp that is due may refuse it).
 */
CASE(nowait, "nowait")
{
	size_t len = 1 * MiB;
	u8 *want = xalloc(2 * len), *buf = xalloc(len);
	int fd = new_file("nowait", want, len), bfd = xopen("nowait", O_RDWR), tries;
	bool lazy = (is_fs("ext4") || is_fs("xfs")) && !env.always_cow;
	s64 ret = 0;

	memset(want + len, 0, len);
	OK(ftruncate(fd, 2 * len));
	/* so that the extents are in memory */
	read_all(fd, buf, len, 0);
	for (tries = 0; tries < 1000 && ret != 4096; tries++) {
		ret = nowait_read(fd, buf, 4096, 8192);
		CHECK(ret == 4096 || ret == -EAGAIN, "read: %lld", ret);
	}
	CHECK(ret == 4096, "no read succeeded in %d tries", tries);
	CHECK_SAME(buf, want + 8192, 4096, "read");
	/* larger than the short read path takes */
	for (ret = 0, tries = 0; tries < 1000 && ret != 64 * KiB; tries++)
		ret = nowait_read(fd, buf, 64 * KiB, 0);
	/* btrfs may stop at the first extent that is not at hand. */
	CHECK(ret == 64 * KiB || !env.strict, "large read: %lld", ret);
	CHECK(ret < 0 || !memcmp(buf, want, ret), "large read: wrong data");
	for (ret = 0, tries = 0; tries < 1000 && ret != 4096; tries++) {
		/* This one may block, and gets the time stamps up to date. */
		write_all(fd, memcpy(buf, want + 20480, 4096), 4096, 20480);
		fill(buf, 4096, 3);
		ret = nowait_write(fd, buf, 4096, 16384);
		CHECK(ret == 4096 || ret == -EAGAIN, "overwrite: %lld", ret);
	}
	/* f2fs and btrfs may need a new place for every write. */
	CHECK(ret == 4096 || !env.strict, "no overwrite succeeded in %d tries", tries);
	if (ret == 4096)
		memcpy(want + 16384, buf, 4096);

	if (lazy)
		make_lazy();
	/* A hole needs space. */
	ret = nowait_write(fd, buf, 4096, len + 65536);
	if (ret > 0)
		memcpy(want + len + 65536, buf, ret);
	ANSWER_IF(ret, !env.strict || ret == -EAGAIN, "write into a hole");

	/* Cached pages would have to be dropped, dirty ones to be written first. */
	read_all(bfd, buf, len, 0);
	fill(buf, 4096, 4);
	ANSWER(nowait_write(fd, buf, 4096, 32768), -EAGAIN, "write to a cached page");
	for (ret = -EAGAIN, tries = 0; lazy && tries < 1000 && ret == -EAGAIN; tries++) {
		drop_cache(bfd);
		ret = nowait_write(fd, buf, 4096, 32768);
	}
	CHECK(!lazy || ret == 4096, "write to a page that is no longer cached: %lld", ret);
	if (ret == 4096)
		memcpy(want + 32768, buf, 4096);
	fill(want + 49152, 4096, 5);
	write_all(bfd, want + 49152, 4096, 49152);
	ret = nowait_read(fd, buf, 4096, 49152);
	/* Writeback may have come between: then the read is allowed. */
	CHECK(ret == -EAGAIN || (ret == 4096 && !memcmp(buf, want + 49152, 4096)),
	      "read of a dirty page: %lld", ret);
	expect("nowait", want, 2 * len);
}

/* RWF_NOWAIT of more than any bounce buffer has: such a write can be done as well. */
CASE(nowait_large, "nowait-large")
{
	size_t len = 8 * MiB;
	u8 *want = xalloc(len), *buf = xalloc(len);
	int fd = new_file("nowait-large", want, len);
	s64 ret = -EAGAIN;

	fill(buf, len, 6);
	for (int tries = 0; tries < 100 && ret == -EAGAIN; tries++) {
		/* This one may block, and gets the time stamps up to date. */
		write_all(fd, want, 4096, 0);
		ret = nowait_write(fd, buf, len, 0);
	}
	CHECK(ret == (s64)len || (!env.strict && (ret > 0 || ret == -EAGAIN)), "%lld bytes", ret);
	if (ret > 0)
		memcpy(want, buf, ret);
	expect("nowait-large", want, len);
}

/* The sum of these lines of the file in debugfs, of which each has a sum and the share of each processor. */
static u64 stats(const char *const *names)
{
	static const char path[] = "/sys/kernel/debug/iomap/dio_stats";
	FILE *f = fopen(path, "r");
	char line[4096];
	u64 total = 0;
	int found = 0, want = 0;

	CHECK(f, "no %s: the kernel is built without CONFIG_IOMAP_DIO_STATS", path);
	while (names[want])
		want++;
	/* The first line has no names. */
	CHECK(fgets(line, sizeof(line), f), "%s: empty", path);
	while (fgets(line, sizeof(line), f)) {
		char name[32], *at;
		int used;
		u64 sum, each = 0;

		CHECK(sscanf(line, "%31s %llu%n", name, &sum, &used) == 2, "%s: %s", path, line);
		for (at = line + used; *at != '\n'; )
			each += strtoull(at, &at, 10);
		CHECK(each == sum, "%s: processors make %llu: %s", path, each, line);
		for (int i = 0; i < want; i++) {
			if (strcmp(name, names[i]))
				continue;
			total += sum;
			found++;
		}
	}
	fclose(f);
	CHECK(found == want, "%s: %d of %d lines from %s on", path, found, want, names[0]);
	return total;
}

#define STATS(...)	stats((const char *const[]){ __VA_ARGS__, NULL })
#define REQUESTS	"simple_read", "direct", "deferred", "bounce"
#define AGAIN		"again_mapping", "again_submitted"
#define COMPLETED	"by_submitter", "by_last_bio", "by_worker", "by_ioend"
#define REASONS		"punt_unwritten", "punt_cow", "punt_new", "punt_extend", "punt_sync", \
			"punt_invalidate", "punt_error"

/* CONFIG_IOMAP_DIO_STATS: each request counts as one, and is completed by one. C does not count. */
CASE(dio_stats, "stats")
{
	const u32 many = ENG_DEPTH, len = many * 4096;
	u8 *want = xalloc(len);
	int fd = create("stats", O_DIRECT), bfd = xopen("stats", O_RDWR);
	u64 n = strcmp(env.impl, "rust") ? 0 : many;
	bool exact = (is_fs("ext4") || is_fs("xfs")) && !env.always_cow;
	struct engine *e = eng_open(ENG_URING);

	xfallocate(fd, 0, 0, len);
	fill(want, len, 1);
	/* Into unwritten blocks, then over them, then read. */
	for (int i = 0; i < 3; i++) {
		bool write = i < 2, convert = !i && exact;
		u64 requests = STATS(REQUESTS), completed = STATS(COMPLETED), punted = STATS("by_worker");
		u64 reasons = STATS(REASONS), unwritten = STATS("punt_unwritten");
		const char *const kinds[] = {
			"bounce", convert ? "deferred" : "direct", write ? NULL : "simple_read", NULL,
		};
		u64 kind = stats(kinds), again = STATS(AGAIN);

		for (u32 k = 0; k < many; k++) {
			struct req r = { .write = write, .fd = fd, .off = k * 4096, .len = 4096 };

			eng_add(e, r, want + r.off);
		}
		CHECK_RUN(e);
		requests = STATS(REQUESTS) - requests;
		completed = STATS(COMPLETED) - completed;
		punted = STATS("by_worker") - punted;
		reasons = STATS(REASONS) - reasons;
		unwritten = STATS("punt_unwritten") - unwritten;
		kind = stats(kinds) - kind;
		/* What must not wait and would have to is a request, and another one when it may wait. */
		again = STATS(AGAIN) - again;
		CHECK(requests == completed, "%llu requests, %llu are completed", requests, completed);
		CHECK(requests <= n + again && (!exact || requests >= n), "%llu of %llu requests, %llu again",
		      requests, n, again);
		CHECK(!exact || (kind >= n && kind <= requests), "round %d: %llu of %llu requests have the variant",
		      i, kind, n);
		CHECK(reasons >= punted, "a worker completes %llu for %llu reasons", punted, reasons);
		CHECK(!convert || unwritten == punted, "%llu are punted, of which %llu convert", punted, unwritten);
	}
	/* Neighbours, of which a worker sooner or later finds several. */
	for (int tries = 0; tries < 100 && exact && n; tries++) {
		u64 runs = STATS("merged_runs"), merged = STATS("merged_writes"), worker = STATS("worker_runs");
		u64 punted = STATS("by_worker");

		xfallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, len);
		xfallocate(fd, 0, 0, len);
		for (u32 k = 0; k < many; k++)
			eng_add(e, (struct req){ .write = true, .fd = fd, .off = k * 4096, .len = 4096 }, want + k * 4096);
		CHECK_RUN(e);
		runs = STATS("merged_runs") - runs;
		merged = STATS("merged_writes") - merged;
		worker = STATS("worker_runs") - worker;
		punted = STATS("by_worker") - punted;
		CHECK(worker <= punted && merged <= punted && merged >= 2 * runs,
		      "%llu by a worker in %llu runs, %llu of them merged in %llu", punted, worker, merged, runs);
		if (runs)
			break;
		CHECK(tries < 99, "nothing is merged");
	}
	if (exact) {
		u64 before = STATS("again_cache"), again = 0;

		CHECK_BYTES(bfd, want, len, 0);
		for (int tries = 0; tries < (n ? 1000 : 1) && !again; tries++) {
			/* This one may block, and gets the time stamps up to date. */
			write_all(fd, want + 4096, 4096, 4096);
			CHECK(nowait_write(fd, want, 4096, 0) == -EAGAIN, "write to a cached page");
			again = STATS("again_cache") - before;
		}
		CHECK(again == !!n, "%llu of %u are counted", again, !!n);
	}
	eng_close(e);
	for (int i = 0; i < 2 && env.bounce && n; i++) {
		u64 ioends = STATS("by_ioend");

		/* XFS has no worker copy what is read, to registered buffers or to others. */
		e = eng_open(i ? ENG_AIO : ENG_URING_FIXED);
		for (u32 k = 0; k < many; k++)
			eng_add(e, (struct req){ .fd = fd, .off = k * 4096, .len = 4096 }, want + k * 4096);
		CHECK_RUN(e);
		eng_close(e);
		ioends = STATS("by_ioend") - ioends;
		CHECK(!ioends, "%llu of %u bounced reads are completed by a worker for ioends", ioends, many);
	}
	check_file("stats", want, len);
}

/* RWF_NOWAIT on a file system with lazytime: a time stamp that is due does not refuse a write. */
CASE(nowait_times, "nowait-times")
{
	u8 *buf = xalloc(4096);
	struct stat before, after;
	int fd, refused = 0;

	if (!is_fs("ext4") && !is_fs("xfs"))
		skip("no lazytime for writes that must not block");
	fd = new_file("nowait-times", buf, 4096);
	read_all(fd, buf, 4096, 0);
	OK(fstat(fd, &before));
	make_lazy();
	for (int i = 0; i < 50; i++) {
		s64 ret;

		/* More than a tick, by which time stamps move. */
		usleep(20000);
		ret = nowait_write(fd, buf, 4096, 0);
		CHECK(ret == 4096 || ret == -EAGAIN, "overwrite: %lld", ret);
		refused += ret == -EAGAIN;
	}
	not_lazy();
	OK(fstat(fd, &after));
	/* A lock that is busy may refuse some. */
	CHECK(refused < 25, "%d of 50 overwrites are refused", refused);
	CHECK(after.st_mtim.tv_sec > before.st_mtim.tv_sec ||
	      after.st_mtim.tv_nsec != before.st_mtim.tv_nsec, "the time stamp has not moved");
	expect("nowait-times", buf, 4096);
}

/*
 * RWF_NOWAIT across the borders of written and unwritten blocks, which refuse no write of whole blocks to XFS, and
 * of holes, which refuse all of the write. What is refused is repeated. What is around the data stays as it is,
 * also in a block in which the memory ends.
 */
CASE(nowait_border, "nowait-border")
{
	enum { BLOCKS, LOST, SECTORS, HOLES, NR };
	const u32 many = 64, unit = 2 * env.blksz, total = many * unit, room = round_up(unit, 64 * KiB);
	bool crosses = is_fs("xfs") && !env.always_cow, lazy = is_fs("ext4") || is_fs("xfs");
	u8 *want = xalloc(total), *many_blocks = xalloc(total), *end = (u8 *)xalloc(room + PAGE) + room;
	int fd = create("nowait-border", O_DIRECT), refused = 0;

	fill(many_blocks, total, 1);
	OK(mprotect(end, PAGE, PROT_NONE));
	if (lazy)
		make_lazy();
	/* The others turn a write of less than blocks into a buffered one. */
	for (int kind = 0; kind < (env.strict ? NR : SECTORS); kind++) {
		u32 edge = kind == SECTORS ? SECTOR : 0, len = unit - 2 * edge;
		u8 *data = end - len + (kind == LOST ? SECTOR : 0);

		OK(ftruncate(fd, 0));
		OK(ftruncate(fd, total));
		if (kind != HOLES)
			xfallocate(fd, 0, 0, total);
		memset(want, 0, total);
		for (u32 at = 0; at < total; at += unit) {
			fill(want + at, env.blksz, at + kind);
			write_all(fd, want + at, env.blksz, at);
		}
		/* From a written block, and then to one. */
		for (u32 i = 0; i + 1 < many; i += 2) {
			u32 at = i * unit + (i & 2 ? env.blksz : 0) + edge;
			s64 ret = -EAGAIN;

			fill(end - unit, unit, i + 1000);
			for (int tries = 0; tries < 100 && ret == -EAGAIN; tries++) {
				ret = nowait_write(fd, data, len, at);
				refused += kind == BLOCKS && ret == -EAGAIN;
			}
			if (kind == LOST) {
				CHECK(ret < (s64)len, "write at %u of what is not there: %lld", at, ret);
				CHECK_BYTES(fd, want + at + len - SECTOR, SECTOR, at + len - SECTOR);
				/* What is there may be written. */
				write_all(fd, want + at, len, at);
				continue;
			}
			if (kind == HOLES) {
				CHECK(ret == -EAGAIN, "write to a hole at %u: %lld", at, ret);
				CHECK_BYTES(fd, want + at, len, at);
			}
			if (ret == -EAGAIN && !(crosses && kind == BLOCKS))
				ret = RET(pwrite(fd, data, len, at));
			CHECK(ret == len, "write %d of %u bytes at %u: %lld", kind, len, at, ret);
			memcpy(want + at, data, len);
		}
		/* From a written block to one, with too many borders between. */
		for (int tries = 0; tries < 100 && kind == SECTORS && is_fs("ext4"); tries++) {
			s64 ret = nowait_write(fd, many_blocks, total - env.blksz - 2 * edge, edge);

			CHECK(ret == -EAGAIN, "write to many extents: %lld", ret);
		}
		CHECK_BYTES(fd, want, total, 0);
	}
	/* Two mappings, though of many extents. They do not follow each other on the disk: to XFS they are not one. */
	if (env.strict && (is_fs("ext4") || crosses)) {
		s64 ret = -EAGAIN;

		OK(ftruncate(fd, 0));
		xfallocate(fd, 0, 0, 2 * total);
		xfallocate(fd, FALLOC_FL_COLLAPSE_RANGE, total / 2, total);
		memset(want, 0, total);
		for (u32 at = 0; at < total; at += unit) {
			fill(want + at, env.blksz, at);
			write_all(fd, want + at, env.blksz, at);
		}
		for (int tries = 0; tries < 100 && ret == -EAGAIN; tries++)
			ret = nowait_write(fd, many_blocks, total, 0);
		CHECK(ret == (crosses ? -EAGAIN : (s64)total), "write to two mappings: %lld", ret);
		if (!crosses)
			memcpy(want, many_blocks, total);
		CHECK_BYTES(fd, want, total, 0);
	}
	printf("# %d tries of %u writes across a border are refused\n", refused, many / 2);
	check_file("nowait-border", want, total);
}

/* The device mapper takes bios: Rust lets a write to it wait, but not a read. */
static bool is_mapped(void)
{
	return !strncmp(env.disk, "dm-", 3);
}

static long sleeps(void)
{
	struct rusage usage;

	OK(getrusage(RUSAGE_THREAD, &usage));
	return usage.ru_nvcsw;
}

/* What this thread was charged for as written */
static long written(void)
{
	long bytes, cancelled;
	FILE *f = fopen("/proc/thread-self/io", "r");

	CHECK(f && fscanf(f, "%*s %*d %*s %*d %*s %*d %*s %*d %*s %*d %*s %ld %*s %ld", &bytes, &cancelled) == 2,
	      "/proc/thread-self/io");
	fclose(f);
	return bytes - cancelled;
}

/*
 * On a disk with one tag, of requests that are submitted together and must not wait, the first gets it. The
 * others are refused and change nothing, and the submitter does not sleep; with C it does.
 */
CASE(nowait_busy, "nowait-busy")
{
	/* Not side by side, or they are merged. */
	const u32 many = 8, each = 8 * KiB, stride = 2 * each;
	size_t len = many * stride;
	u8 *want = xalloc(len), *buf = xalloc(len);
	bool refuses = !strcmp(env.impl, "rust") && !is_mapped();
	int fd = new_file("nowait-busy", want, len);
	struct io_uring ring;

	make_lazy();
	CHECK(!io_uring_queue_init(many, &ring, 0), "io_uring_queue_init");
	CHECK(!io_uring_register_buffers(&ring, &(struct iovec){ buf, len }, 1), "io_uring_register_buffers");
	for (int write = 0; write < 2; write++) {
		u32 done = 0, refused = 0;
		bool is_right = false;
		long slept = 0;

		for (int tries = 0; tries < 100 && !is_right; tries++) {
			long charged;

			done = refused = 0;
			read_all(fd, buf, len, 0);
			fill(buf, len, 100 + tries);
			for (u32 i = 0; i < many; i++) {
				struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

				io_uring_prep_rw(write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED, sqe,
						 fd, buf + i * stride, each, i * stride);
				sqe->rw_flags = RWF_NOWAIT;
				sqe->user_data = i;
			}
			charged = written();
			slept = sleeps();
			CHECK(io_uring_submit(&ring) == (int)many, "io_uring_submit");
			slept = sleeps() - slept;
			charged = written() - charged;
			for (u32 n = 0; n < many; n++) {
				struct io_uring_cqe *cqe;
				u64 at;

				CHECK(!io_uring_wait_cqe(&ring, &cqe), "io_uring_wait_cqe");
				at = cqe->user_data * stride;
				CHECK(cqe->res == (int)each || cqe->res == -EAGAIN, "request %llu: %d",
				      cqe->user_data, cqe->res);
				done += cqe->res > 0;
				refused += cqe->res < 0;
				if (cqe->res > 0 && write)
					memcpy(want + at, buf + at, each);
				else if (cqe->res > 0)
					CHECK_SAME(buf + at, want + at, each, "read");
				io_uring_cqe_seen(&ring, cqe);
			}
			CHECK_BYTES(fd, want, len, 0);
			CHECK(charged == (write ? (long)(done * each) : 0), "%u are done, %ld bytes charged", done, charged);
			is_right = (done || (!write && is_mapped())) &&
				   (!refuses || (refused && !slept));
		}
		CHECK(is_right, "%s: %u are done, %u refused, and the submitter sleeps %ld times",
		      write ? "write" : "read", done, refused, slept);
	}
	OK(ftruncate(fd, each));
	check_file("nowait-busy", want, each);
}

/*
 * Appends that must not block, to a disk whose only tag a read has. Whether they are refused or not, nobody may see
 * what others had on the disk, of which the free space is full. ntfs3 makes room first; ext4 and XFS refuse each
 * before there is a bio.
 */
CASE(nowait_append, "nowait-append")
{
	const u32 many = 64, each = 4 * KiB;
	u8 *old = xalloc(1 * MiB), *buf = xalloc(2 * many * each);
	int bfd = new_file("busy", buf, each), fd = create("old", O_DIRECT), refused = 0;
	struct io_uring ring;
	u64 size = 0;

	memset(old, 0xa5, 1 * MiB);
	while (pwrite(fd, old, 1 * MiB, size) == 1 * MiB)
		size += 1 * MiB;
	CHECK(size > 100 * MiB, "the free space has only %llu bytes of others", size);
	close(fd);
	OK(unlink("old"));
	sync();

	fd = create("nowait-append", O_DIRECT);
	CHECK(!io_uring_queue_init(1, &ring, 0), "io_uring_queue_init");
	fill(buf, each, env.seed);
	for (u32 i = 0; i < many; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		struct io_uring_cqe *cqe;
		s64 ret;

		io_uring_prep_read(sqe, bfd, old, each, 0);
		CHECK(io_uring_submit(&ring) == 1, "io_uring_submit");
		ret = RET(pwritev2(fd, &(struct iovec){ buf, each }, 1, file_size(fd), RWF_NOWAIT));
		CHECK(ret == each || ret == -EAGAIN, "append %u: %lld", i, ret);
		refused += ret < 0;
		CHECK(!io_uring_wait_cqe(&ring, &cqe) && cqe->res == (int)each, "read");
		io_uring_cqe_seen(&ring, cqe);
	}
	printf("# %d of %u are refused\n", refused, many);
	size = file_size(fd);
	CHECK(size <= many * each, "%llu bytes", size);
	read_all(fd, buf, size, 0);
	for (u64 off = 0; off < size; off += each)
		CHECK(!all_bytes(buf + off, each, 0xa5), "the data of others at %llu of %llu", off, size);
}

static void undo_split(void)
{
	set_queue("max_sectors_kb", 0);
	not_lazy();
}

/*
 * A bio that has to be split is refused whenever it must not wait: so it may, and is done on an idle
 * disk. The device mapper splits where nobody else knows: then a read may be refused, but no write.
 */
CASE(nowait_split, "nowait-split")
{
	size_t len = 128 * KiB;
	u8 *want = xalloc(len), *buf = xalloc(len + PAGE);
	int fd = new_file("nowait-split", want, len);

	make_lazy();
	at_end = undo_split;
	for (u32 kb = 4; kb <= 64; kb *= 4) {
		set_queue("max_sectors_kb", kb);
		for (u32 size = 8 * KiB; size <= len; size *= 2) {
			/* In one piece, and in two with a gap in the memory between them */
			for (u32 gap = 0; gap <= 2 * SECTOR; gap += 2 * SECTOR) {
				u32 first = size / 2 + gap / 2;
				struct iovec iov[] = {
					{ buf, first }, { buf + first + gap, size - first },
				};
				s64 ret[2] = { 0 };

				read_all(fd, buf, len, 0);
				for (int tries = 0; tries < 100 && ret[0] != size; tries++)
					ret[0] = pause_if_refused(RET(preadv2(fd, iov, 2, len - size, RWF_NOWAIT)));
				CHECK(ret[0] == size || (is_mapped() && ret[0] == -EAGAIN),
				      "read of %u, %u kB at once: %lld", size, kb, ret[0]);
				if (ret[0] == size) {
					CHECK_SAME(buf, want + len - size, first, "read");
					CHECK_SAME(buf + first + gap, want + len - size + first,
						   size - first, "read");
				}
				fill(buf, len, size + gap + kb);
				for (int tries = 0; tries < 100 && ret[1] != size; tries++)
					ret[1] = pause_if_refused(RET(pwritev2(fd, iov, 2, len - size, RWF_NOWAIT)));
				CHECK(ret[1] == size, "write of %u, %u kB at once: %lld", size, kb, ret[1]);
				memcpy(want + len - size, buf, first);
				memcpy(want + len - size + first, buf + first + gap, size - first);
			}
		}
	}
	expect("nowait-split", want, len);
}

/* splice(2) and sendfile(2) take what a direct read left in the pipe, up to the end of the file. */
CASE(splice_read, "splice")
{
	size_t len = 200 * KiB + 777, got = 0;
	u8 *want = xalloc(MiB), *buf = xalloc(MiB);
	int fd = new_file("splice", want, len), p[2];
	loff_t off = 0;

	OK(pipe(p));
	while (got < len + 4096) {
		s64 n = RET(splice(fd, &off, p[1], NULL, 64 * KiB, 0));

		CHECK(n >= 0, "splice at %zu: %s", got, strerror(-n));
		if (!n)
			break;
		/* All of it is in the pipe. */
		CHECK(read(p[0], buf + got, n) == n, "pipe: %s", strerror(errno));
		got += n;
	}
	CHECK(got == len, "splice: %zu bytes, not %zu", got, len);
	CHECK_SAME(buf, want, len, "splice");
}

/* A loop device hands its pages over as they are (bvec), with its own completion. */
CASE(loop_device, "loop-device")
{
	/* The device is gone when this process is. */
	struct loop_config cfg = {
		.block_size = 512, .info.lo_flags = LO_FLAGS_DIRECT_IO | LO_FLAGS_AUTOCLEAR,
	};
	size_t len = 4 * MiB;
	u8 *want = xalloc(len), *buf = xalloc(len);
	char path[64], dio = '?';
	u64 rng = env.seed;
	int nr, fd;

	OK(nr = ioctl(xopen("/dev/loop-control", O_RDWR), LOOP_CTL_GET_FREE));
	cfg.fd = new_file("loop", want, len);
	snprintf(path, sizeof(path), "/dev/loop%d", nr);
	fd = xopen(path, O_RDWR | O_DIRECT);
	OK(ioctl(fd, LOOP_CONFIGURE, &cfg));
	snprintf(path, sizeof(path), "/sys/block/loop%d/loop/dio", nr);
	OK(read(xopen(path, O_RDONLY), &dio, 1));
	if (dio != '1' && !env.strict)
		skip("%s does not take 512-byte requests", env.fstype);
	CHECK(dio == '1', "the loop device did not turn direct I/O on");
	for (int i = 0; i < 32; i++) {
		u32 n = (rnd_below(&rng, 256) + 1) * SECTOR;
		u64 off = rnd_below(&rng, (len - n) / SECTOR) * SECTOR;

		if (rnd_below(&rng, 2)) {
			fill(want + off, n, i);
			write_all(fd, memcpy(buf, want + off, n), n, off);
		} else {
			CHECK_BYTES(fd, want + off, n, off);
		}
	}
	OK(fsync(fd));
	expect("loop", want, len);
}

/* RWF_ATOMIC: all of it or EINVAL. XFS does it with copy-on-write where the disk cannot. */
CASE(atomic_writes, "atomic")
{
	static const int flags[] = { RWF_ATOMIC, RWF_ATOMIC | RWF_DSYNC };
	size_t len = 1 * MiB;
	u8 *want = xalloc(len), *buf = xalloc(len);
	int fd = new_file("atomic", want, len);
	u32 unit_min, unit_max;
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_WRITE_ATOMIC, &stx) ||
	    !(stx.stx_mask & STATX_WRITE_ATOMIC) || !stx.stx_atomic_write_unit_max) {
		CHECK(strncmp(env.disk, "sd", 2), "no atomic writes on a disk that has them");
		skip("no atomic writes here");
	}
	unit_min = stx.stx_atomic_write_unit_min;
	unit_max = stx.stx_atomic_write_unit_max;
	rec("unit %u..%u", unit_min, unit_max);
	for (u32 n = unit_min; n <= unit_max && n <= 256 * KiB; n *= 2) {
		u64 off = n * (256 * KiB / n);

		/* It has to be one segment, and registered buffers do not count as one. */
		for_each_engine(e, ONE_BUFFER | BIT(ENG_URING_FIXED)) {
			bool can = e->kind != ENG_URING_FIXED;

			fill(buf, n, n + e->kind);
			ANSWER(eng_write(e, fd, buf, n, off, flags[e->kind & 1]), can ? (s64)n : -EINVAL,
			       "%s %u", e->name, n);
			if (can)
				memcpy(want + off, buf, n);
			ANSWER(eng_write(e, fd, want, n, off + SECTOR, RWF_ATOMIC), -EINVAL,
			       "%s misplaced %u", e->name, n);
		}
		CHECK_BYTES(fd, want, len, 0);
	}
	expect("atomic", want, len);
}
