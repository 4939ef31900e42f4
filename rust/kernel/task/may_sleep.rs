// SPDX-License-Identifier: GPL-2.0

//! Proof of the context that code runs in.
//!
//! A bio may end in hard interrupt context. A function that may block (page cache invalidation, a
//! cache flush, waiting, blocking allocation) therefore takes a [`MaySleep`] argument, and only
//! submission, a file operation and a work queue can make one.
//!
//! C header: [`include/linux/kernel.h`](srctree/include/linux/kernel.h).

use crate::{
    fs::Kiocb,
    types::NotThreadSafe, //
};

/// Proof that the current context may sleep.
///
/// The value cannot leave the thread that made it. That thread was in process context then, and
/// still is, because nothing here disables preemption. As with a mutex, taking a spin lock first
/// and then calling a function that may sleep is a bug that the types do not catch. A kernel with
/// `CONFIG_DEBUG_ATOMIC_SLEEP` checks each proof when it is made (`might_sleep()`).
///
/// The proof has no size and costs nothing in other kernels.
///
/// # Invariants
///
/// The current thread may sleep.
///
/// # Examples
///
/// ```
/// use kernel::{
///     block::bdev::OpenBlockDevice,
///     task::MaySleep,
/// };
///
/// /// Opening a device sleeps, so the caller has to prove that it may.
/// fn sectors(path: &CStr, ctx: MaySleep) -> Result<u64> {
///     Ok(OpenBlockDevice::open(path, ctx)?.sectors())
/// }
///
/// // SAFETY: KUnit runs examples in a kernel thread, and this one holds no lock.
/// let ctx = unsafe { MaySleep::assume() };
/// // A directory has no sectors.
/// assert_eq!(sectors(c"/", ctx), Err(ENOTBLK));
/// ```
#[doc(alias = "might_sleep")]
#[derive(Clone, Copy)]
pub struct MaySleep(NotThreadSafe);

impl MaySleep {
    /// Asserts that the current context may sleep.
    ///
    /// For code that C calls, such as a work function or a file system's direct I/O entry point. A
    /// file operation written in Rust uses [`MaySleep::from_kiocb`] instead, which is safe.
    ///
    /// # Safety
    ///
    /// The caller must be in process context, hold no spin lock, and the returned value and its
    /// copies must not be used once that ends.
    #[inline]
    pub unsafe fn assume() -> Self {
        // INVARIANT: Required of the caller.
        Self::checked()
    }

    /// Makes the proof. A kernel with `CONFIG_DEBUG_ATOMIC_SLEEP` warns here if the context may not
    /// sleep.
    #[inline]
    fn checked() -> Self {
        #[cfg(CONFIG_DEBUG_ATOMIC_SLEEP)]
        super::might_sleep();
        Self(NotThreadSafe)
    }

    /// Takes the proof from the kiocb of a file operation that is being served.
    ///
    /// A driver or a file system gets a [`Kiocb`] for the duration of its `read_iter` or
    /// `write_iter`, and the kernel calls those only in process context without spin locks. Direct
    /// I/O carries a kiocb into interrupts as well, but as an [`Iocb`], which lends its [`Kiocb`]
    /// shared and never exclusively.
    ///
    /// [`Iocb`]: crate::iomap::kiocb::Iocb
    #[inline]
    pub fn from_kiocb<T>(_kiocb: &mut Kiocb<'_, T>) -> Self {
        // INVARIANT: The operation that the kiocb was borrowed for has not returned, and the value
        // stays on its thread.
        Self::checked()
    }
}
