// SPDX-License-Identifier: GPL-2.0

//! What is done with one mapping of the range.

use super::{
    complete::Buffers,
    decide::{
        self,
        Blocks,
        Target, //
    },
    submit::Building,
    travel::{
        Pages,
        Transfer, //
    },
    warn_once,
};
use kernel::{
    iomap::{
        bio::{
            Bio,
            Filled,
            Template, //
        },
        flags::{
            MapFlags,
            Opf, //
        },
        iov_iter::IovIter,
        iter::{
            Extent,
            Iter,
            Place,
            Type, //
        }, //
    },
    prelude::*, //
};

/// The bios of one mapping.
struct Plan<'a> {
    template: Template<'a>,
    /// The rest of the first and of the last block has to be zeroed.
    zero_around: bool,
    /// Size in bytes of a file system block.
    block_size: u32,
}

impl Building<'_> {
    /// Does what the mapping at the iterator's position asks for, and moves the iterator on.
    pub(super) fn one_mapping(&mut self, iter: &mut Iter<'_>, memory: &mut IovIter<'_>) -> Result {
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
        let Ok(bytes) = iter.copy_inline(memory, self.ctx) else {
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
    #[inline]
    fn blocks(&mut self, iter: &mut Iter<'_>, memory: &mut IovIter<'_>) -> Result {
        let length = iter.length();
        let Some(extent) = iter.extent() else {
            warn_once!();
            return Err(EIO);
        };
        let dio_ops = self.dio_ops;
        let plan = self.plan(iter, extent, length, &dio_ops)?;

        let (copied, result) = memory.truncated(length, |memory| self.build(iter, memory, &plan));
        if copied > 0 {
            // An error after some progress comes up again when the rest is tried.
            return iter.advance(copied as u64);
        }
        result
    }

    /// Decides what kind of bios the mapping gets.
    #[inline]
    fn plan<'a>(
        &mut self,
        iter: &Place,
        extent: Extent<'a>,
        length: u64,
        ops: &'a kernel::iomap::ops::DioOps,
    ) -> Result<Plan<'a>> {
        let block_size = self.inode.block_size();
        // A file system that always writes to new blocks allocates by its own block size.
        let alignment = if self.fsblock_aligned {
            block_size
        } else {
            extent.bdev().logical_block_size()
        };
        if !decide::is_aligned(iter.pos(), length, alignment) {
            return Err(EINVAL);
        }

        let mut opf = Opf::SYNC | Opf::IDLE;
        let mut zero_around = false;
        match &mut self.transfer {
            Transfer::Read(_) => opf |= Opf::READ,
            Transfer::Write(write) => {
                opf |= Opf::WRITE;
                let unwritten = extent.mapping_type() == Type::Unwritten;
                write.unwritten |= unwritten;

                let flags = extent.flags();
                if flags.has(MapFlags::ATOMIC_BIO) {
                    // What is not torn has to be one bio, and so one mapping.
                    if length != iter.remaining() {
                        return Err(EINVAL);
                    }
                    opf |= Opf::ATOMIC;
                }

                let target = Target {
                    blocks: if unwritten {
                        Blocks::Unwritten
                    } else {
                        Blocks::Written
                    },
                    new: flags.has(MapFlags::NEW),
                    shared: flags.has(MapFlags::SHARED),
                    dirty: flags.has(MapFlags::DIRTY),
                };
                let bdev = extent.bdev();
                let plan = decide::plan_write(target, write.durability, || {
                    !bdev.has_write_cache() || bdev.has_fua()
                });
                write.cow |= target.shared;
                write.durability = plan.durability;
                self.reasons = self.reasons.and(plan.reasons);
                zero_around = plan.zero_around;
                opf = opf.with_if(plan.fua, Opf::FUA);
            }
        }

        Ok(Plan {
            template: Template {
                ops,
                extent,
                opf,
                alignment,
                ctx: self.ctx,
            },
            zero_around,
            block_size,
        })
    }

    /// Submits bios until the mapping or the memory ends. Returns the bytes of data submitted.
    #[inline]
    fn build(
        &mut self,
        iter: &Place,
        memory: &mut IovIter<'_>,
        plan: &Plan<'_>,
    ) -> (usize, Result) {
        let mut pos = iter.pos();
        let mut copied = 0usize;
        let mut result = Ok(());

        if memory.is_empty() {
            return (0, Ok(()));
        }
        // What is completed elsewhere is not polled for.
        if !self.reasons.is_empty() {
            self.iocb.stop_polling();
        }
        if plan.zero_around {
            let pad = decide::head_padding(pos, plan.block_size);
            self.zero_out(iter, plan, pos.wrapping_sub(i64::from(pad)), pad);
        }

        loop {
            // A bio that has failed already fails the request; more of them do not help.
            if self.request.has_failed() {
                return (copied, Ok(()));
            }
            match self.one_bio(iter, memory, plan, pos) {
                Ok(bytes) => {
                    // OVERFLOW: No request is larger than `isize::MAX`.
                    self.size = self.size.wrapping_add(bytes as isize);
                    copied = copied.wrapping_add(bytes as usize);
                    pos = pos.wrapping_add(i64::from(bytes));
                }
                Err(error) => {
                    // The block that was begun still gets its end zeroed below: it must not show
                    // old data.
                    result = Err(error);
                    break;
                }
            }
            if memory.is_empty() {
                break;
            }
        }

        let inode = self.inode;
        if decide::zeroes_tail(self.is_write(), plan.zero_around, pos, || inode.size()) {
            let pad = decide::tail_padding(pos, plan.block_size);
            self.zero_out(iter, plan, pos, pad);
        }
        (copied, result)
    }

    /// Builds and submits the next bio of data, and returns its size in bytes.
    #[inline]
    fn one_bio(
        &mut self,
        iter: &Place,
        memory: &mut IovIter<'_>,
        plan: &Plan<'_>,
        pos: i64,
    ) -> Result<u32> {
        let template = &plan.template;
        match self.request.shared() {
            Buffers::InPlace(pages) => {
                let mut bio = template.pin(iter, &self.iocb, pos, memory)?;
                if *pages == Pages::Dirtied {
                    bio.set_pages_dirty(self.ctx);
                }
                self.send(bio, iter, memory, plan, pos)
            }
            Buffers::Bounced(_) => {
                let bio = template.bounce(iter, &self.iocb, pos, memory)?;
                self.send(bio, iter, memory, plan, pos)
            }
        }
    }

    /// Submits a bio of data.
    #[inline]
    fn send<C: Filled>(
        &mut self,
        mut bio: Bio<C>,
        iter: &Place,
        memory: &IovIter<'_>,
        plan: &Plan<'_>,
        pos: i64,
    ) -> Result<u32> {
        let template = &plan.template;
        let bytes = bio.size();
        if template.opf.has(Opf::ATOMIC) && u64::from(bytes) != iter.length() {
            // The file system promised that the device takes this much in one go.
            warn_once!();
            return Err(EINVAL);
        }
        if template.extent.flags().has(MapFlags::INTEGRITY) {
            bio.protect(self.is_write(), self.ctx);
        }
        if self.is_write() {
            bio.account_write();
        }
        if !memory.is_empty() {
            // Only a request of a single bio can be polled.
            self.iocb.stop_polling();
        }
        bio.submit(&self.request, template.ops, iter, &mut self.iocb, pos);
        Ok(bytes)
    }

    /// Writes `len` zeroes at `pos`, so that the rest of a new block reads as zeroes.
    fn zero_out(&mut self, iter: &Place, plan: &Plan<'_>, pos: i64, len: u32) {
        if len == 0 {
            return;
        }
        match plan.template.zeroes(iter, pos, len, plan.block_size) {
            Ok(bio) => bio.submit(&self.request, plan.template.ops, iter, &mut self.iocb, pos),
            Err(error) => {
                // Blocks that large do not exist yet. Rather fail than show old data.
                warn_once!();
                self.request.record_error(error);
            }
        }
    }
}
