// SPDX-License-Identifier: GPL-2.0

//! The completion of requests.
//!
//! A bio may end in any context. When all bios of a request have ended, its owner completes it at
//! once, queues it on a work queue, or wakes the submitter. [`DioCompletion::clear`] completes in
//! any context, [`DioCompletion::settle`] needs process context.

#![forbid(unsafe_code)]

use super::{
    decide::{
        self,
        Owed, //
    },
    travel::{
        Clear,
        Travel, //
    },
};
use kernel::{
    block::bio::Pages,
    fs::inode::Failed,
    iomap::{
        bio_set::{
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
    prelude::*,
    task::MaySleep, //
};

/// The kind of counted requests of direct I/O.
pub(crate) enum Dio {}

/// Whether pages that were cached during a write are dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cached {
    Dropped,
    Kept,
}

/// The description of a request for its completion, written at the end of submission.
pub(crate) struct DioCompletion {
    /// Bytes that were submitted, zeroed or copied, successfully or not.
    pub(crate) size: isize,
    /// The result in case of success: `size`, for a read clamped to the end of the file.
    pub(crate) counted: isize,
    /// Bytes of an earlier part of the request.
    pub(crate) done_before: usize,
    /// The way of the request.
    pub(crate) travel: Travel,
    /// Each bio was aligned to the blocks of the file system.
    pub(crate) fsblock_aligned: bool,
}

impl Started for DioCompletion {
    #[inline(always)]
    fn ended(mut request: Single<Self>) {
        let failed = request.result().is_err();
        let pages = request.pages();
        let (iocb, completion) = request.parts();
        let Some(clear) = completion.land(iocb, failed) else {
            return request.punt();
        };
        let (iocb, completion, bio) = request.into_parts();
        let told = completion.clear(iocb, clear, pages);
        drop(bio);
        let (iocb, ret) = told.close(0, None);
        iocb.complete(ret);
    }
}

impl Header for DioCompletion {
    type Ops = DioOps;

    fn punted(mut request: Single<Self>, ctx: MaySleep) {
        request.parts().0.clear_polled_bio();
        let (iocb, ret) = settle_single(request, ctx);
        iocb.complete(ret);
    }
}

/// The description of a simple read. It has no `Travel` and no `->end_io`.
pub(crate) struct SimpleRead {
    /// Bytes.
    pub(crate) size: u32,
}

impl SimpleRead {
    #[inline(always)]
    fn close(self, iocb: BusyIocb<()>, error: c_int) -> (DoneIocb, isize) {
        let told = Told {
            iocb,
            done_before: 0,
            // CAST: Both fit.
            ret: if error == 0 {
                self.size as isize
            } else {
                error as isize
            },
        };
        told.close(error, None)
    }
}

impl GivenAway for SimpleRead {
    #[inline(always)]
    fn went_well(self, mut iocb: BusyIocb<()>) {
        iocb.clear_polled_bio();
        let (iocb, ret) = self.close(iocb, 0);
        iocb.complete(ret);
    }
}

impl Header for SimpleRead {
    type Ops = ();

    const KEEPS_PAGES: bool = true;

    fn punted(mut request: Single<Self>, ctx: MaySleep) {
        request.parts().0.clear_polled_bio();
        let (iocb, ret) = settle_simple(request, ctx);
        iocb.complete(ret);
    }
}

/// Completes a simple read that was waited for.
pub(crate) fn finish_simple(request: Single<SimpleRead>, ctx: MaySleep) -> Answer {
    let (iocb, ret) = settle_simple(request, ctx);
    iocb.answer(ret)
}

fn settle_simple(request: Single<SimpleRead>, ctx: MaySleep) -> (DoneIocb, isize) {
    let error = errno(request.result());
    let (iocb, read, bio) = request.into_parts();
    drop(bio);
    // The same errors as for other requests are not reported.
    if decide::is_reported(error, EAGAIN.to_errno(), ENOTBLK.to_errno()) {
        let len = u64::from(read.size);
        iocb.inode()
            .report_io_error(Failed::Read, iocb.ki_pos(), len, error, ctx);
    }
    read.close(iocb, error)
}

impl Operations for Dio {
    type Sealed = DioCompletion;

    #[inline]
    fn cache() -> &'static Cache<Self> {
        &super::REQUESTS
    }

    #[inline]
    fn ended(request: Unique<Self>) {
        land(request);
    }

    #[inline]
    fn ioend_ended(mut request: Unique<Self>, ctx: MaySleep) {
        match request.parts().1.travel.debt() {
            None => land(request),
            Some(_) => land_at_ioend(request, ctx),
        }
    }

    fn punted(request: Unique<Self>, ctx: MaySleep) {
        deliver(request, Cached::Dropped, ctx);
    }
}

