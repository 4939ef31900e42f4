// SPDX-License-Identifier: GPL-2.0

//! A request, as its completion knows it.
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
//! then, the request keeps its variant: the submitter is in process context already.

#![forbid(unsafe_code)]

use super::decide::CompWork;
use kernel::{
    block::bio::Pages,
    iomap::flags::EndIoFlags, //
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

/// A request whose submission is over (`struct iomap_dio`).
#[doc(alias = "iomap_dio")]
pub(crate) struct Dio {
    /// Bytes that were submitted, zeroed or copied, successfully or not.
    pub(crate) size: isize,
    /// The result in case of success: `size`, for a read clamped to the end of the file.
    pub(crate) ret: isize,
    /// Bytes of an earlier part of the request.
    pub(crate) done_before: usize,
    /// Each bio was aligned to the blocks of the file system.
    pub(crate) fsblock_aligned: bool,
    /// The direction.
    pub(crate) direction: Direction,
    /// How it completes.
    pub(crate) kind: Kind,
}

/// How a request completes.
pub(crate) enum Kind {
    /// A read of one bio, which was given away with it. The file system is not told.
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
            ret: size,
            done_before: 0,
            fsblock_aligned: false,
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
    /// Whether the request writes to the device.
    #[inline]
    pub(crate) fn is_write(&self) -> bool {
        self.direction != Direction::Read
    }

    /// The completion work.
    #[inline]
    pub(crate) fn work(&self) -> CompWork {
        match self.kind {
            Kind::SimpleRead | Kind::Direct => CompWork::NONE,
            Kind::Deferred(work) | Kind::Bounce(work) => work,
        }
    }

    /// Adds completion work that has come up since the submission.
    ///
    /// A simple read has no place for it: what it has to do in process context is to report an error.
    #[inline]
    pub(crate) fn add_work(&mut self, more: CompWork) {
        match &mut self.kind {
            Kind::SimpleRead => {}
            Kind::Direct => self.kind = Kind::new(false, more),
            Kind::Deferred(work) | Kind::Bounce(work) => *work = work.with(more),
        }
    }

    /// The flags for `->end_io`. `pages` are those of the caller's memory.
    #[inline]
    pub(crate) fn end_io_flags(&self, pages: Pages) -> EndIoFlags {
        let bounced = match self.kind {
            Kind::SimpleRead | Kind::Direct | Kind::Deferred(_) => false,
            Kind::Bounce(_) => true,
        };
        let flags = match self.direction {
            Direction::Read => {
                EndIoFlags::empty().with_if(pages == Pages::Dirtied, EndIoFlags::USER_BACKED)
            }
            Direction::Write { through } => {
                EndIoFlags::WRITE.with_if(through, EndIoFlags::WRITE_THROUGH)
            }
        };
        let flags = flags
            .with_if(self.fsblock_aligned, EndIoFlags::FSBLOCK_ALIGNED)
            .with_if(bounced, EndIoFlags::BOUNCE);
        let work = self.work();
        if work.is_empty() {
            return flags;
        }
        let unwritten = CompWork::UNWRITTEN.with(CompWork::SAW_UNWRITTEN);
        flags
            .with_if(work.has(unwritten), EndIoFlags::UNWRITTEN)
            .with_if(work.has(CompWork::COW), EndIoFlags::COW)
            .with_if(work.has(CompWork::SYNC), EndIoFlags::NEED_SYNC)
            .with_if(work != CompWork::SAW_UNWRITTEN, EndIoFlags::COMP_WORK)
    }
}
