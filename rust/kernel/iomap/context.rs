// SPDX-License-Identifier: GPL-2.0

//! Proof of the context that code runs in.
//!
//! A bio may end in hard interrupt context. What may block (page cache invalidation, a cache
//! flush, waiting, blocking allocation) therefore takes a [`MaySleep`], which only submission and
//! a work queue can produce.

use crate::types::NotThreadSafe;

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
        Self(NotThreadSafe)
    }
}
