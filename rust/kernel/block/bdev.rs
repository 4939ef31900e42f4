// SPDX-License-Identifier: GPL-2.0

//! Block devices: their limits, and how to open one.
//!
//! A [`BlockDevice`] is borrowed: whoever handed it out keeps the device open, usually a file
//! system that named it in a mapping. An [`OpenBlockDevice`] is owned: the kernel closes the device
//! when the last clone is gone. The second dereferences to the first, so all questions have one
//! place.
//!
//! The driver sets the limits when it registers the disk, and may change them while the device is
//! open only with the queue frozen. The C code reads them without a lock, and so does this module.
//! All methods but [`OpenBlockDevice::open`] work in any context.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h).
//!
//! # Examples
//!
//! ```
//! use kernel::{
//!     block::bdev::{BlockDevice, OpenBlockDevice},
//!     task::MaySleep,
//! };
//!
//! /// Whether the device can transfer `len` bytes at byte `pos` as they are.
//! fn can_transfer(bdev: &BlockDevice, pos: u64, len: u64) -> bool {
//!     (pos | len) & u64::from(bdev.logical_block_size() - 1) == 0
//! }
//!
//! /// Opens a device, and closes it on return.
//! fn can_transfer_block(path: &CStr, ctx: MaySleep) -> Result<bool> {
//!     let bdev = OpenBlockDevice::open(path, ctx)?;
//!     Ok(can_transfer(&bdev, 0, 512))
//! }
//!
//! # // SAFETY: KUnit runs examples in a kernel thread, and this one holds no lock.
//! # let ctx = unsafe { MaySleep::assume() };
//! assert_eq!(can_transfer_block(c"/no/such/device", ctx), Err(ENOENT));
//! assert_eq!(can_transfer_block(c"/", ctx), Err(ENOTBLK));
//! ```

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

/// A block device that somebody else keeps open (`struct block_device`).
///
/// # Invariants
///
/// The device has a request queue, and both outlive every reference to this type: whoever handed
/// the device out holds it open.
#[doc(alias = "block_device")]
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

    /// The smallest unit that the device addresses, in bytes: a power of two
    /// (`bdev_logical_block_size()`).
    ///
    /// The position and the size of each bio must be multiples of it.
    #[doc(alias = "bdev_logical_block_size")]
    #[inline]
    pub fn logical_block_size(&self) -> u32 {
        // SAFETY: The limits belong to a valid queue. C reads the field without a lock as well.
        unsafe { (*self.limits()).logical_block_size }
    }

    /// The alignment in bytes that memory segments need, less one (`bdev_dma_alignment()`).
    ///
    /// An address is aligned if it has no bit of the mask.
    #[doc(alias = "bdev_dma_alignment")]
    #[inline]
    pub fn dma_alignment_mask(&self) -> u32 {
        // SAFETY: As in `logical_block_size`.
        unsafe { (*self.limits()).dma_alignment }
    }

    /// The size of the device in sectors of 512 bytes, whatever its logical block size
    /// (`bdev_nr_sectors()`).
    #[doc(alias = "bdev_nr_sectors")]
    #[inline]
    pub fn sectors(&self) -> u64 {
        // SAFETY: The device is valid by the invariants. C reads the field without a lock as well.
        unsafe { (*self.as_raw()).bd_nr_sectors }
    }

    /// Whether the device has a volatile write cache (`bdev_write_cache()`).
    ///
    /// If it has none, a write is stable once its bio has ended.
    #[doc(alias = "bdev_write_cache")]
    #[inline]
    pub fn has_write_cache(&self) -> bool {
        // SAFETY: The device is valid by the invariants.
        unsafe { bindings::bdev_write_cache(self.as_raw()) }
    }

    /// Whether the device can write through its cache (`bdev_fua()`).
    ///
    /// If not, the block layer turns a bio with [`OpFlags::FUA`] into a write and a flush.
    ///
    /// [`OpFlags::FUA`]: super::bio::OpFlags::FUA
    #[doc(alias = "bdev_fua")]
    #[inline]
    pub fn has_fua(&self) -> bool {
        // SAFETY: As in `logical_block_size`.
        unsafe { (*self.limits()).features & bindings::BLK_FEAT_FUA != 0 }
    }

    /// Whether the driver honours [`OpFlags::NOWAIT`] (`bdev_nowait()`).
    ///
    /// If not, the block layer fails such a bio with `EOPNOTSUPP`.
    ///
    /// [`OpFlags::NOWAIT`]: super::bio::OpFlags::NOWAIT
    #[doc(alias = "bdev_nowait")]
    #[inline]
    pub fn has_nowait(&self) -> bool {
        // SAFETY: As in `logical_block_size`.
        unsafe { (*self.limits()).features & bindings::BLK_FEAT_NOWAIT != 0 }
    }

    /// The largest bio in bytes whose integrity data fits one buffer (`max_integrity_io_size()`).
    ///
    /// Zero for a device without an integrity profile.
    #[doc(alias = "max_integrity_io_size")]
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
/// The device is not claimed: others may open it as well, or mount what is on it. The kernel closes
/// it when the last clone is dropped, in any context (`fput()`), so a bio in flight can own a
/// clone.
pub struct OpenBlockDevice(ARef<File>);

impl OpenBlockDevice {
    /// Opens a block device by the path of its device file (`bdev_file_open_by_path()`).
    ///
    /// Sleeps: it looks the path up and may wait for the driver to read the partition table. Fails
    /// with `ENOENT` if the path does not exist, with `ENOTBLK` if it is not a block device, with
    /// `EACCES` if its file system allows no device files, with `ENXIO` if no driver has the
    /// device, or with the error of the driver.
    #[doc(alias = "bdev_file_open_by_path")]
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
        // SAFETY: The C function returned a reference, which goes to the `ARef`. The file is in no
        // table of file descriptors, so nobody can have called `fdget_pos()` for it.
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
