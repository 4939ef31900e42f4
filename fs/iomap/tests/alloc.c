// SPDX-License-Identifier: GPL-2.0
/*
 * Records the allocations of a submitter: whether they may sleep, fail, and are freed
 * in the end.  Also makes one of them fail.
 *
 * Tracepoints count the allocations.  The allocation before the one that has to fail
 * sets current->fail_nth (Documentation/fault-injection/fault-injection.rst).
 * fail_nth alone would also count the pages that the slab allocator occasionally
 * allocates for itself, so the records of a script would vary.
 */
#include <linux/gfp.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sprintf.h>
#include <linux/string.h>
#include <trace/events/kmem.h>
#include "world.h"

static struct {
	const struct task_struct *task;
	unsigned int seen;
	unsigned int fail;
	/* Allocations not freed so far. */
	const void *live[16];
	bool any_live;
} watch;

/* Makes the next allocation fail, or revokes that. */
static void set_fail_next(bool on)
{
#ifdef CONFIG_FAULT_INJECTION
	current->fail_nth = on;
#endif
}

static bool is_fail_pending(void)
{
#ifdef CONFIG_FAULT_INJECTION
	return current->fail_nth;
#else
	return false;
#endif
}

bool allocs_can_fail(void)
{
	void *p;

	if (!IS_ENABLED(CONFIG_FAILSLAB) || !IS_ENABLED(CONFIG_FAIL_PAGE_ALLOC) ||
	    !IS_ENABLED(CONFIG_KALLSYMS))
		return false;
	set_fail_next(true);
	p = kmalloc(32, GFP_KERNEL | __GFP_NOWARN);
	set_fail_next(false);
	kfree(p);
	return !p;
}

/* The slab allocator and CONFIG_DEBUG_OBJECTS occasionally allocate for themselves. */
static bool is_housekeeping(unsigned long call_site)
{
	static const char *const parts[] = { "sheaf", "_pcs_", "fill_pool", "kmem_alloc_batch" };
	char name[64];

	snprintf(name, sizeof(name), "%ps", (void *)call_site);
	for (unsigned int i = 0; i < ARRAY_SIZE(parts); i++)
		if (strstr(name, parts[i]))
			return true;
	return false;
}

static void saw(unsigned long call_site, const void *ptr, gfp_t gfp)
{
	if (current != watch.task || !in_task())
		return;
	if (is_housekeeping(call_site)) {
		/* A failure here has no effect.  Fail the next allocation instead. */
		if (!ptr && watch.seen + 1 == watch.fail)
			set_fail_next(true);
		return;
	}
	if (ptr && watch.seen < ARRAY_SIZE(watch.live)) {
		WRITE_ONCE(watch.live[watch.seen], ptr);
		WRITE_ONCE(watch.any_live, true);
	}
	watch.seen++;
	say("alloc %u%s%s\n", watch.seen, gfp & __GFP_DIRECT_RECLAIM ? " may wait" : "",
	    ptr ? "" : " fails");
	if (watch.seen + 1 == watch.fail)
		set_fail_next(true);
}

/* Called for every kfree() in the system, also between scripts. */
static void saw_free(const void *ptr)
{
	if (!READ_ONCE(watch.any_live) || !ptr)
		return;
	for (unsigned int i = 0; i < ARRAY_SIZE(watch.live); i++)
		if (READ_ONCE(watch.live[i]) == ptr) {
			WRITE_ONCE(watch.live[i], NULL);
			break;
		}
}

static void probe_kmalloc(void *data, unsigned long call_site, const void *ptr, size_t bytes_req,
		size_t bytes_alloc, gfp_t gfp, int node)
{
	saw(call_site, ptr, gfp);
}

static void probe_kmem_cache_alloc(void *data, unsigned long call_site, const void *ptr,
		struct kmem_cache *s, gfp_t gfp, int node)
{
	saw(call_site, ptr, gfp);
}

static void probe_kfree(void *data, unsigned long call_site, const void *ptr)
{
	saw_free(ptr);
}

static void probe_kmem_cache_free(void *data, unsigned long call_site, const void *ptr,
		const struct kmem_cache *s)
{
	saw_free(ptr);
}

void allocs_begin(unsigned int fail)
{
	watch.seen = 0;
	watch.fail = fail;
	WRITE_ONCE(watch.task, current);
	if (fail == 1)
		set_fail_next(true);
}

void allocs_end(void)
{
	WRITE_ONCE(watch.task, NULL);
	if (watch.fail && (watch.seen + 1 < watch.fail || is_fail_pending()))
		say("no allocation has failed\n");
	set_fail_next(false);
}

void allocs_forget(void)
{
	WRITE_ONCE(watch.any_live, false);
	for (unsigned int i = 0; i < ARRAY_SIZE(watch.live); i++)
		if (watch.live[i]) {
			say("alloc %u has not been freed\n", i + 1);
			watch.live[i] = NULL;
		}
}

void allocs_probes(bool on)
{
	PROBE(on, kmalloc, probe_kmalloc, NULL);
	PROBE(on, kmem_cache_alloc, probe_kmem_cache_alloc, NULL);
	PROBE(on, kfree, probe_kfree, NULL);
	PROBE(on, kmem_cache_free, probe_kmem_cache_free, NULL);
}
