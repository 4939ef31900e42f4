// SPDX-License-Identifier: GPL-2.0

//! The decisions of direct I/O, as functions of plain values.
//!
//! Nothing here touches a kernel object, so that each rule can be read, and tested in tables, by
//! itself. The rest of the path asks and obeys. Positions and lengths are in bytes; block sizes
//! and alignments are powers of two.

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

/// Why a completion needs process context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reasons(u8);

impl Reasons {
    /// There is none.
    pub(crate) const NONE: Self = Self(0);
    /// Unwritten extents are converted.
    pub(crate) const UNWRITTEN: Self = Self(1 << 0);
    /// Shared extents are remapped to the copy.
    pub(crate) const COW: Self = Self(1 << 1);
    /// New blocks are recorded.
    pub(crate) const NEW: Self = Self(1 << 2);
    /// The file grows.
    pub(crate) const EXTENDING: Self = Self(1 << 3);
    /// The device's cache is flushed.
    pub(crate) const SYNC: Self = Self(1 << 4);
    /// Pages were cached meanwhile and have to go.
    pub(crate) const CACHED_PAGES: Self = Self(1 << 5);
    /// An error is reported.
    pub(crate) const ERROR: Self = Self(1 << 6);

    /// Whether there is no reason.
    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All reasons of both.
    #[inline]
    #[must_use]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// `other` as well, if `on`.
    #[inline]
    #[must_use]
    pub(crate) const fn and_if(self, on: bool, other: Self) -> Self {
        if on {
            self.and(other)
        } else {
            self
        }
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
    /// What a write starts from. Only data can be written through: `O_SYNC` wants the metadata.
    #[inline]
    pub(crate) fn new(dsync: bool, full_sync: bool) -> Self {
        match (dsync, full_sync) {
            (false, _) => Self::NotNeeded,
            (true, false) => Self::WrittenThrough,
            (true, true) => Self::Flush,
        }
    }
}

/// What a file system says about blocks that are going to be written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The type of the mapping.
    pub(crate) blocks: Blocks,
    /// The blocks were newly allocated.
    pub(crate) new: bool,
    /// The blocks are shared with another file.
    pub(crate) shared: bool,
    /// Metadata must be stable before the data counts as stable.
    pub(crate) dirty: bool,
}

/// The state of blocks before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// They hold data.
    Written,
    /// They are allocated and read as zeroes.
    Unwritten,
}

/// What to do with the bios of a write to one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WritePlan {
    /// Why the completion of the request needs process context because of this mapping.
    pub(crate) reasons: Reasons,
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
    let unwritten = target.blocks == Blocks::Unwritten;
    let reasons = Reasons::NONE
        .and_if(unwritten, Reasons::UNWRITTEN)
        .and_if(target.shared, Reasons::COW)
        .and_if(target.new, Reasons::NEW);

    // A flush is saved only by a pure overwrite, and only if the whole request consists of them:
    // the first write that is not flushes all, so it ends writing through.
    let through = durability == Durability::WrittenThrough;
    let fua = through && reasons.is_empty() && !target.dirty && writes_through();

    WritePlan {
        reasons,
        zero_around: unwritten || target.new,
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

/// Where a request is completed whose last bio has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    /// Right there, and cached pages are let be.
    Inline,
    /// On a work queue, for these reasons.
    Punt(Reasons),
}

/// Decides where an asynchronous request is completed.
///
/// `reasons` are those of the submission. `cached_pages` is only asked when it matters: a write
/// has to drop pages that were cached meanwhile, which may block.
#[inline]
pub(crate) fn landing(
    write: bool,
    reasons: Reasons,
    failed: bool,
    cached_pages: impl FnOnce() -> bool,
) -> Landing {
    let reasons = reasons.and_if(failed, Reasons::ERROR);
    if !reasons.is_empty() {
        return Landing::Punt(reasons);
    }
    if write && cached_pages() {
        return Landing::Punt(Reasons::CACHED_PAGES);
    }
    Landing::Inline
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
