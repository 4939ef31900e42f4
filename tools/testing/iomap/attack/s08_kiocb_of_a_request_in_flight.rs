// SPDX-License-Identifier: GPL-2.0
//! S8: the kiocb of a request in flight may be freed, so the submitter cannot use it.

use kernel::{
    iomap::{
        bio_set::{
            InFlight,
            Started, //
        },
        kiocb::{
            BusyIocb,
            Queued, //
        },
        ops::DioOps,
        request::{
            Operations,
            Submitter,
            Unique, //
        },
    },
    task::MaySleep, //
};

/// `seal()` moves the kiocb into the request.
pub fn polled<T: Operations<Sealed = BusyIocb<DioOps>>>(
    request: Submitter<T>,
    mut iocb: BusyIocb<DioOps>,
) -> Result<Unique<T>, Queued> {
    let sealed = request.seal(iocb);
    iocb.clear_polled_bio(); //~ E0382 iocb
    sealed
}

/// A reference to the header ends with the `InFlight`.
pub fn header<H: Started>(mut flight: InFlight<H>, ctx: MaySleep) {
    let header = flight.header_mut();
    let _ended = flight.wait(ctx); //~ E0505 flight
    let _header = header;
}
