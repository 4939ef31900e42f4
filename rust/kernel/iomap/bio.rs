// SPDX-License-Identifier: GPL-2.0

//! One transfer between memory and a device.
//!
//! A bio is a value of another type at each stage of its life:
//!
//! ```text
//!  Bio<Empty> --pin()-----> Bio<Pinned>  --+
//!       |                                  +--submit()--> the device's --end_io()--> gone
//!       +------bounce()---> Bio<Bounced> --+
//!                           Bio<Zeroes>  --+
//! ```
//!
//! Every arrow consumes the value, so a bio cannot be touched after it was submitted or put.
//! Dropping a bio that was not submitted gives back its pages and the bio itself. What a bio was
//! filled with must fit the request that it is submitted for ([`Buffers`]), which is how the end of
//! the bio knows what to give back.
//!
//! C headers: [`include/linux/bio.h`](srctree/include/linux/bio.h),
//! [`include/linux/blk_types.h`](srctree/include/linux/blk_types.h).

use super::{
    check,
    context::MaySleep,
    device::BlockDevice,
    flags::{
        IocbFlags,
        MapFlags,
        OpFlags, //
    },
    inode::Inode,
    iov_iter::IovIter,
    iter::Extent,
    kiocb::BusyIocb,
    ops::DioOps,
    request::{
        Operations,
        Share,
        Submitter,
        Unique, //
    },
    write_once, //
};
use crate::{
    alloc::flags::GFP_KERNEL,
    bindings,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};

/// Contents that make a bio complete.
pub trait Filled: Contents {
    /// Whether the end of a bio of a request with these buffers gives back what this one holds.
    #[doc(hidden)]
    fn fits(&self, buffers: Buffers) -> bool;
}

impl Filled for Pinned {
    #[inline]
    fn fits(&self, buffers: Buffers) -> bool {
        buffers == Buffers::InPlace(self.0)
    }
}

impl Filled for Bounced {
    #[inline]
    fn fits(&self, buffers: Buffers) -> bool {
        buffers == Buffers::Bounced(self.0)
    }
}

impl Filled for Zeroes {
    #[inline]
    fn fits(&self, _buffers: Buffers) -> bool {
        true
    }
}

/// Where the data of the bios of a request is, and so how they are filled and what is done with
/// their pages in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// In the caller's memory.
    InPlace(Pages),
    /// In copies of it.
    Bounced(Pages),
}

impl Buffers {
    /// The caller's memory.
    #[inline]
    pub fn pages(self) -> Pages {
        match self {
            Self::InPlace(pages) | Self::Bounced(pages) => pages,
        }
    }
}

/// What an unsubmitted bio holds, and so what has to be given back with it.
pub trait Contents: private::Sealed {
    /// Gives back the pages of `bio`.
    ///
    /// # Safety
    ///
    /// `bio` must be an unsubmitted bio with contents of this kind, which are not used afterwards.
    #[doc(hidden)]
    unsafe fn give_back(bio: *mut bindings::bio);
}

/// No pages.
pub struct Empty(());
/// Pages of the caller's memory, pinned unless the caller keeps them in place itself.
pub struct Pinned(pub(super) Pages);
/// Copies of the caller's memory, or room for them.
pub struct Bounced(Pages);
/// Zeroes.
pub struct Zeroes(());

mod private {
    pub trait Sealed {}
    impl Sealed for super::Empty {}
    impl Sealed for super::Pinned {}
    impl Sealed for super::Bounced {}
    impl Sealed for super::Zeroes {}
}

impl Contents for Empty {
    #[inline]
    unsafe fn give_back(_bio: *mut bindings::bio) {}
}

impl Contents for Zeroes {
    #[inline]
    unsafe fn give_back(_bio: *mut bindings::bio) {}
}

impl Contents for Pinned {
    #[inline]
    unsafe fn give_back(bio: *mut bindings::bio) {
        // SAFETY: Required of the caller.
        unsafe { release_pages(bio) };
    }
}

