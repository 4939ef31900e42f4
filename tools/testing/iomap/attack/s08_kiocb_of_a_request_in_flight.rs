// SPDX-License-Identifier: GPL-2.0
//! S8: the kiocb of a request in flight may be freed, so nobody polls for it.

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

/// The kiocb goes with the request.
pub fn polled<T: Operations<Sealed = BusyIocb<DioOps>>>(
    request: Submitter<T>,
    mut iocb: BusyIocb<DioOps>,
) -> Result<Unique<T>, Queued> {
    let sealed = request.seal(iocb);
    iocb.clear_polled_bio(); //~ E0382 iocb
    sealed
}

/// So does what is known of it by its header.
pub fn header<H: Started>(mut flight: InFlight<H>, ctx: MaySleep) {
    let header = flight.header_mut();
    let _ended = flight.wait(ctx); //~ E0505 flight
    let _header = header;
}
