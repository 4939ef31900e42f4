/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _IOMAP_TESTS_GENERATE_H
#define _IOMAP_TESTS_GENERATE_H

#include "script.h"

/* Draws a random script, always the same one for a seed. */
void script_generate(struct script *s, u64 seed);

/*
 * Shrinks a script as long as `fails` returns true for the smaller one.
 */
void script_shrink(struct script *s, bool (*fails)(const struct script *s));

#endif /* _IOMAP_TESTS_GENERATE_H */
