// SPDX-License-Identifier: GPL-2.0

//! The kiocb of a direct I/O request.
//!
//! A `struct kiocb` is a value of another type at each stage of its request:
//!
//! ```text
//!       begin_dio()              into_dio()
//!  NewIocb -------> BusyIocb<EndIo> -----> BusyIocb<DioOps>   may have bios
//!   |                    |                      |
//!   | answer()           | refuse()             | end_io()
//!   v                    v                      v        end_dio()
//!  Answer              Answer              BusyIocb<Told> -----> DoneIocb --+--> complete()
//!   ^                                                                       |
//!   +---- handed over to its bios                                           +--> answer()
//! ```
//!
//! A request that cannot be a single bio without the file system is a `BusyIocb<DioOps>` at once, a
//! simple read begins as a `BusyIocb<()>` in place of `BusyIocb<EndIo>`.
//!
//! Each is consumed by the step to the next. So the file system is told at most once (once more if
//! it has failed to hear of several together), and not at all of a request that is refused. Then
//! `inode_dio_end()` is called once, and then the result is either returned or passed to
//! `ki_complete()`, after which nothing of the kiocb is used. A submission that has handed its
//! request over has nothing of it but the [`Answer`] `-EIOCBQUEUED`.
//!
//! A value that is dropped instead is a request that nobody completes. The kernel warns of it,
//! unless it was not begun. None goes to another thread but with all of its request.
//!
//! # Order of completion
//!
//! 1. [`BusyIocb::end_io`]: the file system makes what was written reachable, for instance by
//!    converting unwritten extents.
//! 2. [`BusyIocb::invalidate_written`]: pages that were cached meanwhile show old data. A
//!    truncation still waits, so the range belongs to the file.
//! 3. [`BusyIocb::end_dio`]: a truncation may go on.
//! 4. [`DoneIocb::advance_pos`], and [`DoneIocb::sync_written`] if the data has to be stable: a
//!    flush may need the inode lock, whose holder may wait for the step before.
//! 5. [`DoneIocb::complete`] or [`DoneIocb::answer`]: the kiocb belongs to its caller again.
//!
//! C header: [`include/linux/fs.h`](srctree/include/linux/fs.h).

