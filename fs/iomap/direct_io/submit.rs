// SPDX-License-Identifier: GPL-2.0

//! The submission of requests.
//!
//! [`admit`] refuses invalid requests and prepares the page cache. The first mapping then decides
//! whether the request is a single-bio request ([`super::single`]) or a counted request
//! ([`super::mapping`]). Submitting consumes the request, so no code here can access one in flight.

#![forbid(unsafe_code)]

use super::{
    complete,
    decide::{
        self,
        CompWork,
        Durability,
        IterEnd,
        IterEndAction, //
    },
    dio::{
        Dio,
        Direction,
        Kind, //
    },
    mapping::Submission,
    single, //
};
use kernel::{
    block::plug::plugged,
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
            Prepared,
            Unique, //
        },
        trace, //
    },
    iov::IovIter,
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
    /// Data goes to the file.
    write: bool,
    /// How the write becomes stable, according to the mappings so far.
    pub(super) durability: Durability,
    /// The completion work, so far.
    pub(super) work: CompWork,
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
            write: ops.is_write(),
            durability: Durability::NotNeeded,
            work: CompWork::NONE,
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

    /// Whether a read begins at or beyond the end of the file.
    #[inline]
    fn is_past_end(&self) -> bool {
        !self.write && self.pos >= self.i_size
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
        let bdev = extent.bdev();
        decide::plan_write(&target, self.durability, || {
            !bdev.has_write_cache() || bdev.has_fua()
        })
    }

    /// The request for its completion, of this kind, after `size` bytes were submitted. `through` says
    /// that all of a write was written through.
    #[inline(always)]
    pub(super) fn dio(&self, kind: Kind, size: isize, through: bool) -> Dio {
        let direction = if self.write {
            Direction::Write { through }
        } else {
            Direction::Read
        };
        Dio {
            size,
            ret: if self.write {
                size
            } else {
                decide::clamp_read(self.pos, size, self.i_size)
            },
            done_before: self.done_before,
            fsblock_aligned: self.flags.has(CallerFlags::FSBLOCK_ALIGNED),
            direction,
            kind,
        }
    }

    /// As [`Request::dio`], when all bios were submitted.
    pub(super) fn dio_at_end(&self, size: isize) -> Dio {
        let flush = self.durability == Durability::Flush;
        let work = self.work.with_if(flush, CompWork::SYNC);
        let kind = Kind::new(self.flags.has(CallerFlags::BOUNCE), work);
        self.dio(kind, size, self.durability == Durability::WrittenThrough)
    }

    /// What the file system is told.
    #[inline(always)]
    fn begin_flags(&self, iocb: &Iocb) -> BeginFlags {
        let flags = iocb.flags();
        let begin = BeginFlags::DIRECT.with_if(flags.has(IocbFlags::NOWAIT), BeginFlags::NOWAIT);
        if !self.write {
            return begin;
        }
        let overwrite_only = self.flags.has(CallerFlags::OVERWRITE_ONLY);
        begin
            .with_if(overwrite_only, BeginFlags::OVERWRITE_ONLY)
            .with_if(flags.has(IocbFlags::ATOMIC), BeginFlags::ATOMIC)
    }

    /// The bytes of a read up to the end of the file if it has passed that. The memory is moved back
    /// to there, as callers such as splice rely on this.
    #[inline(always)]
    fn has_passed_end(&self, end: impl FnOnce() -> i64) -> Option<usize> {
        // CAST: A read begins before the end of the file.
        (!self.write && end() > self.i_size).then(|| self.i_size.wrapping_sub(self.pos) as usize)
    }
}