/// Completes an asynchronous request whose last bio has ended, or queues it on a work queue.
#[inline(never)]
fn land(mut request: Unique<Dio>) {
    let failed = request.result().is_err();
    let pages = request.pages();
    let (iocb, completion) = request.parts();
    let Some(clear) = completion.land(iocb, failed) else {
        return request.punt();
    };
    let (iocb, completion) = request.into_parts();
    let (iocb, ret) = completion.clear(iocb, clear, pages).close(0, None);
    iocb.complete(ret);
}

/// Completes an asynchronous request with a debt whose last bio a worker for ioends has ended,
/// unless that could wait for this worker: writeback of cached pages may.
#[inline(never)]
fn land_at_ioend(mut request: Unique<Dio>, ctx: MaySleep) {
    let failed = request.result().is_err();
    let (iocb, completion) = request.parts();
    let write = completion.travel.transfer().is_write();
    let owed = decide::owed_at_end(write, failed, || iocb.has_cached_pages());
    if owed.is_nothing() {
        deliver(request, Cached::Kept, ctx);
    } else {
        completion.travel.owe(owed);
        request.punt();
    }
}

/// Completes an asynchronous request in process context and calls `ki_complete()`.
fn deliver(mut request: Unique<Dio>, cached: Cached, ctx: MaySleep) {
    // The bio is freed. A poller that has read its address already finds a bio there (the slab is
    // `SLAB_TYPESAFE_BY_RCU`); clear the address for later pollers.
    request.parts().0.clear_polled_bio();
    let (iocb, ret) = settle(request, cached, ctx);
    iocb.complete(ret);
}

/// Completes a counted request in process context, and returns the result to the caller.
pub(crate) fn finish(request: Unique<Dio>, ctx: MaySleep) -> Answer {
    let (iocb, ret) = settle(request, Cached::Dropped, ctx);
    iocb.answer(ret)
}

fn settle(request: Unique<Dio>, cached: Cached, ctx: MaySleep) -> (DoneIocb, isize) {
    let (result, pages, at_ioend) = (request.result(), request.pages(), request.at_ioend());
    let (iocb, completion) = request.into_parts();
    completion.settle(iocb, result, pages, cached, at_ioend, ctx)
}

/// Completes a single-bio request like [`finish`].
#[inline(always)]
pub(crate) fn finish_single(request: Single<DioCompletion>, ctx: MaySleep) -> Answer {
    let pages = request.pages();
    let clear = match request.result() {
        Ok(()) => request.header().travel.clear(),
        Err(_) => None,
    };
    let (iocb, ret) = match clear {
        Some(clear) => {
            let (iocb, completion, bio) = request.into_parts();
            let told = completion.clear_here(iocb, clear, pages, ctx);
            drop(bio);
            told.close(0, None)
        }
        None => settle_single(request, ctx),
    };
    iocb.answer(ret)
}

#[cold]
#[inline(never)]
fn settle_single(request: Single<DioCompletion>, ctx: MaySleep) -> (DoneIocb, isize) {
    let (result, pages) = (request.result(), request.pages());
    let (iocb, completion, bio) = request.into_parts();
    drop(bio);
    completion.settle(iocb, result, pages, Cached::Dropped, false, ctx)
}

/// Completes a request without bios like [`finish`].
pub(crate) fn finish_without_bio(
    iocb: BusyIocb<DioOps>,
    completion: DioCompletion,
    result: Result,
    pages: Pages,
    ctx: MaySleep,
) -> Answer {
    let (iocb, ret) = completion.settle(iocb, result, pages, Cached::Dropped, false, ctx);
    iocb.answer(ret)
}

#[inline]
fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// A request after `->end_io`.
struct Told {
    iocb: BusyIocb<()>,
    /// Bytes of an earlier part of the request.
    done_before: usize,
    /// The result without `done_before`: bytes, or a negative errno.
    ret: isize,
}

