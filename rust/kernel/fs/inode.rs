// SPDX-License-Identifier: GPL-2.0

//! What direct I/O asks of an inode.
//!
//! C header: [`include/linux/fs.h`](srctree/include/linux/fs.h).

use crate::{
    bindings,
    error::to_result,
    prelude::*,
    sync::atomic::{
        Atomic,
        Full,
        Relaxed, //
    },
    task::MaySleep,
    types::Opaque,
    workqueue::{
        self,
        Queue,
        RawWorkItem, //
    },
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

/// The inode of an open file (`struct inode`).
///
/// # Invariants
///
/// The inode is referenced by an open file for as long as a reference to this type lives.
#[repr(transparent)]
pub struct Inode(Opaque<bindings::inode>);

/// Which way the data of a failed request was going (`enum fserror_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// `FSERR_DIRECTIO_READ`.
    Read,
    /// `FSERR_DIRECTIO_WRITE`.
    Write,
}

/// The work queue of a super block for completions of direct I/O.
///
/// # Invariants
///
/// The queue exists until the last file of the super block is closed, and so as long as the inode
/// that it was taken from is borrowed.
#[derive(Clone, Copy)]
pub struct DioDoneWq<'a> {
    raw: NonNull<bindings::workqueue_struct>,
    _inode: PhantomData<&'a Inode>,
}

/// What can be completed on the work queue of its super block.
pub(crate) trait Puntable:
    RawWorkItem<0, EnqueueOutput = ()> + Send + Sized + 'static
{
    /// The queue. Until the completion is over it keeps the inode that the queue is taken from.
    fn queue(&self) -> Option<DioDoneWq<'_>>;

    /// Queues the completion, on the system's queue if the super block has none of its own.
    #[inline]
    fn punt(self) {
        match self.queue() {
            Some(DioDoneWq { raw, .. }) => {
                // SAFETY: The request, which is not over, keeps the queue.
                unsafe { Queue::from_raw(raw.as_ptr()) }.enqueue(self)
            }
            None => workqueue::system().enqueue(self),
        }
    }
}

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

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::inode {
        self.0.get()
    }

    /// The size of the file in bytes, now (`i_size_read()`).
    #[inline]
    pub fn size(&self) -> i64 {
        #[cfg(CONFIG_64BIT)]
        {
            // SAFETY: `i_size` of a valid inode is aligned, and whoever accesses it does so
            // atomically: `i_size_write()` is a store-release.
            let size = unsafe { Atomic::from_ptr(&raw mut (*self.as_raw()).i_size) };
            // ORDERING: Pairs with the store-release in `i_size_write()`.
            size.load(crate::sync::atomic::Acquire)
        }
        #[cfg(not(CONFIG_64BIT))]
        {
            // SAFETY: The inode is valid by the invariants.
            unsafe { bindings::i_size_read(self.as_raw()) }
        }
    }

    /// Size in bytes of a file system block, a power of two (`i_blocksize()`).
    #[inline]
    pub fn block_size(&self) -> u32 {
        // SAFETY: The inode is valid; `i_blkbits` does not change while the file is open.
        let bits = unsafe { (*self.as_raw()).i_blkbits };
        1u32.wrapping_shl(u32::from(bits))
    }

    /// Whether the contents are encrypted on the device (`IS_ENCRYPTED()`).
    #[inline]
    pub fn is_encrypted(&self) -> bool {
        // SAFETY: The inode is valid; the flag does not change while the file is open.
        unsafe { (*self.as_raw()).i_flags & bindings::S_ENCRYPTED != 0 }
    }

    /// The life-time hint of data written to this file.
    #[inline]
    pub(crate) fn write_hint(&self) -> bindings::rw_hint {
        // SAFETY: The inode is valid; C reads the hint without a lock as well.
        unsafe { (*self.as_raw()).i_write_hint }
    }

    #[inline]
    fn super_block(&self) -> *mut bindings::super_block {
        // SAFETY: The inode is valid and `i_sb` is constant.
        unsafe { (*self.as_raw()).i_sb }
    }

    /// The queue that completions needing process context run on, if it was made already
    /// (`s_dio_done_wq`).
    #[inline]
    pub fn dio_done_wq(&self) -> Option<DioDoneWq<'_>> {
        // ORDERING: Carries the address dependency on the queue's initialisation, as in C.
        // SAFETY: The super block is pinned by the inode. The pointer changes once, from NULL, by
        // a `cmpxchg()`.
        let queue = unsafe { Atomic::from_ptr(&raw mut (*self.super_block()).s_dio_done_wq) };
        let queue = queue.load(Relaxed);
        // INVARIANT: The super block lives as long as the inode.
        Some(DioDoneWq {
            raw: NonNull::new(queue)?,
            _inode: PhantomData,
        })
    }

    /// Makes the queue behind [`Inode::dio_done_wq`] unless there is one.
    ///
    /// Fails with `ENOMEM` (`sb_init_dio_done_wq()`).
    #[inline(always)]
    pub fn ensure_dio_done_wq(&self, _ctx: MaySleep) -> Result {
        if self.dio_done_wq().is_some() {
            return Ok(());
        }
        // SAFETY: The super block is valid, and the context may sleep.
        to_result(unsafe { bindings::sb_init_dio_done_wq(self.super_block()) })
    }

    /// Tells whoever watches the file system about a failed request (`fserror_report_io()`).
    ///
    /// `pos` and `len` are in bytes, `error` is a negative errno. Process context: the C function takes
    /// `i_lock`, and allocates with `GFP_NOFS`.
    #[cold]
    pub fn report_io_error(&self, failed: Failed, pos: i64, len: u64, error: c_int, _: MaySleep) {
        let kind = match failed {
            Failed::Read => bindings::fserror_type_FSERR_DIRECTIO_READ,
            Failed::Write => bindings::fserror_type_FSERR_DIRECTIO_WRITE,
        };
        // SAFETY: The inode is valid by the invariants.
        unsafe {
            bindings::fserror_report(
                self.super_block(),
                self.as_raw(),
                kind,
                pos,
                len,
                error,
                bindings::GFP_NOFS,
            )
        }
    }

    /// Counts one direct I/O request (`inode_dio_begin()`).
    #[inline]
    pub(crate) fn dio_begin(&self) {
        // SAFETY: `i_dio_count` of a valid inode is only accessed atomically.
        let count = unsafe { Atomic::from_ptr(&raw mut (*self.as_raw()).i_dio_count.counter) };
        // ORDERING: None needed, as in C: who waits for zero holds the lock that the caller of
        // this has shared.
        count.add(1, Relaxed);
    }

    /// Counts one direct I/O request less and wakes who waits for zero (`inode_dio_end()`).
    #[inline]
    pub(crate) fn dio_end(&self) {
        // SAFETY: As in `dio_begin`.
        let count = unsafe { Atomic::from_ptr(&raw mut (*self.as_raw()).i_dio_count.counter) };
        // ORDERING: Full, as `atomic_dec_and_test()`: what the request did is visible to the
        // waiter, and the wake-up's look at the wait queue is not done early.
        if count.fetch_sub(1, Full) == 1 {
            // SAFETY: The address is only a key.
            unsafe { bindings::wake_up_var((&raw mut (*self.as_raw()).i_dio_count).cast()) };
        }
    }
}
