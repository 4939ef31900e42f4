// SPDX-License-Identifier: GPL-2.0

#include <linux/uio.h>

/* _copy_from_iter() and _copy_to_iter() would skip check_copy_size(). */
__rust_helper size_t rust_helper_copy_from_iter(void *addr, size_t bytes,
						struct iov_iter *i)
{
	return copy_from_iter(addr, bytes, i);
}

__rust_helper size_t rust_helper_copy_to_iter(const void *addr, size_t bytes,
					      struct iov_iter *i)
{
	return copy_to_iter(addr, bytes, i);
}
