// SPDX-License-Identifier: GPL-2.0

//! The bios of a counted request: how they are built for a mapping, and how they end.
//!
//! All bios of a request are filled in the same way ([`Buffers`]), so the end of a bio knows what
//! it has to release.
//!
//! C headers: [`include/linux/bio.h`](srctree/include/linux/bio.h),
//! [`include/linux/iomap.h`](srctree/include/linux/iomap.h).
//!
//! # From a mapping to the end of a bio
//!
//! 1. Make a [`Template`] for the mapping. It holds what the bios of a mapping have in common:
//!    device, flags, alignment, bio set.
//! 2. Build a bio for the next bytes of the caller's memory with [`Template::pin`] or
//!    [`Template::bounce`], or one of zeroes with [`Template::zeroes`].
//! 3. Prepare it: dirty the pages of a read, attach integrity data, account a write. These are
//!    methods of [`Bio`].
//! 4. Submit it for the request with [`Template::submit`], which gives it a reference to the
//!    request. It has to be filled in the way of the request ([`Fits`]).
//! 5. When the bio ends, [`end_io`] gives its pages back and drops the reference. The last one
//!    completes the request.
//!
//! ```no_run
//! use kernel::{
//!     iomap::{
//!         bio::{Exported, Template},
//!         request::Submitter,
//!     },
//!     iov::IovIter,
//!     task::MaySleep,
//! };
//!
//! /// Transfers at most the next `len` bytes of `memory`, at byte `pos` of the file. Returns how many
//! /// bytes are in flight.
//! fn transfer<T: Exported>(
//!     template: &Template<'_>,
//!     request: &Submitter<T>,
//!     memory: &mut IovIter<'_>,
//!     pos: i64,
//!     len: u64,
//!     ctx: MaySleep,
//! ) -> Result<u32> {
//!     let mut bio = template.pin(request.iocb(), pos, memory, len)?;
//!     let size = bio.size();
//!     bio.set_pages_dirty(ctx);
//!     template.submit(bio, request, pos)?;
//!     Ok(size)
//! }
//! ```

use super::{
    flags::MapFlags,
    iter::Extent,
    kiocb::BusyIocb,
    ops::DioOps,
    request::{
        BioRef,
        Buffers,
        Operations,
        Submitter,
        Unique, //
    },
};
use crate::{
    bindings,
    block::{
        bdev::BlockDevice,
        bio::{
            free_integrity,
            op,
            put_with_pages,
            result,
            set_polled,
            submit,
            Bio,
            Bounced,
            Contents,
            Empty,
            Filled,
            OpFlags,
            Pages,
            Pinned,
            Zeroes, //
        },
    },
    error::to_result,
    fs::IocbFlags,
    iov::IovIter,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    task::MaySleep, //
};

/// Contents that a request can have.
///
/// The end of a bio knows only what its request says of its bios ([`Buffers`]). A bio that was
/// filled in another way would leak its pages there, or release pages that it does not hold.
pub trait Fits: Filled {
    /// Whether the end of a bio of a request with these buffers gives back what this one holds.
    #[doc(hidden)]
    fn fits(&self, buffers: Buffers) -> bool;
}

impl Fits for Pinned {
    #[inline]
    fn fits(&self, buffers: Buffers) -> bool {
        buffers == Buffers::ZeroCopy(self.0)
    }
}

impl Fits for Bounced {
    #[inline]
    fn fits(&self, buffers: Buffers) -> bool {
        buffers == Buffers::Bounced(self.0)
    }
}

impl Fits for Zeroes {
    #[inline]
    fn fits(&self, _buffers: Buffers) -> bool {
        true
    }
}

/// What the bios for one mapping have in common.
///
/// It borrows the mapping, so it is gone when the iterator moves on.
#[doc(alias = "iomap_dio_alloc_bio")]
pub struct Template<'a> {
    /// The callbacks of the file system.
    ops: DioOps,
    /// The bio set of the file system, or `fs_bio_set`.
    set: *mut bindings::bio_set,
    /// The blocks that the bios go to.
    extent: Extent<'a>,
    /// The device of these blocks.
    bdev: &'a BlockDevice,
    /// The flags of bios of data. Bios of zeroes have their own.
    flags: OpFlags,
    /// In bytes, a power of two.
    alignment: u32,
    ctx: MaySleep,
}

