// SPDX-License-Identifier: GPL-2.0
/*
 * Direct I/O tests for a mounted file system. run.py beside this prepares the file system, chooses
 * the implementation in the kernel and says in the environment what there is to test.
 *
 * One program does everything, because in a UML guest starting a process costs more than
 * thousands of I/Os.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <kselftest_harness.h>

#include "dio_test.h"

struct env env;

static const struct test_case *const all_cases[] = {
	mix_cases, basic_cases, fault_cases, race_cases, error_cases, zone_cases,
};

static FILE *record;
static struct __test_metadata *current;

static __noreturn void finish(int code, const char *fmt, va_list ap)
{
	struct __test_results *results = current->results;

	/* Threads may fail together: one of the reasons is enough. */
	if (!results->reason[0])
		vsnprintf(results->reason, sizeof(results->reason), fmt, ap);
	if (record)
		fflush(record);
	_exit(code);
}

void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	finish(KSFT_FAIL, fmt, ap);
}

void skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	finish(KSFT_SKIP, fmt, ap);
}

void rec(const char *fmt, ...)
{
	va_list ap;

	if (!record)
		return;
	fprintf(record, "%s\t", current->name);
	va_start(ap, fmt);
	vfprintf(record, fmt, ap);
	va_end(ap);
	fputc('\n', record);
}

/* splitmix64 */
u64 rnd_next(u64 *state)
{
	u64 z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

u64 rnd_below(u64 *state, u64 n)
{
	return rnd_next(state) % n;
}

void fill(void *buf, size_t len, u64 seed)
{
	u64 state = seed * 0x2545f4914f6cdd1dULL + 1, v;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		v = rnd_next(&state);
		memcpy(buf + i, &v, 8);
	}
	v = rnd_next(&state);
	memcpy(buf + i, &v, len - i);
}

u64 hash(const void *buf, size_t len)
{
	u64 h = 0xcbf29ce484222325ULL ^ len, v;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		memcpy(&v, buf + i, 8);
		h = (h ^ v) * 0x9fb21c651e98df25ULL;
		h ^= h >> 29;
	}
	for (; i < len; i++)
		h = (h ^ ((const u8 *)buf)[i]) * 0x100000001b3ULL;
	return h ^ (h >> 32);
}

bool all_bytes(const void *buf, size_t len, u8 byte)
{
	const u8 *p = buf;

	return !len || (p[0] == byte && !memcmp(p, p + 1, len - 1));
}

size_t first_diff(const void *a, const void *b, size_t len)
{
	const u8 *x = a, *y = b;
	size_t i;

	for (i = 0; i < len && x[i] == y[i]; i++)
		;
	return i;
}

const char *path_of(const char *name)
{
	static __thread char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", env.dir, name);
	return path;
}

int xopen(const char *name, int flags)
{
	int fd = open(path_of(name), flags, 0600);

	CHECK(fd >= 0, "open %s: %s", name, strerror(errno));
	return fd;
}

void *xalloc(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED, "out of memory");
	return p;
}

static s64 count_or_errno(ssize_t ret)
{
	return ret < 0 ? -errno : ret;
}

s64 xpread(int fd, void *buf, size_t len, u64 off)
{
	return count_or_errno(pread(fd, buf, len, off));
}

s64 xpwrite(int fd, const void *buf, size_t len, u64 off)
{
	return count_or_errno(pwrite(fd, buf, len, off));
}

s64 xpreadv2(int fd, const struct iovec *iov, int n, u64 off, int flags)
{
	return count_or_errno(preadv2(fd, iov, n, off, flags));
}

s64 xpwritev2(int fd, const struct iovec *iov, int n, u64 off, int flags)
{
	return count_or_errno(pwritev2(fd, iov, n, off, flags));
}

void write_all(int fd, const void *buf, size_t len, u64 off)
{
	s64 ret = xpwrite(fd, buf, len, off);

	CHECK(ret == (s64)len, "write of %zu at %llu: %lld", len, off, ret);
}

void read_all(int fd, void *buf, size_t len, u64 off)
{
	s64 ret = xpread(fd, buf, len, off);

	CHECK(ret == (s64)len, "read of %zu at %llu: %lld", len, off, ret);
}

