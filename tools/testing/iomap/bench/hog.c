// SPDX-License-Identifier: GPL-2.0
/*
 * Writes a file in order, 4k each, one in flight, on the first processor, and polls for the end of each
 * write as Seastar and SPDK do. Prints how long each took, in ns.
 *
 *   hog FILE unwritten|append|cached|dsync idle|hog
 *
 * cached     What is written is read into the page cache meanwhile, so that a page has to be dropped. That
 *            nobody waits for the page leaves the hog its processor.
 * hog        SCHED_FIFO, so that nothing else runs there that is not of real time as well.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <libaio.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { WRITES = 2048, BLOCK = 4096 };
static const uint64_t LIMIT = 2000000000;

static uint64_t ns[WRITES];

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv)
{
	bool cached = argc == 4 && !strcmp(argv[2], "cached"), dsync = argc == 4 && !strcmp(argv[2], "dsync");
	io_context_t aio = NULL;
	cpu_set_t first;
	void *buf;
	int fd;

	if (argc != 4)
		errx(1, "usage: hog FILE unwritten|append|cached|dsync idle|hog");
	fd = open(argv[1], O_RDWR | O_DIRECT | (dsync ? O_DSYNC : 0));
	buf = aligned_alloc(BLOCK, BLOCK);
	if (fd < 0 || !buf || io_setup(1, &aio))
		err(1, "%s", argv[1]);
	memset(buf, 1, BLOCK);
	if (mlockall(MCL_CURRENT))
		err(1, "mlockall");
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof(first), &first))
		err(1, "sched_setaffinity");
	if (!strcmp(argv[3], "hog") && sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ 1 }))
		err(1, "sched_setscheduler");
	for (unsigned int i = 0; i < WRITES; i++) {
		struct timespec none = { };
		struct io_event event;
		struct iocb iocb, *list = &iocb;
		uint64_t begin = now();

		io_prep_pwrite(&iocb, fd, buf, BLOCK, (uint64_t)i * BLOCK);
		if (io_submit(aio, 1, &list) != 1)
			errx(1, "io_submit");
		if (cached && posix_fadvise(fd, (off_t)i * BLOCK, BLOCK, POSIX_FADV_WILLNEED))
			errx(1, "posix_fadvise");
		while (!io_getevents(aio, 0, 1, &event, &none))
			if (now() - begin > LIMIT)
				errx(1, "write %u has not ended after 2 s", i);
		ns[i] = now() - begin;
		if (event.res != BLOCK)
			errx(1, "write %u returned %ld", i, (long)event.res);
	}
	for (unsigned int i = 0; i < WRITES; i++)
		printf("%llu\n", (unsigned long long)ns[i]);
	return 0;
}