use super::{
    flags::EndIoFlags,
    ops::{
        DioOps,
        EndIo, //
    },
};
use crate::{
    bindings,
    block::bio::Filled,
    error::to_result,
    fs::{
        IocbFlags,
        Kiocb, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    task::MaySleep,
    types::NotThreadSafe, //
};
use core::{
    mem::ManuallyDrop,
    ops::Deref,
    ptr, //
};

/// A kiocb at any stage of its request (`struct kiocb`).
///
/// In this module the kiocb and its file are valid until `ki_complete()` was called or, for a
/// request that is not queued, until the caller of the request got its result. Nobody else writes
/// to it until then, but the end of a bio to `private`, which is only accessed atomically.
pub type Iocb = Kiocb<'static, ()>;

/// The callbacks of a request that may get a single bio, as long as it has none: [`EndIo`] for one
/// of `iomap_dio_rw()`, and no callbacks, `()`, for a simple read.
pub trait Callbacks {
    /// This is a simple read, of a file that is not encrypted.
    const SIMPLE: bool;

    /// The single bio has a bounce buffer.
    const BOUNCED: bool;

    /// The callbacks, if there are any.
    fn into_dio(self) -> DioOps;
}

impl<const BOUNCED: bool> Callbacks for EndIo<BOUNCED> {
    const SIMPLE: bool = false;
    const BOUNCED: bool = BOUNCED;

    #[inline(always)]
    fn into_dio(self) -> DioOps {
        self.0
    }
}

impl Callbacks for () {
    const SIMPLE: bool = true;
    const BOUNCED: bool = false;

    #[inline(always)]
    fn into_dio(self) -> DioOps {
        DioOps::none()
    }
}

/// A kiocb whose request is being prepared.
///
/// # Invariants
///
/// The callbacks are those of the file's own file system for direct I/O.
#[must_use = "the caller of the request wants an answer"]
pub struct NewIocb<O> {
    iocb: Iocb,
    ops: O,
}

impl<O> Deref for NewIocb<O> {
    type Target = Iocb;

    #[inline]
    fn deref(&self) -> &Iocb {
        &self.iocb
    }
}

impl<O> NewIocb<O> {
    /// Takes a kiocb from the caller of a request. `ops` are the callbacks of the file system.
    ///
    /// # Safety
    ///
    /// `ptr` must point at a kiocb with an open file, and both must stay valid, and be left to the
    /// returned value, until the request is over. `ops` must be for direct I/O on that file.
    ///
    /// No truncation of the file may begin before the returned value is gone: the caller of the
    /// request holds the lock that it takes, which is mostly the inode lock, at least shared.
    ///
    /// The caller of the request must get the [`Answer`] that the returned value becomes. An answer
    /// does not say whose it is, so no code may have two requests to answer at a time.
    #[inline]
    pub unsafe fn from_raw(ptr: *mut bindings::kiocb, ops: O) -> Self {
        // INVARIANT: Required of the caller.
        Self {
            // SAFETY: The kiocb is valid; nothing is asked of private data of type `()`.
            iocb: unsafe { Kiocb::from_raw(ptr) },
            ops,
        }
    }

    /// Ends a request that was not begun. `result` is in bytes, or a negative errno.
    #[inline]
    pub fn answer(self, result: isize) -> Answer {
        Answer::new(result)
    }

    /// As [`NewIocb::answer`], with an error.
    #[inline]
    pub fn refuse(self, error: Error) -> Answer {
        refused(self.iocb, error)
    }

    /// Counts the request in `i_dio_count` (`inode_dio_begin()`): a truncation, which has its lock
    /// exclusively, waits for it (`inode_dio_wait()`), so that no bio transfers to blocks that it
    /// frees.
    ///
    /// The file system is told when the bios have ended, if it has an `->end_io`.
    #[inline]
    pub fn begin_dio(self) -> BusyIocb<O> {
        // SAFETY: The inode is valid.
        unsafe { bindings::inode_dio_begin(self.inode().as_raw()) };
        // INVARIANT: Counted just now.
        BusyIocb {
            iocb: self.iocb,
            ops: self.ops,
            armed: Armed::new(),
        }
    }
}

/// In place of the callbacks of a request that is over: no bio is made for it any more.
pub struct Told(());

/// A kiocb whose request counts in `i_dio_count`.
///
/// Dropping it warns, because the request is never completed, and a truncation waits for it.
///
/// # Invariants
///
/// One count of `i_dio_count` of the file's inode belongs to this value. The callbacks of `O`, if
/// it has any, are those of the request and were not told of its end, or have failed to hear of it
/// together with others. If they are [`Callbacks`], no bio of the request is in flight; if they are
/// [`Callbacks::SIMPLE`], the file is not encrypted.
#[must_use = "a dropped request is never completed"]
pub struct BusyIocb<O> {
    iocb: Iocb,
    pub(super) ops: O,
    armed: Armed,
}

impl<O> Deref for BusyIocb<O> {
    type Target = Iocb;

    #[inline]
    fn deref(&self) -> &Iocb {
        &self.iocb
    }
}

impl BusyIocb<DioOps> {
    /// Whether [`DoneIocb::sync_written`] will differ in nothing but the range: both are of one
    /// open file, which knows what errors of the page cache it was told of, and want the same to
    /// be stable, also if the inode no longer wants that of all writes.
    pub fn syncs_as(&self, other: &Self) -> bool {
        let same = |flag| self.flags().has(flag) == other.flags().has(flag);
        // SAFETY: Both kiocbs are valid.
        let same_file = unsafe { (*self.as_raw()).ki_filp == (*other.as_raw()).ki_filp };
        same_file && same(IocbFlags::SYNC) && same(IocbFlags::DSYNC)
    }

    /// Logs, rate limited, that this request and mapped pages of the file collided.
    ///
    /// The message names the file and the task.
    #[cold]
    #[inline]
    pub fn warn_collision(&self) {
        // SAFETY: The kiocb and its file are valid.
        unsafe { bindings::iomap_dio_warn_collision(self.as_raw()) };
    }

    /// Tells the file system that all bios have ended, before anything else is done about it.
    ///
    /// `size` is the size of the request in bytes, whether it failed or not; `error` is zero or a
    /// negative errno. Returns the error that the file system makes of it, which may be zero, or
    /// `error` without a callback. `flags` is evaluated only for a callback.
    ///
    /// The context is that of the caller. A callback that may sleep requires that the request was
    /// completed in process context, which follows from what the request owes.
    #[inline(always)]
    pub fn end_io(
        self,
        size: isize,
        error: c_int,
        flags: impl FnOnce() -> EndIoFlags,
    ) -> (BusyIocb<Told>, c_int) {
        // SAFETY: By the invariants the kiocb is valid, and the callbacks, which are its own, were
        // not told yet.
        let ret = unsafe { self.ops.end_io(self.as_raw(), size, error, flags) };
        (self.untold(), ret)
    }

    /// The callbacks, if they may be told of this request and of others at once.
    #[inline]
    pub(super) fn ops_to_merge(&self) -> Option<DioOps> {
        (self.ops.has(bindings::IOMAP_DIO_MERGE_END_IO) && !self.flags().has(IocbFlags::ATOMIC))
            .then_some(self.ops)
    }

    /// As [`BusyIocb::end_io`], of `size` bytes that this request and others that follow it have
    /// written without error.
    ///
    /// If it fails, [`BusyIocb::end_io`] comes after it; otherwise [`BusyIocb::assume_told`].
    pub(super) fn end_io_together(&self, size: isize, flags: EndIoFlags) -> c_int {
        // SAFETY: By the invariants the kiocb is valid. Such callbacks may be told again.
        unsafe { self.ops.end_io(self.as_raw(), size, 0, || flags) }
    }

    /// Does not tell the file system again.
    ///
    /// # Safety
    ///
    /// [`BusyIocb::end_io_together`] must have told it of this request, and succeeded.
    #[inline]
    pub(super) unsafe fn assume_told(&mut self) {
        // INVARIANT: There are no callbacks any more.
        self.ops = DioOps::none();
    }
}

impl<O> BusyIocb<O> {
    /// Lets the caller poll for a bio if it wants to, or ends polling if nobody can. Returns
    /// whether it is polled for.
    #[inline(always)]
    pub(super) fn poll_for(&self, bio: &mut Filled) -> bool {
        // The caller of a synchronous request sleeps, so it cannot poll.
        self.flags().has(IocbFlags::HIPRI) && !self.is_sync() && self.set_polled(bio)
    }

    /// As [`BusyIocb::poll_for`], of a caller that wants to.
    #[cold]
    #[inline(always)]
    fn set_polled(&self, bio: &mut Filled) -> bool {
        let polled = bio.set_polled();
        if polled {
            // ORDERING: None needed: the poller looks at the bio under RCU, in memory that stays a
            // bio (`SLAB_TYPESAFE_BY_RCU`).
            self.private().store(bio.as_raw().cast(), Relaxed);
        } else {
            self.stop_polling();
        }
        polled
    }

    /// The bio to poll for (`private`).
    #[inline(always)]
    fn private(&self) -> &Atomic<*mut c_void> {
        // SAFETY: The field is valid, and whoever polls reads it with `READ_ONCE()`.
        unsafe { Atomic::from_ptr(&raw mut (*self.as_raw()).private) }
    }

    /// Goes on without telling the file system.
    #[inline]
    fn untold(self) -> BusyIocb<Told> {
        // INVARIANT: The count goes over to the new value.
        BusyIocb {
            iocb: self.iocb,
            ops: Told(()),
            armed: self.armed,
        }
    }

    /// Makes the poller find no bio any more (`private`), which is to be freed only afterwards.
    ///
    /// A poller that has read the pointer before holds the RCU read lock, and the memory stays a
    /// bio for so long.
    #[inline]
    pub(super) fn clear_polled_bio(&self) {
        self.private().store(ptr::null_mut(), Relaxed);
    }

    /// As [`BusyIocb::clear_polled_bio`], if it is `bio` that the poller would find.
    #[cold]
    pub(super) fn clear_this_polled_bio(&self, bio: *mut bindings::bio) {
        _ = self.private().cmpxchg(bio.cast(), ptr::null_mut(), Relaxed);
    }
}

impl<O: Callbacks> BusyIocb<O> {
    /// Ends a request that has no bios with an error, and gives the count back. Tells no file
    /// system.
    #[cold]
    pub fn refuse(self, error: Error) -> Answer {
        // CAST: An errno fits.
        self.untold().end_dio().answer(error.to_errno() as isize)
    }

    /// Goes on as a request that may have any bios.
    #[inline]
    pub fn into_dio(self) -> BusyIocb<DioOps> {
        // INVARIANT: The count goes over to the new value.
        BusyIocb {
            iocb: self.iocb,
            ops: self.ops.into_dio(),
            armed: self.armed,
        }
    }
}

impl BusyIocb<()> {
    /// Takes the kiocb of a simple read from its caller, who has called `inode_dio_begin()`.
    ///
    /// # Safety
    ///
    /// As [`NewIocb::from_raw`]. The file must not be encrypted, and one count of `i_dio_count` of
    /// its inode must be left to the returned value.
    #[inline]
    pub unsafe fn from_raw(ptr: *mut bindings::kiocb) -> Self {
        // INVARIANT: Required of the caller.
        Self {
            // SAFETY: The kiocb is valid; nothing is asked of private data of type `()`.
            iocb: unsafe { Kiocb::from_raw(ptr) },
            ops: (),
            armed: Armed::new(),
        }
    }
}

impl BusyIocb<Told> {
    /// Drops the pages of the `written` bytes at the position that were cached while the write was
    /// under way (`kiocb_invalidate_post_direct_write()`).
    ///
    /// A failure does not fail the write; the mapping reports it to the next `fsync()`.
    #[inline]
    pub fn invalidate_written(&self, written: usize, _ctx: MaySleep) {
        if !self.has_cached_pages(written) {
            return;
        }
        // SAFETY: The kiocb is valid, and the context may sleep.
        unsafe { bindings::kiocb_invalidate_post_direct_write(self.as_raw(), written) };
    }

    /// Gives the count back (`inode_dio_end()`). Any context. A truncation may go on from now on,
    /// and the inode may go away unless something else keeps the file open.
    #[inline]
    pub fn end_dio(self) -> DoneIocb {
        // SAFETY: The inode is valid, and by the invariants one count is ours.
        unsafe { bindings::inode_dio_end(self.inode().as_raw()) };
        DoneIocb {
            iocb: self.iocb,
            armed: self.armed,
        }
    }
}

/// A kiocb whose request no longer counts in `i_dio_count`.
///
/// It is either completed or answered. Dropping it warns, because the request is never completed.
#[must_use = "a dropped request is never completed"]
pub struct DoneIocb {
    iocb: Iocb,
    armed: Armed,
}

impl Deref for DoneIocb {
    type Target = Iocb;

    #[inline]
    fn deref(&self) -> &Iocb {
        &self.iocb
    }
}

impl DoneIocb {
    /// Moves the position forward by `bytes` (`ki_pos`).
    #[inline]
    pub fn advance_pos(&mut self, bytes: i64) {
        let pos = self.iocb.ki_pos_mut();
        *pos = pos.wrapping_add(bytes);
    }

    /// Makes the last `written` bytes before the position stable (`generic_write_sync()`).
    ///
    /// Fails with the error of the flush. `fsync()` may take the inode lock, whose holder may wait
    /// for `i_dio_count`; this is possible only now that the request no longer counts.
    #[inline]
    pub fn sync_written(&self, written: isize, _ctx: MaySleep) -> Result {
        // SAFETY: The kiocb and its file are valid, and the context may sleep.
        let ret = unsafe { bindings::generic_write_sync(self.as_raw(), written) };
        // CAST: A negative result is an errno.
        to_result(core::cmp::min(ret, 0) as c_int)
    }

    /// Calls `ki_complete()` with `result`: bytes, or a negative errno.
    ///
    /// Only for a request whose submission returned `-EIOCBQUEUED`. Any context. The owner of the
    /// kiocb may free it at once.
    #[inline]
    pub fn complete(self, result: isize) {
        let raw = self.as_raw();
        // SAFETY: By the invariants the kiocb is valid and the request is ours to complete, once.
        // CAST: `long` and `ssize_t` have the same size.
        unsafe {
            // A synchronous kiocb is answered; it is lost here.
            if let Some(ki_complete) = (*raw).ki_complete {
                self.armed.defuse();
                ki_complete(raw, result as c_long);
            }
        }
    }

    /// Makes `result` the return value of the submission: bytes, or a negative errno.
    #[inline]
    pub fn answer(self, result: isize) -> Answer {
        self.armed.defuse();
        Answer::new(result)
    }
}

/// The return value of a submission.
///
/// It is a result, or `-EIOCBQUEUED` of a request that was handed over to its bios: the last one to
/// end completes it. Dropping it warns, because the caller has to get one.
#[doc(alias = "EIOCBQUEUED")]
#[must_use = "a dropped request is never completed"]
pub struct Answer {
    result: isize,
    armed: Armed,
}

/// The answer of a request that was not begun.
// With the kiocb, so that the compiler makes one call for all errors.
#[cold]
fn refused(_iocb: Iocb, error: Error) -> Answer {
    // CAST: An errno fits.
    Answer::new(error.to_errno() as isize)
}

/// The return value that promises a call of `ki_complete()`.
// CAST: A small number.
const QUEUED: isize = -(bindings::EIOCBQUEUED as isize);

impl Answer {
    /// A known result. `-EIOCBQUEUED` is none: it becomes `-EIO`, because nobody would call
    /// `ki_complete()`.
    #[inline]
    fn new(result: isize) -> Self {
        if result == QUEUED {
            return Self::misled();
        }
        Self {
            result,
            armed: Armed::new(),
        }
    }

    /// Of a request that was handed over: `ki_complete()` will be called, or has been.
    #[inline]
    pub(super) fn queued() -> Self {
        Self {
            result: QUEUED,
            armed: Armed::new(),
        }
    }

    #[cold]
    fn misled() -> Self {
        crate::warn_on!(true);
        // CAST: An errno fits.
        Self::new(EIO.to_errno() as isize)
    }

    /// Whether it is this error.
    #[inline]
    pub fn is(&self, error: Error) -> bool {
        // CAST: An errno fits.
        self.result == error.to_errno() as isize
    }

    /// The value to return to C: bytes, a negative errno, or `-EIOCBQUEUED`.
    #[inline]
    pub fn into_raw(self) -> isize {
        self.armed.defuse();
        self.result
    }

    /// The value to return to C in place of a request: NULL for zero, or an errno (`ERR_PTR()`).
    ///
    /// A number of bytes is neither. It becomes `-EIO`, and the kernel warns.
    #[inline]
    pub fn into_err_ptr<T>(self) -> *mut T {
        // CAST: It fits.
        let result = match self.into_raw() {
            result if result > 0 || result < -(bindings::MAX_ERRNO as isize) => {
                Self::misled().into_raw()
            }
            result => result,
        };
        // CAST: As `ERR_PTR()` does.
        ptr::without_provenance_mut(result as usize)
    }
}

/// Part of what must not be dropped, because it stands for a request that somebody waits for: the
/// kernel warns then. It stays in its thread, so that no request gets the kiocb or the memory of
/// another that is not over.
pub(super) struct Armed(NotThreadSafe);

impl Armed {
    /// Made with what it is part of.
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self(NotThreadSafe)
    }

    /// The request goes on in another way.
    #[inline(always)]
    pub(super) fn defuse(self) {
        let _ = ManuallyDrop::new(self);
    }
}

impl Drop for Armed {
    #[cold]
    fn drop(&mut self) {
        crate::warn_on!(true);
    }
}
