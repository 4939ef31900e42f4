// SPDX-License-Identifier: GPL-2.0

//! The submission of a request that is more than a simple read.
//!
//! [`submit`] checks what can be refused at once, gets the page cache out of the way, walks the
//! mappings ([`super::mapping`]) and seals the request. What it returns is an enum: from then on a
//! request that is in flight cannot be named any more.

use super::{
    complete::{
        Buffers,
        Finishing,
        Generic, //
    },
    decide::{
        self,
        Durability,
        Reasons,
        Walk, //
    },
    travel::{
        Pages,
        Read,
        Transfer,
        Travel,
        Write, //
    },
};
use kernel::{
    iomap::{
        context::MaySleep,
        flags::{
            BeginFlags,
            CallerFlags,
            IocbFlags, //
        },
        inode::Inode,
        iov_iter::IovIter,
        iter::{
            Iter,
            Private, //
        },
        kiocb::{
            BusyIocb,
            Iocb, //
        },
        ops::{
            DioOps,
            MapOps, //
        },
        plug::plugged,
        request::{
            HandOver,
            Prepared,
            Submitter,
            Unique, //
        },
        trace, //
    },
    prelude::*, //
};

/// What `iomap_dio_rw()` is called with.
pub(crate) struct Call<'a> {
    /// The kiocb.
    pub(crate) iocb: Iocb,
    /// The inode of its file, which the caller keeps open until the call returns.
    pub(crate) inode: &'a Inode,
    /// The memory.
    pub(crate) memory: IovIter<'a>,
    /// How the file system maps the file.
    pub(crate) ops: MapOps<'a>,
    /// How it takes part in direct I/O.
    pub(crate) dio_ops: DioOps,
    /// What the caller asks for.
    pub(crate) flags: CallerFlags,
    /// For the file system's `iomap_begin`.
    pub(crate) private: Private,
    /// Bytes of an earlier part of the request, which count in its result.
    pub(crate) done_before: usize,
    /// Submission may sleep.
    pub(crate) ctx: MaySleep,
}

/// What became of a request.
pub(crate) enum Submitted {
    /// There was nothing to do.
    Nothing,
    /// All bios have ended, and the caller completes the request.
    Ended(Unique<Generic>),
    /// The request is in flight and will complete by itself.
    Queued,
}

/// A request while its bios are built.
pub(super) struct Building<'a> {
    pub(super) request: Submitter<Generic>,
    pub(super) iocb: BusyIocb,
    pub(super) dio_ops: DioOps,
    pub(super) transfer: Transfer,
    pub(super) reasons: Reasons,
    /// Bytes that were submitted, zeroed or copied.
    pub(super) size: isize,
    pub(super) fsblock_aligned: bool,
    pub(super) inode: &'a Inode,
    pub(super) ctx: MaySleep,
}

/// Submits a request.
pub(crate) fn submit(call: Call<'_>) -> Result<Submitted> {
    let Call {
        mut iocb,
        inode,
        mut memory,
        ops,
        dio_ops,
        flags,
        private,
        done_before,
        ctx,
    } = call;

    trace::begin(&iocb, &mut memory, flags, done_before);

    let len = memory.len();
    if len == 0 {
        return Ok(Submitted::Nothing);
    }

    let pos = iocb.pos();
    let write = memory.is_source();
    let pages = Pages::new(!write && memory.is_user_backed());
    let request = Prepared::<Generic>::new(
        if flags.has(CallerFlags::BOUNCE) {
            Buffers::Bounced(pages)
        } else {
            Buffers::InPlace(pages)
        },
        ctx,
    )?;

    // The one look at the size of the file that decides where a read ends.
    let i_size = inode.size();
    let nowait = iocb.flags().has(IocbFlags::NOWAIT);
    let begin = BeginFlags::DIRECT.with_if(nowait, BeginFlags::NOWAIT);

    let (begin, transfer, reasons) = if write {
        let extending = decide::goes_past(pos, len as u64, i_size);
        let begin = begin | begin_write(&iocb, flags, extending)?;
        invalidate(&iocb, inode, pos, len, ctx)?;
        let durability = Durability::new(iocb.is_dsync(), iocb.flags().has(IocbFlags::SYNC));
        let transfer = Transfer::Write(Write {
            unwritten: false,
            cow: false,
            durability,
        });
        // The new size of the file is set in process context.
        let reasons = Reasons::NONE.and_if(extending, Reasons::EXTENDING);
        (begin, transfer, reasons)
    } else {
        if pos >= i_size {
            return Ok(Submitted::Nothing);
        }
        iocb.write_and_wait(len, ctx)?;
        let transfer = Transfer::Read(Read { pages, i_size });
        (begin, transfer, Reasons::NONE)
    };

    let sync = iocb.is_sync();
    let wait = sync || flags.has(CallerFlags::FORCE_WAIT);
    if !wait {
        inode.ensure_done_queue(ctx)?;
    } else if !sync {
        // Who waits here does not poll, so nothing may be left to polling.
        iocb.stop_polling();
    }
    let polled = !sync && iocb.flags().has(IocbFlags::HIPRI);

    let mut iter = Iter::new(inode, pos, len as u64, begin, private, ops);
    let mut building = Building {
        request: request.start(),
        iocb: iocb.begin_dio(),
        dio_ops,
        transfer,
        reasons,
        size: 0,
        fsblock_aligned: flags.has(CallerFlags::FSBLOCK_ALIGNED),
        inode,
        ctx,
    };
    let walked = plugged(|| building.walk(&mut iter, &mut memory));

    // Callers such as splice rely on the iterator ending where the data does.
    if !write && iter.pos() >= i_size {
        // CAST: Not more than was read.
        memory.revert(iter.pos().wrapping_sub(i_size) as usize);
    }

    let partial = flags.has(CallerFlags::PARTIAL);
    let settled = decide::settle(walk_end(walked), building.size, partial, nowait);
    if let (true, Err(error)) = (settled.fails, walked) {
        building.request.record_error(error);
    }

    // The first bio may be polled for although the request has to be waited for after all.
    let poller = polled.then(|| building.iocb.poller());
    match building.seal(done_before, wait || settled.waits) {
        HandOver::Complete(request) => Ok(Submitted::Ended(request)),
        HandOver::Wait(waiter) => Ok(Submitted::Ended(waiter.wait(poller, ctx))),
        HandOver::Queued => {
            trace::queued(inode, iter.pos(), iter.remaining());
            Ok(Submitted::Queued)
        }
    }
}

