// SPDX-License-Identifier: GPL-2.0

//! Block devices and their limits.
//!
//! A [`BlockDevice`] is borrowed: whoever handed it out keeps the device open, usually a file
//! system that named it in a mapping.
//!
//! The driver sets the limits when it registers the disk, and may change them while the device is
//! open only with the queue frozen. The C code reads them without a lock, and so does this module,
//! in any context.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h).

use crate::{
    bindings,
    types::Opaque, //
};

/// A limit of a device, as it is now: its driver may change it at the same time.
macro_rules! limit {
    ($device:expr, $field:ident) => {{
        let device: &BlockDevice = $device;
        // SAFETY: By the invariants the device and its queue are valid.
        unsafe { (&raw const (*(*device.as_raw()).bd_queue).limits.$field).read_volatile() }
    }};
}

/// A block device that somebody else keeps open (`struct block_device`).
///
/// # Invariants
///
/// The device has a request queue, and both outlive every reference to this type: whoever handed
/// the device out holds it open.
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
    pub(crate) fn as_raw(&self) -> *mut bindings::block_device {
        self.0.get()
    }

    /// The smallest unit that the device addresses, in bytes: a power of two
    /// (`bdev_logical_block_size()`).
    ///
    /// The position and the size of each bio must be multiples of it.
    #[inline]
    pub(crate) fn logical_block_size(&self) -> u32 {
        limit!(self, logical_block_size)
    }

    /// The alignment in bytes that memory segments need, less one (`bdev_dma_alignment()`).
    ///
    /// An address is aligned if it has no bit of the mask.
    #[inline]
    pub(crate) fn dma_alignment_mask(&self) -> u32 {
        limit!(self, dma_alignment)
    }

    /// Whether a write with [`OpFlags::FUA`] is stable once its bio has ended, without a flush: the
    /// device has no volatile write cache (`bdev_write_cache()`), or can write through it
    /// (`bdev_fua()`).
    ///
    /// [`OpFlags::FUA`]: super::bio::OpFlags::FUA
    #[inline]
    pub fn can_write_through(&self) -> bool {
        // SAFETY: The device is valid by the invariants.
        let has_write_cache = unsafe { bindings::bdev_write_cache(self.as_raw()) };
        !has_write_cache || limit!(self, features) & bindings::BLK_FEAT_FUA != 0
    }

    /// Whether the driver honours [`OpFlags::NOWAIT`] (`bdev_nowait()`).
    ///
    /// If not, the block layer fails such a bio with `EOPNOTSUPP`.
    ///
    /// [`OpFlags::NOWAIT`]: super::bio::OpFlags::NOWAIT
    #[inline]
    pub fn has_nowait(&self) -> bool {
        limit!(self, features) & bindings::BLK_FEAT_NOWAIT != 0
    }

    /// The largest bio in bytes whose integrity data fits one buffer (`max_integrity_io_size()`).
    ///
    /// Zero for a device without an integrity profile.
    pub(crate) fn max_integrity_bytes(&self) -> usize {
        // SAFETY: By the invariants the device and its queue are valid. The function gets a copy that
        // nobody changes, of a device with an integrity profile.
        unsafe {
            let mut limits = (&raw const (*(*self.as_raw()).bd_queue).limits).read_volatile();
            match limits.integrity.metadata_size {
                0 => 0,
                // CAST: Widening.
                _ => bindings::max_integrity_io_size(&mut limits) as usize,
            }
        }
    }
}
