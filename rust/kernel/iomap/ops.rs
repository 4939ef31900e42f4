// SPDX-License-Identifier: GPL-2.0

//! The callbacks that a file system hands in.
//!
//! A file system has separate `iomap_ops` for separate purposes, so these types only wrap what C
//! passes; they add no dispatching of their own.
//!
//! C header: [`include/linux/iomap.h`](srctree/include/linux/iomap.h).

use super::{
    flags::EndIoFlags,
    kiocb::BusyIocb, //
};
use crate::{
    bindings,
    prelude::*, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

/// How the file system maps a range of the file (`struct iomap_ops`).
///
/// # Invariants
///
/// Points at valid callbacks for the duration of `'a`.
#[derive(Clone, Copy)]
pub struct MapOps<'a>(NonNull<bindings::iomap_ops>, PhantomData<&'a ()>);

impl MapOps<'_> {
    /// Borrows the callbacks from C.
    ///
    /// # Safety
    ///
    /// `ops` must point at valid callbacks for the duration of the lifetime.
    #[inline]
    pub unsafe fn from_raw(ops: *const bindings::iomap_ops) -> Self {
        // SAFETY: A valid pointer is not NULL.
        let ops = unsafe { NonNull::new_unchecked(ops.cast_mut()) };
        // INVARIANT: Required of the caller.
        Self(ops, PhantomData)
    }

    #[inline]
    pub(super) fn as_raw(self) -> *const bindings::iomap_ops {
        self.0.as_ptr()
    }

    /// The callback that maps, of a file system that has nothing to do at the end of a mapping.
    ///
    /// One with an `iomap_next` does both in there. It may name its `iomap_begin` as well, and no
    /// `iomap_end`, to say that there is nothing else in it.
    #[inline]
    pub(super) fn begin_without_end(self) -> bindings::iomap_iter_begin_fn {
        // SAFETY: The callbacks are valid by the invariants, and constant.
        let ops = unsafe { self.0.as_ref() };
        ops.iomap_begin.filter(|_| ops.iomap_end.is_none())
    }
}

/// How the file system takes part in direct I/O, if it wants to (`struct iomap_dio_ops`).
///
/// # Invariants
///
/// If there are callbacks, they are valid until the request that they belong to is over.
#[derive(Clone, Copy)]
pub struct DioOps(Option<NonNull<bindings::iomap_dio_ops>>);

// SAFETY: The callbacks are constant and may be called from any thread.
unsafe impl Send for DioOps {}

impl DioOps {
    /// Takes the callbacks, which may be NULL, from C.
    ///
    /// # Safety
    ///
    /// `ops` must be NULL or point at callbacks which stay valid until the request is over.
    #[inline]
    pub unsafe fn from_raw(ops: *const bindings::iomap_dio_ops) -> Self {
        // INVARIANT: Required of the caller.
        Self(NonNull::new(ops.cast_mut()))
    }

    /// No callbacks.
    #[inline]
    pub const fn none() -> Self {
        Self(None)
    }

    #[inline]
    fn get(&self) -> Option<&bindings::iomap_dio_ops> {
        // SAFETY: Valid by the invariants, and constant.
        self.0.map(|ops| unsafe { ops.as_ref() })
    }

    /// The bio set that all bios of the request come from, if the file system has its own.
    #[inline]
    pub(super) fn bio_set(&self) -> Option<NonNull<bindings::bio_set>> {
        self.get().and_then(|ops| NonNull::new(ops.bio_set))
    }

    /// The callback that submits bios in place of the block layer, if there is one.
    #[inline]
    pub(super) fn submit_io(
        &self,
    ) -> Option<
        unsafe extern "C" fn(*const bindings::iomap_iter, *mut bindings::bio, bindings::loff_t),
    > {
        self.get().and_then(|ops| ops.submit_io)
    }

    /// Whether the file system has a say in how bios are made or submitted.
    #[inline]
    pub fn takes_part(&self) -> bool {
        self.bio_set().is_some() || self.submit_io().is_some()
    }

    /// Tells the file system that all bios have ended, before anything else is done about it.
    ///
    /// `size` is in bytes, whether they made it or not; `error` is zero or a negative errno.
    /// Without a callback the result is `error`; with one, what the callback says, even if it
    /// swallows the error.
    #[inline]
    pub fn end_io(
        &self,
        iocb: &BusyIocb,
        size: isize,
        error: c_int,
        flags: impl FnOnce() -> EndIoFlags,
    ) -> c_int {
        match self.get().and_then(|ops| ops.end_io) {
            // SAFETY: The kiocb is valid, and the callback is called once, by the one owner of
            // the finished request.
            Some(end_io) => unsafe { end_io(iocb.as_raw(), size, error, flags().into_raw()) },
            None => error,
        }
    }
}