impl Contents for Bounced {
    unsafe fn give_back(bio: *mut bindings::bio) {
        // SAFETY: Required of the caller. Nothing was transferred, so nothing is copied back.
        unsafe { bindings::bio_iov_iter_unbounce(bio, true, false) };
    }
}

/// The most segments that a bio can have of its own (`BIO_MAX_VECS`).
// CAST: 256.
pub const MAX_VECS: u16 = bindings::BIO_MAX_VECS as u16;

/// What becomes of the pages of a bio that transfers in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// They belong to user space and are read into: they are dirtied.
    Dirtied,
    /// They are written from, or the kernel owns them and looks after them.
    LeftAlone,
}

impl Pages {
    /// Those of `memory`.
    #[inline]
    pub fn of(memory: &IovIter<'_>) -> Self {
        if memory.is_user_backed() && !memory.is_source() {
            Self::Dirtied
        } else {
            Self::LeftAlone
        }
    }
}

/// The operation that takes data from `memory`, or puts it there.
#[inline]
pub(super) fn op(memory: &IovIter<'_>) -> u32 {
    if memory.is_source() {
        bindings::req_op_REQ_OP_WRITE
    } else {
        bindings::req_op_REQ_OP_READ
    }
}

/// Gives back the pages of a bio that has ended, which itself stays.
///
/// # Safety
///
/// `bio` must have ended, be filled in place from memory of which `pages` is true, and belong to the
/// caller, who does not use the pages afterwards.
#[inline(always)]
pub(super) unsafe fn give_back_pages(bio: *mut bindings::bio, pages: Pages) {
    match pages {
        // SAFETY: Required of the caller.
        Pages::LeftAlone => unsafe { release_pages(bio) },
        // As `bio_check_pages_dirty()` puts the bio, it gets a reference for that (`bio_get()`).
        //
        // SAFETY: Required of the caller. The one reference to the bio is not shared yet.
        Pages::Dirtied => unsafe {
            (*bio).bi_flags |= 1 << bindings::BIO_REFFED;
            Atomic::from_ptr(&raw mut (*bio).__bi_cnt.counter).store(2, Relaxed);
            bindings::bio_check_pages_dirty(bio);
        },
    }
}

/// As [`give_back_pages`], and puts the bio.
///
/// # Safety
///
/// As there, and the bio must not be used afterwards.
#[inline(always)]
pub(super) unsafe fn put_with_pages(bio: *mut bindings::bio, pages: Pages) {
    // SAFETY: Required of the caller.
    unsafe {
        match pages {
            Pages::LeftAlone => {
                release_pages(bio);
                bindings::bio_put(bio);
            }
            Pages::Dirtied => bindings::bio_check_pages_dirty(bio),
        }
    }
}

/// How the transfer of a bio ended (`bi_status`).
///
/// # Safety
///
/// `bio` must have ended and be valid.
#[inline(always)]
pub(super) unsafe fn result(bio: *const bindings::bio) -> Result {
    // SAFETY: Required of the caller.
    let status = unsafe { (*bio).bi_status };
    if status == 0 {
        return Ok(());
    }
    // SAFETY: Any status may be asked for.
    check(unsafe { bindings::blk_status_to_errno(status) })
}

/// `bio_release_pages(bio, false)`.
///
/// # Safety
///
/// `bio` must be valid, and its pages must not be used afterwards.
#[inline]
unsafe fn release_pages(bio: *mut bindings::bio) {
    // SAFETY: Required of the caller.
    if unsafe { (*bio).bi_flags } & (1 << bindings::BIO_PAGE_PINNED) != 0 {
        // SAFETY: Required of the caller.
        unsafe { bindings::__bio_release_pages(bio, false) };
    }
}

/// A bio that was not submitted yet (`struct bio`).
///
/// # Invariants
///
/// `raw` is a bio that nobody else knows of, with these contents.
#[must_use]
pub struct Bio<C: Contents> {
    raw: NonNull<bindings::bio>,
    contents: C,
}

impl<C: Contents> Drop for Bio<C> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: By the invariants the bio is ours alone, has such contents, and is not used
        // afterwards.
        unsafe { discard::<C>(self.as_raw()) };
    }
}

