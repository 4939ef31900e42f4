// SPDX-License-Identifier: GPL-2.0

//! The submission of requests.
//!
//! [`admit`] checks what can be refused at once and gets the page cache out of the way. The first
//! mapping then decides what a request is: of a single bio ([`super::single`]), or one that has to be
//! walked and counted ([`super::mapping`]). From then on a request that is in flight cannot be named
//! any more.

#![forbid(unsafe_code)]

use super::{
    complete::{
        self,
        Finishing,
        Generic, //
    },
    decide::{
        self,
        Durability,
        Owed,
        Walk, //
    },
    mapping::{
        Building,
        Sealed, //
    },
    single, //
};
use kernel::{
    bindings,
    iomap::{
        bio::Pages,
        context::MaySleep,
        device::BlockDevice,
        flags::{
            BeginFlags,
            CallerFlags,
            IocbFlags,
            MapFlags, //
        },
        inode::Inode,
        iov_iter::{
            IovIter,
            Mark, //
        },
        iter::{
            Extent,
            Iter,
            Private,
            Type, //
        },
        kiocb::{
            BusyIocb,
            Iocb, //
        },
        ops::{
            DioOps,
            MapOps, //
        },
        plug::plugged,
        request::{
            HandOver,
            Prepared,
            Unique, //
        },
        trace, //
    },
    prelude::*, //
};

/// `-EIOCBQUEUED`: the request is in flight. Not an error, but C passes it as one.
pub(crate) const QUEUED: isize = -(bindings::EIOCBQUEUED as isize);

/// What `iomap_dio_rw()` is called with.
pub(crate) struct Call<'a> {
    /// The kiocb.
    pub(crate) iocb: Iocb,
    /// The memory.
    pub(crate) memory: IovIter<'a>,
    /// How the file system maps the file.
    pub(crate) ops: MapOps<'a>,
    /// For the file system's `iomap_begin`.
    pub(crate) private: Private,
    /// The rest.
    pub(crate) request: Request<'a>,
}

/// What became of a request that is more than a single bio.
enum Submitted {
    /// The request is in flight and will complete by itself.
    Queued,
    /// All bios have ended, and the caller completes the request.
    Ended(Unique<Generic>),
    /// There was no bio, with this result, and the caller completes the request.
    WithoutBio(Finishing, Result, Pages),
}

/// A request while it is submitted.
pub(crate) struct Request<'a> {
    /// The inode of its file, which the caller keeps open until the call returns.
    inode: &'a Inode,
    /// How the file system takes part in direct I/O.
    pub(super) dio_ops: DioOps,
    /// Bytes of an earlier part of the request, which count in its result.
    pub(super) done_before: usize,
    /// What the caller asks for.
    pub(super) flags: CallerFlags,
    /// What the file system is told.
    pub(super) begin: BeginFlags,
    /// Where it begins in the file, in bytes.
    pos: i64,
    /// The one look at the size of the file that decides where a read ends.
    i_size: i64,
    /// What is done to make a write stable, so far.
    pub(super) durability: Durability,
    /// What is owed, so far.
    pub(super) owed: Owed,
    /// Submission may sleep.
    pub(super) ctx: MaySleep,
}

impl<'a> Request<'a> {
    /// What the caller says of a request.
    #[inline(always)]
    pub(crate) fn new(
        iocb: &Iocb,
        inode: &'a Inode,
        dio_ops: DioOps,
        flags: CallerFlags,
        done_before: usize,
        ctx: MaySleep,
    ) -> Self {
        Self {
            inode,
            dio_ops,
            done_before,
            flags,
            begin: BeginFlags::DIRECT,
            pos: iocb.pos(),
            i_size: 0,
            durability: Durability::NotNeeded,
            owed: Owed::NOTHING,
            ctx,
        }
    }

    /// Whether it may be of a single bio, as far as the caller and the file system go.
    ///
    /// A file system that has its own bios or submits them takes them for those of an `iomap_dio`.
    /// Who takes a part of the result does not have his memory at hand, so that a bio is often short.
    #[inline]
    fn may_be_single(&self) -> bool {
        !self.flags.has(CallerFlags::BOUNCE | CallerFlags::PARTIAL) && !self.dio_ops.takes_part()
    }

