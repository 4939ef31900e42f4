// SPDX-License-Identifier: GPL-2.0

//! Whole requests on the host, in many orders of their threads.
//!
//! The unchanged files of direct I/O and of the abstractions under it are compiled here. This crate
//! stands in for the `kernel` crate that they use, and for the C code that they call:
//!
//! * `upstream`: the parts of the kernel crate that are not ours.
//! * [`bindings`]: C, as far as it is called: memory, bios, a device, a page cache, the scheduler.
//! * [`engine`]: threads that are switched by `shuttle`, and memory that traps.
//! * `scenario`: what a request is like, who does something to it, and what has to come of it.
//!
//! `shuttle` executes a schedule sequentially consistent: what it finds are wrong orders of steps. The
//! memory model is the part of the models beside it.

#![cfg(test)]
// Not all of the kernel's files is in use here.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    clippy::all,
    static_mut_refs,
    nonstandard_style
)]

extern crate self as kernel;

#[macro_use]
mod upstream;
#[macro_use]
mod bindings;
#[path = "../../../../../fs/iomap/direct_io.rs"]
mod direct_io;
mod engine;
#[path = "../../../../../rust/kernel/flag_word.rs"]
mod flag_word;
mod scenario;

use std::ffi;
use upstream::{alloc, bits, error, page, pin_init, prelude, sync, tracepoint, types, workqueue};

#[path = "../../../../../rust/kernel/block"]
pub(crate) mod block {
    pub(crate) const SECTOR_SHIFT: u32 = 9;

    pub mod bdev;
    pub mod bio;
    pub mod plug;
}

#[path = "../../../../../rust/kernel/fs"]
pub(crate) mod fs {
    pub mod inode;
    pub(crate) mod kiocb {
        pub use crate::upstream::Kiocb;

        mod request;
        pub use request::IocbFlags;
    }
    pub use kiocb::{IocbFlags, Kiocb};
}

#[path = "../../../../../rust/kernel/iomap"]
pub(crate) mod iomap {
    pub mod bio;
    pub mod bio_set;
    pub mod flags;
    mod handover;
    pub mod iter;
    pub mod kiocb;
    pub mod ops;
    pub mod request;
    pub mod stats;
    pub mod trace;
    pub mod worker;
}

#[path = "../../../../../rust/kernel/iov"]
pub(crate) mod iov {
    mod iter;
    pub use iter::{IovIter, Mark};
}

#[path = "../../../../../rust/kernel/task"]
pub(crate) mod task {
    mod may_sleep;
    pub use crate::upstream::Task;
    pub use may_sleep::MaySleep;
}
