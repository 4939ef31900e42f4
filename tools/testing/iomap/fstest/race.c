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
#include <signal.h>
#include <stdatomic.h>

#include "dio_test.h"

#define RACE_SIZE	(1 * MiB)

struct racer;

/* What a racer does, over and over */
struct role {
	const char *name;
	void (*step)(struct racer *r, u32 i);
	int flags;		/* of the file that it opens */
	u32 rounds;		/* those without a number run as long as others have work */
};

struct racer {
	const struct role *role;
	enum engine_kind kind;

	pthread_t thread;
	struct engine *e;
	int fd;
	u8 *buf, *map;
	u64 rng;
	u32 id;
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

static u32 rounds(u32 n)
{
	return max(n * env.scale / 100, 5U);
}

struct range {
	u64 off;
	u32 len;
};

static struct range pick(struct racer *r, u32 u, u32 max_len)
{
	u32 len = (rnd_below(&r->rng, max_len / u) + 1) * u;

	return (struct range){ rnd_below(&r->rng, (RACE_SIZE - len) / u + 1) * u, len };
}

static void write_direct(struct racer *r, u32 i)
{
	u32 unit = env.strict ? SECTOR : max(env.blksz, PAGE);
	int n = r->kind < ENG_AIO ? 1 : 4;

	for (int k = 0; k < n; k++) {
		struct range at = pick(r, unit, rnd_below(&r->rng, 4) ? 8 * KiB : 128 * KiB);

		stamp(r->buf, at.off, at.len, i * 16 + r->id);
		eng_add(r->e, (struct req){ .write = true, .fd = r->fd, .off = at.off, .len = at.len,
					    .vec = k & 1, .seed = i }, r->buf);
	}
	CHECK_RUN(r->e);
}

static void read_some(struct racer *r, u32 i)
{
	struct range at = pick(r, SECTOR, 64 * KiB);
	s64 ret = eng_read(r->e, r->fd, r->buf, at.len, at.off);

	if (ret == -EIO && errors_allowed)
		return;
	CHECK(ret >= 0 && (ret == at.len || zeros_allowed), "%s with %s: read of %u at %llu: %lld",
	      r->role->name, r->e->name, at.len, at.off, ret);
	check_stamps(r->role->name, r->buf, at.off, ret);
}

/*
 * User Mode Linux changes what a process sees of its memory when that enters the kernel. Until then a
 * load finds a page that was taken from the mapping, though it may be another's by now. So the kernel
 * copies, which has a reference to each page.
 */
static void read_mapping(struct racer *r, u32 i)
{
	struct range at = pick(r, SECTOR, 64 * KiB);
	struct iovec to = { r->buf, at.len }, from;
	s64 ret;

	if (!r->map)
		r->map = xmap(r->fd, RACE_SIZE, PROT_READ);
	from = (struct iovec){ r->map + at.off, at.len };
	ret = RET(process_vm_readv(getpid(), &to, 1, &from, 1, 0));
	if (ret < at.len && errors_allowed)
		return;
	CHECK(ret == at.len, "%s: %lld of %u bytes at %llu", r->role->name, ret, at.len, at.off);
	check_stamps(r->role->name, r->buf, at.off, at.len);
}

/* Dirties pages under the direct writers, which then fail to drop them now and then. */
static void write_buffered(struct racer *r, u32 i)
{
	struct range at = pick(r, 8, 64 * KiB);

	stamp(r->buf, at.off, at.len, i * 16 + r->id);
	write_all(r->fd, r->buf, at.len, at.off);
}

static void truncate_some(struct racer *r, u32 i)
{
	u64 off = rnd_below(&r->rng, RACE_SIZE / 8) * 8;

	switch (rnd_below(&r->rng, 4)) {
	case 0:
		fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off,
			  rnd_below(&r->rng, 32 * KiB) * 8 + 8);
		break;
	case 1:
		fallocate(r->fd, FALLOC_FL_KEEP_SIZE, off, 128 * KiB);
		break;
	case 2:
		OK(ftruncate(r->fd, off));
		break;
	default:
		OK(ftruncate(r->fd, RACE_SIZE));
		break;
	}
}

static void sync_some(struct racer *r, u32 i)
{
	if (i & 1)
		fdatasync(r->fd);
	else
		posix_fadvise(r->fd, 0, 0, POSIX_FADV_DONTNEED);
}

#define SWITCH "/sys/kernel/iomap/dio_impl"

static void flip_switch(struct racer *r, u32 i)
{
	CHECK(write_str(SWITCH, i & 1 ? "c" : "rust"), "%s: %s", SWITCH, strerror(errno));
	usleep(200);
}

