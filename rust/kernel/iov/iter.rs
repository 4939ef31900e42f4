// SPDX-License-Identifier: GPL-2.0

//! Memory of a request whose direction is known at run time.
//!
//! [`IovIterSource`] and [`IovIterDest`] fix the direction at compile time; a direct I/O request
//! learns it at run time. [`IovIter`] is one or the other, with what both have in common.
//!
//! C headers: [`include/linux/uio.h`](srctree/include/linux/uio.h),
//! [`include/linux/bio.h`](srctree/include/linux/bio.h).
//!
//! [`IovIterSource`]: super::IovIterSource
//! [`IovIterDest`]: super::IovIterDest

use crate::{
    bindings,
    page::PAGE_SHIFT,
    prelude::*,
    task::MaySleep, //
};
use core::{
    cell::Cell,
    cmp::min,
    marker::PhantomData,
    slice, //
};

/// The memory of a request (`struct iov_iter`): a write takes data from it, a read puts data into
/// it.
///
/// An iterator has a position, which moves on by each byte that is transferred or given to a bio.
/// The memory belongs to user space or to the kernel; with a bvec iterator the caller has listed
/// the pages itself, as `splice()` does. It is borrowed; nothing here frees it.
///
/// # Invariants
///
/// Points at a valid iterator that nobody else uses for the duration of `'a`.
///
/// # Examples
///
/// The iterator here is over 16 bytes of the kernel.
///
/// ```
/// use kernel::{
///     iov::IovIter,
///     task::MaySleep,
/// };
///
/// /// Reads a hole, of which the last `failed` bytes turn out not to be one.
/// fn read_hole(memory: &mut IovIter<'_>, len: u64, failed: usize, ctx: MaySleep) -> usize {
///     let start = memory.mark();
///     let read = memory.zero(len, ctx).saturating_sub(failed);
///     // Whoever tries again begins with what has failed.
///     memory.rewind(start, read);
///     read
/// }
///
/// # use kernel::{bindings, types::Opaque};
/// # const LEN: usize = 16;
/// # let mut data = [0xffu8; LEN];
/// # let vec = bindings::kvec { iov_base: (&raw mut data).cast(), iov_len: LEN };
/// # let raw = Opaque::<bindings::iov_iter>::uninit();
/// # // SAFETY: The iterator is valid for writes; the data and the vector outlive it.
/// # unsafe { bindings::iov_iter_kvec(raw.get(), bindings::ITER_DEST, &raw const vec, 1, LEN) };
/// # // SAFETY: The iterator was initialised just now, and nobody else uses it.
/// # let mut memory = unsafe { IovIter::from_raw(raw.get()) };
/// # // SAFETY: KUnit runs examples in a kernel thread, and this one holds no lock.
/// # let ctx = unsafe { MaySleep::assume() };
/// assert_eq!(read_hole(&mut memory, 12, 4, ctx), 8);
/// assert_eq!(memory.len(), 8);
/// assert_eq!(read_hole(&mut memory, u64::MAX, 0, ctx), 8);
/// assert!(memory.is_empty());
/// # assert_eq!(data, [0u8; LEN]);
/// ```
pub struct IovIter<'a> {
    raw: *mut bindings::iov_iter,
    _memory: PhantomData<&'a mut bindings::iov_iter>,
}

/// A position of an [`IovIter`], to go back to with [`IovIter::rewind`].
///
/// # Invariants
///
/// The iterator at `raw` had `left` bytes left once. It is over a range that does not change, so
/// this says where it stood.
#[derive(Clone, Copy)]
pub struct Mark<'a> {
    raw: *mut bindings::iov_iter,
    /// Bytes that were left.
    left: usize,
    /// Invariant in the lifetime, so that no iterator with a shorter borrow accepts the mark.
    _memory: PhantomData<Cell<&'a bindings::iov_iter>>,
}

impl Mark<'_> {
    /// Bytes that were left here.
    #[inline]
    pub fn left(&self) -> usize {
        self.left
    }
}

impl<'a> IovIter<'a> {
    /// Borrows an iterator from C.
    ///
    /// # Safety
    ///
    /// `ptr` must point at a valid `struct iov_iter` that is only accessed through the returned
    /// value for the duration of `'a`. The memory that it describes must stay valid as long, and
    /// until every bio that was filled from it has ended.
    #[inline]
    pub unsafe fn from_raw(ptr: *mut bindings::iov_iter) -> Self {
        // INVARIANT: Required of the caller.
        Self {
            raw: ptr,
            _memory: PhantomData,
        }
    }

    /// Returns the iterator as C knows it.
    #[inline]
    pub(crate) fn as_raw(&mut self) -> *mut bindings::iov_iter {
        self.raw
    }

