// SPDX-License-Identifier: GPL-2.0

//! The completion of requests.
//!
//! A bio ends in any context. Whoever drops the last reference of its request completes it, there
//! and then, or on a work queue, or by waking the submitter; what comes last is the same for all
//! of them and for simple reads ([`Finishing::conclude`]).

use super::{
    decide::{
        self,
        Durability,
        Landing,
        Reasons, //
    },
    travel::{
        Pages,
        Travel, //
    },
    warn_once,
};
use kernel::{
    iomap::{
        bio::EndedBio,
        context::MaySleep,
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

/// Memory for such requests.
pub(crate) static REQUESTS: Cache<Generic> = Cache::new();

/// Where the data of the bios is, and so what is done with their pages in the end.
pub(crate) enum Buffers {
    /// In the caller's memory.
    InPlace(Pages),
    /// In copies of it.
    Bounced(Pages),
}

/// A request that is only waiting to be completed.
pub(crate) struct Finishing {
    /// The kiocb.
    pub(crate) iocb: BusyIocb,
    /// The callbacks of the file system.
    pub(crate) dio_ops: DioOps,
    /// The way that the request went.
    pub(crate) travel: Travel,
    /// Bytes that were submitted, zeroed or copied, whether or not that went well.
    pub(crate) size: isize,
    /// Bytes of an earlier part of the request.
    pub(crate) done_before: usize,
    /// Each bio was aligned to the blocks of the file system.
    pub(crate) fsblock_aligned: bool,
}

/// The place where a request is completed.
#[derive(Clone, Copy)]
pub(crate) enum At {
    /// In process context.
    Process(MaySleep),
    /// Where the last bio has ended. Cached pages are let be, since dropping them could wait for
    /// the very worker that ends bios, even if the context may sleep.
    BioEnd(Option<MaySleep>),
}

impl At {
    #[inline]
    fn may_sleep(self) -> Option<MaySleep> {
        match self {
            Self::Process(ctx) => Some(ctx),
            Self::BioEnd(ctx) => ctx,
        }
    }
}

impl Operations for Generic {
    type Shared = Buffers;
    type Sealed = Finishing;

    #[inline]
    fn cache() -> &'static Cache<Self> {
        &REQUESTS
    }

    #[inline]
    fn bio_ended(bio: EndedBio, share: Share<Self>) {
        if let Err(error) = bio.result() {
            share.record_error(error);
        }
        if let Some(request) = let_go(bio, share, |_| ()) {
            land(request, None);
        }
    }

    fn ioend_ended(bio: EndedBio, result: Result, share: Share<Self>, ctx: MaySleep) {
        if let Err(error) = result {
            share.record_error(error);
        }
        // What needs process context has it here, or in the submitter if that waits.
        let settle = |finishing: &mut Finishing| finishing.travel.set_reasons(Reasons::NONE);
        if let Some(request) = let_go(bio, share, settle) {
            land(request, Some(ctx));
        }
    }

    fn queue(finishing: &Finishing) -> Option<DoneQueue<'_>> {
        finishing.iocb.inode().done_queue()
    }

    fn punted(request: Unique<Self>, ctx: MaySleep) {
        deliver(request, At::Process(ctx));
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
#[inline]
fn land(mut request: Unique<Generic>, ctx: Option<MaySleep>) {
    let failed = request.result().is_err();
    let finishing = request.sealed();
    let write = finishing.travel.as_write().is_some();
    let landing = decide::landing(write, finishing.travel.reasons(), failed, || {
        finishing.iocb.has_cached_pages()
    });

    if let Landing::Punt(reasons) = landing {
        finishing.travel.set_reasons(reasons);
        match request.punt() {
            Ok(()) => return,
            Err(back) => {
                // The queue was made before the first asynchronous request was submitted.
                warn_once!();
                request = back;
            }
        }
    }
    deliver(request, At::BioEnd(ctx));
}

/// Completes an asynchronous request and tells its kiocb.
#[inline]
fn deliver(mut request: Unique<Generic>, at: At) {
    // The bio is gone. A poller that still has its address finds some bio there (the slab is
    // `SLAB_TYPESAFE_BY_RCU`), but a later one need not look.
    request.sealed().iocb.clear_polled_bio();
    let (iocb, result) = finish(request, at);
    iocb.complete(result);
}

/// Completes a request. Returns its result: bytes, or a negative errno.
pub(crate) fn finish(request: Unique<Generic>, at: At) -> (DoneIocb, isize) {
    let result = request.result();
    request.into_sealed().conclude(result, at)
}

impl Finishing {
    /// Takes the last steps of a request, whichever way it went.
    ///
    /// `result` is that of its bios and of its submission.
    // Inlined into its two callers, so that what cannot be in a simple read costs it nothing.
    #[inline(always)]
    pub(crate) fn conclude(self, result: Result, at: At) -> (DoneIocb, isize) {
        let Self {
            iocb,
            dio_ops,
            travel,
            size,
            done_before,
            fsblock_aligned,
        } = self;
        let pos = iocb.pos();
        let keep_cache = matches!(at, At::BioEnd(_));
        let error = match result {
            Ok(()) => 0,
            Err(error) => error.to_errno(),
        };

        // First of all the file system makes the blocks valid. Until then a buffered reader that
        // fills the page cache would find unwritten blocks, so cached pages are dropped after.
        let flags = travel.end_io_flags(fsblock_aligned, keep_cache);
        // CAST: An errno fits.
        let mut ret = dio_ops.end_io(&iocb, size, error, flags) as isize;

        if let (Err(error), Some(ctx)) = (result, at.may_sleep()) {
            if decide::is_reported(error.to_errno(), EAGAIN.to_errno(), ENOTBLK.to_errno()) {
                let failed = match travel.as_write() {
                    Some(_) => Failed::Write,
                    None => Failed::Read,
                };
                iocb.inode()
                    .report_io_error(failed, pos, size as u64, error, ctx);
            }
        }

        if ret == 0 {
            ret = match travel.read_limit() {
                Some(i_size) => decide::clamp_read(pos, size, i_size),
                None => size,
            };
        }

        if let (Some(_), At::Process(ctx)) = (travel.as_write(), at) {
            // Not the whole truth if the caller's memory was a mapping of the same file, but a
            // failure to drop a page does not undo the write.
            if result.is_ok() && size > 0 {
                iocb.invalidate_written(size as usize, ctx);
            }
        }

        let durability = match travel.as_write() {
            Some(write) => write.durability,
            None => Durability::NotNeeded,
        };
        if let Travel::Simple(simple) = travel {
            simple.release();
        }

        // `fsync()` may wait for the lock that somebody holds who waits for this, so the flush
        // comes after.
        let mut iocb = iocb.end_dio();

        if ret > 0 {
            // CAST: `isize` is at most 64 bits wide.
            iocb.advance_pos(ret as i64);
            if let (Durability::Flush, Some(ctx)) = (durability, at.may_sleep()) {
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
}
