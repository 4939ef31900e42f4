// SPDX-License-Identifier: GPL-2.0
/*
 * Compares direct I/O in Rust with direct I/O in C: both have to leave the same
 * record of a script.
 *
 * iomap_dio_scripts executes the named scripts and checks that their records show
 * the behaviour in the name.  iomap_dio_cuts cuts the power at every event of the same
 * scripts (cut.c).  iomap_dio_fuzz executes random scripts, and cuts the power as well:
 *
 *   iomap_dio_fuzz.scripts=	number of scripts
 *   iomap_dio_fuzz.seconds=	or the time
 *   iomap_dio_fuzz.seed=	the first seed; the others follow it
 */
#include <kunit/test.h>
#include <linux/bio.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include "script.h"

static struct record *c_record, *rust_record;

static int suite_init(struct kunit_suite *suite)
{
	c_record = kvzalloc_obj(*c_record);
	rust_record = kvzalloc_obj(*rust_record);
	if (!c_record || !rust_record)
		return -ENOMEM;
	return world_make();
}

static void suite_exit(struct kunit_suite *suite)
{
	world_unmake();
	kvfree(c_record);
	kvfree(rust_record);
	c_record = NULL;
	rust_record = NULL;
}

static int case_init(struct kunit *test)
{
	world_enter(test);
	return 0;
}

/* Cuts the power as well if @cuts. */
static int play_both(const struct script *s, struct cuts *cuts)
{
	int error = world_play(s, IMPL_C, c_record);

	if (error)
		return error;
	if (cuts && !s->crashes_c)
		cut_check(s, IMPL_C, cuts);
	error = world_play(s, IMPL_RUST, rust_record);
	/* What C has room for differs then, and is compared. */
	if (error == -E2BIG)
		error = 0;
	if (!error && cuts)
		cut_check(s, IMPL_RUST, cuts);
	return error;
}

/* --- Named scripts --- */

/* What this kernel lacks to execute the script. */
static const char *lacks(const struct script *s)
{
	if ((s->allocs || s->fail_alloc) && !allocs_can_fail())
		return "needs CONFIG_KALLSYMS, and CONFIG_FAILSLAB and CONFIG_FAIL_PAGE_ALLOC with fail_nth for allocations that may sleep";
	if (s->crypt && !IS_ENABLED(CONFIG_FS_ENCRYPTION))
		return "needs CONFIG_FS_ENCRYPTION";
	return NULL;
}

static void play_named(struct kunit *test)
{
	const struct script *s = test->param_value;
	const struct record *rec = rust_record;
	const char *p = rec->text;
	bool equal, warns = false;

	if (lacks(s))
		kunit_skip(test, "%s", lacks(s));
	KUNIT_ASSERT_EQ_MSG(test, play_both(s, NULL), 0, "the request got stuck; its record:\n%s",
			rec->text);
	equal = records_equal(c_record, rust_record);
	if (!s->differs && !equal) {
		script_print(s);
		records_print(c_record, rust_record);
	}
	if (s->differs)
		KUNIT_EXPECT_FALSE_MSG(test, equal, "Rust no longer differs from C");
	else
		KUNIT_EXPECT_TRUE_MSG(test, equal, "Rust differs from C");

	KUNIT_EXPECT_EQ_MSG(test, rec->result, s->result, "the result of Rust");
	for (unsigned int i = 0; i < SCRIPT_SHOWS && s->shows[i]; i++) {
		const char *found = strstr(p, s->shows[i]);

		warns |= !strcmp(s->shows[i], "warned");
		if (!found)
			KUNIT_FAIL(test, "the record lacks \"%s\" at this place:\n%s",
				   s->shows[i], rec->text);
		else
			p = found + strlen(s->shows[i]);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(s->never) && s->never[i]; i++)
		KUNIT_EXPECT_NULL_MSG(test, strstr(rec->text, s->never[i]),
				"the record must not contain \"%s\":\n%s", s->never[i], rec->text);
	/* The console does not have it (suite_init()), and with C it may be the same. */
	KUNIT_EXPECT_EQ_MSG(test, !!strstr(rec->text, "\nwarned\n"), warns,
			    "whether Rust warned:\n%s", rec->text);
}