    /// The iterator as this function may look at it, while C does not change it.
    #[inline(always)]
    fn fields(&self) -> &bindings::iov_iter {
        // SAFETY: By the invariants the iterator is valid, and it is borrowed as long.
        unsafe { &*self.raw }
    }

    /// Whether the request is a write, which takes data from this memory (`iov_iter_rw()`).
    #[inline]
    pub(crate) fn is_source(&self) -> bool {
        self.fields().data_source
    }

    /// Bytes left (`iov_iter_count()`).
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: All kinds of iterators have a count.
        unsafe { self.fields().__bindgen_anon_1.__bindgen_anon_1.as_ref() }.count
    }

    /// As [`IovIter::len`], to be changed.
    #[inline(always)]
    fn len_mut(&mut self) -> &mut usize {
        // SAFETY: By the invariants the iterator is valid, and it is borrowed as long. All kinds
        // have a count.
        unsafe {
            let memory = &raw mut (*self.raw).__bindgen_anon_1.__bindgen_anon_1;
            &mut (*memory).as_mut().count
        }
    }

    /// Whether no byte is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The kind of memory (`iov_iter_type()`), one of `ITER_*`.
    #[inline]
    fn kind(&self) -> u32 {
        u32::from(self.fields().iter_type)
    }

    /// Whether the pages have to be marked as dirty: user memory that is read into. The owner of
    /// other pages does that.
    #[inline]
    pub fn should_dirty(&self) -> bool {
        self.is_user_backed() && !self.is_source()
    }

    /// Whether the memory belongs to user space (`user_backed_iter()`).
    #[inline]
    pub(crate) fn is_user_backed(&self) -> bool {
        matches!(
            self.kind(),
            bindings::iter_type_ITER_UBUF | bindings::iter_type_ITER_IOVEC
        )
    }

    /// Whether the memory is segments of pages, which a bio borrows (`iov_iter_is_bvec()`).
    #[inline]
    pub(crate) fn is_bvec(&self) -> bool {
        self.kind() == bindings::iter_type_ITER_BVEC
    }

    /// Whether the segments of a bvec iterator have none of the bits of `mask` in their offsets and
    /// lengths (`bio_iov_bvec_aligned()`). Other memory is not aligned.
    ///
    /// Only the first offset can have some if the caller is correct: that of a buffer registered
    /// with io_uring. So the rest is looked at with `CONFIG_DEBUG_KERNEL` only, as in C.
    #[inline(always)]
    pub(crate) fn is_bvec_aligned(&self, mask: u32) -> bool {
        let (segments, done) = self.bvecs();
        let [first, ..] = segments else {
            return false;
        };
        // CAST: Widening.
        let (mask, at) = (mask as usize, (first.bv_offset as usize).wrapping_add(done));
        if !cfg!(CONFIG_DEBUG_KERNEL) {
            return at & mask == 0;
        }
        if self.len() <= (first.bv_len as usize).saturating_sub(done) {
            return (at | self.len()) & mask == 0;
        }
        are_aligned(segments, done, self.len(), mask)
    }

    /// The segments of a bvec iterator, and how many bytes of the first one are consumed. Other
    /// memory has none.
    #[inline(always)]
    pub(crate) fn bvecs(&self) -> (&[bindings::bio_vec], usize) {
        // If nothing is left there need not be any segments.
        if !self.is_bvec() || self.is_empty() {
            return (&[], 0);
        }
        let iter = self.fields();
        // SAFETY: A valid iterator of this kind has so many segments.
        let segments = unsafe {
            let memory = iter.__bindgen_anon_1.__bindgen_anon_1.as_ref();
            slice::from_raw_parts(memory.__bindgen_anon_1.bvec, iter.__bindgen_anon_2.nr_segs)
        };
        (segments, iter.iov_offset)
    }

    /// Whether user pages must not be faulted in (`iov_iter.nofault`).
    #[inline]
    pub(crate) fn is_nofault(&self) -> bool {
        self.fields().nofault
    }

    /// Remembers the position for [`IovIter::rewind`].
    #[inline]
    pub fn mark(&self) -> Mark<'a> {
        // INVARIANT: So many are left now. `cut` gives out only an iterator of another lifetime.
        Mark {
            raw: self.raw,
            left: self.len(),
            _memory: PhantomData,
        }
    }

    /// Goes back so that at most `used` bytes after `mark` are consumed (`iov_iter_revert()`).
    ///
    /// Does nothing if fewer are, or if the mark is of another iterator.
    #[inline]
    pub fn rewind(&mut self, mark: Mark<'a>, used: usize) {
        let consumed = mark.left.saturating_sub(self.len());
        let excess = consumed.saturating_sub(used);
        if excess > 0 && mark.raw == self.raw {
            // SAFETY: The iterator is valid, and stands at least so far behind the mark, where it
            // has been.
            unsafe { bindings::iov_iter_revert(self.as_raw(), excess) };
        }
    }

    /// Moves on by `bytes`, or to the end if there are fewer (`iov_iter_advance()`).
    #[cold]
    #[inline(always)]
    pub fn advance(&mut self, bytes: usize) {
        // SAFETY: The iterator is valid. The C function stops at the end.
        unsafe { bindings::iov_iter_advance(self.as_raw(), bytes) };
    }

    /// Runs `section` with the iterator cut to at most `max` bytes (`iov_iter_truncate()`,
    /// `iov_iter_reexpand()`).
    ///
    /// The iterator that `section` gets has a lifetime of its own, so it does not accept marks of
    /// this one, and swapping it for another does not compile.
    #[inline(always)]
    pub(crate) fn cut<R>(&mut self, max: u64, section: impl FnOnce(&mut IovIter<'_>) -> R) -> R {
        let left = self.len_mut();
        // CAST: Widening, and back a value that is no larger than a `usize`.
        let shown = min(*left as u64, max) as usize;
        // OVERFLOW: No more is shown than is left.
        let hidden = left.wrapping_sub(shown);
        *left = shown;
        let result = section(&mut IovIter {
            raw: self.raw,
            _memory: PhantomData,
        });
        // The hidden bytes are still there, after those that are left.
        let left = self.len_mut();
        // OVERFLOW: No more than before.
        *left = left.wrapping_add(hidden);
        result
    }

    /// Fills at most `len` bytes with zeroes, moves on by them, and returns how many
    /// (`iov_iter_zero()`).
    ///
    /// Faults user pages in, and stops at one that cannot be. Does nothing for a source.
    pub fn zero(&mut self, len: u64, _ctx: MaySleep) -> usize {
        if self.is_source() {
            return 0;
        }
        // CAST: The iterator cannot take more than a `usize`.
        let len = min(len, usize::MAX as u64) as usize;
        // SAFETY: The iterator is valid and a destination.
        unsafe { bindings::iov_iter_zero(len, self.as_raw()) }
    }

    /// The number of segments that a bio needs to point at this memory, at most `max`
    /// (`bio_iov_vecs_to_alloc()`).
    ///
    /// Zero for a bvec iterator, whose segments the bio borrows.
    #[inline]
    pub(crate) fn vecs_to_alloc(&mut self, max: u16) -> u16 {
        if self.is_bvec() {
            return 0;
        }
        self.pages(max.into())
    }

    /// The number of segments that a bio needs to bounce this memory (`bio_iov_bounce_nr_vecs()`).
    ///
    /// A read needs one more, for the bounce buffer itself.
    #[inline]
    pub(crate) fn bounce_vecs(&mut self) -> u16 {
        if self.is_source() {
            self.pages(bindings::BIO_MAX_VECS)
        } else {
            self.pages(bindings::BIO_MAX_VECS - 1).wrapping_add(1)
        }
    }

    /// The number of pages that the memory spans, at most `max` (`iov_iter_npages()`).
    #[inline]
    fn pages(&mut self, max: u32) -> u16 {
        // So much spans as many pages, and C would look at each segment to find that.
        // CAST: It fits all types, and bounds the result.
        if self.len() >= (max as usize) << PAGE_SHIFT {
            return rare(max as u16);
        }
        // SAFETY: The iterator is valid.
        // CAST: As above.
        unsafe { bindings::iov_iter_npages(self.as_raw(), max as c_int) as u16 }
    }
}

/// Whether the first `left` bytes of `segments`, of which `done` bytes are consumed, have none of
/// the bits of `mask` in their offsets and lengths.
fn are_aligned(
    segments: &[bindings::bio_vec],
    mut done: usize,
    mut left: usize,
    mask: usize,
) -> bool {
    let mut bits = 0;
    for bvec in segments {
        if left == 0 {
            break;
        }
        // CAST: Widening.
        let (offset, len) = (bvec.bv_offset as usize, bvec.bv_len as usize);
        let len = min(len.saturating_sub(done), left);
        bits |= offset.wrapping_add(done) | len;
        (done, left) = (0, left.wrapping_sub(len));
    }
    bits & mask == 0
}

/// Returns `max`. Tells the compiler that this is rare, so that the rest keeps its registers.
#[cold]
#[inline(never)]
fn rare(max: u16) -> u16 {
    max
}
