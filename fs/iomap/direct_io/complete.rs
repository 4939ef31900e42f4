// SPDX-License-Identifier: GPL-2.0

//! The completion of requests.
//!
//! A bio may end in any context. When all bios of an asynchronous request have ended,
//! [`Operations::done`] completes it at once or leaves it to a work queue, which runs
//! [`Operations::complete_work`]. The submitter completes what it waited for with [`answer`]. All
//! of them call [`end`] and then [`Ended::flush_and_complete`], which are the steps of
//! `iomap_dio_complete()` in their order. A worker that has many requests flushes once for several
//! of them in between, and then calls [`Ended::complete`].

#![forbid(unsafe_code)]

use super::{
    decide::{
        self,
        CompWork, //
    },
    dio::{
        Dio,
        Kind,
        SimpleRead, //
    },
};
use core::mem::ManuallyDrop;
use kernel::{
    fs::inode::Inode,
    iomap::{
        flags::EndIoFlags,
        kiocb::{
            Answer,
            BusyIocb,
            DoneIocb, //
        },
        ops::DioOps,
        request::Unique,
        stats::{
            self,
            Stat, //
        },
        trace,
        worker::{
            Batch,
            Operations, //
        }, //
    },
    iov::IovIter,
    prelude::*,
    task::MaySleep, //
};

/// Who completes a request.
enum By {
    /// The submitter, which has waited or found that all bios had ended.
    Submitter(MaySleep),
    /// A work queue.
    Worker(MaySleep),
    /// The worker for ioends that has ended the last bio.
    Ioend(MaySleep),
    /// Whoever has ended the last bio, in any context. The request has neither an error nor
    /// completion work.
    LastBio,
}

impl By {
    /// Proof that the context may sleep, if it may.
    #[inline(always)]
    fn ctx(&self) -> Option<MaySleep> {
        match *self {
            By::Submitter(ctx) | By::Worker(ctx) | By::Ioend(ctx) => Some(ctx),
            By::LastBio => None,
        }
    }
}

impl Operations for Dio {
    type SimpleRead = SimpleRead;

    #[doc(alias = "iomap_dio_simple_end_io")]
    #[inline(always)]
    fn done_simple_read(read: SimpleRead, iocb: BusyIocb<()>) {
        let (iocb, ret) = complete_simple(iocb, read, Ok(()), By::LastBio);
        iocb.complete(ret);
    }

    #[doc(alias = "iomap_dio_done")]
    #[inline(always)]
    fn done(mut request: Unique<Self>) -> Option<Unique<Self>> {
        let failed = request.result().is_err();
        let (iocb, dio) = request.parts();
        if failed || dio.work().is_empty() {
            let more = work_at_end(iocb, dio, failed);
            if more.is_empty() {
                let (iocb, ret) = complete_request(request, Ok(()), By::LastBio);
                iocb.complete(ret);
                return None;
            }
            dio.add_work(more);
        }
        count_reasons(dio.work());
        Some(request)
    }

    /// Completes the request at once, unless it has failed, or completing it may wait for this
    /// worker, as writeback may.
    fn done_at_ioend(mut request: Unique<Self>, ctx: MaySleep) -> Option<Unique<Self>> {
        let failed = request.result().is_err();
        let (iocb, dio) = request.parts();
        // As in C. A page that is cached between a look at the range and `->end_io` has zeroes
        // where the data becomes visible, and a flush writes back what was cached.
        let waits = !dio.work().is_empty() && iocb.has_any_cached_page();
        let more = work_at_end(iocb, dio, failed).with_if(waits, CompWork::INVALIDATE);
        if !more.is_empty() {
            dio.add_work(more);
            count_reasons(more);
            return Some(request);
        }
        let (iocb, ret) = complete_rare(request, By::Ioend(ctx));
        iocb.complete(ret);
        None
    }

    #[doc(alias = "iomap_dio_complete_work")]
    fn complete_work(mut batch: Batch<Self>, ctx: MaySleep) {
        stats::count(Stat::WorkerRuns);
        let request = match batch.next() {
            Some(request) if batch.is_empty() => request,
            first => return complete_together(first, batch, ctx),
        };
        let (iocb, ret) = complete_rare(request, By::Worker(ctx));
        iocb.complete(ret);
    }

