// SPDX-License-Identifier: GPL-2.0

//! Requests of several bios: the walk over the mappings, and what is done with each of them.

#![forbid(unsafe_code)]

use super::{
    complete::{
        Buffers,
        Finishing,
        Generic, //
    },
    decide::{
        self,
        Durability,
        Owed, //
    },
    submit::Request,
    travel::{
        Transfer,
        Travel, //
    },
    warn_once,
};
use kernel::{
    iomap::{
        bio::{
            Bio,
            Filled,
            Pages,
            Template, //
        },
        flags::{
            CallerFlags,
            MapFlags,
            Opf, //
        },
        iov_iter::IovIter,
        iter::{
            Extent,
            Iter,
            Place,
            Type, //
        },
        kiocb::{
            BusyIocb,
            Poller, //
        },
        request::{
            HandOver,
            Prepared,
            Submitter, //
        },
    },
    prelude::*, //
};

/// A request while its bios are built.
pub(super) struct Building<'r, 'a> {
    pub(super) request: &'r mut Request<'a>,
    pub(super) iocb: BusyIocb,
    /// The memory that the bios share. There is none before the first bio, unless C will be handed
    /// the request.
    bios: Option<Submitter<Generic>>,
    travel: Travel,
    pages: Pages,
    /// Bytes that were submitted, zeroed or copied.
    pub(super) size: isize,
    /// One of the bios can be polled for.
    polled: bool,
}

/// A request that was submitted.
pub(super) enum Sealed {
    /// The bios have it, or had. Who waits for them polls, if one of them needs that.
    WithBios(HandOver<Generic>, Option<Poller>),
    /// There was no bio.
    WithoutBio(Finishing, Pages),
}

/// The bios of one mapping.
struct Plan<'a> {
    template: Template<'a>,
    /// The rest of the first and of the last block has to be zeroed.
    zero_around: bool,
    /// Size in bytes of a file system block.
    block_size: u32,
    /// Bytes that the mapping covers.
    length: u64,
}

impl<'r, 'a> Building<'r, 'a> {
    /// Begins with a request whose memory is allocated already, or will be for its first bio.
    pub(super) fn new(
        request: &'r mut Request<'a>,
        iocb: BusyIocb,
        memory: &IovIter<'_>,
        prepared: Option<Prepared<Generic>>,
    ) -> Self {
        let transfer = if request.is_write() {
            Transfer::Write { through: false }
        } else {
            Transfer::Read
        };
        let bounced = request.flags.has(CallerFlags::BOUNCE);
        let travel = Travel::counted(transfer, bounced, request.owed);
        let pages = Pages::of(memory);
        Self {
            bios: prepared.map(|prepared| prepared.start(Buffers::of(&travel, pages))),
            request,
            iocb,
            travel,
            pages,
            size: 0,
            polled: false,
        }
    }

    /// Builds and submits the bios for each mapping of the range. The file system has said `first` if
    /// it was asked for the first one already.
    pub(super) fn walk(
        &mut self,
        iter: &mut Iter<'_>,
        memory: &mut IovIter<'_>,
        first: Option<Result<bool>>,
    ) -> Result {
        let ctx = self.request.ctx;
        let mut next = match first {
            Some(first) => first,
            None => iter.begin(ctx),
        };
        while next? {
            let status = self.one_mapping(iter, memory);
            // Only a request of a single bio can be polled.
            self.iocb.stop_polling();
            next = iter.next(status, ctx);
        }
        Ok(())
    }

    /// Ends submission, with this result.
    pub(super) fn seal(self, result: Result, wait: bool) -> Sealed {
        let mut travel = self.travel;
        match self.request.durability {
            Durability::NotNeeded => {}
            Durability::WrittenThrough => travel.write_through(),
            Durability::Flush => travel.owe(Owed::FLUSH),
        }
        // The first bio may be polled for although the request has to be waited for after all.
        let poller = self.polled.then(|| self.iocb.poller());
        let finishing = Finishing {
            iocb: self.iocb,
            dio_ops: self.request.dio_ops,
            size: self.size,
            counted: self.request.counted(self.size),
            done_before: self.request.done_before,
            travel,
            fsblock_aligned: self.request.flags.has(CallerFlags::FSBLOCK_ALIGNED),
            at_ioend: false,
        };
        match self.bios {
            None => Sealed::WithoutBio(finishing, self.pages),
            Some(bios) => {
                if let Err(error) = result {
                    bios.record_error(error);
                }
                Sealed::WithBios(bios.seal(finishing, wait), poller)
            }
        }
    }

