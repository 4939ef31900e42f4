// SPDX-License-Identifier: GPL-2.0

//! Bios: transfers between memory and a block device.
//!
//! C headers: [`include/linux/bio.h`](srctree/include/linux/bio.h),
//! [`include/linux/blk_types.h`](srctree/include/linux/blk_types.h).
//!
//! # Stages
//!
//! A bio is a value of another type at each stage of its life:
//!
//! ```text
//!  Bio --pin(), bounce() ...--> Filled --submission--> the device's --end--> gone
//! ```
//!
//! Every arrow consumes the value, so a bio cannot be touched after it was submitted or put.
//! Dropping a bio that was not submitted gives back its pages and the bio itself.
//!
//! Bios belong to requests, which build and submit them by [`Template`] and [`BioSet`]. Other code
//! has none of its own.
//!
//! Sectors are of 512 bytes here, whatever the logical block size of the device; sizes are in
//! bytes.
//!
//! [`Template`]: crate::iomap::bio::Template
//! [`BioSet`]: crate::iomap::bio_set::BioSet

use super::{
    bdev::BlockDevice,
    SECTOR_SHIFT, //
};
use crate::{
    alloc::{
        flags::GFP_NOWAIT,
        Flags, //
    },
    bindings,
    error::to_result,
    fs::inode::Inode,
    iov::IovIter,
    page::{
        PAGE_SHIFT,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::barrier::{
        smp_mb,
        Full, //
    },
    task::MaySleep,
    types::Opaque, //
};
use core::{
    mem::ManuallyDrop,
    ptr::{
        self,
        NonNull, //
    },
};

/// The largest number of segments that a bio can have of its own (`BIO_MAX_VECS`).
// CAST: 256.
pub(crate) const MAX_VECS: u16 = bindings::BIO_MAX_VECS as u16;

/// The operation of a transfer (`enum req_op`).
#[inline]
pub(crate) fn op(write: bool) -> u32 {
    if write {
        bindings::req_op_REQ_OP_WRITE
    } else {
        bindings::req_op_REQ_OP_READ
    }
}

/// Gives back the pages of a bio that has ended, and keeps the bio.
///
/// Any context. If they `should_dirty` ([`IovIter::should_dirty`]), those that were cleaned in the
/// meantime are dirtied again by a worker, because that takes a lock that sleeps.
///
/// # Safety
///
/// `bio` must have ended, be filled in place from memory whose [`IovIter::should_dirty`] was
/// `should_dirty`, and belong to the caller, who does not use the pages afterwards.
#[doc(alias("bio_release_pages", "bio_check_pages_dirty"))]
#[inline(always)]
pub(crate) unsafe fn give_back_pages(bio: *mut bindings::bio, should_dirty: bool) {
    // SAFETY: Required of the caller.
    unsafe {
        if !should_dirty {
            bindings::bio_release_pages(bio, false);
        } else if !bindings::bio_release_dirty_pages(bio) {
            // The second function puts the bio.
            bindings::bio_get(bio);
            bindings::bio_check_pages_dirty(bio);
        }
    }
}

/// Gives back the pages of a bio that has ended as [`give_back_pages`] does, and the bio
/// (`bio_put()`).
///
/// # Safety
///
/// As there, and the bio must not be used afterwards.
#[inline(always)]
pub(crate) unsafe fn put_with_pages(bio: *mut bindings::bio, should_dirty: bool) {
    // SAFETY: Required of the caller.
    unsafe {
        if should_dirty {
            bindings::bio_check_pages_dirty(bio);
        } else {
            bindings::bio_release_pages(bio, false);
            bindings::bio_put(bio);
        }
    }
}

/// The result of the transfer of a bio (`bi_status`), as an errno (`blk_status_to_errno()`).
///
/// # Safety
///
/// `bio` must have ended and be valid.
#[inline(always)]
pub(crate) unsafe fn result(bio: *const bindings::bio) -> Result {
    // SAFETY: Required of the caller.
    unsafe {
        match (*bio).bi_status {
            0 => Ok(()),
            status => Err(Error::from_errno(bindings::blk_status_to_errno(status))),
        }
    }
}

/// A bio that has no pages yet (`struct bio`).
///
/// # Invariants
///
/// Nobody else knows of the bio, which is valid and empty.
#[must_use]
pub(crate) struct Bio(NonNull<bindings::bio>);

impl Drop for Bio {
    // Inline, so that the address of the value is not taken on the way that does not drop it.
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: By the invariants nobody else knows of the bio.
        unsafe { bindings::bio_put(self.as_raw()) };
    }
}

