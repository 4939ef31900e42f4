// SPDX-License-Identifier: GPL-2.0

//! Proof of the context that code runs in.
//!
//! A bio may end in hard interrupt context. A function that may block (page cache invalidation, a
//! cache flush, waiting, blocking allocation) therefore takes a [`MaySleep`] argument, and only
//! functions that C calls in process context make one.
//!
//! C header: [`include/linux/kernel.h`](srctree/include/linux/kernel.h).

use crate::types::NotThreadSafe;

/// Proof that the current context may sleep.
///
/// The value cannot leave the thread that made it. That thread was in process context then, and
/// still is, because code that disables preemption enables it again in the same function. As with
/// a mutex, taking a spin lock first and then calling a function that may sleep is a bug that the
/// types do not catch. A kernel with `CONFIG_DEBUG_ATOMIC_SLEEP` checks each proof when it is made
/// (`might_sleep()`).
///
/// The context may also wait for I/O: it is not within the submission of a bio, where others are
/// submitted only when that returns (`current->bio_list`). That is checked as well.
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
///     iov::IovIter,
///     task::MaySleep,
/// };
///
/// /// User memory may come from a swap device: the caller has to show that it may sleep.
/// fn clear(memory: &mut IovIter<'_>, ctx: MaySleep) -> bool {
///     memory.zero(u64::MAX, ctx);
///     memory.is_empty()
/// }
/// ```
#[derive(Clone, Copy)]
pub struct MaySleep(NotThreadSafe);

impl MaySleep {
    /// Asserts that the current context may sleep.
    ///
    /// For code that C calls, such as a work function or a file system's direct I/O entry point. A
    /// kernel with `CONFIG_DEBUG_ATOMIC_SLEEP` warns here if the context may not sleep.
    ///
    /// # Safety
    ///
    /// The caller must be in process context, hold no spin lock, not be within the submission of a
    /// bio, and the returned value and its copies must not be used once that ends.
    #[inline]
    pub unsafe fn assume() -> Self {
        #[cfg(CONFIG_DEBUG_ATOMIC_SLEEP)]
        {
            super::might_sleep();
            // SAFETY: The current task is there, and only it changes the field.
            let submitted = unsafe { (*super::Task::current_raw()).bio_list };
            crate::warn_on!(!submitted.is_null());
        }
        // INVARIANT: Required of the caller.
        Self(NotThreadSafe)
    }
}