impl<'a> Template<'a> {
    /// Prepares to build the bios of the request of `iocb` for the blocks of `extent`.
    ///
    /// The size of each bio will be a multiple of `alignment` bytes.
    ///
    /// Fails with `EINVAL` if the request and the mapping are not of one file, if the mapping has
    /// no device, or if `alignment` is no power of two.
    pub fn new(
        iocb: &BusyIocb<DioOps>,
        extent: Extent<'a>,
        flags: OpFlags,
        alignment: u32,
        ctx: MaySleep,
    ) -> Result<Self> {
        let bdev = extent.bdev().ok_or(EINVAL)?;
        let file = iocb.inode().as_raw();
        if file != extent.place().inode().as_raw() || !alignment.is_power_of_two() {
            return Err(EINVAL);
        }
        Ok(Self {
            ops: iocb.ops(),
            set: match iocb.ops().bio_set() {
                Some(set) => set.as_ptr(),
                None => &raw mut bindings::fs_bio_set,
            },
            extent,
            bdev,
            flags,
            alignment,
            ctx,
        })
    }

    /// The blocks that the bios go to.
    #[inline]
    pub fn extent(&self) -> Extent<'a> {
        self.extent
    }

    /// The flags of the bios.
    #[inline]
    pub fn flags(&self) -> OpFlags {
        self.flags
    }

    /// Allocates a bio of data from or to `memory`, for byte `pos` of the file, with `vecs`
    /// segments.
    #[doc(alias = "iomap_dio_alloc_bio")]
    #[inline]
    fn data_bio(
        &self,
        iocb: &BusyIocb<DioOps>,
        pos: i64,
        memory: &IovIter<'_>,
        vecs: u16,
    ) -> Result<Bio<Empty>> {
        if memory.is_source() != self.extent.place().is_write() {
            return Err(EINVAL);
        }
        let opf = self.flags.into_raw() | op(memory);
        // SAFETY: The bio set is that of the file system, which has a file open, or never destroyed.
        let mut bio = unsafe { Bio::alloc(self.bdev, vecs, opf, self.set, self.ctx)? };
        let inode = self.extent.place().inode();
        bio.set_crypt_ctx(inode, pos, self.ctx);
        bio.set_sector(self.extent.sector(pos));
        bio.set_write_hint(inode);
        bio.set_ioprio(iocb.ioprio());
        Ok(bio)
    }

    /// Builds the next zero-copy bio, for byte `pos` of the file, of at most `max` bytes.
    ///
    /// `memory` moves on by the size of the bio, which may be less than `max`. Fails as
    /// [`Bio::pin`] does, and with `EINVAL` if the mapping is for the other direction.
    #[inline]
    pub fn pin(
        &self,
        iocb: &BusyIocb<DioOps>,
        pos: i64,
        memory: &mut IovIter<'_>,
        max: u64,
    ) -> Result<Bio<Pinned>> {
        memory.cut(max, |memory| {
            let vecs = memory.vecs_to_alloc();
            self.data_bio(iocb, pos, memory, vecs)?
                .pin(memory, self.bdev, self.alignment)
        })
    }

    /// Builds the next bounced bio, for byte `pos` of the file, of at most `max` bytes.
    ///
    /// `memory` moves on by the size of the bio, which may be less than `max`. Fails as
    /// [`Bio::bounce`] does, and with `EINVAL` if the mapping is for the other direction.
    #[inline]
    pub fn bounce(
        &self,
        iocb: &BusyIocb<DioOps>,
        pos: i64,
        memory: &mut IovIter<'_>,
        max: u64,
    ) -> Result<Bio<Bounced>> {
        memory.cut(max, |memory| {
            let vecs = memory.bounce_vecs();
            self.data_bio(iocb, pos, memory, vecs)?.bounce(
                memory,
                self.extent.max_bio_bytes(self.bdev),
                self.alignment,
            )
        })
    }

    /// Builds a bio that writes `len` bytes of zeroes at byte `pos` of the file, for what the data
    /// leaves of a block of `block_size` bytes.
    ///
    /// The bio carries neither priority nor lifetime hint, because it is not the caller's data.
    ///
    /// Fails with `EINVAL` if `len` is not less than a block, if a block takes more pages of zeroes
    /// than a bio has segments, or if the mapping is not for writing.
    #[doc(alias = "iomap_dio_zero")]
    pub fn zeroes(&self, pos: i64, len: u32, block_size: u32) -> Result<Bio<Zeroes>> {
        let place = self.extent.place();
        if len >= block_size || !place.is_write() {
            return Err(EINVAL);
        }
        let vecs = Bio::zero_vecs(block_size)?;
        let opf = (OpFlags::SYNC | OpFlags::IDLE).into_raw() | bindings::req_op_REQ_OP_WRITE;
        // SAFETY: As in `data_bio`.
        let mut bio = unsafe { Bio::alloc(self.bdev, vecs, opf, self.set, self.ctx)? };
        bio.set_crypt_ctx(place.inode(), pos, self.ctx);
        bio.set_sector(self.extent.sector(pos));
        bio.zero(len)
    }

    /// Submits a bio as a part of `request`, which will not be over before the bio has ended.
    ///
    /// `pos` is the position in the file, in bytes, that the bio starts at. The file system may
    /// submit the bio instead of this function, and the bio may end before this returns.
    ///
    /// Fails with `EINVAL` if the bio does not fit the request ([`Fits`]) or is not of the file
    /// system's bio set. The bio is given back then.
    #[doc(alias = "iomap_dio_submit_bio")]
    #[inline]
    pub fn submit<T: Exported, C: Fits>(
        &self,
        bio: Bio<C>,
        request: &Submitter<T>,
        pos: i64,
    ) -> Result {
        // The file system may access the front pad that only its own bio set has.
        if !bio.contents.fits(request.buffers()) || bio.pool() != self.set {
            return Err(EINVAL);
        }
        let bio_ref = request.bio_ref();
        // SAFETY: The bio is ours; `end_io` takes the reference back from `bi_private`.
        unsafe {
            (*bio.as_raw()).bi_private = bio_ref.into_raw();
            (*bio.as_raw()).bi_end_io = Some(end_io::<T>);
        }
        // SAFETY: The bio is complete.
        if unsafe { self.send(bio.into_parts().0, request.iocb(), pos) } {
            request.set_polled();
        }
        Ok(())
    }

    /// Submits a bio. Returns whether it has to be polled for.
    ///
    /// # Safety
    ///
    /// The bio must be complete, and must not be used afterwards.
    unsafe fn send(&self, raw: *mut bindings::bio, iocb: &BusyIocb<DioOps>, pos: i64) -> bool {
        // The caller of a synchronous request sleeps, so it cannot poll.
        let polled = iocb.flags().has(IocbFlags::HIPRI)
            && !iocb.is_sync()
            // SAFETY: The bio is ours.
            && unsafe { poll_for(raw, iocb.as_raw()) };

        match self.ops.submit_io() {
            // SAFETY: The bio is complete and given up here, and the iterator is valid.
            Some(submit_io) => unsafe { submit_io(self.extent.place().as_raw(), raw, pos) },
            None => {
                if self.extent.flags().has(MapFlags::ANON_WRITE) {
                    // Only the callback could assign an address on the device.
                    crate::do_once_lite! {
                        crate::warn_on!(true);
                    }
                }
                // SAFETY: The bio is complete and given up here.
                unsafe { submit(raw) };
            }
        }
        polled
    }
}

