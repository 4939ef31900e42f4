// SPDX-License-Identifier: GPL-2.0
/*
 * Direct I/O tests for a mounted file system. run.py beside this prepares the file system and
 * chooses the implementation in the kernel; see there for how the output is used.
 *
 * One program does everything, because in a UML guest starting a process costs more than
 * thousands of I/Os.
 */
#define _GNU_SOURCE
#include <fnmatch.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "dio_test.h"

struct env env = { .seed = 1, .scale = 100, .mem_align = SECTOR, .impl = "c" };

static const struct test_case *const all_cases[] = {
	mix_cases, basic_cases, fault_cases, race_cases, error_cases, zone_cases,
};

enum { EXIT_PASS = 0, EXIT_FAIL = 1, EXIT_SKIP = 2 };

/* Written by a child, read by the parent */
static struct shared {
	char reason[512];
} *shared;

static FILE *record;
static const char *cur_case = "?", *manifest_path;

static void finish(int code, const char *fmt, va_list ap)
{
	char buf[sizeof(shared->reason)];

	vsnprintf(buf, sizeof(buf), fmt, ap);
	/* Threads may fail together: one of the reasons is enough. */
	if (!shared->reason[0])
		memcpy(shared->reason, buf, sizeof(buf));
	if (record)
		fflush(record);
	_exit(code);
}

void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	finish(EXIT_FAIL, fmt, ap);
	abort();
}

void skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	finish(EXIT_SKIP, fmt, ap);
	abort();
}

void rec(const char *fmt, ...)
{
	va_list ap;

	if (!record)
		return;
	fprintf(record, "%s\t", cur_case);
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

s64 xpread(int fd, void *buf, size_t len, u64 off)
{
	ssize_t ret = pread(fd, buf, len, off);

	return ret < 0 ? -errno : ret;
}

s64 xpwrite(int fd, const void *buf, size_t len, u64 off)
{
	ssize_t ret = pwrite(fd, buf, len, off);

	return ret < 0 ? -errno : ret;
}

s64 xpreadv2(int fd, const struct iovec *iov, int n, u64 off, int flags)
{
	ssize_t ret = preadv2(fd, iov, n, off, flags);

	return ret < 0 ? -errno : ret;
}

s64 xpwritev2(int fd, const struct iovec *iov, int n, u64 off, int flags)
{
	ssize_t ret = pwritev2(fd, iov, n, off, flags);

	return ret < 0 ? -errno : ret;
}

void write_all(int fd, const void *buf, size_t len, u64 off)
{
	s64 ret = xpwrite(fd, buf, len, off);

	CHECK(ret == (s64)len, "write of %zu at %llu: %lld", len, (unsigned long long)off,
	      (long long)ret);
}

void read_all(int fd, void *buf, size_t len, u64 off)
{
	s64 ret = xpread(fd, buf, len, off);

	CHECK(ret == (s64)len, "read of %zu at %llu: %lld", len, (unsigned long long)off,
	      (long long)ret);
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
		CHECK(file_size(fd) == len, "%s: %llu bytes, not %zu", name,
		      (unsigned long long)file_size(fd), len);
		ret = len ? xpread(fd, p, n, 0) : 0;
		CHECK(ret == (s64)len, "%s: pass %d: read %lld of %zu", name, pass,
		      (long long)ret, len);
		CHECK(!memcmp(p, want, len), "%s: pass %d: wrong data from byte %zu", name, pass,
		      first_diff(p, want, len));
		close(fd);
	}
	munmap(buf, len + 1);
}

void keep(const char *name)
{
	FILE *f = fopen(manifest_path, "a");
	u64 size, h;

	if (!f)
		return;
	h = hash_path(path_of(name), &size);
	fprintf(f, "%s %llu %016llx\n", name, (unsigned long long)size, (unsigned long long)h);
	fclose(f);
}

/* After the file system was mounted anew: is everything that was kept still there? */
static int verify_manifest(void)
{
	char name[128];
	unsigned long long size, h;
	int n = 0, bad = 0;
	FILE *f = fopen(manifest_path, "r");

	if (!f) {
		printf("RESULT remount skip no case kept a file\n");
		return 0;
	}
	while (fscanf(f, "%127s %llu %llx", name, &size, &h) == 3) {
		u64 got_size, got = hash_path(path_of(name), &got_size);

		n++;
		if (got != h || got_size != size) {
			bad++;
			printf("# %s: %llu bytes %016llx, was %llu bytes %016llx\n", name,
			       (unsigned long long)got_size, (unsigned long long)got, size, h);
		}
	}
	if (bad)
		printf("RESULT remount fail %d of %d files changed\n", bad, n);
	else if (!n)
		printf("RESULT remount skip no case kept a file\n");
	else
		printf("RESULT remount pass %d files\n", n);
	return 0;
}

