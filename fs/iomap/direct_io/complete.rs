// SPDX-License-Identifier: GPL-2.0

//! The completion of requests.
//!
//! A bio may end in any context. When all bios of an asynchronous request have ended, [`done`]
//! completes it at once or queues it on a work queue, which runs [`complete_work`]. The submitter
//! completes what it waited for with [`answer`]. All of them call [`complete`], which takes the steps
//! of `iomap_dio_complete()` in their order.

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
use kernel::{
    block::bio::Pages,
    fs::inode::Failed,
    iomap::{
        bio_set::GivenAway,
        flags::EndIoFlags,
        kiocb::{
            Answer,
            BusyIocb,
            DoneIocb, //
        },
        ops::DioOps,
        request::{
            Cache,
            Memory,
            Operations,
            Unique, //
        },
        trace, //
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

/// What the completion needs of a request.
struct Done {
    iocb: BusyIocb<DioOps>,
    dio: Dio,
    /// What has happened to the caller's pages.
    pages: Pages,
    /// A worker for ioends has ended the last bio.
    at_ioend: bool,
    /// Its memory, if it had bios.
    memory: Option<Memory<Dio>>,
}

impl From<Unique<Dio>> for Done {
    #[inline(always)]
    fn from(request: Unique<Dio>) -> Self {
        let (pages, at_ioend) = (request.pages(), request.at_ioend());
        let (iocb, dio, memory) = request.into_parts();
        Self {
            iocb,
            dio,
            pages,
            at_ioend,
            memory: Some(memory),
        }
    }
}

impl Done {
    /// A simple read, whose bio was put.
    #[inline(always)]
    fn simple_read(iocb: BusyIocb<()>, read: SimpleRead) -> Self {
        Self {
            iocb: iocb.without_callbacks(),
            dio: read.into(),
            pages: Pages::LeftAlone,
            at_ioend: false,
            memory: None,
        }
    }
}

/// The last bio of an asynchronous request has ended (`iomap_dio_done()`). Any context.
#[doc(alias = "iomap_dio_done")]
#[inline(always)]
fn done(mut request: Unique<Dio>) {
    let failed = request.result().is_err();
    let (iocb, dio) = request.parts();
    if failed || dio.work().is_empty() {
        let more = decide::work_at_end(dio.is_write(), failed, || iocb.has_cached_pages());
        if more.is_empty() {
            let (iocb, ret) = complete(request.into(), Ok(()), By::LastBio);
            return iocb.complete(ret);
        }
        dio.add_work(more);
    }
    request.punt();
}

/// As [`done`], in the worker that finishes ioends. Completes what has completion work at once,
/// unless that could wait for this worker: writeback of cached pages may.
#[inline(never)]
fn done_at_ioend(mut request: Unique<Dio>, ctx: MaySleep) {
    let failed = request.result().is_err();
    let (iocb, dio) = request.parts();
    if dio.work().is_empty() {
        return done(request);
    }
    let more = decide::work_at_end(dio.is_write(), failed, || iocb.has_cached_pages());
    if !more.is_empty() {
        dio.add_work(more);
        return request.punt();
    }
    let (iocb, ret) = complete_rare(request, By::Ioend(ctx));
    iocb.complete(ret);
}

/// Completes an asynchronous request on a work queue (`iomap_dio_complete_work()`).
#[doc(alias = "iomap_dio_complete_work")]
fn complete_work(request: Unique<Dio>, ctx: MaySleep) {
    let (iocb, ret) = complete_rare(request, By::Worker(ctx));
    iocb.complete(ret);
}

/// Completes a request whose submitter has waited for it, or found that all bios had ended.
#[inline(always)]
pub(crate) fn answer(mut request: Unique<Dio>, ctx: MaySleep) -> Answer {
    if let (Ok(()), Kind::Direct) = (request.result(), &request.parts().1.kind) {
        let (iocb, ret) = complete(request.into(), Ok(()), By::Submitter(ctx));
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
    if let Err(error) = result {
        return fail_simple(read, iocb, error, ctx);
    }
    let done = Done::simple_read(iocb, read);
    let (iocb, ret) = complete(done, Ok(()), By::Submitter(ctx));
    iocb.answer(ret)
}

/// As [`answer_simple`], with an error.
#[cold]
fn fail_simple(read: SimpleRead, iocb: BusyIocb<()>, error: Error, ctx: MaySleep) -> Answer {
    let done = Done::simple_read(iocb, read);
    let (iocb, ret) = complete(done, Err(error), By::Submitter(ctx));
    iocb.answer(ret)
}

/// As [`answer`], for a request to or from `memory` without bios.
#[inline(always)]
pub(crate) fn answer_without_bios(
    dio: Dio,
    iocb: BusyIocb<DioOps>,
    memory: &IovIter<'_>,
    result: Result,
    ctx: MaySleep,
) -> Answer {
    let done = Done {
        iocb,
        dio,
        pages: Pages::of(memory),
        at_ioend: false,
        memory: None,
    };
    let (iocb, ret) = complete(done, result, By::Submitter(ctx));
    iocb.answer(ret)
}

/// [`complete`], for requests that are rare.
#[inline(never)]
fn complete_rare(request: Unique<Dio>, by: By) -> (DoneIocb, isize) {
    let result = request.result();
    complete(request.into(), result, by)
}

/// Completes a request (`iomap_dio_complete()`). Returns its kiocb, and what its caller gets.
///
/// `result` is the first error of its bios or of its submission.
#[doc(alias = "iomap_dio_complete")]
#[inline(always)]
fn complete(done: Done, result: Result, by: By) -> (DoneIocb, isize) {
    let Done { mut iocb, dio, .. } = done;
    let (ctx, invalidate) = match by {
        By::Submitter(ctx) | By::Worker(ctx) => (Some(ctx), true),
        By::Ioend(ctx) => (Some(ctx), false),
        By::LastBio => (None, false),
    };
    if !matches!(by, By::Submitter(_)) {
        // The bio is freed. A poller that has read its address already finds a bio there (the slab is
        // `SLAB_TYPESAFE_BY_RCU`); clear the address for later pollers.
        iocb.clear_polled_bio();
    }
    let (pos, size, write) = (iocb.ki_pos(), dio.size, dio.is_write());
    let error = match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    };

    // `->end_io` converts unwritten blocks.
    let (iocb, fs_error) = iocb.end_io(size, error, || {
        let flags = dio
            .end_io_flags(done.pages)
            .with_if(write && !invalidate, EndIoFlags::NO_INVALIDATE);
        if done.at_ioend {
            flags.without(EndIoFlags::COMP_WORK)
        } else {
            flags
        }
    });
    let mut ret = dio.ret;
    if fs_error != 0 {
        // CAST: An errno fits.
        ret = fs_error as isize;
    }

    if let Some(ctx) = ctx {
        if error != 0 && decide::is_reported(error, EAGAIN.to_errno(), ENOTBLK.to_errno()) {
            let failed = if write { Failed::Write } else { Failed::Read };
            let inode = iocb.inode();
            inode.report_io_error(failed, pos, size as u64, error, ctx);
        }
        // Only now: a buffered read before the conversion would fill the page cache with zeroes. Best
        // effort: if the caller's memory is a mapping of the same file, its pages may be cached
        // again. A failure to drop a page does not fail the write.
        if write && error == 0 && size > 0 && invalidate {
            iocb.invalidate_written(size as usize, ctx);
        }
    }
    drop(done.memory);

    // The flush must come after `inode_dio_end()`: `fsync()` may need `i_rwsem`, and its holder may
    // be waiting in `inode_dio_wait()`.
    let mut iocb = iocb.end_dio();
    if ret > 0 {
        // CAST: `isize` is at most 64 bits wide.
        iocb.advance_pos(ret as i64);
        if let (true, Some(ctx)) = (dio.work().has(CompWork::SYNC), ctx) {
            ret = match iocb.sync_written(ret, ctx) {
                Ok(ret) => ret,
                // CAST: An errno fits.
                Err(error) => error.to_errno() as isize,
            };
        }
        if ret > 0 {
            // OVERFLOW: Both are parts of one request, which is at most `isize::MAX`.
            ret = ret.wrapping_add(dio.done_before as isize);
        }
    }
    trace::complete(&iocb, error, ret);
    (iocb, ret)
}

impl Operations for Dio {
    type Sealed = Self;

    #[inline]
    fn cache() -> &'static Cache<Self> {
        &super::REQUESTS
    }

    #[inline(always)]
    fn ended(request: Unique<Self>) {
        done(request);
    }

    #[inline]
    fn ioend_ended(request: Unique<Self>, ctx: MaySleep) {
        done_at_ioend(request, ctx);
    }

    fn punted(request: Unique<Self>, ctx: MaySleep) {
        complete_work(request, ctx);
    }
}

impl GivenAway for SimpleRead {
    type Failed = Dio;

    #[inline(always)]
    fn went_well(self, iocb: BusyIocb<()>) {
        let done = Done::simple_read(iocb, self);
        let (iocb, ret) = complete(done, Ok(()), By::LastBio);
        iocb.complete(ret);
    }

    #[inline]
    fn failed(self) -> Dio {
        self.into()
    }
}
