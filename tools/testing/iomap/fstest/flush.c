// SPDX-License-Identifier: GPL-2.0
/* O_DSYNC writes of which several are in flight: one flush may make them stable. */
#define _GNU_SOURCE
#include <linux/falloc.h>
#include <stdarg.h>

#include "dio_test.h"

#define LEN	(16 * KiB)

static __printf(1, 2) void shell(const char *fmt, ...)
{
	char command[160];
	va_list args;
	int status;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	status = system(command);
	CHECK(!status, "%s: status %#x", command, status);
}

static void add_write(struct io_uring *ring, int fd, const u8 *buf, u64 off, int rwf, u64 what)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_write(sqe, fd, buf, LEN, off);
	sqe->rw_flags = rwf;
	sqe->user_data = what;
}

/* The next that is complete, which must have written everything */
static u64 wait_for_write(struct io_uring *ring)
{
	struct __kernel_timespec minute = { .tv_sec = 60 };
	struct io_uring_cqe *cqe;
	u64 what;

	CHECK(!io_uring_wait_cqe_timeout(ring, &cqe, &minute), "no write is complete");
	what = cqe->user_data;
	CHECK(cqe->res == LEN, "write %llu: %d", what, cqe->res);
	io_uring_cqe_seen(ring, cqe);
	return what;
}

/*
 * Says in the log of the disk (dm-log-writes) which writes are known to be complete; replay.py looks
 * whether they are there after each crash from then on. Its words are file << 40 | position + 1.
 */
CASE(logged_writes, "logged-writes")
{
	static const char *const names[] = { "logged-0", "logged-1" };
	const u32 each = 16, depth = 8, files = ARRAY_SIZE(names);
	int fds[ARRAY_SIZE(names)], dir = xopen(".", O_RDONLY | O_DIRECTORY);
	u32 order[each], done = 0;
	u64 rng = env.seed, *data = xalloc(files * each * LEN);
	struct io_uring ring;

	for (u32 i = 0; i < files * each * LEN / 8; i++)
		data[i] = (u64)(i * 8 / (each * LEN)) << 40 | (i * 8 % (each * LEN) + 1);
	for (u32 f = 0; f < files; f++) {
		fds[f] = create(names[f], O_DIRECT);
		/* Within the size of the first file, beyond that of the second one */
		xfallocate(fds[f], f ? FALLOC_FL_KEEP_SIZE : 0, 0, each * LEN);
		OK(fsync(fds[f]));
	}
	OK(fsync(dir));
	for (u32 i = 0; i < each; i++) {
		u32 other = rnd_below(&rng, i + 1);

		order[i] = order[other];
		order[other] = i;
	}
	CHECK(!io_uring_queue_init(depth, &ring, 0), "io_uring_queue_init");
	shell("dmsetup message logged 0 mark begin");
	while (done < files * each) {
		for (u32 i = 0; i < depth; i++, done++) {
			u32 f = done % files, n = order[done / files];

			add_write(&ring, fds[f], (u8 *)data + (f * each + n) * LEN, n * LEN, RWF_DSYNC,
				  f * each + n);
		}
		CHECK(io_uring_submit(&ring) == depth, "io_uring_submit");
		for (u32 i = 0; i < depth; i++) {
			u64 what = wait_for_write(&ring);

			shell("dmsetup message logged 0 mark %llu/%llu", what / each, what % each * LEN);
		}
	}
}

static void set_flush_delay(u32 ms)
{
	shell("dmsetup table slow-flush | sed 's/[0-9]*$/%u/' | dmsetup reload slow-flush", ms);
	shell("dmsetup suspend --nolockfs slow-flush && dmsetup resume slow-flush");
}

/* Lets go those that wait */
static void flush_at_once(void)
{
	set_flush_delay(0);
}

/* Waits until the command succeeds; some 30 seconds, and longer where it takes long itself. */
static void wait_until(const char *command)
{
	for (u32 i = 0; system(command); i++) {
		CHECK(i < 300, "%s: not true", command);
		usleep(100000);
	}
}

/*
 * While a worker waits for the flush of one write, others of the file are completed, and those that owe
 * flushes of their own flush. No write that owes a flush is complete before it.
 */
CASE(slow_flush, "slow-flush")
{
	const u32 others = 8, gaps = (others + 1) * LEN, row = gaps + (2 * others + 1) * LEN, hour_ms = 3600000;
	u8 *data = xalloc(LEN);
	int fd = create("slow-flush", O_DIRECT), cached = xopen("slow-flush", O_RDONLY);
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	fill(data, LEN, env.seed);
	xfallocate(fd, 0, 0, row + others * LEN);
	OK(fsync(fd));
	CHECK(!io_uring_queue_init(others + 1, &ring, 0), "io_uring_queue_init");
	at_end = flush_at_once;
	set_flush_delay(hour_ms);
	add_write(&ring, fd, data, others * LEN, RWF_DSYNC, others);
	CHECK(io_uring_submit(&ring) == 1, "io_uring_submit");
	wait_until("dmsetup status slow-flush | grep -q ' [1-9]$'");
	for (u32 i = 0; i < others; i++) {
		add_write(&ring, fd, data, i * LEN, 0, i);
		CHECK(io_uring_submit(&ring) == 1, "io_uring_submit");
		CHECK(wait_for_write(&ring) == i, "write %u had to wait for a flush of another", i);
	}
	flush_at_once();
	CHECK(wait_for_write(&ring) == others, "the flush");

	/*
	 * With a page in the cache no flush does for what lies between two writes as well: each has a worker,
	 * which cannot go on. Of those in a row one flush does for several.
	 */
	CHECK(pread(cached, data, 1, gaps + 2 * others * LEN) == 1, "pread");
	for (int in_row = 0; in_row < 2; in_row++) {
		set_flush_delay(hour_ms);
		for (u32 i = 0; i < others; i++)
			add_write(&ring, fd, data, in_row ? row + i * LEN : gaps + 2 * i * LEN, RWF_DSYNC, i);
		CHECK(io_uring_submit(&ring) == others, "io_uring_submit");
		wait_until(in_row ? "dmsetup status slow-flush | grep -q ' [1-8]$'" :
			   "test $(cat /proc/[0-9]*/comm 2>/dev/null | grep -c +dio/) = 8");
		CHECK(io_uring_peek_cqe(&ring, &cqe) == -EAGAIN, "write %llu did not wait for its flush",
		      cqe->user_data);
		flush_at_once();
		for (u32 i = 0; i < others; i++)
			wait_for_write(&ring);
	}
}
