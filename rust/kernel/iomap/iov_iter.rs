// SPDX-License-Identifier: GPL-2.0

//! The caller's memory, whichever way the data goes.
//!
//! [`IovIterSource`] and [`IovIterDest`] fix the direction at compile time; a direct I/O request
//! learns it at run time. [`IovIter`] is one or the other, with what both have in common.
//!
//! C headers: [`include/linux/uio.h`](srctree/include/linux/uio.h),
//! [`include/linux/bio.h`](srctree/include/linux/bio.h).

use crate::{
    bindings,
    iov::{
        IovIterDest,
        IovIterSource, //
    },
    prelude::*, //
};

/// The memory of a request, which data is either taken from (a write) or put into (a read).
///
/// # Invariants
///
/// `initial` is the number of bytes that were left when the iterator was borrowed. Every byte less
/// that is left now was either consumed by advancing it, or is one of the `hidden` bytes at its end
/// that it is cut by at the moment.
pub struct IovIter<'a> {
    iov: Direction<'a>,
    initial: usize,
    hidden: usize,
}

enum Direction<'a> {
    Source(&'a mut IovIterSource<'a>),
    Dest(&'a mut IovIterDest<'a>),
}

impl<'a> IovIter<'a> {
    /// Borrows an iterator from C (the direction is `iov_iter_rw()`).
    ///
    /// # Safety
    ///
    /// `ptr` must point at a valid `struct iov_iter` that is only accessed through the returned
    /// value for the duration of `'a`, and the memory it describes must stay valid as long.
    #[inline]
    pub unsafe fn from_raw(ptr: *mut bindings::iov_iter) -> Self {
        // The checked constructors of the two types panic on a mismatch, which this test rules
        // out, but not provably so for the compiler.
        //
        // SAFETY: The iterator is valid.
        let iov = if unsafe { (*ptr).data_source } {
            // SAFETY: The source type is transparent and `ITER_SOURCE` is set; the rest is
            // required of the caller.
            Direction::Source(unsafe { &mut *ptr.cast() })
        } else {
            // SAFETY: The destination type is transparent and `ITER_DEST` is set; the rest is
            // required of the caller.
            Direction::Dest(unsafe { &mut *ptr.cast() })
        };
        let mut this = Self {
            iov,
            initial: 0,
            hidden: 0,
        };
        // INVARIANT: Nothing was consumed yet, and nothing is hidden.
        this.initial = this.len();
        this
    }

    /// Returns the iterator as C knows it.
    #[inline]
    pub(super) fn as_raw(&mut self) -> *mut bindings::iov_iter {
        match &mut self.iov {
            Direction::Source(iov) => iov.as_raw(),
            Direction::Dest(iov) => iov.as_raw(),
        }
    }

    /// Whether data is taken from this memory: the request is a write.
    #[inline]
    pub fn is_source(&self) -> bool {
        matches!(self.iov, Direction::Source(_))
    }

