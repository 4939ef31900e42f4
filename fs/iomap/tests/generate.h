/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _IOMAP_TESTS_GENERATE_H
#define _IOMAP_TESTS_GENERATE_H

#include "script.h"

/* Draws a script.  The same seed always draws the same one. */
void script_generate(struct script *s, u64 seed);

/*
 * Makes a script smaller for as long as `fails` says that it still shows what is
 * wrong.
 */
void script_shrink(struct script *s, bool (*fails)(const struct script *s));

#endif /* _IOMAP_TESTS_GENERATE_H */
