// SPDX-License-Identifier: GPL-2.0

//! The bios of a counted request: how they are built for a mapping, and how they end.
//!
//! All bios of data of a request are filled in the same way, so the end of a bio knows what it has
//! to release.
//!
//! C headers: [`include/linux/bio.h`](srctree/include/linux/bio.h),
//! [`include/linux/iomap.h`](srctree/include/linux/iomap.h).

use super::{
    flags::MapFlags,
    iter::{
        Place,
        Span, //
    },
    ops::DioOps,
    request::{
        BioRef,
        Submitter,
        Unique, //
    },
    worker::Operations, //
};
use crate::{
    alloc::flags::GFP_KERNEL,
    bindings,
    block::bio::{
        free_integrity,
        op,
        put_with_pages,
        result,
        submit,
        Bio,
        Filled,
        OpFlags,
        MAX_VECS, //
    },
    error::to_result,
    prelude::*,
    sync::atomic::Relaxed,
    task::MaySleep, //
};

/// What the bios of a request for one mapping have in common, and how far they are.
///
/// It borrows the request and the mapping, so it is gone when either moves on.
#[doc(alias = "iomap_dio_bio_iter")]
pub struct Template<'r, 'd, T: Operations> {
    request: &'r mut Submitter<'d, T>,
    span: Span<'r>,
    /// Where the next bio begins in the file, in bytes.
    pos: i64,
    /// Bytes of data that are left.
    left: usize,
    /// The flags of bios of data. Bios of zeroes have their own.
    flags: OpFlags,
    ctx: MaySleep,
}

impl<'r, 'd, T: Operations> Template<'r, 'd, T> {
    /// Prepares to build bios of `request` for `span`, unless the request and the mapping are not
    /// of one file, not of one direction, or not as far as each other.
    // Not a `Result`: the compiler would take the position apart to put an error in its place.
    #[inline]
    pub fn new(
        request: &'r mut Submitter<'d, T>,
        span: Span<'r>,
        flags: OpFlags,
        ctx: MaySleep,
    ) -> Option<Self> {
        let (iocb, place) = (request.iocb(), span.place);
        if iocb.inode().as_raw() != place.inode().as_raw()
            || request.memory().is_source() != place.is_write()
            || request.memory().len() as u64 != place.remaining()
        {
            return None;
        }
        Some(Self {
            pos: place.pos(),
            // CAST: As much of the memory at most.
            left: span.len as usize,
            request,
            span,
            flags,
            ctx,
        })
    }

    /// Whether all of the data was submitted.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Bytes of data that were submitted.
    #[inline]
    pub fn submitted(&self) -> usize {
        // CAST: All of the memory at most.
        self.pos.wrapping_sub(self.span.place.pos()) as usize
    }

    /// Where the next bio begins in the file, in bytes.
    #[inline]
    pub fn pos(&self) -> i64 {
        self.pos
    }