/// Checks a request of `len` bytes, and prepares the page cache for it.
#[inline(always)]
fn admit(request: &mut Request<'_>, iocb: &Iocb, len: usize) -> Result {
    let ctx = request.ctx;
    let flags = iocb.flags();
    let prepared = if request.write {
        // The new size of the file is set in process context.
        let extending = decide::goes_past(request.pos, len as u64, request.i_size);
        if extending {
            request.work = CompWork::EXTEND;
        }
        if extending && request.flags.has(CallerFlags::OVERWRITE_ONLY) {
            return Err(EAGAIN);
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

    if !iocb.is_sync() {
        if request.flags.has(CallerFlags::FORCE_WAIT) {
            // The caller cannot poll while the submitter waits.
            iocb.stop_polling();
        } else {
            request.inode.ensure_dio_done_wq(ctx)?;
        }
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

/// Begins a request and submits it with `submit`, unless there is nothing to do or it is refused.
/// `allocate` takes memory where C does.
#[inline(always)]
fn begin<R, M>(
    call: Call<'_>,
    allocate: impl FnOnce(MaySleep) -> Result<M>,
    submit: impl FnOnce(Request<'_>, BusyIocb<DioOps>, &mut Iter<'_>, IovIter<'_>, M) -> R,
) -> Result<R, Answer> {
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
    let allocated = match allocate(ctx) {
        Ok(allocated) => allocated,
        Err(error) => return Err(iocb.refuse(error)),
    };
    let mut request = Request::new(&ops, flags, done_before, ctx);
    if request.is_past_end() {
        return Err(iocb.answer(0));
    }
    if let Err(error) = admit(&mut request, &iocb, ops.len()) {
        return Err(iocb.refuse(error));
    }
    let begin = request.begin_flags(&iocb);
    let iocb = iocb.begin_dio();
    Ok(Iter::over(ops, begin, |iter| {
        submit(request, iocb, iter, memory, allocated)
    }))
}

/// Whether a request is a counted request in any case.
///
/// A file system with a bio set of its own or `->submit_io` expects bios of an `iomap_dio`. With
/// `PARTIAL` the memory is often not resident, so a single bio would often be short.
#[inline(always)]
pub(crate) fn is_counted(flags: CallerFlags, dops: DioOps) -> bool {
    flags.has(CallerFlags::BOUNCE | CallerFlags::PARTIAL) || dops.takes_part()
}

/// Submits a request, and completes it if it is not in flight (`iomap_dio_rw()`).
#[inline(always)]
pub(crate) fn rw(call: Call<'_>) -> Answer {
    let answer = begin(
        call,
        |_| Ok(()),
        |request, iocb, iter, memory, ()| decide_and_submit(request, iocb, iter, memory),
    );
    match answer {
        Ok(answer) | Err(answer) => answer,
    }
}

/// Asks for the first mapping, which decides what the request is, and submits it.
#[inline(always)]
fn decide_and_submit(
    request: Request<'_>,
    iocb: BusyIocb<DioOps>,
    iter: &mut Iter<'_>,
    mut memory: IovIter<'_>,
) -> Answer {
    let ctx = request.ctx;
    let mark = memory.mark();
    let started = plugged(|| {
        let first = iter.begin(ctx);
        if first.is_err() {
            return Err((iocb, first));
        }
        match single::start(&request, iocb, iter, &mut memory, mark) {
            Ok(flight) => {
                iter.end(ctx);
                Ok(flight)
            }
            Err(iocb) => Err((iocb, first)),
        }
    });
    let flight = match started {
        Ok(flight) => flight,
        // Each field by itself, so that the request stays in registers until here.
        Err((iocb, first)) => {
            let request = Request { ..request };
            return match first {
                Ok(first) => walk(request, iocb, iter, memory, first),
                Err(error) => refused(request, iocb, &memory, error),
            };
        }
    };
    // CAST: The end of a request is a position.
    let end = || iter.pos().wrapping_add(iter.remaining() as i64);
    if let Some(used) = request.has_passed_end(end) {
        memory.rewind(mark, used);
    }

    let ended = if request.flags.has(CallerFlags::FORCE_WAIT) {
        flight.wait(ctx)
    } else {
        match flight.leave(ctx) {
            Ok(ended) => ended,
            Err(queued) => {
                trace::queued(request.inode, || (end(), 0));
                return queued.answer();
            }
        }
    };
    complete::answer(ended, ctx)
}

/// Completes a request without bios: the file system has refused the first mapping.
#[cold]
#[inline(never)]
fn refused(
    request: Request<'_>,
    iocb: BusyIocb<DioOps>,
    memory: &IovIter<'_>,
    error: Error,
) -> Answer {
    let result = match iter_end_action(&request, &iocb, Err(error), 0) {
        IterEndAction::Fail => Err(error),
        IterEndAction::Continue | IterEndAction::Wait => Ok(()),
    };
    complete::answer_without_bios(request.dio_at_end(0), iocb, memory, result, request.ctx)
}

/// As [`rw`], for a counted request. `first` says whether there is a first mapping.
#[cold]
#[inline(never)]
fn walk(
    request: Request<'_>,
    iocb: BusyIocb<DioOps>,
    iter: &mut Iter<'_>,
    memory: IovIter<'_>,
    first: bool,
) -> Answer {
    let ctx = request.ctx;
    let prepared = match Prepared::new(ctx) {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = iter.next(Err(error), ctx);
            return iocb.refuse(error);
        }
    };
    let submission = Submission::new(request, iocb, memory, prepared);
    match submit(submission, iter, Some(first)) {
        Ok(ended) => complete::answer_rare(ended, ctx),
        Err(queued) => queued.answer(),
    }
}

/// As [`rw`], but leaves a request that is not in flight to the caller (`__iomap_dio_rw()`).
#[inline(always)]
pub(crate) fn rw_dio(call: Call<'_>) -> Result<Unique<Dio>, Answer> {
    begin(
        call,
        Prepared::new,
        |request, iocb, iter, memory, prepared| {
            let submission = Submission::new(request, iocb, memory, prepared);
            submit(submission, iter, None).map_err(Queued::answer)
        },
    )?
}

/// Builds and submits the bios of a request, and hands it over. Returns it if it is over.
fn submit(
    mut submission: Submission<'_, '_>,
    iter: &mut Iter<'_>,
    first: Option<bool>,
) -> Result<Unique<Dio>, Queued> {
    let begin = submission.bios.memory().mark();
    let walked = plugged(|| submission.walk(iter, first));
    if let Some(used) = submission.request.has_passed_end(|| iter.pos()) {
        submission.bios.rewind(begin, used);
    }

    let request = &submission.request;
    let action = iter_end_action(request, submission.bios.iocb(), walked, submission.size);
    let result = if action == IterEndAction::Fail {
        walked
    } else {
        Ok(())
    };
    let wait = action == IterEndAction::Wait || request.flags.has(CallerFlags::FORCE_WAIT);
    let inode = request.inode;

    let sealed = submission.seal(result, wait);
    if sealed.is_err() {
        trace::queued(inode, || (iter.pos(), iter.remaining()));
    }
    sealed
}

/// What the end of the iteration, after `size` bytes were submitted, means for the request.
fn iter_end_action(
    request: &Request<'_>,
    iocb: &Iocb,
    walked: Result,
    size: isize,
) -> IterEndAction {
    let end = match walked {
        Ok(()) => IterEnd::Done,
        Err(error) if error == EFAULT => IterEnd::Fault,
        Err(error) if error == ENOTBLK => IterEnd::FallBack,
        Err(_) => IterEnd::Failed,
    };
    let partial = request.flags.has(CallerFlags::PARTIAL);
    decide::iter_end_action(end, size, partial, iocb.flags().has(IocbFlags::NOWAIT))
}