    /// The data to write, if the request is a write.
    #[inline]
    pub(super) fn source(&mut self) -> Option<&mut IovIterSource<'a>> {
        match &mut self.iov {
            Direction::Source(iov) => Some(iov),
            Direction::Dest(_) => None,
        }
    }

    /// The memory to read into, if the request is a read.
    #[inline]
    pub(super) fn dest(&mut self) -> Option<&mut IovIterDest<'a>> {
        match &mut self.iov {
            Direction::Source(_) => None,
            Direction::Dest(iov) => Some(iov),
        }
    }

    /// Bytes left (`iov_iter_count()`).
    #[inline]
    pub fn len(&self) -> usize {
        match &self.iov {
            Direction::Source(iov) => iov.len(),
            Direction::Dest(iov) => iov.len(),
        }
    }

    /// Whether no byte is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn kind(&mut self) -> u32 {
        // SAFETY: The iterator is valid by the invariants of its type.
        u32::from(unsafe { (*self.as_raw()).iter_type })
    }

    /// Whether the memory belongs to user space (`user_backed_iter()`).
    #[inline]
    pub fn is_user_backed(&mut self) -> bool {
        matches!(
            self.kind(),
            bindings::iter_type_ITER_UBUF | bindings::iter_type_ITER_IOVEC
        )
    }

    /// Runs `section` with the iterator cut to at most `len` bytes.
    ///
    /// `section` says how many bytes it has used. If it has consumed more of the iterator than that,
    /// the iterator goes back, so that afterwards it stands behind what was used.
    /// `iov_iter_truncate()` and `iov_iter_reexpand()`.
    #[inline]
    pub fn truncated<R>(
        &mut self,
        len: u64,
        section: impl FnOnce(&mut Self) -> (usize, R),
    ) -> (usize, R) {
        let before = self.len();
        // CAST: The minimum with a `usize` is a `usize`.
        // OVERFLOW: It is a minimum with `before`.
        let cut = before.wrapping_sub(core::cmp::min(before as u64, len) as usize);
        // SAFETY: `cut` is at most what is left.
        // INVARIANT: As many are hidden now.
        unsafe { self.set_len(before.wrapping_sub(cut)) };
        self.hidden = self.hidden.wrapping_add(cut);

        let (used, result) = section(self);

        // OVERFLOW: By the invariants this is at most `initial`, as are the hidden bytes.
        let left = self.len().wrapping_add(cut);
        // INVARIANT: They are no longer hidden.
        self.hidden = self.hidden.wrapping_sub(cut);
        // SAFETY: The bytes that were cut off are still there, behind those that are left.
        unsafe { self.set_len(left) };
        self.revert(before.saturating_sub(left).saturating_sub(used));
        (used, result)
    }

    /// Changes the number of bytes that are left.
    ///
    /// # Safety
    ///
    /// The memory must have `len` bytes from where the iterator stands, and the caller must keep
    /// the type's invariants.
    #[inline]
    unsafe fn set_len(&mut self, len: usize) {
        // SAFETY: The iterator is valid and ours, and there is so much memory.
        unsafe {
            (*self.as_raw())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .as_mut()
                .count = len
        };
    }

    /// Goes back by `bytes`, at most to where the iterator was when it was borrowed
    /// (`iov_iter_revert()`).
    #[inline]
    pub fn revert(&mut self, bytes: usize) {
        // OVERFLOW: By the invariants no more is left or hidden than there was initially.
        let consumed = self
            .initial
            .wrapping_sub(self.hidden)
            .wrapping_sub(self.len());
        let bytes = core::cmp::min(bytes, consumed);
        if bytes > 0 {
            // SAFETY: The iterator is valid, and has advanced by `consumed` bytes in our hands.
            unsafe { bindings::iov_iter_revert(self.as_raw(), bytes) };
        }
    }

    /// Fills at most `len` bytes with zeroes and returns how many (`iov_iter_zero()`).
    ///
    /// Does nothing for a source. May fault in user pages, so the context may sleep.
    #[inline]
    pub fn zero(&mut self, len: u64) -> usize {
        let Some(iov) = self.dest() else { return 0 };
        // CAST: The iterator cannot take more than a `usize`.
        let len = core::cmp::min(len, usize::MAX as u64) as usize;
        // SAFETY: The iterator is valid and a destination.
        unsafe { bindings::iov_iter_zero(len, iov.as_raw()) }
    }

    /// Segments that a bio needs to point at this memory (`bio_iov_vecs_to_alloc()`).
    ///
    /// None for a bvec iterator, whose segments the bio borrows.
    #[inline]
    pub(super) fn vecs_to_alloc(&mut self) -> u16 {
        if self.kind() == bindings::iter_type_ITER_BVEC {
            return 0;
        }
        self.pages(bindings::BIO_MAX_VECS)
    }

    /// Segments that a bio needs to bounce this memory (`bio_iov_bounce_nr_vecs()`).
    ///
    /// A read has one more: the bounce buffer comes before the pages it is copied to.
    #[inline]
    pub(super) fn bounce_vecs(&mut self) -> u16 {
        if self.is_source() {
            self.pages(bindings::BIO_MAX_VECS)
        } else {
            self.pages(bindings::BIO_MAX_VECS - 1).wrapping_add(1)
        }
    }

    #[inline]
    fn pages(&mut self, max: u32) -> u16 {
        // SAFETY: The iterator is valid by the invariants of its type.
        // CAST: `BIO_MAX_VECS` fits both types, and bounds the result.
        unsafe { bindings::iov_iter_npages(self.as_raw(), max as c_int) as u16 }
    }
}
