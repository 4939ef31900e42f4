// SPDX-License-Identifier: GPL-2.0

//! The callbacks that a file system hands in.
//!
//! A file system has separate `iomap_ops` for separate purposes, so these types wrap what C passes
//! for one request, and add no dispatching of their own.
//!
//! * [`MapOps`] answers where a range of a file lives. It is needed for the walk over the mappings
//!   only, so it is borrowed for the call.
//! * [`DioOps`] is called for the bios and at the end of the request, and so beyond the call if the
//!   request is asynchronous. [`EndIo`] are those of a request that may have a single bio without
//!   the file system.
//!
//! C header: [`include/linux/iomap.h`](srctree/include/linux/iomap.h).

use super::flags::EndIoFlags;
use crate::{
    bindings,
    fs::inode::Inode,
    iov::IovIter,
    prelude::*, //
};
use core::{
    ffi::c_void,
    ptr::NonNull, //
};

/// The callbacks that map the range of one transfer (`struct iomap_ops`), and the state they
/// expect.
///
/// # Invariants
///
/// For the duration of `'a` the callbacks are valid, `private` is what they expect to find in
/// `iomap_iter.private`, and the locks are held that they need for direct I/O on `inode`: for a
/// write if `write`, for a read otherwise. `pos` and `pos + len` are positions of a file.
pub struct MapOps<'a> {
    pub(super) ops: *const bindings::iomap_ops,
    inode: &'a Inode,
    pub(super) private: *mut c_void,
    pos: i64,
    pub(super) len: usize,
    write: bool,
}

impl<'a> MapOps<'a> {
    /// Borrows the callbacks from C, for the transfer of all of `memory` at byte `pos` of the file.
    ///
    /// The direction is that of `memory`: a write if it is a source.
    ///
    /// # Safety
    ///
    /// For the duration of the lifetime `ops` must point at valid callbacks, `private` be what they
    /// expect, and the caller hold the locks on the inode that they need for this transfer. The
    /// range must be one that `rw_verify_area()` accepts: neither end of it is negative.
    #[inline(always)]
    pub unsafe fn from_raw(
        ops: *const bindings::iomap_ops,
        inode: &'a Inode,
        private: *mut c_void,
        pos: i64,
        memory: &IovIter<'_>,
    ) -> Self {
        // INVARIANT: Required of the caller.
        Self {
            ops,
            inode,
            private,
            pos,
            len: memory.len(),
            write: memory.is_source(),
        }
    }

    /// The inode of the file.
    #[inline]
    pub fn inode(&self) -> &'a Inode {
        self.inode
    }

    /// Where the range begins in the file, in bytes.
    #[inline]
    pub fn pos(&self) -> i64 {
        self.pos
    }

    /// Whether the request writes to the file.
    #[doc(alias = "IOMAP_WRITE")]
    #[inline]
    pub fn is_write(&self) -> bool {
        self.write
    }
}

/// The callbacks of a file system for a direct I/O request, if it has any (`struct iomap_dio_ops`).
///
/// # Invariants
///
/// If there are callbacks, they are valid until the request that they belong to is over. A
/// `submit_io` ends the bios of a bounced read in process context, where their data is copied.
#[derive(Clone, Copy, PartialEq)]
pub struct DioOps(Option<NonNull<bindings::iomap_dio_ops>>);

impl DioOps {
    /// Takes the callbacks, which may be NULL, from C.
    ///
    /// # Safety
    ///
    /// `ops` must be NULL or point at callbacks which stay valid until the request is over. Their
    /// `submit_io`, if they have one, must end the bios of a bounced read in process context.
    #[inline]
    pub unsafe fn from_raw(ops: *const bindings::iomap_dio_ops) -> Self {
        // INVARIANT: Required of the caller.
        Self(NonNull::new(ops.cast_mut()))
    }

    /// No callbacks, as for a file system that passes NULL.
    #[inline]
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// The callbacks, if there are any.
    #[inline]
    fn get(&self) -> Option<&bindings::iomap_dio_ops> {
        // SAFETY: Valid by the invariants, and constant.
        self.0.map(|ops| unsafe { ops.as_ref() })
    }

    /// The bio set that all bios of the request come from, if the file system has its own.
    ///
    /// Such a file system keeps data of its own in front of each bio, so it must get no other bio.
    #[inline]
    pub(super) fn bio_set(&self) -> Option<NonNull<bindings::bio_set>> {
        self.get().and_then(|ops| NonNull::new(ops.bio_set))
    }

    /// Whether the file system has set `flag` in `iomap_dio_ops.flags`.
    ///
    /// With `IOMAP_DIO_MERGE_END_IO` its `->end_io` may be called once for writes that follow each
    /// other in the file, and again for each of them if that fails.
    #[inline]
    pub(super) fn has(&self, flag: u32) -> bool {
        self.get().is_some_and(|ops| ops.flags & flag != 0)
    }

    /// The callback that submits bios in place of the block layer, if there is one.
    ///
    /// It owns the bio from then on, and may complete it before it returns.
    #[inline]
    pub(super) fn submit_io(
        &self,
    ) -> Option<
        unsafe extern "C" fn(*const bindings::iomap_iter, *mut bindings::bio, bindings::loff_t),
    > {
        self.get().and_then(|ops| ops.submit_io)
    }

    /// The callbacks of a request, unless the file system would take part in how its only bio, with
    /// a bounce buffer if `BOUNCED`, is made or submitted.
    ///
    /// It takes no part if a worker of it ends the bios of a bounced read only because the data is
    /// copied then (`IOMAP_DIO_INLINE_UNBOUNCE`): the copy of a single bio may be made in any
    /// context. Several bios are submitted by the file system all the same.
    #[inline]
    pub fn only_end_io<const BOUNCED: bool>(self) -> Option<EndIo<BOUNCED>> {
        let takes_part = (self.bio_set().is_some() || self.submit_io().is_some())
            && !(BOUNCED && self.has(bindings::IOMAP_DIO_INLINE_UNBOUNCE));
        // INVARIANT: Checked just now.
        (!takes_part).then_some(EndIo(self))
    }

    /// Calls the callback that is told that all bios have ended, and returns what it says: zero or
    /// a negative errno. Without a callback, returns `error`.
    ///
    /// `size` is in bytes. `flags` is evaluated only if there is a callback.
    ///
    /// # Safety
    ///
    /// `iocb` must be the valid kiocb of the request that the callbacks came with. Once for a
    /// request, and once more if they may be told again (`IOMAP_DIO_MERGE_END_IO`) and have failed.
    #[inline(always)]
    pub(super) unsafe fn end_io(
        &self,
        iocb: *mut bindings::kiocb,
        size: isize,
        error: c_int,
        flags: impl FnOnce() -> EndIoFlags,
    ) -> c_int {
        match self.get().and_then(|ops| ops.end_io) {
            // SAFETY: Required of the caller.
            Some(end_io) => unsafe { end_io(iocb, size, error, flags().into_raw()) },
            None => error,
        }
    }
}

/// The callbacks of a request of which no bio is made yet, and which may get a single one without
/// the file system.
///
/// # Invariants
///
/// If all of the request is one bio, with a bounce buffer if `BOUNCED`, the file system takes no
/// part in how that is made or submitted ([`DioOps::only_end_io`]). If it gets several, all its
/// callbacks count.
pub struct EndIo<const BOUNCED: bool = false>(pub(super) DioOps);
