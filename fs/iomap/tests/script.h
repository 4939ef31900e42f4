/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scripts of direct I/O: one request, the answers of the file system and of the
 * disk, and the events in between.
 *
 * A script consists of plain numbers.  It can be written by hand, drawn at random,
 * shrunk, and printed in a form that scripts/ may contain.  Every number has a
 * useful default of zero: an empty script is a synchronous read of 0 bytes at the
 * start of a file of 1 MiB with blocks of 4 KiB, on a disk whose bios all succeed.
 */
#ifndef _IOMAP_TESTS_SCRIPT_H
#define _IOMAP_TESTS_SCRIPT_H

#include <linux/blk_types.h>
#include <linux/fs.h>
#include <linux/iomap.h>
#include <linux/sizes.h>

struct kunit;

/* The function that gets the request. */
enum script_op {
	OP_READ,
	OP_WRITE,
	/* iomap_dio_read_simple(), and iomap_dio_rw() if it returns -ENOTBLK */
	OP_SIMPLE,
};

/* The memory of the request. */
enum script_memory {
	MEM_UBUF,
	MEM_IOVEC,
	MEM_BVEC,
	MEM_KVEC,
	/* of cachefiles; has no segments */
	MEM_FOLIOQ,
	NR_MEM,
};

/* ->submit_io() of the file system. */
enum script_submit {
	/* There is no callback: iomap submits the bios. */
	SUBMIT_BY_IOMAP,
	/* The callback submits the bio unchanged. */
	SUBMIT_AS_IS,
	/* The callback replaces bi_end_io, as btrfs and f2fs do. */
	SUBMIT_HOOKED,
	/* The callback makes an ioend that a worker ends, as XFS does; needs SET_IOEND. */
	SUBMIT_IOEND,
	NR_SUBMIT,
};

/* The bio set of the file system. */
enum script_set {
	SET_OF_IOMAP,
	SET_OWN,
	SET_IOEND,
	NR_SET,
};

/* Where the file is encrypted. */
enum script_crypt {
	CRYPT_NONE,
	CRYPT_DISK,
	/*
	 * In the block layer, because the disk cannot.  It decrypts in a worker, so
	 * use this for synchronous reads only.
	 */
	CRYPT_BLOCK_LAYER,
};

/* The context of an event. */
enum script_ctx {
	CTX_TASK,
	CTX_SOFTIRQ,
	CTX_HARDIRQ,
	CTX_WORKER,
	NR_CTX,
};

/* The type of the mapping that the file system returns. */
enum script_map_type {
	MAP_MAPPED,
	MAP_UNWRITTEN,
	MAP_HOLE,
	MAP_DELALLOC,
	MAP_INLINE,
	MAP_UNKNOWN,
	NR_MAP,
};

/* An event during the request. */
enum script_step_what {
	STEP_NONE,
	/* bio number `arg` ends */
	STEP_END,
	/* the caller's pages are cleaned from page `arg` on, as by writeback */
	STEP_CLEAN,
	/* page `arg` of the request appears in the page cache, clean */
	STEP_CACHE,
	/* ... and dirty */
	STEP_DIRTY,
	/* the file becomes `arg` bytes long */
	STEP_SIZE,
	/* the caller's memory changes */
	STEP_SCRIBBLE,
	/* a task polls for the request */
	STEP_POLL,
	/* another task waits for all requests to the file, as truncate() does */
	STEP_WAIT,
};

#define SCRIPT_MAPS	6
#define SCRIPT_STEPS	8
#define SCRIPT_SHOWS	9

/* A file size of 0 bytes; the number 0 stands for the default size. */
#define EMPTY		(-1)

#define F(name)	s64 name;

struct script_map {
#include "map_fields.h"
};

struct script_step {
#include "step_fields.h"
};

struct script {
	/* Of a named script: begins with the numbers of the behaviours that it shows. */
	const char *name;
	/* The expected result; that of ki_complete() if the request is queued. */
	s64 result;
	/* Lines, or parts of lines, that the record must contain, in this order: "warned" as well... */
	const char *shows[SCRIPT_SHOWS];
	/* ... and parts of lines that it must not contain. */
	const char *never[4];
	/* Why Rust differs from C; result and shows then apply to Rust. */
	const char *differs;
	/* Why a power cut breaks a rule of cut.c with C, and with Rust unless it differs. */
	const char *breaks;
	/* C would crash, so only Rust executes the script. */
	bool crashes_c;

#include "script_fields.h"