impl Bio {
    /// The bio as C knows it.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::bio {
        self.0.as_ptr()
    }

    /// The fields of the bio.
    #[inline(always)]
    fn fields(&mut self) -> &mut bindings::bio {
        // SAFETY: By the invariants the bio is valid and nobody else uses it.
        unsafe { self.0.as_mut() }
    }

    /// Sets the first sector of the transfer on the device, in units of 512 bytes (`bi_sector`).
    ///
    /// A sector past the end of the device fails the bio with `EIO` when it is submitted.
    #[inline]
    pub(crate) fn set_sector(&mut self, sector: u64) {
        self.fields().bi_iter.bi_sector = sector;
    }

    /// Sets the lifetime hint (`bi_write_hint`) to that of the file (`fcntl(F_SET_RW_HINT)`).
    #[inline]
    pub(crate) fn set_write_hint(&mut self, inode: &Inode) {
        // SAFETY: The inode is valid; the hint is a byte, which C writes without a lock.
        self.fields().bi_write_hint =
            unsafe { (&raw const (*inode.as_raw()).i_write_hint).read_volatile() };
    }

    /// Sets up inline encryption for byte `pos` of an encrypted file
    /// (`fscrypt_set_bio_crypt_ctx()`).
    ///
    /// Does nothing for other files, nor for a bio that has an encryption context already. The
    /// block layer encrypts in software if the device cannot: of a write it submits an encrypted
    /// copy then.
    #[inline]
    pub(crate) fn set_crypt_ctx(&mut self, inode: &Inode, pos: i64, _ctx: MaySleep) {
        #[cfg(CONFIG_FS_ENCRYPTION_INLINE_CRYPT)]
        // SAFETY: The bio and the inode are valid, and the context may sleep. Whether a file is
        // encrypted does not change while it is open.
        unsafe {
            // One context is as many as a bio frees. For most files there is nothing to call.
            let is_encrypted = (*inode.as_raw()).i_flags & bindings::S_ENCRYPTED != 0;
            if is_encrypted && (*self.as_raw()).bi_crypt_context.is_null() {
                bindings::fscrypt_set_bio_crypt_ctx(
                    self.as_raw(),
                    inode.as_raw(),
                    pos,
                    crate::alloc::flags::GFP_KERNEL.as_raw(),
                );
            }
        }
        #[cfg(not(CONFIG_FS_ENCRYPTION_INLINE_CRYPT))]
        let _ = (inode, pos);
    }

    /// The same bio, with memory from now on.
    #[inline]
    fn filled(self, bounced: bool) -> Filled {
        // INVARIANT: Only called once it has that.
        Filled {
            bio: ManuallyDrop::new(self),
            bounced,
        }
    }

    /// Allocates a bio with `vecs` segments for the operation and the flags in `opf` from `set`
    /// (`bio_alloc_bioset()`).
    ///
    /// With `GFP_KERNEL` this waits for memory: when there is none, for the reserve of `set`, which
    /// other bios are given back to. A task must therefore submit a bio before it allocates the
    /// next. It fails then only if `set` was made without segments.
    ///
    /// # Safety
    ///
    /// `set` must be valid until the bio is put, and the context may sleep if `gfp` says so.
    #[inline]
    pub(crate) unsafe fn alloc(
        bdev: &BlockDevice,
        vecs: u16,
        opf: u32,
        gfp: Flags,
        set: *mut bindings::bio_set,
    ) -> Option<Self> {
        // SAFETY: The device is valid; the rest is required of the caller.
        let raw =
            unsafe { bindings::bio_alloc_bioset(bdev.as_raw(), vecs, opf, gfp.as_raw(), set) };
        // INVARIANT: A new bio has no pages.
        NonNull::new(raw).map(Self)
    }

    /// Fills the bio with as much of `memory` as fits, zero-copy (`bio_iov_iter_get_pages()`).
    ///
    /// `alignment` is in bytes, a power of two. The size becomes a multiple of it, and `memory`
    /// moves on by the size. User pages are faulted in unless the iterator forbids that, so this
    /// may sleep.
    ///
    /// Fails with `EFAULT` if the memory cannot be accessed, and with `EINVAL` if it is not aligned
    /// as the device needs it. The bio is put then, and `memory` stays where the C function leaves
    /// it.
    #[inline(always)]
    pub(crate) fn pin(
        self,
        memory: &mut IovIter<'_>,
        bdev: &BlockDevice,
        alignment: u32,
    ) -> Result<Filled> {
        // SAFETY: By the invariants nobody else uses the bio, and the iterator is valid.
        let ret = unsafe {
            bindings::bio_iov_iter_get_pages(
                self.as_raw(),
                memory.as_raw(),
                bdev.dma_alignment_mask(),
                alignment.wrapping_sub(1),
            )
        };
        to_result(ret)?;
        Ok(self.filled(false))
    }

    /// Lends the bio the segments of all of `memory`, a bvec iterator (`bio_iov_iter_set()`).
    ///
    /// `memory` does not move on: an advance costs more than the rest, and nobody relies on
    /// the iterator of a request in flight.
    ///
    /// Fails with `ENOTBLK` if that is not `len` bytes, and with `EINVAL` if the memory is of
    /// another kind, or not aligned as the device needs it. The bio is put then.
    #[inline(always)]
    pub(crate) fn borrow(
        self,
        memory: &mut IovIter<'_>,
        bdev: &BlockDevice,
        len: u64,
    ) -> Result<Filled> {
        // CAST: Widening.
        if memory.len() as u64 != len {
            return Err(ENOTBLK);
        }
        if !memory.is_bvec_aligned(bdev.dma_alignment_mask()) {
            return Err(EINVAL);
        }
        // SAFETY: By the invariants nobody else uses the bio, and the iterator is valid. It is a
        // bvec iterator, so this succeeds.
        unsafe { bindings::bio_iov_iter_set(self.as_raw(), memory.as_raw()) };
        Ok(self.filled(false))
    }

    /// Fills the bio with bounce buffers for as much of `memory` as fits (`bio_iov_iter_bounce()`).
    ///
    /// A write copies the data now; a read pins the memory and copies when the bio has ended, which
    /// takes process context. The size is at most `max` bytes and a multiple of `alignment` bytes,
    /// a power of two; `memory` moves on by it.
    ///
    /// Fails with `EFAULT` if the memory cannot be accessed, and with `ENOMEM`. The bio is put
    /// then, and `memory` goes back to where it was.
    #[inline(always)]
    pub(crate) fn bounce(
        self,
        memory: &mut IovIter<'_>,
        max: usize,
        alignment: u32,
    ) -> Result<Filled> {
        // SAFETY: By the invariants nobody else uses the bio, and the iterator is valid.
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
        Ok(self.filled(true))
    }

    /// Fills the bio with one bounce buffer for all of `memory`. It is a slab object, which takes
    /// less time than pages, or a compound page; its address is in `bi_private`.
    ///
    /// A write copies the data now. A read copies it when the bio has ended ([`unbounce`]), to the
    /// segments of the caller. They come before that of the buffer, and `bi_vcnt` is their number;
    /// user pages are pinned. `memory` moves on, unless it is a bvec iterator that is read into.
    ///
    /// Fails with `ENOTBLK` if `memory` is not `len` bytes or more than 1 MiB, with `EAGAIN` if no
    /// buffer is free without waiting, with `EFAULT` if the memory cannot be accessed, and with
    /// `EINVAL` if a write must not fault it in or the bio has too few segments. The bio is put
    /// then, and `memory` stays where the copy or the pinning has ended.
    ///
    /// # Safety
    ///
    /// The objects of `small` must have the size of a page, those of `large` [`MOST_UNBOUNCED`]
    /// bytes; both must be aligned to pages.
    #[doc(alias = "bio_iov_iter_bounce")]
    #[inline(always)]
    pub(crate) unsafe fn bounce_at_once(
        mut self,
        memory: &mut IovIter<'_>,
        len: u64,
        [small, large]: [*mut bindings::kmem_cache; 2],
    ) -> Result<Filled> {
        let (write, size) = (memory.is_source(), memory.len());
        // CAST: Widening.
        if size as u64 != len || size > MOST_BOUNCED {
            return Err(ENOTBLK);
        }
        if self.fields().bi_max_vecs == 0 || (write && memory.is_nofault()) {
            return Err(EINVAL);
        }
        let mut filled = self.filled(false);
        if !write {
            filled = filled.list_segments(memory)?;
        }
        let bio = filled.fields();
        // The buffer is aligned to the powers of two that its size is a multiple of. A device needs
        // no more, as sizes have to be multiples of its alignment as well.
        // CAST: No more than `MOST_BOUNCED`.
        let bytes = size as u32;
        // SAFETY: The caches are required of the caller. The buffer is so large, and the iterator
        // is valid. After those that are listed the bio has a segment.
        unsafe {
            let gfp = GFP_NOWAIT.as_raw();
            let buffer = if size > MOST_UNBOUNCED {
                // A network device may take references to these; the pages that `kmalloc()` would
                // return have none.
                let pages = bindings::__get_free_pages(gfp | bindings::__GFP_COMP, order(size));
                ptr::with_exposed_provenance_mut(pages)
            } else {
                // `kmalloc()` would look for the cache of this size, or take pages.
                bindings::kmem_cache_alloc(if size <= PAGE_SIZE { small } else { large }, gfp)
            };
            if buffer.is_null() {
                return Err(EAGAIN);
            }
            // From now on an error frees it.
            bio.bi_private = buffer;
            let vec = bio.bi_io_vec.add(bio.bi_vcnt.into());
            bindings::bvec_set_virt(vec, buffer, bytes);
            if write && bindings::_copy_from_iter(buffer, size, memory.as_raw()) != size {
                return Err(EFAULT);
            }
        }
        bio.bi_iter.bi_size = bytes;
        Ok(filled)
    }

    /// The number of segments that a bio needs for `bytes` of zeroes, at least one.
    ///
    /// It depends on the size of the kernel's page of zeroes, which is a huge page in some
    /// configurations. Fails with `EINVAL` if no bio has so many segments.
    pub(crate) fn zero_vecs(bytes: u32) -> Result<u16> {
        // CAST: Widening.
        let vecs = (bytes as usize).checked_div(zero_folio().1).unwrap_or(0);
        match u16::try_from(vecs) {
            Ok(vecs) if vecs <= MAX_VECS => Ok(core::cmp::max(1, vecs)),
            _ => Err(EINVAL),
        }
    }

    /// Fills the bio with `len` bytes of zeroes. Fails with `EINVAL` if it has not enough segments
    /// ([`Bio::zero_vecs`]).
    pub(crate) fn zero(mut self, len: u32) -> Result<Filled> {
        let (zeroes, bytes) = zero_folio();
        // CAST: Widening.
        let mut left = len as usize;
        while left > 0 {
            let bio = self.fields();
            if bio.bi_vcnt >= bio.bi_max_vecs {
                return Err(EINVAL);
            }
            let part = core::cmp::min(left, bytes);
            // SAFETY: The bio has a segment left, and the folio so many bytes.
            unsafe { bindings::bio_add_folio_nofail(bio, zeroes, part, 0) };
            left = left.wrapping_sub(part);
        }
        Ok(self.filled(false))
    }
}

