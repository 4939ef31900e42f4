// SPDX-License-Identifier: GPL-2.0
/*
 * Threads against each other on one file.
 *
 * Every 8-byte word that is ever written says where it belongs, so a reader can tell a wrong word
 * whatever it raced with. Nothing here is recorded.
 */
#define _GNU_SOURCE
#include <linux/falloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "dio_test.h"

#define RACE_SIZE	(1 * MiB)

struct racer {
	pthread_t thread;
	const char *name;
	void (*fn)(struct racer *r);
	u64 rng;
	u32 id;
	enum engine_kind kind;
	bool until_end;			/* runs as long as others have work */
};

static atomic_int writers_left;
static bool zeros_allowed;
static bool others_allowed;
static bool errors_allowed;

static void stamp(u8 *buf, u64 off, u32 len, u64 generation)
{
	for (u32 i = 0; i < len; i += 8) {
		u64 v = (generation << 40) | (off + i + 1);

		memcpy(buf + i, &v, 8);
	}
}

static void check_stamps(const char *who, const u8 *buf, u64 off, u32 len)
{
	for (u32 i = 0; i + 8 <= len; i += 8) {
		u64 v;

		memcpy(&v, buf + i, 8);
		if (others_allowed || (!v && zeros_allowed))
			continue;
		CHECK((v & ((1ULL << 40) - 1)) == off + i + 1, "%s: found %016llx at %llu", who, v,
		      off + i);
	}
}

static u32 unit(void)
{
	return env.subblock_buffered ? max(env.blksz, 4096U) : SECTOR;
}

static bool go_on(const struct racer *r, u32 i, u32 n)
{
	return r->until_end ? atomic_load(&writers_left) > 0 : i < n;
}

static u32 rounds(u32 n)
{
	return max(n * env.scale / 100, 5U);
}

static void pick(struct racer *r, u32 u, u32 max_len, u64 *off, u32 *len)
{
	*len = (rnd_below(&r->rng, max_len / u) + 1) * u;
	*off = rnd_below(&r->rng, (RACE_SIZE - *len) / u + 1) * u;
}

static void direct_writer(struct racer *r)
{
	struct engine *e = eng_open(r->kind);
	int fd = xopen("race", O_RDWR | O_DIRECT), n = r->kind < ENG_AIO ? 1 : 4;
	u8 *buf = xalloc(128 * KiB);

	for (u32 i = 0; go_on(r, i, rounds(60)); i++) {
		struct req reqs[ENG_DEPTH] = { };

		for (int k = 0; k < n; k++) {
			u64 off;
			u32 len;

			pick(r, unit(), rnd_below(&r->rng, 4) ? 8 * KiB : 128 * KiB, &off, &len);
			reqs[k] = (struct req){ .write = true, .fd = fd, .off = off, .len = len,
						.vec = k & 1, .seed = i };
			eng_prep(e, k, &reqs[k]);
			stamp(buf, off, len, i * 16 + r->id);
			req_put_data(&reqs[k], buf);
		}
		eng_run(e, reqs, n);
		for (int k = 0; k < n; k++)
			CHECK(reqs[k].res == reqs[k].len, "%s: write of %u at %llu: %lld", r->name,
			      reqs[k].len, reqs[k].off, reqs[k].res);
	}
	eng_close(e);
	close(fd);
}

static void reader(struct racer *r, int flags)
{
	struct engine *e = eng_open(flags ? r->kind : ENG_SYNC);
	int fd = xopen("race", O_RDONLY | flags);
	u8 *buf = xalloc(128 * KiB);

	for (u32 i = 0; go_on(r, i, 0); i++) {
		u64 off;
		u32 len;
		s64 ret;

		pick(r, SECTOR, 64 * KiB, &off, &len);
		ret = eng_read(e, fd, buf, len, off, 0);
		if (ret == -EIO && errors_allowed)
			continue;
		CHECK(ret >= 0 && (ret == len || zeros_allowed), "%s: read of %u at %llu: %lld",
		      r->name, len, off, ret);
		check_stamps(r->name, buf, off, ret);
	}
	eng_close(e);
	close(fd);
}

