// SPDX-License-Identifier: GPL-2.0
//! L2: a kiocb is completed once, or its result is returned, and it is not used afterwards.

use kernel::iomap::kiocb::{
    Answer,
    DoneIocb,
    Queued, //
};

/// Completion consumes the kiocb.
pub fn touched(iocb: DoneIocb) {
    iocb.complete(0);
    let _pos = iocb.ki_pos(); //~ E0382 iocb
}

/// The result of a completed request cannot be returned.
pub fn completed_and_returned(iocb: DoneIocb) {
    iocb.complete(0);
    let _answer = iocb.answer(0); //~ E0382 iocb
}

/// A request whose result is returned cannot be completed.
pub fn returned_and_completed(iocb: DoneIocb) -> Answer {
    let answer = iocb.answer(0);
    iocb.complete(0); //~ E0382 iocb
    answer
}

/// Other code cannot make an `Answer`.
pub fn forged() {
    let _answer = Answer(0); //~ E0423 private
}

/// Only handing over a request makes a `Queued`.
pub fn forged_queue() {
    let _queued = Queued(()); //~ E0423 private
    let _queued = Queued::new(); //~ E0624 new
}