u64 file_size(int fd)
{
	struct stat st;

	CHECK(!fstat(fd, &st), "fstat: %s", strerror(errno));
	return st.st_size;
}

bool write_str(const char *path, const char *s)
{
	int fd = open(path, O_WRONLY);
	bool ok;

	if (fd < 0)
		return false;
	ok = write(fd, s, strlen(s)) == (ssize_t)strlen(s);
	close(fd);
	return ok;
}

void set_io_timeout(const char *ms)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/block/%s/queue/io_timeout", env.disk);
	write_str(path, ms);
}

void drop_cache(int fd)
{
	/* A file system that is read only has nothing to write back, and says so. */
	CHECK(!fsync(fd) || errno == EINVAL, "fsync: %s", strerror(errno));
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

void drop_all_caches(void)
{
	sync();
	if (!write_str("/proc/sys/vm/drop_caches", "1"))
		fail("drop_caches: %s", strerror(errno));
}

static u64 hash_path(const char *path, u64 *size)
{
	int fd = open(path, O_RDONLY);
	void *buf;
	u64 h;

	CHECK(fd >= 0, "open %s: %s", path, strerror(errno));
	*size = file_size(fd);
	buf = xalloc(*size + 1);
	read_all(fd, buf, *size, 0);
	h = hash(buf, *size);
	munmap(buf, *size + 1);
	close(fd);
	return h;
}

u64 file_hash(const char *name)
{
	int fd = xopen(name, O_RDONLY);
	u64 size;

	drop_cache(fd);
	close(fd);
	return hash_path(path_of(name), &size);
}

void check_file(const char *name, const void *want, size_t len)
{
	void *buf = xalloc(len + 1);

	/* First what is in the page cache, then what is on disk */
	for (int pass = 0; pass < 3; pass++) {
		int fd = xopen(name, pass == 2 ? O_RDONLY | O_DIRECT : O_RDONLY);
		size_t n = pass == 2 ? (len + 4095) & ~4095UL : len;
		void *p = pass == 2 ? xalloc(n + 1) : buf;
		s64 ret;

		if (pass)
			drop_cache(fd);
		CHECK(file_size(fd) == len, "%s: %llu bytes, not %zu", name, file_size(fd), len);
		ret = len ? xpread(fd, p, n, 0) : 0;
		CHECK(ret == (s64)len, "%s: pass %d: read %lld of %zu", name, pass, ret, len);
		CHECK(!memcmp(p, want, len), "%s: pass %d: wrong data from byte %zu", name, pass,
		      first_diff(p, want, len));
		close(fd);
	}
	munmap(buf, len + 1);
}

void keep(const char *name)
{
	FILE *f = fopen(env.manifest, "a");
	u64 size, h;

	if (!f)
		return;
	h = hash_path(path_of(name), &size);
	fprintf(f, "%s %llu %016llx\n", name, size, h);
	fclose(f);
}

/* After the file system was mounted anew: is everything that was kept still there? */
static void remount(const void *arg)
{
	char name[128];
	u64 size, h;
	int n = 0, bad = 0;
	FILE *f = fopen(env.manifest, "r");

	while (f && fscanf(f, "%127s %llu %llx", name, &size, &h) == 3) {
		u64 got_size, got = hash_path(path_of(name), &got_size);

		n++;
		if (got != h || got_size != size) {
			bad++;
			printf("# %s: %llu bytes %016llx, was %llu bytes %016llx\n", name, got_size,
			       got, size, h);
		}
	}
	if (!n)
		skip("no case kept a file");
	CHECK(!bad, "%d of %d files changed", bad, n);
}

static unsigned int queue_attr(const char *name, unsigned int otherwise)
{
	char path[PATH_MAX];
	unsigned int value = otherwise;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/block/%s/queue/%s", env.disk, name);
	f = fopen(path, "r");
	if (f) {
		if (fscanf(f, "%u", &value) != 1)
			value = otherwise;
		fclose(f);
	}
	return value;
}

/* Are new files encrypted? */
static bool is_encrypted(void)
{
	struct statx stx = { };
	int fd = open(env.dir, O_TMPFILE | O_RDWR, 0600);
	bool yes;

	if (fd < 0)
		return false;
	yes = !statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) &&
	      stx.stx_attributes & STATX_ATTR_ENCRYPTED;
	close(fd);
	return yes;
}