/// Gives back a bio that was not submitted, and its pages.
///
/// # Safety
///
/// As for [`Contents::give_back`].
#[cold]
unsafe fn discard<C: Contents>(bio: *mut bindings::bio) {
    // SAFETY: Required of the caller.
    unsafe {
        free_integrity(bio);
        C::give_back(bio);
        bindings::bio_put(bio);
    }
}

impl<C: Contents> Bio<C> {
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::bio {
        self.raw.as_ptr()
    }

    /// Gives the bio up without putting it.
    #[inline]
    pub(super) fn into_raw(self) -> *mut bindings::bio {
        ManuallyDrop::new(self).as_raw()
    }

    /// Sets where the bio goes on the device, in sectors of 512 bytes.
    #[inline]
    pub fn set_sector(&mut self, sector: u64) {
        // SAFETY: The bio is ours.
        unsafe { (*self.as_raw()).bi_iter.bi_sector = sector };
    }

    /// Takes the I/O priority over from the caller.
    #[inline]
    pub(super) fn set_ioprio(&mut self, ioprio: u16) {
        // SAFETY: The bio is ours.
        unsafe { (*self.as_raw()).bi_ioprio = ioprio };
    }

    /// Takes the life-time hint over from the file.
    #[inline]
    pub(super) fn set_write_hint(&mut self, inode: &Inode) {
        // SAFETY: The bio is ours.
        unsafe { (*self.as_raw()).bi_write_hint = inode.write_hint() };
    }

    /// Adds flags.
    #[inline]
    pub fn add_flags(&mut self, flags: OpFlags) {
        // SAFETY: The bio is ours.
        unsafe { (*self.as_raw()).bi_opf |= flags.into_raw() };
    }

    /// Bytes that the bio transfers.
    #[inline]
    pub fn size(&self) -> u32 {
        // SAFETY: The bio is ours.
        unsafe { (*self.as_raw()).bi_iter.bi_size }
    }

    /// Sets up inline encryption for an encrypted file (`fscrypt_set_bio_crypt_ctx()`).
    #[inline]
    pub(super) fn set_crypt_ctx(&mut self, inode: &Inode, pos: i64, _ctx: MaySleep) {
        #[cfg(CONFIG_FS_ENCRYPTION_INLINE_CRYPT)]
        // SAFETY: The bio and the inode are valid, and the context may sleep.
        unsafe {
            bindings::fscrypt_set_bio_crypt_ctx(
                self.as_raw(),
                inode.as_raw(),
                pos,
                GFP_KERNEL.as_raw(),
            )
        };
        #[cfg(not(CONFIG_FS_ENCRYPTION_INLINE_CRYPT))]
        let _ = (inode, pos);
    }

    #[inline]
    fn filled<D: Contents>(self, contents: D) -> Bio<D> {
        // INVARIANT: Only called once these are the contents.
        Bio {
            raw: ManuallyDrop::new(self).raw,
            contents,
        }
    }
}

impl Bio<Empty> {
    /// Wraps a new bio.
    ///
    /// # Safety
    ///
    /// `raw` must be a bio without pages that nobody else knows of.
    #[inline]
    pub(super) unsafe fn from_raw(raw: NonNull<bindings::bio>) -> Self {
        // INVARIANT: Required of the caller.
        Self {
            raw,
            contents: Empty(()),
        }
    }

    /// Allocates from the bio set of the file system, or else from that of all file systems.
    fn alloc(bdev: &BlockDevice, vecs: u16, opf: u32, ops: DioOps, _ctx: MaySleep) -> Result<Self> {
        let set = match ops.bio_set() {
            Some(set) => set.as_ptr(),
            None => &raw mut bindings::fs_bio_set,
        };
        // SAFETY: The device and the bio set are valid, and the context may sleep.
        let raw = unsafe {
            bindings::bio_alloc_bioset(bdev.as_raw(), vecs, opf, GFP_KERNEL.as_raw(), set)
        };
        // An allocation that may block waits for the reserve of the bio set. It fails only if the
        // set of a file system was made without segments.
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // INVARIANT: A new bio has no pages.
        Ok(Self {
            raw,
            contents: Empty(()),
        })
    }

