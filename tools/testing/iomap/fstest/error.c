// SPDX-License-Identifier: GPL-2.0
/*
 * Disks that fail. The block layer fails bios before they reach the driver (error_injection in
 * debugfs), null_blk fails requests when it completes them (badblocks in configfs); the first kind
 * races with submission, the second comes from interrupt context.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "dio_test.h"

#define ERR_SIZE	(2 * MiB)
#define WRITE_SIZE	(1 * MiB)	/* a mapped and an unwritten half */

enum method { INJECT, BADBLOCKS };

static const char *control(enum method m)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), m == INJECT ? "/sys/kernel/debug/block/%s/error_injection" :
		 "/sys/kernel/config/nullb/%s/badblocks", env.disk);
	return path;
}

static void break_disk(enum method m, bool write, u64 sector, u64 n, const char *status)
{
	char rule[128];

	if (m == INJECT)
		snprintf(rule, sizeof(rule), "add,op=%s,start=%llu,nr_sectors=%llu,status=%s",
			 write ? "WRITE" : "READ", sector, n, status);
	else
		snprintf(rule, sizeof(rule), "+%llu-%llu", sector, sector + n - 1);
	CHECK(write_str(control(m), rule), "%s: %s: %s", control(m), rule, strerror(errno));
}

static void mend_disk(enum method m, u64 sector, u64 n)
{
	char rule[128] = "removeall";

	if (m == BADBLOCKS)
		snprintf(rule, sizeof(rule), "-%llu-%llu", sector, sector + n - 1);
	CHECK(write_str(control(m), rule), "%s: %s: %s", control(m), rule, strerror(errno));
}

/* Which sector of the disk holds this byte of the file? */
static u64 sector_of(int fd, u64 off)
{
	struct {
		struct fiemap map;
		struct fiemap_extent extent;
	} f = { .map = { .fm_start = off, .fm_length = 1, .fm_extent_count = 1 } };

	CHECK(!ioctl(fd, FS_IOC_FIEMAP, &f.map), "FIEMAP: %s", strerror(errno));
	CHECK(f.map.fm_mapped_extents == 1 && f.extent.fe_physical, "byte %llu is not mapped", off);
	return (f.extent.fe_physical + off - f.extent.fe_logical) / SECTOR;
}

static void need(enum method m, bool write)
{
	if (!strcmp(env.fstype, "btrfs"))
		skip("btrfs numbers its sectors differently and writes elsewhere every time");
	if (access(control(m), W_OK))
		skip("%s: %s", control(m), strerror(errno));
}

/*
 * The tests below leave the disk as it was only when they pass: what fails goes through here, so
 * that the next case does not start with a broken disk.
 */