static void direct_reader(struct racer *r)
{
	reader(r, O_DIRECT);
}

static void buffered_reader(struct racer *r)
{
	reader(r, 0);
}

static __thread sigjmp_buf bus_error;

static void on_bus_error(int sig)
{
	siglongjmp(bus_error, 1);
}

static void mmap_reader(struct racer *r)
{
	int fd = xopen("race", O_RDONLY);
	u8 *map = mmap(NULL, RACE_SIZE, PROT_READ, MAP_SHARED, fd, 0), *buf = xalloc(64 * KiB);

	CHECK(map != MAP_FAILED, "mmap: %s", strerror(errno));
	for (u32 i = 0; go_on(r, i, 0); i++) {
		u64 off;
		u32 len;

		pick(r, SECTOR, 64 * KiB, &off, &len);
		if (errors_allowed && sigsetjmp(bus_error, 1))
			continue;
		memcpy(buf, map + off, len);
		check_stamps(r->name, buf, off, len);
	}
	munmap(map, RACE_SIZE);
	close(fd);
}

/* Dirties pages under the direct writers, which then fail to drop them now and then. */
static void buffered_writer(struct racer *r)
{
	int fd = xopen("race", O_RDWR);
	u8 *buf = xalloc(64 * KiB);

	for (u32 i = 0; go_on(r, i, rounds(50)); i++) {
		u64 off;
		u32 len;

		pick(r, 8, 64 * KiB, &off, &len);
		stamp(buf, off, len, i * 16 + r->id);
		CHECK(xpwrite(fd, buf, len, off) == len, "buffered write");
	}
	close(fd);
}

static void truncater(struct racer *r)
{
	int fd = xopen("race", O_RDWR);

	for (u32 i = 0; go_on(r, i, rounds(30)); i++) {
		u64 off = rnd_below(&r->rng, RACE_SIZE / 8) * 8;

		switch (rnd_below(&r->rng, 4)) {
		case 0:
			fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off,
				  rnd_below(&r->rng, 32 * KiB) * 8 + 8);
			break;
		case 1:
			fallocate(fd, FALLOC_FL_KEEP_SIZE, off, 128 * KiB);
			break;
		case 2:
			CHECK(!ftruncate(fd, off), "truncate: %s", strerror(errno));
			break;
		default:
			CHECK(!ftruncate(fd, RACE_SIZE), "truncate: %s", strerror(errno));
			break;
		}
	}
	close(fd);
}

static void fsyncer(struct racer *r)
{
	int fd = xopen("race", O_RDWR | O_DIRECT);

	for (u32 i = 0; go_on(r, i, 0); i++) {
		if (i & 1)
			fdatasync(fd);
		else
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	}
	close(fd);
}

static void *racer_thread(void *arg)
{
	struct racer *r = arg;

	r->fn(r);
	if (!r->until_end)
		atomic_fetch_sub(&writers_left, 1);
	return NULL;
}

static void prepare(void)
{
	u8 *buf = xalloc(RACE_SIZE);
	int fd;

	/* A new inode: a race that was lost earlier leaves an error behind for fsync to find. */
	unlink(path_of("race"));
	fd = xopen("race", O_RDWR | O_CREAT | O_TRUNC);
	stamp(buf, 0, RACE_SIZE, 0);
	write_all(fd, buf, RACE_SIZE, 0);
	drop_cache(fd);
	munmap(buf, RACE_SIZE);
	close(fd);
}

static void run(struct racer *racers)
{
	int n = 0;

	for (struct racer *r = racers; r->fn; r++, n++) {
		r->id = n;
		r->rng = env.seed * 100 + n;
		if (!r->until_end)
			atomic_fetch_add(&writers_left, 1);
	}
	for (int i = 0; i < n; i++)
		CHECK(!pthread_create(&racers[i].thread, NULL, racer_thread, &racers[i]),
		      "pthread_create");
	for (int i = 0; i < n; i++)
		pthread_join(racers[i].thread, NULL);
}