/* Then XFS cannot set space aside. */
static bool is_always_cow(void)
{
	bool yes;
	int fd;

	if (strcmp(env.fstype, "xfs"))
		return false;
	fd = open(env.dir, O_TMPFILE | O_RDWR, 0600);
	yes = fd >= 0 && fallocate(fd, 0, 0, env.blksz) && errno == EOPNOTSUPP;
	close(fd);
	return yes;
}

static u64 number(const char *name, u64 otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 0) : otherwise;
}

/* What getenv() gives, and what can be seen of the file system */
static void setup(void)
{
	const char *path = getenv("DIO_RECORD");
	struct stat st;

	env.disk = getenv("DIO_DISK");
	env.fstype = getenv("DIO_FSTYPE");
	env.impl = getenv("DIO_IMPL");
	env.manifest = getenv("DIO_MANIFEST");
	env.seed = number("DIO_SEED", 1);
	env.scale = number("DIO_SCALE", 100);
	env.reflink = number("DIO_REFLINK", 0);
	if (!env.disk || !env.fstype || !env.impl || !env.manifest)
		ksft_exit_fail_msg("DIO_DISK, DIO_FSTYPE, DIO_IMPL and DIO_MANIFEST are needed\n");
	if (stat(env.dir, &st))
		ksft_exit_fail_perror(env.dir);
	record = path ? fopen(path, "a") : NULL;
	if (path && !record)
		ksft_exit_fail_perror(path);
	env.blksz = st.st_blksize;
	env.encrypted = is_encrypted();
	env.always_cow = is_always_cow();
	env.strict = (!strncmp(env.fstype, "ext", 3) && !env.encrypted) ||
		     !strcmp(env.fstype, "xfs");
	env.subblock_buffered = !env.strict;
	/*
	 * From the disk rather than from statx(STATX_DIOALIGN): not every file system fills that
	 * in, and all of them take their answer from here.
	 */
	env.mem_align = queue_attr("dma_alignment", SECTOR - 1) + 1;
	/*
	 * Odder memory turns a direct write of f2fs into a buffered one, and that loses bytes
	 * before an unaligned start (seen on 7.3: a page that is not in the cache is not read).
	 */
	if (!strcmp(env.fstype, "f2fs"))
		env.mem_align = max(env.mem_align, SECTOR);
	/* Encryption is by the block, in memory as well. */
	if (env.encrypted)
		env.mem_align = max(env.mem_align, env.blksz);
	env.bounce = !strcmp(env.fstype, "xfs") && queue_attr("stable_writes", 0);
	printf("# block size %u, memory alignment %u\n", env.blksz, env.mem_align);
}

/* In the process of the case */
static void run_case(struct __test_metadata *t, struct __fixture_variant_metadata *variant)
{
	const struct test_case *c = t->variant;

	current = t;
	if (!env.dir)
		fail("DIO_DIR, the mount point, is needed");
	c->fn(c->arg);
	if (record)
		fflush(record);
}

/* As TEST() does, but with a name that may have dashes, and an argument. */
static void add_case(const struct test_case *c)
{
	struct __test_metadata *t = calloc(1, sizeof(*t));

	t->name = c->name;
	t->fn = run_case;
	t->fixture = &_fixture_global;
	t->termsig = -1;
	t->timeout = number("DIO_TIMEOUT", 200);
	t->variant = c;
	__register_test(t);
}

int main(int argc, char **argv)
{
	static const struct test_case remount_case = { "remount", remount, NULL };

	for (size_t i = 0; i < ARRAY_SIZE(all_cases); i++)
		for (const struct test_case *c = all_cases[i]; c->name; c++)
			add_case(c);
	add_case(&remount_case);
	env.dir = getenv("DIO_DIR");
	if (env.dir)
		setup();
	return test_harness_run(argc, argv);
}
