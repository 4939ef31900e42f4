// SPDX-License-Identifier: GPL-2.0

//! The ways a request can take to its completion.
//!
//! ```text
//!  Simple    single-bio   --+--> completed where its bio ends
//!                           |
//!                           | error, cached pages (write)
//!                           v
//!  Deferred  either       --+--> completed in process context
//!                           ^
//!                           | error, cached pages (write), a debt
//!                           |
//!  Plain     counted      --+--> completed where the last bio ends
//!
//!  Bounce    counted, through bounce buffers
//!                         --+--> completed where the last bio ends
//!                           |
//!                           +--> with a debt: completed in process context
//! ```
//!
//! Process context is a work queue, or the worker that ends the last bio as a part of an ioend. If
//! the submitter completes a request itself, because it waited or because all bios had ended by
//! then, the request keeps its variant: the submitter is in process context already.

#![forbid(unsafe_code)]

use super::decide::{
    self,
    Debt,
    Owed, //
};
use kernel::{
    block::bio::Pages,
    iomap::{
        bio::Buffers,
        flags::EndIoFlags, //
    },
};

/// The direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// From the device to memory.
    Read,
    /// From memory to the device.
    Write {
        /// The data has to be stable, and every bio so far was written through.
        through: bool,
    },
}

impl Transfer {
    /// Whether the request writes to the device.
    #[inline]
    pub(crate) fn is_write(self) -> bool {
        match self {
            Self::Read => false,
            Self::Write { .. } => true,
        }
    }

    /// The flags for the file system's `end_io` callback that do not depend on where the request
    /// completes.
    #[inline]
    pub(crate) fn end_io_flags(self, pages: Pages) -> EndIoFlags {
        match self {
            Self::Read => {
                EndIoFlags::empty().with_if(pages == Pages::Dirtied, EndIoFlags::USER_BACKED)
            }
            Self::Write { through } => {
                EndIoFlags::WRITE.with_if(through, EndIoFlags::WRITE_THROUGH)
            }
        }
    }
}

/// The way of a request, from the decision to its completion.
// Common fields have the same place in all variants, so that reading them needs no branch.
#[repr(u8)]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Travel {
    /// A single-bio request: completed where its bio ends.
    Simple(Transfer),
    /// A counted request, zero-copy: completed where its last bio ends.
    Plain(Transfer),
    /// A zero-copy request with a debt: completed in process context.
    Deferred(Transfer, Debt),
    /// A counted request through bounce buffers: completed in process context if it has a debt.
    Bounce(Transfer, Option<Debt>),
}

/// A request that owes nothing, so that it can be completed in any context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clear {
    pub(crate) transfer: Transfer,
    pub(crate) bounced: bool,
}

impl Travel {
    /// The way of a single-bio request.
    #[inline]
    pub(crate) fn single(transfer: Transfer, owed: Owed) -> Self {
        match owed.debt() {
            None => Self::Simple(transfer),
            Some(debt) => Self::Deferred(transfer, debt),
        }
    }

    /// The way of a counted request.
    #[inline]
    pub(crate) fn counted(transfer: Transfer, bounced: bool, owed: Owed) -> Self {
        match (bounced, owed.debt()) {
            (true, debt) => Self::Bounce(transfer, debt),
            (false, None) => Self::Plain(transfer),
            (false, Some(debt)) => Self::Deferred(transfer, debt),
        }
    }

    /// How the bios are filled, and so how they end. `pages` are those of the caller's memory.
    #[inline]
    pub(crate) fn buffers(&self, pages: Pages) -> Buffers {
        match self {
            Self::Simple(_) | Self::Plain(_) | Self::Deferred(..) => Buffers::ZeroCopy(pages),
            Self::Bounce(..) => Buffers::Bounced(pages),
        }
    }

    /// The direction.
    #[inline]
    pub(crate) fn transfer(&self) -> Transfer {
        match self {
            Self::Simple(transfer)
            | Self::Plain(transfer)
            | Self::Deferred(transfer, _)
            | Self::Bounce(transfer, _) => *transfer,
        }
    }

    /// The work that is owed.
    #[inline]
    pub(crate) fn debt(&self) -> Option<Debt> {
        match self {
            Self::Simple(_) | Self::Plain(_) => None,
            Self::Deferred(_, debt) => Some(*debt),
            Self::Bounce(_, debt) => *debt,
        }
    }

    /// Records that all of a write was written through.
    pub(crate) fn write_through(&mut self) {
        match self {
            Self::Simple(transfer)
            | Self::Plain(transfer)
            | Self::Deferred(transfer, _)
            | Self::Bounce(transfer, _) => *transfer = Transfer::Write { through: true },
        }
    }

    /// Adds work that is owed.
    #[inline]
    pub(crate) fn owe(&mut self, owed: Owed) {
        let Some(more) = owed.debt() else { return };
        match self {
            Self::Simple(transfer) | Self::Plain(transfer) => {
                *self = Self::Deferred(*transfer, more);
            }
            Self::Deferred(_, debt) => *debt = debt.with(more),
            Self::Bounce(_, debt) => {
                *debt = Some(match *debt {
                    Some(debt) => debt.with(more),
                    None => more,
                });
            }
        }
    }

    /// Chooses the completion context of an asynchronous request when its last bio has ended: here,
    /// or in process context if it has a debt by now.
    #[inline]
    pub(crate) fn land(
        &mut self,
        failed: bool,
        cached_pages: impl FnOnce() -> bool,
    ) -> Option<Clear> {
        let Some(clear) = self.clear() else {
            self.owe(Owed::NOTHING.with_if(failed, Owed::REPORT));
            return None;
        };
        let owed = decide::owed_at_end(clear.transfer.is_write(), failed, cached_pages);
        if owed.is_nothing() {
            return Some(clear);
        }
        self.owe(owed);
        None
    }

    /// The request, if it has no debt.
    #[inline]
    pub(crate) fn clear(&self) -> Option<Clear> {
        match self {
            Self::Simple(transfer) | Self::Plain(transfer) => Some(Clear {
                transfer: *transfer,
                bounced: false,
            }),
            Self::Bounce(transfer, None) => Some(Clear {
                transfer: *transfer,
                bounced: true,
            }),
            Self::Deferred(..) | Self::Bounce(_, Some(_)) => None,
        }
    }
}

impl Clear {
    /// The flags for the file system's `end_io` callback.
    #[inline]
    pub(crate) fn end_io_flags(self, pages: Pages) -> EndIoFlags {
        self.transfer
            .end_io_flags(pages)
            .with_if(self.bounced, EndIoFlags::BOUNCE)
    }
}

impl Travel {
    /// The flags for `->end_io` in process context.
    #[inline]
    pub(crate) fn end_io_flags(&self, pages: Pages) -> EndIoFlags {
        let (bounced, debt) = match self {
            Self::Simple(_) | Self::Plain(_) => (false, None),
            Self::Deferred(_, debt) => (false, Some(*debt)),
            Self::Bounce(_, debt) => (true, *debt),
        };
        let flags = self
            .transfer()
            .end_io_flags(pages)
            .with_if(bounced, EndIoFlags::BOUNCE);
        match debt {
            None => flags,
            Some(debt) => flags
                .with_if(
                    debt.has(Owed::CONVERT.with(Owed::UNWRITTEN_MET)),
                    EndIoFlags::UNWRITTEN,
                )
                .with_if(debt.has(Owed::REMAP), EndIoFlags::COW)
                .with_if(debt.has(Owed::FLUSH), EndIoFlags::NEED_SYNC)
                .with_if(debt.is_work(), EndIoFlags::COMP_WORK),
        }
    }
}