    /// Writes that owe a flush wait for one that does for all of them. It writes back no page that
    /// their own ones would not.
    fn goes_with(request: &Unique<Self>, next: &Unique<Self>) -> bool {
        if !owes_flush(next) {
            return !owes_flush(request);
        }
        if !owes_flush(request) {
            return false;
        }
        let (iocb, next) = (request.iocb(), next.iocb());
        // CAST: `isize` is at most 64 bits wide.
        // OVERFLOW: Positions in the file.
        let end = iocb.ki_pos().wrapping_add(request.dio().size as i64);
        let gap = next.ki_pos().wrapping_sub(end);
        iocb.syncs_as(next) && (gap == 0 || gap > 0 && !iocb.has_any_cached_page())
    }
}

/// Whether a request owes a flush, if it goes well.
fn owes_flush(request: &Unique<Dio>) -> bool {
    request.dio().work().has(CompWork::SYNC)
}

/// Completes the `next` request, and those in the batch.
#[inline(never)]
fn complete_together(mut next: Option<Unique<Dio>>, mut batch: Batch<Dio>, ctx: MaySleep) {
    // All of a batch owe a flush, or none. None is left in the end, so the compiler need not look
    // for them.
    let mut all;
    let unstable: &mut [Option<Ended>] = if next.as_ref().is_some_and(owes_flush) {
        all = ManuallyDrop::new([const { None }; Batch::<Dio>::MOST]);
        &mut *all
    } else {
        &mut []
    };
    let mut places = unstable.iter_mut();
    while let Some(mut request) = next {
        batch.end_io_together(&mut request, end_io_of_a_write, ctx);
        let result = request.result();
        let (iocb, dio) = request.into_parts();
        let flags = || dio.end_io_flags(dio.should_dirty(), dio.at_ioend());
        let ended = end(iocb, &dio, result, By::Worker(ctx), flags);
        batch.free(dio);
        let place = if ended.is_unstable() {
            places.next()
        } else {
            None
        };
        if let Some(place) = place {
            *place = Some(ended);
        } else {
            let (iocb, ret) = ended.flush_and_complete(Some(ctx));
            iocb.complete(ret);
        }
        next = batch.next();
    }
    // Only now: `fsync()` may wait for who waits for a request of the batch (`inode_dio_wait()`).
    flush(unstable, ctx);
}

/// Makes writes that go with each other stable, and completes them.
#[inline(never)]
fn flush(mut writes: &mut [Option<Ended>], ctx: MaySleep) {
    while let Some(Some(first)) = writes.first() {
        let (mut last, mut len, mut written) = (first, 1_usize, first.ret);
        // CAST: `isize` is at most 64 bits wide.
        let start = first.iocb.ki_pos().wrapping_sub(written as i64);
        for write in writes.get(1..).unwrap_or_default().iter().flatten() {
            // OVERFLOW: The first one begins before this one ends.
            let all = write.iocb.ki_pos().wrapping_sub(start);
            // One flush does for all where a size can be that large.
            let Ok(all) = isize::try_from(all) else {
                break;
            };
            // OVERFLOW: A small number.
            (last, len, written) = (write, len.wrapping_add(1), all);
        }
        if len > 1 {
            stats::count(Stat::SharedFlushes);
            stats::add(Stat::SharingWrites, len);
        }
        let flushed = last.iocb.sync_written(written, ctx);
        let (stable, others) = writes.split_at_mut_checked(len).unwrap_or_default();
        for write in stable.iter_mut().filter_map(Option::take) {
            let (iocb, ret) = write.complete(flushed);
            iocb.complete(ret);
        }
        writes = others;
    }
}

/// What a worker may tell the file system together with others of a write that went well: its size
/// in bytes, and its flags.
///
/// One that extends the file is told alone: a file system that converts extent by extent may move
/// the end of the file first, and readers would see zeroes. So is one to shared blocks: if it was
/// told again, the file system could remap blocks that somebody reserved meanwhile for other data.
fn end_io_of_a_write(request: &Unique<Dio>) -> Option<(isize, EndIoFlags)> {
    let dio = request.dio();
    let well = dio.is_write() && request.result().is_ok() && dio.size > 0;
    (well && !dio.work().has(CompWork::EXTEND | CompWork::COW))
        .then(|| (dio.size, dio.end_io_flags(request.should_dirty(), false)))
}