/// The kind of request that the kernel's exported end functions complete (`iomap_dio_bio_end_io()`,
/// `iomap_finish_ioend_direct()`).
///
/// A file system that takes part may replace `bi_end_io` of a bio and call these functions later.
///
/// # Safety
///
/// These functions must call [`end_io`] and [`ioend_end_io`] with this type.
#[doc(alias("iomap_dio_bio_end_io", "iomap_finish_ioend_direct"))]
pub unsafe trait Exported: Operations {}

impl<C: Contents> Bio<C> {
    /// Lets the caller poll for this bio, or takes the request out of polling if nobody can.
    /// Returns which.
    #[doc(alias = "bio_set_polled")]
    #[inline(always)]
    pub(super) fn poll_for<O>(&mut self, iocb: &BusyIocb<O>) -> bool {
        // SAFETY: The bio is ours, and nobody else writes to the kiocb.
        unsafe { poll_for(self.as_raw(), iocb.as_raw()) }
    }
}

/// As [`Bio::poll_for`].
///
/// # Safety
///
/// Nobody else may use the bio, or write to the kiocb.
#[cold]
unsafe fn poll_for(bio: *mut bindings::bio, iocb: *mut bindings::kiocb) -> bool {
    // SAFETY: Required of the caller.
    unsafe {
        if !set_polled(bio) {
            (*iocb).ki_flags &= !IocbFlags::HIPRI.into_raw();
            return false;
        }
        // ORDERING: None needed: the poller looks at the bio under RCU, in memory that stays a bio
        // (`SLAB_TYPESAFE_BY_RCU`), and reads the field with `READ_ONCE()`.
        Atomic::from_ptr(&raw mut (*iocb).private).store(bio.cast(), Relaxed);
    }
    true
}

