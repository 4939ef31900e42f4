// SPDX-License-Identifier: GPL-2.0

//! Tests of the hand-over protocols and of the rules of direct I/O on the host.
//!
//! The files under test are the unchanged files of the kernel. This crate provides the parts of the
//! kernel that they use: [`handover`] needs `crate::sync::atomic`, which is implemented with
//! `loom`. `loom` executes a model in every order of its atomic operations, with every value that a
//! load may return.

#![cfg(test)]

extern crate self as kernel;

#[path = "../../../../../fs/iomap/direct_io/decide.rs"]
mod decide;
#[path = "../../../../../rust/kernel/flag_word.rs"]
mod flag_word;
#[path = "../../../../../rust/kernel/iomap/handover.rs"]
mod handover;

mod models;
mod properties;
mod task;

/// The parts of `kernel::sync` that the tests need.
mod sync {
    pub(crate) mod atomic;
}
