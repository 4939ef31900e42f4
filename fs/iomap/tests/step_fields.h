/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The numbers of a step of a script.
 * Included wherever something is done with each of them, with F() defined.
 */
F(what)		/* enum script_step_what */
F(arg)
F(ctx)		/* enum script_ctx, for STEP_END */
