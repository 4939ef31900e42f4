// SPDX-License-Identifier: GPL-2.0
//! T7: the submitter cannot use a request that it has handed over.

use kernel::{
    iomap::{
        bio_set::{
            InFlight,
            Single,
            Started, //
        },
        kiocb::Queued,
        request::{
            Ended,
            Operations,
            Submitter, //
        },
    },
    task::MaySleep, //
};

/// `leave()` consumes the `InFlight`.
pub fn after_leave<H: Started>(flight: InFlight<H>) -> Result<Single<H>, Queued> {
    let ended = flight.leave();
    let _iocb = flight.iocb(); //~ E0382 flight
    ended
}

/// A request that was left cannot be waited for.
pub fn both<H: Started>(flight: InFlight<H>, ctx: MaySleep) -> Result<Single<H>, Queued> {
    let ended = flight.leave();
    let _ended = flight.wait(ctx); //~ E0382 flight
    ended
}

/// `seal()` consumes the `Submitter`.
pub fn after_seal<T: Operations>(
    request: Submitter<T>,
    sealed: T::Sealed,
) -> Result<Ended<T>, Queued> {
    let sealed = request.seal(sealed);
    let _failed = request.has_failed(); //~ E0382 request
    sealed
}