#define GROUP(group)							\
static const void *next_##group(struct kunit *test, const void *prev, char *desc) \
{									\
	const struct script *s = prev ? (const struct script *)prev + 1 : group##_scripts; \
									\
	if (!s->name)							\
		return NULL;						\
	strscpy(desc, s->name, KUNIT_PARAM_DESC_SIZE);			\
	return s;							\
}									\
static void group(struct kunit *test)					\
{									\
	play_named(test);						\
}

GROUP(setup)
GROUP(mapping)
GROUP(bio)
GROUP(zeroing)
GROUP(write)
GROUP(completion)
GROUP(simple)
GROUP(difference)

/* A segment may go over several folios, of which no script can be sure. */
static void dirty_folios(struct kunit *test)
{
	struct page *pages = alloc_pages(GFP_KERNEL, 1);
	struct bio_vec bv;
	struct bio bio;

	KUNIT_ASSERT_NOT_NULL(test, pages);
	split_page(pages, 1);
	bio_init(&bio, NULL, &bv, 1, REQ_OP_READ);
	__bio_add_page(&bio, pages, 2 * PAGE_SIZE, 0);
	for (unsigned int dirty = 0; dirty < 4; dirty++) {
		for (unsigned int i = 0; i < 2; i++)
			assign_bit(PG_dirty, &pages[i].flags.f, dirty & BIT(i));
		KUNIT_EXPECT_EQ_MSG(test, bio_release_dirty_pages(&bio), dirty == 3, "%u", dirty);
	}
	bio_uninit(&bio);
	for (unsigned int i = 0; i < 2; i++) {
		folio_clear_dirty(page_folio(pages + i));
		__free_page(pages + i);
	}
}

/* Folios anywhere in the tree of the page cache, with the shadow entry of one elsewhere. */
static void pages_of_ranges(struct kunit *test)
{
	static const pgoff_t at[] = {
		0, 1, 63, 64, 127, 4095, 4096, 1 << 18, MAX_LFS_FILESIZE >> PAGE_SHIFT,
	};
	/* As many pages as a slot of the lowest node has, of the next one, and less than that */
	static const pgoff_t sizes[] = { 1, 4, 64 };
	struct address_space *mapping = kunit_kzalloc(test, sizeof(*mapping), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mapping);
	xa_init(&mapping->i_pages);
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes) * ARRAY_SIZE(at) * ARRAY_SIZE(at); i++) {
		pgoff_t page = at[i % ARRAY_SIZE(at)], shadow = at[i / ARRAY_SIZE(at) % ARRAY_SIZE(at)];
		pgoff_t last_of_it = sizes[i / ARRAY_SIZE(at) / ARRAY_SIZE(at)] - 1;
		pgoff_t begin = page & ~last_of_it, end = page | last_of_it;

		xa_store(&mapping->i_pages, shadow, xa_mk_value(0), GFP_KERNEL);
		for (unsigned int there = 0; there < 2; there++) {
			for (unsigned int j = 0; j < ARRAY_SIZE(at) * ARRAY_SIZE(at); j++) {
				pgoff_t first = at[j % ARRAY_SIZE(at)], last = at[j / ARRAY_SIZE(at)];
				bool found = filemap_range_has_page(mapping, (loff_t)first << PAGE_SHIFT,
								    (loff_t)last << PAGE_SHIFT);

				KUNIT_EXPECT_EQ_MSG(test, found, there && first <= last && first <= end && begin <= last,
						    "pages %lu to %lu, shadow %lu, range %lu to %lu",
						    begin, end, shadow, first, last);
			}
			xa_store_range(&mapping->i_pages, begin, end, mapping, GFP_KERNEL);
		}
		xa_destroy(&mapping->i_pages);
	}
}

