// SPDX-License-Identifier: GPL-2.0
//! L2: a kiocb is completed once, or its result returned, and it is not touched after.

use kernel::iomap::kiocb::{
    Answer,
    DoneIocb,
    Queued, //
};

/// Completing is the last thing that is done with it.
pub fn touched(iocb: DoneIocb) {
    iocb.complete(0);
    let _pos = iocb.pos(); //~ E0382 iocb
}

/// What was completed is not returned.
pub fn completed_and_returned(iocb: DoneIocb) {
    iocb.complete(0);
    let _answer = iocb.answer(0); //~ E0382 iocb
}

/// What is returned is not completed.
pub fn returned_and_completed(iocb: DoneIocb) -> Answer {
    let answer = iocb.answer(0);
    iocb.complete(0); //~ E0382 iocb
    answer
}

/// Nobody else has a result to return.
pub fn forged() {
    let _answer = Answer(0); //~ E0423 private
}

/// Only what hands a request over says that it is queued.
pub fn forged_queue() {
    let _queued = Queued(()); //~ E0423 private
    let _queued = Queued::new(); //~ E0624 new
}