/* Whatever is in the page cache now must be what is on disk. */
static void check_settled(bool dirty)
{
	int bfd = xopen("race", O_RDONLY), dfd = xopen("race", O_RDONLY | O_DIRECT);
	u8 *cached = xalloc(RACE_SIZE), *disk = xalloc(RACE_SIZE);
	u64 size = file_size(bfd);

	read_all(bfd, cached, size, 0);
	CHECK(xpread(dfd, disk, RACE_SIZE, 0) == (s64)size, "direct read");
	check_stamps("end, cached", cached, 0, size);
	check_stamps("end, disk", disk, 0, size);
	if (!dirty)
		CHECK(!memcmp(cached, disk, size),
		      "the page cache is stale at %zu after all is done",
		      first_diff(cached, disk, size));
	close(bfd);
	close(dfd);
}

/* Writes of all kinds against reads of all kinds; the size does not change. */
static void race_readers(const void *arg)
{
	struct racer racers[] = {
		{ .name = "sync writer", .fn = direct_writer, .kind = ENG_SYNC },
		{ .name = "aio writer", .fn = direct_writer, .kind = ENG_AIO },
		{ .name = "io_uring writer", .fn = direct_writer, .kind = ENG_URING_FIXED },
		{ .name = "buffered reader", .fn = buffered_reader, .until_end = true },
		{ .name = "mmap reader", .fn = mmap_reader, .until_end = true },
		{ .name = "direct reader", .fn = direct_reader, .kind = ENG_URING,
		  .until_end = true },
		{ .name = "fsyncer", .fn = fsyncer, .until_end = true },
		{ }
	};

	/*
	 * btrfs writes to new blocks and gives the old ones to others after a commit, without waiting
	 * for reads of them: a reader finds the data of another write, or a wrong checksum (EIO). Seen
	 * with C and with Rust, once each in a hundred runs.
	 */
	if (!strcmp(env.fstype, "btrfs")) {
		others_allowed = true;
		errors_allowed = true;
		signal(SIGBUS, on_bus_error);
	}
	prepare();
	run(racers);
	others_allowed = false;
	check_settled(false);
	if (errors_allowed)
		skip("ran, but btrfs frees blocks under readers: only what is there in the end is checked");
}

static void race_truncate(const void *arg)
{
	struct racer racers[] = {
		{ .name = "sync writer", .fn = direct_writer, .kind = ENG_VEC },
		{ .name = "io_uring writer", .fn = direct_writer, .kind = ENG_URING },
		{ .name = "truncater", .fn = truncater },
		{ .name = "buffered reader", .fn = buffered_reader, .until_end = true },
		{ .name = "direct reader", .fn = direct_reader, .kind = ENG_AIO,
		  .until_end = true },
		{ .name = "fsyncer", .fn = fsyncer, .until_end = true },
		{ }
	};

	zeros_allowed = true;
	/*
	 * f2fs waits for direct I/O before it takes the lock under which it frees blocks, and direct
	 * reads do not take that one at all, so that there is I/O to blocks that belong to others by
	 * then. Seen with C, in one of a dozen runs.
	 */
	others_allowed = !strcmp(env.fstype, "f2fs");
	prepare();
	run(racers);
	check_settled(!env.strict);
	if (others_allowed)
		skip("ran, but f2fs frees blocks under direct I/O: what they hold is not checked");
}

/*
 * Buffered writes to what is being written directly: nobody promises which of the two wins, but
 * each word comes from one of them, and the kernel survives it.
 */
static void race_buffered_writer(const void *arg)
{
	struct racer racers[] = {
		{ .name = "sync writer", .fn = direct_writer, .kind = ENG_SYNC },
		{ .name = "aio writer", .fn = direct_writer, .kind = ENG_AIO },
		{ .name = "buffered writer", .fn = buffered_writer },
		{ .name = "direct reader", .fn = direct_reader, .kind = ENG_SYNC,
		  .until_end = true },
		{ .name = "mmap reader", .fn = mmap_reader, .until_end = true },
		{ }
	};

	/*
	 * f2fs writes a dirty page back to a new block and gives away the old one, which a direct
	 * write that looked it up before may still be about to fill: with C as with Rust, one run
	 * in ten finds a block in the place of another.
	 */
	others_allowed = !strcmp(env.fstype, "f2fs");
	prepare();
	run(racers);
	check_settled(true);
	if (others_allowed)
		skip("ran, but f2fs moves blocks under direct writes: what they hold is not checked");
}

