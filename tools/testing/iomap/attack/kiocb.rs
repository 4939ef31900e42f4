// SPDX-License-Identifier: GPL-2.0
//! A kiocb is told of, completed and freed once, and by the request that owns it.

use kernel::{
    iomap::{
        bio_set::{
            InFlight,
            Unsubmitted, //
        },
        flags::EndIoFlags,
        kiocb::{
            Answer,
            BusyIocb,
            Callbacks,
            DoneIocb,
            Told, //
        },
        ops::{
            DioOps,
            EndIo, //
        },
        request::{
            Prepared,
            Submitter,
            Unique, //
        },
        worker::Operations,
    },
    iov::IovIter,
    task::MaySleep, //
};

// L1: `->end_io` is called once for each request.

/// `end_io()` consumes the kiocb with its callbacks.
pub fn twice(iocb: BusyIocb<DioOps>) -> Answer {
    let (told, _) = iocb.end_io(0, 0, EndIoFlags::empty);
    let _again = iocb.end_io(0, 0, EndIoFlags::empty); //~ E0382 iocb
    told.end_dio().answer(0)
}

/// The kiocb that it returns has no callbacks.
pub fn again(told: BusyIocb<Told>) -> Answer {
    let _again = told.end_io(0, 0, EndIoFlags::empty); //~ E0599 end_io
    told.end_dio().answer(0)
}

/// Nor is it the kiocb of another request.
pub fn again_without_callbacks(told: BusyIocb<Told>) {
    let _iocb = told.into_dio(); //~ E0599 into_dio
}

/// A request that may have bios is not refused, which would not tell the file system.
pub fn refused(iocb: BusyIocb<DioOps>) {
    let _answer = iocb.refuse(kernel::error::code::EIO); //~ E0599 refuse
}

/// Other code cannot call the callbacks directly.
pub fn aside(ops: &DioOps) {
    let _end_io = |iocb| ops.end_io(iocb, 0, 0, EndIoFlags::empty); //~ E0624 end_io
}

/// `inode_dio_end()` cannot come before `->end_io`.
pub fn untold(iocb: BusyIocb<DioOps>, request: BusyIocb<EndIo>) {
    let _done = iocb.end_dio(); //~ E0599 end_dio
    let _done = request.end_dio(); //~ E0599 end_dio
}

/// Cached pages cannot be dropped before `->end_io`, which makes the blocks valid.
pub fn dropped_early(iocb: BusyIocb<DioOps>, request: BusyIocb<EndIo>, ctx: MaySleep) {
    iocb.invalidate_written(1, ctx); //~ E0599 invalidate_written
    request.invalidate_written(1, ctx); //~ E0599 invalidate_written
}

/// A flush cannot come before `->end_io`, which sets the size of the file.
pub fn flushed_early(iocb: BusyIocb<DioOps>, ctx: MaySleep) {
    let _flushed = iocb.sync_written(1, ctx); //~ E0599 sync_written
}

// L2: a kiocb is completed once, or its result is returned, and it is not used afterwards.

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
    let _answer = Answer::new(0); //~ E0624 private
}

/// Only handing over a request makes one of a request that is queued.
pub fn forged_queue() {
    let _answer = Answer::queued(); //~ E0624 private
}

// N7, N10: a request has its own kiocb and its own answer: a submission has those of one only.

fn elsewhere<T: Send>(_: T) {}

/// Another thread gets no kiocb,
pub fn other_kiocb(iocb: BusyIocb<DioOps>) {
    elsewhere(iocb); //~ E0277 sent
}

/// no request that has ended,
pub fn other_request<T: Operations>(request: Unique<T>) {
    elsewhere(request); //~ E0277 sent
}

/// and no answer.
pub fn other_answer(answer: Answer) {
    elsewhere(answer); //~ E0277 sent
}

// N3: a synchronous kiocb is not queued, because nobody could complete it.

/// `submit()` waits for such a kiocb, so it returns more than an `Answer`.
pub fn given<T: Operations>(
    bio: Unsubmitted<T, ()>,
    read: T::SimpleRead,
    memory: IovIter<'_>,
    ctx: MaySleep,
) {
    let _answer = bio.submit(read, memory, ctx).into_raw(); //~ E0599 into_raw
}

/// `leave()` waits for it, so it wants the proof that it may.
pub fn left<T: Operations>(flight: InFlight<T>, memory: IovIter<'_>) {
    let _ended = flight.leave(memory); //~ E0061 argument
}

/// So does `seal()`.
pub fn sealed<T: Operations>(request: Submitter<'_, T>) {
    let _ended = request.seal(); //~ E0061 argument
}

// S8: a request owns its kiocb while its bios may be in flight, so no other code can end the kiocb,
// or use it once it may be freed.

/// `Submitter::new()` consumes the kiocb.
pub fn begun<T: Operations>(
    prepared: Prepared<T>,
    iocb: BusyIocb<DioOps>,
    dio: T,
    memory: IovIter<'_>,
) -> Submitter<'_, T> {
    let request = Submitter::new(prepared, iocb, dio, memory, false);
    let _told = iocb.end_io(0, 0, EndIoFlags::empty); //~ E0382 iocb
    request
}

/// The submission lends its kiocb, and does not give it away.
pub fn told<T: Operations>(request: &Submitter<'_, T>) {
    let _told = request.iocb().end_io(0, 0, EndIoFlags::empty); //~ E0507 move
}

/// It cannot be exchanged for another kiocb.
pub fn exchanged<T: Operations>(request: &mut Submitter<'_, T>, iocb: &mut BusyIocb<DioOps>) {
    core::mem::swap(request.iocb(), iocb); //~ E0308 types
}

/// `seal()` ends every reference to the kiocb.
pub fn after_seal<T: Operations>(request: Submitter<'_, T>, ctx: MaySleep) {
    let iocb = request.iocb();
    let _left = request.seal(ctx); //~ E0505 request
    iocb.stop_polling();
}

/// The same holds for a request of a single bio: before the bio is submitted,
pub fn before_start<T: Operations, O: Callbacks>(
    mut bio: Unsubmitted<T, O>,
    iocb: &mut BusyIocb<O>,
) {
    core::mem::swap(bio.iocb(), iocb); //~ E0308 types
    bio.poll_for();
}

/// when `wait()` or `leave()` consumes the `InFlight`,
pub fn in_flight<T: Operations>(flight: InFlight<T>, ctx: MaySleep) {
    let iocb = flight.iocb();
    let _ended = flight.wait(ctx); //~ E0505 flight
    iocb.stop_polling();
}

/// and while the bio is in flight.
pub fn exchanged_in_flight<T: Operations>(flight: &mut InFlight<T>, iocb: &mut BusyIocb<DioOps>) {
    core::mem::swap(flight.iocb(), iocb); //~ E0308 types
}
