// SPDX-License-Identifier: GPL-2.0
//! L2: a kiocb is completed once, and not touched after.

use kernel::iomap::kiocb::DoneIocb;

/// Completing is the last thing that is done with it.
pub fn attack(iocb: DoneIocb) -> i64 {
    iocb.complete(0);
    iocb.pos() //~ E0382 iocb
}