    /// The inode of the file.
    #[inline]
    pub(super) fn inode(&self) -> &'a Inode {
        self.inode
    }
}

impl Request<'_> {
    /// Whether data goes to the device.
    #[inline]
    pub(super) fn is_write(&self) -> bool {
        self.begin.has(BeginFlags::WRITE)
    }

    /// Whether the submitter waits for the bios.
    #[inline]
    fn waits(&self, iocb: &Iocb) -> bool {
        iocb.is_sync() || self.flags.has(CallerFlags::FORCE_WAIT)
    }

    /// What the mapping of a bio has to be aligned to, in bytes.
    ///
    /// A file system that always writes to new blocks allocates by its own block size.
    #[inline]
    pub(super) fn alignment(&self, bdev: &BlockDevice) -> u32 {
        if self.flags.has(CallerFlags::FSBLOCK_ALIGNED) {
            self.inode.block_size()
        } else {
            bdev.logical_block_size()
        }
    }

    /// Whether there is nothing special about the request in this mapping, as with most: its blocks are
    /// there, and nobody asks for more than that they are transferred.
    #[inline(always)]
    pub(super) fn is_ordinary(&self, extent: Extent<'_>) -> bool {
        let special = MapFlags::NEW
            | MapFlags::SHARED
            | MapFlags::ATOMIC_BIO
            | MapFlags::ANON_WRITE
            | MapFlags::INTEGRITY;
        extent.mapping_type() == Type::Mapped
            && !extent.flags().has(special)
            && self.durability == Durability::NotNeeded
    }

    /// Plans the write to one mapping.
    pub(super) fn plan_write(&self, extent: Extent<'_>, unwritten: bool) -> decide::WritePlan {
        let flags = extent.flags();
        let target = decide::Target {
            unwritten,
            new: flags.has(MapFlags::NEW),
            shared: flags.has(MapFlags::SHARED),
            dirty: flags.has(MapFlags::DIRTY),
        };
        let bdev = extent.bdev();
        decide::plan_write(target, self.durability, || {
            !bdev.has_write_cache() || bdev.has_fua()
        })
    }

    /// Of `size` bytes that were transferred, those that count: a read ends where the file does.
    #[inline]
    pub(super) fn counted(&self, size: isize) -> isize {
        if self.is_write() {
            size
        } else {
            decide::clamp_read(self.pos, size, self.i_size)
        }
    }

    /// Makes a read iterator that has passed the end of the file stand there: callers such as splice
    /// rely on it.
    #[inline]
    fn rewind<'m>(&self, memory: &mut IovIter<'m>, begin: Mark<'m>, end: i64) {
        if !self.is_write() && end > self.i_size {
            // CAST: A read begins before the end of the file.
            memory.rewind(begin, self.i_size.wrapping_sub(self.pos) as usize);
        }
    }
}

/// A request arrives. Returns whether there is anything to do.
#[inline(always)]
fn arrive(call: &mut Call<'_>) -> bool {
    let request = &call.request;
    trace::begin(
        &call.iocb,
        &mut call.memory,
        request.flags,
        request.done_before,
    );
    !call.memory.is_empty()
}

