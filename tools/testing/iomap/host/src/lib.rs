// SPDX-License-Identifier: GPL-2.0

//! The hand-over of requests, and the decisions of direct I/O, on the host.
//!
//! The files under test are those of the kernel, unchanged. Around them is what they expect of the
//! kernel: for [`handover`] that is `crate::sync::atomic`, made of `loom`, which runs a model through
//! every order of its atomic operations and every value that a load may see.

#![cfg(test)]

#[path = "../../../../../fs/iomap/direct_io/decide.rs"]
mod decide;
#[path = "../../../../../rust/kernel/iomap/handover.rs"]
mod handover;

mod models;
mod properties;
mod sync;