static const struct role direct_writer = { "direct writer", write_direct, O_RDWR | O_DIRECT, 60 };
static const struct role buffered_writer = { "buffered writer", write_buffered, O_RDWR, 50 };
static const struct role truncater = { "truncater", truncate_some, O_RDWR, 30 };
static const struct role direct_reader = { "direct reader", read_some, O_RDONLY | O_DIRECT };
static const struct role buffered_reader = { "buffered reader", read_some, O_RDONLY };
static const struct role mmap_reader = { "mmap reader", read_mapping, O_RDONLY };
static const struct role fsyncer = { "fsyncer", sync_some, O_RDWR | O_DIRECT };
static const struct role flipper = { "flipper", flip_switch, O_RDONLY };

static void *racer_thread(void *arg)
{
	struct racer *r = arg;
	u32 n = r->role->rounds;

	r->e = eng_open(r->kind);
	r->fd = xopen("race", r->role->flags);
	r->buf = xalloc(128 * KiB);
	for (u32 i = 0; n ? i < rounds(n) : atomic_load(&writers_left) > 0; i++)
		r->role->step(r, i);
	if (n)
		atomic_fetch_sub(&writers_left, 1);
	return NULL;
}

static void prepare(void)
{
	u8 *buf = xalloc(RACE_SIZE);
	int fd;

	/* A new inode: a race that was lost earlier leaves an error behind for fsync to find. */
	unlink("race");
	fd = create("race", 0);
	stamp(buf, 0, RACE_SIZE, 0);
	write_all(fd, buf, RACE_SIZE, 0);
	drop_cache(fd);
}

static void run(struct racer *racers)
{
	struct racer *r;

	prepare();
	for (r = racers; r->role; r++) {
		r->id = r - racers;
		r->rng = env.seed * 100 + r->id;
		atomic_fetch_add(&writers_left, r->role->rounds > 0);
	}
	for (r = racers; r->role; r++)
		CHECK(!pthread_create(&r->thread, NULL, racer_thread, r), "pthread_create");
	for (r = racers; r->role; r++)
		pthread_join(r->thread, NULL);
}

/* Whatever is in the page cache now must be what is on disk. */
static void check_settled(bool dirty)
{
	int bfd = xopen("race", O_RDONLY), dfd = xopen("race", O_RDONLY | O_DIRECT);
	u8 *cached = xalloc(RACE_SIZE), *disk = xalloc(RACE_SIZE);
	u64 size = file_size(bfd);

	read_all(bfd, cached, size, 0);
	CHECK(pread(dfd, disk, RACE_SIZE, 0) == (ssize_t)size, "direct read");
	check_stamps("end, cached", cached, 0, size);
	check_stamps("end, disk", disk, 0, size);
	if (!dirty)
		CHECK_SAME(cached, disk, size, "the page cache is stale after all is done");
}

/*
 * btrfs writes to new blocks and gives the old ones to others after a commit, without waiting for
 * reads of them: a reader finds the data of another write, or a wrong checksum (EIO). Seen with C
 * and with Rust, once each in a hundred runs.
 */
static void allow_freed_blocks(void)
{
	if (!is_fs("btrfs"))
		return;
	others_allowed = true;
	errors_allowed = true;
}

static void skip_freed_blocks(void)
{
	if (errors_allowed)
		skip("ran, but btrfs frees blocks under readers: only what is there in the end is checked");
}

/* Writes of all kinds against reads of all kinds; the size does not change. */
CASE(race_readers, "race-readers")
{
	struct racer racers[] = {
		{ &direct_writer, ENG_SYNC }, { &direct_writer, ENG_AIO },
		{ &direct_writer, ENG_URING_FIXED }, { &buffered_reader }, { &mmap_reader },
		{ &direct_reader, ENG_URING }, { &fsyncer }, { }
	};

	allow_freed_blocks();
	run(racers);
	others_allowed = false;
	check_settled(false);
	skip_freed_blocks();
}

CASE(race_truncate, "race-truncate")
{
	struct racer racers[] = {
		{ &direct_writer, ENG_VEC }, { &direct_writer, ENG_URING }, { &truncater },
		{ &buffered_reader }, { &direct_reader, ENG_AIO }, { &fsyncer }, { }
	};

	zeros_allowed = true;
	/*
	 * f2fs waits for direct I/O before it takes the lock under which it frees blocks, and direct
	 * reads do not take that one at all, so that there is I/O to blocks that belong to others by
	 * then. Seen with C, in one of a dozen runs.
	 */
	others_allowed = is_fs("f2fs");
	run(racers);
	check_settled(!env.strict);
	if (others_allowed)
		skip("ran, but f2fs frees blocks under direct I/O: what they hold is not checked");
}

/*
 * Buffered writes to what is being written directly: nobody promises which of the two wins, but
 * each word comes from one of them, and the kernel survives it.
 */
