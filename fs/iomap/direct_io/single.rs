// SPDX-License-Identifier: GPL-2.0

//! Single-bio requests and simple reads.
//!
//! The range of most requests, for example of a database, lies in one mapping and fits one bio.
//! Such a request needs no reference count and no allocation besides its bio and a bounce buffer:
//! its description is in the front pad of the bio. If a request turns out to need more, this module
//! undoes what it did, and [`super::mapping`], which handles every case, takes over.

#![forbid(unsafe_code)]

use super::{
    complete,
    decide::{
        self,
        CompWork, //
    },
    dio::{
        Dio,
        Kind,
        SimpleRead, //
    },
    SINGLES, //
};
use kernel::{
    block::{
        bio::OpFlags,
        plug::plugged, //
    },
    fs::IocbFlags,
    iomap::{
        bio_set::InFlight,
        flags::{
            CallerFlags,
            MapFlags, //
        },
        iter::{
            Extent,
            Mapping,
            Place,
            Whole, //
        },
        kiocb::{
            Answer,
            BusyIocb, //
        },
        ops::EndIo,
        stats::{
            self,
            Stat, //
        },
        trace, //
    },
    iov::{
        IovIter,
        Mark, //
    },
    prelude::*,
    task::MaySleep, //
};

/// Whether the mapping needs more than a single bio: protection information, which a worker of the
/// file system may have to check (`->submit_io`), or an address, which only that can assign.
#[inline(always)]
fn needs_more(extent: Extent<'_>) -> bool {
    extent
        .flags()
        .has(MapFlags::INTEGRITY | MapFlags::ANON_WRITE)
}

/// Submits all of a request as one bio, if the mapping at `place` and the memory allow that.
///
/// Otherwise returns the kiocb, with all effects undone: the memory is back at `mark`. With it
/// comes `EAGAIN` if the request must not block and would wait for memory here.
#[inline(always)]
pub(super) fn start<'m, const BOUNCED: bool>(
    iocb: BusyIocb<EndIo<BOUNCED>>,
    dio: &Dio,
    work: CompWork,
    place: &Place,
    memory: &mut IovIter<'m>,
    mark: Mark<'m>,
    ctx: MaySleep,
) -> Result<InFlight<Dio, BOUNCED>, (BusyIocb<EndIo<BOUNCED>>, Result)> {
    let (extent, unwritten) = match place.mapping() {
        Mapping::Mapped(extent) if !needs_more(extent) => (extent, false),
        Mapping::Unwritten(extent) if !needs_more(extent) => (extent, true),
        Mapping::Mapped(_)
        | Mapping::Unwritten(_)
        | Mapping::Hole
        | Mapping::Delalloc
        | Mapping::Inline(_)
        | Mapping::Unknown => return Err((iocb, Ok(()))),
    };
    let span = match extent.whole(dio.flags.has(CallerFlags::FSBLOCK_ALIGNED)) {
        Ok(span) if !place.has_source() => span,
        Ok(_) | Err(_) => return Err((iocb, Ok(()))),
    };
    let Ok((flags, more)) = dio.plan(&span, unwritten) else {
        return Err((iocb, Ok(())));
    };
    if dio.is_write() {
        let inode = place.inode();
        let (around, block_size) = (more.zeroes_around(), inode.block_size());
        let (pos, len) = (place.pos(), place.remaining());
        if decide::needs_zeroes(around, pos, len, block_size, || inode.size()) {
            return Err((iocb, Ok(())));
        }
    }

    let mut bio = match SINGLES.fill(iocb, &span, memory, flags, ctx) {
        Ok(bio) => bio,
        Err((iocb, error)) => {
            // Pinning may fail at a later segment, and leaves the iterator there.
            memory.rewind(mark, 0);
            let again = if error == EAGAIN && place.is_nowait() {
                Err(EAGAIN)
            } else {
                Ok(())
            };
            return Err((iocb, again));
        }
    };
    let work = work | more;
    let polled = bio.iocb().flags().has(IocbFlags::HIPRI);
    if polled {
        if !work.without(CompWork::SYNC).is_empty() {
            // A request with more work than a flush is not polled for.
            bio.iocb().stop_polling();
        } else {
            bio.poll_for();
        }
    }
    let mut dio = Dio {
        // CAST: All of a request, which is at most `isize::MAX`.
        size: bio.size() as isize,
        kind: Kind::new(BOUNCED, work),
        ..*dio
    };
    dio.set_through(flags);
    let flight = plugged(ctx, || bio.start(dio, ctx));
    if polled {
        // The caller polls for this bio only.
        flight.iocb().stop_polling();
    }
    Ok(flight)
}

/// Submits a simple read with the mapping at `place`.
///
/// The answer is `-ENOTBLK` if the read does not fit one bio; the caller then uses
/// `iomap_dio_rw()`.
#[inline(always)]
pub(crate) fn read(
    iocb: BusyIocb<()>,
    mut memory: IovIter<'_>,
    place: &Place,
    ctx: MaySleep,
) -> Answer {
    let (span, flags) = match check_read(&iocb, place, ctx) {
        Ok(checked) => checked,
        Err(error) => return iocb.refuse(error),
    };
    trace::begin(&iocb, &mut memory, CallerFlags::empty(), 0);
    let mut bio = match SINGLES.fill(iocb, &span, &mut memory, flags, ctx) {
        Ok(bio) => bio,
        Err((iocb, error)) => {
            if error == EAGAIN {
                stats::count(Stat::AgainMapping);
            }
            return iocb.refuse(error);
        }
    };
    let size = bio.size();
    bio.poll_for();
    match bio.submit(SimpleRead { size }, memory, ctx) {
        Ok((iocb, result)) => complete::answer_simple(SimpleRead { size }, iocb, result, ctx),
        Err(answer) => {
            trace::queued(|| (place.inode(), place.pos(), place.remaining()));
            answer
        }
    }
}

/// Checks whether a simple read can be made from the mapping. Returns all of it, and the flags of
/// the bio.
#[inline(always)]
fn check_read<'a>(
    iocb: &BusyIocb<()>,
    place: &'a Place,
    ctx: MaySleep,
) -> Result<(Whole<'a>, OpFlags)> {
    let extent = match place.mapping() {
        Mapping::Mapped(extent) if !extent.flags().has(MapFlags::INTEGRITY) => extent,
        Mapping::Mapped(_)
        | Mapping::Hole
        | Mapping::Delalloc
        | Mapping::Unwritten(_)
        | Mapping::Inline(_)
        | Mapping::Unknown => return Err(ENOTBLK),
    };
    let span = extent.whole(false)?;
    let flags = if iocb.is_sync() {
        OpFlags::SYNC
    } else {
        place.inode().ensure_dio_done_wq(ctx)?;
        OpFlags::empty()
    };
    // A device that cannot tell whether it would block refuses the flag.
    let nowait = place.is_nowait() && span.bdev().has_nowait();
    Ok((span, flags.with_if(nowait, OpFlags::NOWAIT)))
}
