// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of the direct I/O path.
//!
//! They are the tracepoints of the C implementation, with the same names and arguments, so existing
//! scripts work with both. `echo 1 > /sys/kernel/tracing/events/iomap/enable` turns them on. While
//! a tracepoint is off it costs a static branch; without `CONFIG_TRACEPOINTS` nothing is left of
//! it.
//!
//! A request shows up as `iomap_dio_rw_begin`, then `iomap_dio_rw_queued` if it is left to its
//! bios, and `iomap_dio_complete` when it is over. The last may come before the second, if
//! the bios end that early.
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

/// Whether a tracepoint is on (`trace_*_enabled()`), for arguments that are not free to collect.
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

/// Whether any tracepoint in `iomap_iter()` is on.
///
/// [`Iter`] takes a shortcut around `iomap_iter()` where it can. It must not while somebody traces
/// what that function does.
///
/// [`Iter`]: super::iter::Iter
#[inline(always)]
pub(super) fn iterators_are_traced() -> bool {
    is_on!(__tracepoint_iomap_iter)
        || is_on!(__tracepoint_iomap_iter_dstmap)
        || is_on!(__tracepoint_iomap_iter_srcmap)
}

/// A request begins (`trace_iomap_dio_rw_begin()`).
///
/// The event shows the position, the size and the flags of the request, and `done_before`, the
/// bytes that the caller has transferred by other means.
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

/// A request was left to its bios (`trace_iomap_dio_rw_queued()`).
///
/// `describe` gives the inode, the position that the walk has reached and the bytes that were not
/// submitted, normally zero; of a simple read its position and all of its bytes. It is called only
/// if the tracepoint is on.
///
/// The request may be over by now, and what belonged to it gone. The inode is not: the caller of
/// the request has the file open until it returns.
#[inline(always)]
pub fn queued<'a>(describe: impl FnOnce() -> (&'a Inode, i64, u64)) {
    if is_on!(__tracepoint_iomap_dio_rw_queued) {
        let (inode, pos, len) = describe();
        // SAFETY: The inode is valid.
        unsafe { raw::iomap_dio_rw_queued(inode.as_raw(), pos, len) };
    }
}

/// The page cache could not be invalidated for a write of `len` bytes at byte `pos`
/// (`trace_iomap_dio_invalidate_fail()`).
///
/// The write fails with `ENOTBLK`, on which the file system falls back to the page cache, or with
/// `EAGAIN` if it must not be torn. The direct write would otherwise leave old data in the cache.
#[inline]
pub fn invalidate_failed(inode: &Inode, pos: i64, len: u64) {
    // SAFETY: The inode is valid.
    unsafe { raw::iomap_dio_invalidate_fail(inode.as_raw(), pos, len) };
}

/// A request is over (`trace_iomap_dio_complete()`).
///
/// `error` is that of its bios, zero or a negative errno. `ret` is what the caller gets: bytes, or
/// a negative errno.
#[inline]
pub fn complete(iocb: &Iocb, error: c_int, ret: isize) {
    // SAFETY: The kiocb is valid by the invariants of its type.
    unsafe { raw::iomap_dio_complete(iocb.as_raw(), error, ret) };
}