    /// Fills the bio with as much of `memory` as fits, in place (`bio_iov_iter_get_pages()`).
    ///
    /// The size becomes a multiple of `alignment` bytes, a power of two; `memory` moves on by it.
    /// Fails with `EFAULT` or `EINVAL` as the C function does, with `memory` where that leaves it.
    #[inline(always)]
    pub fn pin(
        self,
        memory: &mut IovIter<'_>,
        bdev: &BlockDevice,
        alignment: u32,
    ) -> Result<Bio<Pinned>> {
        // SAFETY: The bio is ours and the iterator is valid.
        let ret = unsafe {
            bindings::bio_iov_iter_get_pages(
                self.as_raw(),
                memory.as_raw(),
                bdev.dma_alignment_mask(),
                alignment.wrapping_sub(1),
            )
        };
        check(ret)?;
        Ok(self.filled(Pinned(Pages::of(memory))))
    }

    /// Fills the bio with a copy of, or room for, as much of `memory` as fits
    /// (`bio_iov_iter_bounce()`).
    ///
    /// At most `max` bytes, and a multiple of `alignment` bytes; `memory` moves on by it. Fails
    /// with `EFAULT` or `ENOMEM` with `memory` back where it was.
    fn bounce(self, memory: &mut IovIter<'_>, max: usize, alignment: u32) -> Result<Bio<Bounced>> {
        // SAFETY: The bio is ours and the iterator is valid.
        let ret = unsafe {
            bindings::bio_iov_iter_bounce(
                self.as_raw(),
                memory.as_raw(),
                max,
                // CAST: Widening.
                alignment as usize,
            )
        };
        check(ret)?;
        Ok(self.filled(Bounced(Pages::of(memory))))
    }
}

impl Bio<Pinned> {
    /// What becomes of the pages.
    #[inline]
    pub(super) fn pages(&self) -> Pages {
        self.contents.0
    }

    /// Marks the pages dirty before the device writes to them (`bio_set_pages_dirty()`), if that is
    /// what becomes of them.
    #[inline]
    pub fn set_pages_dirty(&mut self, _ctx: MaySleep) {
        if self.contents.0 == Pages::Dirtied {
            // SAFETY: The bio is ours; page locks may sleep, and so may the context.
            unsafe { bindings::bio_set_pages_dirty(self.as_raw()) };
        }
    }
}

/// Everything that the bios for one mapping have in common.
pub struct Template<'a> {
    /// How the file system takes part.
    ops: DioOps,
    extent: Extent<'a>,
    bdev: &'a BlockDevice,
    flags: OpFlags,
    /// In bytes, a power of two.
    alignment: u32,
    ctx: MaySleep,
}

