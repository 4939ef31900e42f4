// SPDX-License-Identifier: GPL-2.0
/*
 * Disks that fail. The block layer fails bios before they reach the driver (error_injection in
 * debugfs), null_blk fails requests when it completes them (badblocks in configfs); the first kind
 * races with submission, the second comes from interrupt context.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "dio_test.h"

#define ERR_SIZE	(2 * MiB)
#define WRITE_SIZE	(1 * MiB)	/* a mapped and an unwritten half */

enum method { INJECT, BADBLOCKS, NR_METHODS };
static const char *const methods[] = { "inject", "badblocks" };

/* What is broken now */
static struct {
	enum method method;
	u64 sector, n;
} bad;

static void set_rule(const char *rule)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), bad.method == INJECT ? "/sys/kernel/debug/block/%s/error_injection" :
		 "/sys/kernel/config/nullb/%s/badblocks", env.disk);
	CHECK(write_str(path, rule), "%s: %s: %s", path, rule, strerror(errno));
}

static void mend_disk(void)
{
	char rule[128] = "removeall";

	at_end = NULL;
	if (bad.method == BADBLOCKS)
		snprintf(rule, sizeof(rule), "-%llu-%llu", bad.sector, bad.sector + bad.n - 1);
	set_rule(rule);
}

/* The next case must not start with a broken disk, whatever becomes of this one. */
static void break_disk(enum method m, bool write, u64 sector, u64 n, const char *status)
{
	char rule[128];

	bad.method = m;
	bad.sector = sector;
	bad.n = n;
	if (m == INJECT)
		snprintf(rule, sizeof(rule), "add,op=%s,start=%llu,nr_sectors=%llu,status=%s",
			 write ? "WRITE" : "READ", sector, n, status);
	else
		snprintf(rule, sizeof(rule), "+%llu-%llu", sector, sector + n - 1);
	set_rule(rule);
	at_end = mend_disk;
}

/* Which sector of the disk holds this byte of the file? */
static u64 sector_of(int fd, u64 off)
{
	struct {
		struct fiemap map;
		struct fiemap_extent extent;
	} f = { .map = { .fm_start = off, .fm_length = 1, .fm_extent_count = 1 } };

	if (is_fs("btrfs"))
		skip("btrfs numbers its sectors differently and writes elsewhere every time");
	OK(fsync(fd));
	OK(ioctl(fd, FS_IOC_FIEMAP, &f.map));
	CHECK(f.map.fm_mapped_extents == 1 && f.extent.fe_physical, "byte %llu is not mapped", off);
	return (f.extent.fe_physical + off - f.extent.fe_logical) / SECTOR;
}

/* Requests of 16 KiB in flight together, the first at r.off; one of them hits the bad sector. */
static void check_batch(struct engine *e, struct req r, const void *data, u32 hit, int err)
{
	if (e->kind < ENG_AIO)
		return;
	r.len = 16 * KiB;
	for (u32 q = 0; q < ENG_DEPTH; q++, r.off += 32 * KiB)
		eng_add(e, r, data);
	eng_run(e);
	for (u32 q = 0; q < ENG_DEPTH; q++)
		CHECK(e->reqs[q].res == (q == hit ? -err : (s64)r.len),
		      "%s: request %u of a batch: %lld", e->name, q, e->reqs[q].res);
}

CASE(read_errors, "read-error", BIT(NR_METHODS) - 1, methods)
{
	static const struct {
		const char *status;
		int err;
	} kinds[] = {
		{ "IOERR", EIO }, { "MEDIUM", ENODATA }, { "NOSPC", ENOSPC },
		{ "TIMEOUT", ETIMEDOUT }, { "PROTECTION", EILSEQ },
	};
	static const struct {
		s64 rel;
		u32 len;
		bool hit;
	} v[] = {
		{ 0, 4096, true }, { 0, SECTOR, true }, { -4096, 4096, false },
		{ 4096, 4096, false }, { SECTOR, SECTOR, false }, { -65536, 131072, true },
		{ -65536, 65536, false }, { -1048576, 1792 * KiB, true },
		{ -8192, 8192 + SECTOR, true },
	};
	u8 *want = xalloc(ERR_SIZE), *buf = xalloc(ERR_SIZE);
	u64 bad_off = 1 * MiB + 20 * KiB, sector;
	int fd = create("error", O_DIRECT);

	fill(want, ERR_SIZE, 1);
	write_all(fd, want, ERR_SIZE, 0);
	sector = sector_of(fd, bad_off);

	for (size_t i = 0; i < (arg == INJECT ? ARRAY_SIZE(kinds) : 1); i++) {
		break_disk(arg, false, sector, 1, kinds[i].status);
		/* The other kinds of error differ in the number only. */
		for_each_engine(e, i ? BIT(ENG_SYNC) | BIT(ENG_URING) : PLAIN) {
			for (size_t t = 0; t < ARRAY_SIZE(v); t++) {
				s64 ret;

				/* f2fs reads what is not made of whole blocks through the cache. */
				if (!env.strict && (v[t].len % 4096 || v[t].rel % 4096 ||
						    e->kind == ENG_VEC))
					continue;
				ret = eng_read(e, fd, buf, v[t].len, bad_off + v[t].rel);
				ANSWER_IF(ret, ret == (v[t].hit ? -kinds[i].err : (s64)v[t].len),
				       "%s %s at %lld len %u", e->name, kinds[i].status, v[t].rel,
				       v[t].len);
				CHECK(ret < 0 || !memcmp(buf, want + bad_off + v[t].rel, ret),
				      "%s: wrong data", e->name);
			}
			check_batch(e, (struct req){ .fd = fd, .off = bad_off - 100 * KiB }, NULL, 3,
				    kinds[i].err);
		}
		mend_disk();
	}
	check_file("error", want, ERR_SIZE);
}

