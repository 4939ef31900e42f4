// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that a block device can transfer to.
//!
//! C header: [`include/linux/slab.h`](srctree/include/linux/slab.h).

use crate::{
    alloc::Flags,
    prelude::*, //
};
use core::ops::{
    Deref,
    DerefMut, //
};

/// A buffer of initialised bytes for a block device.
///
/// A device accesses memory directly, so a buffer for it must have the alignment that the device
/// asks for, lie in the linear mapping, and share no cache line with other data. A `&mut [u8]`
/// promises none of that, but a [`Buffer`] does. Its owner uses it as a slice; [`Bio::read`] takes
/// it by value, so nobody looks at the memory while the device writes to it.
///
/// # Invariants
///
/// `kmalloc()` allocated the memory with a size that is a power of two from [`Buffer::MIN`] to
/// [`Buffer::MAX`] bytes, and so aligned it to its size.
///
/// # Examples
///
/// ```
/// use kernel::block::buffer::Buffer;
///
/// let mut buffer = Buffer::new(4096, GFP_KERNEL)?;
/// assert_eq!(buffer.len(), 4096);
/// assert!(buffer.iter().all(|&byte| byte == 0));
/// assert_eq!(buffer.as_ptr() as usize % 4096, 0);
///
/// buffer.fill(0xa5);
/// assert!(buffer.ends_with(&[0xa5, 0xa5]));
///
/// // Not a power of two; too small; too large.
/// assert_eq!(Buffer::new(3000, GFP_KERNEL).err(), Some(EINVAL));
/// assert_eq!(Buffer::new(Buffer::MIN / 2, GFP_KERNEL).err(), Some(EINVAL));
/// assert_eq!(Buffer::new(Buffer::MAX * 2, GFP_KERNEL).err(), Some(EINVAL));
/// # Ok::<(), Error>(())
/// ```
///
/// [`Bio::read`]: super::bio::Bio::read
pub struct Buffer(KVec<u8>);

impl Buffer {
    /// The smallest buffer in bytes: the smallest logical block of any device.
    pub const MIN: usize = 512;

    /// The largest buffer in bytes. The allocator often has no larger piece of contiguous memory.
    pub const MAX: usize = 1 << 20;

    /// Allocates a buffer of `len` bytes, all zero.
    ///
    /// `flags` say whether the allocation may sleep: `GFP_KERNEL` in process context, `GFP_ATOMIC`
    /// elsewhere. Dropping the buffer frees the memory.
    ///
    /// Fails with `EINVAL` if `len` is not a power of two from [`Buffer::MIN`] to [`Buffer::MAX`],
    /// and with `ENOMEM` if there is no memory.
    #[doc(alias = "kmalloc")]
    pub fn new(len: usize, flags: Flags) -> Result<Self> {
        if !len.is_power_of_two() || !(Self::MIN..=Self::MAX).contains(&len) {
            return Err(EINVAL);
        }
        // INVARIANT: A `KVec` that was asked for so many bytes at once allocates as many with
        // `kmalloc()`, which aligns powers of two to their size.
        Ok(Self(KVec::from_elem(0, len, flags)?))
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
