/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scripts of direct I/O: what is asked for, what the file system and the disk
 * answer, and what happens meanwhile.
 *
 * A script is plain numbers, so that it can be written by hand, drawn at random,
 * made smaller, and printed as it would be written.  Zero is the usual thing for
 * every number: an empty script is a synchronous read of nothing at the start of
 * a file of 1 MiB with blocks of 4 KiB, mapped to a disk that ends each bio well.
 */
#ifndef _IOMAP_TESTS_SCRIPT_H
#define _IOMAP_TESTS_SCRIPT_H

#include <linux/types.h>

struct kunit;

/* Through which door the request comes. */
enum script_op {
	OP_READ,
	OP_WRITE,
	/* iomap_dio_read_simple(), and iomap_dio_rw() if that does not want it */
	OP_SIMPLE,
};

/* The memory of the request. */
enum script_memory {
	MEM_UBUF,
	MEM_IOVEC,
	MEM_BVEC,
	MEM_KVEC,
	NR_MEM,
};

/* ->submit_io() of the file system. */
enum script_submit {
	/* There is none: iomap submits. */
	SUBMIT_BY_IOMAP,
	/* It submits the bio as it is. */
	SUBMIT_AS_IS,
	/* It puts an end handler of its own in between, as btrfs and f2fs do. */
	SUBMIT_HOOKED,
	/* It makes an ioend that a worker finishes, as XFS does; needs that bio set. */
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

/* Who encrypts the file. */
enum script_crypt {
	CRYPT_NONE,
	CRYPT_DISK,
	/* The block layer, because the disk cannot. Deferred for reads: only for synchronous ones. */
	CRYPT_BLOCK_LAYER,
	NR_CRYPT,
};

/* Where something happens. */
enum script_ctx {
	CTX_TASK,
	CTX_SOFTIRQ,
	CTX_HARDIRQ,
	CTX_WORKER,
	NR_CTX,
};

/* What the file system finds where a mapping is asked for. */
enum script_map_type {
	MAP_MAPPED,
	MAP_UNWRITTEN,
	MAP_HOLE,
	MAP_DELALLOC,
	MAP_INLINE,
	MAP_UNKNOWN,
	NR_MAP,
};


enum script_step_what {
	STEP_NONE,
	/* bio number `arg` ends */
	STEP_END,
	/* the pages of the caller become clean behind its back */
	STEP_CLEAN,
	/* page `arg` of the request appears in the page cache, clean */
	STEP_CACHE,
	/* ... and dirty */
	STEP_DIRTY,
	/* the file becomes `arg` bytes long */
	STEP_SIZE,
	/* the caller's memory changes */
	STEP_SCRIBBLE,
	/* somebody polls for the request */
	STEP_POLL,
	/* somebody else waits until all requests to the file are over, as truncate() does */
	STEP_WAIT,
	NR_STEP,
};


#define SCRIPT_MAPS	6
#define SCRIPT_STEPS	8
#define SCRIPT_SHOWS	8

/* In the file, `EMPTY` bytes are none; 0 is the usual. */
#define EMPTY		(-1)


#define F(name)	s64 name;

struct script_map {
#include "map_fields.h"
};

struct script_step {
#include "step_fields.h"
};

struct script {
	/* Named scripts: their name, which begins with the numbers of what they show. */
	const char *name;
	/* What the request returns in the end; the result of ki_complete() if it is queued. */
	s64 result;
	/* Lines, or parts of lines, that the record has to have, in this order... */
	const char *shows[SCRIPT_SHOWS];
	/* ... and parts of lines that it must not have. */
	const char *never[4];
	/* Why Rust differs from C here. Then result and shows are those of Rust. */
	const char *differs;
	/* C would crash, and is not asked. */
	bool crashes_c;

#include "script_fields.h"

	/* What ->iomap_begin() answers, call by call; the last one is for all others too. */
	struct script_map map[SCRIPT_MAPS];
	s64 maps;
	/*
	 * What happens when the request has been submitted, or its submitter waits.
	 * When the steps are over, all bios left end in the order of submission.
	 */
	struct script_step step[SCRIPT_STEPS];
};

#undef F

/* Which implementation serves the request. */
enum impl {
	IMPL_C,
	IMPL_RUST,
};

#define RECORD_BYTES	(64 << 10)

/* What was observed: lines of text. */
struct record {
	char text[RECORD_BYTES];
	size_t len;
	/* What the request returned, by ki_complete() if it was queued. */
	s64 result;
	bool full;
};

/* The world that scripts are played in, for a suite. */
int world_make(void);
void world_unmake(void);

/* Warnings that scripts provoke are written down and not printed until @test ends. */
void world_enter(struct kunit *test);

/*
 * Plays a script.  Fails with -ETIMEDOUT if the request got stuck, and with -E2BIG
 * if there was more to write down than fits.
 */
int world_play(const struct script *s, enum impl impl, struct record *rec);

/* Can allocations be made to fail in this kernel? */
bool allocs_can_fail(void);

/* Scripts by name, by what they are about; the last of each group has no name. */
extern const struct script setup_scripts[];
extern const struct script mapping_scripts[];
extern const struct script bio_scripts[];
extern const struct script zeroing_scripts[];
extern const struct script write_scripts[];
extern const struct script completion_scripts[];
extern const struct script simple_scripts[];
extern const struct script difference_scripts[];

/* Prints a script as it would be written. */
void script_print(const struct script *s);

/* Prints two records side by side, from a little before the first difference. */
void records_print(const struct record *c, const struct record *rust);
bool records_equal(const struct record *a, const struct record *b);

#endif /* _IOMAP_TESTS_SCRIPT_H */
