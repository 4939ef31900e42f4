/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The numbers of a mapping of a script, for inclusion with a definition of F().
 */
F(type)		/* enum script_map_type */
F(len)		/* bytes from the position; 0: 1 MiB past the request */
F(before)	/* bytes before the position */
F(flags)	/* IOMAP_F_* */
F(error)	/* ->iomap_begin() fails with this error instead */
F(end)		/* the result of ->iomap_end() */
F(src)		/* the srcmap is filled as well: bytes from the position, but no more than the mapping */
F(nothing)	/* the block device or the inline data is NULL */
F(size)		/* the new file size in bytes; 0: unchanged; EMPTY */
