/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Direct I/O tests for a mounted file system: what the case files share.
 *
 * The harness of kselftest runs every case in its own process, so a case ends by calling fail(),
 * skip() or by returning. What a case observes goes two ways: it is checked here, and it is
 * written with rec() to a record that the caller compares between the two implementations. Only
 * facts that do not depend on timing may be recorded.
 */
#ifndef DIO_TEST_H
#define DIO_TEST_H

#include <asm/types.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <kselftest.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#define SECTOR		512U
#define KiB		1024U
#define MiB		(1024U * 1024U)
#define min(a, b)	({ __auto_type _a = (a); __auto_type _b = (b); _a < _b ? _a : _b; })
#define max(a, b)	({ __auto_type _a = (a); __auto_type _b = (b); _a > _b ? _a : _b; })

/* What the tests are told (DIO_DIR and so on) or find out about the file system under test. */
struct env {
	const char *dir;	/* mount point */
	const char *disk;	/* name below /sys/block */
	const char *fstype;
	const char *impl;	/* "c", "rust" or "both" */
	const char *manifest;	/* where keep() notes a file */
	u64 seed;
	u32 scale;		/* percent of the usual amount of work */
	u32 blksz;		/* file system block size */
	u32 mem_align;		/* what a buffer must be aligned to */
	/*
	 * Misaligned direct I/O is refused with EINVAL. The others quietly turn it into
	 * buffered I/O.
	 */
	bool strict;
	/*
	 * A direct write that is not made of whole blocks may turn into a buffered one, which may
	 * not run concurrently with direct I/O to neighbouring blocks.
	 */
	bool subblock_buffered;
	bool encrypted;		/* new files are */
	bool reflink;
	bool bounce;		/* XFS copies through memory of its own */
	bool always_cow;	/* XFS writes everything to a new place */
};

extern struct env env;

struct test_case {
	const char *name;
	void (*fn)(const void *arg);
	const void *arg;
};

extern const struct test_case mix_cases[], basic_cases[], fault_cases[], race_cases[],
	error_cases[], zone_cases[];

/* dio_test.c */
__noreturn __printf(1, 2) void fail(const char *fmt, ...);
__noreturn __printf(1, 2) void skip(const char *fmt, ...);
__printf(1, 2) void rec(const char *fmt, ...);
#define CHECK(cond, fmt, ...)						\
	do {								\
		if (!(cond))						\
			fail("%s:%d: " fmt, __func__, __LINE__, ##__VA_ARGS__);	\
	} while (0)

u64 rnd_next(u64 *state);
u64 rnd_below(u64 *state, u64 n);	/* 0 <= result < n */
void fill(void *buf, size_t len, u64 seed);
u64 hash(const void *buf, size_t len);
bool all_bytes(const void *buf, size_t len, u8 byte);
size_t first_diff(const void *a, const void *b, size_t len);

const char *path_of(const char *name);
int xopen(const char *name, int flags);
void *xalloc(size_t len);		/* zeroed, page aligned, its own mapping */
s64 xpread(int fd, void *buf, size_t len, u64 off);	/* count or -errno */
s64 xpwrite(int fd, const void *buf, size_t len, u64 off);
s64 xpreadv2(int fd, const struct iovec *iov, int n, u64 off, int flags);
s64 xpwritev2(int fd, const struct iovec *iov, int n, u64 off, int flags);
void write_all(int fd, const void *buf, size_t len, u64 off);
void read_all(int fd, void *buf, size_t len, u64 off);
u64 file_size(int fd);
void drop_cache(int fd);		/* write back and forget this file's pages */
void drop_all_caches(void);
u64 file_hash(const char *name);	/* buffered read after dropping the cache */
void check_file(const char *name, const void *want, size_t len);
void keep(const char *name);		/* also verify this file after a remount */
bool write_str(const char *path, const char *s);
void set_io_timeout(const char *ms);	/* of the disk */

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

extern const char *const engine_names[ENG_NR];

#define ENG_DEPTH	8
#define ENG_MAX_IO	(4 * MiB)
/* Room for the segments of a vectored request and the gaps between them. */
#define ENG_ARENA	(ENG_MAX_IO * 2 + MiB)

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

	/* private to the engine */
	u8 *arena;
	struct iovec *iov;
	int niov;
};

struct engine;
struct engine *eng_open(enum engine_kind kind);
void eng_close(struct engine *e);
/* Lays out request i of a batch; then its data goes in, or comes out, with these two. */
void eng_prep(struct engine *e, int i, struct req *r);
void req_put_data(struct req *r, const void *data);
void req_get_data(const struct req *r, void *data, size_t len);
/* What lies around the segments of a request must still be what eng_prep() put there. */
void req_check_guards(const struct req *r);
/* Runs a prepared batch and waits for all of it. */
void eng_run(struct engine *e, struct req *reqs, int n);
/* One request from start to end, with the caller's buffer copied in or out. */
s64 eng_write(struct engine *e, int fd, const void *buf, u32 len, u64 off, int rwf);
s64 eng_read(struct engine *e, int fd, void *buf, u32 len, u64 off, int rwf);
/* One request on a raw user address. */
s64 eng_raw(struct engine *e, bool write, int fd, void *addr, u32 len, u64 off, int rwf);

#endif