/// The largest page of zeroes that the kernel has (`largest_zero_folio()`), and its size in bytes.
/// It is never freed.
fn zero_folio() -> (*mut bindings::folio, usize) {
    // SAFETY: The folio of zeroes is there since boot.
    unsafe {
        let folio = bindings::largest_zero_folio();
        (folio, bindings::folio_size(folio))
    }
}

/// A bio that was filled but not submitted yet.
///
/// A submitted bio is no value of Rust: it belongs to the block layer, and what is to happen at its
/// end is in its `bi_private` and `bi_end_io`.
///
/// # Invariants
///
/// Nobody else knows of the bio, which is valid and was filled in this way. Its `bi_private` is the
/// bounce buffer of [`Bio::bounce_at_once`], or NULL.
#[must_use]
pub(crate) struct Filled {
    bio: ManuallyDrop<Bio>,
    /// By [`Bio::bounce`].
    bounced: bool,
}

impl Drop for Filled {
    // Inline, as above.
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: By the invariants nobody else knows of the bio, which was filled in this way.
        unsafe { discard(self.as_raw(), self.bounced) };
    }
}

/// Frees the bounce buffer.
///
/// # Safety
///
/// `bio` must belong to the caller, and have one of [`Bio::bounce_at_once`]. Once.
#[inline(always)]
unsafe fn free_buffer(bio: *mut bindings::bio) {
    // SAFETY: Required of the caller.
    unsafe {
        let buffer = (*bio).bi_private;
        // CAST: Widening.
        let size = (*(*bio).bi_io_vec.add((*bio).bi_vcnt.into())).bv_len as usize;
        if size > MOST_UNBOUNCED {
            bindings::free_pages(buffer.expose_provenance(), order(size));
        } else {
            bindings::kfree(buffer);
        }
    }
}