    /// Whether data goes to the device.
    #[inline]
    fn is_write(&self) -> bool {
        self.request.is_write()
    }

    /// Sees to it that there is the memory that the bios share. Fails with `ENOMEM`.
    #[inline]
    fn prepare(&mut self) -> Result {
        if self.bios.is_none() {
            let prepared = Prepared::new(self.request.ctx)?;
            self.bios = Some(prepared.start(Buffers::of(&self.travel, self.pages)));
        }
        Ok(())
    }

    /// Does what the mapping at the iterator's position asks for, and moves the iterator on.
    fn one_mapping(&mut self, iter: &mut Iter<'_>, memory: &mut IovIter<'_>) -> Result {
        match iter.mapping_type() {
            Type::Mapped => self.blocks(iter, memory),
            Type::Unwritten if self.is_write() => self.blocks(iter, memory),
            Type::Hole if self.is_write() => {
                // A file system maps space for a write before it returns.
                warn_once!();
                Err(EIO)
            }
            Type::Hole | Type::Unwritten => self.zeroes(iter, memory),
            Type::Inline => self.inline(iter, memory),
            Type::Delalloc => {
                // A page was dirtied through a mapping after the page cache was written back, and
                // the file system has promised space for it. Direct I/O does not lock that out.
                self.iocb.warn_collision();
                Err(EIO)
            }
            Type::Unknown(_) => {
                warn_once!();
                Err(EIO)
            }
        }
    }

    /// Reads zeroes.
    fn zeroes(&mut self, iter: &mut Iter<'_>, memory: &mut IovIter<'_>) -> Result {
        let bytes = memory.zero(iter.length());
        self.took(iter, bytes)
    }

    /// Copies from or to the memory that the file system keeps the data in.
    fn inline(&mut self, iter: &mut Iter<'_>, memory: &mut IovIter<'_>) -> Result {
        let Ok(bytes) = iter.copy_inline(memory, self.request.ctx) else {
            warn_once!();
            return Err(EIO);
        };
        self.took(iter, bytes)
    }

    /// Accounts for bytes that were transferred without a bio.
    fn took(&mut self, iter: &mut Iter<'_>, bytes: usize) -> Result {
        if bytes == 0 {
            return Err(EFAULT);
        }
        // OVERFLOW: No request is larger than `isize::MAX`.
        self.size = self.size.wrapping_add(bytes as isize);
        iter.advance(bytes as u64)
    }

    /// Builds and submits the bios for a mapping with blocks.
    fn blocks(&mut self, iter: &mut Iter<'_>, memory: &mut IovIter<'_>) -> Result {
        let Some(extent) = iter.extent() else {
            warn_once!();
            return Err(EIO);
        };
        let dio_ops = self.request.dio_ops;
        let length = iter.length();
        let plan = self.plan(iter, extent, length, &dio_ops)?;

        let mark = memory.mark();
        let (copied, result) = self.build(memory, &plan, iter.pos());
        // What was taken for a bio that failed is still to be transferred, by whoever tries again.
        memory.rewind(mark, copied);
        if copied > 0 {
            // An error after some progress comes up again when the rest is tried.
            return iter.advance(copied as u64);
        }
        result
    }

