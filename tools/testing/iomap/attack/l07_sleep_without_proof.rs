// SPDX-License-Identifier: GPL-2.0
//! L7: functions that may sleep take a `MaySleep` argument.

use kernel::{
    block::bio::{
        Bio,
        Filled,
        Pinned, //
    },
    iomap::{
        bio_set::{
            Started,
            Unsubmitted, //
        },
        iter::Iter,
        kiocb::{
            BusyIocb,
            DoneIocb, //
        },
    },
    iov::IovIter, //
};

/// Access to user memory may fault.
pub fn fault(memory: &mut IovIter<'_>) {
    let _zeroed = memory.zero(1); //~ E0061 argument
}

/// A file system may read its metadata.
pub fn map(iter: &mut Iter<'_>) {
    let _mapped = iter.next(Ok(())); //~ E0061 argument
}

/// Locking a page may sleep.
pub fn lock(bio: &mut Bio<Pinned>) {
    bio.set_pages_dirty(); //~ E0061 argument
}

/// Allocating protection information may sleep.
pub fn allocate<C: Filled>(bio: &mut Bio<C>) {
    bio.protect(); //~ E0061 argument
}

/// Submission may wait for the device.
pub fn submit<H: Started>(bio: Unsubmitted<H>, header: H) {
    let _flight = bio.start(header); //~ E0061 argument
}

/// Dropping cached pages may wait for writeback.
pub fn drop_pages<O>(iocb: &BusyIocb<O>) {
    iocb.invalidate_written(1); //~ E0061 argument
}

/// A flush waits for the device.
pub fn flush(iocb: &DoneIocb) {
    let _flushed = iocb.sync_written(1); //~ E0061 argument
}
