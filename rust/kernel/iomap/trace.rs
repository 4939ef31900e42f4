// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of the direct I/O path.
//!
//! C header: `fs/iomap/trace.h`.

use super::{
    flags::CallerFlags,
    kiocb::Iocb, //
};
use crate::{
    fs::inode::Inode,
    iov::IovIter,
    prelude::*, //
};

mod raw {
    use crate::{
        bindings,
        ffi::c_int,
        tracepoint::declare_trace, //
    };

    declare_trace! {
        /// # Safety
        ///
        /// `iocb` must be a valid kiocb with an open file, and `iter` a valid iterator.
        pub(super) unsafe fn iomap_dio_rw_begin(
            iocb: *mut bindings::kiocb,
            iter: *mut bindings::iov_iter,
            dio_flags: u32,
            done_before: usize,
        );

        /// # Safety
        ///
        /// `inode` must be valid.
        pub(super) unsafe fn iomap_dio_rw_queued(
            inode: *mut bindings::inode,
            off: bindings::loff_t,
            len: u64,
        );

        /// # Safety
        ///
        /// `inode` must be valid.
        pub(super) unsafe fn iomap_dio_invalidate_fail(
            inode: *mut bindings::inode,
            off: bindings::loff_t,
            len: u64,
        );

        /// # Safety
        ///
        /// `iocb` must be a valid kiocb with an open file.
        pub(super) unsafe fn iomap_dio_complete(
            iocb: *mut bindings::kiocb,
            error: c_int,
            ret: isize,
        );
    }
}

/// Whether a tracepoint is on (`trace_*_enabled()`).
macro_rules! is_on {
    ($tracepoint:ident) => {{
        #[cfg(CONFIG_TRACEPOINTS)]
        // SAFETY: This is the static key of a tracepoint.
        let on = unsafe {
            crate::jump_label::static_branch_unlikely!(
                crate::bindings::$tracepoint,
                crate::bindings::tracepoint,
                key
            )
        };
        #[cfg(not(CONFIG_TRACEPOINTS))]
        let on = false;
        on
    }};
}

/// Whether somebody traces what [`Iter::next`] does.
///
/// [`Iter::next`]: super::iter::Iter::next
#[inline(always)]
pub(super) fn iterators_are_traced() -> bool {
    is_on!(__tracepoint_iomap_iter)
        || is_on!(__tracepoint_iomap_iter_dstmap)
        || is_on!(__tracepoint_iomap_iter_srcmap)
}

/// A request arrives.
#[inline(always)]
pub fn begin(iocb: &Iocb, memory: &mut IovIter<'_>, flags: CallerFlags, done_before: usize) {
    // SAFETY: Both are valid by the invariants of their types.
    unsafe {
        raw::iomap_dio_rw_begin(
            iocb.as_raw(),
            memory.as_raw(),
            flags.into_raw(),
            done_before,
        )
    };
}

/// A request for `inode` is in flight, at the byte and with as many bytes that were not submitted as
/// `rest` says if anybody wants to know.
///
/// Whatever belonged to the request may be gone, so the inode must be kept by other means: the
/// caller of the request has the file open until it returns.
#[inline(always)]
pub fn queued(inode: &Inode, rest: impl FnOnce() -> (i64, u64)) {
    if is_on!(__tracepoint_iomap_dio_rw_queued) {
        let (pos, len) = rest();
        // SAFETY: The inode is valid.
        unsafe { raw::iomap_dio_rw_queued(inode.as_raw(), pos, len) };
    }
}

/// The cached pages in the way of a write of `len` bytes at byte `pos` could not be dropped.
#[inline]
pub fn invalidate_failed(inode: &Inode, pos: i64, len: u64) {
    // SAFETY: The inode is valid.
    unsafe { raw::iomap_dio_invalidate_fail(inode.as_raw(), pos, len) };
}

/// A request is over. `error` is that of its bios, `ret` what the caller gets.
#[inline]
pub fn complete(iocb: &Iocb, error: c_int, ret: isize) {
    // SAFETY: The kiocb is valid by the invariants of its type.
    unsafe { raw::iomap_dio_complete(iocb.as_raw(), error, ret) };
}
