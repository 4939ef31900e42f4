// SPDX-License-Identifier: GPL-2.0
//! What may sleep has proof that it may.

use kernel::{
    block::{
        bio::OpFlags,
        plug::plugged, //
    },
    iomap::{
        bio::Template,
        bio_set::Unsubmitted,
        iter::{
            Iter,
            Span, //
        },
        kiocb::{
            BusyIocb,
            DoneIocb,
            Told, //
        },
        ops::EndIo,
        request::{
            Cache,
            Submitter,
            Unique, //
        },
        worker::Operations, //
    },
    iov::IovIter,
    task::MaySleep,
    workqueue::RawWorkItem, //
};

// L7: functions that may sleep take a `MaySleep` argument.

/// Access to user memory may fault.
pub fn fault(memory: &mut IovIter<'_>) {
    let _zeroed = memory.zero(1); //~ E0061 argument
}

/// A file system may read its metadata.
pub fn map(iter: &mut Iter<'_>) {
    let _mapped = iter.next(Ok(())); //~ E0061 argument
}

/// Building a bio may wait for memory, and lock pages.
pub fn build<T: Operations>(request: &mut Submitter<'_, T>, span: Span<'_>) {
    let _bios = Template::new(request, span, OpFlags::SYNC); //~ E0061 argument
}

/// Submission may wait for the device.
pub fn submit<T: Operations>(bio: Unsubmitted<T, EndIo>, dio: T) {
    let _flight = bio.start(dio); //~ E0061 argument
}

/// Memory for the cache may have to be freed first.
pub fn cache<T: Operations>(cache: &'static Cache<T>) {
    let _ready = cache.init(c"cache"); //~ E0061 argument
}

/// A kiocb, whose bios end in an interrupt, is no proof (N1).
pub fn proof<O>(iocb: &mut BusyIocb<O>) {
    let _ctx = MaySleep::from_kiocb::<()>(iocb); //~ E0599 from_kiocb
}

/// Dropping cached pages may wait for writeback.
pub fn drop_pages(iocb: &BusyIocb<Told>) {
    iocb.invalidate_written(1); //~ E0061 argument
}

/// A plug belongs to the current task, and passes bios to the driver.
pub fn plug() {
    plugged(|| ()); //~ E0061 argument
}

/// A flush waits for the device.
pub fn flush(iocb: &DoneIocb) {
    let _flushed = iocb.sync_written(1); //~ E0061 argument
}

// S12: a request on a work queue that runs in soft interrupts would get a false `MaySleep`.

fn item<W: RawWorkItem<0>>(_: W) {}

/// Only `punt()` queues a request.
pub fn queued<T: Operations>(request: Unique<T>) {
    item(request); //~ E0277 RawWorkItem
}

/// Making a `MaySleep` from nothing is `unsafe`.
pub fn assumed() {
    let _ctx = MaySleep::assume(); //~ E0133 unsafe
}

// T6: a `MaySleep` is valid on one thread only.

fn elsewhere<T: Send>(_: T) {}

/// Other threads cannot get the value.
pub fn attack(ctx: MaySleep) {
    elsewhere(ctx); //~ E0277 sent
}
