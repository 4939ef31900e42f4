// SPDX-License-Identifier: GPL-2.0

//! The decisions of direct I/O, as functions of plain values.
//!
//! Nothing here touches a kernel object, so that each rule can be read, and tested with many
//! values, by itself. The rest of the path calls these functions and does what they return.
//! Positions and lengths are in bytes; block sizes and alignments are powers of two.

#![forbid(unsafe_code)]

/// Whether a range begins and ends at multiples of `alignment`.
#[inline]
pub(crate) fn is_aligned(pos: i64, len: u64, alignment: u32) -> bool {
    // CAST: Only the low bits matter, and positions are not negative.
    (pos as u64 | len) & u64::from(alignment.wrapping_sub(1)) == 0
}

/// Whether a range goes past byte `end` of the file. True if the end of the range is not
/// representable.
#[inline]
pub(crate) fn goes_past(pos: i64, len: u64, end: i64) -> bool {
    // CAST: Positions are not negative.
    (pos as u64).saturating_add(len) > end as u64
}

/// The result of a read of `size` bytes: at most those up to `i_size`, the size of the file when
/// the read began. It began before the end of the file.
///
/// Bytes beyond that are in the caller's memory, but do not count.
#[inline]
pub(crate) fn clamp_read(pos: i64, size: isize, i_size: i64) -> isize {
    // CAST: `isize` is at most 64 bits wide.
    core::cmp::min(size as i64, i_size.wrapping_sub(pos)) as isize
}

kernel::flag_word! {
    /// What the completion of a request has to do in process context (`IOMAP_DIO_COMP_WORK`).
    ///
    /// Nothing for most requests.
    pub(crate) struct CompWork(u8) {
        /// Convert unwritten extents.
        UNWRITTEN = 1 << 0,
        /// Remap shared extents to the copy.
        COW = 1 << 1,
        /// Record new blocks.
        NEW = 1 << 2,
        /// Extend the file.
        EXTEND = 1 << 3,
        /// Make the data stable.
        SYNC = 1 << 4,
        /// Drop pages that were cached meanwhile.
        INVALIDATE = 1 << 5,
        /// Report an error.
        ERROR = 1 << 6,
        /// No work by itself: the write met an unwritten extent and was then refused, and the file
        /// system is told of the extent.
        SAW_UNWRITTEN = 1 << 7,
    }
}

impl CompWork {
    /// Whether the rest of the first and of the last block has to be zeroed: they may have old data
    /// of the device.
    #[inline]
    pub(crate) fn zeroes_around(self) -> bool {
        self.has(Self::UNWRITTEN | Self::NEW)
    }
}

/// Whether the bios of a write for one mapping, which causes this completion `work`, are written
/// through (`REQ_FUA`).
///
/// `through` says that the data has to be stable, and that every bio so far was written through.
/// `dirty` says that metadata must be stable before the data counts as stable. `device` tells
/// whether a write with `REQ_FUA` reaches the media. It is called only if the answer matters.
#[inline(always)]
pub(crate) fn writes_through(
    work: CompWork,
    through: bool,
    dirty: bool,
    device: impl FnOnce() -> bool,
) -> bool {
    // FUA saves the flush only if the whole request consists of pure overwrites. The first other
    // write makes a flush necessary, so the rest of the request does without FUA.
    through && work.is_empty() && !dirty && device()
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
    write && (zero_around || end >= i_size())
}

/// Whether a write within one mapping needs zeroes before or after its data.
///
/// The rule for what comes after the data is that of [`zeroes_tail`].
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
    zero_around || (!is_aligned(end, 0, block_size) && end >= i_size())
}
