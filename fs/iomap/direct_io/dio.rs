// SPDX-License-Identifier: GPL-2.0

//! The description of a request.
//!
//! ```text
//!  SimpleRead  ---+--> completed where its bio ends
//!                 |
//!                 | error
//!                 v
//!             process context
//!                 ^
//!                 | error, or a write with cached pages: becomes Deferred
//!                 |
//!  Direct      ---+--> completed where its last bio ends
//!
//!  Deferred    ------> completed in process context
//!
//!  Bounce      ---+--> without completion work: where its last bio ends
//!                 +--> with completion work: in process context
//! ```
//!
//! Process context is a work queue, or the worker that ends the last bio as a part of an ioend. If
//! the submitter completes a request itself, because it waited or because all bios had ended by
//! then, the request keeps its variant: the submitter is in process context already. A bounced read
//! whose bio ends in an interrupt is completed in process context as well if the copy takes long.

#![forbid(unsafe_code)]

use super::decide::{
    self,
    CompWork, //
};
use kernel::{
    block::bio::OpFlags,
    iomap::{
        flags::{
            CallerFlags,
            EndIoFlags,
            MapFlags, //
        },
        iter::Span,
        ops::MapOps, //
    },
    prelude::*, //
};

/// The direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the device to memory.
    Read,
    /// From memory to the device.
    Write {
        /// The data has to be stable, and every bio was written through.
        through: bool,
    },
}

/// A request (`struct iomap_dio`).
pub(crate) struct Dio {
    /// Bytes that were submitted, zeroed or copied, successfully or not.
    pub(crate) size: isize,
    /// The file size, sampled once: a read is clamped to it.
    pub(crate) i_size: i64,
    /// Bytes of an earlier part of the request, which count in its result.
    pub(crate) done_before: usize,
    /// What the caller asks for.
    pub(crate) flags: CallerFlags,
    /// The direction.
    pub(crate) direction: Direction,
    /// How it completes.
    pub(crate) kind: Kind,
}

/// How a request completes.
pub(crate) enum Kind {
    /// A read of one bio, of which the file system is not told.
    SimpleRead,
    /// From or to the caller's memory itself, without completion work.
    Direct,
    /// From or to the caller's memory itself, with completion work.
    Deferred(CompWork),
    /// Through bounce buffers.
    Bounce(CompWork),
}

/// What is kept of a simple read (`struct iomap_dio_simple`).
pub(crate) struct SimpleRead {
    /// Bytes.
    pub(crate) size: u32,
}

impl From<SimpleRead> for Dio {
    #[inline(always)]
    fn from(read: SimpleRead) -> Self {
        // CAST: A bio is smaller.
        let size = read.size as isize;
        Self {
            size,
            i_size: 0,
            done_before: 0,
            flags: CallerFlags::empty(),
            direction: Direction::Read,
            kind: Kind::SimpleRead,
        }
    }
}

impl Kind {
    /// A request of `iomap_dio_rw()`.
    #[inline(always)]
    pub(crate) fn new(bounced: bool, work: CompWork) -> Self {
        if bounced {
            Self::Bounce(work)
        } else if work.is_empty() {
            Self::Direct
        } else {
            Self::Deferred(work)
        }
    }
}

impl Dio {
    /// A request of which nothing was submitted, without completion work so far.
    #[inline(always)]
    pub(crate) fn new(ops: &MapOps<'_>, flags: CallerFlags, done_before: usize) -> Self {
        Self {
            size: 0,
            i_size: ops.inode().size(),
            done_before,
            flags,
            direction: if ops.is_write() {
                Direction::Write { through: false }
            } else {
                Direction::Read
            },
            kind: Kind::Direct,
        }
    }

    /// Whether the request writes to the device.
    #[inline]
    pub(crate) fn is_write(&self) -> bool {
        self.direction != Direction::Read
    }