impl<'a> Template<'a> {
    /// The bios of the request of `iocb` for the blocks of `extent` on `bdev`, its device. Each is a
    /// multiple of `alignment` bytes.
    ///
    /// Fails with `EINVAL` if the request and the mapping are not of one file, or if `alignment` is no
    /// power of two.
    pub fn new(
        iocb: &BusyIocb<DioOps>,
        extent: Extent<'a>,
        bdev: &'a BlockDevice,
        flags: OpFlags,
        alignment: u32,
        ctx: MaySleep,
    ) -> Result<Self> {
        let file = iocb.inode().as_raw();
        if file != extent.place().inode().as_raw() || !alignment.is_power_of_two() {
            return Err(EINVAL);
        }
        Ok(Self {
            ops: iocb.ops(),
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

    /// Allocates a bio of data from or to `memory`, for byte `pos` of the file.
    fn data_bio(
        &self,
        iocb: &BusyIocb<DioOps>,
        pos: i64,
        memory: &IovIter<'_>,
        vecs: u16,
    ) -> Result<Bio<Empty>> {
        let opf = self.flags.into_raw() | op(memory);
        let mut bio = Bio::alloc(self.bdev, vecs, opf, self.ops, self.ctx)?;
        let inode = self.extent.place().inode();
        bio.set_crypt_ctx(inode, pos, self.ctx);
        bio.set_sector(self.extent.sector(pos));
        bio.set_write_hint(inode);
        bio.set_ioprio(iocb.ioprio());
        Ok(bio)
    }

    /// Builds the next zero-copy bio, for byte `pos` of the file, of at most `max` bytes.
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

    /// Builds a bio that writes `len` zeroes at byte `pos` of the file.
    ///
    /// Fails with `EINVAL` if that is not less than a block, if a block takes more pages of zeroes than a
    /// bio has segments, or if the mapping is not for writing. The bio carries neither priority nor
    /// hint: it is not the caller's data.
    pub fn zeroes(&self, pos: i64, len: u32, block_size: u32) -> Result<Bio<Zeroes>> {
        // SAFETY: The folio of zeroes is there since boot and is never freed.
        let (folio, folio_bytes) = unsafe {
            let folio = bindings::largest_zero_folio();
            (folio, bindings::folio_size(folio))
        };
        // CAST: Widening.
        let vecs = core::cmp::max(
            1,
            (block_size as usize).checked_div(folio_bytes).unwrap_or(0),
        );
        let place = self.extent.place();
        if len >= block_size || vecs > bindings::BIO_MAX_VECS as usize || !place.is_write() {
            return Err(EINVAL);
        }

        // CAST: At most `BIO_MAX_VECS`.
        let mut bio = Bio::alloc(
            self.bdev,
            vecs as u16,
            (OpFlags::SYNC | OpFlags::IDLE).into_raw() | bindings::req_op_REQ_OP_WRITE,
            self.ops,
            self.ctx,
        )?;
        bio.set_crypt_ctx(place.inode(), pos, self.ctx);
        bio.set_sector(self.extent.sector(pos));

        let mut left = len as usize;
        while left > 0 {
            let part = core::cmp::min(left, folio_bytes);
            // SAFETY: The bio has a segment for each folio of a block, and `len` is less.
            unsafe { bindings::bio_add_folio_nofail(bio.as_raw(), folio, part, 0) };
            left = left.wrapping_sub(part);
        }
        Ok(bio.filled(Zeroes(())))
    }

    /// Submits a bio as a part of `request`, which will not be over before the bio has ended.
    ///
    /// `pos` is the byte of the file that the bio starts at. The file system may submit the bio in
    /// our place, and complete it before this returns. Fails with `EINVAL` if the end of a bio of this
    /// request does not give back what this one holds.
    #[inline]
    pub fn submit<T: Operations, C: Filled>(
        &self,
        bio: Bio<C>,
        request: &Submitter<T>,
        iocb: &mut BusyIocb<DioOps>,
        pos: i64,
    ) -> Result {
        if !bio.contents.fits(request.buffers()) {
            return Err(EINVAL);
        }
        // SAFETY: The bio is ours; `end_io` takes the share back from `bi_private`.
        unsafe {
            (*bio.as_raw()).bi_private = request.share().into_raw();
            (*bio.as_raw()).bi_end_io = Some(end_io::<T>);
        }
        // It is complete, and with what does not matter any more.
        if self.send(bio.filled(Zeroes(())), iocb, pos) {
            request.set_polled();
        }
        Ok(())
    }

    /// Submits a bio that is complete. Returns whether it has to be polled for.
    fn send(&self, mut bio: Bio<Zeroes>, iocb: &mut BusyIocb<DioOps>, pos: i64) -> bool {
        // A caller that waits in the kernel does not poll.
        let polled = iocb.flags().has(IocbFlags::HIPRI) && !iocb.is_sync() && bio.poll_for(iocb);

        let raw = bio.into_raw();
        match self.ops.submit_io() {
            // SAFETY: The bio is complete and given up here, and the iterator is valid.
            Some(submit_io) => unsafe { submit_io(self.extent.place().as_raw(), raw, pos) },
            None => {
                if self.extent.flags().has(MapFlags::ANON_WRITE) {
                    // Where it goes is for the callback to say.
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

impl<C: Filled> Bio<C> {
    /// Gives a bio of a file system that does its own protection its integrity data.
    ///
    /// Generated for a write (`fs_bio_integrity_generate()`), room for it for a read
    /// (`fs_bio_integrity_alloc()`).
    #[cold]
    pub fn protect(&mut self, _ctx: MaySleep) {
        #[cfg(CONFIG_BLK_DEV_INTEGRITY)]
        // SAFETY: The bio is ours and complete, and the context may sleep. It has no integrity data
        // yet.
        unsafe {
            let bio = self.as_raw();
            if is_protected(bio) {
                return;
            }
            if (*bio).bi_opf & bindings::req_op_REQ_OP_WRITE != 0 {
                bindings::fs_bio_integrity_generate(bio);
            } else {
                bindings::fs_bio_integrity_alloc(bio);
            }
        }
    }

    /// Charges the bytes that the bio writes to the current task (`task_io_account_write()`).
    #[inline]
    pub fn account_write(&self) {
        // SAFETY: Charges the current task.
        unsafe { bindings::task_io_account_write(self.size() as usize) };
    }
}

impl<C: Contents> Bio<C> {
    /// Lets the caller poll for this bio, or takes the request out of polling if nobody can. Returns
    /// which.
    #[inline(always)]
    pub(super) fn poll_for<O>(&mut self, iocb: &mut BusyIocb<O>) -> bool {
        // SAFETY: The bio and the kiocb are ours.
        unsafe { poll_for(self.as_raw(), iocb.as_raw()) }
    }
}

/// As [`Bio::poll_for`].
///
/// # Safety
///
/// Nobody else may use the bio and the kiocb.
#[cold]
unsafe fn poll_for(bio: *mut bindings::bio, iocb: *mut bindings::kiocb) -> bool {
    // SAFETY: Required of the caller.
    unsafe {
        if is_encrypted_on_the_way(bio) {
            (*iocb).ki_flags &= !IocbFlags::HIPRI.into_raw();
            return false;
        }
        (*bio).bi_opf |= 1 << bindings::req_flag_bits___REQ_POLLED;
        // ORDERING: None needed: the poller looks at the bio under RCU, in memory that stays a bio
        // (`SLAB_TYPESAFE_BY_RCU`), and reads the field with `READ_ONCE()`.
        write_once(&raw mut (*iocb).private, bio.cast());
    }
    true
}

/// Whether the block layer will give the device an encrypted copy instead of this bio.
///
/// It does so for a device that cannot encrypt. Nobody knows of the copy, so nobody can poll for it.
///
/// # Safety
///
/// `bio` must be valid.
#[inline]
unsafe fn is_encrypted_on_the_way(bio: *const bindings::bio) -> bool {
    #[cfg(CONFIG_BLK_INLINE_ENCRYPTION)]
    {
        // SAFETY: Required of the caller.
        let bio = unsafe { &*bio };
        if bio.bi_opf & bindings::req_op_REQ_OP_WRITE != 0 && !bio.bi_crypt_context.is_null() {
            // SAFETY: The context of a bio is valid as long as the bio, and its key as long as the
            // file is open.
            let config = unsafe { &raw const (*(*bio.bi_crypt_context).bc_key).crypto_cfg };
            // SAFETY: The device and the configuration are valid.
            return !unsafe { bindings::blk_crypto_config_supported_natively(bio.bi_bdev, config) };
        }
    }
    #[cfg(not(CONFIG_BLK_INLINE_ENCRYPTION))]
    let _ = bio;
    false
}

/// Submits a bio, through the encryption in software if it needs that (`blk_crypto_submit_bio()`).
///
/// # Safety
///
/// `bio` must be complete, and must not be used afterwards.
#[inline(always)]
pub(super) unsafe fn submit(bio: *mut bindings::bio) {
    #[cfg(CONFIG_BLK_INLINE_ENCRYPTION)]
    {
        // SAFETY: The bio is valid until it is submitted.
        if !unsafe { (*bio).bi_crypt_context }.is_null()
            // SAFETY: Required of the caller.
            && !unsafe { bindings::__blk_crypto_submit_bio(bio) }
        {
            return;
        }
    }
    // SAFETY: Required of the caller.
    unsafe { bindings::submit_bio(bio) };
}

/// Whether a bio has integrity data.
///
/// # Safety
///
/// `bio` must be valid.
#[cfg(CONFIG_BLK_DEV_INTEGRITY)]
#[inline]
unsafe fn is_protected(bio: *const bindings::bio) -> bool {
    const INTEGRITY: u32 = 1 << bindings::req_flag_bits___REQ_INTEGRITY;
    // SAFETY: Required of the caller.
    unsafe { (*bio).bi_opf & INTEGRITY != 0 && !(*bio).bi_integrity.is_null() }
}

/// Frees integrity data that the file system attached (`fs_bio_integrity_free()`).
///
/// # Safety
///
/// `bio` must belong to the caller, and must not be on its way.
#[inline]
unsafe fn free_integrity(bio: *mut bindings::bio) {
    #[cfg(CONFIG_BLK_DEV_INTEGRITY)]
    // SAFETY: Required of the caller. The integrity data belongs to the bio and is not used
    // afterwards.
    unsafe {
        if is_protected(bio) {
            bindings::fs_bio_integrity_free(bio);
        }
    }
    #[cfg(not(CONFIG_BLK_DEV_INTEGRITY))]
    let _ = bio;
}

/// Lets go of a bio that has ended, with `result`, and drops its reference to the request of type `T`.
/// Returns the request if that was the last.
///
/// Data that was read into a bounce buffer is copied back here, which takes process context: a file
/// system whose callers bounce reads ends such bios from a worker.
///
/// # Safety
///
/// `bio` must have ended, its `bi_private` must be what `Template::submit` has put there, and it must
/// not be used afterwards.
#[inline]
unsafe fn end<T: Operations>(
    bio: *mut bindings::bio,
    result: Result,
    last: impl FnOnce(&mut T::Sealed),
) -> Option<Unique<T>> {
    // SAFETY: `bi_private` holds the share, and this is the one time that it is taken back.
    let share = unsafe { Share::<T>::from_raw((*bio).bi_private) };
    if let Err(error) = result {
        share.record_error(error);
    }
    // SAFETY: The bio is given back to us, and was filled in a way that fits the buffers of the request.
    // It is put before the request can be over.
    unsafe {
        free_integrity(bio);
        match share.buffers() {
            Buffers::InPlace(pages) => put_with_pages(bio, pages),
            Buffers::Bounced(pages) => {
                let dirty = pages == Pages::Dirtied;
                bindings::bio_iov_iter_unbounce(bio, share.has_failed(), dirty);
                bindings::bio_put(bio);
            }
        }
    }
    share.finish(last)
}

/// The end of a bio that [`Template::submit`] has submitted for a request of type `T`.
///
/// # Safety
///
/// `bio` must have ended, its `bi_private` must be what `Template::submit` has put there, and it must
/// not be used afterwards. Any context.
pub unsafe extern "C" fn end_io<T: Operations>(bio: *mut bindings::bio) {
    // SAFETY: The block layer, or the file system that stood in for it, gives the bio back.
    if let Some(request) = unsafe { end::<T>(bio, result(bio), |_| ()) } {
        T::ended(request);
    }
}

/// The end of a bio that is a part of an ioend, called from the worker that finishes ioends.
///
/// Returns the number of segments of the bio, as a measure of the work done.
///
/// # Safety
///
/// As for [`end_io`], for the bio of `ioend`, and the context must be allowed to sleep.
pub unsafe fn ioend_end_io<T: Operations>(ioend: *mut bindings::iomap_ioend) -> u32 {
    // SAFETY: The ioend is valid until its bio is put.
    let (bio, error, vecs) = unsafe {
        let bio = &raw mut (*ioend).io_bio;
        (bio, (*ioend).io_error, (*bio).bi_vcnt)
    };
    // SAFETY: The ioend gives its bio back.
    if let Some(request) = unsafe { end::<T>(bio, check(error), T::at_ioend) } {
        // SAFETY: Required of the caller.
        T::ioend_ended(request, unsafe { MaySleep::assume() });
    }
    u32::from(vecs)
}
