// SPDX-License-Identifier: GPL-2.0

//! The hand-over of requests, and the decisions of direct I/O, on the host.
//!
//! The files under test are those of the kernel, unchanged. Around them is what they expect of the
//! kernel: for [`handover`] that is `crate::sync::atomic` and `load_relaxed`, made of `loom`, which
//! runs a model through every order of its atomic operations and every value that a load may see.

#![cfg(test)]

#[path = "../../../../../fs/iomap/direct_io/decide.rs"]
mod decide;
#[path = "../../../../../rust/kernel/iomap/handover.rs"]
mod handover;

mod models;
mod properties;
mod sync;

/// As the function of this name in `rust/kernel/iomap.rs`.
fn load_relaxed<T: sync::atomic::AtomicType>(atomic: &sync::atomic::Atomic<T>) -> T {
    atomic.load(sync::atomic::Relaxed)
}