/// Checks a request, and prepares the page cache for it. Returns whether there is anything to do.
#[inline(never)]
fn admit(request: &mut Request<'_>, iocb: &mut Iocb, memory: &IovIter<'_>) -> Result<bool> {
    let (inode, ctx) = (request.inode, request.ctx);
    let len = memory.len();
    let i_size = inode.size();
    request.i_size = i_size;
    if iocb.flags().has(IocbFlags::NOWAIT) {
        request.begin |= BeginFlags::NOWAIT;
    }
    if memory.is_source() {
        request.begin |= BeginFlags::WRITE;
        // The new size of the file is set in process context.
        let extending = decide::goes_past(request.pos, len as u64, i_size);
        if extending {
            request.owed = Owed::EXTEND;
        }
        if request.flags.has(CallerFlags::OVERWRITE_ONLY) {
            if extending {
                return Err(EAGAIN);
            }
            request.begin |= BeginFlags::OVERWRITE_ONLY;
        }
        if iocb.flags().has(IocbFlags::ATOMIC) {
            request.begin |= BeginFlags::ATOMIC;
        }
        if let Err(error) = iocb.invalidate_pages(len, ctx) {
            return Err(stale_pages(error, iocb, inode, len));
        }
        if iocb.is_dsync() {
            request.durability = Durability::asked(iocb.flags().has(IocbFlags::SYNC));
        }
    } else {
        if request.pos >= i_size {
            return Ok(false);
        }
        iocb.write_and_wait(len, ctx)?;
    }

    if !request.waits(iocb) {
        inode.ensure_done_queue(ctx)?;
    } else if !iocb.is_sync() {
        // Who waits here does not poll, so nothing may be left to polling.
        iocb.stop_polling();
    }
    Ok(true)
}

/// What the caller of a write is told if `error` has kept cached pages from being dropped.
///
/// `EAGAIN` if that would block a request that must not; otherwise `ENOTBLK`, the request to write
/// through the page cache instead. An atomic write is never written that way; its caller may try
/// again.
#[cold]
fn stale_pages(error: Error, iocb: &Iocb, inode: &Inode, len: usize) -> Error {
    if error == EAGAIN {
        return EAGAIN;
    }
    trace::invalidate_failed(inode, iocb.pos(), len as u64);
    if iocb.flags().has(IocbFlags::ATOMIC) {
        EAGAIN
    } else {
        ENOTBLK
    }
}

/// Submits a request, and completes it if it is not in flight (`iomap_dio_rw()`). Returns bytes, a
/// negative errno, or [`QUEUED`].
#[inline(always)]
pub(crate) fn rw(mut call: Call<'_>) -> isize {
    if !arrive(&mut call) {
        return 0;
    }
    if !call.request.may_be_single() {
        return rw_counted(call);
    }
    let Call {
        mut iocb,
        mut memory,
        ops,
        private,
        ref mut request,
    } = call;
    match admit(request, &mut iocb, &memory) {
        Ok(true) => {}
        Ok(false) => return 0,
        // CAST: An errno fits.
        Err(error) => return error.to_errno() as isize,
    }
    // CAST: Widening.
    let len = memory.len() as u64;
    let iocb = iocb.begin_dio();
    Iter::over(
        request.inode,
        request.pos,
        len,
        request.begin,
        private,
        ops,
        |iter| decide_and_submit(request, iocb, iter, &mut memory),
    )
}

/// Asks for the first mapping, which decides what the request is, and submits it.
#[inline(always)]
fn decide_and_submit(
    request: &mut Request<'_>,
    iocb: BusyIocb,
    iter: &mut Iter<'_>,
    memory: &mut IovIter<'_>,
) -> isize {
    let ctx = request.ctx;
    let wait = request.waits(&iocb);
    let mark = memory.mark();
    let started = plugged(|| match iter.begin(ctx) {
        Ok(true) => match single::start(request, iocb, iter, memory) {
            Ok(flight) => {
                iter.end(ctx);
                Ok(flight)
            }
            Err(iocb) => Err((iocb, Ok(true))),
        },
        first => Err((iocb, first)),
    });
    let flight = match started {
        Ok(flight) => flight,
        Err((iocb, first)) => return walk(request, iocb, iter, memory, first),
    };
    // CAST: The end of a request is a position.
    let end = iter.pos().wrapping_add(iter.remaining() as i64);
    request.rewind(memory, mark, end);

    let ended = if wait {
        flight.wait(ctx)
    } else {
        match flight.leave() {
            Some(ended) => ended,
            None => {
                trace::queued(request.inode, end, 0);
                return QUEUED;
            }
        }
    };
    complete::finish_single(ended, ctx).1
}

