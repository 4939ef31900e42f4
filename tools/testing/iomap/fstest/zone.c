// SPDX-License-Identifier: GPL-2.0
/* zonefs, whose files are the zones of a disk. There is nothing to create. */
#define _GNU_SOURCE
#include "dio_test.h"

static void write_zone(struct engine *e, int fd, const u8 *want, u32 len, u64 off, int rwf)
{
	ANSWER(eng_write(e, fd, want + off, len, off, rwf), len, "write off=%llu len=%u", off, len);
}

/* A sequential zone is written where its file ends, and nowhere else. */
CASE(sequential, "zone-sequential")
{
	size_t cap = 4 * MiB;
	u8 *want = xalloc(cap), *buf = xalloc(cap);
	u32 bs = env.blksz;

	for_each_engine(e, PLAIN) {
		u64 rng = env.seed + e->kind, pos;
		char name[16];
		int fd;

		snprintf(name, sizeof(name), "seq/%u", e->kind);
		fd = xopen(name, O_RDWR | O_DIRECT);
		for (int round = 0; round < 2; round++) {
			/* What was there before is gone with the pointer to the end. */
			OK(ftruncate(fd, 0));
			fill(want, cap, env.seed + 2 * e->kind + round);
			pos = 0;
			for (int i = 0; i < 24; i++) {
				u32 n = (rnd_below(&rng, 24) + 1) * bs;

				write_zone(e, fd, want, n, pos, i % 4 == 3 ? RWF_DSYNC : 0);
				pos += n;
				CHECK_SIZE(fd, pos);
			}
			/* Requests in flight together, in the order of the zone */
			for (u32 i = 0; e->kind == ENG_AIO && i < ENG_DEPTH; i++, pos += bs)
				eng_add(e, (struct req){ .write = true, .fd = fd, .off = pos,
							 .len = bs }, want + pos);
			CHECK_RUN(e);
			for (int i = 0; i < 3; i++) {
				const u64 offs[] = { 0, pos + bs, pos };
				const u32 lens[] = { bs, bs, bs / 2 };

				ANSWER(eng_write(e, fd, want, lens[i], offs[i], 0), -EINVAL, "misplaced write %d", i);
			}
			for (int i = 0; i < 24; i++) {
				u64 off = rnd_below(&rng, pos / bs) * bs;
				u32 n = (rnd_below(&rng, 64) + 1) * bs;
				u64 exp = min(pos - off, (u64)n);

				ANSWER(eng_read(e, fd, buf, n, off), exp, "read off=%llu len=%u", off, n);
				CHECK_SAME(buf, want + off, exp, "read at %llu", off);
			}
			check_file(name, want, pos);
		}
	}
}

/* A conventional zone is written anywhere, but never beyond its end. */
CASE(conventional, "zone-conventional")
{
	int fd = xopen("cnv/0", O_RDWR | O_DIRECT), bfd = xopen("cnv/0", O_RDWR);
	u64 len = file_size(fd), rng = env.seed;
	u8 *want = xalloc(len), *buf = xalloc(len);
	u32 bs = env.blksz;

	fill(want, len, env.seed);
	for (u64 off = 0; off < len; off += MiB)
		write_all(fd, want + off, min(len - off, (u64)MiB), off);
	for_each_engine(e, PLAIN) {
		for (int i = 0; i < 16; i++) {
			u64 off = rnd_below(&rng, len / bs) * bs;
			u32 n = min((rnd_below(&rng, 64) + 1) * bs, len - off);

			fill(want + off, n, i);
			if (i % 4 == 3)
				write_all(bfd, want + off, n, off);
			else
				write_zone(e, fd, want, n, off, i % 4 == 2 ? RWF_DSYNC : 0);
			CHECK_READ(e, fd, want + off, n, off);
		}
		CHECK(eng_read(e, fd, buf, 2 * bs, len - bs) == bs && !memcmp(buf, want + len - bs, bs),
		      "read at the end");
		CHECK(eng_write(e, fd, want, bs, len, 0) == -EFBIG, "write behind the end");
	}
	check_file("cnv/0", want, len);
}
