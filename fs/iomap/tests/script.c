// SPDX-License-Identifier: GPL-2.0
/*
 * Printing of scripts and records.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include "script.h"

static void print_number(const char *name, s64 value)
{
	if (value)
		pr_cont(" .%s = %lld,", name, value);
}

void script_print(const struct script *s)
{
	pr_info("	{");
#define F(name)	print_number(#name, s->name);
#include "script_fields.h"
#undef F
	if (s->maps) {
		pr_cont(" .maps = %lld, .map = {", s->maps);
		for (unsigned int i = 0; i < s->maps; i++) {
			pr_cont(" {");
#define F(name)	print_number(#name, s->map[i].name);
#include "map_fields.h"
#undef F
			pr_cont(" },");
		}
		pr_cont(" },");
	}
	if (s->step[0].what) {
		pr_cont(" .step = {");
		for (unsigned int i = 0; i < SCRIPT_STEPS && s->step[i].what; i++) {
			pr_cont(" {");
#define F(name)	print_number(#name, s->step[i].name);
#include "step_fields.h"
#undef F
			pr_cont(" },");
		}
		pr_cont(" },");
	}
	pr_cont(" },\n");
}

bool records_equal(const struct record *a, const struct record *b)
{
	return a->len == b->len && !memcmp(a->text, b->text, a->len);
}

static const char *next_line(const char *p)
{
	const char *end = strchrnul(p, '\n');

	return *end ? end + 1 : end;
}

void records_print(const struct record *c, const struct record *rust)
{
	const char *a = c->text, *b = rust->text;
	bool differ = false;

	for (unsigned int line = 1, left = 12; left && (*a || *b); line++) {
		size_t na = next_line(a) - a, nb = next_line(b) - b;

		if (na == nb && !memcmp(a, b, na)) {
			pr_info("     %3u: %.*s\n", line, (int)(na - 1), a);
		} else {
			differ = true;
			pr_info("   C %3u: %.*s\n", line, na ? (int)(na - 1) : 0, a);
			pr_info("Rust %3u: %.*s\n", line, nb ? (int)(nb - 1) : 0, b);
		}
		left -= differ;
		a += na;
		b += nb;
	}
}