/// The order of the pages that `size` bytes take (`get_order()`).
fn order(size: usize) -> u32 {
    // OVERFLOW: A size of no bytes takes all, of which there is none.
    usize::BITS.wrapping_sub((size.wrapping_sub(1) >> PAGE_SHIFT).leading_zeros())
}

/// Copies the data of a bounced read that has ended to the caller's memory, unless it has failed,
/// and gives back the pages of that. Frees the bounce buffer, and keeps the bio.
///
/// Any context, but the copy takes its time ([`unbounce_here`]). As nobody has dirtied the pages
/// before, a worker dirties those that are clean.
///
/// # Safety
///
/// `bio` must be a read that has ended, have been filled by [`Bio::bounce_at_once`] from memory
/// whose [`IovIter::should_dirty`] was `should_dirty`, and belong to the caller. Once.
#[doc(alias = "bio_iov_iter_unbounce")]
#[inline(never)]
pub(crate) unsafe fn unbounce(bio: *mut bindings::bio, should_dirty: bool) {
    // SAFETY: Required of the caller. The segments of the memory have no fewer bytes than the one
    // of the buffer, which follows them.
    let is_short = unsafe {
        let (buffer, arrived) = ((*bio).bi_private, (*bio).bi_status == 0);
        let is_short = arrived && {
            let (vecs, count) = ((*bio).bi_io_vec, usize::from((*bio).bi_vcnt));
            // CAST: Widening.
            let len = (*vecs.add(count)).bv_len as usize;
            let end = || (*vecs).bv_offset.wrapping_add((*vecs).bv_len) as usize;
            if count == 1 && (*vecs).bv_len as usize == len && end() <= PAGE_SIZE {
                // A part of one page, which takes no iterator.
                bindings::memcpy_to_bvec(vecs, buffer.cast());
                false
            } else {
                let to = Opaque::<bindings::iov_iter>::uninit();
                bindings::iov_iter_bvec(to.get(), bindings::ITER_DEST, vecs, count, len);
                bindings::_copy_to_iter(buffer, len, to.get()) != len
            }
        };
        free_buffer(bio);
        if should_dirty {
            // ORDERING: Writeback cleans a page before it reads it: one that is found dirty after
            // this is written as it is now.
            smp_mb(Full);
        }
        give_back_pages(bio, should_dirty && arrived);
        is_short
    };
    // Pinned pages can always be written to.
    crate::warn_on!(is_short);
}

