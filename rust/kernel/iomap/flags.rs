// SPDX-License-Identifier: GPL-2.0

//! The flag words of direct I/O, one type each.
//!
//! The bits of [`CallerFlags`] and of [`EndIoFlags`] overlap with different meanings:
//! `IOMAP_DIO_FORCE_WAIT` and `IOMAP_DIO_UNWRITTEN` are both bit 0. Because they have two types,
//! the compiler rejects a mix-up.
//!
//! C header: [`include/linux/iomap.h`](srctree/include/linux/iomap.h).
//!
//! # Examples
//!
//! ```
//! use kernel::iomap::flags::{CallerFlags, EndIoFlags};
//!
//! let asked = CallerFlags::PARTIAL | CallerFlags::BOUNCE;
//! // Any of them, not all.
//! assert!(asked.has(CallerFlags::BOUNCE | CallerFlags::FORCE_WAIT));
//! assert_eq!(asked.without(CallerFlags::BOUNCE), CallerFlags::PARTIAL);
//! assert_eq!(asked.with_if(false, CallerFlags::FORCE_WAIT), asked);
//!
//! // What C passes comes in and goes out unchanged, unknown bits included.
//! assert_eq!(CallerFlags::from_raw(1 << 20).into_raw(), 1 << 20);
//!
//! // One bit, two meanings, two types.
//! assert_eq!(CallerFlags::FORCE_WAIT.into_raw(), EndIoFlags::UNWRITTEN.into_raw());
//! ```

use crate::{
    bindings,
    bits::bit_u32, //
};

/// Adds `from_raw()` to words that C passes to Rust. The other words only go to C.
macro_rules! from_raw {
    ($($vis:vis $name:ident($ty:ty);)*) => { $(
        impl $name {
            /// Takes a word from C; unknown bits are kept.
            #[inline]
            $vis const fn from_raw(bits: $ty) -> Self {
                Self(bits)
            }
        }
    )* };
}

from_raw! {
    pub CallerFlags(u32);
    pub MapFlags(u32);
}

crate::flag_word! {
    /// The flags that the caller of `iomap_dio_rw()` passes (`dio_flags`).
    ///
    /// The caller is the file system, which knows from its locks and its device what a request may
    /// do.
    pub struct CallerFlags(u32) {
        /// Wait for the request even if the kiocb is asynchronous.
        #[doc(alias = "IOMAP_DIO_FORCE_WAIT")]
        FORCE_WAIT = bindings::IOMAP_DIO_FORCE_WAIT,
        /// Refuse a write with `EAGAIN` unless it is a pure overwrite, for which the file system's
        /// lock may be held shared.
        #[doc(alias = "IOMAP_DIO_OVERWRITE_ONLY")]
        OVERWRITE_ONLY = bindings::IOMAP_DIO_OVERWRITE_ONLY,
        /// A page fault gives a short result instead of `EFAULT`. The caller faults the memory in
        /// and goes on.
        #[doc(alias = "IOMAP_DIO_PARTIAL")]
        PARTIAL = bindings::IOMAP_DIO_PARTIAL,
        /// Each bio is aligned to file system blocks instead of the device's logical blocks.
        #[doc(alias = "IOMAP_DIO_FSBLOCK_ALIGNED")]
        FSBLOCK_ALIGNED = bindings::IOMAP_DIO_FSBLOCK_ALIGNED,
        /// Copy through bounce buffers, because the device needs data that does not change under
        /// it.
        #[doc(alias = "IOMAP_DIO_BOUNCE")]
        BOUNCE = bindings::IOMAP_DIO_BOUNCE,
    }
}

