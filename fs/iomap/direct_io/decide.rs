// SPDX-License-Identifier: GPL-2.0

//! The decisions of direct I/O, as functions of plain values.
//!
//! Nothing here touches a kernel object, so that each rule can be read, and tested in tables, by
//! itself. The rest of the path calls these functions and does what they return. Positions and
//! lengths are in bytes; block sizes and alignments are powers of two.

#![forbid(unsafe_code)]

use core::num::NonZeroU8;

/// Whether a range begins and ends at multiples of `alignment`.
#[inline]
pub(crate) fn is_aligned(pos: i64, len: u64, alignment: u32) -> bool {
    // CAST: Only the low bits matter, and positions are not negative.
    (pos as u64 | len) & u64::from(alignment.wrapping_sub(1)) == 0
}

/// The number of bytes from the start of the block to `pos`, which are zeroed before the data.
#[inline]
pub(crate) fn head_padding(pos: i64, block_size: u32) -> u32 {
    // CAST: The mask leaves less than `block_size`.
    (pos as u64 & u64::from(block_size.wrapping_sub(1))) as u32
}

/// The number of bytes from `pos` to the end of the block, which are zeroed after the data. Zero if
/// `pos` begins a block.
#[inline]
pub(crate) fn tail_padding(pos: i64, block_size: u32) -> u32 {
    match head_padding(pos, block_size) {
        0 => 0,
        head => block_size.wrapping_sub(head),
    }
}

/// Whether a range goes past byte `end` of the file. True if the end of the range is not
/// representable.
#[inline]
pub(crate) fn goes_past(pos: i64, len: u64, end: i64) -> bool {
    // CAST: Positions are not negative.
    (pos as u64).saturating_add(len) > end as u64
}

/// The result of a read of `size` bytes: at most up to `i_size`, the size of the file when it
/// began.
///
/// Bytes beyond that are in the caller's memory, but do not count.
#[inline]
pub(crate) fn clamp_read(pos: i64, size: isize, i_size: i64) -> isize {
    // CAST: `isize` is at most 64 bits wide.
    if goes_past(pos, size as u64, i_size) {
        i_size.wrapping_sub(pos) as isize
    } else {
        size
    }
}

/// The work that is left when all bios of a request have ended, and that needs process context.
///
/// A set, empty for most requests. A set that is not empty is a [`Debt`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owed(u8);

/// A set of work that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Debt(NonZeroU8);

impl Owed {
    /// Nothing.
    pub(crate) const NOTHING: Self = Self(0);
    /// Convert unwritten extents.
    pub(crate) const CONVERT: Self = Self(1 << 0);
    /// Remap shared extents to the copy.
    pub(crate) const REMAP: Self = Self(1 << 1);
    /// Record new blocks.
    pub(crate) const RECORD: Self = Self(1 << 2);
    /// Extend the file.
    pub(crate) const EXTEND: Self = Self(1 << 3);
    /// Flush the device's cache.
    pub(crate) const FLUSH: Self = Self(1 << 4);
    /// Drop pages that were cached meanwhile.
    pub(crate) const DROP_PAGES: Self = Self(1 << 5);
    /// Report an error.
    pub(crate) const REPORT: Self = Self(1 << 6);
    /// No work by itself: the write met an unwritten extent and was then refused, and the file
    /// system is told of the extent.
    pub(crate) const UNWRITTEN_MET: Self = Self(1 << 7);

    /// Whether the set is empty.
    #[inline]
    pub(crate) const fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// Whether the rest of the first and of the last block has to be zeroed: they may have old data
    /// of the device.
    #[inline]
    pub(crate) const fn zeroes_around(self) -> bool {
        self.0 & Self::CONVERT.with(Self::RECORD).0 != 0
    }

    /// The union of both sets.
    #[inline]
    #[must_use]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The union of both sets if `on`, otherwise this set.
    #[inline]
    #[must_use]
    pub(crate) const fn with_if(self, on: bool, other: Self) -> Self {
        if on {
            self.with(other)
        } else {
            self
        }
    }

