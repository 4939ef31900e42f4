// SPDX-License-Identifier: GPL-2.0

//! The ways a request can travel, and what is carried along.
//!
//! ```text
//!                    one block, one bio
//!   read -------------------------------------------------> Simple   -- ended --> completed inline
//!     |
//!     +-- the device needs stable data -------------------> Bounce   -- ended --> by a worker
//!     |
//!     +---------------------------------------------------> Plain    -- ended --> completed inline
//!                                                             |  error
//!   write                                                     |  cached pages (write)
//!     |                                                       v
//!     +-- pure overwrite --------------------------------> Plain --> Deferred --> work queue
//!     |                                                                 ^
//!     +-- unwritten, copy on write, new, extending, to be flushed ------+
//!     |
//!     +-- the device needs stable data -------------------> Bounce (with the same reasons)
//! ```
//!
//! A request that its submitter completes itself, because it waited or because all bios had ended
//! by then, takes the way it was on to the end: it is in process context already.

use super::decide::{
    Durability,
    Reasons, //
};
use kernel::iomap::{
    bio::EndedBio,
    flags::EndIoFlags, //
};

/// What becomes of the pages that a request has used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// They belong to user space and were read into: they are dirtied.
    Dirtied,
    /// They were written from, or the kernel owns them and looks after them.
    LeftAlone,
}

impl Pages {
    /// By whether the request is a read into memory of user space.
    #[inline]
    pub(crate) fn new(user_read: bool) -> Self {
        if user_read {
            Self::Dirtied
        } else {
            Self::LeftAlone
        }
    }
}

/// The only bio of a simple read, after it has ended.
pub(crate) struct SimpleBio {
    /// The bio.
    pub(crate) bio: EndedBio,
    /// What becomes of its pages.
    pub(crate) pages: Pages,
}

impl SimpleBio {
    /// Lets go of the pages and of the bio.
    #[inline]
    pub(crate) fn release(self) {
        match self.pages {
            Pages::Dirtied => self.bio.check_dirty(),
            Pages::LeftAlone => self.bio.release(),
        }
    }
}

/// What the completion of a read needs to know.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    /// What becomes of the pages that were read into.
    pub(crate) pages: Pages,
    /// The size of the file in bytes when the request began: the read ends there.
    pub(crate) i_size: i64,
}

/// What the completion of a write needs to know.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    /// The write touched unwritten extents.
    pub(crate) unwritten: bool,
    /// The write touched shared extents.
    pub(crate) cow: bool,
    /// What is left to do to make it stable.
    pub(crate) durability: Durability,
}

/// The direction of a request.
#[derive(Clone, Copy)]
pub(crate) enum Transfer {
    /// Device to memory.
    Read(Read),
    /// Memory to device.
    Write(Write),
}

/// The way of a request.
pub(crate) enum Travel {
    /// One bio within one block, without a request of its own: [`super::simple`].
    Simple(SimpleBio),
    /// Zero-copy; completed wherever the last bio ends.
    Plain(Transfer),
    /// Zero-copy; completed in process context for the reasons given.
    Deferred(Transfer, Reasons),
    /// Through bounce buffers; completed in process context if there are reasons.
    Bounce(Transfer, Reasons),
}

impl Travel {
    /// The way of a request that is about to be sealed.
    #[inline]
    pub(crate) fn new(transfer: Transfer, bounce: bool, reasons: Reasons) -> Self {
        match (bounce, reasons.is_empty()) {
            (true, _) => Self::Bounce(transfer, reasons),
            (false, true) => Self::Plain(transfer),
            (false, false) => Self::Deferred(transfer, reasons),
        }
    }

    /// Why completion needs process context.
    #[inline]
    pub(crate) fn reasons(&self) -> Reasons {
        match self {
            Self::Simple(_) | Self::Plain(_) => Reasons::NONE,
            Self::Deferred(_, reasons) | Self::Bounce(_, reasons) => *reasons,
        }
    }

    /// Takes the same way for other reasons.
    #[inline]
    pub(crate) fn set_reasons(&mut self, reasons: Reasons) {
        match self {
            Self::Simple(_) => {}
            Self::Plain(transfer) | Self::Deferred(transfer, _) => {
                *self = Self::new(*transfer, false, reasons);
            }
            Self::Bounce(_, old) => *old = reasons,
        }
    }

    /// The direction of a request that is more than a simple read.
    #[inline]
    fn transfer(&self) -> Option<&Transfer> {
        match self {
            Self::Simple(_) => None,
            Self::Plain(transfer) | Self::Deferred(transfer, _) | Self::Bounce(transfer, _) => {
                Some(transfer)
            }
        }
    }

    /// The write, if it is one.
    #[inline]
    pub(crate) fn as_write(&self) -> Option<&Write> {
        match self.transfer() {
            Some(Transfer::Write(write)) => Some(write),
            _ => None,
        }
    }

    /// The size of the file that a read is cut to, unless it cannot go past it.
    #[inline]
    pub(crate) fn read_limit(&self) -> Option<i64> {
        match self.transfer() {
            Some(Transfer::Read(read)) => Some(read.i_size),
            _ => None,
        }
    }

    /// What the file system's `end_io` callback is told.
    #[inline]
    pub(crate) fn end_io_flags(&self, fsblock_aligned: bool, keep_cache: bool) -> EndIoFlags {
        let flags = match self.transfer() {
            Some(Transfer::Write(write)) => EndIoFlags::WRITE
                .with_if(write.unwritten, EndIoFlags::UNWRITTEN)
                .with_if(write.cow, EndIoFlags::COW)
                .with_if(write.durability == Durability::Flush, EndIoFlags::NEED_SYNC)
                .with_if(
                    write.durability == Durability::WrittenThrough,
                    EndIoFlags::WRITE_THROUGH,
                )
                .with_if(keep_cache, EndIoFlags::NO_INVALIDATE),
            Some(Transfer::Read(read)) => {
                EndIoFlags::empty().with_if(read.pages == Pages::Dirtied, EndIoFlags::USER_BACKED)
            }
            None => EndIoFlags::empty(),
        };
        flags
            .with_if(fsblock_aligned, EndIoFlags::FSBLOCK_ALIGNED)
            .with_if(matches!(self, Self::Bounce(..)), EndIoFlags::BOUNCE)
            .with_if(!self.reasons().is_empty(), EndIoFlags::COMP_WORK)
    }
}
