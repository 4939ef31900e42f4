// SPDX-License-Identifier: GPL-2.0
/* The ways to hand a direct I/O request to the kernel: system calls, libaio, io_uring. */
#define _GNU_SOURCE
#include <libaio.h>
#include <liburing.h>
#include <sys/mman.h>

#include "dio_test.h"

#define GUARD	0xa5
#define MAX_IOV	1024

const char *const engine_names[ENG_NR] = {
	[ENG_SYNC]		= "sync",
	[ENG_VEC]		= "vec",
	[ENG_AIO]		= "libaio",
	[ENG_URING]		= "io_uring",
	[ENG_URING_FIXED]	= "io_uring-fixed",
	[ENG_URING_POLL]	= "io_uring-poll",
};

struct engine {
	enum engine_kind kind;
	u8 *arena[ENG_DEPTH];
	struct iovec *iov[ENG_DEPTH];
	bool registered[ENG_DEPTH];
	io_context_t aio;
	struct io_uring ring;
};

static bool is_uring(const struct engine *e)
{
	return e->kind >= ENG_URING;
}

static bool is_fixed(const struct engine *e)
{
	return e->kind == ENG_URING_FIXED || e->kind == ENG_URING_POLL;
}

struct engine *eng_open(enum engine_kind kind)
{
	struct engine *e = calloc(1, sizeof(*e));
	int ret;

	e->kind = kind;
	for (int i = 0; i < ENG_DEPTH; i++) {
		e->arena[i] = xalloc(ENG_ARENA);
		e->iov[i] = calloc(MAX_IOV, sizeof(struct iovec));
	}
	if (kind == ENG_AIO) {
		ret = io_setup(ENG_DEPTH, &e->aio);
		if (ret)
			skip("io_setup: %s", strerror(-ret));
	}
	if (is_uring(e)) {
		ret = io_uring_queue_init(ENG_DEPTH, &e->ring,
					  kind == ENG_URING_POLL ? IORING_SETUP_IOPOLL : 0);
		if (ret)
			skip("io_uring_queue_init: %s", strerror(-ret));
	}
	if (is_fixed(e)) {
		ret = io_uring_register_buffers_sparse(&e->ring, ENG_DEPTH);
		if (ret)
			fail("io_uring_register_buffers_sparse: %s", strerror(-ret));
	}
	return e;
}

void eng_close(struct engine *e)
{
	if (e->kind == ENG_AIO)
		io_destroy(e->aio);
	if (is_uring(e))
		io_uring_queue_exit(&e->ring);
	for (int i = 0; i < ENG_DEPTH; i++) {
		munmap(e->arena[i], ENG_ARENA);
		free(e->iov[i]);
	}
	free(e);
}

/*
 * Segments of odd size at odd places, as odd as the device permits: bios then end in the middle of
 * a block and the kernel has to trim them.
 */
static void split(struct req *r, u64 *rng)
{
	u32 align = env.mem_align, left = r->len, pos = r->shift;

	r->niov = 0;
	while (left) {
		u32 len, cap;

		switch (rnd_below(rng, 4)) {
		case 0: cap = 512; break;
		case 1: cap = 4096; break;
		case 2: cap = 64 * KiB; break;
		default: cap = 1 * MiB; break;
		}
		len = (rnd_below(rng, max(cap / align, 1U)) + 1) * align;
		if (len > left || r->niov == MAX_IOV - 1 || pos > ENG_MAX_IO)
			len = left;
		r->iov[r->niov++] = (struct iovec){ r->arena + pos, len };
		left -= len;
		/* Adjoining segments, a small gap, or the next page */
		switch (rnd_below(rng, 3)) {
		case 0: pos += len; break;
		case 1: pos += len + (rnd_below(rng, max(512 / align, 1U)) + 1) * align; break;
		default: pos = (pos + len + 4095) & ~4095U; break;
		}
	}
}

static u32 req_span(const struct req *r)
{
	const struct iovec *last = &r->iov[r->niov - 1];

	return (u8 *)last->iov_base + last->iov_len - r->arena;
}

/* Registration makes all of the memory present, so it is done for what is used only. */
static void register_arena(struct engine *e, int i)
{
	struct iovec iov = { e->arena[i], ENG_ARENA };
	int ret = io_uring_register_buffers_update_tag(&e->ring, i, &iov, NULL, 1);

	CHECK(ret == 1, "io_uring_register_buffers_update: %d", ret);
	e->registered[i] = true;
}

void eng_prep(struct engine *e, int i, struct req *r)
{
	u64 rng = r->seed;

	if (is_fixed(e) && !e->registered[i])
		register_arena(e, i);

	r->arena = e->arena[i];
	r->iov = e->iov[i];
	if (e->kind == ENG_VEC || (r->vec && !is_fixed(e) && e->kind != ENG_SYNC)) {
		r->vec = true;
		split(r, &rng);
	} else {
		r->vec = false;
		r->niov = 1;
		r->iov[0] = (struct iovec){ r->arena + r->shift, r->len };
	}
	memset(r->arena, GUARD, req_span(r) + SECTOR);
}