CASE(race_buffered_writer, "race-buffered-writer")
{
	struct racer racers[] = {
		{ &direct_writer, ENG_SYNC }, { &direct_writer, ENG_AIO }, { &buffered_writer },
		{ &direct_reader, ENG_SYNC }, { &mmap_reader }, { }
	};

	/*
	 * f2fs writes a dirty page back to a new block and gives away the old one, which a direct
	 * write that looked it up before may still be about to fill: with C as with Rust, one run
	 * in ten finds a block in the place of another.
	 */
	others_allowed = is_fs("f2fs");
	allow_freed_blocks();
	run(racers);
	others_allowed = is_fs("f2fs");
	check_settled(true);
	skip_freed_blocks();
	if (others_allowed)
		skip("ran, but f2fs moves blocks under direct writes: what they hold is not checked");
}

/* The implementation changes all the time: a request stays with the one that began it. */
CASE(race_flip, "flip")
{
	struct racer racers[] = {
		{ &direct_writer, ENG_SYNC }, { &direct_writer, ENG_AIO },
		{ &direct_writer, ENG_URING }, { &buffered_reader }, { &direct_reader, ENG_URING },
		{ &flipper }, { }
	};

	run(racers);
	check_settled(false);
}

#define RT_RUNTIME "/proc/sys/kernel/sched_rt_runtime_us"
#define FAIR_RUNTIME "/sys/kernel/debug/sched/fair_server/cpu0/runtime"

static void share_processors(void)
{
	write_str(RT_RUNTIME, "950000");
	write_str(FAIR_RUNTIME, "50000000");
}

/*
 * Who polls for a completion may keep its processor, where the bio ends, to itself: the worker that
 * converts the blocks runs elsewhere. There is nothing left here by which the scheduler lets it in
 * once a second.
 */
CASE(busy_poller, "busy-poller")
{
	const u32 writes = 20, seconds = 10;
	u8 *buf = xalloc(4096);
	int fd = create("busy-poller", O_DIRECT);
	io_context_t aio = NULL;
	struct timespec begin, now;
	u32 done = 0;
	cpu_set_t cpus;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip("there is only one processor");
	xfallocate(fd, 0, 0, writes * 4096);
	OK(io_setup(1, &aio));
	at_end = share_processors;
	CHECK(write_str(RT_RUNTIME, "-1"), "%s: %s", RT_RUNTIME, strerror(errno));
	CHECK(write_str(FAIR_RUNTIME, "0"), "%s: %s", FAIR_RUNTIME, strerror(errno));
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	OK(sched_setaffinity(0, sizeof(cpus), &cpus));
	OK(sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ 1 }));
	OK(clock_gettime(CLOCK_MONOTONIC, &begin));
	for (u32 i = 0; i < writes; i++) {
		struct timespec none = { };
		struct io_event event;
		struct iocb iocb, *list = &iocb;

		io_prep_pwrite(&iocb, fd, buf, 4096, i * 4096);
		CHECK(io_submit(aio, 1, &list) == 1, "io_submit");
		do {
			clock_gettime(CLOCK_MONOTONIC, &now);
		} while (!io_getevents(aio, 0, 1, &event, &none) &&
			 now.tv_sec - begin.tv_sec < seconds);
		if (now.tv_sec - begin.tv_sec >= seconds)
			break;
		done++;
	}
	OK(sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ }));
	CHECK(done == writes, "%u of %u writes complete within %u seconds", done, writes, seconds);
	io_destroy(aio);
}

/* Asynchronous writes to a file that is in the page cache complete through a work item. */
CASE(cached_async, "cached-async")
{
	u32 u = max(env.blksz, PAGE);
	u8 *want = xalloc(RACE_SIZE), *buf = xalloc(RACE_SIZE);
	u64 slot = RACE_SIZE / ENG_DEPTH;

	for_each_engine(e, ASYNC) {
		u64 rng = env.seed;
		int fd, bfd;

		prepare();
		stamp(want, 0, RACE_SIZE, 0);
		fd = xopen("race", O_RDWR | O_DIRECT);
		bfd = xopen("race", O_RDONLY);
		for (u32 i = 0; i < rounds(12); i++) {
			/* Only a page at the end, or all of it */
			read_all(bfd, buf, i & 1 ? 4096 : RACE_SIZE, i & 1 ? RACE_SIZE - 4096 : 0);
			for (u32 q = 0; q < ENG_DEPTH; q++) {
				u32 len = (rnd_below(&rng, 8) + 1) * u;
				u64 off = q * slot + rnd_below(&rng, (slot - len) / u) * u;

				stamp(want + off, off, len, i + 1);
				eng_add(e, (struct req){ .write = true, .fd = fd, .off = off,
							 .len = len }, want + off);
			}
			CHECK_RUN(e);
			CHECK_BYTES(bfd, want, RACE_SIZE, 0);
		}
	}
	check_file("race", want, RACE_SIZE);
}
