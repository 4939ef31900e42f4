// SPDX-License-Identifier: GPL-2.0

//! One transfer between memory and a block device.
//!
//! A bio is a value of another type at each stage of its life:
//!
//! ```text
//!  Bio<Empty> --pin()----> Bio<Pinned>  --+
//!       |                                 +--submission--> the device's --end--> gone
//!       +------bounce()--> Bio<Bounced> --+
//!       +------zero()----> Bio<Zeroes>  --+
//!  Bio::read()-----------> Bio<Owned>   --+
//! ```
//!
//! Every arrow consumes the value, so a bio cannot be touched after it was submitted or put.
//! Dropping a bio that was not submitted gives back what it holds and the bio itself.
//!
//! Who has memory of the kernel to read into uses [`Bio::read`] and [`EndIo`]. Direct I/O, whose bios
//! belong to requests, submits them by [`Template`] and [`HeaderSet`].
//!
//! C headers: [`include/linux/bio.h`](srctree/include/linux/bio.h),
//! [`include/linux/blk_types.h`](srctree/include/linux/blk_types.h).
//!
//! [`Template`]: crate::iomap::bio::Template
//! [`HeaderSet`]: crate::iomap::bio_set::HeaderSet

use super::{
    bdev::{
        BlockDevice,
        OpenBlockDevice, //
    },
    buffer::Buffer, //
};
use crate::{
    alloc::flags::GFP_KERNEL,
    bindings,
    error::to_result,
    fs::inode::Inode,
    iomap::flags::flag_word,
    iov::IovIter,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    task::MaySleep, //
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};

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
pub struct Pinned(pub(crate) Pages);

/// Copies of the caller's memory, or room for them.
pub struct Bounced(pub(crate) Pages);

/// Zeroes.
pub struct Zeroes(());
/// A buffer of the kernel that the bio owns, and who gets it back when the bio has ended.
pub struct Owned<P>(KBox<Flight<P>>);

mod private {
    pub trait Sealed {}
    impl Sealed for super::Empty {}
    impl Sealed for super::Pinned {}
    impl Sealed for super::Bounced {}
    impl Sealed for super::Zeroes {}
    impl<P> Sealed for super::Owned<P> {}
}

impl Contents for Empty {
    #[inline]
    unsafe fn give_back(_bio: *mut bindings::bio) {}
}

impl Contents for Zeroes {
    #[inline]
    unsafe fn give_back(_bio: *mut bindings::bio) {}
}

