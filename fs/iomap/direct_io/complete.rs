// SPDX-License-Identifier: GPL-2.0

//! The completion of requests.
//!
//! A bio ends in any context. Whoever is left with the request then completes it, there and then,
//! or on a work queue, or by waking the submitter. What can be done at once and what takes process
//! context are two functions: [`Finishing::clear`] and [`Finishing::settle`].

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
    iomap::{
        bio::{
            EndedBio,
            Pages, //
        },
        bio_set::{
            GivenAway,
            Header,
            Single, //
        },
        context::MaySleep,
        flags::EndIoFlags,
        inode::{
            DoneQueue,
            Failed, //
        },
        kiocb::{
            BusyIocb,
            DoneIocb, //
        },
        ops::DioOps,
        request::{
            Cache,
            Operations,
            Share,
            Unique, //
        },
        trace, //
    },
    prelude::*, //
};

/// The kind of request that consists of several bios.
pub(crate) enum Generic {}

/// Where the data of the bios of a request is, and so how they are filled and what is done with
/// their pages in the end.
#[derive(Clone, Copy)]
pub(crate) enum Buffers {
    /// In the caller's memory.
    InPlace(Pages),
    /// In copies of it.
    Bounced(Pages),
}

impl Buffers {
    /// Those of a request that goes this way, with the caller's memory in these pages.
    #[inline]
    pub(crate) fn of(travel: &Travel, pages: Pages) -> Self {
        match travel {
            Travel::Simple(_) | Travel::Plain(_) | Travel::Deferred(..) => Self::InPlace(pages),
            Travel::Bounce(..) => Self::Bounced(pages),
        }
    }

    /// The caller's memory.
    #[inline]
    fn pages(self) -> Pages {
        match self {
            Self::InPlace(pages) | Self::Bounced(pages) => pages,
        }
    }
}

/// What is done with pages that were cached while a write was under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cached {
    Dropped,
    Kept,
}

/// What is needed to complete a request, written when all of it is submitted.
pub(crate) struct Finishing {
    /// The kiocb.
    pub(crate) iocb: BusyIocb,
    /// The callbacks of the file system.
    pub(crate) dio_ops: DioOps,
    /// Bytes that were submitted, zeroed or copied, whether or not that went well.
    pub(crate) size: isize,
    /// Of these, the bytes that count if it did: a read ends where the file does.
    pub(crate) counted: isize,
    /// Bytes of an earlier part of the request.
    pub(crate) done_before: usize,
    /// The way that the request went.
    pub(crate) travel: Travel,
    /// Each bio was aligned to the blocks of the file system.
    pub(crate) fsblock_aligned: bool,
    /// The last bio was ended by a worker for ioends, which is process context already.
    pub(crate) at_ioend: bool,
}

impl Header for Finishing {
    #[inline(always)]
    fn ended(mut request: Single<Self>) {
        let failed = request.result().is_err();
        let pages = request.pages();
        let Some(ret) = request.header_mut().land(failed, pages) else {
            return request.punt();
        };
        let (iocb, ret) = request.into_header().close(0, ret, None);
        iocb.complete(ret);
    }

    fn queue(&self) -> Option<DoneQueue<'_>> {
        self.iocb.inode().done_queue()
    }

    fn punted(mut request: Single<Self>, ctx: MaySleep) {
        request.header_mut().iocb.clear_polled_bio();
        let (iocb, ret) = settle_single(request, ctx);
        iocb.complete(ret);
    }
}

/// What is needed to complete a simple read: it went the way of `Travel::Simple`, and the file system
/// does not want to be told.
pub(crate) struct SimpleRead {
    pub(crate) iocb: BusyIocb,
    /// Bytes.
    pub(crate) size: u32,
}

impl GivenAway for SimpleRead {
    #[inline(always)]
    fn went_well(mut self) {
        self.iocb.clear_polled_bio();
        let (iocb, ret) = close(self.iocb, 0, self.size as isize, 0, None);
        iocb.complete(ret);
    }
}

impl Header for SimpleRead {
    fn ended(request: Single<Self>) {
        if request.result().is_err() {
            return request.punt();
        }
        request.into_header().went_well();
    }

    fn queue(&self) -> Option<DoneQueue<'_>> {
        self.iocb.inode().done_queue()
    }

    fn punted(mut request: Single<Self>, ctx: MaySleep) {
        request.header_mut().iocb.clear_polled_bio();
        let (iocb, ret) = finish_simple(request, ctx);
        iocb.complete(ret);
    }
}

/// Completes a simple read in process context, as [`finish`].
pub(crate) fn finish_simple(request: Single<SimpleRead>, ctx: MaySleep) -> (DoneIocb, isize) {
    let error = errno(request.result());
    let SimpleRead { iocb, size } = request.into_header();
    if error != 0 {
        // What simple reads fail with is no more reported than with others.
        if decide::is_reported(error, EAGAIN.to_errno(), ENOTBLK.to_errno()) {
            iocb.inode()
                .report_io_error(Failed::Read, iocb.pos(), u64::from(size), error, ctx);
        }
        return close(iocb, error, error as isize, 0, None);
    }
    close(iocb, 0, size as isize, 0, None)
}