crate::flag_word! {
    /// The flags that the file system's `end_io` callback gets about the request.
    ///
    /// The upper bits are private to the direct I/O path, but `end_io` sees the whole word, so they
    /// keep the positions that they have in the C implementation.
    pub struct EndIoFlags(u32) {
        /// The request covers unwritten extents, which the callback has to convert.
        #[doc(alias = "IOMAP_DIO_UNWRITTEN")]
        UNWRITTEN = bindings::IOMAP_DIO_UNWRITTEN,
        /// The request covers copy-on-write extents, which the callback has to remap.
        #[doc(alias = "IOMAP_DIO_COW")]
        COW = bindings::IOMAP_DIO_COW,
        /// As [`CallerFlags::FSBLOCK_ALIGNED`].
        FSBLOCK_ALIGNED = bindings::IOMAP_DIO_FSBLOCK_ALIGNED,
        /// As [`CallerFlags::BOUNCE`].
        BOUNCE = bindings::IOMAP_DIO_BOUNCE,
        /// The page cache is not invalidated after the write.
        #[doc(alias = "IOMAP_DIO_NO_INVALIDATE")]
        NO_INVALIDATE = bit_u32(26),
        /// The completion needs process context.
        #[doc(alias = "IOMAP_DIO_COMP_WORK")]
        COMP_WORK = bit_u32(27),
        /// Every bio so far was written through to the media.
        #[doc(alias = "IOMAP_DIO_WRITE_THROUGH")]
        WRITE_THROUGH = bit_u32(28),
        /// The completion flushes the written range.
        #[doc(alias = "IOMAP_DIO_NEED_SYNC")]
        NEED_SYNC = bit_u32(29),
        /// The request is a write.
        #[doc(alias = "IOMAP_DIO_WRITE")]
        WRITE = bit_u32(30),
        /// The request reads into user memory, whose pages are dirtied.
        #[doc(alias = "IOMAP_DIO_USER_BACKED")]
        USER_BACKED = bit_u32(31),
    }
}

crate::flag_word! {
    /// The flags that the file system's `iomap_begin` callback gets about the operation.
    ///
    /// `IOMAP_WRITE` is not among them: [`Iter::over`] takes the direction from [`MapOps`].
    ///
    /// [`Iter::over`]: super::iter::Iter::over
    /// [`MapOps`]: super::ops::MapOps
    pub struct BeginFlags(u32) {
        /// The mapping is for direct I/O, so the file system must not hand out delayed allocations.
        #[doc(alias = "IOMAP_DIRECT")]
        DIRECT = bindings::IOMAP_DIRECT,
        /// The file system must not block, and fails with `EAGAIN` instead.
        #[doc(alias = "IOMAP_NOWAIT")]
        NOWAIT = bindings::IOMAP_NOWAIT,
        /// Refuse anything but a pure overwrite, with `EAGAIN`.
        #[doc(alias = "IOMAP_OVERWRITE_ONLY")]
        OVERWRITE_ONLY = bindings::IOMAP_OVERWRITE_ONLY,
        /// The write must not be torn.
        #[doc(alias = "IOMAP_ATOMIC")]
        ATOMIC = bindings::IOMAP_ATOMIC,
    }
}

crate::flag_word! {
    /// The flags that a file system sets on a mapping (`iomap.flags`).
    ///
    /// They hold for that mapping only: the next one of the same request may have others. Some say
    /// what the write owes when it completes, and some how its bios are built.
    pub struct MapFlags(u32) {
        /// The blocks were newly allocated: what the data leaves of the first and of the last one
        /// is zeroed.
        #[doc(alias = "IOMAP_F_NEW")]
        NEW = bindings::IOMAP_F_NEW,
        /// Metadata must reach the media before the data counts as stable, so writing through is
        /// not enough.
        #[doc(alias = "IOMAP_F_DIRTY")]
        DIRTY = bindings::IOMAP_F_DIRTY,
        /// The blocks are shared with another file and are remapped at completion.
        #[doc(alias = "IOMAP_F_SHARED")]
        SHARED = bindings::IOMAP_F_SHARED,
        /// The write has to be one untorn bio.
        #[doc(alias = "IOMAP_F_ATOMIC_BIO")]
        ATOMIC_BIO = bindings::IOMAP_F_ATOMIC_BIO,
        /// The file system picks the disk address at submission.
        #[doc(alias = "IOMAP_F_ANON_WRITE")]
        ANON_WRITE = bindings::IOMAP_F_ANON_WRITE,
        /// Some of the unwritten blocks are written, so nothing around the data may be zeroed: each
        /// bio is of whole blocks.
        #[doc(alias = "IOMAP_F_MIXED")]
        MIXED = bindings::IOMAP_F_MIXED,
        /// The file system generates and checks integrity data itself.
        #[doc(alias = "IOMAP_F_INTEGRITY")]
        INTEGRITY = bindings::IOMAP_F_INTEGRITY,
    }
}
