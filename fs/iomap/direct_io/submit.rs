// SPDX-License-Identifier: GPL-2.0

//! The submission of requests.
//!
//! [`admit`] refuses invalid requests and prepares the page cache. The first mapping then decides
//! whether the request is a single-bio request ([`super::single`]) or a counted request
//! ([`super::mapping`]). Leaving a request to its bios consumes it, so no code here can access one
//! that they own.

#![forbid(unsafe_code)]

use super::{
    complete,
    decide::{
        self,
        CompWork, //
    },
    dio::{
        Dio,
        Direction,
        Kind, //
    },
    mapping,
    single,
    REQUESTS, //
};
use kernel::{
    block::{
        bio::account_cancelled_write,
        plug::plugged, //
    },
    fs::IocbFlags,
    iomap::{
        flags::{
            BeginFlags,
            CallerFlags, //
        },
        iter::Iter,
        kiocb::{
            Answer,
            BusyIocb,
            Iocb,
            NewIocb, //
        },
        ops::{
            DioOps,
            EndIo,
            MapOps, //
        },
        request::{
            Prepared,
            Submitter,
            Unique, //
        },
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

/// The arguments of `iomap_dio_rw()`.
pub(crate) struct Call<'a, O> {
    /// The kiocb.
    pub(crate) iocb: NewIocb<O>,
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

/// What the file system is told of a request.
#[inline(always)]
fn begin_flags(dio: &Dio, iocb: &Iocb) -> BeginFlags {
    let flags = iocb.flags();
    let begin = BeginFlags::DIRECT.with_if(flags.has(IocbFlags::NOWAIT), BeginFlags::NOWAIT);
    if !dio.is_write() {
        return begin;
    }
    let overwrite_only = dio.flags.has(CallerFlags::OVERWRITE_ONLY);
    begin
        .with_if(overwrite_only, BeginFlags::OVERWRITE_ONLY)
        .with_if(flags.has(IocbFlags::ATOMIC), BeginFlags::ATOMIC)
}

/// The bytes of a read up to the end of the file if it has passed that. The memory is moved to
/// there before the request is answered, as callers such as splice rely on this.
#[inline(always)]
fn has_passed_end(dio: &Dio, iocb: &Iocb, end: i64) -> Option<usize> {
    // CAST: A read begins before the end of the file.
    (!dio.is_write() && end > dio.i_size).then(|| dio.i_size.wrapping_sub(iocb.ki_pos()) as usize)
}

/// Checks a request of `len` bytes, and prepares the page cache for it. Adds the completion `work`
/// that it has, whatever its mappings are.
#[inline(always)]
fn admit(dio: &mut Dio, work: &mut CompWork, iocb: &Iocb, len: usize, ctx: MaySleep) -> Result {
    let flags = iocb.flags();
    let prepared = if dio.is_write() {
        // The new size of the file is set in process context.
        if decide::goes_past(iocb.ki_pos(), len as u64, dio.i_size) {
            if dio.flags.has(CallerFlags::OVERWRITE_ONLY) {
                return Err(EAGAIN);
            }
            *work = CompWork::EXTEND;
        }
        if iocb.is_dsync() {
            // Only data can be written through: with O_SYNC the metadata have to be stable as well.
            if flags.has(IocbFlags::SYNC) {
                *work = *work | CompWork::SYNC;
            } else {
                dio.direction = Direction::Write { through: true };
            }
        }
        iocb.invalidate_pages(len, ctx)
    } else {
        iocb.write_and_wait(len, ctx)
    };
    if let Err(error) = prepared {
        return Err(stale_pages(error, dio.is_write(), iocb, len));
    }

    if !iocb.is_sync() {
        if dio.flags.has(CallerFlags::FORCE_WAIT) {
            // The caller cannot poll while the submitter waits.
            iocb.stop_polling();
        } else {
            iocb.inode().ensure_dio_done_wq(ctx)?;
        }
    }
    Ok(())
}

/// The error of a request whose cached pages cannot be written back or dropped because of `error`.
///
/// A write that must not block fails with `EAGAIN` if this would block. Other writes fail with
/// `ENOTBLK`, so that the caller writes through the page cache. An atomic write cannot do that, so
/// it fails with `EAGAIN`.
#[inline(always)]
fn stale_pages(error: Error, write: bool, iocb: &Iocb, len: usize) -> Error {
    if !write || error == EAGAIN {
        return error;
    }
    trace::invalidate_failed(iocb.inode(), iocb.ki_pos(), len as u64);
    if iocb.flags().has(IocbFlags::ATOMIC) {
        EAGAIN
    } else {
        ENOTBLK
    }
}

/// Begins a request and submits it with `submit`, unless there is nothing to do or it is refused.
/// `allocate` takes memory where C does.
#[inline(always)]
fn begin<O, R, M>(
    call: Call<'_, O>,
    allocate: impl FnOnce(MaySleep) -> Result<M>,
    submit: impl FnOnce(BusyIocb<O>, Dio, CompWork, &mut Iter<'_>, IovIter<'_>, M) -> R,
) -> Result<R, Answer> {
    let Call {
        iocb,
        mut memory,
        ops,
        flags,
        done_before,
        ctx,
    } = call;
    let len = memory.len();
    trace::begin(&iocb, &mut memory, flags, done_before);
    if len == 0 {
        return Err(iocb.answer(0));
    }
    let allocated = match allocate(ctx) {
        Ok(allocated) => allocated,
        Err(error) => return Err(iocb.refuse(error)),
    };
    let mut dio = Dio::new(&ops, flags, done_before);
    if !dio.is_write() && ops.pos() >= dio.i_size {
        return Err(iocb.answer(0));
    }
    // Not yet in the description, which then stays in registers until its only bio is submitted.
    let mut work = CompWork::empty();
    if let Err(error) = admit(&mut dio, &mut work, &iocb, len, ctx) {
        if error == EAGAIN {
            stats::count(Stat::AgainCache);
        }
        return Err(iocb.refuse(error));
    }
    let begin = begin_flags(&dio, &iocb);
    let iocb = iocb.begin_dio();
    Ok(Iter::over(ops, begin, |iter| {
        submit(iocb, dio, work, iter, memory, allocated)
    }))
}

/// Submits a request, and completes it if it is not in flight (`iomap_dio_rw()`).
#[inline(always)]
pub(crate) fn rw<const BOUNCED: bool>(call: Call<'_, EndIo<BOUNCED>>) -> Answer {
    let ctx = call.ctx;
    let answer = begin(
        call,
        |_| Ok(()),
        |iocb, dio, work, iter, memory, ()| decide_and_submit(iocb, dio, work, iter, memory, ctx),
    );
    match answer {
        Ok(answer) | Err(answer) => answer,
    }
}

/// Asks for the first mapping, which decides what the request is, and submits it.
#[inline(always)]
fn decide_and_submit<const BOUNCED: bool>(
    iocb: BusyIocb<EndIo<BOUNCED>>,
    dio: Dio,
    work: CompWork,
    iter: &mut Iter<'_>,
    mut memory: IovIter<'_>,
    ctx: MaySleep,
) -> Answer {
    let mark = memory.mark();
    let started = match iter.begin_single(ctx) {
        Ok(true) => single::start(iocb, &dio, work, iter, &mut memory, mark, ctx),
        // Then it waits for memory and for the device, as a counted request.
        Ok(false) => Err((iocb, Ok(()))),
        Err(error) => Err((iocb, Err(error))),
    };
    let flight = match started {
        Ok(flight) => {
            iter.end(ctx);
            flight
        }
        // Each field by itself, so that the description stays in registers until here.
        Err((iocb, result)) => {
            let kind = Kind::new(BOUNCED, work);
            let dio = Dio { kind, ..dio };
            return match result {
                Ok(()) => walk(iocb, dio, iter, memory, ctx),
                Err(error) => refused(iocb.into_dio(), dio, iter, memory, error, ctx),
            };
        }
    };
    // CAST: The end of a request is a position.
    let end = iter.pos().wrapping_add(iter.remaining() as i64);
    let (mut ended, mut memory) = if dio.flags.has(CallerFlags::FORCE_WAIT) {
        (flight.wait(ctx), memory)
    } else {
        match flight.leave(memory, ctx) {
            Ok(ended) => ended,
            Err(answer) => {
                trace::queued(|| (iter.inode(), end, 0));
                return answer;
            }
        }
    };
    let (iocb, dio) = ended.parts();
    if let Some(used) = has_passed_end(dio, iocb, end) {
        memory.rewind(mark, 0);
        memory.advance(used);
    } else if memory.len() == mark.left() {
        // It was lent to the bio, and has not moved on.
        memory.advance(mark.left());
    }
    if ended.result().is_err() {
        return answer_failed(ended, memory, mark, ctx);
    }
    complete::answer::<BOUNCED>(ended, ctx)
}

/// Completes a request whose bio has failed.
///
/// If the device would have had to wait, nothing was transferred: the memory goes back to `mark`,
/// unless the file system makes a success of that.
#[cold]
#[inline(never)]
fn answer_failed<'m>(
    mut failed: Unique<Dio>,
    mut memory: IovIter<'m>,
    mark: Mark<'m>,
    ctx: MaySleep,
) -> Answer {
    let (iocb, dio) = failed.parts();
    let (nowait, write) = (iocb.flags().has(IocbFlags::NOWAIT), dio.is_write());
    let again = nowait && failed.result() == Err(EAGAIN);
    let answer = complete::answer_rare(failed, ctx);
    if again && answer.is(EAGAIN) {
        memory.rewind(mark, 0);
        if write {
            account_cancelled_write(mark.left(), ctx);
        }
    }
    answer
}

/// Completes a request without bios: there is no first mapping, or no memory without waiting.
#[cold]
#[inline(never)]
fn refused(
    iocb: BusyIocb<DioOps>,
    dio: Dio,
    iter: &mut Iter<'_>,
    memory: IovIter<'_>,
    error: Error,
    ctx: MaySleep,
) -> Answer {
    // The end of the mapping, if there is one.
    let _ = iter.next(Err(error), ctx);
    let result = forgive(&dio, &iocb, error).map(|_| ());
    complete::answer_without_bios(iocb, &dio, &memory, result, ctx)
}

/// As [`rw`], for a counted request.
#[cold]
#[inline(never)]
fn walk<const BOUNCED: bool>(
    iocb: BusyIocb<EndIo<BOUNCED>>,
    dio: Dio,
    iter: &mut Iter<'_>,
    memory: IovIter<'_>,
    ctx: MaySleep,
) -> Answer {
    let prepared = match Prepared::new(&REQUESTS, ctx) {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = iter.next(Err(error), ctx);
            return iocb.refuse(error);
        }
    };
    let bounced = dio.flags.has(CallerFlags::BOUNCE);
    let bios = Submitter::new(prepared, iocb.into_dio(), dio, memory, bounced);
    match submit(bios, iter, ctx) {
        Ok(ended) => complete::answer_rare(ended, ctx),
        Err(answer) => answer,
    }
}