/// What the file system is told about a write, unless it is refused.
fn begin_write(iocb: &Iocb, flags: CallerFlags, extending: bool) -> Result<BeginFlags> {
    let overwrite_only = flags.has(CallerFlags::OVERWRITE_ONLY);
    if overwrite_only && extending {
        return Err(EAGAIN);
    }
    Ok(BeginFlags::WRITE
        .with_if(overwrite_only, BeginFlags::OVERWRITE_ONLY)
        .with_if(iocb.flags().has(IocbFlags::ATOMIC), BeginFlags::ATOMIC))
}

/// Gets cached pages out of the way of a write.
///
/// Fails with `EAGAIN` if that would block a request that must not, and with `ENOTBLK`, the
/// request to write through the page cache instead, if a page would not go. An atomic write is
/// never written that way; its caller may try again.
fn invalidate(iocb: &Iocb, inode: &Inode, pos: i64, len: usize, ctx: MaySleep) -> Result {
    let Err(error) = iocb.invalidate_pages(len, ctx) else {
        return Ok(());
    };
    if error == EAGAIN {
        return Err(EAGAIN);
    }
    trace::invalidate_failed(inode, pos, len as u64);
    if iocb.flags().has(IocbFlags::ATOMIC) {
        Err(EAGAIN)
    } else {
        Err(ENOTBLK)
    }
}

/// Classifies how the walk has ended.
fn walk_end(walked: Result) -> Walk {
    match walked {
        Ok(()) => Walk::Done,
        Err(error) if error == EFAULT => Walk::Fault,
        Err(error) if error == ENOTBLK => Walk::FallBack,
        Err(_) => Walk::Failed,
    }
}

impl Building<'_> {
    /// Whether data goes to the device.
    #[inline]
    pub(super) fn is_write(&self) -> bool {
        matches!(self.transfer, Transfer::Write(_))
    }

    /// Builds and submits the bios for each mapping of the range.
    #[inline]
    fn walk(&mut self, iter: &mut Iter<'_>, memory: &mut IovIter<'_>) -> Result {
        let mut status = Ok(());
        while iter.next(status, self.ctx)? {
            status = self.one_mapping(iter, memory);
            // Only a request of a single bio can be polled.
            self.iocb.stop_polling();
        }
        Ok(())
    }

    /// Ends submission.
    #[inline]
    fn seal(self, done_before: usize, wait: bool) -> HandOver<Generic> {
        let flush = match self.transfer {
            Transfer::Write(write) => write.durability == Durability::Flush,
            Transfer::Read(_) => false,
        };
        let reasons = self.reasons.and_if(flush, Reasons::SYNC);
        let bounce = matches!(self.request.shared(), Buffers::Bounced(_));
        let finishing = Finishing {
            iocb: self.iocb,
            dio_ops: self.dio_ops,
            travel: Travel::new(self.transfer, bounce, reasons),
            size: self.size,
            done_before,
            fsblock_aligned: self.fsblock_aligned,
        };
        self.request.seal(finishing, wait)
    }
}
