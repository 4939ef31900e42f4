// SPDX-License-Identifier: GPL-2.0
//! S9: a device that writes to memory which was pinned to be read would change pages of others.

use kernel::{
    block::bio::OpFlags,
    iomap::flags::IocbFlags, //
};

/// The operation follows from the memory.
pub fn operation() {
    let _write = OpFlags::WRITE; //~ E0599 WRITE
    let _read = OpFlags::READ; //~ E0599 READ
}

/// What else a bio is to be has a name.
pub fn word() {
    let _flags = OpFlags::from_raw(1); //~ E0599 from_raw
    let _flags = OpFlags(1); //~ E0423 private
    let _flags = OpFlags::SYNC | 1; //~ E0308 mismatched
}

/// Only a bio that its kiocb names is polled for.
pub fn polled() {
    let _polled = OpFlags::POLLED; //~ E0599 POLLED
}

/// What a kiocb asks for is asked by the kiocb.
pub fn asked() {
    let _flags = IocbFlags::from_raw(1); //~ E0624 from_raw
}