/// As [`rw`], but leaves a request that is not in flight to the caller (`__iomap_dio_rw()`).
#[inline(always)]
pub(crate) fn rw_dio(call: Call<'_, DioOps>) -> Result<Unique<Dio>, Answer> {
    let (bounced, ctx) = (call.flags.has(CallerFlags::BOUNCE), call.ctx);
    begin(
        call,
        |ctx| Prepared::new(&REQUESTS, ctx),
        |iocb, mut dio, work, iter, memory, prepared| {
            dio.kind = Kind::new(bounced, work);
            let bios = Submitter::new(prepared, iocb, dio, memory, bounced);
            submit(bios, iter, ctx)
        },
    )?
}

/// Builds and submits the bios of a request, and hands it over. Returns it if it is over.
fn submit(
    mut bios: Submitter<'_, Dio>,
    iter: &mut Iter<'_>,
    ctx: MaySleep,
) -> Result<Unique<Dio>, Answer> {
    let begin = bios.memory().mark();
    let walked = plugged(ctx, || mapping::walk(&mut bios, iter, ctx));
    if let Some(used) = has_passed_end(bios.dio(), bios.iocb(), iter.pos()) {
        bios.rewind(begin, used);
    }

    let mut wait = bios.dio().flags.has(CallerFlags::FORCE_WAIT);
    if let Err(error) = walked {
        match forgive(bios.dio(), bios.iocb(), error) {
            Ok(waits) => wait |= waits,
            Err(error) => bios.record_error(error),
        }
    }
    if wait {
        return Ok(bios.wait(ctx));
    }
    let sealed = bios.seal(ctx);
    if sealed.is_err() {
        trace::queued(|| (iter.inode(), iter.pos(), iter.remaining()));
    }
    sealed
}

/// Forgives an error that has ended the iteration over the mappings, or returns it: it fails the
/// request. Says whether the submitter then waits for the bios, even if the kiocb is asynchronous.
///
/// A caller that falls back to the page cache (`ENOTBLK`) needs the result now. So does one that
/// takes a short result (`PARTIAL`), faults its memory in and continues, unless it must not block:
/// that one takes the short result whenever it comes.
#[cold]
fn forgive(dio: &Dio, iocb: &Iocb, error: Error) -> Result<bool> {
    if error == ENOTBLK {
        return Ok(true);
    }
    if error == EFAULT && dio.size > 0 && dio.flags.has(CallerFlags::PARTIAL) {
        return Ok(!iocb.flags().has(IocbFlags::NOWAIT));
    }
    Err(error)
}
