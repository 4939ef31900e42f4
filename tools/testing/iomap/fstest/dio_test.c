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
#include <sys/stat.h>

#include <kselftest_harness.h>

#include "dio_test.h"

struct env env;
const char *case_name;
FILE *record;
void (*at_end)(void);

static struct __test_results *results;

void finish(int code, const char *fmt, ...)
{
	void (*undo)(void) = at_end;
	va_list ap;

	/* Threads may fail together: one of the reasons is enough. */
	if (!results->reason[0]) {
		va_start(ap, fmt);
		vsnprintf(results->reason, sizeof(results->reason), fmt, ap);
		va_end(ap);
	}
	at_end = NULL;
	if (undo)
		undo();
	fflush(record);
	_exit(code);
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

	for (size_t i = 0; i < len; i += sizeof(v)) {
		v = rnd_next(&state);
		memcpy(buf + i, &v, min(len - i, sizeof(v)));
	}
}

u64 hash(const void *buf, size_t len)
{
	u64 h = 0xcbf29ce484222325ULL ^ len;

	for (size_t i = 0; i < len; i += sizeof(u64)) {
		u64 v = 0;

		memcpy(&v, buf + i, min(len - i, sizeof(v)));
		h = (h ^ v) * 0x9fb21c651e98df25ULL;
		h ^= h >> 29;
	}
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

int xopen(const char *name, int flags)
{
	int fd = open(name, flags, 0600);

	CHECK(fd >= 0, "open %s: %s", name, strerror(errno));
	return fd;
}

int create(const char *name, int flags)
{
	return xopen(name, O_RDWR | O_CREAT | O_TRUNC | flags);
}

void *xmap(int fd, size_t len, int prot)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(NULL, len, prot, flags, fd, 0);

	CHECK(p != MAP_FAILED, "mmap: %s", strerror(errno));
	return p;
}

void *xalloc(size_t len)
{
	return xmap(-1, len, PROT_READ | PROT_WRITE);
}

void xfallocate(int fd, int mode, u64 off, u64 len)
{
	if (!fallocate(fd, mode, off, len))
		return;
	if (errno == EOPNOTSUPP)
		skip("fallocate mode %d: not supported", mode);
	fail("fallocate mode %d: %s", mode, strerror(errno));
}

void write_all(int fd, const void *buf, size_t len, u64 off)
{
	s64 ret = RET(pwrite(fd, buf, len, off));

	CHECK(ret == (s64)len, "write of %zu at %llu: %lld", len, off, ret);
}

void read_all(int fd, void *buf, size_t len, u64 off)
{
	s64 ret = RET(pread(fd, buf, len, off));

	CHECK(ret == (s64)len, "read of %zu at %llu: %lld", len, off, ret);
}

void check_bytes(const char *func, int line, int fd, const void *want, size_t len, u64 off)
{
	void *buf = xalloc(len);
	s64 ret = RET(pread(fd, buf, len, off));

	if (ret != (s64)len || memcmp(buf, want, len))
		finish(KSFT_FAIL, "%s:%d: read of %zu at %llu: %lld, wrong from byte %zu", func,
		       line, len, off, ret, first_diff(buf, want, len));
	munmap(buf, len);
}

u64 file_size(int fd)
{
	struct stat st;

	OK(fstat(fd, &st));
	return st.st_size;
}

bool write_str(const char *path, const char *s)
{
	int fd = open(path, O_WRONLY);
	bool ok = fd >= 0 && write(fd, s, strlen(s)) == (ssize_t)strlen(s);

	close(fd);
	return ok;
}

void set_queue(const char *attribute, u32 value)
{
	char path[PATH_MAX], text[12];

	snprintf(path, sizeof(path), "/sys/block/%s/queue/%s", env.disk, attribute);
	snprintf(text, sizeof(text), "%u", value);
	CHECK(write_str(path, text), "%s: %s", path, text);
}

