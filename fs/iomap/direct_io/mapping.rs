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
    block::{
        bdev::BlockDevice,
        bio::{
            Bio,
            OpFlags,
            Pages, //
        },
    },
    iomap::{
        bio::{
            Fits,
            Template, //
        },
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
            Buffers,
            Prepared,
            Submitter,
            Unique, //
        },
    },
    iov::IovIter,
    prelude::*, //
};

/// A request whose bios are being built.
pub(super) struct Submission<'a> {
    pub(super) request: Request<'a>,
    pub(super) bios: Submitter<Dio>,
    /// Bytes that were submitted, zeroed or copied.
    pub(super) size: isize,
}

/// What the bios of one mapping have in common.
struct Plan<'a> {
    template: Template<'a>,
    /// Whether the rest of the first and of the last block has to be zeroed.
    zero_around: bool,
    /// The size of a file system block in bytes.
    block_size: u32,
    /// The number of bytes that the mapping covers.
    length: u64,
}

impl<'a> Submission<'a> {
    /// Begins with the bios of a request to transfer to or from `memory`.
    pub(super) fn new(
        request: Request<'a>,
        iocb: BusyIocb<DioOps>,
        memory: &IovIter<'_>,
        prepared: Prepared<Dio>,
    ) -> Self {
        let pages = Pages::of(memory);
        let buffers = if request.flags.has(CallerFlags::BOUNCE) {
            Buffers::Bounced(pages)
        } else {
            Buffers::ZeroCopy(pages)
        };
        Self {
            bios: Submitter::new(iocb, buffers, prepared),
            request,
            size: 0,
        }
    }

