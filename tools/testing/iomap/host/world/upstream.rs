// SPDX-License-Identifier: GPL-2.0

//! The parts of the `kernel` crate that are not ours, as far as our files use them.

use crate::{bindings, types::ForeignOwnable};
use std::{marker::PhantomData, ptr::NonNull};

/// Whatever the kernel warns of is wrong.
#[macro_export]
macro_rules! warn_on {
    ($condition:expr) => {
        assert!(!$condition, "the kernel warns");
    };
}

#[macro_export]
macro_rules! do_once_lite {
    ($($body:tt)*) => { $($body)* };
}

#[macro_export]
macro_rules! static_lock_class {
    () => {
        ::core::ptr::NonNull::<()>::dangling()
    };
}

#[macro_export]
macro_rules! container_of {
    ($field:expr, $Container:ty, $name:ident) => {
        $field
            .byte_sub(::core::mem::offset_of!($Container, $name))
            .cast::<$Container>()
    };
}

/// Tracepoints that look at what they get.
#[macro_export]
macro_rules! declare_trace {
    ($($(#[$attr:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $ty:ty),* $(,)?);)*) => { $(
        $(#[$attr])*
        $vis unsafe fn $name($($arg: $ty),*) {
            $($crate::engine::look($arg);)*
        }
    )* };
}

pub(crate) mod tracepoint {
    pub(crate) use crate::declare_trace;
}

pub(crate) mod alloc {
    #[derive(Clone, Copy)]
    pub(crate) struct Flags(u32);

    impl Flags {
        pub(crate) fn as_raw(self) -> u32 {
            self.0
        }
    }

    pub(crate) mod flags {
        use crate::{alloc::Flags, bindings};

        pub(crate) const GFP_KERNEL: Flags = Flags(bindings::GFP_KERNEL);
        pub(crate) const GFP_NOWAIT: Flags = Flags(bindings::GFP_NOWAIT);
    }
}

pub(crate) mod page {
    pub(crate) const PAGE_SHIFT: usize = 12;
    pub(crate) const PAGE_SIZE: usize = 1 << PAGE_SHIFT;
}

pub(crate) mod bits {
    pub(crate) const fn bit_u32(n: u32) -> u32 {
        1 << n
    }
}

pub(crate) mod pin_init {
    pub(crate) fn zeroed<T>() -> T {
        // SAFETY: Only for C structures of numbers and pointers.
        unsafe { std::mem::zeroed() }
    }
}

pub(crate) mod error {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Error(i32);
    pub type Result<T = (), E = Error> = std::result::Result<T, E>;

    pub(crate) const EIO: Error = Error(-5);
    pub(crate) const EAGAIN: Error = Error(-11);
    pub(crate) const ENOMEM: Error = Error(-12);
    pub(crate) const EFAULT: Error = Error(-14);
    pub(crate) const ENOTBLK: Error = Error(-15);
    pub(crate) const EINVAL: Error = Error(-22);
    pub(crate) const EOVERFLOW: Error = Error(-75);

    impl Error {
        pub(crate) const fn from_errno(errno: i32) -> Self {
            Self(errno)
        }

        pub(crate) const fn to_errno(self) -> i32 {
            self.0
        }
    }

    pub(crate) fn to_result(ret: i32) -> Result {
        match ret {
            ..0 => Err(Error(ret)),
            _ => Ok(()),
        }
    }
}

pub(crate) mod prelude {
    pub(crate) use crate::{error::*, pin_init, upstream::CStrExt as _};
    pub(crate) use export::export;
    pub(crate) use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void, CStr};
}

pub(crate) trait CStrExt {
    fn as_char_ptr(&self) -> *const std::ffi::c_char;
}

impl CStrExt for std::ffi::CStr {
    fn as_char_ptr(&self) -> *const std::ffi::c_char {
        self.as_ptr()
    }
}

pub(crate) mod types {
    use std::{cell::UnsafeCell, marker::PhantomData, mem::MaybeUninit};

    pub type NotThreadSafe = PhantomData<*mut ()>;
    pub(crate) const NotThreadSafe: NotThreadSafe = PhantomData;

    pub trait ForeignOwnable {}
    impl ForeignOwnable for () {}

    #[repr(transparent)]
    pub(crate) struct Opaque<T>(UnsafeCell<MaybeUninit<T>>);

    impl<T> Opaque<T> {
        pub(crate) const fn uninit() -> Self {
            Self(UnsafeCell::new(MaybeUninit::uninit()))
        }

        pub(crate) const fn zeroed() -> Self {
            Self(UnsafeCell::new(MaybeUninit::zeroed()))
        }

        pub(crate) const fn get(&self) -> *mut T {
            self.0.get().cast()
        }

        pub(crate) const fn cast_from(this: *const T) -> *const Self {
            this.cast()
        }
    }
}

pub(crate) mod workqueue {
    use crate::{bindings, types::Opaque};

    pub unsafe trait RawWorkItem<const ID: u64> {
        type EnqueueOutput;
        unsafe fn __enqueue<F>(self, queue_work_on: F) -> Self::EnqueueOutput
        where
            F: FnOnce(*mut bindings::work_struct) -> bool;
    }

    #[repr(transparent)]
    pub struct Queue(Opaque<bindings::workqueue_struct>);

    // SAFETY: As in the kernel.
    unsafe impl Sync for Queue {}

    static SYSTEM: Queue = Queue(Opaque::zeroed());

    pub(crate) fn system() -> &'static Queue {
        &SYSTEM
    }

    impl Queue {
        pub(crate) unsafe fn from_raw<'a>(raw: *const bindings::workqueue_struct) -> &'a Self {
            &*raw.cast()
        }

        pub(crate) fn enqueue<W: RawWorkItem<ID>, const ID: u64>(
            &self,
            work: W,
        ) -> W::EnqueueOutput {
            // SAFETY: The queue is there, and so is the work item until it is executed.
            unsafe { work.__enqueue(|work| bindings::queue_work(self.0.get(), work)) }
        }
    }
}