impl Operations for Generic {
    type Shared = Buffers;
    type Sealed = Finishing;

    #[inline]
    fn cache() -> &'static Cache<Self> {
        &super::REQUESTS
    }

    #[inline]
    fn bio_ended(bio: EndedBio, share: Share<Self>) {
        if let Err(error) = bio.result() {
            share.record_error(error);
        }
        if let Some(request) = let_go(bio, share, |_| ()) {
            land(request);
        }
    }

    fn ioend_ended(bio: EndedBio, result: Result, share: Share<Self>, ctx: MaySleep) {
        if let Err(error) = result {
            share.record_error(error);
        }
        let Some(mut request) = let_go(bio, share, |finishing| finishing.at_ioend = true) else {
            return;
        };
        let failed = request.result().is_err();
        let finishing = request.sealed();
        if finishing.travel.debt().is_none() {
            return land(request);
        }
        // What is owed is done here, but nothing that could wait for the very worker that this is.
        let write = finishing.travel.transfer().is_write();
        let owed = decide::owed_at_end(write, failed, || finishing.iocb.has_cached_pages());
        if owed.is_nothing() {
            deliver(request, Cached::Kept, ctx);
        } else {
            finishing.travel.owe(owed);
            punt(request);
        }
    }

    fn queue(finishing: &Finishing) -> Option<DoneQueue<'_>> {
        finishing.iocb.inode().done_queue()
    }

    fn punted(request: Unique<Self>, ctx: MaySleep) {
        deliver(request, Cached::Dropped, ctx);
    }
}

/// Gives back the pages of a bio and its reference to the request.
#[inline]
fn let_go(
    mut bio: EndedBio,
    share: Share<Generic>,
    last: impl FnOnce(&mut Finishing),
) -> Option<Unique<Generic>> {
    bio.free_integrity();
    match share.shared() {
        Buffers::Bounced(pages) => bio.unbounce(share.has_failed(), *pages == Pages::Dirtied),
        Buffers::InPlace(Pages::Dirtied) => bio.check_dirty(),
        Buffers::InPlace(Pages::LeftAlone) => bio.release(),
    }
    share.finish_with(last)
}

/// Completes an asynchronous request whose last bio has ended, here or on a work queue.
#[inline(never)]
fn land(mut request: Unique<Generic>) {
    let failed = request.result().is_err();
    let pages = request.shared().pages();
    match request.sealed().land(failed, pages) {
        Some(ret) => {
            let (iocb, ret) = request.into_sealed().close(0, ret, None);
            iocb.complete(ret);
        }
        None => punt(request),
    }
}

/// Has a request completed on a work queue.
#[cold]
fn punt(mut request: Unique<Generic>) {
    request.sealed().at_ioend = false;
    request.punt();
}

/// Completes an asynchronous request in process context and tells its kiocb.
fn deliver(mut request: Unique<Generic>, cached: Cached, ctx: MaySleep) {
    // The bio is gone. A poller that still has its address finds some bio there (the slab is
    // `SLAB_TYPESAFE_BY_RCU`), but a later one need not look.
    request.sealed().iocb.clear_polled_bio();
    let (iocb, ret) = settle(request, cached, ctx);
    iocb.complete(ret);
}

/// Completes a request of several bios in process context. Returns its result: bytes, or a negative
/// errno.
pub(crate) fn finish(mut request: Unique<Generic>, ctx: MaySleep) -> (DoneIocb, isize) {
    let pages = request.shared().pages();
    if request.result().is_err() {
        return settle(request, Cached::Dropped, ctx);
    }
    let Some(ret) = request.sealed().clear_here(pages, ctx) else {
        return settle(request, Cached::Dropped, ctx);
    };
    request.into_sealed().close(0, ret, None)
}

fn settle(mut request: Unique<Generic>, cached: Cached, ctx: MaySleep) -> (DoneIocb, isize) {
    let result = request.result();
    let pages = request.shared().pages();
    let (ret, flush) = request.sealed().settle(result, pages, cached, ctx);
    request.into_sealed().close(errno(result), ret, flush)
}

/// Completes a request of a single bio in process context, as [`finish`].
#[inline(always)]
pub(crate) fn finish_single(request: Single<Finishing>, ctx: MaySleep) -> (DoneIocb, isize) {
    if request.result().is_err() {
        return settle_single(request, ctx);
    }
    let Some(ret) = request.header().clear_here(request.pages(), ctx) else {
        return settle_single(request, ctx);
    };
    request.into_header().close(0, ret, None)
}

