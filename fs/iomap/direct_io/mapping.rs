// SPDX-License-Identifier: GPL-2.0

//! Requests of several bios: the walk over the mappings, and the bios of each mapping.

#![forbid(unsafe_code)]

use super::{
    decide::{
        self,
        CompWork, //
    },
    dio::Dio,
    submit::Request,
    warn_once, //
};
use kernel::{
    block::bio::OpFlags,
    iomap::{
        bio::Template,
        flags::{
            CallerFlags,
            MapFlags, //
        },
        iter::{
            Extent,
            Iter,
            Mapping,
            Place, //
        },
        kiocb::{
            BusyIocb,
            Queued, //
        },
        ops::DioOps,
        request::{
            Prepared,
            Submitter,
            Unique, //
        },
    },
    iov::IovIter,
    prelude::*, //
};

/// A request whose bios are being built.
pub(super) struct Submission<'a, 'd> {
    pub(super) request: Request<'a>,
    pub(super) bios: Submitter<'d, Dio>,
    /// Bytes that were submitted, zeroed or copied.
    pub(super) size: isize,
}

/// What a mapping makes of the bios for it.
struct Plan {
    flags: OpFlags,
    /// Whether the rest of the first and of the last block has to be zeroed.
    zero_around: bool,
}

impl<'a, 'd> Submission<'a, 'd> {
    /// Begins with the bios of a request to transfer to or from `memory`.
    pub(super) fn new(
        request: Request<'a>,
        iocb: BusyIocb<DioOps>,
        memory: IovIter<'d>,
        prepared: Prepared<Dio>,
    ) -> Self {
        let bounced = request.flags.has(CallerFlags::BOUNCE);
        Self {
            bios: Submitter::new(iocb, memory, bounced, prepared),
            request,
            size: 0,
        }
    }

    /// Builds and submits the bios for each mapping of the range.
    ///
    /// `first` says whether there is a first mapping, if the file system was asked already.
    pub(super) fn walk(&mut self, iter: &mut Iter<'_>, first: Option<bool>) -> Result {
        let ctx = self.request.ctx;
        let mut next = match first {
            Some(first) => Ok(first),
            None => iter.begin(ctx),
        };
        while next? {
            let status = self.one_mapping(iter);
            // Only a request of a single bio can be polled.
            self.bios.iocb().stop_polling();
            next = iter.next(status, ctx);
        }
        Ok(())
    }

    /// Ends submission, with this result, and waits for the bios if asked to or if the kiocb is
    /// synchronous.
    pub(super) fn seal(self, result: Result, wait: bool) -> Result<Unique<Dio>, Queued> {
        let dio = self.request.dio_at_end(self.size);
        if let Err(error) = result {
            self.bios.record_error(error);
        }
        if wait {
            Ok(self.bios.wait(dio, self.request.ctx))
        } else {
            self.bios.seal(dio, self.request.ctx)
        }
    }

    /// Whether the request writes to the device.
    #[inline]
    fn is_write(&self) -> bool {
        self.request.is_write()
    }

    /// Transfers the range of the current mapping in the way that its type requires, and moves the
    /// iterator on.
    #[inline(always)]
    fn one_mapping(&mut self, iter: &mut Iter<'_>) -> Result {
        let (extent, unwritten) = match iter.mapping() {
            Mapping::Mapped(extent) => (extent, false),
            Mapping::Unwritten(extent) if self.is_write() => (extent, true),
            Mapping::Unwritten(_)
            | Mapping::Hole
            | Mapping::Delalloc
            | Mapping::Inline(_)
            | Mapping::Unknown => {
                let took = self.without_bios(iter)?;
                return iter.advance(took);
            }
        };
        let took = self.blocks(iter, extent, unwritten)?;
        iter.advance(took)
    }

