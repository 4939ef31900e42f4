// SPDX-License-Identifier: GPL-2.0
/* Bad user memory and full file systems. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "dio_test.h"

#define PAGE		4096U
#define REGION		(192 * KiB)

enum region { MAPPED, HOLE, UNWRITTEN, BEYOND_EOF, NR_REGIONS };
static const char *const region_names[] = { "mapped", "hole", "unwritten", "beyond-eof" };

/* A file with a region of each type, one after the other */
static int regions_file(u8 *want)
{
	int fd = xopen("fault", O_RDWR | O_CREAT | O_TRUNC);

	memset(want, 0, NR_REGIONS * REGION);
	fill(want, REGION, env.seed);
	write_all(fd, want, REGION, MAPPED * REGION);
	CHECK(!ftruncate(fd, BEYOND_EOF * REGION), "truncate: %s", strerror(errno));
	if (fallocate(fd, 0, UNWRITTEN * REGION, REGION))
		skip("fallocate: %s", strerror(errno));
	drop_cache(fd);
	close(fd);
	return xopen("fault", O_RDWR | O_DIRECT);
}

static const enum engine_kind engines[] = { ENG_SYNC, ENG_AIO, ENG_URING };

/* What f2fs leaves of the disk when a write fails is another thing each time, and stays in the file. */
static void rec_contents(u64 hash)
{
	if (!strcmp(env.fstype, "f2fs"))
		rec("not recorded");
	else
		rec("%016llx", hash);
}

/* One request at a bad address; addr may be good up to some byte. */
static void bad_request(struct engine *e, int fd, bool write, enum region region, u32 shift,
			void *addr, u32 len, u32 good, const char *what, u8 *want)
{
	u64 off = (u64)region * REGION + 64 * KiB + shift, size = file_size(fd), end;
	u8 *got;
	s64 ret;

	ret = eng_raw(e, write, fd, addr, len, off, 0);
	if (!write && off >= size)
		CHECK(ret == 0 || ret == -EFAULT, "%s: read beyond the end: %lld", what, ret);
	else if (!good)
		CHECK(ret == -EFAULT, "%s: %s %s of %u: %lld", what, region_names[region],
		      write ? "write" : "read", len, ret);
	else
		CHECK(ret == -EFAULT || (ret > 0 && ret <= good), "%s: %s %s of %u: %lld", what,
		      region_names[region], write ? "write" : "read", len, ret);
	rec("%s %s %s len=%u shift=%u -> %lld", what, region_names[region],
	    write ? "write" : "read", len, shift, ret);

	/* Nothing but the good part may have reached the file. */
	end = size;
	if (write) {
		u64 now = file_size(fd);

		CHECK(now == size || (ret > 0 && now == off + ret),
		      "%s: failed %s write of %u at %llu: size %llu, was %llu", what,
		      region_names[region], len, off, now, size);
		end = now;
	}
	got = xalloc(NR_REGIONS * REGION);
	read_all(fd, got, end, 0);
	for (u64 i = 0; i < end; i += SECTOR) {
		bool may = write && i >= off && i < off + good;
		/*
		 * f2fs allocates the blocks before, and leaves them with what the disk held when
		 * the write fails.
		 */
		bool stale = write && region != MAPPED && !strcmp(env.fstype, "f2fs") &&
			     i / PAGE >= off / PAGE && i / PAGE <= (off + len - 1) / PAGE;

		if (!memcmp(got + i, want + i, min(end - i, (u64)SECTOR)))
			continue;
		if (stale) {
			memcpy(want + i, got + i, SECTOR);
			memset(got + i, 0, SECTOR);	/* not for the record */
			continue;
		}
		CHECK(may && !memcmp(got + i, addr + (i - off), SECTOR),
		      "%s: %s write of %u changed byte %llu of the file", what,
		      region_names[region], len, i);
		/* A write that was refused as a whole leaves what is new to the file invisible. */
		CHECK(region == MAPPED || ret > 0, "%s: failed %s write is visible", what,
		      region_names[region]);
		memcpy(want + i, got + i, SECTOR);
	}
	rec_contents(hash(got, end));
	munmap(got, NR_REGIONS * REGION);
}