    /// Decides what kind of bios the mapping gets.
    fn plan<'p>(
        &mut self,
        iter: &Place,
        extent: Extent<'p>,
        length: u64,
        ops: &'p kernel::iomap::ops::DioOps,
    ) -> Result<Plan<'p>> {
        let alignment = self.request.alignment(extent.bdev());
        if !decide::is_aligned(iter.pos(), length, alignment) {
            return Err(EINVAL);
        }

        let mut opf = Opf::SYNC | Opf::IDLE;
        let mut zero_around = false;
        if self.is_write() {
            opf |= Opf::WRITE;
        }
        if self.is_write() && !self.request.is_ordinary(extent) {
            let plan = self
                .request
                .plan_write(extent, extent.mapping_type() == Type::Unwritten);
            if extent.flags().has(MapFlags::ATOMIC_BIO) {
                // What is not torn has to be one bio, and so one mapping.
                if length != iter.remaining() {
                    let unwritten = extent.mapping_type() == Type::Unwritten;
                    self.travel
                        .owe(Owed::NOTHING.and_if(unwritten, Owed::UNWRITTEN_MET));
                    return Err(EINVAL);
                }
                opf |= Opf::ATOMIC;
            }
            self.travel.owe(plan.owed);
            self.request.durability = plan.durability;
            zero_around = plan.zero_around;
            opf = opf.with_if(plan.fua, Opf::FUA);
        }

        Ok(Plan {
            template: Template {
                ops,
                extent,
                opf,
                alignment,
                ctx: self.request.ctx,
            },
            zero_around,
            block_size: self.request.inode().block_size(),
            length,
        })
    }

    /// Submits bios until the mapping or the memory ends. Returns the bytes of data submitted.
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
        if let Err(error) = self.prepare() {
            return (0, Err(error));
        }
        // What is completed elsewhere is not polled for.
        if self.travel.debt().is_some() {
            self.iocb.stop_polling();
        }
        if plan.zero_around {
            let pad = decide::head_padding(pos, plan.block_size);
            let zeroed = self.zero_out(plan, pos.wrapping_sub(i64::from(pad)), pad);
            if let Err(error) = zeroed {
                return (0, Err(error));
            }
        }

        while left > 0 {
            // A bio that has failed already fails the request; more of them do not help.
            if self.bios.as_ref().is_some_and(Submitter::has_failed) {
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
                    // The block that was begun still gets its end zeroed below: it must not show
                    // old data.
                    result = Err(error);
                    break;
                }
            }
        }

        let inode = self.request.inode();
        if decide::zeroes_tail(self.is_write(), plan.zero_around, pos, || inode.size()) {
            let pad = decide::tail_padding(pos, plan.block_size);
            if let Err(error) = self.zero_out(plan, pos, pad) {
                // The data may be on its way: then it is the request that fails.
                if let Some(bios) = &self.bios {
                    bios.record_error(error);
                }
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
        match &self.travel {
            Travel::Simple(_) | Travel::Plain(_) | Travel::Deferred(..) => {
                let mut bio = template.pin(&self.iocb, pos, memory, max)?;
                if self.pages == Pages::Dirtied {
                    bio.set_pages_dirty(template.ctx);
                }
                self.send(bio, plan, pos, left)
            }
            Travel::Bounce(..) => {
                let bio = template.bounce(&self.iocb, pos, memory, max)?;
                self.send(bio, plan, pos, left)
            }
        }
    }

    /// Submits a bio of data.
    fn send<C: Filled>(
        &mut self,
        mut bio: Bio<C>,
        plan: &Plan<'_>,
        pos: i64,
        left: usize,
    ) -> Result<u32> {
        let template = &plan.template;
        let bytes = bio.size();
        if template.opf.has(Opf::ATOMIC) && u64::from(bytes) != plan.length {
            // The file system promised that the device takes this much in one go.
            warn_once!();
            return Err(EINVAL);
        }
        if template.extent.flags().has(MapFlags::INTEGRITY) {
            bio.protect(self.is_write(), template.ctx);
        }
        if self.is_write() {
            bio.account_write();
        }
        if bytes as usize != left {
            // Only a request of a single bio can be polled.
            self.iocb.stop_polling();
        }
        self.submit(bio, plan, pos)?;
        Ok(bytes)
    }

    /// Submits a bio.
    fn submit<C: Filled>(&mut self, bio: Bio<C>, plan: &Plan<'_>, pos: i64) -> Result {
        // It was asked for before the first bio.
        let bios = self.bios.as_ref().ok_or(ENOMEM)?;
        self.polled |= plan.template.submit(bio, bios, &mut self.iocb, pos);
        Ok(())
    }

    /// Writes `len` zeroes at `pos`, so that the rest of a new block reads as zeroes.
    fn zero_out(&mut self, plan: &Plan<'_>, pos: i64, len: u32) -> Result {
        if len == 0 {
            return Ok(());
        }
        match plan.template.zeroes(pos, len, plan.block_size) {
            Ok(bio) => self.submit(bio, plan, pos),
            Err(error) => {
                // Blocks that large do not exist yet. Rather fail than show old data.
                warn_once!();
                Err(error)
            }
        }
    }
}
