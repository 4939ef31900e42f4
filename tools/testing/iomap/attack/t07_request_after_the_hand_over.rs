// SPDX-License-Identifier: GPL-2.0
//! T7: nothing can be done with a request that was given up.

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

/// Whoever leaves a request of a single bio has no name for it any more.
pub fn after_leave<H: Started>(flight: InFlight<H>) -> Result<Single<H>, Queued> {
    let ended = flight.leave();
    let _iocb = flight.iocb(); //~ E0382 flight
    ended
}

/// It is left once, or waited for.
pub fn both<H: Started>(flight: InFlight<H>, ctx: MaySleep) -> Result<Single<H>, Queued> {
    let ended = flight.leave();
    let _ended = flight.wait(ctx); //~ E0382 flight
    ended
}

/// So it is with a request of several.
pub fn after_seal<T: Operations>(
    request: Submitter<T>,
    sealed: T::Sealed,
) -> Result<Ended<T>, Queued> {
    let sealed = request.seal(sealed);
    let _failed = request.has_failed(); //~ E0382 request
    sealed
}
