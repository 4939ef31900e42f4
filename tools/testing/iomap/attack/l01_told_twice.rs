// SPDX-License-Identifier: GPL-2.0
//! L1: `->end_io` is called once for each request.

use kernel::iomap::{
    flags::EndIoFlags,
    kiocb::{
        Answer,
        BusyIocb, //
    },
    ops::DioOps, //
};

/// `end_io()` consumes the kiocb with its callbacks.
pub fn twice(iocb: BusyIocb<DioOps>) -> Answer {
    let (told, _) = iocb.end_io(0, 0, EndIoFlags::empty);
    let _again = iocb.end_io(0, 0, EndIoFlags::empty); //~ E0382 iocb
    told.end_dio().answer(0)
}

/// The kiocb that it returns has no callbacks.
pub fn again(told: BusyIocb<()>) -> Answer {
    let _again = told.end_io(0, 0, EndIoFlags::empty); //~ E0599 end_io
    told.end_dio().answer(0)
}

/// Other code cannot call the callbacks directly.
pub fn aside(ops: &DioOps) {
    let _end_io = |iocb| ops.end_io(iocb, 0, 0, EndIoFlags::empty); //~ E0624 end_io
}

/// `inode_dio_end()` cannot come before `->end_io`.
pub fn untold(iocb: BusyIocb<DioOps>) -> Answer {
    let _done = iocb.end_dio(); //~ E0599 end_dio
    iocb.refuse(kernel::error::code::EIO)
}