static struct kunit_case named_cases[] = {
	KUNIT_CASE_PARAM(setup, next_setup),
	KUNIT_CASE_PARAM(mapping, next_mapping),
	KUNIT_CASE_PARAM(bio, next_bio),
	KUNIT_CASE_PARAM(zeroing, next_zeroing),
	KUNIT_CASE_PARAM(write, next_write),
	KUNIT_CASE_PARAM(completion, next_completion),
	KUNIT_CASE_PARAM(simple, next_simple),
	KUNIT_CASE_PARAM(difference, next_difference),
	KUNIT_CASE(dirty_folios),
	KUNIT_CASE(pages_of_ranges),
	{}
};

static struct kunit_suite named_suite = {
	.name		= "iomap_dio_scripts",
	.suite_init	= suite_init,
	.suite_exit	= suite_exit,
	.init		= case_init,
	.test_cases	= named_cases,
};

/* --- The same, with power cuts --- */

static const struct topic {
	const char *name;
	const struct script *scripts;
} topics[] = {
	{ "setup", setup_scripts }, { "mapping", mapping_scripts }, { "bio", bio_scripts },
	{ "zeroing", zeroing_scripts }, { "write", write_scripts },
	{ "completion", completion_scripts }, { "simple", simple_scripts },
	{ "difference", difference_scripts },
};

KUNIT_ARRAY_PARAM_DESC(topic, topics, name);

static void say_cuts(struct kunit *test, const struct cuts *cuts)
{
	kunit_info(test, "cuts: %lu writes, %lu left out, %lu states of C and %lu of Rust looked at, %lu violations",
		   cuts->scripts, cuts->left_out, cuts->states[IMPL_C],
		   cuts->states[IMPL_RUST], cuts->violations);
}

static void named_cuts(struct kunit *test)
{
	const struct topic *topic = test->param_value;
	struct cuts all = { };

	for (const struct script *s = topic->scripts; s->name; s++) {
		struct cuts cuts = { .loud = !s->breaks };
		int error;

		if (lacks(s)) {
			kunit_info(test, "left out: \"%s\"", s->name);
			continue;
		}
		error = play_both(s, &cuts);
		KUNIT_EXPECT_NE_MSG(test, error, -ETIMEDOUT, "\"%s\" got stuck", s->name);
		KUNIT_EXPECT_EQ_MSG(test, cuts.broken[IMPL_C], !!s->breaks, "C: \"%s\"",
				    s->name);
		KUNIT_EXPECT_EQ_MSG(test, cuts.broken[IMPL_RUST], s->breaks && !s->differs,
				    "Rust: \"%s\"", s->name);
		if (error || cuts.left_out)
			kunit_info(test, "left out: \"%s\"", s->name);
		all.scripts += cuts.scripts;
		all.left_out += cuts.left_out;
		all.states[IMPL_C] += cuts.states[IMPL_C];
		all.states[IMPL_RUST] += cuts.states[IMPL_RUST];
		all.violations += s->breaks ? 0 : cuts.violations;
	}
	say_cuts(test, &all);
}

static struct kunit_case cuts_cases[] = {
	KUNIT_CASE_PARAM(named_cuts, topic_gen_params),
	{}
};

static struct kunit_suite cuts_suite = {
	.name		= "iomap_dio_cuts",
	.suite_init	= suite_init,
	.suite_exit	= suite_exit,
	.init		= case_init,
	.test_cases	= cuts_cases,
};

/* --- Random scripts --- */

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "iomap_dio_fuzz."

/* A longer case would trigger the hung task detector. */
#define CHUNK_SCRIPTS	500UL
#define CHUNK_SECONDS	20UL

static unsigned long scripts = 3000;
module_param(scripts, ulong, 0444);
MODULE_PARM_DESC(scripts, "number of random scripts");

static unsigned long seconds;
module_param(seconds, ulong, 0444);
MODULE_PARM_DESC(seconds, "execute random scripts for this time, whatever their number");

static unsigned long seed = 1;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "seed of the first random script");

static bool differs(const struct script *s)
{
	return !play_both(s, NULL) && !records_equal(c_record, rust_record);
}

static bool breaks_a_rule(const struct script *s)
{
	struct cuts cuts = { };

	return !play_both(s, &cuts) && cuts.violations;
}

static unsigned long nr_chunks(void)
{
	return seconds ? DIV_ROUND_UP(seconds, CHUNK_SECONDS) :
			 DIV_ROUND_UP(scripts, CHUNK_SCRIPTS);
}

