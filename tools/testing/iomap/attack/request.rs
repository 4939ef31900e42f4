// SPDX-License-Identifier: GPL-2.0
//! A request that was handed over, or is waited for, is out of the hands of its submitter.

use kernel::{
    error::code::EIO,
    iomap::{
        bio_set::{
            InFlight,
            Unsubmitted, //
        },
        kiocb::Answer,
        request::{
            Submitter,
            Unique, //
        },
        worker::Operations, //
    },
    iov::IovIter,
    task::MaySleep, //
};

// S3: a task that waits for a request cannot stop waiting before the request ends.

/// `wait()` consumes the submission and returns the ended request, with nothing in between.
pub fn while_waiting<T: Operations>(request: Submitter<'_, T>, ctx: MaySleep) -> Unique<T> {
    let ended = request.wait(ctx);
    request.record_error(EIO); //~ E0382 request
    ended
}

/// A sealed request cannot be waited for.
pub fn left_and_waited<T: Operations>(
    request: Submitter<'_, T>,
    ctx: MaySleep,
) -> Result<Unique<T>, Answer> {
    let left = request.seal(ctx);
    let _ended = request.wait(ctx); //~ E0382 request
    left
}

/// A request that may have bios in flight cannot be freed.
pub fn freed<T: Operations>(request: Submitter<'_, T>, ctx: MaySleep) -> Result<Unique<T>, Answer> {
    let _sealed = request.into_parts(); //~ E0599 into_parts
    request.seal(ctx)
}

/// A request that was handed over cannot be freed.
pub fn freed_after(answer: Answer) -> isize {
    let _sealed = answer.into_parts(); //~ E0599 into_parts
    answer.into_raw()
}

// Requests that have ended are apart: each has its own kiocb.

/// Whoever owns two of them cannot exchange their kiocbs.
pub fn exchanged<T: Operations>(one: &mut Unique<T>, other: &mut Unique<T>) {
    core::mem::swap(one.parts().0, other.parts().0); //~ E0308 arguments
}

// A worker would complete a request while its submission still has the memory of the caller.

/// Only the end of a bio punts a request.
pub fn punted<T: Operations>(request: Submitter<'_, T>, ctx: MaySleep) {
    request.wait(ctx).punt(); //~ E0624 punt
}

// S11: references made without a bio and forgotten would wrap the count.

/// Only the submission of a bio makes a reference.
pub fn attack<T: Operations>(submitter: &Submitter<'_, T>) {
    core::mem::forget(submitter.bio_ref()); //~ E0624 bio_ref
}

// T7: the submitter cannot use a request that it has handed over.

/// `leave()` consumes the `InFlight`.
pub fn after_leave<T: Operations>(flight: InFlight<T>, memory: IovIter<'_>, ctx: MaySleep) {
    let _ended = flight.leave(memory, ctx);
    let _iocb = flight.iocb(); //~ E0382 flight
}

/// A request that was left cannot be waited for.
pub fn both<T: Operations>(flight: InFlight<T>, memory: IovIter<'_>, ctx: MaySleep) {
    let _left = flight.leave(memory, ctx);
    let _ended = flight.wait(ctx); //~ E0382 flight
}

// A request that is over has no memory any more: its caller may have freed it.

/// `leave()` takes the memory, and returns it with the request only,
pub fn memory_after_leave<T: Operations>(flight: InFlight<T>, memory: IovIter<'_>, ctx: MaySleep) {
    if flight.leave(memory, ctx).is_err() {
        let _left = memory.len(); //~ E0382 memory
    }
}

/// and `submit()` does not return it.
pub fn memory_after_submit<T: Operations>(
    bio: Unsubmitted<T, ()>,
    read: T::SimpleRead,
    mut memory: IovIter<'_>,
    ctx: MaySleep,
) {
    let _submitted = bio.submit(read, memory, ctx);
    memory.advance(1); //~ E0382 memory
}

/// `seal()` consumes the `Submitter`.
pub fn after_seal<T: Operations>(
    request: Submitter<'_, T>,
    ctx: MaySleep,
) -> Result<Unique<T>, Answer> {
    let sealed = request.seal(ctx);
    let _failed = request.has_failed(); //~ E0382 request
    sealed
}