CASE(write_errors, "write-error", BIT(NR_METHODS) - 1, methods)
{
	static const char *const places[] = { "mapped", "unwritten", "mapped-dsync",
					      "unwritten-dsync" };
	/* Around the bad sector, into it, across it, elsewhere */
	static const struct {
		s64 rel;
		u32 len;
		bool hit;
	} v[] = {
		{ -4096, 4096 }, { 0, 4096, true }, { 0, SECTOR, true },
		{ -65536, 131072, true }, { 300 * KiB, 65536 },
	};
	u8 *want = xalloc(WRITE_SIZE), *buf = xalloc(WRITE_SIZE), *data = xalloc(WRITE_SIZE);

	for_each_engine(e, BIT(ENG_SYNC) | BIT(ENG_AIO) | BIT(ENG_URING_FIXED)) {
		for (u32 place = 0; place < ARRAY_SIZE(places); place++) {
			u64 off = (place & 1 ? WRITE_SIZE / 2 : 0) + 128 * KiB;
			int rwf = place & 2 ? RWF_DSYNC : 0, fd;

			/* f2fs does not say where such space is. */
			if (place & 1 && is_fs("f2fs"))
				continue;
			unlink("error-write");
			fd = create("error-write", O_DIRECT);
			memset(want, 0, WRITE_SIZE);
			fill(want, WRITE_SIZE / 2, e->kind);
			write_all(fd, want, WRITE_SIZE / 2, 0);
			xfallocate(fd, 0, WRITE_SIZE / 2, WRITE_SIZE / 2);
			fill(data, WRITE_SIZE, place + 100);
			break_disk(arg, true, sector_of(fd, off), 1, "IOERR");

			for (size_t t = 0; t < ARRAY_SIZE(v); t++) {
				if (!env.strict && v[t].len == SECTOR)
					continue;
				ANSWER(eng_write(e, fd, data, v[t].len, off + v[t].rel, rwf),
				       v[t].hit ? -EIO : (s64)v[t].len,
				       "%s %s: write of %u at %lld from the bad sector", e->name,
				       places[place], v[t].len, v[t].rel);
				if (!v[t].hit)
					memcpy(want + off + v[t].rel, data, v[t].len);
			}
			check_batch(e, (struct req){ .write = true, .fd = fd, .off = off, .rwf = rwf },
				    data, 0, EIO);
			for (u32 q = 1; e->kind >= ENG_AIO && q < ENG_DEPTH; q++)
				memcpy(want + off + q * 32 * KiB, data, 16 * KiB);
			mend_disk();
			CHECK_SIZE(fd, WRITE_SIZE);

			/*
			 * Where a write failed, each sector is as it was or as it was to be, and
			 * not what the disk held before; everywhere else nothing changed.
			 */
			read_all(fd, buf, WRITE_SIZE, 0);
			for (u64 i = 0; i < WRITE_SIZE; i += SECTOR) {
				bool across = i >= off - 64 * KiB && i < off + 64 * KiB;
				bool into = i >= off && i < off + 16 * KiB;

				CHECK(!memcmp(buf + i, want + i, SECTOR) ||
				      (across && !memcmp(buf + i, data + i - (off - 64 * KiB), SECTOR)) ||
				      (into && !memcmp(buf + i, data + i - off, SECTOR)) ||
				      (place & 1 && across && all_bytes(buf + i, SECTOR, 0)),
				      "%s %s: byte %llu is neither old nor new", e->name,
				      places[place], i);
			}
			/* And it works again. */
			CHECK_WRITE(e, fd, data, 128 * KiB, off - 64 * KiB, rwf);
			CHECK_READ(e, fd, data, 128 * KiB, off - 64 * KiB);
			close(fd);
		}
	}
}

/* A write that fails behind the end of the file does not make it longer. */
CASE(extend_errors, "extend-error", BIT(NR_METHODS) - 1, methods)
{
	u8 *data = xalloc(MiB);

	if (is_fs("f2fs"))
		skip("f2fs does not say where fallocated space is");
	for_each_engine(e, PLAIN) {
		int fd;

		unlink("error-extend");
		fd = create("error-extend", O_DIRECT);
		fill(data, MiB, e->kind);
		write_all(fd, data, 64 * KiB, 0);
		/* space behind the end, so that its place is known */
		xfallocate(fd, FALLOC_FL_KEEP_SIZE, 0, MiB);
		break_disk(arg, true, sector_of(fd, 256 * KiB), 256, "IOERR");
		ANSWER(eng_write(e, fd, data, 64 * KiB, 256 * KiB, 0), -EIO, "%s", e->name);
		CHECK_SIZE(fd, 64 * KiB);
		mend_disk();
		CHECK_WRITE(e, fd, data + 64 * KiB, 64 * KiB, 64 * KiB, 0);
		close(fd);
		check_file("error-extend", data, 128 * KiB);
	}
}