static unsigned long chunk_seed(unsigned long chunk)
{
	return seed + chunk * (seconds ? 1000000 : CHUNK_SCRIPTS);
}

/* The parameter of a chunk is its number, from 1. */
static const void *next_chunk(struct kunit *test, const void *prev, char *desc)
{
	unsigned long chunk = (unsigned long)prev;

	if (chunk >= nr_chunks())
		return NULL;
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "from seed %lu on", chunk_seed(chunk));
	return (const void *)(chunk + 1);
}

/* What is to be warned of in a random script: also an untorn write that is cut (D90). */
static bool may_warn(const struct script *s)
{
	if (s->ki_flags & IOCB_ATOMIC)
		return true;
	for (unsigned int i = 0; i < s->maps; i++) {
		if (s->map[i].type == MAP_UNKNOWN || (s->map[i].type == MAP_HOLE && s->op == OP_WRITE))
			return true;
	}
	return false;
}

static void fuzz(struct kunit *test)
{
	unsigned long first = chunk_seed((unsigned long)test->param_value - 1);
	unsigned long end = jiffies + CHUNK_SECONDS * HZ, n;
	unsigned long queued = 0, failed = 0, bios = 0, too_long = 0;
	struct cuts cuts = { };
	struct script *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, s);
	for (n = 0; seconds ? time_before(jiffies, end) :
	     n < CHUNK_SCRIPTS && first + n < seed + scripts; n++) {
		int error;

		script_generate(s, first + n);
		error = play_both(s, &cuts);
		if (error == -E2BIG) {
			too_long++;
			continue;
		}
		if (error) {
			KUNIT_FAIL(test, "the script of seed %lu got stuck (%d)", first + n, error);
			script_print(s);
			records_print(c_record, rust_record);
			return;
		}
		queued += !!strstr(c_record->text, "trace queued");
		bios += !!strstr(c_record->text, "\nbio0 ");
		failed += c_record->result < 0;
		if (cuts.violations) {
			pr_info("seed %lu breaks a rule; it is made smaller\n", first + n);
			script_shrink(s, breaks_a_rule);
			cuts.loud = true;
			play_both(s, &cuts);
			KUNIT_FAIL(test, "the script of seed %lu breaks a rule", first + n);
			return;
		}
		if (strstr(rust_record->text, "\nwarned\n") && !may_warn(s)) {
			KUNIT_FAIL(test, "the script of seed %lu warns", first + n);
			script_print(s);
			records_print(c_record, rust_record);
			return;
		}
		if (records_equal(c_record, rust_record))
			continue;

		/* What depends on chance may not differ again. */
		records_print(c_record, rust_record);
		pr_info("seed %lu differs; it is made smaller\n", first + n);
		script_shrink(s, differs);
		script_print(s);
		KUNIT_EXPECT_TRUE(test, differs(s));
		records_print(c_record, rust_record);
		KUNIT_FAIL(test, "the script of seed %lu differs", first + n);
		return;
	}
	kunit_info(test, "%lu scripts, %lu with bios, %lu queued, %lu with an error, %lu too long to compare",
		   n, bios, queued, failed, too_long);
	say_cuts(test, &cuts);
	/* Scripts without bios compare little, so require that many scripts have some. */
	if (n >= 100) {
		KUNIT_EXPECT_GE(test, bios * 3, n);
		KUNIT_EXPECT_LE(test, too_long * 50, n);
	}
}

static struct kunit_case fuzz_cases[] = {
	KUNIT_CASE_PARAM_ATTR(fuzz, next_chunk, { .speed = KUNIT_SPEED_SLOW }),
	{}
};

static struct kunit_suite fuzz_suite = {
	.name		= "iomap_dio_fuzz",
	.suite_init	= suite_init,
	.suite_exit	= suite_exit,
	.init		= case_init,
	.test_cases	= fuzz_cases,
};

kunit_test_suites(&named_suite, &cuts_suite, &fuzz_suite);

MODULE_DESCRIPTION("KUnit tests that compare direct I/O in Rust with C");
MODULE_LICENSE("GPL");
