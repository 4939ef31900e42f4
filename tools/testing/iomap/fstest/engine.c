// SPDX-License-Identifier: GPL-2.0
/* The ways to hand a direct I/O request to the kernel: system calls, libaio, io_uring. */
#define _GNU_SOURCE
#include "dio_test.h"

#define GUARD	0xa5
#define MAX_IOV	1024
/* Room for the segments of a vectored request and the gaps between them */
#define ARENA	(ENG_MAX_IO * 2 + MiB)

const char *const engine_names[ENG_NR] = {
	[ENG_SYNC]		= "sync",
	[ENG_VEC]		= "vec",
	[ENG_AIO]		= "libaio",
	[ENG_URING]		= "io_uring",
	[ENG_URING_FIXED]	= "io_uring-fixed",
	[ENG_URING_POLL]	= "io_uring-poll",
};

static bool is_fixed(const struct engine *e)
{
	return e->kind >= ENG_URING_FIXED;
}

struct engine *eng_open(enum engine_kind kind)
{
	struct engine *e = calloc(1, sizeof(*e));
	int ret;

	e->kind = kind;
	e->name = engine_names[kind];
	e->buf = xalloc(ENG_MAX_IO);
	for (int i = 0; i < ENG_DEPTH; i++) {
		e->arena[i] = xalloc(ARENA);
		e->iov[i] = calloc(MAX_IOV, sizeof(struct iovec));
	}
	if (kind == ENG_AIO) {
		ret = io_setup(ENG_DEPTH, &e->aio);
		CHECK(!ret, "io_setup: %s", strerror(-ret));
	}
	if (kind >= ENG_URING) {
		ret = io_uring_queue_init(ENG_DEPTH, &e->ring,
					  kind == ENG_URING_POLL ? IORING_SETUP_IOPOLL : 0);
		CHECK(!ret, "io_uring_queue_init: %s", strerror(-ret));
	}
	if (is_fixed(e)) {
		ret = io_uring_register_buffers_sparse(&e->ring, ENG_DEPTH);
		CHECK(!ret, "io_uring_register_buffers_sparse: %s", strerror(-ret));
	}
	return e;
}

void eng_close(struct engine *e)
{
	if (e->kind == ENG_AIO)
		io_destroy(e->aio);
	if (e->kind >= ENG_URING)
		io_uring_queue_exit(&e->ring);
	for (int i = 0; i < ENG_DEPTH; i++) {
		munmap(e->arena[i], ARENA);
		free(e->iov[i]);
	}
	munmap(e->buf, ENG_MAX_IO);
	free(e);
}

struct engine *eng_next(struct engine *e, u32 set)
{
	u32 left = e ? set & -BIT(e->kind + 1) : set;

	if (e)
		eng_close(e);
	return left ? eng_open(__builtin_ctz(left)) : NULL;
}

/*
 * Segments of odd size at odd places, as odd as the device permits: bios then end in the middle of
 * a block and the kernel has to trim them.
 */
static void split(struct req *r, u8 *arena)
{
	static const u32 caps[] = { 512, 4096, 64 * KiB, 1 * MiB };
	u32 align = env.mem_align, left = r->len, pos = r->shift;
	u64 rng = r->seed;

	while (left) {
		u32 cap = caps[rnd_below(&rng, ARRAY_SIZE(caps))];
		u32 len = (rnd_below(&rng, max(cap / align, 1U)) + 1) * align;

		if (len > left || r->niov == MAX_IOV - 1 || pos > ENG_MAX_IO)
			len = left;
		r->iov[r->niov++] = (struct iovec){ arena + pos, len };
		left -= len;
		/* Adjoining segments, a small gap, or the next page */
		switch (rnd_below(&rng, 3)) {
		case 0: pos += len; break;
		case 1: pos += len + (rnd_below(&rng, max(512 / align, 1U)) + 1) * align; break;
		default: pos = round_up(pos + len, PAGE); break;
		}
	}
}

/* Registration makes all of the memory present, so it is done for what is used only. */
static void register_arena(struct engine *e, int i)
{
	struct iovec iov = { e->arena[i], ARENA };
	int ret = io_uring_register_buffers_update_tag(&e->ring, i, &iov, NULL, 1);

	CHECK(ret == 1, "io_uring_register_buffers_update: %d", ret);
	e->registered[i] = true;
}

