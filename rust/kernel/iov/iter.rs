// SPDX-License-Identifier: GPL-2.0

//! The caller's memory, whichever way the data goes.
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
    prelude::*,
    task::MaySleep, //
};
use core::{
    cell::Cell,
    marker::PhantomData,
    ptr::NonNull, //
};

/// The memory of a request, which data is either taken from (a write) or put into (a read)
/// (`struct iov_iter`).
///
/// # Invariants
///
/// Points at a valid iterator that nobody else uses for the duration of `'a`.
pub struct IovIter<'a> {
    raw: NonNull<bindings::iov_iter>,
    _memory: PhantomData<&'a mut bindings::iov_iter>,
}

/// Where an [`IovIter`] has been, to go back to.
///
/// # Invariants
///
/// The iterator at `raw` had `left` bytes left once. It is over a range that does not change, so
/// this says where it stood.
#[derive(Clone, Copy)]
pub struct Mark<'a> {
    raw: NonNull<bindings::iov_iter>,
    left: usize,
    /// Invariant, so that it is not taken for a mark of an iterator that is borrowed for less.
    _memory: PhantomData<Cell<&'a bindings::iov_iter>>,
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
            // SAFETY: A valid pointer is not NULL.
            raw: unsafe { NonNull::new_unchecked(ptr) },
            _memory: PhantomData,
        }
    }

    /// Returns the iterator as C knows it.
    #[inline]
    pub(crate) fn as_raw(&mut self) -> *mut bindings::iov_iter {
        self.raw.as_ptr()
    }

    /// Whether data is taken from this memory: the request is a write (`iov_iter_rw()`).
    #[inline]
    pub fn is_source(&self) -> bool {
        // SAFETY: The iterator is valid by the invariants.
        unsafe { (*self.raw.as_ptr()).data_source }
    }

    /// Bytes left (`iov_iter_count()`).
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: The iterator is valid by the invariants. All of its kinds have a count.
        unsafe {
            (*self.raw.as_ptr())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .as_ref()
                .count
        }
    }

    /// Whether no byte is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn kind(&self) -> u32 {
        // SAFETY: The iterator is valid by the invariants.
        u32::from(unsafe { (*self.raw.as_ptr()).iter_type })
    }

    /// Whether the memory belongs to user space (`user_backed_iter()`).
    #[inline]
    pub fn is_user_backed(&self) -> bool {
        matches!(
            self.kind(),
            bindings::iter_type_ITER_UBUF | bindings::iter_type_ITER_IOVEC
        )
    }

    /// Remembers where the iterator stands, for [`IovIter::rewind`].
    #[inline]
    pub fn mark(&self) -> Mark<'a> {
        // INVARIANT: As it is now. Whoever cuts the iterator shows it to nobody meanwhile.
        Mark {
            raw: self.raw,
            left: self.len(),
            _memory: PhantomData,
        }
    }

    /// Goes back so that at most `used` bytes behind `mark` are consumed (`iov_iter_revert()`).
    ///
    /// Does nothing if there are no more, or if the mark is of another iterator.
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

    /// Runs `section` with the iterator cut to at most `max` bytes (`iov_iter_truncate()`,
    /// `iov_iter_reexpand()`).
    ///
    /// What `section` gets is an iterator by itself: a mark of this one is none of that.
    #[inline(always)]
    pub(crate) fn cut<R>(&mut self, max: u64, section: impl FnOnce(&mut IovIter<'_>) -> R) -> R {
        // CAST: Widening, and back what came from a `usize`.
        let hidden = (self.len() as u64).saturating_sub(max) as usize;
        // SAFETY: As in `len`, and the iterator is ours.
        let count = unsafe {
            &raw mut (*self.as_raw())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .as_mut()
                .count
        };
        // SAFETY: The field is valid. No more is hidden than is left.
        unsafe { *count = (*count).wrapping_sub(hidden) };
        let result = section(&mut IovIter {
            raw: self.raw,
            _memory: PhantomData,
        });
        // SAFETY: As above. What was hidden is still there, behind what is left.
        unsafe { *count = (*count).wrapping_add(hidden) };
        result
    }

    /// Fills at most `len` bytes with zeroes and returns how many (`iov_iter_zero()`).
    ///
    /// Does nothing for a source. May fault in user pages.
    pub fn zero(&mut self, len: u64, _ctx: MaySleep) -> usize {
        if self.is_source() {
            return 0;
        }
        // CAST: The iterator cannot take more than a `usize`.
        let len = core::cmp::min(len, usize::MAX as u64) as usize;
        // SAFETY: The iterator is valid and a destination.
        unsafe { bindings::iov_iter_zero(len, self.as_raw()) }
    }

    /// Segments that a bio needs to point at this memory (`bio_iov_vecs_to_alloc()`), at most
    /// `BIO_MAX_VECS`.
    ///
    /// None for a bvec iterator, whose segments the bio borrows.
    #[inline]
    pub(crate) fn vecs_to_alloc(&mut self) -> u16 {
        if self.kind() == bindings::iter_type_ITER_BVEC {
            return 0;
        }
        pages(self.as_raw(), bindings::BIO_MAX_VECS)
    }

    /// Segments that a bio needs to bounce this memory (`bio_iov_bounce_nr_vecs()`).
    ///
    /// A read has one more: the bounce buffer comes before the pages it is copied to.
    pub(crate) fn bounce_vecs(&mut self) -> u16 {
        if self.is_source() {
            pages(self.as_raw(), bindings::BIO_MAX_VECS)
        } else {
            pages(self.as_raw(), bindings::BIO_MAX_VECS - 1).wrapping_add(1)
        }
    }
}

#[inline]
fn pages(iter: *mut bindings::iov_iter, max: u32) -> u16 {
    // SAFETY: Our callers have a valid iterator.
    // CAST: `BIO_MAX_VECS` fits both types, and bounds the result.
    unsafe { bindings::iov_iter_npages(iter, max as c_int) as u16 }
}