impl<P> Contents for Owned<P> {
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

/// Contents that make a bio complete.
pub trait Filled: Contents {}

impl Filled for Pinned {}
impl Filled for Bounced {}
impl Filled for Zeroes {}

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
pub(crate) fn op(memory: &IovIter<'_>) -> u32 {
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
pub(crate) unsafe fn give_back_pages(bio: *mut bindings::bio, pages: Pages) {
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
pub(crate) unsafe fn put_with_pages(bio: *mut bindings::bio, pages: Pages) {
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
pub(crate) unsafe fn result(bio: *const bindings::bio) -> Result {
    // SAFETY: Required of the caller.
    let status = unsafe { (*bio).bi_status };
    if status == 0 {
        return Ok(());
    }
    // SAFETY: Any status may be asked for.
    to_result(unsafe { bindings::blk_status_to_errno(status) })
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
    pub(crate) contents: C,
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
    /// The bio as C knows it.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::bio {
        self.raw.as_ptr()
    }

    /// The bio set that the bio is from (`bi_pool`).
    #[inline]
    pub(crate) fn pool(&self) -> *mut bindings::bio_set {
        // SAFETY: The bio is ours.
        unsafe { (*self.as_raw()).bi_pool }
    }

    /// Gives the bio up without putting it, and takes the contents out.
    #[inline]
    pub(crate) fn into_parts(self) -> (*mut bindings::bio, C) {
        let this = ManuallyDrop::new(self);
        // SAFETY: They are read once, as `self` ends.
        (this.as_raw(), unsafe { (&raw const this.contents).read() })
    }

    /// Sets where the bio goes on the device, in sectors of 512 bytes.
    #[inline]
    pub fn set_sector(&mut self, sector: u64) {
        // SAFETY: The bio is ours.
        unsafe { (*self.as_raw()).bi_iter.bi_sector = sector };
    }

    /// Takes the I/O priority over from the caller.
    #[inline]
    pub(crate) fn set_ioprio(&mut self, ioprio: u16) {
        // SAFETY: The bio is ours.
        unsafe { (*self.as_raw()).bi_ioprio = ioprio };
    }

    /// Takes the life-time hint over from the file.
    #[inline]
    pub(crate) fn set_write_hint(&mut self, inode: &Inode) {
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
    pub(crate) fn set_crypt_ctx(&mut self, inode: &Inode, pos: i64, _ctx: MaySleep) {
        #[cfg(CONFIG_FS_ENCRYPTION_INLINE_CRYPT)]
        // SAFETY: The bio and the inode are valid, and the context may sleep.
        unsafe {
            // One context is as many as a bio frees.
            if (*self.as_raw()).bi_crypt_context.is_null() {
                bindings::fscrypt_set_bio_crypt_ctx(
                    self.as_raw(),
                    inode.as_raw(),
                    pos,
                    GFP_KERNEL.as_raw(),
                );
            }
        }
        #[cfg(not(CONFIG_FS_ENCRYPTION_INLINE_CRYPT))]
        let _ = (inode, pos);
    }
}

impl Bio<Empty> {
    #[inline]
    fn filled<C: Contents>(self, contents: C) -> Bio<C> {
        // INVARIANT: Only called once these are the contents.
        Bio {
            raw: ManuallyDrop::new(self).raw,
            contents,
        }
    }

    /// Wraps a new bio.
    ///
    /// # Safety
    ///
    /// `raw` must be a bio without pages that nobody else knows of.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: NonNull<bindings::bio>) -> Self {
        // INVARIANT: Required of the caller.
        Self {
            raw,
            contents: Empty(()),
        }
    }

    /// Allocates a bio with `vecs` segments for the operation and the flags in `opf` from `set`
    /// (`bio_alloc_bioset()`).
    ///
    /// Fails with `ENOMEM` if `set` was made without segments.
    ///
    /// # Safety
    ///
    /// `set` must be valid until the bio is put.
    pub(crate) unsafe fn alloc(
        bdev: &BlockDevice,
        vecs: u16,
        opf: u32,
        set: *mut bindings::bio_set,
        _ctx: MaySleep,
    ) -> Result<Self> {
        // SAFETY: The device and the bio set are valid, and the context may sleep.
        let raw = unsafe {
            bindings::bio_alloc_bioset(bdev.as_raw(), vecs, opf, GFP_KERNEL.as_raw(), set)
        };
        // An allocation that may block waits for the reserve of the bio set.
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
        to_result(ret)?;
        Ok(self.filled(Pinned(Pages::of(memory))))
    }

    /// Fills the bio with a copy of, or room for, as much of `memory` as fits
    /// (`bio_iov_iter_bounce()`).
    ///
    /// At most `max` bytes, and a multiple of `alignment` bytes; `memory` moves on by it. Fails
    /// with `EFAULT` or `ENOMEM` with `memory` back where it was.
    pub fn bounce(
        self,
        memory: &mut IovIter<'_>,
        max: usize,
        alignment: u32,
    ) -> Result<Bio<Bounced>> {
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
        to_result(ret)?;
        Ok(self.filled(Bounced(Pages::of(memory))))
    }

    /// Segments of a bio for `bytes` of zeroes: one at least, and as many as the largest page of zeroes
    /// fits.
    ///
    /// Fails with `EINVAL` if no bio has so many.
    pub fn zero_vecs(bytes: u32) -> Result<u16> {
        // CAST: Widening.
        let vecs = (bytes as usize)
            .checked_div(ZeroFolio::get().bytes)
            .unwrap_or(0);
        match u16::try_from(vecs) {
            Ok(vecs) if vecs <= MAX_VECS => Ok(core::cmp::max(1, vecs)),
            _ => Err(EINVAL),
        }
    }

    /// Fills the bio with `len` bytes of zeroes. Fails with `EINVAL` if it has not enough segments.
    pub fn zero(self, len: u32) -> Result<Bio<Zeroes>> {
        let zeroes = ZeroFolio::get();
        // CAST: Widening.
        let mut left = len as usize;
        while left > 0 {
            // SAFETY: The bio is ours.
            if unsafe { (*self.as_raw()).bi_vcnt >= (*self.as_raw()).bi_max_vecs } {
                return Err(EINVAL);
            }
            let part = core::cmp::min(left, zeroes.bytes);
            // SAFETY: The bio has a segment left, and the folio so many bytes.
            unsafe { bindings::bio_add_folio_nofail(self.as_raw(), zeroes.raw, part, 0) };
            left = left.wrapping_sub(part);
        }
        Ok(self.filled(Zeroes(())))
    }
}

/// The largest page of zeroes (`largest_zero_folio()`).
///
/// # Invariants
///
/// `raw` has `bytes` bytes, and is never freed.
struct ZeroFolio {
    raw: *mut bindings::folio,
    bytes: usize,
}

impl ZeroFolio {
    fn get() -> Self {
        // SAFETY: The folio of zeroes is there since boot.
        unsafe {
            let raw = bindings::largest_zero_folio();
            // INVARIANT: It is never freed.
            Self {
                raw,
                bytes: bindings::folio_size(raw),
            }
        }
    }
}

/// Who goes on when a bio of [`Bio::read`] has ended.
pub trait EndIo: Send + Sized + 'static {
    /// The bio has ended with `result` and is gone; `buffer` has what was read, if that went well. Any
    /// context, the hard interrupt included.
    fn end_io(self, buffer: Buffer, result: Result);
}

/// What a bio with a buffer of its own needs until it has ended (`bi_private`).
struct Flight<P> {
    private: P,
    buffer: Buffer,
    /// Stays open as long.
    _bdev: OpenBlockDevice,
}

impl<P: EndIo> Bio<Owned<P>> {
    /// A bio that reads from the sector `sector` of 512 bytes on into `buffer`, until that is full.
    /// `private` gets the buffer back when the bio has ended.
    ///
    /// Fails with `EINVAL` if the device cannot transfer to a buffer of this size, and with `ENOMEM` if
    /// there is no memory.
    pub fn read(
        bdev: &OpenBlockDevice,
        sector: u64,
        buffer: Buffer,
        private: P,
        ctx: MaySleep,
    ) -> Result<Self> {
        // CAST: Widening. A buffer is aligned to its size.
        if buffer.len() & bdev.dma_alignment_mask() as usize != 0 {
            return Err(EINVAL);
        }
        let mut flight = KBox::new(
            Flight {
                private,
                buffer,
                _bdev: bdev.clone(),
            },
            GFP_KERNEL,
        )?;
        // SAFETY: This bio set is never destroyed.
        let mut bio = unsafe {
            let set = &raw mut bindings::fs_bio_set;
            Bio::alloc(bdev, 1, bindings::req_op_REQ_OP_READ, set, ctx)?
        };
        bio.set_sector(sector);
        // SAFETY: The bio has a segment. The buffer is memory of the kernel in the linear mapping; its
        // size fits, as the largest does.
        unsafe {
            bindings::bio_add_virt_nofail(
                bio.as_raw(),
                flight.buffer.as_mut_ptr().cast(),
                flight.buffer.len() as c_uint,
            )
        };
        Ok(bio.filled(Owned(flight)))
    }

    /// Submits the bio; [`EndIo::end_io`] goes on with it, maybe before this returns (`submit_bio()`).
    pub fn submit(self, _ctx: MaySleep) {
        let (bio, Owned(flight)) = self.into_parts();
        // SAFETY: The bio is complete and given up here; page locks and tags may sleep, and so may the
        // context. What it holds is owned by `bi_private` until `end_owned` takes it back.
        unsafe {
            (*bio).bi_private = KBox::into_raw(flight).cast();
            (*bio).bi_end_io = Some(end_owned::<P>);
            submit(bio);
        }
    }
}

/// The end of a bio with a buffer of its own.
///
/// # Safety
///
/// Called by the block layer, once, for such a bio.
unsafe extern "C" fn end_owned<P: EndIo>(bio: *mut bindings::bio) {
    // SAFETY: The bio has ended and is given back; `bi_private` is taken back once.
    let (flight, result) = unsafe {
        let flight = KBox::<Flight<P>>::from_raw((*bio).bi_private.cast());
        let result = result(bio);
        bindings::bio_put(bio);
        (KBox::into_inner(flight), result)
    };
    flight.private.end_io(flight.buffer, result);
}

impl Bio<Pinned> {
    /// What becomes of the pages.
    #[inline]
    pub(crate) fn pages(&self) -> Pages {
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

/// Marks a bio as one that somebody polls for (`bio_set_polled()`), unless nobody could find it.
/// Returns whether it did.
///
/// # Safety
///
/// Nobody else may use the bio.
#[cold]
pub(crate) unsafe fn set_polled(bio: *mut bindings::bio) -> bool {
    // SAFETY: Required of the caller.
    unsafe {
        if is_encrypted_on_the_way(bio) {
            return false;
        }
        (*bio).bi_opf |= 1 << bindings::req_flag_bits___REQ_POLLED;
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
pub(crate) unsafe fn submit(bio: *mut bindings::bio) {
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
pub(crate) unsafe fn free_integrity(bio: *mut bindings::bio) {
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

flag_word! {
    /// Flags of a bio beside its operation (`bi_opf`), which follows from the memory that it is
    /// filled with.
    pub struct OpFlags(u32) {
        /// Somebody waits for this bio.
        SYNC = 1u64 << bindings::req_flag_bits___REQ_SYNC,
        /// More I/O is expected to follow at once.
        IDLE = 1u64 << bindings::req_flag_bits___REQ_IDLE,
        /// Write through to the media.
        FUA = 1u64 << bindings::req_flag_bits___REQ_FUA,
        /// The device must not tear this write.
        ATOMIC = 1u64 << bindings::req_flag_bits___REQ_ATOMIC,
        /// Fail with `EAGAIN` rather than wait for a tag.
        NOWAIT = 1u64 << bindings::req_flag_bits___REQ_NOWAIT,
    }
}
