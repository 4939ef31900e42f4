// SPDX-License-Identifier: GPL-2.0
//! S9: memory pinned for a write cannot become the target of a read, whose device would modify it.

use kernel::{
    block::bio::OpFlags,
    fs::IocbFlags, //
};

/// The memory determines the operation; there is no flag for it.
pub fn operation() {
    let _write = OpFlags::WRITE; //~ E0599 WRITE
    let _read = OpFlags::READ; //~ E0599 READ
}

/// Flags cannot be made from numbers.
pub fn word() {
    let _flags = OpFlags::from_raw(1); //~ E0599 from_raw
    let _flags = OpFlags(1); //~ E0423 private
    let _flags = OpFlags::SYNC | 1; //~ E0308 mismatched
}

/// There is no flag for polling: only `poll_for()` sets it, and stores the bio in the kiocb.
pub fn polled() {
    let _polled = OpFlags::POLLED; //~ E0599 POLLED
}

/// The flags of a kiocb come from the kiocb.
pub fn asked() {
    let _flags = IocbFlags::from_raw(1); //~ E0599 from_raw
    let _flags = IocbFlags(1); //~ E0423 private
}
