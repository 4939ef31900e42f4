// SPDX-License-Identifier: GPL-2.0
//! L7: what may sleep takes the proof that it may.

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

/// Memory may fault.
pub fn fault(memory: &mut IovIter<'_>) {
    let _zeroed = memory.zero(1); //~ E0061 argument
}

/// A file system reads its metadata.
pub fn map(iter: &mut Iter<'_>) {
    let _mapped = iter.next(Ok(())); //~ E0061 argument
}

/// Pages are locked.
pub fn lock(bio: &mut Bio<Pinned>) {
    bio.set_pages_dirty(); //~ E0061 argument
}

/// Protection information is allocated.
pub fn allocate<C: Filled>(bio: &mut Bio<C>) {
    bio.protect(); //~ E0061 argument
}

/// A device may be busy.
pub fn submit<H: Started>(bio: Unsubmitted<H>, header: H) {
    let _flight = bio.start(header); //~ E0061 argument
}

/// Cached pages are under writeback.
pub fn drop_pages<O>(iocb: &BusyIocb<O>) {
    iocb.invalidate_written(1); //~ E0061 argument
}

/// A flush takes long.
pub fn flush(iocb: &DoneIocb) {
    let _flushed = iocb.sync_written(1); //~ E0061 argument
}
