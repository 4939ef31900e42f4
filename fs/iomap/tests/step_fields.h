/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The numbers of a step of a script, for inclusion with a definition of F().
 */
F(what)		/* enum script_step_what */
F(arg)
F(ctx)		/* enum script_ctx, for STEP_END */