#define CHECK_MEND(cond, fmt, ...)					\
	do {								\
		if (!(cond)) {						\
			mend_disk(m, bad, nr);				\
			fail("%s:%d: " fmt, __func__, __LINE__, ##__VA_ARGS__);	\
		}							\
	} while (0)

static const enum engine_kind engines[] = { ENG_SYNC, ENG_VEC, ENG_AIO, ENG_URING,
					    ENG_URING_FIXED };

static void read_errors(const void *arg)
{
	enum method m = (enum method)(uintptr_t)arg;
	static const struct {
		const char *status;
		int err;
	} kinds[] = {
		{ "IOERR", EIO }, { "MEDIUM", ENODATA }, { "NOSPC", ENOSPC },
		{ "TIMEOUT", ETIMEDOUT }, { "PROTECTION", EILSEQ },
	};
	u8 *want = xalloc(ERR_SIZE), *buf = xalloc(ERR_SIZE);
	u64 bad_off = 1 * MiB + 20 * KiB, bad, nr = 1;
	int fd;

	need(m, false);
	fd = xopen("error", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);
	fill(want, ERR_SIZE, 1);
	write_all(fd, want, ERR_SIZE, 0);
	CHECK(!fsync(fd), "fsync");
	bad = sector_of(fd, bad_off);

	for (size_t i = 0; i < (m == INJECT ? ARRAY_SIZE(kinds) : 1); i++) {
		break_disk(m, false, bad, nr, kinds[i].status);
		for (size_t k = 0; k < ARRAY_SIZE(engines); k++) {
			struct engine *e;
			const char *en = engine_names[engines[k]];
			static const struct {
				s64 rel;
				u32 len;
				bool hit;
			} v[] = {
				{ 0, 4096, true }, { 0, SECTOR, true }, { -4096, 4096, false },
				{ 4096, 4096, false }, { SECTOR, SECTOR, false },
				{ -65536, 131072, true }, { -65536, 65536, false },
				{ -1048576, 1792 * KiB, true }, { -8192, 8192 + SECTOR, true },
			};

			/* The other kinds of error differ in the number only. */
			if (i && engines[k] != ENG_SYNC && engines[k] != ENG_URING)
				continue;
			e = eng_open(engines[k]);
			for (size_t t = 0; t < ARRAY_SIZE(v); t++) {
				/* f2fs reads what is not made of whole blocks through the cache. */
				bool direct = env.strict || !(v[t].len % 4096 || v[t].rel % 4096 ||
							      engines[k] == ENG_VEC);
				s64 ret;

				if (!direct)
					continue;
				ret = eng_read(e, fd, buf, v[t].len, bad_off + v[t].rel, 0);
				rec("%s %s at %lld len %u -> %lld", en, kinds[i].status, v[t].rel,
				    v[t].len, ret);
				CHECK_MEND(ret == (v[t].hit ? -kinds[i].err : (s64)v[t].len),
					   "%s: %s: read of %u at %lld from the bad sector: %lld",
					   en, kinds[i].status, v[t].len, v[t].rel, ret);
				CHECK_MEND(ret < 0 || !memcmp(buf, want + bad_off + v[t].rel, ret),
					   "%s: wrong data", en);
			}
			/* One of several in flight */
			if (engines[k] >= ENG_AIO) {
				struct req reqs[ENG_DEPTH] = { };

				for (u32 q = 0; q < ENG_DEPTH; q++) {
					reqs[q].fd = fd;
					reqs[q].len = 16 * KiB;
					reqs[q].off = bad_off - 4096 + (q - 3ULL) * 32 * KiB;
					eng_prep(e, q, &reqs[q]);
				}
				eng_run(e, reqs, ENG_DEPTH);
				for (u32 q = 0; q < ENG_DEPTH; q++)
					CHECK_MEND(reqs[q].res ==
						   (q == 3 ? -kinds[i].err : 16 * (s64)KiB),
						   "%s: request %u of a batch: %lld", en, q,
						   reqs[q].res);
			}
			eng_close(e);
		}
		mend_disk(m, bad, nr);
	}
	close(fd);
	check_file("error", want, ERR_SIZE);
}

static void write_errors(const void *arg)
{
	enum method m = (enum method)(uintptr_t)arg;
	static const char *const places[] = { "mapped", "unwritten", "mapped-dsync",
					      "unwritten-dsync" };
	u8 *want = xalloc(WRITE_SIZE), *buf = xalloc(WRITE_SIZE), *data = xalloc(WRITE_SIZE);
	u64 bad, nr = 1;

	need(m, true);
	for (size_t k = 0; k < ARRAY_SIZE(engines); k++) {
		const char *en = engine_names[engines[k]];

		if (engines[k] == ENG_VEC || engines[k] == ENG_URING)
			continue;
		for (int place = 0; place < 4; place++) {
			struct engine *e = eng_open(engines[k]);
			u64 base = place & 1 ? WRITE_SIZE / 2 : 0, off = base + 128 * KiB;
			int rwf = place & 2 ? RWF_DSYNC : 0, fd;
			s64 ret;

			/* f2fs does not say where such space is. */
			if (place & 1 && !strcmp(env.fstype, "f2fs")) {
				eng_close(e);
				continue;
			}
			unlink(path_of("error"));
			fd = xopen("error", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);
			memset(want, 0, WRITE_SIZE);
			fill(want, WRITE_SIZE / 2, k);
			write_all(fd, want, WRITE_SIZE / 2, 0);
			if (fallocate(fd, 0, WRITE_SIZE / 2, WRITE_SIZE / 2))
				skip("fallocate: %s", strerror(errno));
			CHECK(!fsync(fd), "fsync");
			bad = sector_of(fd, off);
			fill(data, WRITE_SIZE, place + 100);
			break_disk(m, true, bad, nr, "IOERR");

			/* Around it, into it, across it, and one of several */
			ret = eng_write(e, fd, data, 4096, off - 4096, rwf);
			CHECK_MEND(ret == 4096, "%s %s: write before the bad sector: %lld", en,
				   places[place], ret);
			memcpy(want + off - 4096, data, 4096);
			ret = eng_write(e, fd, data, 4096, off, rwf);
			rec("%s %s 4k -> %lld", en, places[place], ret);
			CHECK_MEND(ret == -EIO, "%s %s: write to the bad sector: %lld", en,
				   places[place], ret);
			if (env.strict) {
				ret = eng_write(e, fd, data, SECTOR, off, rwf);
				rec("%s %s 512 -> %lld", en, places[place], ret);
				CHECK_MEND(ret == -EIO, "%s %s: 512 bytes to the bad sector: %lld",
					   en, places[place], ret);
			}
			ret = eng_write(e, fd, data, 128 * KiB, off - 64 * KiB, rwf);
			rec("%s %s 128k -> %lld", en, places[place], ret);
			CHECK_MEND(ret == -EIO, "%s %s: write across the bad sector: %lld", en,
				   places[place], ret);
			ret = eng_write(e, fd, data, 64 * KiB, off + 300 * KiB, rwf);
			CHECK_MEND(ret == 64 * KiB, "%s %s: write elsewhere: %lld", en,
				   places[place], ret);
			memcpy(want + off + 300 * KiB, data, 64 * KiB);
			if (engines[k] >= ENG_AIO) {
				struct req reqs[ENG_DEPTH] = { };

				for (u32 q = 0; q < ENG_DEPTH; q++) {
					reqs[q] = (struct req){
						.write = true, .fd = fd, .len = 16 * KiB,
						.off = off + q * 32ULL * KiB, .rwf = rwf,
					};
					eng_prep(e, q, &reqs[q]);
					req_put_data(&reqs[q], data);
				}
				eng_run(e, reqs, ENG_DEPTH);
				for (u32 q = 0; q < ENG_DEPTH; q++)
					CHECK_MEND(reqs[q].res == (q ? 16 * (s64)KiB : -EIO),
						   "%s %s: request %u of a batch: %lld", en,
						   places[place], q, reqs[q].res);
				for (u32 q = 1; q < ENG_DEPTH; q++)
					memcpy(want + reqs[q].off, data, 16 * KiB);
			}
			mend_disk(m, bad, nr);
			CHECK(file_size(fd) == WRITE_SIZE, "size %llu", file_size(fd));

			/*
			 * Where a write failed, each sector is as it was or as it was to be, and
			 * not what the disk held before; everywhere else nothing changed.
			 */
			read_all(fd, buf, WRITE_SIZE, 0);
			for (u64 i = 0; i < WRITE_SIZE; i += SECTOR) {
				const u8 *old = want + i, *new = NULL, *new2 = NULL, *new3 = NULL;

				if (i >= off - 64 * KiB && i < off + 64 * KiB)
					new = data + i - (off - 64 * KiB);
				if (i >= off && i < off + 16 * KiB)
					new2 = data + i - off;
				if (i == off)
					new3 = data;
				CHECK(!memcmp(buf + i, old, SECTOR) ||
				      (new && !memcmp(buf + i, new, SECTOR)) ||
				      (new2 && !memcmp(buf + i, new2, SECTOR)) ||
				      (new3 && !memcmp(buf + i, new3, SECTOR)) ||
				      (place & 1 && new && all_bytes(buf + i, SECTOR, 0)),
				      "%s %s: byte %llu is neither old nor new", en, places[place],
				      i);
			}
			/* And it works again. */
			ret = eng_write(e, fd, data, 128 * KiB, off - 64 * KiB, rwf);
			CHECK(ret == 128 * KiB, "%s %s: write after the disk was mended: %lld", en,
			      places[place], ret);
			ret = eng_read(e, fd, buf, 128 * KiB, off - 64 * KiB, 0);
			CHECK(ret == 128 * KiB && !memcmp(buf, data, ret), "%s %s: reads back wrong",
			      en, places[place]);
			close(fd);
			eng_close(e);
		}
	}
}

/* A write that fails behind the end of the file does not make it longer. */
static void extend_errors(const void *arg)
{
	enum method m = (enum method)(uintptr_t)arg;
	u8 *data = xalloc(MiB);
	u64 bad, nr = 256;

	need(m, true);
	if (!strcmp(env.fstype, "f2fs"))
		skip("f2fs does not say where fallocated space is");
	for (size_t k = 0; k < ARRAY_SIZE(engines); k++) {
		struct engine *e = eng_open(engines[k]);
		int fd;
		s64 ret;

		unlink(path_of("error-extend"));
		fd = xopen("error-extend", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);
		fill(data, MiB, k);
		write_all(fd, data, 64 * KiB, 0);
		/* space behind the end, so that its place is known */
		if (fallocate(fd, 1 /* KEEP_SIZE */, 0, MiB))
			skip("fallocate: %s", strerror(errno));
		CHECK(!fsync(fd), "fsync");
		bad = sector_of(fd, 256 * KiB);
		break_disk(m, true, bad, nr, "IOERR");
		ret = eng_write(e, fd, data, 64 * KiB, 256 * KiB, 0);
		rec("%s -> %lld", engine_names[engines[k]], ret);
		CHECK_MEND(ret == -EIO, "%s: %lld", engine_names[engines[k]], ret);
		CHECK_MEND(file_size(fd) == 64 * KiB, "%s: the file grew to %llu",
			   engine_names[engines[k]], file_size(fd));
		mend_disk(m, bad, nr);
		ret = eng_write(e, fd, data + 64 * KiB, 64 * KiB, 64 * KiB, 0);
		CHECK(ret == 64 * KiB, "write after the disk was mended: %lld", ret);
		close(fd);
		check_file("error-extend", data, 128 * KiB);
		eng_close(e);
	}
}

#define BOTH(fn, name)					\
	{ name "-inject", fn, (void *)INJECT },		\
	{ name "-badblocks", fn, (void *)BADBLOCKS }
const struct test_case error_cases[] = {
	BOTH(read_errors, "read-error"),
	BOTH(write_errors, "write-error"),
	BOTH(extend_errors, "extend-error"),
	{ }
};