static u64 now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ULL + ts.tv_nsec / 1000000;
}

static void run_case(const struct test_case *c, unsigned int timeout)
{
	static const char *const words[] = { "pass", "fail", "skip" };
	u64 start = now_ms();
	int status, code;
	pid_t pid;

	printf("START %s\n", c->name);
	fflush(stdout);
	memset(shared, 0, sizeof(*shared));
	cur_case = c->name;
	if (record)
		fflush(record);

	pid = fork();
	if (!pid) {
		c->fn(c->arg);
		if (record)
			fflush(record);
		_exit(EXIT_PASS);
	}
	for (;;) {
		pid_t ret = waitpid(pid, &status, WNOHANG);

		if (ret == pid)
			break;
		if (now_ms() - start > timeout * 1000ULL) {
			/* Where it hangs, for the console log */
			write_str("/proc/sysrq-trigger", "w");
			kill(pid, SIGKILL);
			/* A task stuck in the kernel does not die: do not wait for it. */
			usleep(500 * 1000);
			waitpid(pid, &status, WNOHANG);
			printf("RESULT %s fail timed out after %u s\n", c->name, timeout);
			fflush(stdout);
			return;
		}
		usleep(2000);
	}
	if (WIFSIGNALED(status)) {
		code = EXIT_FAIL;
		snprintf(shared->reason, sizeof(shared->reason), "killed by signal %d (%s)",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	} else {
		code = WEXITSTATUS(status);
		if (code > EXIT_SKIP)
			code = EXIT_FAIL;
	}
	for (char *p = shared->reason; *p; p++)
		if (*p == '\n')
			*p = ' ';
	printf("RESULT %s %s %s\n", c->name, words[code], shared->reason);
	printf("# %s took %llu ms\n", c->name, (unsigned long long)(now_ms() - start));
	fflush(stdout);
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

/* Several patterns with commas in between; "" selects everything. */
static bool selected(const char *name, const char *patterns)
{
	char buf[4096], *p = buf, *pat;

	if (!*patterns)
		return true;
	snprintf(buf, sizeof(buf), "%s", patterns);
	while ((pat = strsep(&p, ",")))
		if (!fnmatch(pat, name, 0))
			return true;
	return false;
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

int main(int argc, char **argv)
{
	static const struct option opts[] = {
		{ "dir", 1, NULL, 'd' },	{ "disk", 1, NULL, 'D' },
		{ "fstype", 1, NULL, 'f' },	{ "impl", 1, NULL, 'i' },
		{ "seed", 1, NULL, 's' },	{ "scale", 1, NULL, 'S' },
		{ "record", 1, NULL, 'r' },	{ "manifest", 1, NULL, 'm' },
		{ "only", 1, NULL, 'o' },	{ "timeout", 1, NULL, 't' },
		{ "reflink", 0, NULL, 'R' },	{ "list", 0, NULL, 'l' },
		{ "verify", 0, NULL, 'v' },	{ }
	};
	const char *only = "", *record_path = NULL;
	bool list = false, verify = false;
	unsigned int timeout = 200;
	struct stat st;
	int opt;

	while ((opt = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		switch (opt) {
		case 'd': env.dir = optarg; break;
		case 'D': env.disk = optarg; break;
		case 'f': env.fstype = optarg; break;
		case 'i': env.impl = optarg; break;
		case 's': env.seed = strtoull(optarg, NULL, 0); break;
		case 'S': env.scale = atoi(optarg); break;
		case 'r': record_path = optarg; break;
		case 'm': manifest_path = optarg; break;
		case 'o': only = optarg; break;
		case 't': timeout = atoi(optarg); break;
		case 'R': env.reflink = true; break;
		case 'l': list = true; break;
		case 'v': verify = true; break;
		default: return 2;
		}
	}
	if (list) {
		for (size_t i = 0; i < ARRAY_SIZE(all_cases); i++)
			for (const struct test_case *c = all_cases[i]; c->name; c++)
				printf("%s\n", c->name);
		return 0;
	}
	if (!env.dir || !env.disk || !env.fstype || !manifest_path) {
		fprintf(stderr, "dio_test: --dir, --disk, --fstype and --manifest are needed\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (verify)
		return verify_manifest();
	if (record_path) {
		record = fopen(record_path, "a");
		if (!record) {
			fprintf(stderr, "dio_test: %s: %s\n", record_path, strerror(errno));
			return 2;
		}
	}
	if (stat(env.dir, &st)) {
		fprintf(stderr, "dio_test: %s: %s\n", env.dir, strerror(errno));
		return 2;
	}
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

	for (size_t i = 0; i < ARRAY_SIZE(all_cases); i++)
		for (const struct test_case *c = all_cases[i]; c->name; c++)
			if (selected(c->name, only))
				run_case(c, timeout);
	return 0;
}