	/* The answers of ->iomap_begin(), call by call; the last one repeats. */
	struct script_map map[SCRIPT_MAPS];
	s64 maps;
	/*
	 * The events after the call has returned, or while the submitter waits.
	 * After the last step all remaining bios end in the order of submission.
	 */
	struct script_step step[SCRIPT_STEPS];
};

#undef F

/*
 * What most scripts begin with: the function, the length of the request, and the result
 * that is expected.
 */
#define READS(bytes, gives)	.op = OP_READ, .len = (bytes), .result = (gives)
#define WRITES(bytes, gives)	.op = OP_WRITE, .len = (bytes), .result = (gives)
#define SIMPLE(bytes, gives)	.op = OP_SIMPLE, .len = (bytes), .result = (gives)

/* A request that must not wait or is polled for, and a disk that can do so. */
#define NOWAIT			.ki_flags = IOCB_NOWAIT, .nowait = 1
#define POLLED			.ki_flags = IOCB_HIPRI, .poll = 1
#define IOENDS			.submit = SUBMIT_IOEND, .set = SET_IOEND
#define STS(name)		((__force s64)BLK_STS_##name)

/* All mappings, each in braces; the only one. */
#define MAPS(...)							\
	.maps = sizeof((struct script_map[]){ __VA_ARGS__ }) / sizeof(struct script_map), \
	.map = { __VA_ARGS__ }
#define MAP(...)		MAPS({ __VA_ARGS__ })

/* All steps, each in braces; the only one, in which bio 0 ends in a context. */
#define STEPS(...)		.step = { __VA_ARGS__ }
#define ENDS_IN(where)		STEPS({ STEP_END, 0, CTX_##where })

#define SHOWS(...)		.shows = { __VA_ARGS__ }
#define NEVER(...)		.never = { __VA_ARGS__ }

/* The implementation that executes the request. */
enum impl {
	IMPL_C,
	IMPL_RUST,
};

#define RECORD_BYTES	(64 << 10)

/* The observations of one execution, as lines of text. */
struct record {
	char text[RECORD_BYTES];
	size_t len;
	/* The result of the request; that of ki_complete() if it was queued. */
	s64 result;
	bool full;
};

/* Sets up the simulated world of a suite, and tears it down. */
int world_make(void);
void world_unmake(void);

/* Until @test ends, warnings of the kernel go to the record instead of the log. */
void world_enter(struct kunit *test);

/*
 * Executes a script.  Fails with -ETIMEDOUT if the request hangs, and with -E2BIG
 * if the record is too small.
 */
int world_play(const struct script *s, enum impl impl, struct record *rec);

/* What power cuts during scripts have shown. */
struct cuts {
	unsigned long scripts;
	unsigned long left_out;		/* scripts that the rules are not made for */
	unsigned long states[2];	/* with C, and with Rust */
	unsigned long violations;
	bool broken[2];			/* set for an implementation that has broken a rule */
	bool loud;			/* print what a person needs to see that again */
};

/* Cuts the power at each event of the script that was just executed. */
void cut_check(const struct script *s, enum impl impl, struct cuts *sum);

/* Whether this kernel can inject allocation failures. */
bool allocs_can_fail(void);

/* The named scripts, by topic.  The last entry of each array has no name. */
extern const struct script setup_scripts[], mapping_scripts[], bio_scripts[], zeroing_scripts[],
	write_scripts[], completion_scripts[], simple_scripts[], difference_scripts[];

/* Prints a script in a form that scripts/ may contain. */
void script_print(const struct script *s);

/* Draws a random script, always the same one for a seed. */
void script_generate(struct script *s, u64 seed);

/* Shrinks a script as long as `fails` returns true for the smaller one. */
void script_shrink(struct script *s, bool (*fails)(const struct script *s));

/* Prints two records up to the first difference, and then a few lines of both. */
void records_print(const struct record *c, const struct record *rust);
bool records_equal(const struct record *a, const struct record *b);

#endif /* _IOMAP_TESTS_SCRIPT_H */