/// The most bytes in one bounce buffer (1 MiB), as in C: more may never be had without waiting.
const MOST_BOUNCED: usize = 1 << 20;

/// The most bytes of a bounced read that are copied outside of process context (16 KiB).
pub(crate) const MOST_UNBOUNCED: usize = 16 << 10;

/// As [`unbounce`], for the end of a read or a write. Returns false, and does nothing, if the copy
/// is left to process context: an interrupt copies no more than 16 KiB, and a hard one, in which
/// many bios may end, 4 KiB for each. Of a bio that has failed there is nothing to copy.
///
/// # Safety
///
/// As there, but it may be a write.
#[inline(always)]
pub(crate) unsafe fn unbounce_here(bio: *mut bindings::bio, should_dirty: bool) -> bool {
    // SAFETY: Required of the caller, and reading the context has no requirements.
    unsafe {
        match (*bio).bi_vcnt {
            // A write, which has no segments of the caller.
            0 => free_buffer(bio),
            count => {
                let buffer = (*bio).bi_io_vec.add(count.into());
                // CAST: Widening.
                let len = (*buffer).bv_len as usize;
                let long = len > MOST_UNBOUNCED && bindings::bio_in_atomic();
                if (*bio).bi_status == 0 && (long || len > 4096 && bindings::in_hardirq()) {
                    return false;
                }
                unbounce(bio, should_dirty);
            }
        }
    }
    true
}

/// Puts a bio that was not submitted, with its pages and its integrity data.
///
/// # Safety
///
/// `bio` must belong to the caller and be filled in this way, and must not be used afterwards.
#[cold]
unsafe fn discard(bio: *mut bindings::bio, bounced: bool) {
    // SAFETY: Required of the caller. Nothing was transferred, so nothing is copied back. Before
    // the submission `bi_private` is a bounce buffer or NULL.
    unsafe {
        free_integrity(bio);
        if bounced {
            bindings::bio_iov_iter_unbounce(bio, true, false);
        } else {
            if !(*bio).bi_private.is_null() {
                free_buffer(bio);
            }
            bindings::bio_release_pages(bio, false);
        }
        bindings::bio_put(bio);
    }
}