/* Asynchronous writes to a file that is in the page cache complete through a work item. */
static void cached_async(const void *arg)
{
	static const enum engine_kind kinds[] = { ENG_AIO, ENG_URING, ENG_URING_FIXED };
	u32 u = max(env.blksz, 4096U);
	u8 *want = xalloc(RACE_SIZE), *buf = xalloc(RACE_SIZE);

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct engine *e = eng_open(kinds[k]);
		int fd, bfd;
		u64 rng = env.seed;

		prepare();
		stamp(want, 0, RACE_SIZE, 0);
		fd = xopen("race", O_RDWR | O_DIRECT);
		bfd = xopen("race", O_RDONLY);
		for (u32 i = 0; i < rounds(12); i++) {
			struct req reqs[ENG_DEPTH] = { };

			/* Only a page at the end, or all of it */
			read_all(bfd, buf, i & 1 ? 4096 : RACE_SIZE, i & 1 ? RACE_SIZE - 4096 : 0);
			for (u32 q = 0; q < ENG_DEPTH; q++) {
				u64 slot = RACE_SIZE / ENG_DEPTH;
				u32 len = (rnd_below(&rng, 8) + 1) * u;
				u64 off = q * slot + rnd_below(&rng, (slot - len) / u) * u;

				reqs[q] = (struct req){ .write = true, .fd = fd, .off = off,
							.len = len };
				eng_prep(e, q, &reqs[q]);
				stamp(want + off, off, len, i + 1);
				req_put_data(&reqs[q], want + off);
			}
			eng_run(e, reqs, ENG_DEPTH);
			for (u32 q = 0; q < ENG_DEPTH; q++)
				CHECK(reqs[q].res == reqs[q].len, "write: %lld", reqs[q].res);
			read_all(bfd, buf, RACE_SIZE, 0);
			CHECK(!memcmp(buf, want, RACE_SIZE), "%s: stale page cache at %zu",
			      engine_names[kinds[k]], first_diff(buf, want, RACE_SIZE));
		}
		close(fd);
		close(bfd);
		eng_close(e);
	}
	check_file("race", want, RACE_SIZE);
}

#define SWITCH "/sys/kernel/iomap/dio_impl"

static void flipper(struct racer *r)
{
	for (u32 i = 0; go_on(r, i, 0); i++) {
		CHECK(write_str(SWITCH, i & 1 ? "c" : "rust"), "%s: %s", SWITCH, strerror(errno));
		usleep(200);
	}
}

/* The implementation changes all the time: a request stays with the one that began it. */
static void race_flip(const void *arg)
{
	struct racer racers[] = {
		{ .name = "sync writer", .fn = direct_writer, .kind = ENG_SYNC },
		{ .name = "aio writer", .fn = direct_writer, .kind = ENG_AIO },
		{ .name = "io_uring writer", .fn = direct_writer, .kind = ENG_URING },
		{ .name = "buffered reader", .fn = buffered_reader, .until_end = true },
		{ .name = "direct reader", .fn = direct_reader, .kind = ENG_URING,
		  .until_end = true },
		{ .name = "flipper", .fn = flipper, .until_end = true },
		{ }
	};

	if (strcmp(env.impl, "both"))
		skip("only with impl=both");
	prepare();
	run(racers);
	check_settled(false);
}

const struct test_case race_cases[] = {
	{ "race-readers", race_readers, NULL },
	{ "race-truncate", race_truncate, NULL },
	{ "race-buffered-writer", race_buffered_writer, NULL },
	{ "cached-async", cached_async, NULL },
	{ "flip", race_flip, NULL },
	{ }
};
