// SPDX-License-Identifier: GPL-2.0
/*
 * Writes that have been submitted, and a submitter that waits for them in another way than for their
 * completion, or goes away. Completions that wait for their submitter hang then (838b35bb6a89).
 */
#define _GNU_SOURCE
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/wait.h>

#include "dio_test.h"

/* More than one worker completes */
#define WRITES	40
#define LEN	(16 * KiB)
#define SIZE	(WRITES * LEN)

static int dir = -1;

static void thaw(void)
{
	ioctl(dir, FITHAW, 0);
}

static void grow(int fd)
{
	OK(ftruncate(fd, 2 * SIZE));
}

static void shrink(int fd)
{
	OK(ftruncate(fd, SIZE / 2));
}

static void punch(int fd)
{
	xfallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, LEN, LEN);
}

static void freeze(int fd)
{
	if (ioctl(dir, FIFREEZE, 0) < 0)
		CHECK(errno == EOPNOTSUPP, "FIFREEZE: %s", strerror(errno));
	thaw();
}

static void close_it(int fd)
{
	OK(close(fd));
}

static void leave(int fd)
{
	_exit(0);
}

static void exec_other(int fd)
{
	execl("/bin/true", "true", NULL);
	fail("execl: %s", strerror(errno));
}

static const struct {
	const char *name;
	void (*step)(int fd);
} steps[] = {
	{ "ftruncate to more", grow }, { "ftruncate to less", shrink }, { "fallocate", punch },
	{ "freeze", freeze }, { "close", close_it }, { "exit", leave }, { "exec", exec_other },
};

static void submit(bool uring, int fd, const u8 *data, int rwf)
{
	/* They outlive the submission. */
	static struct io_uring ring;
	static struct iocb iocbs[WRITES];
	struct iocb *list[WRITES];
	io_context_t aio = NULL;

	if (uring)
		CHECK(!io_uring_queue_init(WRITES, &ring, 0), "io_uring_queue_init");
	else
		OK(io_setup(WRITES, &aio));
	for (u32 i = 0; i < WRITES; i++) {
		if (uring) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

			io_uring_prep_write(sqe, fd, data + i * LEN, LEN, i * LEN);
			sqe->rw_flags = rwf;
		} else {
			list[i] = &iocbs[i];
			io_prep_pwrite(list[i], fd, (void *)(data + i * LEN), LEN, i * LEN);
			iocbs[i].aio_rw_flags = rwf;
		}
	}
	if (uring)
		CHECK(io_uring_submit(&ring) == WRITES, "io_uring_submit");
	else
		CHECK(io_submit(aio, WRITES, list) == WRITES, "io_submit");
}

/* Unwritten blocks, so that a worker has to complete the writes. */
CASE(pending, "pending")
{
	u8 *data = xalloc(SIZE), *found = xalloc(2 * SIZE);

	fill(data, SIZE, env.seed);
	dir = xopen(".", O_RDONLY | O_DIRECTORY);
	at_end = thaw;
	for (u32 i = 0; i < 4 * ARRAY_SIZE(steps); i++) {
		const char *name = steps[i / 4].name;
		int status, fd = create("pending", O_DIRECT);
		pid_t child;

		xfallocate(fd, 0, 0, SIZE);
		child = fork();
		OK(child);
		if (!child) {
			submit(i & 1, fd, data, i & 2 ? RWF_DSYNC : 0);
			steps[i / 4].step(fd);
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && !status, "%s: status %#x", name, status);
		OK(fsync(fd));
		OK(ftruncate(fd, 2 * SIZE));
		read_all(fd, found, 2 * SIZE, 0);
		/*
		 * A ring writes on for a while when its task is gone. f2fs has no unwritten blocks, and
		 * shows what was there before. Seen with C.
		 */
		for (u32 n = 0; n < 2 * WRITES && !is_fs("f2fs"); n++) {
			const u8 *at = found + n * LEN;

			CHECK(all_bytes(at, LEN, 0) || (n < WRITES && !memcmp(at, data + n * LEN, LEN)),
			      "%s: write %u has other data", name, n);
		}
		OK(close(fd));
	}
}

static u64 free_blocks(int fd)
{
	struct statfs fs;

	OK(fstatfs(fd, &fs));
	return fs.f_bfree;
}

/* How much XFS keeps for transactions that must not fail */
static void keep_blocks(int fd, u64 blocks)
{
	struct { u64 wanted, left; } reserve = { .wanted = blocks };

	OK(ioctl(fd, _IOWR('X', 114, reserve), &reserve));
}

/*
 * A worker of XFS that finds no space for the conversion of blocks waits for a scan that gives back blocks behind
 * the ends of files (xfs_blockgc_flush_all()). If this file has some, the scan must not wait for the worker.
 * Needs a mount with allocsize=1m.
 */
CASE(no_space, "no-space")
{
	const u32 bs = env.blksz, most = 256;
	const u64 written = 64 * KiB, size = 512 * KiB;
	u8 *data = xalloc(bs), *found = xalloc(size), *want = xalloc(size);
	int fd = create("no-space", 0), other = create("no-space-filler", 0), dfd;
	u64 taken = 0;
	bool was_full = false;
	io_context_t aio = NULL;

	/* What is allocated ahead is in the file in part, and stays behind its end for the rest. */
	keep_blocks(fd, 0);
	fill(want, written, env.seed);
	write_all(fd, want, written, 0);
	OK(fsync(fd));
	OK(ftruncate(fd, size));
	dfd = xopen("no-space", O_RDWR | O_DIRECT);
	OK(io_setup(1, &aio));

	/* An allocation needs less than a conversion, which may split a tree twice. So this comes first. */
	taken = free_blocks(fd) - most;
	xfallocate(other, 0, 0, taken * bs);
	for (u64 at = written; !was_full && at < size; at += bs) {
		struct timespec patience = { .tv_sec = 120 };
		struct iocb iocb, *list = &iocb;
		struct io_event event;

		while (free_blocks(fd) > most / 16)
			xfallocate(other, 0, taken++ * bs, bs);
		fill(data, bs, at);
		io_prep_pwrite(list, dfd, data, bs, at);
		CHECK(io_submit(aio, 1, &list) == 1, "io_submit");
		CHECK(io_getevents(aio, 1, 1, &event, &patience) == 1, "the write hangs with %llu free blocks",
		      free_blocks(fd));
		was_full = event.res == (unsigned long)-ENOSPC;
		CHECK(was_full || event.res == bs, "write at %llu: %ld", at, (long)event.res);
		if (!was_full)
			memcpy(want + at, data, bs);
		xfallocate(other, 0, taken++ * bs, bs);
	}
	CHECK(was_full, "%llu blocks are free", free_blocks(fd));
	read_all(dfd, found, size, 0);
	CHECK_SAME(found, want, size, "file");
	OK(unlink("no-space-filler"));
	OK(close(other));
	keep_blocks(fd, 1024);
}
