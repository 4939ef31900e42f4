// SPDX-License-Identifier: GPL-2.0
/* Bad user memory and full file systems. */
#define _GNU_SOURCE
#include <sys/statvfs.h>

#include "dio_test.h"

#define REGION		(192 * KiB)

enum region { MAPPED, HOLE, UNWRITTEN, BEYOND_EOF, NR_REGIONS };
static const char *const region_names[] = { "mapped", "hole", "unwritten", "beyond-eof" };

/* A file with a region of each type, one after the other */
static int regions_file(u8 *want)
{
	int fd = create("fault", 0);

	memset(want, 0, NR_REGIONS * REGION);
	fill(want, REGION, env.seed);
	write_all(fd, want, REGION, MAPPED * REGION);
	OK(ftruncate(fd, BEYOND_EOF * REGION));
	xfallocate(fd, 0, UNWRITTEN * REGION, REGION);
	drop_cache(fd);
	close(fd);
	return xopen("fault", O_RDWR | O_DIRECT);
}

/* What f2fs leaves of the disk when a write fails is another thing each time, and stays in the file. */
static void rec_contents(u64 hash)
{
	if (is_fs("f2fs"))
		rec("not recorded");
	else
		rec("%016llx", hash);
}

/* One request at a bad address; addr may be good up to some byte. */
static void bad_request(struct engine *e, int fd, bool write, enum region region, u32 shift,
			void *addr, u32 len, u32 good, u8 *want)
{
	u64 off = (u64)region * REGION + 64 * KiB + shift, size = file_size(fd), end;
	s64 ret = eng_raw(e, write, fd, addr, len, off);
	bool beyond = !write && off >= size;
	char what[80];
	u8 *got;

	snprintf(what, sizeof(what), "%s %s %s len=%u shift=%u", e->name, region_names[region],
		 write ? "write" : "read", len, shift);
	ANSWER_IF(ret, ret == -EFAULT || (beyond ? !ret : ret > 0 && ret <= good), "%s", what);
	CHECK(write || ret <= 0 || !memcmp(addr, want + off, ret), "%s: wrong data", what);

	/* Nothing but the good part may have reached the file. */
	end = file_size(fd);
	CHECK(end == size || (write && ret > 0 && end == off + ret),
	      "%s at %llu: size %llu, was %llu", what, off, end, size);
	got = xalloc(NR_REGIONS * REGION);
	read_all(fd, got, end, 0);
	for (u64 i = 0; i < end; i += SECTOR) {
		bool may = write && i >= off && i < off + good;
		/*
		 * f2fs allocates the blocks before, and leaves them with what the disk held when
		 * the write fails.
		 */
		bool stale = write && region != MAPPED && is_fs("f2fs") &&
			     i / PAGE >= off / PAGE && i / PAGE <= (off + len - 1) / PAGE;

		if (!memcmp(got + i, want + i, min(end - i, (u64)SECTOR)))
			continue;
		if (stale) {
			memcpy(want + i, got + i, SECTOR);
			memset(got + i, 0, SECTOR);	/* not for the record */
			continue;
		}
		CHECK(may && !memcmp(got + i, addr + (i - off), SECTOR),
		      "%s changed byte %llu of the file", what, i);
		/* A write that was refused as a whole leaves what is new to the file invisible. */
		CHECK(region == MAPPED || ret > 0, "%s failed and is visible", what);
		memcpy(want + i, got + i, SECTOR);
	}
	rec_contents(hash(got, end));
	munmap(got, NR_REGIONS * REGION);
}

CASE(fault_all, "bad-buffer")
{
	static const u32 lens[] = { SECTOR, PAGE, 64 * KiB };
	u8 *want = xalloc(NR_REGIONS * REGION);
	void *none = xmap(-1, 64 * KiB, PROT_NONE), *rdonly = xmap(-1, 64 * KiB, PROT_READ);
	void *low = (void *)(uintptr_t)PAGE, *high = (void *)(uintptr_t)-(64 * PAGE);

	for_each_engine(e, ONE_BUFFER) {
		int fd = regions_file(want);

		for (enum region r = 0; r < NR_REGIONS; r++) {
			for (size_t l = 0; l < ARRAY_SIZE(lens); l++) {
				for (u32 shift = 0; shift <= SECTOR; shift += SECTOR) {
					bad_request(e, fd, false, r, shift, none, lens[l], 0, want);
					bad_request(e, fd, true, r, shift, none, lens[l], 0, want);
					bad_request(e, fd, false, r, shift, rdonly, lens[l], 0, want);
				}
			}
			bad_request(e, fd, false, r, 0, low, PAGE, 0, want);
			bad_request(e, fd, true, r, 0, high, PAGE, 0, want);
		}
	}
}

