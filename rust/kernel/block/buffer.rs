// SPDX-License-Identifier: GPL-2.0

//! Memory of the kernel that a block device can transfer to.
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
/// A device goes straight to the memory, so that has to be aligned as the device wants it, lie in the
/// linear mapping, and share its cache lines with nothing else. Not every `&mut [u8]` does.
///
/// # Invariants
///
/// The memory was allocated by `kmalloc()` with a size that is a power of two from [`Buffer::MIN`] to
/// [`Buffer::MAX`], and so is aligned to its size.
pub struct Buffer(KVec<u8>);

impl Buffer {
    /// The smallest buffer in bytes: the smallest block of any device.
    pub const MIN: usize = 512;

    /// The largest buffer in bytes: larger pieces of memory are hard to get.
    pub const MAX: usize = 1 << 20;

    /// Allocates a buffer of `len` zeroes.
    ///
    /// Fails with `EINVAL` if `len` is no power of two, less than [`Buffer::MIN`] or more than
    /// [`Buffer::MAX`], and with `ENOMEM` if there is no memory.
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