struct req *eng_add(struct engine *e, struct req req, const void *data)
{
	struct req *r = &e->reqs[e->n];
	u8 *arena = e->arena[e->n];
	const struct iovec *last;

	if (is_fixed(e) && !e->registered[e->n])
		register_arena(e, e->n);
	*r = req;
	r->slot = e->n;
	r->iov = e->iov[e->n++];
	r->vec = e->kind == ENG_VEC || (r->vec && !is_fixed(e) && e->kind != ENG_SYNC);
	if (r->vec)
		split(r, arena);
	else
		r->iov[r->niov++] = (struct iovec){ arena + r->shift, r->len };
	last = &r->iov[r->niov - 1];
	memset(arena, GUARD, (u8 *)last->iov_base + last->iov_len - arena + SECTOR);

	for (int k = 0; data && k < r->niov; k++) {
		memcpy(r->iov[k].iov_base, data, r->iov[k].iov_len);
		data += r->iov[k].iov_len;
	}
	return r;
}

void req_get_data(const struct req *r, void *data, size_t len)
{
	for (int i = 0; i < r->niov && len; i++) {
		size_t n = min(len, r->iov[i].iov_len);

		memcpy(data, r->iov[i].iov_base, n);
		data += n;
		len -= n;
	}
}

void req_check_guards(const struct engine *e, const struct req *r)
{
	u8 *pos = e->arena[r->slot];

	for (int i = 0; i < r->niov; i++) {
		u8 *base = r->iov[i].iov_base;

		CHECK(all_bytes(pos, base - pos, GUARD),
		      "memory before segment %d of a read at %llu was overwritten", i, r->off);
		pos = base + r->iov[i].iov_len;
	}
	CHECK(all_bytes(pos, SECTOR, GUARD), "memory after a read at %llu was overwritten", r->off);
}

static void run_aio(struct engine *e, struct req *reqs, int n)
{
	static const short ops[2][2] = { { IO_CMD_PREAD, IO_CMD_PWRITE },
					 { IO_CMD_PREADV, IO_CMD_PWRITEV } };
	struct iocb iocbs[ENG_DEPTH], *ptrs[ENG_DEPTH];
	struct io_event ev[ENG_DEPTH];
	int done = 0, ret;

	for (int i = 0; i < n; i++) {
		struct req *r = &reqs[i];

		io_prep_pread(&iocbs[i], r->fd, r->vec ? r->iov : r->iov->iov_base,
			      r->vec ? r->niov : r->len, r->off);
		iocbs[i].aio_lio_opcode = ops[r->vec][r->write];
		iocbs[i].aio_rw_flags = r->rwf;
		iocbs[i].data = r;
		ptrs[i] = &iocbs[i];
	}
	/* An error at submission ends io_submit() early: that request is done, go on behind it. */
	for (int i = 0; i < n; i += ret) {
		ret = io_submit(e->aio, n - i, ptrs + i);
		if (ret < 0) {
			reqs[i].res = ret;
			done++;
			ret = 1;
		}
	}
	while (done < n) {
		ret = io_getevents(e->aio, 1, n - done, ev, NULL);
		if (ret == -EINTR)
			continue;
		CHECK(ret > 0, "io_getevents: %d", ret);
		for (int i = 0; i < ret; i++, done++)
			((struct req *)ev[i].data)->res = (s64)ev[i].res;
	}
}

static void run_uring(struct engine *e, struct req *reqs, int n)
{
	static const u8 ops[3][2] = { { IORING_OP_READ, IORING_OP_WRITE },
				      { IORING_OP_READV, IORING_OP_WRITEV },
				      { IORING_OP_READ_FIXED, IORING_OP_WRITE_FIXED } };
	struct io_uring_cqe *cqe;
	int ret;

	for (int i = 0; i < n; i++) {
		struct req *r = &reqs[i];
		struct io_uring_sqe *sqe = io_uring_get_sqe(&e->ring);
		/* The addresses of eng_raw() are outside of the registered buffers. */
		bool fixed = is_fixed(e) && r->slot >= 0;

		io_uring_prep_rw(ops[fixed ? 2 : r->vec][r->write], sqe, r->fd,
				 r->vec ? r->iov : r->iov->iov_base, r->vec ? r->niov : r->len,
				 r->off);
		if (fixed)
			sqe->buf_index = r->slot;
		sqe->rw_flags = r->rwf;
		io_uring_sqe_set_data(sqe, r);
	}
	ret = io_uring_submit(&e->ring);
	CHECK(ret == n, "io_uring_submit: %d of %d", ret, n);
	for (int i = 0; i < n; i++) {
		do {
			ret = io_uring_wait_cqe(&e->ring, &cqe);
		} while (ret == -EINTR);
		CHECK(!ret, "io_uring_wait_cqe: %d", ret);
		((struct req *)io_uring_cqe_get_data(cqe))->res = cqe->res;
		io_uring_cqe_seen(&e->ring, cqe);
	}
}