    /// Transfers the range of a mapping without blocks, or of unwritten ones for a read. Returns the
    /// number of bytes.
    #[inline(never)]
    fn without_bios(&mut self, place: &Place) -> Result<u64> {
        let ctx = self.request.ctx;
        let copied = match place.mapping() {
            Mapping::Hole | Mapping::Unwritten(_) if !self.is_write() => {
                self.bios.copy(|memory| memory.zero(place.length(), ctx))
            }
            Mapping::Inline(inline) => {
                let copied = self.bios.copy(|memory| inline.copy(memory, ctx));
                copied.or_else(|_| unexpected())?
            }
            Mapping::Delalloc => {
                // After the writeback of the page cache, a page was dirtied through mmap(), and the
                // file system reserved space for it. Direct I/O does not lock out page faults.
                self.bios.iocb().warn_collision();
                return Err(EIO);
            }
            // A file system maps space for a write before it returns.
            Mapping::Hole | Mapping::Unwritten(_) | Mapping::Mapped(_) | Mapping::Unknown => {
                return unexpected();
            }
        };
        if copied == 0 {
            return Err(EFAULT);
        }
        // OVERFLOW: No request is larger than `isize::MAX`.
        self.size = self.size.wrapping_add(copied as isize);
        // CAST: Widening.
        Ok(copied as u64)
    }

    /// Builds and submits the bios for a mapping with blocks. Returns the number of bytes they
    /// transfer.
    #[inline(always)]
    fn blocks(&mut self, place: &Place, extent: Extent<'_>, unwritten: bool) -> Result<u64> {
        let span = extent.span(self.request.flags.has(CallerFlags::FSBLOCK_ALIGNED))?;
        let plan = self.plan(place, extent, unwritten)?;
        // What needs a work queue because of its range or mapping is not polled for.
        if !self.request.work.is_empty() {
            self.bios.iocb().stop_polling();
        }

        let mark = self.bios.memory().mark();
        let mut bios = Template::new(&mut self.bios, span, plan.flags, self.request.ctx)?;
        let result = build(&self.request, &mut bios, plan.zero_around);
        let copied = bios.submitted();
        // OVERFLOW: No request is larger than `isize::MAX`.
        self.size = self.size.wrapping_add(copied as isize);
        if let Err(error) = result {
            // The bytes of a bio that was not submitted are not transferred: the next attempt needs
            // them.
            self.bios.rewind(mark, copied);
            if copied == 0 {
                return Err(error);
            }
            // An error after some progress is dropped: the attempt at the rest meets it again.
        }
        // CAST: Widening.
        Ok(copied as u64)
    }

    /// Decides how the bios of the mapping are built.
    fn plan(&mut self, place: &Place, extent: Extent<'_>, unwritten: bool) -> Result<Plan> {
        let mut flags = OpFlags::SYNC | OpFlags::IDLE;
        let mut zero_around = false;
        if self.is_write() && (unwritten || !self.request.is_ordinary(extent)) {
            let plan = self.request.plan_write(extent, unwritten);
            if extent.flags().has(MapFlags::ATOMIC_BIO) {
                // An untorn write has to be one bio, and so one mapping.
                if place.length() != place.remaining() {
                    self.request.work = self
                        .request
                        .work
                        .with_if(unwritten, CompWork::SAW_UNWRITTEN);
                    return Err(EINVAL);
                }
                flags |= OpFlags::ATOMIC;
            }
            self.request.work = self.request.work.with(plan.work);
            self.request.durability = plan.durability;
            zero_around = plan.work.zeroes_around();
            flags = flags.with_if(plan.fua, OpFlags::FUA);
        }
        Ok(Plan { flags, zero_around })
    }
}

/// The error of a mapping that a file system must not give.
#[cold]
fn unexpected<T>() -> Result<T> {
    warn_once!();
    Err(EIO)
}

/// Submits bios until the mapping or the memory ends.
#[inline(always)]
fn build(request: &Request<'_>, bios: &mut Template<'_, '_, Dio>, zero_around: bool) -> Result {
    if bios.is_over() {
        return Ok(());
    }
    if zero_around {
        zeroed(bios.zero_head())?;
    }

    let mut result = Ok(());
    while !bios.is_over() && result.is_ok() {
        // If one bio has failed, the request has: submit no more.
        if bios.has_failed() {
            return Ok(());
        }
        result = bios.submit_next();
    }

    // Also after an error: the rest of the current block must not show old data.
    let i_size = || request.inode().size();
    if decide::zeroes_tail(request.is_write(), zero_around, bios.pos(), i_size) {
        if let Err(error) = zeroed(bios.zero_tail()) {
            // Data may be in flight, so that the error of the walk alone would not fail the
            // request.
            bios.record_error(error);
            result = Err(error);
        }
    }
    result
}

/// The result of zeroing. Without it the request fails, rather than show old data.
fn zeroed(result: Result) -> Result {
    if result.is_err() {
        warn_once!();
    }
    result
}