impl Filled {
    /// The bio as C knows it.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::bio {
        self.bio.as_raw()
    }

    /// The fields of the bio.
    #[inline(always)]
    fn fields(&mut self) -> &mut bindings::bio {
        self.bio.fields()
    }

    /// Gives the bio up without putting it.
    #[inline]
    pub(crate) fn into_raw(self) -> *mut bindings::bio {
        ManuallyDrop::new(self).as_raw()
    }

    /// Lists all segments of `memory`, which is read into, in a bio that has none. User pages are
    /// pinned, and `memory` moves on; a bvec iterator stays where it is.
    ///
    /// What is transferred is the segment after them, for the buffer. Fails with `EFAULT` if the
    /// memory cannot be accessed, and with `EINVAL` if the bio has too few segments; the bio is put
    /// then.
    #[doc(alias = "iov_iter_extract_bvecs")]
    #[inline(always)]
    fn list_segments(mut self, memory: &mut IovIter<'_>) -> Result<Self> {
        if !memory.is_bvec() {
            return self.extract_segments(memory);
        }
        let bio = self.fields();
        let most = bio.bi_max_vecs.saturating_sub(1);
        let (segments, mut done) = memory.bvecs();
        for segment in segments {
            if bio.bi_vcnt >= most {
                return Err(EINVAL);
            }
            // CAST: A part of a segment is consumed at most, and only of the first one.
            let listed = bindings::bio_vec {
                bv_page: segment.bv_page,
                bv_len: segment.bv_len.wrapping_sub(done as u32),
                bv_offset: segment.bv_offset.wrapping_add(done as u32),
            };
            // SAFETY: The bio has so many segments.
            unsafe { bio.bi_io_vec.add(bio.bi_vcnt.into()).write(listed) };
            // OVERFLOW: No more than the bio has.
            (bio.bi_vcnt, done) = (bio.bi_vcnt.wrapping_add(1), 0);
        }
        bio.bi_iter.bi_idx = bio.bi_vcnt.into();
        Ok(self)
    }

    /// As [`Filled::list_segments`], of other memory than that of a bvec iterator.
    #[inline(never)]
    fn extract_segments(mut self, memory: &mut IovIter<'_>) -> Result<Self> {
        let bio = self.fields();
        let most = bio.bi_max_vecs.saturating_sub(1);
        if memory.is_user_backed() {
            bio.bi_flags |= 1 << bindings::BIO_PAGE_PINNED;
        }
        while !memory.is_empty() {
            if bio.bi_vcnt >= most {
                return Err(EINVAL);
            }
            // SAFETY: The bio has so many segments, and the iterator is valid. The pages are given
            // back with the bio.
            let bytes = unsafe {
                bindings::iov_iter_extract_bvecs(
                    memory.as_raw(),
                    bio.bi_io_vec,
                    memory.len(),
                    &mut bio.bi_vcnt,
                    most,
                    0,
                    0,
                )
            };
            if bytes <= 0 {
                return Err(EFAULT);
            }
        }
        bio.bi_iter.bi_idx = bio.bi_vcnt.into();
        Ok(self)
    }

    /// Sets the I/O priority (`bi_ioprio`), normally that of the kiocb.
    #[inline]
    pub(crate) fn set_ioprio(&mut self, ioprio: u16) {
        self.fields().bi_ioprio = ioprio;
    }

    /// The size of the transfer in bytes (`bi_size`).
    #[inline]
    pub(crate) fn size(&self) -> u32 {
        // SAFETY: By the invariants the bio is valid and nobody else uses it.
        unsafe { (*self.as_raw()).bi_iter.bi_size }
    }

    /// The same bio, which ends in process context (`BIO_COMPLETE_IN_TASK`).
    #[inline]
    pub(crate) fn ending_in_task(mut self) -> Self {
        self.fields().bi_flags |= 1 << bindings::BIO_COMPLETE_IN_TASK;
        self
    }

    /// Has the bio raise no interrupt (`bio_set_polled()`): it ends only when somebody polls for
    /// it.
    ///
    /// Returns false if nobody could, because the block layer will submit an encrypted copy in its
    /// place: the device cannot encrypt.
    #[doc(alias("bio_set_polled", "REQ_POLLED", "blk_crypto_config_supported_natively"))]
    #[inline(always)]
    pub(crate) fn set_polled(&mut self) -> bool {
        let bio = self.fields();
        #[cfg(CONFIG_BLK_INLINE_ENCRYPTION)]
        if bio.bi_opf & bindings::req_op_REQ_OP_WRITE != 0 && !bio.bi_crypt_context.is_null() {
            // SAFETY: The device and the context are valid as long as the bio, and the key as long
            // as the file is open.
            let can_encrypt = unsafe {
                let config = &raw const (*(*bio.bi_crypt_context).bc_key).crypto_cfg;
                bindings::blk_crypto_config_supported_natively(bio.bi_bdev, config)
            };
            if !can_encrypt {
                return false;
            }
        }
        bio.bi_opf |= 1 << bindings::req_flag_bits___REQ_POLLED;
        true
    }

    /// Marks the pages as dirty before the device writes to them (`bio_set_pages_dirty()`).
    ///
    /// Sleeps on page locks. The end of the bio, which must not, then only looks for pages that
    /// were cleaned in between.
    #[inline]
    pub(crate) fn set_pages_dirty(&mut self, _ctx: MaySleep) {
        // SAFETY: By the invariants nobody else uses the bio. Page locks may sleep, and so may the
        // context.
        unsafe { bindings::bio_set_pages_dirty(self.as_raw()) };
    }

    /// Attaches integrity data for a file system that protects its data itself.
    ///
    /// Generates it for a write (`fs_bio_integrity_generate()`), and allocates room for it for a
    /// read (`fs_bio_integrity_alloc()`). The end of the bio frees it. Both do nothing if the bio
    /// has some already; this does nothing without `CONFIG_BLK_DEV_INTEGRITY`.
    // Inline, so that the address of the value is not taken.
    #[inline(always)]
    pub(crate) fn protect(&mut self, _ctx: MaySleep) {
        #[cfg(CONFIG_BLK_DEV_INTEGRITY)]
        // SAFETY: By the invariants nobody else uses the bio, which is complete. The context may
        // sleep.
        unsafe {
            let bio = self.as_raw();
            if (*bio).bi_opf & bindings::req_op_REQ_OP_WRITE != 0 {
                bindings::fs_bio_integrity_generate(bio);
            } else {
                bindings::fs_bio_integrity_alloc(bio);
            }
        }
    }

    /// Charges the bytes of the bio to the current task as written (`task_io_account_write()`).
    ///
    /// `/proc/<pid>/io` shows them.
    #[inline]
    pub(crate) fn account_write(&self) {
        // SAFETY: Charges the current task.
        unsafe { bindings::task_io_account_write(self.size() as usize) };
    }
}

