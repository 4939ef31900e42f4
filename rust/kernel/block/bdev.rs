// SPDX-License-Identifier: GPL-2.0

//! Block devices: what they say of themselves, and how one is opened.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h).

use crate::{
    bindings,
    error::from_err_ptr,
    fs::File,
    prelude::*,
    sync::aref::ARef,
    task::MaySleep,
    types::Opaque, //
};
use core::{
    ops::Deref,
    ptr::{
        self,
        NonNull, //
    },
};

/// A block device that a mapping points at (`struct block_device`).
///
/// # Invariants
///
/// The device has a request queue, and both outlive every reference to this type: whoever handed the
/// device out holds it open.
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

    /// Size of the device in sectors of 512 bytes (`bdev_nr_sectors()`).
    #[inline]
    pub fn sectors(&self) -> u64 {
        // SAFETY: The device is valid by the invariants. C reads the field without a lock as well.
        unsafe { (*self.as_raw()).bd_nr_sectors }
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
        // SAFETY: As in `logical_block_size`.
        if unsafe { (*self.limits()).integrity.metadata_size } == 0 {
            return 0;
        }
        // SAFETY: The limits are valid, and of a device with an integrity profile.
        // CAST: Widening.
        unsafe { bindings::max_integrity_io_size(self.limits().cast_mut()) as usize }
    }
}

/// A block device that is open for reading.
///
/// It is closed when the last clone is dropped, which any context may do (`fput()`).
pub struct OpenBlockDevice(ARef<File>);

impl OpenBlockDevice {
    /// Opens a block device by its path (`bdev_file_open_by_path()`).
    ///
    /// Fails with `ENOENT`, with `ENOTBLK` for what is no block device, with `EACCES` and so on.
    pub fn open(path: &CStr, _ctx: MaySleep) -> Result<Self> {
        // SAFETY: The path is a string that ends with a NUL. There is no holder, so the device is not
        // claimed.
        let file = unsafe {
            bindings::bdev_file_open_by_path(
                path.as_char_ptr(),
                bindings::BLK_OPEN_READ,
                ptr::null_mut(),
                ptr::null(),
            )
        };
        // The C function returns a file or an errno, never NULL.
        let file = NonNull::new(from_err_ptr(file)?).ok_or(ENOENT)?;
        // SAFETY: The reference to the file is ours. It is in no table of file descriptors, so
        // nobody can have called `fdget_pos()` for it.
        Ok(Self(unsafe { ARef::from_raw(file.cast::<File>()) }))
    }
}

impl Clone for OpenBlockDevice {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Deref for OpenBlockDevice {
    type Target = BlockDevice;

    #[inline]
    fn deref(&self) -> &BlockDevice {
        // SAFETY: The file is that of a block device, which it keeps open.
        unsafe { BlockDevice::from_raw(bindings::file_bdev(self.0.as_ptr())) }
    }
}
