// SPDX-License-Identifier: GPL-2.0

//! Files that are read with direct I/O from within the kernel.
//!
//! The other modules here are what direct I/O is built from; this one is for those who use it. It
//! goes the way that a system call goes, so that permissions, locks and security modules of the
//! file system have their say.
//!
//! C headers: [`include/linux/fs.h`](srctree/include/linux/fs.h),
//! [`include/linux/uio.h`](srctree/include/linux/uio.h).

use super::context::MaySleep;
use crate::{
    bindings,
    error::from_err_ptr,
    fs::{
        file::flags,
        File, //
    },
    prelude::*,
    sync::aref::ARef,
    types::Opaque, //
};
use core::{
    ops::Deref,
    ptr::NonNull, //
};

/// Memory of the kernel that a device can transfer to.
///
/// Direct I/O goes straight to the memory, so that has to be aligned as the device wants it, lie in
/// the linear mapping, and share its cache lines with nothing else. Not every `&mut [u8]` does.
///
/// # Invariants
///
/// The memory was allocated by `kmalloc()` with a size that is a power of two and at least
/// [`AlignedBuffer::MIN`], and so is aligned to its size.
pub struct AlignedBuffer(KVec<u8>);

impl AlignedBuffer {
    /// The smallest buffer in bytes: the smallest block of any device.
    pub const MIN: usize = 512;

    /// The largest buffer in bytes: larger pieces of memory are hard to get.
    pub const MAX: usize = 1 << 20;

    /// Allocates a buffer of `len` zeroes.
    ///
    /// Fails with `EINVAL` if `len` is no power of two, less than [`AlignedBuffer::MIN`] or more
    /// than [`AlignedBuffer::MAX`], and with `ENOMEM` if there is no memory.
    pub fn new(len: usize, _ctx: MaySleep) -> Result<Self> {
        if !len.is_power_of_two() || !(Self::MIN..=Self::MAX).contains(&len) {
            return Err(EINVAL);
        }
        // INVARIANT: A `KVec` that was asked for so many bytes at once allocates as many with
        // `kmalloc()`, which aligns powers of two to their size.
        Ok(Self(KVec::from_elem(0, len, GFP_KERNEL)?))
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A file that is open for reading with direct I/O (`O_DIRECT`).
///
/// # Locking and lifetime
///
/// Reads take no lock of this type, may run concurrently, and leave the position of the file alone.
/// The file is closed (`fput()`) when the value is dropped, which any context may do.
pub struct DirectFile(ARef<File>);

impl DirectFile {
    /// Opens a file by its path, with the rights of the current task (`filp_open()`).
    ///
    /// Fails with what [`open(2)`] fails with: `ENOENT`, `EACCES` and so on, and `EINVAL` if the
    /// file system has no direct I/O.
    ///
    /// [`open(2)`]: https://man7.org/linux/man-pages/man2/open.2.html
    pub fn open(path: &CStr, _ctx: MaySleep) -> Result<Self> {
        const FLAGS: u32 = flags::O_RDONLY | flags::O_DIRECT | flags::O_LARGEFILE;

        // SAFETY: The path is a string that ends with a NUL, and the context may sleep.
        // CAST: The flags are bits of an `int`.
        let file = unsafe { bindings::filp_open(path.as_char_ptr(), FLAGS as c_int, 0) };
        // The C function returns a file or an errno, never NULL.
        let file = NonNull::new(from_err_ptr(file)?).ok_or(ENOENT)?;
        // SAFETY: The reference to the file is ours. It is in no table of file descriptors, so
        // nobody can have called `fdget_pos()` for it.
        Ok(Self(unsafe { ARef::from_raw(file.cast::<File>()) }))
    }

    /// Reads from byte `pos` of the file into `buffer`, and waits for it.
    ///
    /// Returns how many bytes were read: less than the buffer holds if the file ends there, zero
    /// at its end. Fails with `EINVAL` if `pos` or the size of the buffer is no multiple of the
    /// block size of the device, or if the file cannot be read from (a directory), and otherwise
    /// with the error of the file system or of the device.
    pub fn read(&self, pos: i64, buffer: &mut AlignedBuffer, _ctx: MaySleep) -> Result<usize> {
        let file = self.0.as_ptr();
        let len = buffer.0.len();
        let vec = bindings::kvec {
            iov_base: buffer.0.as_mut_ptr().cast(),
            iov_len: len,
        };
        let iocb = Opaque::<bindings::kiocb>::uninit();
        let iter = Opaque::<bindings::iov_iter>::uninit();

        // SAFETY: The kiocb is valid for writes, and the file is open.
        unsafe {
            bindings::init_sync_kiocb(iocb.get(), file);
            (*iocb.get()).ki_pos = pos;
        }
        // SAFETY: The iterator is valid for writes, and there is one vector of `len` bytes, which
        // outlives it.
        unsafe { bindings::iov_iter_kvec(iter.get(), bindings::ITER_DEST, &raw const vec, 1, len) };
        // SAFETY: The file is open, and the context may sleep. A kiocb without `ki_complete` is
        // synchronous: when the function returns, nobody uses the kiocb, the iterator or the
        // buffer, which is borrowed exclusively until then, any more.
        let ret = unsafe { bindings::vfs_iocb_iter_read(file, iocb.get(), iter.get()) };
        if ret < 0 {
            // CAST: A negative result is an errno.
            return Err(Error::from_errno(ret as c_int));
        }
        // CAST: Not negative, and at most `len`.
        Ok(ret as usize)
    }
}