/* The first pages are good, then one is not, then good ones again. */
CASE(fault_middle, "bad-page-in-buffer")
{
	static const u32 holes[] = { 1, 3, 8, 15 };
	u8 *want = xalloc(NR_REGIONS * REGION);

	for_each_engine(e, ONE_BUFFER) {
		for (size_t h = 0; h < ARRAY_SIZE(holes); h++) {
			u8 *buf = xalloc(64 * KiB);
			u32 good = holes[h] * PAGE;
			int fd = regions_file(want);

			fill(buf, 64 * KiB, h + 1);
			/*
			 * A new mapping instead of mprotect(): User Mode Linux lets the kernel
			 * copy from and to a page that is present, whatever its protection.
			 */
			CHECK(mmap(buf + good, PAGE, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED,
			      "mmap: %s", strerror(errno));
			for (enum region r = 0; r < NR_REGIONS; r++) {
				for (u32 shift = 0; shift <= SECTOR; shift += SECTOR) {
					bad_request(e, fd, true, r, shift, buf, 64 * KiB, good, want);
					bad_request(e, fd, false, r, shift, buf, 64 * KiB, good, want);
					/* A read may have filled the good part. */
					fill(buf, PAGE, h + 2);
				}
			}
		}
	}
}

/* A good segment, a bad one, a good one */
CASE(fault_segment, "bad-segment")
{
	u8 *want = xalloc(NR_REGIONS * REGION), *buf = xalloc(64 * KiB);
	void *none = xmap(-1, 64 * KiB, PROT_NONE);

	for (int bad = 0; bad < 3; bad++) {
		for (enum region r = 0; r < BEYOND_EOF; r++) {
			u64 off = (u64)r * REGION + 64 * KiB;
			int fd = regions_file(want);
			struct iovec iov[3];

			for (int i = 0; i < 3; i++)
				iov[i] = (struct iovec){ i == bad ? none : buf + i * 16 * KiB,
							 8 * KiB };
			for (int write = 0; write < 2; write++) {
				s64 ret;

				fill(buf, 64 * KiB, bad + r);
				ret = RET((write ? pwritev2 : preadv2)(fd, iov, 3, off, 0));
				ANSWER_IF(ret, ret == -EFAULT || (ret > 0 && ret <= bad * 8 * KiB),
				       "%d %s %s", bad, region_names[r], write ? "write" : "read");
				for (s64 at = 0; !write && at < ret; at += 8 * KiB)
					CHECK(!memcmp(buf + 2 * at, want + off + at, min(ret - at, (s64)(8 * KiB))),
					      "%d %s: wrong data", bad, region_names[r]);
			}
			rec_contents(file_hash("fault"));
		}
	}
}

static u64 free_bytes(void)
{
	struct statvfs st;

	OK(statvfs(env.dir, &st));
	return st.f_bavail * st.f_frsize;
}

/* Writes until nothing is left. What was written stays, what is freed can be used again. */
CASE(enospc, "enospc")
{
	size_t chunk = 1 * MiB, done = 0, cap = 96 * MiB;
	u8 *data = xalloc(cap), *buf = xalloc(chunk), *safe = xalloc(chunk);
	int fd, ballast, safe_fd = create("enospc-safe", O_DIRECT), reserved;
	u64 step = 128 * MiB;
	s64 ret = 0;

	fill(safe, chunk, 7);
	write_all(safe_fd, safe, chunk, 0);
	reserved = create("enospc-reserved", O_DIRECT);
	xfallocate(reserved, 0, 0, chunk);

	/* Ballast first, because writing all of it takes long */
	ballast = create("enospc-ballast", 0);
	for (u64 end = 0; step >= 2 * MiB && free_bytes() > 16 * MiB; ) {
		if (step > free_bytes() - 8 * MiB || fallocate(ballast, 0, end, step))
			step /= 2;
		else
			end += step;
	}
	fd = create("enospc", O_DIRECT);
	fill(data, cap, 8);
	/* After a short write, the next one must say why. */
	while (done + chunk <= cap && (ret = RET(pwrite(fd, data + done, chunk, done))) > 0)
		done += ret;
	CHECK(ret == -ENOSPC, "the file system did not fill up: %lld after %zu bytes", ret, done);
	rec("ENOSPC");
	for_each_engine(e, ASYNC) {
		ret = eng_write(e, fd, data, chunk, cap, 0);
		CHECK(ret == -ENOSPC || (ret > 0 && ret <= (s64)chunk), "%s: %lld", e->name, ret);
	}
	/* What has its space already needs none. */
	fill(safe, chunk, 9);
	ret = RET(pwrite(safe_fd, safe, chunk, 0));
	CHECK(ret == (s64)chunk || (!env.strict && ret == -ENOSPC), "overwrite when full: %lld", ret);
	if (ret != (s64)chunk)
		fill(safe, chunk, 7);
	if (env.strict) {
		write_all(reserved, data, chunk / 2, 0);
		memcpy(buf, data, chunk / 2);
		memset(buf + chunk / 2, 0, chunk / 2);
		CHECK_BYTES(reserved, buf, chunk, 0);
	}
	for (size_t off = 0; off < done; off += chunk) {
		size_t n = min(chunk, done - off);

		CHECK(RET(pread(fd, buf, chunk, off)) >= (s64)n && !memcmp(buf, data + off, n),
		      "what was written before is wrong at %zu", off);
	}
	close(ballast);
	close(fd);
	close(reserved);
	unlink("enospc-ballast");
	unlink("enospc");
	unlink("enospc-reserved");
	sync();
	fd = create("enospc-after", O_DIRECT);
	/* Freed space may come back with a delay. */
	for (int i = 0; i < 100; i++) {
		ret = RET(pwrite(fd, data, 4 * MiB, 0));
		if (ret != -ENOSPC)
			break;
		usleep(50000);
		sync();
	}
	CHECK(ret == 4 * MiB, "write after making room: %lld", ret);
	check_file("enospc-after", data, 4 * MiB);
	check_file("enospc-safe", safe, chunk);
}