static void fault_all(const void *arg)
{
	static const u32 lens[] = { SECTOR, PAGE, 64 * KiB };
	u8 *want = xalloc(NR_REGIONS * REGION);
	void *none = mmap(NULL, 64 * KiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *rdonly = mmap(NULL, 64 * KiB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t k = 0; k < ARRAY_SIZE(engines); k++) {
		struct engine *e = eng_open(engines[k]);
		const char *en = engine_names[engines[k]];
		int fd = regions_file(want);

		for (enum region r = 0; r < NR_REGIONS; r++) {
			for (size_t l = 0; l < ARRAY_SIZE(lens); l++) {
				for (u32 shift = 0; shift <= SECTOR; shift += SECTOR) {
					bad_request(e, fd, false, r, shift, none, lens[l], 0, en,
						    want);
					bad_request(e, fd, true, r, shift, none, lens[l], 0, en,
						    want);
					bad_request(e, fd, false, r, shift, rdonly, lens[l], 0, en,
						    want);
				}
			}
			bad_request(e, fd, false, r, 0, (void *)PAGE, PAGE, 0, en, want);
			bad_request(e, fd, true, r, 0, (void *)(uintptr_t)-(64 * PAGE), PAGE, 0,
				    en, want);
		}
		close(fd);
		eng_close(e);
	}
}

/* The first pages are good, then one is not, then good ones again. */
static void fault_middle(const void *arg)
{
	static const u32 holes[] = { 1, 3, 8, 15 };
	u8 *want = xalloc(NR_REGIONS * REGION);

	for (size_t k = 0; k < ARRAY_SIZE(engines); k++) {
		struct engine *e = eng_open(engines[k]);
		const char *en = engine_names[engines[k]];

		for (size_t h = 0; h < ARRAY_SIZE(holes); h++) {
			u8 *buf = xalloc(64 * KiB);
			int fd = regions_file(want);

			fill(buf, 64 * KiB, h + 1);
			/*
			 * A new mapping instead of mprotect(): User Mode Linux lets the kernel
			 * copy from and to a page that is present, whatever its protection.
			 */
			CHECK(mmap(buf + holes[h] * PAGE, PAGE, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED,
			      "mmap: %s", strerror(errno));
			for (enum region r = 0; r < NR_REGIONS; r++) {
				for (u32 shift = 0; shift <= SECTOR; shift += SECTOR) {
					bad_request(e, fd, true, r, shift, buf, 64 * KiB,
						    holes[h] * PAGE, en, want);
					bad_request(e, fd, false, r, shift, buf, 64 * KiB,
						    holes[h] * PAGE, en, want);
					/* A read may have filled the good part. */
					fill(buf, PAGE, h + 2);
				}
			}
			close(fd);
			munmap(buf, 64 * KiB);
		}
		eng_close(e);
	}
}

/* A good segment, a bad one, a good one */
static void fault_segment(const void *arg)
{
	u8 *want = xalloc(NR_REGIONS * REGION), *buf = xalloc(64 * KiB);
	void *none = mmap(NULL, 64 * KiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int bad = 0; bad < 3; bad++) {
		for (enum region r = 0; r < BEYOND_EOF; r++) {
			u64 off = (u64)r * REGION + 64 * KiB;
			int fd = regions_file(want);
			struct iovec iov[3];
			s64 ret;

			for (int i = 0; i < 3; i++)
				iov[i] = (struct iovec){ i == bad ? none : buf + i * 16 * KiB,
							 8 * KiB };
			ret = xpreadv2(fd, iov, 3, off, 0);
			rec("%d %s read -> %lld", bad, region_names[r], ret);
			CHECK(ret == -EFAULT || (bad && ret > 0 && ret <= bad * 8 * KiB),
			      "%s read, segment %d bad: %lld", region_names[r], bad, ret);
			fill(buf, 64 * KiB, bad + r);
			ret = xpwritev2(fd, iov, 3, off, 0);
			rec("%d %s write -> %lld", bad, region_names[r], ret);
			CHECK(ret == -EFAULT || (bad && ret > 0 && ret <= bad * 8 * KiB),
			      "%s write, segment %d bad: %lld", region_names[r], bad, ret);
			close(fd);
			rec_contents(file_hash("fault"));
		}
	}
}

static u64 free_bytes(void)
{
	struct statvfs st;

	CHECK(!statvfs(env.dir, &st), "statvfs: %s", strerror(errno));
	return st.f_bavail * st.f_frsize;
}

/* Writes until nothing is left. What was written stays, what is freed can be used again. */
static void enospc(const void *arg)
{
	size_t chunk = 1 * MiB, safe_len = 1 * MiB, done = 0, cap = 96 * MiB;
	u8 *data = xalloc(cap), *buf = xalloc(chunk), *safe = xalloc(safe_len);
	int fd, ballast, safe_fd, reserved;
	u64 step = 128 * MiB;
	s64 ret = 0;

	safe_fd = xopen("enospc-safe", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);
	fill(safe, safe_len, 7);
	write_all(safe_fd, safe, safe_len, 0);
	reserved = xopen("enospc-reserved", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);
	if (fallocate(reserved, 0, 0, chunk))
		skip("fallocate: %s", strerror(errno));

	/* Ballast first, because writing all of it takes long */
	ballast = xopen("enospc-ballast", O_RDWR | O_CREAT | O_TRUNC);
	for (u64 end = 0; step >= 2 * MiB && free_bytes() > 16 * MiB; ) {
		if (step > free_bytes() - 8 * MiB || fallocate(ballast, 0, end, step))
			step /= 2;
		else
			end += step;
	}
	fd = xopen("enospc", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);
	fill(data, cap, 8);
	while (done + chunk <= cap) {
		ret = xpwrite(fd, data + done, chunk, done);
		if (ret <= 0)
			break;
		done += ret;
		/* A short write: the rest must say why. */
		if (ret != (s64)chunk) {
			if (done % PAGE)
				break;
			ret = xpwrite(fd, data + done, PAGE, done);
			if (ret <= 0)
				break;
			done += ret;
		}
	}
	CHECK(ret == -ENOSPC, "the file system did not fill up: %lld after %zu bytes", ret, done);
	rec("ENOSPC");
	for (enum engine_kind k = ENG_AIO; k <= ENG_URING_FIXED; k++) {
		struct engine *e = eng_open(k);

		ret = eng_write(e, fd, data, chunk, cap, 0);
		CHECK(ret == -ENOSPC || (ret > 0 && ret <= (s64)chunk), "%s: %lld", engine_names[k],
		      ret);
		eng_close(e);
	}
	/* What has its space already needs none. */
	fill(safe, safe_len, 9);
	ret = xpwrite(safe_fd, safe, safe_len, 0);
	CHECK(ret == (s64)safe_len || (!env.strict && ret == -ENOSPC), "overwrite when full: %lld",
	      ret);
	if (ret != (s64)safe_len)
		fill(safe, safe_len, 7);
	if (env.strict) {
		write_all(reserved, data, chunk / 2, 0);
		read_all(reserved, buf, chunk, 0);
		CHECK(!memcmp(buf, data, chunk / 2) &&
		      all_bytes(buf + chunk / 2, chunk / 2, 0), "write into reserved space");
	}
	for (size_t off = 0; off < done; off += chunk) {
		size_t n = min(chunk, done - off);

		CHECK(xpread(fd, buf, chunk, off) >= (s64)n && !memcmp(buf, data + off, n),
		      "what was written before is wrong at %zu", off);
	}
	close(ballast);
	close(fd);
	close(reserved);
	unlink(path_of("enospc-ballast"));
	unlink(path_of("enospc"));
	unlink(path_of("enospc-reserved"));
	sync();
	fd = xopen("enospc-after", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);
	/* Freed space may come back with a delay. */
	for (int i = 0; i < 100; i++) {
		ret = xpwrite(fd, data, 4 * MiB, 0);
		if (ret != -ENOSPC)
			break;
		usleep(50000);
		sync();
	}
	CHECK(ret == 4 * MiB, "write after making room: %lld", ret);
	close(fd);
	check_file("enospc-after", data, 4 * MiB);
	unlink(path_of("enospc-after"));
	close(safe_fd);
	check_file("enospc-safe", safe, safe_len);
	keep("enospc-safe");
}

const struct test_case fault_cases[] = {
	{ "bad-buffer", fault_all, NULL },
	{ "bad-page-in-buffer", fault_middle, NULL },
	{ "bad-segment", fault_segment, NULL },
	{ "enospc", enospc, NULL },
	{ }
};
