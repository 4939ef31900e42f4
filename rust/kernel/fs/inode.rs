// SPDX-License-Identifier: GPL-2.0

//! Inodes of open files, as far as direct I/O needs them.
//!
//! C headers: [`include/linux/fs.h`](srctree/include/linux/fs.h),
//! [`include/linux/fserror.h`](srctree/include/linux/fserror.h).

use crate::{
    bindings,
    error::to_result,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    task::MaySleep,
    types::Opaque,
    workqueue::Queue, //
};
use core::ptr::NonNull;

/// The inode of an open file (`struct inode`).
///
/// It is always borrowed: the open file holds the reference, so nothing here takes or drops one.
/// Methods without a [`MaySleep`] argument work in any context.
///
/// # Invariants
///
/// The inode is referenced by an open file for as long as a reference to this type lives.
#[repr(transparent)]
pub struct Inode(Opaque<bindings::inode>);

impl Inode {
    /// Borrows an inode from C.
    ///
    /// # Safety
    ///
    /// `ptr` must point at an inode that an open file pins for the duration of `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::inode) -> &'a Self {
        // SAFETY: `Self` is transparent, and the caller keeps the inode pinned.
        unsafe { &*ptr.cast() }
    }

    /// The inode as C knows it.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::inode {
        self.0.get()
    }

    /// The size of the file in bytes (`i_size_read()`).
    ///
    /// A snapshot: without the inode lock a write or a truncation may change the size at once. Take
    /// it once and decide everything from that value. On 64 bit it is a load with acquire
    /// semantics, so that data below the size is visible to whoever has seen the size. On 32 bit an
    /// interrupt must not take it: it would wait for the task that it interrupts.
    #[doc(alias("i_size", "i_size_read"))]
    #[inline]
    pub fn size(&self) -> i64 {
        // SAFETY: The inode is valid by the invariants.
        unsafe { bindings::i_size_read(self.as_raw()) }
    }

    /// The size in bytes of a file system block, a power of two (`i_blocksize()`).
    #[inline]
    pub fn block_size(&self) -> u32 {
        // SAFETY: The inode is valid; `i_blkbits` does not change while the file is open.
        let bits = unsafe { (*self.as_raw()).i_blkbits };
        1u32.wrapping_shl(u32::from(bits))
    }

    /// The work queue of the super block for completions of direct I/O, if there is one yet
    /// (`s_dio_done_wq`).
    ///
    /// It is separate from the system's queues, because memory reclaim may wait for a completion.
    /// Its workers are in process context and may sleep. Once there is one it stays until the
    /// file system is unmounted.
    #[inline]
    pub(crate) fn dio_done_wq(&self) -> Option<&Queue> {
        // ORDERING: Carries the address dependency on the queue's initialisation, as in C.
        // SAFETY: The inode pins the super block. The pointer changes once, from NULL, by a
        // `cmpxchg()`, and the queue lives as long as the inode.
        unsafe {
            let queue = Atomic::from_ptr(&raw mut (*(*self.as_raw()).i_sb).s_dio_done_wq);
            let queue = NonNull::new(queue.load(Relaxed))?;
            Some(Queue::from_raw(queue.as_ptr()))
        }
    }

    /// The list beside that queue for requests of this inode, and of others, that no worker has
    /// taken yet (`s_dio_done_lists`), or NULL if the super block has none.
    ///
    /// It stays as long as the super block.
    #[inline]
    pub(crate) fn dio_done_list(&self) -> *mut bindings::llist_head {
        // SAFETY: The inode is valid, and pins the super block.
        unsafe { bindings::inode_dio_done_list(self.as_raw()) }
    }

    /// Creates the queue behind [`Inode::dio_done_wq`] unless there is one
    /// (`sb_init_dio_done_wq()`).
    ///
    /// Do so before a request whose completion may need process context is submitted: its bio may
    /// end in an interrupt, where nothing can be created.
    ///
    /// If two tasks do so at the same time, both end up with the same queue. Fails with `ENOMEM`.
    #[inline(always)]
    pub fn ensure_dio_done_wq(&self, _ctx: MaySleep) -> Result {
        if self.dio_done_wq().is_some() {
            return Ok(());
        }
        // SAFETY: The inode pins the super block, and the context may sleep.
        to_result(unsafe { bindings::sb_init_dio_done_wq((*self.as_raw()).i_sb) })
    }

    /// Reports a failed read or write to the file system and to user space (`fserror_report_io()`).
    ///
    /// User space gets the report by fanotify. `pos` and `len` are in bytes, `error` is a negative
    /// errno. If there is no memory for the report, the kernel log has it instead.
    ///
    /// The C function takes `i_lock` to get a reference to the inode, and allocates with
    /// `GFP_NOFS`. A bio may end in an interrupt, where that deadlocks, so this takes a
    /// [`MaySleep`].
    #[doc(alias("fserror_report", "fserror_report_io"))]
    #[cold]
    pub fn report_io_error(&self, write: bool, pos: i64, len: u64, error: c_int, _: MaySleep) {
        let kind = if write {
            bindings::fserror_type_FSERR_DIRECTIO_WRITE
        } else {
            bindings::fserror_type_FSERR_DIRECTIO_READ
        };
        // SAFETY: The inode is valid by the invariants.
        unsafe {
            bindings::fserror_report(
                (*self.as_raw()).i_sb,
                self.as_raw(),
                kind,
                pos,
                len,
                error,
                bindings::GFP_NOFS,
            )
        }
    }
}
