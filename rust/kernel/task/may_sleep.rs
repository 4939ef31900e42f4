// SPDX-License-Identifier: GPL-2.0

//! Proof of the context that code runs in.
//!
//! A bio may end in hard interrupt context. What may block (page cache invalidation, a cache
//! flush, waiting, blocking allocation) therefore takes a [`MaySleep`], which only submission, a
//! file operation and a work queue can produce.

use crate::{
    bindings,
    fs::Kiocb,
    types::NotThreadSafe, //
};

/// Proof that the current context may sleep.
///
/// The value cannot leave the thread that it was made on, so holding one says that this thread
/// was, and because nothing here disables preemption still is, in process context.
///
/// # Invariants
///
/// The current thread may sleep.
#[derive(Clone, Copy)]
pub struct MaySleep(NotThreadSafe);

impl MaySleep {
    /// Asserts that the current context may sleep.
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

    /// Makes the proof. A kernel that looks for sleeping in atomic context says where it is wrong.
    #[inline]
    fn checked() -> Self {
        #[cfg(CONFIG_DEBUG_ATOMIC_SLEEP)]
        super::might_sleep();
        Self(NotThreadSafe)
    }

    /// Sleeps, uninterruptibly and accounted as I/O, until `is_done` (`blk_io_schedule()`).
    ///
    /// Whoever makes it so wakes this task afterwards.
    pub(crate) fn sleep_until(self, is_done: impl Fn() -> bool) {
        loop {
            // SAFETY: The state is set back below.
            unsafe { bindings::set_current_state(bindings::TASK_UNINTERRUPTIBLE) };
            if is_done() {
                break;
            }
            // SAFETY: The context may sleep.
            unsafe { bindings::blk_io_schedule() };
        }
        // SAFETY: Always safe for the current task.
        unsafe { bindings::__set_current_state(bindings::TASK_RUNNING) };
    }

    /// Takes the proof from the kiocb of a file operation that is being served.
    ///
    /// A driver or a file system gets a [`Kiocb`] for the duration of its `read_iter` or
    /// `write_iter`, and those are only called in process context without spin locks. (Direct I/O
    /// carries a kiocb into interrupts as well, but as a [`BusyIocb`], which does not show it.)
    ///
    /// As with a mutex, taking a spin lock first and then doing what may sleep is a bug that types
    /// do not catch.
    ///
    /// [`BusyIocb`]: crate::iomap::kiocb::BusyIocb
    #[inline]
    pub fn from_kiocb<T>(_kiocb: &Kiocb<'_, T>) -> Self {
        // INVARIANT: The operation that the kiocb was borrowed for has not returned, and the value
        // stays on its thread.
        Self::checked()
    }
}
