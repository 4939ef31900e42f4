// SPDX-License-Identifier: GPL-2.0

//! What direct I/O asks of a block device.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h).

use crate::{
    bindings,
    types::Opaque, //
};

/// A block device that a mapping points at (`struct block_device`).
///
/// # Invariants
///
/// The device has a request queue, and both outlive every reference to this type: the file system
/// that handed the device out holds it open.
#[repr(transparent)]
pub struct BlockDevice(Opaque<bindings::block_device>);

impl BlockDevice {
    /// Borrows a device from C.
    ///
    /// # Safety
    ///
    /// `ptr` must point at an open block device which stays open for the duration of `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::block_device) -> &'a Self {
        // SAFETY: `Self` is transparent, and the caller keeps the device open.
        unsafe { &*ptr.cast() }
    }

    /// Returns the device as C knows it.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::block_device {
        self.0.get()
    }

    #[inline]
    fn limits(&self) -> *const bindings::queue_limits {
        // SAFETY: By the invariants the device is valid and `bd_queue` is never NULL.
        unsafe { &raw const (*(*self.as_raw()).bd_queue).limits }
    }

    /// Size in bytes of a logical block, a power of two (`bdev_logical_block_size()`).
    #[inline]
    pub fn logical_block_size(&self) -> u32 {
        // SAFETY: The limits belong to a valid queue. C reads the field without a lock as well.
        unsafe { (*self.limits()).logical_block_size }
    }

    /// Mask for the alignment of memory segments (`bdev_dma_alignment()`).
    #[inline]
    pub fn dma_alignment_mask(&self) -> u32 {
        // SAFETY: As in `logical_block_size`.
        unsafe { (*self.limits()).dma_alignment }
    }

    /// Whether the device has a volatile write cache (`bdev_write_cache()`).
    #[inline]
    pub fn has_write_cache(&self) -> bool {
        // SAFETY: The device is valid by the invariants.
        unsafe { bindings::bdev_write_cache(self.as_raw()) }
    }

    /// Whether the device writes through with `REQ_FUA` (`bdev_fua()`).
    #[inline]
    pub fn has_fua(&self) -> bool {
        // SAFETY: As in `logical_block_size`.
        unsafe { (*self.limits()).features & bindings::BLK_FEAT_FUA != 0 }
    }

    /// Whether the device takes `REQ_NOWAIT` (`bdev_nowait()`).
    #[inline]
    pub fn has_nowait(&self) -> bool {
        // SAFETY: As in `logical_block_size`.
        unsafe { (*self.limits()).features & bindings::BLK_FEAT_NOWAIT != 0 }
    }

    /// The largest bio, in bytes, that one integrity buffer covers (`max_integrity_io_size()`).
    ///
    /// Only meaningful for a device with an integrity profile; zero says that there is none.
    pub fn max_integrity_bytes(&self) -> usize {
        // SAFETY: The device is valid by the invariants.
        unsafe { bindings::iomap_max_integrity_bytes(self.as_raw()) as usize }
    }
}