/// Takes back what the current task was charged for a write of `bytes` bytes that the device has
/// refused (`task_io_account_cancelled_write()`).
pub fn account_cancelled_write(bytes: usize, _ctx: MaySleep) {
    // SAFETY: Changes a counter of the current task.
    unsafe { bindings::task_io_account_cancelled_write(bytes) };
}

/// Lets the submission of a bio fail with `EAGAIN` where it would wait for the device
/// (`REQ_NOWAIT`), if nothing of the transfer is done then.
///
/// Otherwise it waits: if the device cannot say that it would wait; if the block layer has to split
/// the bio, which it refuses to do for one that must not wait; if a write goes to a driver of bios,
/// such as device mapper, which may split it and have a part of it written when another fails; and
/// if the device is zoned: it leaves such writes to a worker, and zonefs takes each error for one of
/// the zone.
///
/// # Safety
///
/// `bio` must be complete and not encrypted, and nobody else may use it.
#[doc(alias("REQ_NOWAIT", "queue_is_mq"))]
#[inline(never)]
pub(crate) unsafe fn set_nowait(bio: *mut bindings::bio) {
    const FEATURES: u32 = bindings::BLK_FEAT_NOWAIT | bindings::BLK_FEAT_ZONED;
    // SAFETY: Required of the caller. The device and its queue are valid as long as the bio. The
    // limits may change meanwhile, as in C: then the bio waits, or is split and fails with EAGAIN.
    unsafe {
        let queue = (*(*bio).bi_bdev).bd_queue;
        let is_write = (*bio).bi_opf & bindings::req_op_REQ_OP_WRITE != 0;
        if is_write && (*queue).mq_ops.is_null() {
            return;
        }
        let limits = &raw const (*queue).limits;
        if (*limits).features & FEATURES != bindings::BLK_FEAT_NOWAIT {
            return;
        }
        let (bytes, mut vecs) = ((*bio).bi_iter.bi_size, u32::from((*bio).bi_vcnt));
        if vecs == 0 {
            // They are lent, and only as many count as are transferred.
            let mut vec = (*bio).bi_io_vec;
            let mut left = (*bio).bi_iter.bi_offset.wrapping_add(bytes);
            vecs = 1;
            while left > (*vec).bv_len {
                left = left.wrapping_sub((*vec).bv_len);
                (vec, vecs) = (vec.add(1), vecs.wrapping_add(1));
            }
        }
        let sectors = bytes >> SECTOR_SHIFT;
        // Each page of a vector is one segment at most, and its first and its last page may be cut.
        let segments = (bytes >> PAGE_SHIFT).wrapping_add(vecs.wrapping_mul(2));
        // OVERFLOW: A block is far smaller, and no smaller than a sector.
        let slack = ((*limits).physical_block_size >> SECTOR_SHIFT).wrapping_sub(1);
        let is_scattered = (vecs > 1 && (*limits).virt_boundary_mask != 0)
            || ((*limits).max_fast_segment_size as usize) < PAGE_SIZE
            || segments > u32::from((*limits).max_segments);
        let is_long =
            (*limits).chunk_sectors != 0 || sectors.wrapping_add(slack) > (*limits).max_sectors;
        if !(is_scattered || is_long) || is_within_limits(bio, limits, is_scattered) {
            (*bio).bi_opf |= OpFlags::NOWAIT.into_raw();
        }
    }
}