void drop_cache(int fd)
{
	/* A file system that is read only has nothing to write back, and says so. */
	CHECK(!fsync(fd) || errno == EINVAL, "fsync: %s", strerror(errno));
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

u64 file_hash(const char *name)
{
	int fd = xopen(name, O_RDONLY);
	u64 size = file_size(fd), h;
	void *buf = xalloc(size + 1);

	drop_cache(fd);
	read_all(fd, buf, size, 0);
	h = hash(buf, size);
	munmap(buf, size + 1);
	close(fd);
	return h;
}

static struct {
	char name[64];
	u64 hash;
} kept[16];

void keep(const char *name, u64 hash)
{
	int i = 0;

	while (kept[i].name[0] && strcmp(kept[i].name, name))
		i++;
	CHECK(i < ARRAY_SIZE(kept) - 1, "too many files to keep");
	strcpy(kept[i].name, name);
	kept[i].hash = hash;
}

void check_file(const char *name, const void *want, size_t len)
{
	/* First what is in the page cache, then what is on disk */
	for (int pass = 0; pass < 3; pass++) {
		int fd = xopen(name, pass == 2 ? O_RDONLY | O_DIRECT : O_RDONLY);
		size_t n = pass == 2 ? round_up(len, PAGE) : len;
		void *p = xalloc(n + 1);
		s64 ret;

		if (pass)
			drop_cache(fd);
		CHECK(file_size(fd) == len, "%s: %llu bytes, not %zu", name, file_size(fd), len);
		ret = len ? RET(pread(fd, p, n, 0)) : 0;
		CHECK(ret == (s64)len, "%s: pass %d: read %lld of %zu", name, pass, ret, len);
		CHECK_SAME(p, want, len, "%s: pass %d", name, pass);
		munmap(p, n + 1);
		close(fd);
	}
	keep(name, hash(want, len));
}

/* After the file system was mounted anew: is everything that was kept still there? */
CASE(remount, "remount")
{
	char name[64];
	int n = 0, bad = 0;
	FILE *f = fopen(env.manifest, "r");
	u64 was;

	for (; f && fscanf(f, "%63s %llx", name, &was) == 2; n++) {
		u64 is = file_hash(name);

		if (is != was)
			printf("# %s: %016llx, was %016llx\n", name, is, was);
		bad += is != was;
	}
	if (!n)
		skip("no case kept a file");
	CHECK(!bad, "%d of %d files changed", bad, n);
}

/* What a new file shows of the file system: is it encrypted, and does XFS set space aside for it? */
static void look_at_new_file(void)
{
	struct statx stx = { };
	int fd = open(".", O_TMPFILE | O_RDWR, 0600);

	if (fd < 0)
		return;
	env.encrypted = !statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) &&
			stx.stx_attributes & STATX_ATTR_ENCRYPTED;
	env.always_cow = is_fs("xfs") && fallocate(fd, 0, 0, env.blksz) && errno == EOPNOTSUPP;
	close(fd);
}

static u64 number(const char *name, u64 otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 0) : otherwise;
}

/* What getenv() gives, and what can be seen of the file system */
static void setup(void)
{
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
	record = fopen(getenv("DIO_RECORD") ?: "", "a");
	if (!record)
		ksft_exit_fail_perror("DIO_RECORD");
	if (chdir(env.dir) || stat(".", &st))
		ksft_exit_fail_perror(env.dir);
	env.blksz = st.st_blksize;
	look_at_new_file();
	env.polls = number("DIO_IO_POLL", 0) && !is_fs("btrfs");
	env.strict = (!strncmp(env.fstype, "ext", 3) && !env.encrypted) || is_fs("xfs");
	/*
	 * From the disk rather than from statx(STATX_DIOALIGN): not every file system fills that
	 * in, and all of them take their answer from here.
	 */
	env.mem_align = number("DIO_DMA_ALIGNMENT", SECTOR - 1) + 1;
	/*
	 * Odder memory turns a direct write of f2fs into a buffered one, and that loses bytes
	 * before an unaligned start (seen on 7.3: a page that is not in the cache is not read).
	 */
	if (is_fs("f2fs"))
		env.mem_align = max(env.mem_align, SECTOR);
	/* Encryption is by the block, in memory as well. */
	if (env.encrypted)
		env.mem_align = max(env.mem_align, env.blksz);
	env.bounce = is_fs("xfs") && number("DIO_STABLE_WRITES", 0);
	printf("# block size %u, memory alignment %u\n", env.blksz, env.mem_align);
}

/* In the process of the case */
static void run_case(struct __test_metadata *t, struct __fixture_variant_metadata *variant)
{
	const struct test_case *c = t->variant;
	FILE *manifest;

	results = t->results;
	case_name = t->name;
	if (!env.dir)
		finish(KSFT_FAIL, "DIO_DIR, the mount point, is needed");
	c->fn(c->arg);
	manifest = fopen(env.manifest, "a");
	CHECK(manifest, "%s: %s", env.manifest, strerror(errno));
	for (int i = 0; kept[i].name[0]; i++)
		fprintf(manifest, "%s %016llx\n", kept[i].name, kept[i].hash);
	fclose(manifest);
	finish(KSFT_PASS, "%s", "");
}

/* As TEST() does, but with a name that may have dashes, and an argument. */
static void add_test(const struct test_case *from, int arg, const char *dash, const char *member)
{
	struct test_case *c = malloc(sizeof(*c));
	struct __test_metadata *t = calloc(1, sizeof(*t));
	char name[64];

	snprintf(name, sizeof(name), "%s%s%s", from->name, dash, member);
	*c = *from;
	c->arg = arg;
	t->name = strdup(name);
	t->fn = run_case;
	t->fixture = &_fixture_global;
	t->termsig = -1;
	t->timeout = number("DIO_TIMEOUT", 200);
	t->variant = c;
	__register_test(t);
}

void add_case(const struct test_case *c)
{
	if (!c->set)
		add_test(c, 0, "", "");
	for (int i = 0; i < 32; i++)
		if (c->set & BIT(i))
			add_test(c, i, "-", (c->names ?: engine_names)[i]);
}

int main(int argc, char **argv)
{
	env.dir = getenv("DIO_DIR");
	if (env.dir)
		setup();
	return test_harness_run(argc, argv);
}