pub(crate) mod sync {
    pub(crate) use crate::engine as rcu;

    /// Threads may be switched before each operation, and after those that others can see.
    pub(crate) mod atomic {
        use crate::engine::{point, step, word};
        use std::cell::UnsafeCell;

        pub(crate) struct Relaxed;
        pub(crate) struct Acquire;
        pub(crate) struct Release;
        pub(crate) struct Full;

        #[repr(transparent)]
        pub(crate) struct Atomic<T>(UnsafeCell<T>);

        // SAFETY: All threads of a schedule are one thread of the host.
        unsafe impl<T> Sync for Atomic<T> {}
        // SAFETY: As above.
        unsafe impl<T> Send for Atomic<T> {}

        impl<T: Copy + PartialEq> Atomic<T> {
            pub(crate) const fn new(value: T) -> Self {
                Self(UnsafeCell::new(value))
            }

            pub(crate) unsafe fn from_ptr<'a>(raw: *mut T) -> &'a Self {
                &*raw.cast()
            }

            pub(crate) fn load<O>(&self, _: O) -> T {
                point();
                // SAFETY: No other thread of the host uses it.
                let value = unsafe { self.0.get().read_volatile() };
                step("load", self.0.get(), word(value));
                value
            }

            /// Replaces the value by what `f` makes of it. It may be gone when this returns.
            fn update(&self, what: &'static str, f: impl FnOnce(T) -> T) -> T {
                point();
                // SAFETY: As above.
                let old = unsafe { self.0.get().read_volatile() };
                let new = f(old);
                // SAFETY: As above.
                unsafe { self.0.get().write_volatile(new) };
                step(what, self.0.get(), word(new));
                point();
                old
            }

            pub(crate) fn store<O>(&self, value: T, _: O) {
                self.update("store", |_| value);
            }

            pub(crate) fn xchg<O>(&self, new: T, _: O) -> T {
                self.update("xchg", |_| new)
            }

            pub(crate) fn cmpxchg<O>(&self, old: T, new: T, _: O) -> Result<T, T> {
                let was = self.update("cmpxchg", |now| if now == old { new } else { now });
                (was == old).then_some(was).ok_or(was)
            }
        }

        impl Atomic<i32> {
            pub(crate) fn fetch_sub<O>(&self, count: i32, _: O) -> i32 {
                self.update("fetch_sub", |now| now.wrapping_sub(count))
            }
        }
    }

    pub(crate) mod barrier {
        pub(crate) use super::atomic::Full;

        /// The threads of the host take turns, and see what others have written. That it is there
        /// is looked at where it is wanted.
        pub(crate) fn smp_mb(_: Full) {
            crate::engine::has_copied(false);
        }
    }
}

pub struct Kiocb<'a, T> {
    // Not private: a module below it in the kernel is elsewhere here.
    pub(crate) inner: NonNull<bindings::kiocb>,
    pub(crate) _data: PhantomData<&'a T>,
}

impl<T: ForeignOwnable> Kiocb<'_, T> {
    pub(crate) unsafe fn from_raw(kiocb: *mut bindings::kiocb) -> Self {
        Self {
            inner: NonNull::new_unchecked(kiocb),
            _data: PhantomData,
        }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::kiocb {
        self.inner.as_ptr()
    }

    pub(crate) fn ki_pos(&self) -> i64 {
        // SAFETY: As in the kernel.
        unsafe { (*self.as_raw()).ki_pos }
    }

    pub(crate) fn ki_pos_mut(&mut self) -> &mut i64 {
        // SAFETY: As in the kernel.
        unsafe { &mut (*self.as_raw()).ki_pos }
    }
}

pub struct Task;

impl Task {
    pub(crate) fn current_raw() -> *mut bindings::task_struct {
        crate::engine::current()
    }
}