/// Whether the device takes a bio as one (`bio_split_rw()`). One that `is_scattered`, whose
/// segments may be too many, is shown to the function that splits.
///
/// # Safety
///
/// As for [`set_nowait`], and `limits` must be those of the device.
#[doc(alias("bio_split_io_at", "get_max_io_size"))]
#[cold]
unsafe fn is_within_limits(
    bio: *mut bindings::bio,
    limits: *const bindings::queue_limits,
    is_scattered: bool,
) -> bool {
    // SAFETY: Required of the caller.
    unsafe {
        // Of the whole disk.
        let start = (*(*bio).bi_bdev).bd_start_sect;
        let sector = (*bio).bi_iter.bi_sector.wrapping_add(start);
        let mut most = (*limits).max_sectors;
        if let chunk @ 1.. = (*limits).chunk_sectors {
            let left = bindings::blk_boundary_sectors_left(sector, chunk);
            most = core::cmp::min(most, left);
        }
        // A bio that is split ends with a physical block.
        let in_block = ((*limits).physical_block_size >> SECTOR_SHIFT).wrapping_sub(1);
        // CAST: Less than a block.
        let before = sector as u32 & in_block;
        let end = before.wrapping_add(most) & !in_block;
        let max_bytes = end.saturating_sub(before) << SECTOR_SHIFT;
        let fits = (*bio).bi_iter.bi_size <= max_bytes;
        if !fits || !is_scattered {
            return fits;
        }
        let (mut segments, alignment) = (0, (*limits).dma_alignment);
        // Where it would split the bio it clears `REQ_POLLED`.
        let opf = (*bio).bi_opf;
        let split = bindings::bio_split_io_at(bio, limits, &mut segments, max_bytes, alignment);
        (*bio).bi_opf = opf;
        split == 0
    }
}

/// Submits a bio, encrypted in software if it has to be (`blk_crypto_submit_bio()`).
///
/// # Safety
///
/// `bio` must be complete, and must not be used afterwards.
#[inline(always)]
pub(crate) unsafe fn submit(bio: *mut bindings::bio) {
    // SAFETY: Required of the caller.
    unsafe {
        #[cfg(CONFIG_BLK_INLINE_ENCRYPTION)]
        if !(*bio).bi_crypt_context.is_null() && !bindings::__blk_crypto_submit_bio(bio) {
            return;
        }
        bindings::submit_bio(bio);
    }
}

/// Frees integrity data that [`Filled::protect`] has attached (`fs_bio_integrity_free()`).
///
/// # Safety
///
/// `bio` must belong to the caller, and must not be on its way.
#[doc(alias("fs_bio_integrity_free", "REQ_INTEGRITY"))]
#[inline]
pub(crate) unsafe fn free_integrity(bio: *mut bindings::bio) {
    #[cfg(CONFIG_BLK_DEV_INTEGRITY)]
    // SAFETY: Required of the caller. The integrity data belongs to the bio and is not used
    // afterwards.
    unsafe {
        const INTEGRITY: u32 = 1 << bindings::req_flag_bits___REQ_INTEGRITY;
        if (*bio).bi_opf & INTEGRITY != 0 && !(*bio).bi_integrity.is_null() {
            bindings::fs_bio_integrity_free(bio);
        }
    }
    #[cfg(not(CONFIG_BLK_DEV_INTEGRITY))]
    let _ = bio;
}

crate::flag_word! {
    /// Flags of a bio (`bi_opf`).
    ///
    /// The operation itself, a read or a write, is not among them: it follows from the memory that
    /// the bio is filled with.
    #[doc(alias = "blk_opf_t")]
    pub struct OpFlags(u32) {
        /// A task waits for this bio, so the I/O scheduler prefers it.
        #[doc(alias = "REQ_SYNC")]
        SYNC = 1u64 << bindings::req_flag_bits___REQ_SYNC,
        /// More I/O is expected to follow soon.
        #[doc(alias = "REQ_IDLE")]
        IDLE = 1u64 << bindings::req_flag_bits___REQ_IDLE,
        /// Write through the device's cache: the data is stable when the bio ends.
        #[doc(alias = "REQ_FUA")]
        FUA = 1u64 << bindings::req_flag_bits___REQ_FUA,
        /// Fail with `EAGAIN` instead of waiting for a tag.
        #[doc(alias = "REQ_NOWAIT")]
        NOWAIT = 1u64 << bindings::req_flag_bits___REQ_NOWAIT,
    }
}

impl OpFlags {
    /// The device must not tear this write: all of it reaches the media, or nothing.
    ///
    /// From [`Span::untorn`].
    ///
    /// [`Span::untorn`]: crate::iomap::iter::Span::untorn
    #[doc(alias = "REQ_ATOMIC")]
    // CAST: It fits.
    pub(crate) const ATOMIC: Self = Self(1 << bindings::req_flag_bits___REQ_ATOMIC);
}