    /// The request.
    #[inline]
    pub fn request(&self) -> &Submitter<'d, T> {
        self.request
    }

    /// Builds a bio for the next bytes of the memory, and submits it as a part of the request,
    /// which will not be over before the bio has ended.
    ///
    /// The memory moves on by the size of the bio, which attaches integrity data if the mapping
    /// asks for it. The file system may submit the bio instead, and it may end before this returns.
    ///
    /// Fails with `EFAULT` if the memory cannot be accessed, with `ENOMEM`, and with `EINVAL` if
    /// the memory is not aligned as the device needs it, or if all was submitted. An untorn write
    /// warns and fails with `EINVAL` if the bio does not take all of it. Fails with `EOVERFLOW` if
    /// the request had `i32::MAX` bios.
    #[doc(alias("iomap_dio_bio_iter_one", "iomap_dio_submit_bio"))]
    #[inline]
    pub fn submit_next(&mut self) -> Result {
        if self.is_over() {
            // A device may take no bytes for very many.
            return Err(EINVAL);
        }
        let mut bio = self.fill()?;
        bio.set_ioprio(self.request.iocb().ioprio());
        let bytes = bio.size();
        let write = self.span.place.is_write();
        if write && self.flags.has(OpFlags::ATOMIC) && u64::from(bytes) != self.span.len {
            // The file system promised that one bio can take this much.
            crate::do_once_lite! {
                crate::warn_on!(true);
            }
            return Err(EINVAL);
        }
        let bio_ref = self.request.bio_ref()?;
        if self.span.flags().has(MapFlags::INTEGRITY) {
            bio.protect(self.ctx);
        }
        if write {
            bio.account_write();
        } else if !self.request.shared.bounced && self.request.shared.should_dirty() {
            bio.set_pages_dirty(self.ctx);
        }
        let pos = self.pos;
        // OVERFLOW: A bio transfers no more than is left.
        // CAST: Widening.
        self.pos = pos.wrapping_add(i64::from(bytes));
        self.left = self.left.wrapping_sub(bytes as usize);
        if !self.is_over() {
            // Only a request of a single bio can be polled.
            self.request.iocb().stop_polling();
        }
        submit_bio(bio_ref, self.request, self.span.place, bio, pos);
        Ok(())
    }

    /// Builds a bio for the next bytes of the memory.
    #[inline]
    fn fill(&mut self) -> Result<Filled> {
        let Self {
            span,
            pos,
            left,
            flags,
            ctx,
            ..
        } = *self;
        let ops = self.request.iocb().ops;
        let mut max = left;
        if span.flags().has(MapFlags::INTEGRITY) {
            // Also without bounce buffers its integrity data has to fit one buffer.
            if let limit @ 1.. = span.max_bio_bytes() {
                max = core::cmp::min(max, limit);
            }
        }
        // What is looked at again below needs no place on the stack across the calls.
        let (shared, place) = (&self.request.shared, span.place);
        self.request.memory.cut(max as u64, |memory| {
            let vecs = if shared.bounced {
                memory.bounce_vecs()
            } else {
                memory.vecs_to_alloc(MAX_VECS)
            };
            // Of the memory as well.
            let opf = flags.into_raw() | op(place.is_write());
            let mut bio = alloc(ops, span, vecs, opf, ctx)?;
            let inode = place.inode();
            bio.set_crypt_ctx(inode, pos, ctx);
            bio.set_sector(span.sector(pos));
            bio.set_write_hint(inode);
            if shared.bounced {
                let filled = bio.bounce(memory, span.max_bio_bytes(), span.alignment);
                if place.is_write() || ops.submit_io().is_some() {
                    return filled;
                }
                filled.map(Filled::ending_in_task)
            } else {
                bio.pin(memory, span.bdev(), span.alignment)
            }
        })
    }

    /// Writes zeroes to the block that the data begins in, up to the data, if the request begins
    /// there. Otherwise that has data of the request, which may be in flight after a short bio.
    ///
    /// Fails as [`Template::zero_tail`].
    #[doc(alias = "iomap_dio_zero")]
    #[inline]
    pub fn zero_head(&mut self) -> Result {
        let pos = self.span.place.pos();
        if pos != self.request.iocb().ki_pos() {
            return Ok(());
        }
        let block_size = self.span.place.inode().block_size();
        // CAST: Less than a block.
        let pad = (pos as u64 & u64::from(block_size.wrapping_sub(1))) as u32;
        self.zero(pos.wrapping_sub(i64::from(pad)), pad)
    }

    /// Writes zeroes to the block that the data ends in, from the end of the data on: from behind
    /// the last byte that was submitted. The template submits no more data afterwards.
    ///
    /// The bio carries neither priority nor lifetime hint, because it is not the caller's data.
    /// Fails with `EINVAL` if a block takes more pages of zeroes than a bio has segments, or if the
    /// mapping is not for writing; no file system has blocks this large yet.
    #[doc(alias = "iomap_dio_zero")]
    #[inline]
    pub fn zero_tail(&mut self) -> Result {
        let pos = self.pos;
        let block_size = self.span.place.inode().block_size();
        // CAST: Less than a block.
        let pad = (pos.wrapping_neg() as u64 & u64::from(block_size.wrapping_sub(1))) as u32;
        self.left = 0;
        self.zero(pos, pad)
    }

    /// Writes `len` bytes of zeroes, less than a block, at byte `pos` of the file.
    #[inline(always)]
    fn zero(&mut self, pos: i64, len: u32) -> Result {
        if len == 0 {
            return Ok(());
        }
        let bio = zeroes(self.request.iocb().ops, self.span, pos, len, self.ctx)?;
        let bio_ref = self.request.bio_ref()?;
        // Polling finds one bio, and the data may be in another.
        self.request.iocb().stop_polling();
        submit_bio(bio_ref, self.request, self.span.place, bio, pos);
        Ok(())
    }
}

/// Allocates a bio for the device of `span`, from the bio set of the file system, or `fs_bio_set`.
#[doc(alias = "iomap_dio_alloc_bio")]
#[inline]
fn alloc(ops: DioOps, span: Span<'_>, vecs: u16, opf: u32, _ctx: MaySleep) -> Result<Bio> {
    let set = match ops.bio_set() {
        Some(set) => set.as_ptr(),
        None => &raw mut bindings::fs_bio_set,
    };
    // SAFETY: The bio set is that of the file system, which has a file open, or never destroyed.
    // The context may sleep.
    let bio = unsafe { Bio::alloc(span.bdev(), vecs, opf, GFP_KERNEL, set) };
    bio.ok_or(ENOMEM)
}

/// Builds a bio that writes `len` bytes of zeroes, less than a block, at byte `pos` of the file.
// Without the request, of which no address is taken then.
#[cold]
fn zeroes(ops: DioOps, span: Span<'_>, pos: i64, len: u32, ctx: MaySleep) -> Result<Filled> {
    let place = span.place;
    if !place.is_write() {
        return Err(EINVAL);
    }
    let vecs = Bio::zero_vecs(place.inode().block_size())?;
    let opf = (OpFlags::SYNC | OpFlags::IDLE).into_raw() | op(true);
    let mut bio = alloc(ops, span, vecs, opf, ctx)?;
    bio.set_crypt_ctx(place.inode(), pos, ctx);
    bio.set_sector(span.sector(pos));
    bio.zero(len)
}

