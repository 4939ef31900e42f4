// SPDX-License-Identifier: GPL-2.0

//! The submission of requests.
//!
//! [`admit`] refuses invalid requests and prepares the page cache. The first mapping then decides
//! whether the request is a single-bio request ([`super::single`]) or a counted request
//! ([`super::mapping`]). Submitting consumes the request, so no code here can access one in flight.

#![forbid(unsafe_code)]

use super::{
    complete::{
        self,
        Dio, //
    },
    decide::{
        self,
        Durability,
        Owed,
        Walk, //
    },
    mapping::Submission,
    single,
    travel::Transfer, //
};
use kernel::{
    block::{
        bdev::BlockDevice,
        bio::Pages,
        plug::plugged, //
    },
    fs::{
        inode::Inode,
        IocbFlags, //
    },
    iomap::{
        flags::{
            BeginFlags,
            CallerFlags,
            MapFlags, //
        },
        iter::{
            Extent,
            Iter, //
        },
        kiocb::{
            Answer,
            BusyIocb,
            Iocb,
            NewIocb,
            Queued, //
        },
        ops::{
            DioOps,
            MapOps, //
        },
        request::{
            Ended,
            Prepared,
            Unique, //
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

/// The arguments of `iomap_dio_rw()`.
pub(crate) struct Call<'a> {
    /// The kiocb.
    pub(crate) iocb: NewIocb<DioOps>,
    /// The memory.
    pub(crate) memory: IovIter<'a>,
    /// How the file system maps the file.
    pub(crate) ops: MapOps<'a>,
    /// What the caller asks for.
    pub(crate) flags: CallerFlags,
    /// Bytes of an earlier part of the request, which count in its result.
    pub(crate) done_before: usize,
    /// The caller may sleep.
    pub(crate) ctx: MaySleep,
}

/// A request during its submission.
pub(super) struct Request<'a> {
    /// The inode of its file, which the caller keeps open until the call returns.
    inode: &'a Inode,
    /// Where it begins in the file, in bytes.
    pos: i64,
    /// The file size, sampled once: a read is clamped to it.
    i_size: i64,
    /// Bytes of an earlier part of the request, which count in its result.
    pub(super) done_before: usize,
    /// What the caller asks for.
    pub(super) flags: CallerFlags,
    /// What the file system is told.
    begin: BeginFlags,
    /// Data goes to the file.
    write: bool,
    /// How the write becomes stable, according to the mappings so far.
    pub(super) durability: Durability,
    /// The debt, so far.
    pub(super) owed: Owed,
    /// Submission may sleep.
    pub(super) ctx: MaySleep,
}

impl<'a> Request<'a> {
    #[inline(always)]
    fn new(ops: &MapOps<'a>, flags: CallerFlags, done_before: usize, ctx: MaySleep) -> Self {
        let inode = ops.inode();
        Self {
            inode,
            pos: ops.pos(),
            i_size: inode.size(),
            done_before,
            flags,
            begin: BeginFlags::DIRECT,
            write: ops.is_write(),
            durability: Durability::NotNeeded,
            owed: Owed::NOTHING,
            ctx,
        }
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
        self.write
    }

    /// The direction.
    #[inline]
    pub(super) fn transfer(&self) -> Transfer {
        if self.write {
            Transfer::Write { through: false }
        } else {
            Transfer::Read
        }
    }

    /// Whether a read begins at or beyond the end of the file.
    #[inline]
    fn is_past_end(&self) -> bool {
        !self.write && self.pos >= self.i_size
    }

    /// Whether the submitter waits for the bios.
    #[inline]
    fn waits(&self, iocb: &Iocb) -> bool {
        iocb.is_sync() || self.flags.has(CallerFlags::FORCE_WAIT)
    }

    /// The alignment of bios in the file, in bytes.
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

    /// Whether the bios for this mapping, which has written blocks, need no special handling. True
    /// for most requests.
    #[inline(always)]
    pub(super) fn is_ordinary(&self, extent: Extent<'_>) -> bool {
        let special = MapFlags::NEW
            | MapFlags::SHARED
            | MapFlags::ATOMIC_BIO
            | MapFlags::ANON_WRITE
            | MapFlags::INTEGRITY;
        !extent.flags().has(special) && self.durability == Durability::NotNeeded
    }

    /// Plans the write to one mapping.
    #[inline(always)]
    pub(super) fn plan_write(&self, extent: Extent<'_>, unwritten: bool) -> decide::WritePlan {
        let flags = extent.flags();
        let target = decide::Target {
            unwritten,
            new: flags.has(MapFlags::NEW),
            shared: flags.has(MapFlags::SHARED),
            dirty: flags.has(MapFlags::DIRTY),
        };
        decide::plan_write(&target, self.durability, || {
            extent
                .bdev()
                .is_some_and(|bdev| !bdev.has_write_cache() || bdev.has_fua())
        })
    }

    /// The result for `size` transferred bytes: a read is clamped to the end of the file.
    #[inline]
    pub(super) fn counted(&self, size: isize) -> isize {
        if self.is_write() {
            size
        } else {
            decide::clamp_read(self.pos, size, self.i_size)
        }
    }

    /// Moves the iterator of a read back to the end of the file if it has passed that. Callers such
    /// as splice rely on this.
    #[inline]
    fn rewind<'m>(&self, memory: &mut IovIter<'m>, begin: Mark<'m>, end: impl FnOnce() -> i64) {
        if !self.is_write() && end() > self.i_size {
            // CAST: A read begins before the end of the file.
            memory.rewind(begin, self.i_size.wrapping_sub(self.pos) as usize);
        }
    }
}

