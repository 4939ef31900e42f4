/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Direct I/O tests for a mounted file system: what the case files share.
 *
 * The harness of kselftest runs every case in its own process, so a case ends by calling fail(),
 * skip() or by returning, and leaves it to the kernel to free what it has. What a case observes
 * goes two ways: it is checked here, and it is written with rec() to a record that the caller
 * compares between the two implementations. Only facts that do not depend on timing may be recorded.
 */
#ifndef DIO_TEST_H
#define DIO_TEST_H

#include <asm/types.h>
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <liburing.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <kselftest.h>

/* The kernel is built without this warning as well. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#define PAGE		4096U
#define SECTOR		512U
#define KiB		1024U
#define MiB		(1024U * 1024U)
#define BIT(n)		(1U << (n))
#define min(a, b)	({ __auto_type _a = (a); __auto_type _b = (b); _a < _b ? _a : _b; })
#define max(a, b)	({ __auto_type _a = (a); __auto_type _b = (b); _a > _b ? _a : _b; })
#define round_up(n, to)	(((n) + (to) - 1) / (to) * (to))

/* What the tests are told (DIO_DIR and so on) or find out about the file system under test. */
struct env {
	const char *dir;	/* mount point, and the working directory */
	const char *disk;	/* name below /sys/block */
	const char *fstype;
	const char *impl;	/* "c", "rust" or "both" */
	const char *manifest;	/* what is to be there after a remount */
	u64 seed;
	u32 scale;		/* percent of the usual amount of work */
	u32 blksz;		/* file system block size */
	u32 mem_align;		/* what a buffer must be aligned to */
	/*
	 * Misaligned direct I/O is refused with EINVAL. The others quietly turn it into
	 * buffered I/O, as they do with a direct write that is not made of whole blocks. That may
	 * not run concurrently with direct I/O to neighbouring blocks.
	 */
	bool strict;
	bool encrypted;		/* new files are */
	bool polls;		/* the disk has a queue for it, and the file system ->iopoll() */
	bool reflink;
	bool bounce;		/* XFS copies through memory of its own */
	bool always_cow;	/* XFS writes everything to a new place */
};

extern struct env env;

static inline bool is_fs(const char *type)
{
	return !strcmp(env.fstype, type);
}

/*
 * A case, or one for each of a set (of engines, if it has no names of its own): the name of the
 * member then follows that of the case, and its number is the argument.
 */
struct test_case {
	const char *name;
	u32 set;
	const char *const *names;
	void (*fn)(int arg);
	int arg;
};

/* CASE(function, name of the case[, set[, names]]) { ... } */
#define CASE(function, ...)						\
	static void function(int arg);					\
	__attribute__((constructor)) static void add_##function(void)	\
	{								\
		add_case(&(struct test_case){ __VA_ARGS__, .fn = function });	\
	}								\
	static void function(int arg)

/* dio_test.c */
void add_case(const struct test_case *c);
extern const char *case_name;
extern FILE *record;
#define rec(fmt, ...)	fprintf(record, "%s\t" fmt "\n", case_name, ##__VA_ARGS__)