#[cold]
#[inline(never)]
fn settle_single(request: Single<Finishing>, ctx: MaySleep) -> (DoneIocb, isize) {
    let result = request.result();
    let pages = request.pages();
    let (ret, flush) = request.header().settle(result, pages, Cached::Dropped, ctx);
    request.into_header().close(errno(result), ret, flush)
}

/// Completes a request that has no bio in process context, as [`finish`].
pub(crate) fn finish_without_bio(
    finishing: Finishing,
    result: Result,
    pages: Pages,
    ctx: MaySleep,
) -> (DoneIocb, isize) {
    let (ret, flush) = finishing.settle(result, pages, Cached::Dropped, ctx);
    finishing.close(errno(result), ret, flush)
}

#[inline]
fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// The steps that every request ends with, once its result is `ret`, which `done_before` bytes count
/// in as well. `error` is that of its bios; it
/// is flushed if that may be done here.
#[inline(always)]
fn close(
    iocb: BusyIocb,
    error: c_int,
    mut ret: isize,
    done_before: usize,
    flush: Option<MaySleep>,
) -> (DoneIocb, isize) {
    // `fsync()` may wait for the lock that somebody holds who waits for this, so the flush comes
    // after.
    let mut iocb = iocb.end_dio();
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
            ret = ret.wrapping_add(done_before as isize);
        }
    }
    trace::complete(&iocb, error, ret);
    (iocb, ret)
}

impl Finishing {
    #[inline(always)]
    fn close(self, error: c_int, ret: isize, flush: Option<MaySleep>) -> (DoneIocb, isize) {
        close(self.iocb, error, ret, self.done_before, flush)
    }

    /// Goes on with an asynchronous request whose last bio has ended, in any context. Returns its
    /// result, or nothing if it has to go to process context.
    #[inline(always)]
    fn land(&mut self, failed: bool, pages: Pages) -> Option<isize> {
        let iocb = &self.iocb;
        let clear = self.travel.land(failed, || iocb.has_cached_pages())?;
        self.iocb.clear_polled_bio();
        Some(self.clear(clear, pages))
    }

    /// Completes a request that owes nothing where its last bio has ended.
    #[inline(always)]
    fn clear(&self, clear: Clear, pages: Pages) -> isize {
        self.end_io(0, || {
            clear
                .end_io_flags(pages)
                .with_if(clear.transfer.is_write(), EndIoFlags::NO_INVALIDATE)
        })
    }

    /// Completes a request that went well and owes nothing, in process context. Returns nothing if it
    /// does owe something.
    #[inline(always)]
    fn clear_here(&self, pages: Pages, ctx: MaySleep) -> Option<isize> {
        let clear = self.travel.clear()?;
        let ret = self.end_io(0, || clear.end_io_flags(pages));
        if clear.transfer.is_write() && self.size > 0 {
            self.iocb.invalidate_written(self.size as usize, ctx);
        }
        Some(ret)
    }

    /// Completes a request, whatever it owes. Returns its result so far, and whether it has to be
    /// flushed.
    fn settle(
        &self,
        result: Result,
        pages: Pages,
        cached: Cached,
        ctx: MaySleep,
    ) -> (isize, Option<MaySleep>) {
        let write = self.travel.transfer().is_write();
        let pos = self.iocb.pos();
        let error = errno(result);

        // First of all the file system makes the blocks valid. Until then a buffered reader that
        // fills the page cache would find unwritten blocks, so cached pages are dropped after.
        let ret = self.end_io(error, || {
            let flags = self
                .travel
                .end_io_flags(pages)
                .with_if(write && cached == Cached::Kept, EndIoFlags::NO_INVALIDATE);
            if self.at_ioend {
                flags.without(EndIoFlags::COMP_WORK)
            } else {
                flags
            }
        });

        if decide::is_reported(error, EAGAIN.to_errno(), ENOTBLK.to_errno()) {
            let failed = if write { Failed::Write } else { Failed::Read };
            self.iocb
                .inode()
                .report_io_error(failed, pos, self.size as u64, error, ctx);
        }

        // It is not the whole truth if the caller's memory was a mapping of the same file, but a
        // failure to drop a page does not undo the write.
        if write && error == 0 && self.size > 0 && cached == Cached::Dropped {
            self.iocb.invalidate_written(self.size as usize, ctx);
        }

        let flush = match self.travel.debt() {
            Some(debt) if debt.has(Owed::FLUSH) => Some(ctx),
            _ => None,
        };
        (ret, flush)
    }

    /// Tells the file system. Returns the result of the request so far.
    #[inline(always)]
    fn end_io(&self, error: c_int, flags: impl FnOnce() -> EndIoFlags) -> isize {
        let ret = self.dio_ops.end_io(&self.iocb, self.size, error, || {
            flags().with_if(self.fsblock_aligned, EndIoFlags::FSBLOCK_ALIGNED)
        });
        match ret {
            0 => self.counted,
            // CAST: An errno fits.
            ret => ret as isize,
        }
    }
}