impl Told {
    /// The last steps of every request. `error` is that of its bios. `flush` is given if the
    /// request has to be flushed.
    #[inline(always)]
    fn close(self, error: c_int, flush: Option<MaySleep>) -> (DoneIocb, isize) {
        let mut ret = self.ret;
        // The flush must come after `inode_dio_end()`: `fsync()` may need `i_rwsem`, and its holder
        // may be waiting in `inode_dio_wait()`.
        let mut iocb = self.iocb.end_dio();
        if ret > 0 {
            // CAST: `isize` is at most 64 bits wide.
            iocb.advance_pos(ret as i64);
            if let Some(ctx) = flush {
                ret = match iocb.sync_written(ret, ctx) {
                    Ok(ret) => ret,
                    // CAST: An errno fits.
                    Err(error) => error.to_errno() as isize,
                };
            }
            if ret > 0 {
                // OVERFLOW: Both are parts of one request, which is at most `isize::MAX`.
                ret = ret.wrapping_add(self.done_before as isize);
            }
        }
        trace::complete(&iocb, error, ret);
        (iocb, ret)
    }
}

impl DioCompletion {
    /// Chooses the completion context of an asynchronous request when its last bio has ended.
    /// `None` if it needs process context.
    #[inline(always)]
    fn land(&mut self, iocb: &mut BusyIocb<DioOps>, failed: bool) -> Option<Clear> {
        let clear = self.travel.land(failed, || iocb.has_cached_pages())?;
        iocb.clear_polled_bio();
        Some(clear)
    }

    /// Completes a request without a debt where its last bio has ended.
    #[inline(always)]
    fn clear(self, iocb: BusyIocb<DioOps>, clear: Clear, pages: Pages) -> Told {
        self.end_io(iocb, 0, |_| {
            clear
                .end_io_flags(pages)
                .with_if(clear.transfer.is_write(), EndIoFlags::NO_INVALIDATE)
        })
    }

    /// Completes a successful request without a debt, in process context.
    #[inline(always)]
    fn clear_here(self, iocb: BusyIocb<DioOps>, clear: Clear, pages: Pages, ctx: MaySleep) -> Told {
        let size = self.size;
        let told = self.end_io(iocb, 0, |_| clear.end_io_flags(pages));
        if clear.transfer.is_write() && size > 0 {
            told.iocb.invalidate_written(size as usize, ctx);
        }
        told
    }

    /// Completes a request with or without a debt. With `at_ioend` the worker for ioends, which is
    /// in process context, has ended its last bio.
    #[inline(always)]
    fn settle(
        self,
        iocb: BusyIocb<DioOps>,
        result: Result,
        pages: Pages,
        cached: Cached,
        at_ioend: bool,
        ctx: MaySleep,
    ) -> (DoneIocb, isize) {
        let write = self.travel.transfer().is_write();
        let (pos, size) = (iocb.ki_pos(), self.size);
        let error = errno(result);
        let flush = match self.travel.debt() {
            Some(debt) if debt.has(Owed::FLUSH) => Some(ctx),
            _ => None,
        };

        // `->end_io` converts unwritten blocks. Drop cached pages only afterwards: a buffered read
        // before the conversion would fill the page cache with zeroes.
        let told = self.end_io(iocb, error, |travel| {
            let flags = travel
                .end_io_flags(pages)
                .with_if(write && cached == Cached::Kept, EndIoFlags::NO_INVALIDATE);
            if at_ioend {
                flags.without(EndIoFlags::COMP_WORK)
            } else {
                flags
            }
        });

        if decide::is_reported(error, EAGAIN.to_errno(), ENOTBLK.to_errno()) {
            let failed = if write { Failed::Write } else { Failed::Read };
            let inode = told.iocb.inode();
            inode.report_io_error(failed, pos, size as u64, error, ctx);
        }

        // Best effort: if the caller's memory is a mapping of the same file, its pages may be
        // cached again. A failure to drop a page does not fail the write.
        if write && error == 0 && size > 0 && cached == Cached::Dropped {
            told.iocb.invalidate_written(size as usize, ctx);
        }
        told.close(error, flush)
    }

    /// Calls `->end_io`.
    #[inline(always)]
    fn end_io(
        self,
        iocb: BusyIocb<DioOps>,
        error: c_int,
        flags: impl FnOnce(&Travel) -> EndIoFlags,
    ) -> Told {
        let (counted, done_before) = (self.counted, self.done_before);
        let (travel, fsblock_aligned) = (self.travel, self.fsblock_aligned);
        let (iocb, ret) = iocb.end_io(self.size, error, || {
            flags(&travel).with_if(fsblock_aligned, EndIoFlags::FSBLOCK_ALIGNED)
        });
        Told {
            iocb,
            done_before,
            ret: match ret {
                0 => counted,
                // CAST: An errno fits.
                ret => ret as isize,
            },
        }
    }
}