void req_put_data(struct req *r, const void *data)
{
	for (int i = 0; i < r->niov; i++) {
		memcpy(r->iov[i].iov_base, data, r->iov[i].iov_len);
		data += r->iov[i].iov_len;
	}
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

void req_check_guards(const struct req *r)
{
	u8 *pos = r->arena;

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
	struct iocb iocbs[ENG_DEPTH], *ptrs[ENG_DEPTH];
	struct io_event ev[ENG_DEPTH];
	int done = 0, ret;

	for (int i = 0; i < n; i++) {
		struct req *r = &reqs[i];

		if (r->vec && r->write)
			io_prep_pwritev(&iocbs[i], r->fd, r->iov, r->niov, r->off);
		else if (r->vec)
			io_prep_preadv(&iocbs[i], r->fd, r->iov, r->niov, r->off);
		else if (r->write)
			io_prep_pwrite(&iocbs[i], r->fd, r->iov[0].iov_base, r->len, r->off);
		else
			io_prep_pread(&iocbs[i], r->fd, r->iov[0].iov_base, r->len, r->off);
		iocbs[i].aio_rw_flags = r->rwf;
		iocbs[i].data = r;
		ptrs[i] = &iocbs[i];
	}
	/* An error at submission ends io_submit() early: that request is done, go on behind it. */
	for (int i = 0; i < n; ) {
		ret = io_submit(e->aio, n - i, ptrs + i);
		if (ret < 0) {
			reqs[i].res = ret;
			done++;
			i++;
		} else {
			i += ret;
		}
	}
	while (done < n) {
		ret = io_getevents(e->aio, 1, n - done, ev, NULL);
		if (ret == -EINTR)
			continue;
		CHECK(ret > 0, "io_getevents: %d", ret);
		for (int i = 0; i < ret; i++) {
			struct req *r = ev[i].data;

			r->res = (s64)ev[i].res;
			done++;
		}
	}
}

static void run_uring(struct engine *e, struct req *reqs, int n)
{
	struct io_uring_cqe *cqe;
	int ret;

	for (int i = 0; i < n; i++) {
		struct req *r = &reqs[i];
		struct io_uring_sqe *sqe = io_uring_get_sqe(&e->ring);
		void *base = r->iov[0].iov_base;
		/* Where the buffer is: eng_raw() uses addresses outside of the registered ones */
		bool fixed = is_fixed(e) && r->arena;
		int buf = 0;

		for (int k = 0; fixed && k < ENG_DEPTH; k++)
			if (r->arena == e->arena[k])
				buf = k;
		if (fixed && r->write)
			io_uring_prep_write_fixed(sqe, r->fd, base, r->len, r->off, buf);
		else if (fixed)
			io_uring_prep_read_fixed(sqe, r->fd, base, r->len, r->off, buf);
		else if (r->vec && r->write)
			io_uring_prep_writev(sqe, r->fd, r->iov, r->niov, r->off);
		else if (r->vec)
			io_uring_prep_readv(sqe, r->fd, r->iov, r->niov, r->off);
		else if (r->write)
			io_uring_prep_write(sqe, r->fd, base, r->len, r->off);
		else
			io_uring_prep_read(sqe, r->fd, base, r->len, r->off);
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

void eng_run(struct engine *e, struct req *reqs, int n)
{
	for (int i = 0; i < n; i++)
		reqs[i].res = -ENODATA;

	if (e->kind == ENG_AIO) {
		run_aio(e, reqs, n);
	} else if (is_uring(e)) {
		run_uring(e, reqs, n);
	} else {
		for (int i = 0; i < n; i++) {
			struct req *r = &reqs[i];

			if (r->write)
				r->res = xpwritev2(r->fd, r->iov, r->niov, r->off, r->rwf);
			else
				r->res = xpreadv2(r->fd, r->iov, r->niov, r->off, r->rwf);
		}
	}
}

s64 eng_write(struct engine *e, int fd, const void *buf, u32 len, u64 off, int rwf)
{
	struct req r = { .write = true, .fd = fd, .off = off, .len = len, .rwf = rwf,
			 .seed = off + len };

	eng_prep(e, 0, &r);
	req_put_data(&r, buf);
	eng_run(e, &r, 1);
	return r.res;
}

s64 eng_read(struct engine *e, int fd, void *buf, u32 len, u64 off, int rwf)
{
	struct req r = { .fd = fd, .off = off, .len = len, .rwf = rwf, .seed = off + len };

	eng_prep(e, 0, &r);
	eng_run(e, &r, 1);
	req_check_guards(&r);
	if (r.res > 0)
		req_get_data(&r, buf, r.res);
	return r.res;
}

s64 eng_raw(struct engine *e, bool write, int fd, void *addr, u32 len, u64 off, int rwf)
{
	struct iovec iov = { addr, len };
	struct req r = { .write = write, .fd = fd, .off = off, .len = len, .rwf = rwf,
			 .iov = &iov, .niov = 1 };

	eng_run(e, &r, 1);
	return r.res;
}