/// The work that comes up when the last bio of an asynchronous request has ended.
///
/// A write has to drop pages that were cached meanwhile, which may block.
#[inline(always)]
fn work_at_end(iocb: &BusyIocb<DioOps>, dio: &Dio, failed: bool) -> CompWork {
    if failed {
        CompWork::ERROR
    // CAST: A size is not negative.
    } else if dio.is_write() && iocb.has_cached_pages(dio.size as usize) {
        CompWork::INVALIDATE
    } else {
        CompWork::empty()
    }
}

/// Completes a request whose submitter has waited for it, or found that all bios had ended.
#[inline(always)]
pub(crate) fn answer<const BOUNCED: bool>(mut request: Unique<Dio>, ctx: MaySleep) -> Answer {
    let often = BOUNCED || matches!(request.parts().1.kind, Kind::Direct);
    if request.result().is_ok() && often {
        let (iocb, ret) = complete_request(request, Ok(()), By::Submitter(ctx));
        return iocb.answer(ret);
    }
    answer_rare(request, ctx)
}

/// As [`answer`], for requests that are rare.
#[inline(always)]
pub(crate) fn answer_rare(request: Unique<Dio>, ctx: MaySleep) -> Answer {
    let (iocb, ret) = complete_rare(request, By::Submitter(ctx));
    iocb.answer(ret)
}

/// As [`answer`], for a simple read that the submitter has waited for.
// Not inline: the read that nobody waits for would set up its stack frame.
#[inline(never)]
pub(crate) fn answer_simple(
    read: SimpleRead,
    iocb: BusyIocb<()>,
    result: Result,
    ctx: MaySleep,
) -> Answer {
    let (iocb, ret) = complete_simple(iocb, read, result, By::Submitter(ctx));
    iocb.answer(ret)
}

/// As [`answer`], for a request to or from `memory` without bios.
#[inline(always)]
pub(crate) fn answer_without_bios(
    iocb: BusyIocb<DioOps>,
    dio: &Dio,
    memory: &IovIter<'_>,
    result: Result,
    ctx: MaySleep,
) -> Answer {
    let flags = || dio.end_io_flags(memory.should_dirty(), false);
    let ended = end(iocb, dio, result, By::Submitter(ctx), flags);
    let (iocb, ret) = ended.flush_and_complete(Some(ctx));
    iocb.answer(ret)
}

/// [`complete_request`], for requests that are rare.
#[inline(never)]
fn complete_rare(request: Unique<Dio>, by: By) -> (DoneIocb, isize) {
    let result = request.result();
    complete_request(request, result, by)
}

/// Completes a request, and frees it. Returns its kiocb, and what its caller gets.
#[inline(always)]
fn complete_request(request: Unique<Dio>, result: Result, by: By) -> (DoneIocb, isize) {
    let ctx = by.ctx();
    let (iocb, dio) = request.into_parts();
    let flags = || dio.end_io_flags(dio.should_dirty(), dio.at_ioend());
    let ended = end(iocb, &dio, result, by, flags);
    ended.flush_and_complete(ctx)
}

/// Completes a simple read, whose bio was put. There is no `->end_io`.
#[inline(always)]
fn complete_simple(
    iocb: BusyIocb<()>,
    read: SimpleRead,
    result: Result,
    by: By,
) -> (DoneIocb, isize) {
    let (ctx, iocb) = (by.ctx(), iocb.into_dio());
    end(iocb, &read.into(), result, by, EndIoFlags::empty).flush_and_complete(ctx)
}

/// Ends a request (`iomap_dio_complete()` up to `inode_dio_end()`).
///
/// `result` is the first error of its bios or of its submission. `flags` are those for `->end_io`,
/// but for [`EndIoFlags::NO_INVALIDATE`], which depends on `by`.
#[inline(always)]
fn end(
    iocb: BusyIocb<DioOps>,
    dio: &Dio,
    result: Result,
    by: By,
    flags: impl FnOnce() -> EndIoFlags,
) -> Ended {
    count(dio, result, &by);
    let (ctx, invalidate) = (by.ctx(), matches!(by, By::Submitter(_) | By::Worker(_)));
    let (pos, size, write) = (iocb.ki_pos(), dio.size, dio.is_write());
    let sync = dio.work().has(CompWork::SYNC);
    let error = match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    };

    // `->end_io` converts unwritten blocks.
    let (iocb, fs_error) = iocb.end_io(size, error, || {
        flags().with_if(write && !invalidate, EndIoFlags::NO_INVALIDATE)
    });
    let ret = match fs_error {
        // A simple read does not reach the end of the file.
        0 if !write && !matches!(dio.kind, Kind::SimpleRead) => {
            decide::clamp_read(pos, size, dio.i_size)
        }
        0 => size,
        // CAST: An errno fits.
        error => error as isize,
    };

    if let Some(ctx) = ctx {
        if error != 0 {
            report_error(iocb.inode(), write, pos, size, error, ctx);
        }
        // Only now: a buffered read before the conversion would fill the page cache with zeroes.
        // Best effort: if the caller's memory is a mapping of the same file, its pages may be
        // cached again. A failure to drop a page does not fail the write.
        if write && error == 0 && size > 0 && invalidate {
            iocb.invalidate_written(size as usize, ctx);
        }
    }

    let mut iocb = iocb.end_dio();
    if ret > 0 {
        // CAST: `isize` is at most 64 bits wide.
        iocb.advance_pos(ret as i64);
    }
    Ended {
        iocb,
        ret,
        error,
        sync,
        done_before: dio.done_before,
    }
}

