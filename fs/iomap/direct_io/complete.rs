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
        bio_set::{
            Emptied,
            GivenAway,
            Header,
            Single,
            Started, //
        },
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

/// A request whose bios have all ended, wherever its memory is.
pub(crate) trait DoneDio: Sized {
    /// The first error of its bios or of its submission.
    fn result(&self) -> Result;
    /// The request by value, with all that the completion needs.
    fn into_done(self) -> Done;
}

/// As [`DoneDio`], in memory that has all of a [`Dio`].
pub(crate) trait DioInMemory: DoneDio {
    /// The kiocb, and the request itself.
    fn parts(&mut self) -> (&mut BusyIocb<DioOps>, &mut Dio);
    /// Has a work queue run [`complete_work`]. Any context.
    fn queue_work(self);
}

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
pub(crate) struct Done {
    iocb: BusyIocb<DioOps>,
    dio: Dio,
    /// What has happened to the caller's pages.
    pages: Pages,
    /// A worker for ioends has ended the last bio.
    at_ioend: bool,
    /// The bio, if the memory of the request is in front of one.
    bio: Option<Emptied>,
}

impl DoneDio for Unique<Dio> {
    #[inline]
    fn result(&self) -> Result {
        Unique::result(self)
    }

    #[inline]
    fn into_done(self) -> Done {
        let (pages, at_ioend) = (self.pages(), self.at_ioend());
        let (iocb, dio) = self.into_parts();
        Done {
            iocb,
            dio,
            pages,
            at_ioend,
            bio: None,
        }
    }
}

impl DioInMemory for Unique<Dio> {
    #[inline]
    fn parts(&mut self) -> (&mut BusyIocb<DioOps>, &mut Dio) {
        Unique::parts(self)
    }

    #[inline]
    fn queue_work(self) {
        self.punt();
    }
}

impl DoneDio for Single<Dio> {
    #[inline(always)]
    fn result(&self) -> Result {
        Single::result(self)
    }

    #[inline(always)]
    fn into_done(self) -> Done {
        let pages = self.pages();
        let (iocb, dio, bio) = self.into_parts();
        Done {
            iocb,
            dio,
            pages,
            at_ioend: false,
            bio: Some(bio),
        }
    }
}

impl DioInMemory for Single<Dio> {
    #[inline(always)]
    fn parts(&mut self) -> (&mut BusyIocb<DioOps>, &mut Dio) {
        Single::parts(self)
    }

    #[inline]
    fn queue_work(self) {
        self.punt();
    }
}

/// The last bio of an asynchronous request has ended (`iomap_dio_done()`). Any context.
#[doc(alias = "iomap_dio_done")]
#[inline(always)]
fn done<D: DioInMemory>(mut request: D) {
    let failed = request.result().is_err();
    let (iocb, dio) = request.parts();
    if failed || dio.work().is_empty() {
        let more = decide::work_at_end(dio.is_write(), failed, || iocb.has_cached_pages());
        if more.is_empty() {
            let (iocb, ret) = complete(request.into_done(), Ok(()), By::LastBio);
            return iocb.complete(ret);
        }
        dio.add_work(more);
    }
    request.queue_work();
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
        return request.queue_work();
    }
    let (iocb, ret) = complete_rare(request, By::Ioend(ctx));
    iocb.complete(ret);
}

/// Completes an asynchronous request on a work queue (`iomap_dio_complete_work()`).
#[doc(alias = "iomap_dio_complete_work")]
fn complete_work<D: DoneDio>(request: D, ctx: MaySleep) {
    let (iocb, ret) = complete_rare(request, By::Worker(ctx));
    iocb.complete(ret);
}

/// Completes a request whose submitter has waited for it, or found that all bios had ended.
#[inline(always)]
pub(crate) fn answer<D: DioInMemory>(mut request: D, ctx: MaySleep) -> Answer {
    if let (Ok(()), Kind::Direct) = (request.result(), &request.parts().1.kind) {
        let (iocb, ret) = complete(request.into_done(), Ok(()), By::Submitter(ctx));
        return iocb.answer(ret);
    }
    answer_rare(request, ctx)
}

/// As [`answer`], for requests that are rare.
#[cold]
pub(crate) fn answer_rare<D: DoneDio>(request: D, ctx: MaySleep) -> Answer {
    let (iocb, ret) = complete_rare(request, By::Submitter(ctx));
    iocb.answer(ret)
}

/// As [`answer`], for a simple read.
// Not inline: the read that nobody waits for would set up its stack frame.
#[inline(never)]
pub(crate) fn answer_simple(request: Single<SimpleRead>, ctx: MaySleep) -> Answer {
    if request.result().is_ok() {
        let (iocb, ret) = complete(request.into_done(), Ok(()), By::Submitter(ctx));
        return iocb.answer(ret);
    }
    answer_rare(request, ctx)
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
        bio: None,
    };
    let (iocb, ret) = complete(done, result, By::Submitter(ctx));
    iocb.answer(ret)
}

/// [`complete`], for requests that are rare.
#[inline(never)]
fn complete_rare<D: DoneDio>(request: D, by: By) -> (DoneIocb, isize) {
    let result = request.result();
    complete(request.into_done(), result, by)
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
        if decide::is_reported(error, EAGAIN.to_errno(), ENOTBLK.to_errno()) {
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
    drop(done.bio);

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

    #[inline(never)]
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

impl Header for Dio {
    type Ops = DioOps;

    fn punted(request: Single<Self>, ctx: MaySleep) {
        complete_work(request, ctx);
    }
}

impl Started for Dio {
    #[inline(always)]
    fn ended(request: Single<Self>) {
        done(request);
    }
}

impl Header for SimpleRead {
    type Ops = ();

    const KEEPS_PAGES: bool = true;

    fn punted(request: Single<Self>, ctx: MaySleep) {
        complete_work(request, ctx);
    }
}

impl GivenAway for SimpleRead {
    #[inline(always)]
    fn went_well(self, iocb: BusyIocb<()>) {
        let (iocb, ret) = complete(self.into_done(iocb, None), Ok(()), By::LastBio);
        iocb.complete(ret);
    }
}

impl SimpleRead {
    #[inline(always)]
    fn into_done(self, iocb: BusyIocb<()>, bio: Option<Emptied>) -> Done {
        Done {
            iocb: iocb.without_callbacks(),
            dio: self.into(),
            pages: Pages::LeftAlone,
            at_ioend: false,
            bio,
        }
    }
}

impl DoneDio for Single<SimpleRead> {
    #[inline(always)]
    fn result(&self) -> Result {
        Single::result(self)
    }

    #[inline(always)]
    fn into_done(self) -> Done {
        let (iocb, read, bio) = self.into_parts();
        read.into_done(iocb, Some(bio))
    }
}
