// SPDX-License-Identifier: GPL-2.0

//! Words of flags, most of which C and Rust pass to each other.

/// Declares a transparent word of flags whose constants may be zero when a feature is off.
///
/// `impl_flags!` needs distinct non-zero values for an `enum`, and `IOMAP_F_INTEGRITY` is zero
/// without `CONFIG_BLK_DEV_INTEGRITY`.
#[macro_export]
macro_rules! flag_word {
    (
        $(#[$attr:meta])*
        $vis:vis struct $name:ident($ty:ty) {
            $( $(#[$flag_attr:meta])* $flag:ident = $value:expr, )*
        }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        $vis struct $name($ty);

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

            /// Whether no flag is set.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Whether any bit of `flags` is set. Always false for a flag whose feature is off.
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
    };
}