/// Reports an error, unless it only asks the caller to try again in another way.
#[cold]
fn report_error(inode: &Inode, write: bool, pos: i64, size: isize, error: c_int, ctx: MaySleep) {
    if error != EAGAIN.to_errno() && error != ENOTBLK.to_errno() {
        inode.report_io_error(write, pos, size as u64, error, ctx);
    }
}

/// Counts a request that is over.
#[inline(always)]
fn count(dio: &Dio, result: Result, by: &By) {
    stats::count(match dio.kind {
        Kind::SimpleRead => Stat::SimpleRead,
        Kind::Direct => Stat::Direct,
        Kind::Deferred(_) => Stat::Deferred,
        Kind::Bounce(_) => Stat::Bounce,
    });
    stats::count(match by {
        By::Submitter(_) => Stat::BySubmitter,
        By::Worker(_) => Stat::ByWorker,
        By::Ioend(_) => Stat::ByIoend,
        By::LastBio => Stat::ByLastBio,
    });
    if result == Err(EAGAIN) {
        stats::count(if dio.size > 0 {
            Stat::AgainSubmitted
        } else {
            Stat::AgainMapping
        });
    }
}

/// Counts why a worker completes a request.
#[inline(always)]
fn count_reasons(work: CompWork) {
    for (reason, stat) in [
        (CompWork::UNWRITTEN, Stat::PuntUnwritten),
        (CompWork::COW, Stat::PuntCow),
        (CompWork::NEW, Stat::PuntNew),
        (CompWork::EXTEND, Stat::PuntExtend),
        (CompWork::SYNC, Stat::PuntSync),
        (CompWork::INVALIDATE, Stat::PuntInvalidate),
        (CompWork::ERROR, Stat::PuntError),
    ] {
        if work.has(reason) {
            stats::count(stat);
        }
    }
}

/// A request that no longer counts in `i_dio_count`.
///
/// The flush comes only now: `fsync()` may need `i_rwsem`, and its holder may be waiting in
/// `inode_dio_wait()`.
struct Ended {
    iocb: DoneIocb,
    /// Bytes before the position, or an errno.
    ret: isize,
    /// The error of the bios.
    error: c_int,
    /// The bytes have to be stable.
    sync: bool,
    done_before: usize,
}

impl Ended {
    /// Whether bytes were written that have to be stable, and are not.
    #[inline(always)]
    fn is_unstable(&self) -> bool {
        self.sync && self.ret > 0
    }

    /// Flushes if it must, and goes on with [`Ended::complete`].
    #[inline(always)]
    fn flush_and_complete(self, ctx: Option<MaySleep>) -> (DoneIocb, isize) {
        let flushed = match ctx {
            Some(ctx) if self.is_unstable() => self.iocb.sync_written(self.ret, ctx),
            _ => Ok(()),
        };
        self.complete(flushed)
    }

    /// Returns the kiocb, and what its caller gets.
    #[inline(always)]
    fn complete(self, flushed: Result) -> (DoneIocb, isize) {
        let ret = match flushed {
            // OVERFLOW: Both are parts of one request, which is at most `isize::MAX`.
            Ok(()) if self.ret > 0 => self.ret.wrapping_add(self.done_before as isize),
            Ok(()) => self.ret,
            // CAST: An errno fits.
            Err(error) => error.to_errno() as isize,
        };
        trace::complete(&self.iocb, self.error, ret);
        (self.iocb, ret)
    }
}
