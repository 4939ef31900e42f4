// SPDX-License-Identifier: GPL-2.0

//! Space mappings of files, and what direct I/O over them is built from.
//!
//! `iomap` is the kernel's space mapping library: a file system answers "where does this range of
//! the file live?" with a mapping, and the library moves the data. These are the safe
//! abstractions under the direct I/O path in `fs/iomap/direct_io.rs`. One file holds one C object:
//!
//! * [`bio`]: a bio while it is built, and after it ended; [`bio_set`]: a bio and the request
//!   header in front of it as one allocation (front pad).
//! * [`context`]: proof that the current context may sleep.
//! * [`device`]: what a block device says about alignment and its write cache.
//! * [`direct_file`]: files that are read with direct I/O from within the kernel.
//! * [`flags`]: the flag words, each its own type because their bits overlap.
//! * [`inode`] and [`kiocb`]: the file and the caller's I/O control block.
//! * [`iov_iter`]: the caller's memory, source or destination.
//! * [`iter`]: the mapping iterator and what one mapping allows.
//! * [`ops`]: the callbacks a file system hands in.
//! * [`plug`]: a section under which submitted bios are batched.
//! * [`request`]: who owns a request of several bios, and who completes it.
//! * [`trace`]: the tracepoints of the direct I/O path.
//!
//! Lengths and positions are in bytes unless a name says sectors.
//!
//! C headers: [`include/linux/iomap.h`](srctree/include/linux/iomap.h),
//! [`include/linux/bio.h`](srctree/include/linux/bio.h).

pub mod bio;
pub mod bio_set;
pub mod context;
pub mod device;
pub mod direct_file;
pub mod flags;
mod handover;
pub mod inode;
pub mod iov_iter;
pub mod iter;
pub mod kiocb;
pub mod ops;
pub mod plug;
pub mod request;
#[cfg(CONFIG_RUST_IOMAP_KUNIT_TEST)]
mod tests;
pub mod trace;

use crate::{
    error::Error,
    ffi::c_int,
    prelude::*,
    sync::atomic::{
        Atomic,
        AtomicType, //
    },
};

/// Reads a value that others change at the same time (`READ_ONCE()`).
///
/// [`Atomic::load`] without ordering is the same read behind a helper function, which is a call
/// where helpers are not inlined.
///
/// # Safety
///
/// `ptr` must be valid and aligned, and whoever writes to it must do so at once.
#[inline(always)]
unsafe fn read_once<T: Copy>(ptr: *const T) -> T {
    const { assert!(size_of::<T>() <= size_of::<usize>()) };
    // SAFETY: Required of the caller.
    unsafe { ptr.read_volatile() }
}

/// As [`Atomic::load`] without ordering, but never a call: see [`read_once`].
#[inline(always)]
fn load_relaxed<T: AtomicType>(atomic: &Atomic<T>) -> T {
    // SAFETY: The pointer is valid and aligned, and an atomic is written to at once.
    unsafe { read_once(atomic.as_ptr()) }
}

/// Writes a value that others read at the same time (`WRITE_ONCE()`).
///
/// # Safety
///
/// `ptr` must be valid and aligned, and nobody else may write to it.
#[inline(always)]
unsafe fn write_once<T: Copy>(ptr: *mut T, value: T) {
    const { assert!(size_of::<T>() <= size_of::<usize>()) };
    // SAFETY: Required of the caller.
    unsafe { ptr.write_volatile(value) };
}

/// Turns what a C function returns into a result: negative values are errnos.
///
/// As [`crate::error::to_result`], which is a call even for success.
#[inline]
fn check(ret: c_int) -> Result {
    if ret < 0 {
        return Err(Error::from_errno(ret));
    }
    Ok(())
}
