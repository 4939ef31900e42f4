// SPDX-License-Identifier: GPL-2.0
/* zonefs, whose files are the zones of a disk. There is nothing to create. */
#define _GNU_SOURCE
#include "dio_test.h"

static const enum engine_kind engines[] = { ENG_SYNC, ENG_VEC, ENG_AIO, ENG_URING,
					    ENG_URING_FIXED };

static void write_zone(struct engine *e, int fd, const u8 *want, u32 len, u64 off, int rwf)
{
	s64 ret = eng_write(e, fd, want + off, len, off, rwf);

	rec("write off=%llu len=%u -> %lld", (unsigned long long)off, len, (long long)ret);
	CHECK(ret == len, "write of %u at %llu: %lld", len, (unsigned long long)off,
	      (long long)ret);
}

/* Requests in flight together, in the order of the zone */
static u64 write_many(struct engine *e, int fd, const u8 *want, u64 pos)
{
	struct req reqs[ENG_DEPTH] = { };

	for (u32 i = 0; i < ENG_DEPTH; i++) {
		struct req *r = &reqs[i];

		*r = (struct req){ .write = true, .fd = fd, .off = pos, .len = env.blksz };
		eng_prep(e, i, r);
		req_put_data(r, want + pos);
		pos += r->len;
	}
	eng_run(e, reqs, ENG_DEPTH);
	for (u32 i = 0; i < ENG_DEPTH; i++)
		CHECK(reqs[i].res == reqs[i].len, "write %u of several: %lld", i,
		      (long long)reqs[i].res);
	return pos;
}

/* A sequential zone is written where its file ends, and nowhere else. */
static void sequential(const void *arg)
{
	size_t cap = 4 * MiB;
	u8 *want = xalloc(cap), *buf = xalloc(cap);
	u32 bs = env.blksz;

	for (size_t k = 0; k < ARRAY_SIZE(engines); k++) {
		struct engine *e = eng_open(engines[k]);
		u64 rng = env.seed + k, pos;
		char name[16];
		int fd;

		snprintf(name, sizeof(name), "seq/%zu", k);
		fd = xopen(name, O_RDWR | O_DIRECT);
		for (int round = 0; round < 2; round++) {
			/* What was there before is gone with the pointer to the end. */
			CHECK(!ftruncate(fd, 0), "reset: %s", strerror(errno));
			fill(want, cap, env.seed + 2 * k + round);
			pos = 0;
			for (int i = 0; i < 24; i++) {
				u32 n = (rnd_below(&rng, 24) + 1) * bs;

				write_zone(e, fd, want, n, pos, i % 4 == 3 ? RWF_DSYNC : 0);
				pos += n;
				CHECK(file_size(fd) == pos, "size %llu, not %llu",
				      (unsigned long long)file_size(fd), (unsigned long long)pos);
			}
			if (engines[k] == ENG_AIO)
				pos = write_many(e, fd, want, pos);
			for (int i = 0; i < 3; i++) {
				const u64 offs[] = { 0, pos + bs, pos };
				const u32 lens[] = { bs, bs, bs / 2 };
				s64 ret = eng_write(e, fd, want, lens[i], offs[i], 0);

				CHECK(ret == -EINVAL, "misplaced write %d: %lld", i, (long long)ret);
			}
			for (int i = 0; i < 24; i++) {
				u64 off = rnd_below(&rng, pos / bs) * bs;
				u32 n = (rnd_below(&rng, 64) + 1) * bs;
				s64 exp = min(pos - off, (u64)n);
				s64 ret = eng_read(e, fd, buf, n, off, 0);

				rec("read off=%llu len=%u -> %lld", (unsigned long long)off, n,
				    (long long)ret);
				CHECK(ret == exp, "read of %u at %llu: %lld, not %lld", n,
				      (unsigned long long)off, (long long)ret, (long long)exp);
				CHECK(!memcmp(buf, want + off, ret), "wrong data at %llu",
				      (unsigned long long)off);
			}
			check_file(name, want, pos);
		}
		close(fd);
		keep(name);
		eng_close(e);
	}
}

/* A conventional zone is written anywhere, but never beyond its end. */
static void conventional(const void *arg)
{
	int fd = xopen("cnv/0", O_RDWR | O_DIRECT), bfd = xopen("cnv/0", O_RDWR);
	u64 len = file_size(fd), rng = env.seed;
	u8 *want = xalloc(len), *buf = xalloc(len);
	u32 bs = env.blksz;

	fill(want, len, env.seed);
	for (u64 off = 0; off < len; off += MiB)
		write_all(fd, want + off, min(len - off, (u64)MiB), off);
	for (size_t k = 0; k < ARRAY_SIZE(engines); k++) {
		struct engine *e = eng_open(engines[k]);

		for (int i = 0; i < 16; i++) {
			u64 off = rnd_below(&rng, len / bs) * bs;
			u32 n = min((rnd_below(&rng, 64) + 1) * bs, len - off);

			fill(want + off, n, i);
			if (i % 4 == 3)
				write_all(bfd, want + off, n, off);
			else
				write_zone(e, fd, want, n, off, i % 4 == 2 ? RWF_DSYNC : 0);
			CHECK(eng_read(e, fd, buf, n, off, 0) == n && !memcmp(buf, want + off, n),
			      "reads back wrong at %llu", (unsigned long long)off);
		}
		CHECK(eng_read(e, fd, buf, 2 * bs, len - bs, 0) == bs, "read at the end");
		CHECK(eng_write(e, fd, want, bs, len, 0) == -EFBIG, "write behind the end");
		eng_close(e);
	}
	close(bfd);
	close(fd);
	check_file("cnv/0", want, len);
	keep("cnv/0");
}

const struct test_case zone_cases[] = {
	{ "zone-sequential", sequential, NULL },
	{ "zone-conventional", conventional, NULL },
	{ }
};
