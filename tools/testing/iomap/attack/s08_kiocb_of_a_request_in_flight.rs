// SPDX-License-Identifier: GPL-2.0
//! S8: a request owns its kiocb while its bios may be in flight, so no other code can end the kiocb, or
//! use it once it may be freed.

use kernel::{
    iomap::{
        bio::Buffers,
        bio_set::{
            Header,
            InFlight,
            Started,
            Unsubmitted, //
        },
        flags::EndIoFlags,
        kiocb::BusyIocb,
        ops::DioOps,
        request::{
            Operations,
            Submitter, //
        },
    },
    task::MaySleep, //
};

/// `Submitter::new()` consumes the kiocb.
pub fn begun<T: Operations>(iocb: BusyIocb<DioOps>, buffers: Buffers) -> Submitter<T> {
    let request = Submitter::new(iocb, buffers, None);
    let _told = iocb.end_io(0, 0, EndIoFlags::empty); //~ E0382 iocb
    request
}

/// The submission lends its kiocb, and does not give it away.
pub fn told<T: Operations>(request: &Submitter<T>) {
    let _told = request.iocb().end_io(0, 0, EndIoFlags::empty); //~ E0507 move
}

/// It cannot be exchanged for another kiocb.
pub fn exchanged<T: Operations>(request: &mut Submitter<T>, iocb: &mut BusyIocb<DioOps>) {
    core::mem::swap(request.iocb(), iocb); //~ E0308 types
}

/// `seal()` ends every reference to the kiocb.
pub fn after_seal<T: Operations>(request: Submitter<T>, sealed: T::Sealed) {
    let iocb = request.iocb();
    let _left = request.seal(sealed); //~ E0505 request
    iocb.stop_polling();
}

/// The same holds for a request of a single bio: before the bio is submitted,
pub fn before_start<H: Started>(mut bio: Unsubmitted<H>, iocb: &mut BusyIocb<H::Ops>) {
    core::mem::swap(bio.iocb(), iocb); //~ E0308 types
    bio.poll_for();
}

/// when `wait()` or `leave()` consumes the `InFlight`,
pub fn in_flight<H: Started>(flight: InFlight<H>, ctx: MaySleep) {
    let iocb = flight.iocb();
    let _ended = flight.wait(ctx); //~ E0505 flight
    iocb.stop_polling();
}

/// and while the bio is in flight.
pub fn exchanged_in_flight<H: Started>(flight: &mut InFlight<H>, iocb: &mut BusyIocb<H::Ops>) {
    core::mem::swap(flight.iocb(), iocb); //~ E0308 types
}