extern void (*at_end)(void);	/* undoes what the next case must not find, however this one ends */
__noreturn __printf(2, 3) void finish(int code, const char *fmt, ...);
#define skip(...)	finish(KSFT_SKIP, __VA_ARGS__)
#define fail(fmt, ...)	finish(KSFT_FAIL, "%s:%d: " fmt, __func__, __LINE__, ##__VA_ARGS__)
#define CHECK(cond, fmt, ...)						\
	do {								\
		if (!(cond))						\
			fail(fmt, ##__VA_ARGS__);			\
	} while (0)
/* A system call that must not fail */
#define OK(call)	CHECK((call) >= 0, "%s: %s", #call, strerror(errno))
/* The count that a system call returns, or -errno */
#define RET(call)	({ s64 _ret = (call); _ret < 0 ? -errno : _ret; })
/* What the kernel answers is for the record, and has to be right. */
#define ANSWER_IF(ret, right, fmt, ...)					\
	do {								\
		rec(fmt " -> %lld", ##__VA_ARGS__, ret);		\
		CHECK(right, fmt ": %lld", ##__VA_ARGS__, ret);		\
	} while (0)
#define ANSWER(call, want, fmt, ...)					\
	do {								\
		s64 _answer = (call);					\
									\
		ANSWER_IF(_answer, _answer == (s64)(want), fmt, ##__VA_ARGS__);	\
	} while (0)

u64 rnd_next(u64 *state);
u64 rnd_below(u64 *state, u64 n);	/* 0 <= result < n */
void fill(void *buf, size_t len, u64 seed);
u64 hash(const void *buf, size_t len);
bool all_bytes(const void *buf, size_t len, u8 byte);
size_t first_diff(const void *a, const void *b, size_t len);
#define CHECK_SAME(got, want, len, fmt, ...)					\
	CHECK(!memcmp(got, want, len), fmt ": wrong data from byte %zu", ##__VA_ARGS__, \
	      first_diff(got, want, len))

int xopen(const char *name, int flags);
int create(const char *name, int flags);	/* or truncates; to read and write */
/* Shared with a file, or zeroed pages if fd is -1 */
void *xmap(int fd, size_t len, int prot);
void *xalloc(size_t len);
void xfallocate(int fd, int mode, u64 off, u64 len);
void write_all(int fd, const void *buf, size_t len, u64 off);
void read_all(int fd, void *buf, size_t len, u64 off);
/* What read_all() reads must be what is in want. */
void check_bytes(const char *func, int line, int fd, const void *want, size_t len, u64 off);
#define CHECK_BYTES(...)	check_bytes(__func__, __LINE__, __VA_ARGS__)
u64 file_size(int fd);
#define CHECK_SIZE(fd, size)						\
	CHECK(file_size(fd) == (size), "size %llu, not %llu", file_size(fd), (u64)(size))
void drop_cache(int fd);		/* write back and forget this file's pages */
u64 file_hash(const char *name);	/* buffered read after dropping the cache */
/* In the cache and on disk; what a case checks last, and passes, is checked after a remount again. */
void check_file(const char *name, const void *want, size_t len);
void keep(const char *name, u64 hash);	/* for after the remount */
bool write_str(const char *path, const char *s);
void set_queue(const char *attribute, u32 value);	/* of the disk */

/* engine.c */
enum engine_kind {
	ENG_SYNC,
	ENG_VEC,		/* preadv2/pwritev2, split into odd segments */
	ENG_AIO,
	ENG_URING,
	ENG_URING_FIXED,	/* registered buffers */
	ENG_URING_POLL,		/* registered buffers on a polled ring */
	ENG_NR,
};

/* Sets of engines: those that need no disk that polls, and of these */
#define PLAIN		(BIT(ENG_URING_POLL) - 1)
#define ONE_BUFFER	(BIT(ENG_SYNC) | BIT(ENG_AIO) | BIT(ENG_URING))	/* as it is given */
#define ASYNC		(BIT(ENG_AIO) | BIT(ENG_URING) | BIT(ENG_URING_FIXED))

#define ENG_DEPTH	8
#define ENG_MAX_IO	(4 * MiB)

extern const char *const engine_names[ENG_NR];

struct req {
	bool write;
	int fd;
	u64 off;
	u32 len;
	u32 shift;		/* misplace the buffer by that many bytes */
	int rwf;		/* RWF_* */
	bool vec;		/* several segments, where the engine can */
	u64 seed;		/* splits the segments */
	s64 res;		/* count or -errno */

	/* private to engine.c */
	int slot;		/* which arena the segments lie in; -1 if in none */
	struct iovec *iov;
	int niov;
};

struct engine {
	enum engine_kind kind;
	const char *name;
	struct req reqs[ENG_DEPTH];	/* the batch */

	/* private to engine.c */
	int n;
	u8 *arena[ENG_DEPTH], *buf;
	struct iovec *iov[ENG_DEPTH];
	bool registered[ENG_DEPTH];
	io_context_t aio;
	struct io_uring ring;
};

struct engine *eng_open(enum engine_kind kind);
void eng_close(struct engine *e);
/* Each engine of a set in turn: closes the one before, NULL at the end */
struct engine *eng_next(struct engine *e, u32 set);
#define for_each_engine(e, set)	for (struct engine *e = NULL; (e = eng_next(e, set)); )

/* Lays out one more request of the batch, with its data if that is to be written. */
struct req *eng_add(struct engine *e, struct req r, const void *data);
/* Runs the batch and waits for all of it. */
void eng_run(struct engine *e);
/* The same, and each must do all of it. */
void eng_check_run(const char *func, int line, struct engine *e);
#define CHECK_RUN(e)	eng_check_run(__func__, __LINE__, e)
/* Runs copies of requests that were in a batch. */
void eng_run_again(struct engine *e, struct req *reqs, int n);
void req_get_data(const struct req *r, void *data, size_t len);
/* What lies around the segments of a request must still be what eng_add() put there. */
void req_check_guards(const struct engine *e, const struct req *r);
/* One request from start to end, with the caller's buffer copied in or out. */
s64 eng_write(struct engine *e, int fd, const void *buf, u32 len, u64 off, int rwf);
s64 eng_read(struct engine *e, int fd, void *buf, u32 len, u64 off);
/* The same, and it must do all of it; what it reads must be what is in want. */
void eng_check_write(const char *func, int line, struct engine *e, int fd, const void *buf,
		     u32 len, u64 off, int rwf);
void eng_check_read(const char *func, int line, struct engine *e, int fd, const void *want,
		    u32 len, u64 off);
#define CHECK_WRITE(...)	eng_check_write(__func__, __LINE__, __VA_ARGS__)
#define CHECK_READ(...)		eng_check_read(__func__, __LINE__, __VA_ARGS__)
/* One request on a raw user address */
s64 eng_raw(struct engine *e, bool write, int fd, void *addr, u32 len, u64 off);
/* Whether the disk polls, and a polled write of which a defect of the C code may keep the case */
void usual_io_timeout(void);
void polled_write(struct engine *e, int fd, const void *buf, u32 len, bool defect, const char *why);

#endif
