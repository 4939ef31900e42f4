/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The numbers of a mapping of a script.
 * Included wherever something is done with each of them, with F() defined.
 */
F(type)		/* enum script_map_type */
F(len)		/* bytes from the position; 0: 1 MiB past the request */
F(before)	/* bytes in front of the position */
F(flags)	/* IOMAP_F_* */
F(error)	/* ->iomap_begin() fails with it instead */
F(end)		/* what ->iomap_end() returns */
F(src)		/* there is a source mapping as well */
F(nothing)	/* no block device, or no inline data */
F(size)		/* the file is so many bytes long from then on; EMPTY */