/// Checks a request of `len` bytes, and prepares the page cache for it.
#[inline(always)]
fn admit(request: &mut Request<'_>, iocb: &Iocb, len: usize) -> Result {
    let ctx = request.ctx;
    let flags = iocb.flags();
    if flags.has(IocbFlags::NOWAIT) {
        request.begin |= BeginFlags::NOWAIT;
    }
    let prepared = if request.write {
        // The new size of the file is set in process context.
        let extending = decide::goes_past(request.pos, len as u64, request.i_size);
        if extending {
            request.owed = Owed::EXTEND;
        }
        if request.flags.has(CallerFlags::OVERWRITE_ONLY) {
            if extending {
                return Err(EAGAIN);
            }
            request.begin |= BeginFlags::OVERWRITE_ONLY;
        }
        if flags.has(IocbFlags::ATOMIC) {
            request.begin |= BeginFlags::ATOMIC;
        }
        if iocb.is_dsync() {
            request.durability = Durability::asked(flags.has(IocbFlags::SYNC));
        }
        iocb.invalidate_pages(len, ctx)
    } else {
        iocb.write_and_wait(len, ctx)
    };
    if let Err(error) = prepared {
        let atomic = flags.has(IocbFlags::ATOMIC);
        return Err(stale_pages(error, request, atomic, len));
    }

    if !request.waits(iocb) {
        request.inode.ensure_dio_done_wq(ctx)?;
    } else if !iocb.is_sync() {
        // The caller cannot poll while the submitter waits.
        iocb.stop_polling();
    }
    Ok(())
}

/// The error of a request whose cached pages cannot be written back or dropped because of `error`.
///
/// A write that must not block fails with `EAGAIN` if this would block. Other writes fail with
/// `ENOTBLK`, so that the caller writes through the page cache. An atomic write cannot do that, so
/// it fails with `EAGAIN`.
#[cold]
fn stale_pages(error: Error, request: &Request<'_>, atomic: bool, len: usize) -> Error {
    if !request.write || error == EAGAIN {
        return error;
    }
    trace::invalidate_failed(request.inode, request.pos, len as u64);
    if atomic {
        EAGAIN
    } else {
        ENOTBLK
    }
}

/// Submits a request, and completes it if it is not in flight (`iomap_dio_rw()`).
#[inline(always)]
pub(crate) fn rw(call: Call<'_>) -> Answer {
    let Call {
        iocb,
        mut memory,
        ops,
        flags,
        done_before,
        ctx,
    } = call;
    // A file system with a bio set of its own or `->submit_io` expects bios of an `iomap_dio`. With
    // `PARTIAL` the memory is often not resident, so a single bio would often be short.
    if flags.has(CallerFlags::BOUNCE | CallerFlags::PARTIAL) || iocb.file_system_takes_part() {
        let call = Call {
            iocb,
            memory,
            ops,
            flags,
            done_before,
            ctx,
        };
        return match rw_dio(call) {
            Ok(ended) => complete::finish(ended, ctx),
            Err(answer) => answer,
        };
    }
    trace::begin(&iocb, &mut memory, flags, done_before);
    if ops.is_empty() {
        return iocb.answer(0);
    }
    let mut request = Request::new(&ops, flags, done_before, ctx);
    if request.is_past_end() {
        return iocb.answer(0);
    }
    if let Err(error) = admit(&mut request, &iocb, ops.len()) {
        return iocb.refuse(error);
    }
    let iocb = iocb.begin_dio();
    Iter::over(ops, request.begin, |iter| {
        decide_and_submit(&mut request, iocb, iter, &mut memory)
    })
}