/// Releases a bio that has ended with `result`, and drops its reference to the request of type `T`.
/// Returns the request if that was the last reference.
///
/// A bounced read copies its data here, which takes process context: a file system whose callers
/// bounce reads ends such bios in a worker.
///
/// # Safety
///
/// `bio` must have ended, its `bi_private` must be what `Template::submit` has put there, and it
/// must not be used afterwards.
#[doc(alias = "bio_iov_iter_unbounce")]
#[inline(always)]
unsafe fn end<T: Operations>(
    bio: *mut bindings::bio,
    result: Result,
    at_ioend: bool,
) -> Option<Unique<T>> {
    // SAFETY: `bi_private` holds the reference, and this is the one time that it is taken back.
    let bio_ref = unsafe { BioRef::<T>::from_raw((*bio).bi_private) };
    if let Err(error) = result {
        bio_ref.record_error(error);
    }
    // SAFETY: The bio is given back to us, and was filled in a way that fits the buffers of the request.
    // It is put before the request can be over.
    unsafe {
        free_integrity(bio);
        match bio_ref.buffers() {
            Buffers::ZeroCopy(pages) => put_with_pages(bio, pages),
            Buffers::Bounced(pages) => {
                let dirty = pages == Pages::Dirtied;
                bindings::bio_iov_iter_unbounce(bio, bio_ref.has_failed(), dirty);
                bindings::bio_put(bio);
            }
        }
    }
    bio_ref.finish(at_ioend)
}

/// The `bi_end_io` of a bio that [`Template::submit`] has submitted for a request of type `T`.
///
/// # Safety
///
/// `bio` must have ended, its `bi_private` must be what `Template::submit` has put there, and it
/// must not be used afterwards. Any context.
#[doc(alias("iomap_dio_bio_end_io", "bi_end_io"))]
pub unsafe extern "C" fn end_io<T: Operations>(bio: *mut bindings::bio) {
    // SAFETY: The block layer, or the file system that stood in for it, gives the bio back.
    if let Some(request) = unsafe { end::<T>(bio, result(bio), false) } {
        ended(request);
    }
}

/// The last bio of the request has ended. Not inline, for the bios that are not the last.
#[inline(never)]
fn ended<T: Operations>(request: Unique<T>) {
    T::ended(request);
}

/// Ends a bio that is a part of an ioend, in the worker that finishes ioends
/// (`iomap_finish_ioend_direct()`).
///
/// Returns the number of segments of the bio, by which the worker measures its work.
///
/// # Safety
///
/// As for [`end_io`], for the bio of `ioend`, and the context must be allowed to sleep.
#[doc(alias = "iomap_finish_ioend_direct")]
pub unsafe fn ioend_end_io<T: Operations>(ioend: *mut bindings::iomap_ioend) -> u32 {
    // SAFETY: The ioend is valid until its bio is put.
    let (bio, error, vecs) = unsafe {
        let bio = &raw mut (*ioend).io_bio;
        (bio, (*ioend).io_error, (*bio).bi_vcnt)
    };
    // SAFETY: The ioend gives its bio back.
    if let Some(request) = unsafe { end::<T>(bio, to_result(error), true) } {
        // SAFETY: Required of the caller.
        T::ioend_ended(request, unsafe { MaySleep::assume() });
    }
    u32::from(vecs)
}