    /// This set without what is in the other.
    #[inline]
    #[must_use]
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The set as a debt, unless it is empty.
    #[inline]
    pub(crate) const fn debt(self) -> Option<Debt> {
        match NonZeroU8::new(self.0) {
            Some(bits) => Some(Debt(bits)),
            None => None,
        }
    }
}

impl Debt {
    /// The union of both sets.
    #[inline]
    #[must_use]
    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the sets have work in common.
    #[inline]
    pub(crate) const fn has(self, owed: Owed) -> bool {
        self.0.get() & owed.0 != 0
    }

    /// Whether there is work for process context.
    #[inline]
    pub(crate) const fn is_work(self) -> bool {
        self.0.get() != Owed::UNWRITTEN_MET.0
    }
}

/// What is done to make a write stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The write need not be stable.
    NotNeeded,
    /// `O_DSYNC`, and every bio so far was written through: no flush is needed.
    WrittenThrough,
    /// The completion flushes.
    Flush,
}

impl Durability {
    /// The state that a stable write begins with. Only data can be written through: with `full`
    /// (`O_SYNC`) the metadata have to be stable as well, so the completion flushes.
    #[inline]
    pub(crate) fn asked(full: bool) -> Self {
        if full {
            Self::Flush
        } else {
            Self::WrittenThrough
        }
    }
}

/// The state of blocks that a write goes to, as the file system describes them.
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

/// What a write to one mapping requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WritePlan {
    /// What the request owes because of this mapping.
    pub(crate) owed: Owed,
    /// The bios are written through (`REQ_FUA`).
    pub(crate) fua: bool,
    /// The durability of the request once these bios are submitted.
    pub(crate) durability: Durability,
}

/// Plans the write to one mapping, for a request whose bios so far have this `durability`.
///
/// `writes_through` tells whether a write with `REQ_FUA` reaches the media of the device. It is
/// called only if the answer matters.
#[inline(always)]
pub(crate) fn plan_write(
    target: &Target,
    durability: Durability,
    writes_through: impl FnOnce() -> bool,
) -> WritePlan {
    let owed = Owed::NOTHING
        .with_if(target.unwritten, Owed::CONVERT)
        .with_if(target.shared, Owed::REMAP)
        .with_if(target.new, Owed::RECORD);

    // FUA saves the flush only if the whole request consists of pure overwrites. The first other
    // write makes a flush necessary, so the rest of the request does without FUA.
    let through = durability == Durability::WrittenThrough;
    let fua = through && owed.is_nothing() && !target.dirty && writes_through();

    WritePlan {
        owed,
        fua,
        durability: if through && !fua {
            Durability::Flush
        } else {
            durability
        },
    }
}

/// Whether the rest of the last block has to be zeroed after the data.
///
/// Otherwise a write to a new block would leave old data of the device in it, and so would a write
/// that ends beyond the end of the file, where a mapped page shows the rest of the block.
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
/// `EAGAIN` and `ENOTBLK` only ask the caller to try again in another way.
#[inline]
pub(crate) fn is_reported(errno: i32, again: i32, not_block: i32) -> bool {
    errno != 0 && errno != again && errno != not_block
}

/// The work of an asynchronous request, so far without any, when its last bio has ended.
///
/// A write has to drop pages that were cached meanwhile, which may block. `cached_pages` is called
/// only if the answer matters.
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

/// Whether a write within one mapping needs zeroes before or after its data.
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

/// The end of the walk over the mappings, as far as [`settle`] distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// The walk has reached the end of the range, or a mapping without progress.
    Done,
    /// The caller's memory could not be accessed (`EFAULT`).
    Fault,
    /// The file system wants the rest to go through the page cache (`ENOTBLK`).
    FallBack,
    /// Any other error.
    Failed,
}

/// The consequences of the end of the walk for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// The error of the walk fails the request.
    pub(crate) fails: bool,
    /// The submitter waits for the bios, even if the kiocb is asynchronous.
    pub(crate) waits: bool,
}

/// Decides the consequences of the end of the walk. `partial` says that the caller takes a short
/// result.
///
/// `size` bytes were submitted before. A caller that falls back to the page cache needs the result
/// now. So does a caller that faults its memory in and continues, unless it must not block: that
/// one takes the short result whenever it comes.
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
