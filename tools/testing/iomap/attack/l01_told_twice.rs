// SPDX-License-Identifier: GPL-2.0
//! L1: a file system is told of the end of a request once.

use kernel::iomap::{
    flags::EndIoFlags,
    kiocb::{
        Answer,
        BusyIocb, //
    },
    ops::DioOps, //
};

/// Telling it takes the callbacks away.
pub fn twice(iocb: BusyIocb<DioOps>) -> Answer {
    let (told, _) = iocb.end_io(0, 0, EndIoFlags::empty);
    let _again = iocb.end_io(0, 0, EndIoFlags::empty); //~ E0382 iocb
    told.end_dio().answer(0)
}

/// What is left cannot tell it.
pub fn again(told: BusyIocb<()>) -> Answer {
    let _again = told.end_io(0, 0, EndIoFlags::empty); //~ E0599 end_io
    told.end_dio().answer(0)
}

/// Nor can the callbacks be called without a kiocb.
pub fn aside(ops: &DioOps) {
    let _end_io = |iocb| ops.end_io(iocb, 0, 0, EndIoFlags::empty); //~ E0624 end_io
}

/// The count is given back after.
pub fn untold(iocb: BusyIocb<DioOps>) -> Answer {
    let _done = iocb.end_dio(); //~ E0599 end_dio
    iocb.refuse(kernel::error::code::EIO)
}