    /// Builds and submits the bios for each mapping of the range.
    ///
    /// `first` says whether there is a first mapping, if the file system was asked already.
    pub(super) fn walk(
        &mut self,
        iter: &mut Iter<'_>,
        memory: &mut IovIter<'_>,
        first: Option<bool>,
    ) -> Result {
        let ctx = self.request.ctx;
        let mut next = match first {
            Some(first) => Ok(first),
            None => iter.begin(ctx),
        };
        while next? {
            let status = self.one_mapping(iter, memory);
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
    fn one_mapping(&mut self, iter: &mut Iter<'_>, memory: &mut IovIter<'_>) -> Result {
        let took = match iter.mapping() {
            Mapping::Mapped(extent) => self.blocks(iter, extent, false, memory),
            Mapping::Unwritten(extent) if self.is_write() => {
                self.blocks(iter, extent, true, memory)
            }
            Mapping::Hole if self.is_write() => {
                // A file system maps space for a write before it returns.
                warn_once!();
                Err(EIO)
            }
            Mapping::Hole | Mapping::Unwritten(_) => {
                self.took(memory.zero(iter.length(), self.request.ctx))
            }
            Mapping::Inline(inline) => match inline.copy(memory, self.request.ctx) {
                Ok(bytes) => self.took(bytes),
                Err(_) => {
                    warn_once!();
                    Err(EIO)
                }
            },
            Mapping::Delalloc => {
                // After the writeback of the page cache, a page was dirtied through mmap(), and the
                // file system reserved space for it. Direct I/O does not lock out page faults.
                self.bios.iocb().warn_collision();
                Err(EIO)
            }
            Mapping::Unknown => {
                warn_once!();
                Err(EIO)
            }
        };
        iter.advance(took?)
    }

    /// Accounts for bytes that were transferred without a bio.
    fn took(&mut self, bytes: usize) -> Result<u64> {
        if bytes == 0 {
            return Err(EFAULT);
        }
        // OVERFLOW: No request is larger than `isize::MAX`.
        self.size = self.size.wrapping_add(bytes as isize);
        // CAST: Widening.
        Ok(bytes as u64)
    }

    /// Builds and submits the bios for a mapping with blocks. Returns the number of bytes they
    /// transfer.
    fn blocks(
        &mut self,
        place: &Place,
        extent: Extent<'_>,
        unwritten: bool,
        memory: &mut IovIter<'_>,
    ) -> Result<u64> {
        let Some(bdev) = extent.bdev() else {
            warn_once!();
            return Err(EIO);
        };
        let plan = self.plan(place, extent, bdev, unwritten)?;

        let mark = memory.mark();
        let (copied, result) = self.build(memory, &plan, place.pos());
        if let Err(error) = result {
            // The bytes of a bio that was not submitted are not transferred: the next attempt needs
            // them.
            memory.rewind(mark, copied);
            if copied == 0 {
                return Err(error);
            }
            // An error after some progress is dropped: the attempt at the rest meets it again.
        }
        // CAST: Widening.
        Ok(copied as u64)
    }

    /// Decides how the bios of the mapping are built.
    fn plan<'p>(
        &mut self,
        place: &Place,
        extent: Extent<'p>,
        bdev: &BlockDevice,
        unwritten: bool,
    ) -> Result<Plan<'p>> {
        let length = place.length();
        let alignment = self.request.alignment(bdev);
        if !decide::is_aligned(place.pos(), length, alignment) {
            return Err(EINVAL);
        }

        let mut flags = OpFlags::SYNC | OpFlags::IDLE;
        let mut zero_around = false;
        if self.is_write() && (unwritten || !self.request.is_ordinary(extent)) {
            let plan = self.request.plan_write(extent, unwritten);
            if extent.flags().has(MapFlags::ATOMIC_BIO) {
                // An untorn write has to be one bio, and so one mapping.
                if length != place.remaining() {
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

        let ctx = self.request.ctx;
        Ok(Plan {
            template: Template::new(self.bios.iocb(), extent, flags, alignment, ctx)?,
            zero_around,
            block_size: self.request.inode().block_size(),
            length,
        })
    }

    /// Submits bios until the mapping or the memory ends. Returns the number of bytes of data
    /// submitted.
    fn build(
        &mut self,
        memory: &mut IovIter<'_>,
        plan: &Plan<'_>,
        mut pos: i64,
    ) -> (usize, Result) {
        let mut copied = 0usize;
        // CAST: The minimum with a `usize` is a `usize`.
        let mut left = core::cmp::min(plan.length, memory.len() as u64) as usize;
        let mut result = Ok(());

        if left == 0 {
            return (0, Ok(()));
        }
        // What needs a work queue because of its range or mapping is not polled for.
        if !self.request.work.is_empty() {
            self.bios.iocb().stop_polling();
        }
        if plan.zero_around {
            let pad = decide::head_padding(pos, plan.block_size);
            let zeroed = self.zero_out(plan, pos.wrapping_sub(i64::from(pad)), pad);
            if let Err(error) = zeroed {
                return (0, Err(error));
            }
        }

        while left > 0 {
            // If one bio has failed, the request has: submit no more.
            if self.bios.has_failed() {
                return (copied, Ok(()));
            }
            match self.one_bio(memory, plan, pos, left) {
                Ok(bytes) => {
                    // OVERFLOW: No request is larger than `isize::MAX`.
                    self.size = self.size.wrapping_add(bytes as isize);
                    copied = copied.wrapping_add(bytes as usize);
                    left = left.wrapping_sub(bytes as usize);
                    pos = pos.wrapping_add(i64::from(bytes));
                }
                Err(error) => {
                    // The rest of the current block is still zeroed below: it must not show old
                    // data.
                    result = Err(error);
                    break;
                }
            }
        }

        let inode = self.request.inode();
        if decide::zeroes_tail(self.is_write(), plan.zero_around, pos, || inode.size()) {
            let pad = decide::tail_padding(pos, plan.block_size);
            if let Err(error) = self.zero_out(plan, pos, pad) {
                // Data may be in flight, so that the error of the walk alone would not fail the
                // request.
                self.bios.record_error(error);
                result = Err(error);
            }
        }
        (copied, result)
    }

    /// Builds and submits the next bio of data, of at most `left` bytes, and returns its size.
    fn one_bio(
        &mut self,
        memory: &mut IovIter<'_>,
        plan: &Plan<'_>,
        pos: i64,
        left: usize,
    ) -> Result<u32> {
        let template = &plan.template;
        // CAST: Widening.
        let max = left as u64;
        if self.request.flags.has(CallerFlags::BOUNCE) {
            let bio = template.bounce(self.bios.iocb(), pos, memory, max)?;
            return self.send(bio, plan, pos, left);
        }
        let mut bio = template.pin(self.bios.iocb(), pos, memory, max)?;
        bio.set_pages_dirty(self.request.ctx);
        self.send(bio, plan, pos, left)
    }

    /// Submits a bio of data.
    fn send<C: Fits>(
        &mut self,
        mut bio: Bio<C>,
        plan: &Plan<'_>,
        pos: i64,
        left: usize,
    ) -> Result<u32> {
        let template = &plan.template;
        let bytes = bio.size();
        if template.flags().has(OpFlags::ATOMIC) && u64::from(bytes) != plan.length {
            // The file system promised that one bio can take this much.
            warn_once!();
            return Err(EINVAL);
        }
        if template.extent().flags().has(MapFlags::INTEGRITY) {
            bio.protect(self.request.ctx);
        }
        if self.is_write() {
            bio.account_write();
        }
        if bytes as usize != left {
            // Only a request of a single bio can be polled.
            self.bios.iocb().stop_polling();
        }
        template.submit(bio, &self.bios, pos)?;
        Ok(bytes)
    }

    /// Writes `len` zeroes at `pos`, so that the rest of a new block reads as zeroes.
    fn zero_out(&mut self, plan: &Plan<'_>, pos: i64, len: u32) -> Result {
        if len == 0 {
            return Ok(());
        }
        match plan.template.zeroes(pos, len, plan.block_size) {
            Ok(bio) => plan.template.submit(bio, &self.bios, pos),
            Err(error) => {
                // No file system has blocks this large yet. Fail, rather than show old data.
                warn_once!();
                Err(error)
            }
        }
    }
}
