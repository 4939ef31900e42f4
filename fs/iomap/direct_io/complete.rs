// SPDX-License-Identifier: GPL-2.0

//! The completion of requests.
//!
//! A bio may end in any context. When all bios of an asynchronous request have ended,
//! [`Operations::done`] completes it at once or queues it on a work queue, which runs
//! [`Operations::complete_work`]. The submitter completes what it waited for with [`answer`]. All of
//! them call [`complete`], which takes the steps of `iomap_dio_complete()` in their order.

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

impl Operations for Dio {
    #[inline]
    fn cache() -> &'static Cache<Self> {
        &super::REQUESTS
    }

    #[doc(alias = "iomap_dio_done")]
    #[inline(always)]
    fn done(mut request: Unique<Self>) {
        let failed = request.result().is_err();
        let (iocb, dio) = request.parts();
        if failed || dio.work().is_empty() {
            let more = more_work(iocb, dio, failed);
            if more.is_empty() {
                let (iocb, ret) = complete_request(request, Ok(()), By::LastBio);
                return iocb.complete(ret);
            }
            dio.add_work(more);
        }
        request.punt();
    }

    /// Completes the request at once, unless that could wait for this worker: writeback of cached pages
    /// may.
    fn done_at_ioend(mut request: Unique<Self>, ctx: MaySleep) {
        let failed = request.result().is_err();
        let (iocb, dio) = request.parts();
        let more = more_work(iocb, dio, failed);
        if !more.is_empty() {
            dio.add_work(more);
            return request.punt();
        }
        let (iocb, ret) = complete_rare(request, By::Ioend(ctx));
        iocb.complete(ret);
    }

    #[doc(alias = "iomap_dio_complete_work")]
    fn complete_work(request: Unique<Self>, ctx: MaySleep) {
        let (iocb, ret) = complete_rare(request, By::Worker(ctx));
        iocb.complete(ret);
    }
}

/// The work that comes up when the last bio has ended.
#[inline(always)]
fn more_work(iocb: &BusyIocb<DioOps>, dio: &Dio, failed: bool) -> CompWork {
    // CAST: A size is not negative.
    let cached_pages = || iocb.has_cached_pages(dio.size as usize);
    decide::work_at_end(dio.is_write(), failed, cached_pages)
}

/// Completes a request whose submitter has waited for it, or found that all bios had ended.
#[inline(always)]
pub(crate) fn answer(mut request: Unique<Dio>, ctx: MaySleep) -> Answer {
    if let (Ok(()), Kind::Direct) = (request.result(), &request.parts().1.kind) {
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
    let told = || (Pages::of(memory), false);
    let (iocb, ret) = complete(iocb, dio, result, By::Submitter(ctx), told);
    iocb.answer(ret)
}

/// [`complete_request`], for requests that are rare.
#[inline(never)]
fn complete_rare(request: Unique<Dio>, by: By) -> (DoneIocb, isize) {
    let result = request.result();
    complete_request(request, result, by)
}

/// Completes a request, and frees it.
#[inline(always)]
fn complete_request(request: Unique<Dio>, result: Result, by: By) -> (DoneIocb, isize) {
    let (iocb, dio) = request.into_parts();
    let told = || (dio.pages(), dio.at_ioend());
    complete(iocb, &dio, result, by, told)
}

/// Completes a simple read, whose bio was put.
#[inline(always)]
fn complete_simple(
    iocb: BusyIocb<()>,
    read: SimpleRead,
    result: Result,
    by: By,
) -> (DoneIocb, isize) {
    let told = || (Pages::LeftAlone, false);
    complete(iocb.without_callbacks(), &read.into(), result, by, told)
}

/// Completes a request (`iomap_dio_complete()`). Returns its kiocb, and what its caller gets.
///
/// `result` is the first error of its bios or of its submission. `told` says what has happened to the
/// caller's pages, and whether a worker for ioends has ended the last bio.
#[doc(alias = "iomap_dio_complete")]
#[inline(always)]
fn complete(
    mut iocb: BusyIocb<DioOps>,
    dio: &Dio,
    result: Result,
    by: By,
    told: impl FnOnce() -> (Pages, bool),
) -> (DoneIocb, isize) {
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
    let (clamped, sync) = (dio.is_clamped(), dio.work().has(CompWork::SYNC));
    let error = match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    };

    // `->end_io` converts unwritten blocks.
    let (iocb, fs_error) = iocb.end_io(size, error, || {
        let (pages, at_ioend) = told();
        let flags = dio
            .end_io_flags(pages)
            .with_if(write && !invalidate, EndIoFlags::NO_INVALIDATE);
        if at_ioend {
            flags.without(EndIoFlags::COMP_WORK)
        } else {
            flags
        }
    });
    let mut ret = match fs_error {
        0 if clamped => decide::clamp_read(pos, size, dio.i_size),
        0 => size,
        // CAST: An errno fits.
        error => error as isize,
    };

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

    // The flush must come after `inode_dio_end()`: `fsync()` may need `i_rwsem`, and its holder may
    // be waiting in `inode_dio_wait()`.
    let mut iocb = iocb.end_dio();
    if ret > 0 {
        // CAST: `isize` is at most 64 bits wide.
        iocb.advance_pos(ret as i64);
        if let (true, Some(ctx)) = (sync, ctx) {
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

impl GivenAway for SimpleRead {
    type Failed = Dio;

    #[inline(always)]
    fn went_well(self, iocb: BusyIocb<()>) {
        let (iocb, ret) = complete_simple(iocb, self, Ok(()), By::LastBio);
        iocb.complete(ret);
    }

    #[inline]
    fn failed(self) -> Dio {
        self.into()
    }
}