/// As [`rw`], for a request that is more than a single bio. `first` is what the file system has said
/// to the first question.
#[cold]
#[inline(never)]
fn walk(
    request: &mut Request<'_>,
    iocb: BusyIocb,
    iter: &mut Iter<'_>,
    memory: &mut IovIter<'_>,
    first: Result<bool>,
) -> isize {
    let ctx = request.ctx;
    let building = Building::new(request, iocb, memory, None);
    match submit(building, iter, memory, Some(first)) {
        Submitted::Queued => QUEUED,
        Submitted::Ended(ended) => complete::finish(ended, ctx).1,
        Submitted::WithoutBio(finishing, result, pages) => {
            complete::finish_without_bio(finishing, result, pages, ctx).1
        }
    }
}

/// As [`rw`], for a request of which more than a single bio is expected.
#[cold]
#[inline(never)]
fn rw_counted(call: Call<'_>) -> isize {
    let ctx = call.request.ctx;
    match submit_counted(call) {
        Ok(Some(ended)) => complete::finish(ended, ctx).1,
        Ok(None) => 0,
        // CAST: An errno fits.
        Err(error) => error.to_errno() as isize,
    }
}

/// As [`rw`], but leaves a request that is not in flight to the caller (`__iomap_dio_rw()`).
pub(crate) fn rw_dio(mut call: Call<'_>) -> Result<Option<Unique<Generic>>> {
    if !arrive(&mut call) {
        return Ok(None);
    }
    submit_counted(call)
}

/// Submits a request in memory of its own, and returns it unless it is in flight (`EIOCBQUEUED`) or
/// there was nothing to do.
#[inline(never)]
fn submit_counted(mut call: Call<'_>) -> Result<Option<Unique<Generic>>> {
    let prepared = Prepared::<Generic>::new(call.request.ctx)?;
    let Call {
        mut iocb,
        mut memory,
        ops,
        private,
        ref mut request,
    } = call;
    if !admit(request, &mut iocb, &memory)? {
        return Ok(None);
    }
    // CAST: Widening.
    let len = memory.len() as u64;
    let iocb = iocb.begin_dio();
    Iter::over(
        request.inode,
        request.pos,
        len,
        request.begin,
        private,
        ops,
        |iter| {
            let building = Building::new(request, iocb, &memory, Some(prepared));
            match submit(building, iter, &mut memory, None) {
                Submitted::Ended(ended) => Ok(Some(ended)),
                // There was memory for it, so it has bios or is as if it had.
                Submitted::Queued | Submitted::WithoutBio(..) => Err(EIOCBQUEUED),
            }
        },
    )
}

/// Builds and submits the bios of a request, and hands it over.
fn submit(
    mut building: Building<'_, '_>,
    iter: &mut Iter<'_>,
    memory: &mut IovIter<'_>,
    first: Option<Result<bool>>,
) -> Submitted {
    let begin = memory.mark();
    let walked = plugged(|| building.walk(iter, memory, first));
    building.request.rewind(memory, begin, iter.pos());

    let partial = building.request.flags.has(CallerFlags::PARTIAL);
    let nowait = building.request.begin.has(BeginFlags::NOWAIT);
    let settled = decide::settle(walk_end(walked), building.size, partial, nowait);
    let result = if settled.fails { walked } else { Ok(()) };
    let wait = settled.waits || building.request.waits(&building.iocb);
    let (inode, ctx) = (building.request.inode, building.request.ctx);

    match building.seal(result, wait) {
        Sealed::WithoutBio(finishing, pages) => Submitted::WithoutBio(finishing, result, pages),
        Sealed::WithBios(HandOver::Complete(request), _) => Submitted::Ended(request),
        Sealed::WithBios(HandOver::Wait(waiter), poller) => {
            Submitted::Ended(waiter.wait(poller, ctx))
        }
        Sealed::WithBios(HandOver::Queued, _) => {
            trace::queued(inode, iter.pos(), iter.remaining());
            Submitted::Queued
        }
    }
}

/// Classifies how the walk has ended.
fn walk_end(walked: Result) -> Walk {
    match walked {
        Ok(()) => Walk::Done,
        Err(error) if error == EFAULT => Walk::Fault,
        Err(error) if error == ENOTBLK => Walk::FallBack,
        Err(_) => Walk::Failed,
    }
}
