// SPDX-License-Identifier: GPL-2.0
//! S3: a task that waits for a request cannot stop waiting before the request ends.

use kernel::{
    error::code::EIO,
    iomap::{
        kiocb::Queued,
        request::{
            Ended,
            Operations,
            Submitter, //
        },
    },
    task::MaySleep, //
};

/// `wait()` consumes the submission and returns the ended request, with nothing in between.
pub fn while_waiting<T: Operations>(
    request: Submitter<T>,
    sealed: T::Sealed,
    ctx: MaySleep,
) -> Ended<T> {
    let ended = request.wait(sealed, ctx);
    request.record_error(EIO); //~ E0382 request
    ended
}

/// A sealed request cannot be waited for.
pub fn left_and_waited<T: Operations>(
    request: Submitter<T>,
    sealed: T::Sealed,
    other: T::Sealed,
    ctx: MaySleep,
) -> Result<Ended<T>, Queued> {
    let left = request.seal(sealed);
    let _ended = request.wait(other, ctx); //~ E0382 request
    left
}

/// A request that may have bios in flight cannot be freed.
pub fn freed<T: Operations>(request: Submitter<T>, sealed: T::Sealed) -> Result<Ended<T>, Queued> {
    let _sealed = request.into_parts(); //~ E0599 into_parts
    request.seal(sealed)
}

/// A request that was handed over cannot be freed.
pub fn freed_after(queued: Queued) -> isize {
    let _sealed = queued.into_parts(); //~ E0599 into_parts
    queued.answer().into_raw()
}