/// Asks for the first mapping, which decides what the request is, and submits it.
#[inline(always)]
fn decide_and_submit(
    request: &mut Request<'_>,
    iocb: BusyIocb<DioOps>,
    iter: &mut Iter<'_>,
    memory: &mut IovIter<'_>,
) -> Answer {
    let ctx = request.ctx;
    let wait = request.waits(&iocb);
    let mark = memory.mark();
    let started = plugged(|| {
        let first = iter.begin(ctx);
        if first.is_err() {
            return Err((iocb, first));
        }
        match single::start(request, iocb, iter, memory, mark) {
            Ok(flight) => {
                iter.end(ctx);
                Ok(flight)
            }
            Err(iocb) => Err((iocb, first)),
        }
    });
    let flight = match started {
        Ok(flight) => flight,
        Err((iocb, first)) => return walk(request, iocb, iter, memory, first),
    };
    // CAST: The end of a request is a position.
    let end = || iter.pos().wrapping_add(iter.remaining() as i64);
    request.rewind(memory, mark, end);

    let ended = if wait {
        flight.wait(ctx)
    } else {
        match flight.leave() {
            Ok(ended) => ended,
            Err(queued) => {
                trace::queued(request.inode, || (end(), 0));
                return queued.answer();
            }
        }
    };
    complete::finish_single(ended, ctx)
}

/// As [`rw`], for a counted request. `first` is the result of asking for the first mapping.
#[cold]
#[inline(never)]
fn walk(
    request: &mut Request<'_>,
    iocb: BusyIocb<DioOps>,
    iter: &mut Iter<'_>,
    memory: &mut IovIter<'_>,
    first: Result<bool>,
) -> Answer {
    let ctx = request.ctx;
    let pages = Pages::of(memory);
    let submission = Submission::new(request, iocb, pages, None);
    match submit(submission, iter, memory, Some(first)) {
        Ok((Ended::Bios(ended), _)) => complete::finish(ended, ctx),
        Ok((Ended::WithoutBio(iocb, completion), result)) => {
            complete::finish_without_bio(iocb, completion, result, pages, ctx)
        }
        Err(queued) => queued.answer(),
    }
}

/// As [`rw`], but leaves a request that is not in flight to the caller (`__iomap_dio_rw()`).
#[inline(never)]
pub(crate) fn rw_dio(call: Call<'_>) -> Result<Unique<Dio>, Answer> {
    let Call {
        iocb,
        mut memory,
        ops,
        flags,
        done_before,
        ctx,
    } = call;
    trace::begin(&iocb, &mut memory, flags, done_before);
    if ops.is_empty() {
        return Err(iocb.answer(0));
    }
    let prepared = match Prepared::<Dio>::new(ctx) {
        Ok(prepared) => prepared,
        Err(error) => return Err(iocb.refuse(error)),
    };
    let mut request = Request::new(&ops, flags, done_before, ctx);
    if request.is_past_end() {
        return Err(iocb.answer(0));
    }
    if let Err(error) = admit(&mut request, &iocb, ops.len()) {
        return Err(iocb.refuse(error));
    }
    let iocb = iocb.begin_dio();
    Iter::over(ops, request.begin, |iter| {
        let pages = Pages::of(&memory);
        let submission = Submission::new(&mut request, iocb, pages, Some(prepared));
        match submit(submission, iter, &mut memory, None) {
            Ok((Ended::Bios(ended), _)) => Ok(ended),
            // Not reached: the memory was allocated before.
            Ok((Ended::WithoutBio(iocb, _), _)) => Err(iocb.refuse(ENOMEM)),
            Err(queued) => Err(queued.answer()),
        }
    })
}

/// Builds and submits the bios of a request, and hands it over. Returns what is left of it if it is
/// over, and the result of the submission.
fn submit(
    mut submission: Submission<'_, '_>,
    iter: &mut Iter<'_>,
    memory: &mut IovIter<'_>,
    first: Option<Result<bool>>,
) -> Result<(Ended<Dio>, Result), Queued> {
    let begin = memory.mark();
    let walked = plugged(|| submission.walk(iter, memory, first));
    submission.request.rewind(memory, begin, || iter.pos());

    let partial = submission.request.flags.has(CallerFlags::PARTIAL);
    let nowait = submission.request.begin.has(BeginFlags::NOWAIT);
    let settled = decide::settle(walk_end(walked), submission.size, partial, nowait);
    let result = if settled.fails { walked } else { Ok(()) };
    let wait = settled.waits || submission.request.waits(submission.bios.iocb());
    let inode = submission.request.inode;

    let sealed = submission.seal(result, wait);
    if sealed.is_err() {
        trace::queued(inode, || (iter.pos(), iter.remaining()));
    }
    Ok((sealed?, result))
}

/// Classifies the result of the walk.
fn walk_end(walked: Result) -> Walk {
    match walked {
        Ok(()) => Walk::Done,
        Err(error) if error == EFAULT => Walk::Fault,
        Err(error) if error == ENOTBLK => Walk::FallBack,
        Err(_) => Walk::Failed,
    }
}