    /// The completion work.
    #[inline]
    pub(crate) fn work(&self) -> CompWork {
        match self.kind {
            Kind::SimpleRead | Kind::Direct => CompWork::empty(),
            Kind::Deferred(work) | Kind::Bounce(work) => work,
        }
    }

    /// Plans the bios for a span of one mapping: their flags, and the completion work because of
    /// them.
    ///
    /// Fails with `EINVAL` if that has to be written untorn and cannot be.
    #[inline(always)]
    pub(crate) fn plan(&self, span: &Span<'_>, unwritten: bool) -> Result<(OpFlags, CompWork)> {
        let flags = span.flags();
        let ordinary = OpFlags::SYNC | OpFlags::IDLE;
        let special = MapFlags::NEW | MapFlags::SHARED | MapFlags::ATOMIC_BIO;
        let through = match self.direction {
            Direction::Write { through } if unwritten || through || flags.has(special) => through,
            Direction::Read | Direction::Write { .. } => return Ok((ordinary, CompWork::empty())),
        };
        let untorn = if flags.has(MapFlags::ATOMIC_BIO) {
            span.untorn()?
        } else {
            OpFlags::empty()
        };
        let work = CompWork::empty()
            .with_if(unwritten, CompWork::UNWRITTEN)
            .with_if(flags.has(MapFlags::SHARED), CompWork::COW)
            .with_if(flags.has(MapFlags::NEW), CompWork::NEW);
        let (dirty, bdev) = (flags.has(MapFlags::DIRTY), span.bdev());
        let fua = decide::writes_through(work, through, dirty, || bdev.can_write_through());
        Ok((
            (ordinary | untorn).with_if(fua, OpFlags::FUA),
            work.with_if(through && !fua, CompWork::SYNC),
        ))
    }

    /// Notes whether bios with these flags are written through.
    #[inline]
    pub(crate) fn set_through(&mut self, flags: OpFlags) {
        if let Direction::Write { through } = &mut self.direction {
            *through = flags.has(OpFlags::FUA);
        }
    }

    /// Adds completion work.
    ///
    /// A simple read has no place for it: all it may have to do in process context is to report an
    /// error.
    #[inline]
    pub(crate) fn add_work(&mut self, more: CompWork) {
        match &mut self.kind {
            Kind::SimpleRead => {}
            Kind::Direct => self.kind = Kind::new(false, more),
            Kind::Deferred(work) | Kind::Bounce(work) => *work = *work | more,
        }
    }

    /// The flags for `->end_io`.
    ///
    /// A worker for ioends that has ended the last bio is in process context already, so that there
    /// is no completion work to speak of.
    #[inline]
    pub(crate) fn end_io_flags(&self, should_dirty: bool, at_ioend: bool) -> EndIoFlags {
        let bounced = match self.kind {
            Kind::SimpleRead | Kind::Direct | Kind::Deferred(_) => false,
            Kind::Bounce(_) => true,
        };
        let flags = match self.direction {
            Direction::Read => EndIoFlags::empty().with_if(should_dirty, EndIoFlags::USER_BACKED),
            Direction::Write { through } => {
                EndIoFlags::WRITE.with_if(through, EndIoFlags::WRITE_THROUGH)
            }
        };
        let flags = flags
            .with_if(
                self.flags.has(CallerFlags::FSBLOCK_ALIGNED),
                EndIoFlags::FSBLOCK_ALIGNED,
            )
            .with_if(bounced, EndIoFlags::BOUNCE);
        let work = self.work();
        if work.is_empty() {
            return flags;
        }
        let unwritten = CompWork::UNWRITTEN | CompWork::SAW_UNWRITTEN;
        flags
            .with_if(work.has(unwritten), EndIoFlags::UNWRITTEN)
            .with_if(work.has(CompWork::COW), EndIoFlags::COW)
            .with_if(work.has(CompWork::SYNC), EndIoFlags::NEED_SYNC)
            .with_if(
                work != CompWork::SAW_UNWRITTEN && !at_ioend,
                EndIoFlags::COMP_WORK,
            )
    }
}
