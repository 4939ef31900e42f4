// SPDX-License-Identifier: GPL-2.0

//! The flag words of direct I/O, one type each.
//!
//! The bits of [`CallerFlags`] and of [`EndIoFlags`] overlap with different meanings:
//! `IOMAP_DIO_FORCE_WAIT` and `IOMAP_DIO_UNWRITTEN` are both bit 0. Two types make a mix-up an
//! error of the compiler.
//!
//! C headers: [`include/linux/iomap.h`](srctree/include/linux/iomap.h),
//! [`include/linux/fs.h`](srctree/include/linux/fs.h).

use crate::{
    bindings,
    bits::bit_u32, //
};

/// Declares a transparent word of flags whose constants may be zero when a feature is off.
///
/// `impl_flags!` needs distinct non-zero values for an `enum`, which `IOMAP_F_INTEGRITY` (zero
/// without `CONFIG_BLK_DEV_INTEGRITY`) is not.
macro_rules! flag_word {
    (
        $(#[$attr:meta])*
        pub struct $name:ident($ty:ty) {
            $( $(#[$flag_attr:meta])* $flag:ident = $value:expr, )*
        }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name($ty);

        impl $name {
            $( $(#[$flag_attr])* pub const $flag: Self = Self($value as $ty); )*

            /// Returns the word with no flag set.
            #[inline]
            pub const fn empty() -> Self {
                Self(0)
            }

            /// Returns the word as C knows it.
            #[inline]
            pub const fn into_raw(self) -> $ty {
                self.0
            }

            /// Whether any bit of `flags` is set.
            #[inline]
            pub const fn has(self, flags: Self) -> bool {
                self.0 & flags.0 != 0
            }

            /// Returns the word with the bits of `flags` set if `on`, unchanged otherwise.
            #[inline]
            #[must_use]
            pub const fn with_if(self, on: bool, flags: Self) -> Self {
                if on { Self(self.0 | flags.0) } else { self }
            }

            /// Returns the word without the bits of `flags`.
            #[inline]
            #[must_use]
            pub const fn without(self, flags: Self) -> Self {
                Self(self.0 & !flags.0)
            }
        }

        impl ::core::ops::BitOr for $name {
            type Output = Self;
            #[inline]
            fn bitor(self, rhs: Self) -> Self {
                Self(self.0 | rhs.0)
            }
        }

        impl ::core::ops::BitOrAssign for $name {
            #[inline]
            fn bitor_assign(&mut self, rhs: Self) {
                self.0 |= rhs.0;
            }
        }
    };
}

pub(crate) use flag_word;

/// Takes words of flags from C.
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
    pub MapFlags(u16);
    pub(super) IocbFlags(i32);
}

flag_word! {
    /// What the caller of `iomap_dio_rw()` asks for (`dio_flags`).
    pub struct CallerFlags(u32) {
        /// Wait for the request even if the kiocb is asynchronous.
        FORCE_WAIT = bindings::IOMAP_DIO_FORCE_WAIT,
        /// Refuse, with `EAGAIN`, what is not a pure overwrite.
        OVERWRITE_ONLY = bindings::IOMAP_DIO_OVERWRITE_ONLY,
        /// A page fault gives a short result instead of `EFAULT`.
        PARTIAL = bindings::IOMAP_DIO_PARTIAL,
        /// Each bio is aligned to the file system's blocks.
        FSBLOCK_ALIGNED = bindings::IOMAP_DIO_FSBLOCK_ALIGNED,
        /// Copy through bounce buffers: the device needs stable data.
        BOUNCE = bindings::IOMAP_DIO_BOUNCE,
    }
}

flag_word! {
    /// What the file system's `end_io` callback is told about the request.
    ///
    /// The upper bits are private to the direct I/O path, but `end_io` sees the whole word, so
    /// they keep the positions that they have in the C implementation.
    pub struct EndIoFlags(u32) {
        /// The request covers unwritten extents, which the callback has to convert.
        UNWRITTEN = bindings::IOMAP_DIO_UNWRITTEN,
        /// The request covers copy-on-write extents, which the callback has to remap.
        COW = bindings::IOMAP_DIO_COW,
        /// As [`CallerFlags::FSBLOCK_ALIGNED`].
        FSBLOCK_ALIGNED = bindings::IOMAP_DIO_FSBLOCK_ALIGNED,
        /// As [`CallerFlags::BOUNCE`].
        BOUNCE = bindings::IOMAP_DIO_BOUNCE,
        /// The page cache is not invalidated after the write.
        NO_INVALIDATE = bit_u32(26),
        /// The completion needs process context.
        COMP_WORK = bit_u32(27),
        /// Every bio so far was written through to the media.
        WRITE_THROUGH = bit_u32(28),
        /// The written range is flushed at completion.
        NEED_SYNC = bit_u32(29),
        /// The request is a write.
        WRITE = bit_u32(30),
        /// The pages belong to user space and are dirtied by a read.
        USER_BACKED = bit_u32(31),
    }
}

flag_word! {
    /// What the file system is told about the operation it maps for (`iomap_begin` flags).
    pub struct BeginFlags(u32) {
        /// The mapping is for direct I/O.
        DIRECT = bindings::IOMAP_DIRECT,
        /// The file system must not block.
        NOWAIT = bindings::IOMAP_NOWAIT,
        /// Only pure overwrites are wanted.
        OVERWRITE_ONLY = bindings::IOMAP_OVERWRITE_ONLY,
        /// The write must not be torn.
        ATOMIC = bindings::IOMAP_ATOMIC,
    }
}

flag_word! {
    /// What the file system says about a mapping (`iomap.flags`).
    pub struct MapFlags(u16) {
        /// Blocks were newly allocated and need zeroing around the data.
        NEW = bindings::IOMAP_F_NEW,
        /// Metadata must reach the disk before the data is stable.
        DIRTY = bindings::IOMAP_F_DIRTY,
        /// Blocks are shared and are remapped at completion.
        SHARED = bindings::IOMAP_F_SHARED,
        /// The write has to be one untorn bio.
        ATOMIC_BIO = bindings::IOMAP_F_ATOMIC_BIO,
        /// The file system picks the disk address at submission.
        ANON_WRITE = bindings::IOMAP_F_ANON_WRITE,
        /// Integrity data is generated and checked by the file system.
        INTEGRITY = bindings::IOMAP_F_INTEGRITY,
    }
}

flag_word! {
    /// Flags of a kiocb (`ki_flags`).
    pub struct IocbFlags(i32) {
        /// The caller will poll for the completion.
        HIPRI = bindings::IOCB_HIPRI,
        /// Data has to be stable when the write completes.
        DSYNC = bindings::IOCB_DSYNC,
        /// Data and all metadata have to be stable when the write completes.
        SYNC = bindings::IOCB_SYNC,
        /// Do not block.
        NOWAIT = bindings::IOCB_NOWAIT,
        /// The write must not be torn.
        ATOMIC = bindings::IOCB_ATOMIC,
    }
}
