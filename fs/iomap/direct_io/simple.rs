// SPDX-License-Identifier: GPL-2.0

//! The simple read: one block, one mapping, one bio.
//!
//! Most reads of a database are this small. Such a request needs no allocation besides its bio, in
//! front of which it is described, and no reference count: the bio's end is the request's end. The
//! inline function `iomap_dio_read_simple()` in the C header sorts out what can be such a read and
//! has asked the file system for the mapping; whatever turns out not to fit goes back with
//! `ENOTBLK` and is submitted like any other request.

use super::{
    complete::{
        At,
        Finishing, //
    },
    decide,
    travel::{
        Pages,
        SimpleBio,
        Travel, //
    },
    warn_once,
};
use kernel::{
    iomap::{
        bio_set::{
            Header,
            HeaderSet,
            Single,
            Wait, //
        },
        context::MaySleep,
        flags::{
            BeginFlags,
            CallerFlags,
            IocbFlags,
            MapFlags,
            Opf, //
        },
        inode::{
            DoneQueue,
            Inode, //
        },
        iov_iter::IovIter,
        iter::{
            Place,
            Type, //
        },
        kiocb::{
            BusyIocb,
            DoneIocb, //
        },
        ops::DioOps,
        trace, //
    },
    prelude::*, //
};

/// Bios that are kept in reserve, so that an allocation that may wait cannot fail.
pub(crate) const RESERVE: u32 = 4;

/// The bios of simple reads.
pub(crate) static BIOS: HeaderSet<SimpleRead> = HeaderSet::new();

/// A simple read, as it is described in front of its bio.
pub(crate) struct SimpleRead {
    iocb: BusyIocb,
    /// Bytes.
    size: u32,
    pages: Pages,
}

/// What became of a simple read.
pub(crate) enum Outcome {
    /// It is over, with this result: bytes, or a negative errno.
    Done(isize),
    /// It is in flight and will complete by itself.
    Queued,
}

/// Submits the read that `place` describes, into `memory`.
pub(crate) fn read(
    mut iocb: BusyIocb,
    inode: &Inode,
    memory: &mut IovIter<'_>,
    place: &Place,
    ctx: MaySleep,
) -> Result<Outcome> {
    let (pos, len) = (place.pos(), place.remaining());
    let extent = match place.mapping_type() {
        Type::Mapped => place.extent().ok_or(ENOTBLK)?,
        _ => return Err(ENOTBLK),
    };
    // CAST: Positions are not negative.
    if extent.end() < (pos as u64).wrapping_add(len) || extent.flags().has(MapFlags::INTEGRITY) {
        return Err(ENOTBLK);
    }
    let bdev = extent.bdev();
    let alignment = bdev.logical_block_size();
    if !decide::is_aligned(pos, len, alignment) {
        return Err(EINVAL);
    }

    let sync = iocb.is_sync();
    if !sync {
        inode.ensure_done_queue(ctx)?;
    }
    trace::begin(&iocb, memory, CallerFlags::empty(), 0);

    let nowait = place.begin_flags().has(BeginFlags::NOWAIT);
    let wait = if nowait {
        Wait::Never
    } else {
        Wait::Allowed(ctx)
    };
    let mut bio = BIOS.alloc(bdev, memory, Opf::READ, &iocb, wait)?;
    bio.set_sector(extent.sector(pos));
    let mut bio = bio.pin(memory, bdev, alignment)?;
    let size = bio.size();
    if u64::from(size) != len {
        // CAST: Widening.
        memory.revert(size as usize);
        return Err(ENOTBLK);
    }

    let pages = Pages::new(memory.is_user_backed());
    if pages == Pages::Dirtied {
        bio.set_pages_dirty(ctx);
    }
    // A device that cannot tell whether it would block refuses the flag.
    if nowait && bdev.has_nowait() {
        bio.add_flags(Opf::NOWAIT);
    }

    if sync {
        let request = bio.submit_and_wait(SimpleRead { iocb, size, pages }, ctx);
        let (_iocb, result) = conclude(request, At::Process(ctx));
        return Ok(Outcome::Done(result));
    }
    if iocb.flags().has(IocbFlags::HIPRI) {
        bio.set_polled(&mut iocb);
    }
    bio.submit(SimpleRead { iocb, size, pages });
    trace::queued(inode, pos, len);
    Ok(Outcome::Queued)
}

impl Header for SimpleRead {
    #[inline]
    fn ended(mut request: Single<Self>) {
        if request.has_failed() {
            // An error is reported in process context.
            match request.punt() {
                Ok(()) => return,
                Err(back) => {
                    // The queue was made before the first asynchronous request was submitted.
                    warn_once!();
                    request = back;
                }
            }
        }
        deliver(request, At::BioEnd(None));
    }

    fn queue(&self) -> Option<DoneQueue<'_>> {
        self.iocb.inode().done_queue()
    }

    fn punted(request: Single<Self>, ctx: MaySleep) {
        deliver(request, At::Process(ctx));
    }
}

/// Completes an asynchronous read and tells its kiocb.
#[inline]
fn deliver(mut request: Single<SimpleRead>, at: At) {
    request.header_mut().iocb.clear_polled_bio();
    let (iocb, result) = conclude(request, at);
    iocb.complete(result);
}

#[inline]
fn conclude(request: Single<SimpleRead>, at: At) -> (DoneIocb, isize) {
    let (SimpleRead { iocb, size, pages }, bio) = request.into_parts();
    let result = bio.result();
    Finishing {
        iocb,
        dio_ops: DioOps::none(),
        travel: Travel::Simple(SimpleBio { bio, pages }),
        // CAST: At most a block.
        size: size as isize,
        done_before: 0,
        fsblock_aligned: false,
    }
    .conclude(result, at)
}
