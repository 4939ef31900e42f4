// SPDX-License-Identifier: GPL-2.0

//! The decisions of direct I/O, as functions of plain values.
//!
//! Nothing here touches a kernel object, so that each rule can be read, and tested in tables, by
//! itself. The rest of the path asks and obeys. Positions and lengths are in bytes; block sizes
//! and alignments are powers of two.

#![forbid(unsafe_code)]

use core::num::NonZeroU8;

/// Whether a range begins and ends at multiples of `alignment`.
#[inline]
pub(crate) fn is_aligned(pos: i64, len: u64, alignment: u32) -> bool {
    // CAST: Only the low bits matter, and positions are not negative.
    (pos as u64 | len) & u64::from(alignment.wrapping_sub(1)) == 0
}

/// Bytes from the start of the block to `pos`: what is zeroed before the data.
#[inline]
pub(crate) fn head_padding(pos: i64, block_size: u32) -> u32 {
    // CAST: The mask leaves less than `block_size`.
    (pos as u64 & u64::from(block_size.wrapping_sub(1))) as u32
}

/// Bytes from `pos` to the end of the block, zero if `pos` begins one: what is zeroed after the
/// data.
#[inline]
pub(crate) fn tail_padding(pos: i64, block_size: u32) -> u32 {
    match head_padding(pos, block_size) {
        0 => 0,
        head => block_size.wrapping_sub(head),
    }
}

/// Whether a range goes past byte `end` of the file.
///
/// A range so long that its end is not representable does.
#[inline]
pub(crate) fn goes_past(pos: i64, len: u64, end: i64) -> bool {
    // CAST: Positions are not negative.
    (pos as u64).saturating_add(len) > end as u64
}

/// How much of a finished request counts: a read ends where the file ended when it began.
///
/// Bytes that were read past the end are in the caller's memory, but not in the result.
#[inline]
pub(crate) fn clamp_read(pos: i64, size: isize, i_size: i64) -> isize {
    // CAST: `isize` is at most 64 bits wide.
    if goes_past(pos, size as u64, i_size) {
        i_size.wrapping_sub(pos) as isize
    } else {
        size
    }
}

/// What is left to do when all bios of a request have ended, and needs process context.
///
/// A set, which is empty for most requests; one that is not is a [`Debt`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owed(u8);

/// What a request owes that owes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Debt(NonZeroU8);

impl Owed {
    /// Nothing.
    pub(crate) const NOTHING: Self = Self(0);
    /// Unwritten extents are converted.
    pub(crate) const CONVERT: Self = Self(1 << 0);
    /// Shared extents are remapped to the copy.
    pub(crate) const REMAP: Self = Self(1 << 1);
    /// New blocks are recorded.
    pub(crate) const RECORD: Self = Self(1 << 2);
    /// The file grows.
    pub(crate) const EXTEND: Self = Self(1 << 3);
    /// The device's cache is flushed.
    pub(crate) const FLUSH: Self = Self(1 << 4);
    /// Pages were cached meanwhile and have to go.
    pub(crate) const DROP_PAGES: Self = Self(1 << 5);
    /// An error is reported.
    pub(crate) const REPORT: Self = Self(1 << 6);
    /// Not a debt by itself: an unwritten extent was met by a write that was then refused, of which
    /// the file system is told.
    pub(crate) const UNWRITTEN_MET: Self = Self(1 << 7);

    /// Whether that is nothing.
    #[inline]
    pub(crate) const fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// Both.
    #[inline]
    #[must_use]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// `other` as well, if `on`.
    #[inline]
    #[must_use]
    pub(crate) const fn with_if(self, on: bool, other: Self) -> Self {
        if on {
            self.with(other)
        } else {
            self
        }
    }

    /// As a debt, unless it is nothing.
    #[inline]
    pub(crate) const fn debt(self) -> Option<Debt> {
        match NonZeroU8::new(self.0) {
            Some(bits) => Some(Debt(bits)),
            None => None,
        }
    }
}

impl Debt {
    /// Both.
    #[inline]
    #[must_use]
    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of that is a part of it.
    #[inline]
    pub(crate) const fn has(self, owed: Owed) -> bool {
        self.0.get() & owed.0 != 0
    }

    /// Whether anything has to be done for it in process context.
    #[inline]
    pub(crate) const fn is_work(self) -> bool {
        self.0.get() != Owed::UNWRITTEN_MET.0
    }
}

/// What has been done, and is still to do, to make a write stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Nobody asked.
    NotNeeded,
    /// `O_DSYNC`, and every bio so far was written through: no flush is needed.
    WrittenThrough,
    /// A flush is needed at completion.
    Flush,
}

impl Durability {
    /// What a write starts from that has to be stable. Only data can be written through: with `full`
    /// (`O_SYNC`) the metadata have to be stable as well.
    #[inline]
    pub(crate) fn asked(full: bool) -> Self {
        if full {
            Self::Flush
        } else {
            Self::WrittenThrough
        }
    }
}

