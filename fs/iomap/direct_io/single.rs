// SPDX-License-Identifier: GPL-2.0

//! Requests of a single bio.
//!
//! Most I/O of a database is in one mapping and fits one bio. Such a request needs no allocation
//! besides its bio, in front of which it is described, and no reference count. What turns out to be
//! more than that is undone and left to [`super::mapping`], which can do everything; so nothing here
//! has to fail.

#![forbid(unsafe_code)]

use super::{
    complete::{
        self,
        Finishing,
        SimpleRead, //
    },
    decide::{
        self,
        Durability,
        Owed, //
    },
    submit::{
        Request,
        QUEUED, //
    },
    travel::{
        Transfer,
        Travel, //
    },
    SIMPLE_READS,
    SINGLES, //
};
use kernel::{
    iomap::{
        bio::MAX_VECS,
        bio_set::{
            InFlight,
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
        iov_iter::IovIter,
        iter::{
            Extent,
            Place,
            Type, //
        },
        kiocb::BusyIocb,
        trace, //
    },
    prelude::*, //
};

/// What kind of bio a request gets.
struct Plan {
    opf: Opf,
    transfer: Transfer,
    owed: Owed,
    /// The device's cache is flushed after.
    flush: bool,
    /// The rest of the first and of the last block has to be zeroed.
    zero_around: bool,
}

impl Plan {
    /// The bio of a request that asks for nothing special.
    #[inline(always)]
    fn new(request: &Request<'_>) -> Self {
        let (opf, transfer) = if request.is_write() {
            (Opf::WRITE, Transfer::Write { through: false })
        } else {
            (Opf::READ, Transfer::Read)
        };
        Self {
            opf: opf | Opf::SYNC | Opf::IDLE,
            transfer,
            owed: request.owed,
            flush: false,
            zero_around: false,
        }
    }

    /// What else there is to it because of the mapping, or of what the request asks for. Returns
    /// whether a single bio can do that.
    #[cold]
    #[inline(never)]
    fn specialize(&mut self, request: &Request<'_>, extent: Extent<'_>) -> bool {
        let unwritten = match extent.mapping_type() {
            Type::Mapped => false,
            Type::Unwritten => true,
            _ => return false,
        };
        let flags = extent.flags();
        if flags.has(MapFlags::INTEGRITY | MapFlags::ANON_WRITE) {
            return false;
        }
        if !request.is_write() {
            // What was never written is not read either.
            return !unwritten;
        }
        let plan = request.plan_write(extent, unwritten);
        self.opf = self
            .opf
            .with_if(flags.has(MapFlags::ATOMIC_BIO), Opf::ATOMIC)
            .with_if(plan.fua, Opf::FUA);
        self.transfer = Transfer::Write {
            through: plan.durability == Durability::WrittenThrough,
        };
        self.owed = self.owed.and(plan.owed);
        self.flush = plan.durability == Durability::Flush;
        self.zero_around = plan.zero_around;
        true
    }
}

/// Submits all of a request as one bio, if the mapping at `place` and the memory allow that.
///
/// Otherwise the kiocb is given back, and everything is as before.
#[inline(always)]
pub(super) fn start(
    request: &Request<'_>,
    mut iocb: BusyIocb,
    place: &Place,
    memory: &mut IovIter<'_>,
) -> Result<InFlight<Finishing>, BusyIocb> {
    let ctx = request.ctx;
    let inode = request.inode();
    let (pos, len) = (place.pos(), place.remaining());

    let Some(extent) = place.extent() else {
        return Err(iocb);
    };
    let bdev = extent.bdev();
    let alignment = request.alignment(bdev);
    if !extent.holds(pos, len) || !decide::is_aligned(pos, len, alignment) {
        return Err(iocb);
    }
    let mut plan = Plan::new(request);
    if !request.is_ordinary(extent) && !plan.specialize(request, extent) {
        return Err(iocb);
    }
    if request.is_write() {
        let block_size = inode.block_size();
        if decide::needs_zeroes(plan.zero_around, pos, len, block_size, || inode.size()) {
            return Err(iocb);
        }
    }

    let mark = memory.mark();
    // As many as there can be are as good as too many.
    let Ok(mut bio) = SINGLES.alloc(
        bdev,
        memory,
        plan.opf,
        MAX_VECS - 1,
        &iocb,
        Wait::Allowed(ctx),
    ) else {
        return Err(iocb);
    };
    bio.set_sector(extent.sector(pos));
    bio.set_write_hint(inode);
    if inode.is_encrypted() {
        bio.set_crypt_ctx(inode, pos, ctx);
    }
    let bio = bio.pin(memory, bdev, alignment);
    let mut bio = match bio {
        Ok(bio) if u64::from(bio.size()) == len => bio,
        _ => {
            memory.rewind(mark, 0);
            return Err(iocb);
        }
    };
    if request.is_write() {
        bio.account_write();
    }
    let polled = iocb.flags().has(IocbFlags::HIPRI);
    if polled {
        if !plan.owed.is_nothing() {
            // What is completed elsewhere is not polled for.
            iocb.stop_polling();
        } else if !iocb.is_sync() {
            bio.poll_for(&mut iocb);
        }
    }

    // CAST: All of a request, which is at most `isize::MAX`.
    let size = bio.size() as isize;
    let mut flight = bio.start(
        Finishing {
            iocb,
            dio_ops: request.dio_ops,
            size,
            counted: request.counted(size),
            done_before: request.done_before,
            travel: Travel::single(plan.transfer, plan.owed.and_if(plan.flush, Owed::FLUSH)),
            fsblock_aligned: request.flags.has(CallerFlags::FSBLOCK_ALIGNED),
            at_ioend: false,
        },
        ctx,
    );
    if polled {
        // There is nothing more to poll for.
        flight.header_mut().iocb.stop_polling();
    }
    Ok(flight)
}

/// Submits the read of at most a block for which the inline function of the C header has found the
/// mapping at `place`. Returns bytes, a negative errno, or [`QUEUED`].
///
/// Fails with `ENOTBLK` if it does not fit, and has to be submitted like any other request.
#[inline(always)]
pub(crate) fn read(
    mut iocb: BusyIocb,
    memory: &mut IovIter<'_>,
    place: &Place,
    ctx: MaySleep,
) -> Result<isize> {
    let extent = match place.mapping_type() {
        Type::Mapped => place.extent().ok_or(ENOTBLK)?,
        _ => return Err(ENOTBLK),
    };
    // CAST: Positions are not negative.
    if extent.end() < (place.pos() as u64).wrapping_add(place.remaining())
        || extent.flags().has(MapFlags::INTEGRITY)
    {
        return Err(ENOTBLK);
    }
    let alignment = extent.bdev().logical_block_size();
    if !decide::is_aligned(place.pos(), place.remaining(), alignment) {
        return Err(EINVAL);
    }
    if !iocb.is_sync() {
        place.inode().ensure_done_queue(ctx)?;
    }
    trace::begin(&iocb, memory, CallerFlags::empty(), 0);

    let wait = if is_nowait(place) {
        Wait::Never
    } else {
        Wait::Allowed(ctx)
    };
    let mut bio = SIMPLE_READS.alloc(extent.bdev(), memory, Opf::READ, MAX_VECS, &iocb, wait)?;
    bio.set_sector(extent.sector(place.pos()));
    let mut bio = bio.pin_all(memory, extent.bdev(), alignment, place.remaining())?;
    let size = bio.size();
    // A device that cannot tell whether it would block refuses the flag.
    if is_nowait(place) && extent.bdev().has_nowait() {
        bio.add_flags(Opf::NOWAIT);
    }
    if iocb.is_sync() {
        bio.add_flags(Opf::SYNC);
        let request = bio.start(SimpleRead { iocb, size }, ctx).wait(ctx);
        return Ok(complete::finish_simple(request, ctx).1);
    }
    if iocb.flags().has(IocbFlags::HIPRI) {
        bio.poll_for(&mut iocb);
    }
    bio.submit(SimpleRead { iocb, size }, ctx);
    trace::queued(place.inode(), place.pos(), place.remaining());
    Ok(QUEUED)
}

#[inline(always)]
fn is_nowait(place: &Place) -> bool {
    place.begin_flags().has(BeginFlags::NOWAIT)
}