/// Submits a bio for byte `pos` of the file, as a part of `request`. `place` has the mapping.
#[doc(alias = "iomap_dio_submit_bio")]
#[inline(always)]
fn submit_bio<T: Operations>(
    bio_ref: BioRef<T>,
    request: &Submitter<'_, T>,
    place: &Place,
    mut bio: Filled,
    pos: i64,
) {
    let iocb = request.iocb();
    if iocb.poll_for(&mut bio) {
        request.shared.polled.store(true, Relaxed);
    }
    let submit_io = iocb.ops.submit_io();
    if submit_io.is_none() && place.flags().has(MapFlags::ANON_WRITE) {
        // Only the callback could assign an address on the device.
        crate::do_once_lite! {
            crate::warn_on!(true);
        }
    }
    let raw = bio.into_raw();
    // SAFETY: The bio is filled, and given up here; `end_io` takes the reference back from
    // `bi_private`. The iterator is valid.
    unsafe {
        (*raw).bi_private = bio_ref.into_raw();
        (*raw).bi_end_io = Some(end_io::<T>);
        match submit_io {
            Some(submit_io) => submit_io(place.as_raw(), raw, pos),
            None => submit(raw),
        }
    }
}

/// Releases a bio that has ended with `result`, and drops its reference to the request of type `T`.
/// Returns the request if that was the last reference.
///
/// A bounced read copies its data here, which takes process context: the block layer ends its bio
/// there ([`Filled::ending_in_task`]), and so does a file system that submits it ([`DioOps`]).
///
/// # Safety
///
/// `bio` must have ended, its `bi_private` must be what `Template` has put there, and it
/// must not be used afterwards.
#[inline(always)]
unsafe fn end<T: Operations>(
    bio: *mut bindings::bio,
    result: Result,
    at_ioend: bool,
) -> Option<Unique<T>> {
    // SAFETY: `bi_private` holds the reference, and this is the one time that it is taken back. The
    // bio is given back to us, and was filled in the way of the request. It is put before the
    // request can be over, until when nobody changes which kiocb it is of.
    let bio_ref = unsafe {
        let bio_ref = BioRef::<T>::from_raw((*bio).bi_private);
        if let Err(error) = result {
            bio_ref.record_error(error);
        }
        free_integrity(bio);
        if bio_ref.shared.polled.load(Relaxed) {
            (*bio_ref.shared.head.get())
                .left
                .iocb
                .clear_this_polled_bio(bio);
        }
        if bio_ref.shared.bounced {
            let should_dirty = bio_ref.shared.should_dirty();
            bindings::bio_iov_iter_unbounce(bio, bio_ref.has_failed(), should_dirty);
            bindings::bio_put(bio);
        } else {
            put_with_pages(bio, bio_ref.shared.should_dirty());
        }
        bio_ref
    };
    bio_ref.finish(at_ioend)
}

/// The `bi_end_io` of a bio that [`Template`] has submitted for a request of type `T`.
///
/// # Safety
///
/// `bio` must have ended, its `bi_private` must be what `Template` has put there, and it
/// must not be used afterwards. Any context.
#[doc(alias("iomap_dio_bio_end_io", "bi_end_io"))]
pub unsafe extern "C" fn end_io<T: Operations>(bio: *mut bindings::bio) {
    // SAFETY: The block layer, or the file system that stood in for it, gives the bio back.
    if let Some(request) = unsafe { end::<T>(bio, result(bio), false) } {
        done(request);
    }
}

/// The last bio of the request has ended. Not inline, for the bios that are not the last.
#[inline(never)]
pub(super) fn done<T: Operations>(request: Unique<T>) {
    if let Some(request) = T::done(request) {
        request.punt();
    }
}

/// Ends a bio that is a part of an ioend, in the worker that finishes ioends
/// (`iomap_finish_ioend_direct()`).
///
/// Returns the number of segments of the bio, by which the worker measures its work.
///
/// # Safety
///
/// As for [`end_io`], for the bio of `ioend`, and the context must be allowed to sleep.
pub unsafe fn ioend_end_io<T: Operations>(ioend: *mut bindings::iomap_ioend) -> u32 {
    // SAFETY: The ioend, which gives its bio back, is valid until that is put.
    let (vecs, request) = unsafe {
        let bio = &raw mut (*ioend).io_bio;
        let (vecs, error) = ((*bio).bi_vcnt, (*ioend).io_error);
        (vecs, end::<T>(bio, to_result(error), true))
    };
    // SAFETY: Required of the caller.
    let done = |request| T::done_at_ioend(request, unsafe { MaySleep::assume() });
    if let Some(request) = request.and_then(done) {
        request.punt();
    }
    u32::from(vecs)
}