/// What a file system says about blocks that are going to be written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The blocks are allocated, and read as zeroes.
    pub(crate) unwritten: bool,
    /// The blocks were newly allocated.
    pub(crate) new: bool,
    /// The blocks are shared with another file.
    pub(crate) shared: bool,
    /// Metadata must be stable before the data counts as stable.
    pub(crate) dirty: bool,
}

/// What to do with the bios of a write to one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WritePlan {
    /// What the request owes because of this mapping.
    pub(crate) owed: Owed,
    /// The rest of the first and of the last block has to be zeroed.
    pub(crate) zero_around: bool,
    /// The bios are written through (`REQ_FUA`).
    pub(crate) fua: bool,
    /// What is true of the request once they are.
    pub(crate) durability: Durability,
}

/// Plans the write to one mapping, for a request that so far has this `durability`.
///
/// `writes_through` tells whether a write with `REQ_FUA` reaches the media of the device; it is
/// only asked when that matters.
#[inline]
pub(crate) fn plan_write(
    target: Target,
    durability: Durability,
    writes_through: impl FnOnce() -> bool,
) -> WritePlan {
    let owed = Owed::NOTHING
        .with_if(target.unwritten, Owed::CONVERT)
        .with_if(target.shared, Owed::REMAP)
        .with_if(target.new, Owed::RECORD);

    // A flush is saved only by a pure overwrite, and only if the whole request consists of them:
    // the first write that is not flushes all, so it ends writing through.
    let through = durability == Durability::WrittenThrough;
    let fua = through && owed.is_nothing() && !target.dirty && writes_through();

    WritePlan {
        owed,
        zero_around: target.unwritten || target.new,
        fua,
        durability: if through && !fua {
            Durability::Flush
        } else {
            durability
        },
    }
}

/// Whether what follows the data in its last block has to be zeroed.
///
/// Without it a write to a new block would leave old data of the device after it, and so would a
/// write that ends beyond the end of the file, where a mapped page shows it.
#[inline]
pub(crate) fn zeroes_tail(
    write: bool,
    zero_around: bool,
    end: i64,
    i_size: impl FnOnce() -> i64,
) -> bool {
    zero_around || (write && end >= i_size())
}

/// Whether a request that ended with `errno` is reported as failed I/O.
///
/// The two codes that ask the caller to try again in another way are not failures.
#[inline]
pub(crate) fn is_reported(errno: i32, again: i32, not_block: i32) -> bool {
    errno != 0 && errno != again && errno != not_block
}

/// What an asynchronous request owes, that owed nothing so far, once its last bio has ended.
///
/// `cached_pages` is only asked when it matters: a write has to drop pages that were cached
/// meanwhile, which may block.
#[inline]
pub(crate) fn owed_at_end(write: bool, failed: bool, cached_pages: impl FnOnce() -> bool) -> Owed {
    if failed {
        Owed::REPORT
    } else if write && cached_pages() {
        Owed::DROP_PAGES
    } else {
        Owed::NOTHING
    }
}

/// Whether a write that ends in one mapping has to be accompanied by zeroes, before or after it.
///
/// The rules are those of [`head_padding`], [`tail_padding`] and [`zeroes_tail`] together.
#[inline]
pub(crate) fn needs_zeroes(
    zero_around: bool,
    pos: i64,
    len: u64,
    block_size: u32,
    i_size: impl FnOnce() -> i64,
) -> bool {
    if is_aligned(pos, len, block_size) {
        return false;
    }
    // CAST: The end of a request is a position.
    let end = pos.wrapping_add(len as i64);
    zero_around || (tail_padding(end, block_size) != 0 && end >= i_size())
}

/// How the walk over the mappings has ended, in the terms that [`settle`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// All done, or as far as it went.
    Done,
    /// The caller's memory could not be accessed (`EFAULT`).
    Fault,
    /// The file system wants the rest to go through the page cache (`ENOTBLK`).
    FallBack,
    /// Anything else.
    Failed,
}

/// What the end of the walk means for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// The error of the walk fails the request.
    pub(crate) fails: bool,
    /// The submitter waits for the bios, whatever the kiocb says.
    pub(crate) waits: bool,
}

/// Settles what a caller gets that may take a partial result (`partial`).
///
/// `size` is what was submitted before the walk ended. A caller that falls back to the page cache
/// needs the result now; so does one that faults its memory in and comes back, unless it must not
/// block and takes the short result whenever it comes.
#[inline]
pub(crate) fn settle(walk: Walk, size: isize, partial: bool, nowait: bool) -> Settled {
    match walk {
        Walk::Done => Settled {
            fails: false,
            waits: false,
        },
        Walk::Fault if partial && size > 0 => Settled {
            fails: false,
            waits: !nowait,
        },
        Walk::FallBack => Settled {
            fails: false,
            waits: true,
        },
        Walk::Fault | Walk::Failed => Settled {
            fails: true,
            waits: false,
        },
    }
}
