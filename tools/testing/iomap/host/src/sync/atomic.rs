// SPDX-License-Identifier: GPL-2.0

//! The parts of `kernel::sync::atomic` that the tests need, implemented with `loom`.
//!
//! `loom` checks the memory model of Rust, not that of the kernel. Where the two differ, this
//! module uses the weaker ordering, so that every result also holds in the kernel: `Full` is
//! `SeqCst`, which `loom` treats as an acquire and a release of this atomic alone, and a failed
//! `cmpxchg` orders nothing.

use loom::sync::atomic::{
    AtomicI32,
    AtomicPtr, //
};
use std::sync::atomic::Ordering as Std;

/// The common trait of the kernel's marker types.
pub(crate) trait Ordering {
    const STD: Std;
}

macro_rules! orderings {
    ($($name:ident = $std:ident;)*) => {
        $(
            pub(crate) struct $name;

            impl Ordering for $name {
                const STD: Std = Std::$std;
            }
        )*
    };
}

orderings! {
    Relaxed = Relaxed;
    Acquire = Acquire;
    Release = Release;
    Full = SeqCst;
}

/// Types with an atomic in `loom`.
pub(crate) trait AtomicType: Copy {
    type Repr;

    fn new(value: Self) -> Self::Repr;
    fn free(repr: &mut Self::Repr);
}

/// `kernel::sync::atomic::Atomic`.
pub(crate) struct Atomic<T: AtomicType>(T::Repr);

impl<T: AtomicType> Atomic<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(T::new(value))
    }
}

macro_rules! atomic_type {
    ($type:ty, $repr:ty $(, $param:ident)?) => {
        impl$(<$param>)? AtomicType for $type {
            type Repr = $repr;

            fn new(value: Self) -> Self::Repr {
                <$repr>::new(value)
            }

            fn free(repr: &mut Self::Repr) {
                repr.with_mut(|_| ())
            }
        }

        #[allow(dead_code)]
        impl$(<$param>)? Atomic<$type> {
            pub(crate) fn load<O: Ordering>(&self, _: O) -> $type {
                self.0.load(O::STD)
            }

            pub(crate) fn store<O: Ordering>(&self, value: $type, _: O) {
                self.0.store(value, O::STD)
            }

            pub(crate) fn cmpxchg<O: Ordering>(
                &self,
                old: $type,
                new: $type,
                _: O,
            ) -> Result<$type, $type> {
                self.0.compare_exchange(old, new, O::STD, Std::Relaxed)
            }

            pub(crate) fn xchg<O: Ordering>(&self, new: $type, _: O) -> $type {
                self.0.swap(new, O::STD)
            }
        }
    };
}

atomic_type!(i32, AtomicI32);
atomic_type!(*mut T, AtomicPtr<T>, T);

impl Atomic<i32> {
    pub(crate) fn fetch_sub<O: Ordering>(&self, count: i32, _: O) -> i32 {
        self.0.fetch_sub(count, O::STD)
    }
}

impl<T: AtomicType> Drop for Atomic<T> {
    /// Dropping an atomic models freeing it: `loom` reports every access that is not ordered before
    /// the drop.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            T::free(&mut self.0);
        }
    }
}