void eng_run_again(struct engine *e, struct req *reqs, int n)
{
	for (int i = 0; i < n; i++)
		reqs[i].res = -ENODATA;

	if (e->kind == ENG_AIO)
		run_aio(e, reqs, n);
	else if (e->kind >= ENG_URING)
		run_uring(e, reqs, n);
	else
		for (struct req *r = reqs; r < reqs + n; r++)
			r->res = RET((r->write ? pwritev2 : preadv2)(r->fd, r->iov, r->niov, r->off,
								     r->rwf));
}

void eng_run(struct engine *e)
{
	eng_run_again(e, e->reqs, e->n);
	e->n = 0;
}

static void moved_all(const char *func, int line, struct engine *e, bool write, u32 len, u64 off,
		      s64 ret)
{
	if (ret != len)
		finish(KSFT_FAIL, "%s:%d: %s: %s of %u at %llu: %lld", func, line, e->name,
		       write ? "write" : "read", len, off, ret);
}

void eng_check_run(const char *func, int line, struct engine *e)
{
	int n = e->n;

	eng_run(e);
	for (struct req *r = e->reqs; r < e->reqs + n; r++)
		moved_all(func, line, e, r->write, r->len, r->off, r->res);
}

s64 eng_write(struct engine *e, int fd, const void *buf, u32 len, u64 off, int rwf)
{
	struct req *r = eng_add(e, (struct req){ .write = true, .fd = fd, .off = off, .len = len,
						 .rwf = rwf, .seed = off + len }, buf);

	eng_run(e);
	return r->res;
}

s64 eng_read(struct engine *e, int fd, void *buf, u32 len, u64 off)
{
	struct req *r = eng_add(e, (struct req){ .fd = fd, .off = off, .len = len,
						 .seed = off + len }, NULL);

	eng_run(e);
	req_check_guards(e, r);
	if (r->res > 0)
		req_get_data(r, buf, r->res);
	return r->res;
}

void eng_check_write(const char *func, int line, struct engine *e, int fd, const void *buf,
		     u32 len, u64 off, int rwf)
{
	moved_all(func, line, e, true, len, off, eng_write(e, fd, buf, len, off, rwf));
}

void eng_check_read(const char *func, int line, struct engine *e, int fd, const void *want,
		    u32 len, u64 off)
{
	moved_all(func, line, e, false, len, off, eng_read(e, fd, e->buf, len, off));
	if (memcmp(e->buf, want, len))
		finish(KSFT_FAIL, "%s:%d: %s: read of %u at %llu: wrong data from byte %zu", func,
		       line, e->name, len, off, first_diff(e->buf, want, len));
}

s64 eng_raw(struct engine *e, bool write, int fd, void *addr, u32 len, u64 off)
{
	struct iovec iov = { addr, len };
	struct req r = { .write = write, .fd = fd, .off = off, .len = len, .slot = -1, .iov = &iov,
			 .niov = 1 };

	eng_run_again(e, &r, 1);
	return r.res;
}

void usual_io_timeout(void)
{
	set_queue("io_timeout", 30000);
}

void polled_write(struct engine *e, int fd, const void *buf, u32 len, bool defect, const char *why)
{
	s64 ret;

	if (!env.polls)
		skip("%s on %s does not poll", env.fstype, env.disk);
	ret = eng_read(e, fd, e->buf, env.blksz, 0);
	CHECK(ret == env.blksz, "polled read: %lld", ret);
	/* Then the disk ends what nobody polls. */
	defect = defect && strcmp(env.impl, "rust");
	at_end = usual_io_timeout;
	if (defect)
		set_queue("io_timeout", 1000);
	ret = eng_write(e, fd, buf, len, 0, 0);
	usual_io_timeout();
	if (ret == -ETIMEDOUT && defect)
		skip("a known defect of the C code: %s", why);
	CHECK(ret == len, "polled write: %lld", ret);
}
