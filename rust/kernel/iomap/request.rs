// SPDX-License-Identifier: GPL-2.0

//! Requests: their memory, and who owns it.
//!
//! A request lives in front of its only bio, or in memory of its own if it may have several
//! ([`super::bio_set`] makes the first, this module the second). Both hold a kiocb and a
//! description of the request. Once all bios have ended the request is a [`Unique`], wherever its
//! memory is; of a simple read that went well only the kiocb and the size are left.
//!
//! # Requests of several bios
//!
//! Such a request is counted: the submission has references to it and passes one to each bio in
//! flight. The context that drops the last one owns the request and completes it, unless a task
//! waits for it. The type of a handle determines what may be done with the request:
//!
//! ```text
//!  kiocb ------new()---> Submitter --seal()--+--> Ok(Unique)       all bios ended, or none made
//!                            |               +--> Err(Answer)      the last bio owns it
//!                            |
//!                            +----wait()----------> Unique         once all bios have ended
//!                            |
//!                            +----submission of a bio
//!                                    |
//!                                    v
//!                                 BioRef --finish()--+--> Some(Unique)    it was the last
//!                                                    +--> None            others are in flight,
//!                                                                         or the submitter has it
//! ```
//!
//! The submission alone can make references for bios, and look at the kiocb and the description
//! until it seals the request, but for `private`, which the end of a polled bio clears. So the
//! kiocb cannot be completed while a bio is in flight.
//!
//! No handle can be dropped and forgotten: the compiler says that it must be used, and the kernel
//! warns if it is dropped all the same. A [`BioRef`] needs no such warning: only the end of its bio
//! can take it back from there. The memory ordering of all this is in `handover.rs`.
//!
//! # Who owns it when
//!
//! The submission ends in one of three ways, as the comment in `__iomap_dio_rw()` has them, or the
//! request is given away with its bio. Whoever has a [`Unique`] owns the request, and completes it:
//!
//! ```text
//!                  submitter             last bio, when it ends            worker
//!
//!  at first        owns it, and lends
//!                  it to its bios
//!
//!  (a) bios ended  seal(), leave()       has nothing
//!                  Ok(Unique)
//!
//!  (b) in flight   seal(), leave()       Unique, in done()
//!                  Err(Answer)             punt(), if it has to sleep ---> complete_work()
//!
//!  (c) waited for  wait()                hands it back
//!                  Unique <----------------
//!
//!  given away      submit()              the kiocb, in done_simple_read()
//!                  Err(Answer)             punt_alone(), after an error -> complete_work()
//! ```
//!
//! The last bio may end in a hard interrupt. Whatever has to sleep is punted ([`Unique::punt`]). A
//! request that its submission gets back is in process context already. It is never punted: a
//! worker would complete it while the submission still uses the memory of the caller.
//!
//! C header: [`include/linux/iomap.h`](srctree/include/linux/iomap.h).

use super::{
    handover::{
        hand_back_to,
        sleep_until,
        AtEnd,
        Handshake,
        Protocol,
        Sleeper,
        TaskState,
        Waiter, //
    },
    kiocb::{
        Answer,
        Armed,
        BusyIocb, //
    },
    ops::DioOps, //
};
use crate::{
    alloc::flags::GFP_KERNEL,
    bindings,
    block::bio,
    error::to_result,
    iov::{
        IovIter,
        Mark, //
    },
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed,
            Release, //
        },
        rcu, //
    },
    task::MaySleep,
    types::Opaque, //
};
use core::{
    cell::{
        Cell,
        UnsafeCell, //
    },
    ffi::c_void,
    marker::PhantomData,
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
    ops::Deref,
    ptr::{
        self,
        NonNull, //
    },
};

/// Memory for requests of one kind (`struct kmem_cache`).
///
/// # Invariants
///
/// The pointer is NULL, or a cache of such memory. It is never destroyed. `T` is as [`Cache::new`]
/// requires.
pub struct Cache<T> {
    // ORDERING: The cache is reached through it alone, so a release to publish it is enough.
    raw: Atomic<*mut bindings::kmem_cache>,
    _kind: PhantomData<fn() -> T>,
}

impl<T> Cache<T> {
    /// A cache that has no memory yet: allocation fails with `ENOMEM` until [`Cache::init`] was
    /// called.
    ///
    /// # Safety
    ///
    /// Such requests must be the ones that the kernel's exported end functions complete
    /// (`iomap_dio_bio_end_io()`, `iomap_finish_ioend_direct()`): these call [`end_io`] and
    /// [`ioend_end_io`] with `T`. A file system that takes part may replace `bi_end_io` of a bio
    /// and call them later, and the lists of a super block have no other requests. Of another kind
    /// no bio may be submitted, and none be punted if its super block has lists
    /// (`s_dio_done_lists`).
    ///
    /// [`end_io`]: super::bio::end_io
    /// [`ioend_end_io`]: super::bio::ioend_end_io
    pub const unsafe fn new() -> Self {
        // INVARIANT: NULL, and required of the caller.
        Self {
            raw: Atomic::new(ptr::null_mut()),
            _kind: PhantomData,
        }
    }

    /// Makes the cache, which `/proc/slabinfo` shows as `name` (`kmem_cache_create()`). Fails with
    /// `ENOMEM`.
    ///
    /// To be called once, from an initcall: it is never destroyed.
    pub fn init(&'static self, name: &'static CStr, _ctx: MaySleep) -> Result {
        const { assert!(size_of::<Counted<T>>() <= PAGE_SIZE) };
        // A request that is looked at from two processors is better not split over three lines.
        let flags = 1 << bindings::_slab_flag_bits__SLAB_HWCACHE_ALIGN;
        let cache = create_cache(
            name,
            size_of::<Counted<T>>(),
            align_of::<Counted<T>>(),
            flags,
        )?;
        // INVARIANT: Just made.
        self.raw.store(cache.as_ptr(), Release);
        Ok(())
    }
}

/// Creates a cache of objects of `size` bytes, aligned to `align` bytes (`kmem_cache_create()`).
/// Fails with `ENOMEM`.
pub(super) fn create_cache(
    name: &'static CStr,
    size: usize,
    align: usize,
    flags: u32,
) -> Result<NonNull<bindings::kmem_cache>> {
    // CAST: A page at most, and some pages.
    let (align, size) = (align as u32, size as u32);
    let mut args = bindings::kmem_cache_args {
        align,
        ..pin_init::zeroed()
    };
    // SAFETY: The name is static and the arguments are valid.
    let cache =
        unsafe { bindings::__kmem_cache_create_args(name.as_char_ptr(), size, &mut args, flags) };
    NonNull::new(cache).ok_or(ENOMEM)
}

/// The first word of a request in a kernel that has the C implementation as well.
///
/// The first word of a C request is a pointer, which never has this value. So the entry points that
/// get a request or one of its bios can tell which implementation it belongs to, however the switch
/// stands by then.
#[cfg(CONFIG_IOMAP_DIO_COMPARE)]
const MARK: usize = bindings::IOMAP_DIO_RUST_MARK as usize;

/// What the memory of a request begins with, in either home. C sees it as an opaque
/// `struct iomap_dio`.
#[repr(C)]
pub(super) struct Head<T> {
    /// In a front pad: written when C gets the request.
    #[cfg(CONFIG_IOMAP_DIO_COMPARE)]
    mark: MaybeUninit<usize>,
    /// The next one for the same worker. Initialised when the request is punted, which few are.
    pub(super) next: MaybeUninit<*mut Self>,
    /// The work item. Initialised when that is queued.
    pub(super) work: Opaque<bindings::work_struct>,
    /// Where this is. Written when nothing but a pointer at the request is kept, and where a
    /// bounced bio ends.
    pub(super) home: MaybeUninit<Home>,
    /// The caller's pages have to be marked as dirty.
    pub(super) should_dirty: bool,
    /// What submission leaves to the completion.
    pub(super) left: Left<T>,
}

/// What submission leaves to the completion.
pub(super) struct Left<T> {
    /// The kiocb.
    pub(super) iocb: BusyIocb<DioOps>,
    /// The description.
    pub(super) dio: T,
}

/// Where the memory of a request is.
#[derive(Clone, Copy)]
pub(super) enum Home {
    /// In front of its only bio, whose pages were given back.
    FrontPad,
    /// In front of its only bio, which keeps its pages as long as the request.
    FrontPadWithPages,
    /// In front of its only bio, which keeps its bounce buffer as long as the request.
    FrontPadBounced,
    /// By itself: the request is counted.
    Own,
}

/// The end of the front pad of a bio.
///
/// ```text
///       | next | work | home | should_dirty | kiocb | description | handshake | bio ...
///  ^                                                                          ^
///  FRONT_PAD bytes before the bio                                             begins a cache line
/// ```
///
/// The fields that every request uses come last, so that they share no cache line with the others.
#[repr(C)]
pub(super) struct FrontPad<T> {
    pub(super) head: Head<T>,
    pub(super) handshake: Handshake,
}

impl<T> FrontPad<T> {
    /// The end of the front pad of `bio`, which must be from a bio set for such requests.
    #[inline(always)]
    pub(super) fn of(bio: *mut bindings::bio) -> *mut Self {
        bio.wrapping_byte_sub(size_of::<Self>()).cast()
    }
}

/// The memory of a counted request.
#[repr(C)]
pub(super) struct Counted<T> {
    /// The submission writes to it, then the owner of the request.
    pub(super) head: UnsafeCell<Head<T>>,
    /// References, the first error and the task that waits.
    protocol: Protocol,
    /// The bios have bounce buffers.
    pub(super) bounced: bool,
    /// Whether a worker for ioends ended the last bio. Written by the holder of the last reference.
    // ORDERING: None needed: handing the request over publishes it.
    at_ioend: Atomic<bool>,
    /// Whether one of the bios raises no interrupt, so that a waiting submission polls for it.
    // ORDERING: None needed: handing the bio over publishes it.
    pub(super) polled: Atomic<bool>,
    /// The number of references that were given to bios. For the submission alone.
    pub(super) bio_refs: Cell<i32>,
}

/// A pointer at a counted request.
///
/// # Invariants
///
/// The request is there as long as this is used, and initialised.
pub(super) struct Shared<T>(*mut Counted<T>);

impl<T> Deref for Shared<T> {
    type Target = Counted<T>;

    #[inline(always)]
    fn deref(&self) -> &Counted<T> {
        // SAFETY: Valid by the invariants.
        unsafe { &*self.0 }
    }
}

impl<T> Shared<T> {
    /// Whether the caller's pages have to be marked as dirty.
    #[inline(always)]
    pub(super) fn should_dirty(&self) -> bool {
        // SAFETY: By the invariants it is initialised, and nobody writes to it afterwards.
        unsafe { (*self.head.get()).should_dirty }
    }
}

/// The memory of a request, which has no bio yet.
///
/// # Invariants
///
/// `protocol` and what comes after `bounced` are initialised, and the submission has all
/// references.
pub struct Prepared<T>(*mut Counted<T>);

impl<T> Drop for Prepared<T> {
    fn drop(&mut self) {
        // SAFETY: By the invariants nobody else refers to the memory. `kfree()` finds the cache by
        // itself.
        unsafe { bindings::kfree(self.0.cast()) };
    }
}

impl<T> Prepared<T> {
    /// Allocates a request. Fails with `ENOMEM`.
    #[inline]
    pub fn new(cache: &'static Cache<T>, _ctx: MaySleep) -> Result<Self> {
        let cache = NonNull::new(cache.raw.load(Relaxed)).ok_or(ENOMEM)?;
        // SAFETY: By the invariants it is a cache. What comes from it is ours.
        let raw = unsafe {
            let memory = bindings::kmem_cache_alloc(cache.as_ptr(), GFP_KERNEL.as_raw());
            let memory: NonNull<Counted<T>> = NonNull::new(memory.cast()).ok_or(ENOMEM)?;
            let raw = memory.as_ptr();
            #[cfg(CONFIG_IOMAP_DIO_COMPARE)]
            raw.cast::<usize>().write(MARK);
            (&raw mut (*raw).protocol).write(Protocol::new());
            (&raw mut (*raw).at_ioend).write(Atomic::new(false));
            (&raw mut (*raw).polled).write(Atomic::new(false));
            (&raw mut (*raw).bio_refs).write(Cell::new(0));
            raw
        };
        // INVARIANT: Just initialised.
        Ok(Self(raw))
    }
}

/// The submission of a request. It belongs to one thread.
///
/// Dropping it instead of sealing it leaks the request, as its bios may be in flight, and warns.
///
/// # Invariants
///
/// Owns all references that no bio has, and `bio_refs` is the number of those that were given to
/// bios. The request is not sealed, so nobody else looks at `bio_refs` or at the description in
/// `left`.
#[must_use = "a request must be sealed"]
pub struct Submitter<'d, T> {
    /// What is transferred to or from.
    pub(super) memory: IovIter<'d>,
    /// The request.
    pub(super) shared: Shared<T>,
    armed: Armed,
}

impl<'d, T> Submitter<'d, T> {
    /// Begins the submission of the request of `iocb` to or from `memory`, through bounce buffers
    /// if `bounced`.
    #[inline]
    pub fn new(
        prepared: Prepared<T>,
        iocb: BusyIocb<DioOps>,
        dio: T,
        memory: IovIter<'d>,
        bounced: bool,
    ) -> Self {
        let raw = ManuallyDrop::new(prepared).0;
        // SAFETY: The memory is ours, and begins with the head.
        unsafe {
            let head = raw.cast::<Head<T>>();
            (&raw mut (*head).should_dirty).write(memory.should_dirty());
            (&raw mut (*head).left).write(Left { iocb, dio });
            (&raw mut (*raw).bounced).write(bounced);
        }
        // INVARIANT: No bio has a reference, and all is initialised.
        Self {
            memory,
            shared: Shared(raw),
            armed: Armed::new(),
        }
    }

    /// The memory of the request, as far as it was not transferred.
    #[inline]
    pub fn memory(&self) -> &IovIter<'d> {
        &self.memory
    }

    /// Transfers to or from the memory without a bio.
    #[inline]
    pub fn copy<R>(&mut self, section: impl FnOnce(&mut IovIter<'_>) -> R) -> R {
        self.memory.cut(u64::MAX, section)
    }

    /// Moves the position in the memory back ([`IovIter::rewind`]).
    #[inline]
    pub fn rewind(&mut self, mark: Mark<'d>, used: usize) {
        self.memory.rewind(mark, used);
    }

    /// What the completion will find.
    #[inline]
    fn left(&self) -> &Left<T> {
        // SAFETY: By the invariants it is initialised, and nobody else changes it.
        unsafe { &(*self.shared.head.get()).left }
    }

    /// The kiocb of the request.
    #[inline]
    pub fn iocb(&self) -> &BusyIocb<DioOps> {
        &self.left().iocb
    }

    /// The description of the request.
    #[inline]
    pub fn dio(&self) -> &T {
        &self.left().dio
    }

    /// As [`Submitter::dio`], to be changed.
    #[inline]
    pub fn dio_mut(&mut self) -> &mut T {
        // SAFETY: As above.
        unsafe { &mut (*self.shared.head.get()).left.dio }
    }

    /// Makes the reference of a bio that is about to be submitted. Fails with `EOVERFLOW` if there
    /// is none left: bios that have ended count as well.
    #[inline]
    pub(super) fn bio_ref(&self) -> Result<BioRef<T>> {
        let given = &self.shared.bio_refs;
        given.set(given.get().wrapping_add(1));
        if given.get() < 0 {
            given.set(i32::MAX);
            return Err(EOVERFLOW);
        }
        // INVARIANT: One of ours.
        Ok(BioRef {
            shared: Shared(self.shared.0),
        })
    }

    /// Whether a bio has failed already, so that more of them are no use.
    ///
    /// A hint: bios in flight may still fail.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.shared.protocol.has_failed()
    }

    /// Records an error of the submission. The first error of a request wins.
    #[inline]
    pub fn record_error(&self, error: Error) {
        self.shared.protocol.record_error(error.to_errno());
    }

    /// Ends submission: the last bio to end completes the request, unless all have ended by now.
    ///
    /// Returns the request if the caller has to complete it. Otherwise the request, and its kiocb,
    /// may be gone by the time this returns. Waits for the bios if the kiocb is synchronous: nobody
    /// could complete that.
    #[inline]
    pub fn seal(self, ctx: MaySleep) -> Result<Unique<T>, Answer> {
        if self.iocb().is_sync() {
            return Ok(self.wait(ctx));
        }
        match self.hand_over(None::<fn() -> *mut c_void>) {
            // INVARIANT: Only our references were left, and the request was sealed.
            (shared, true) => Ok(Unique::counted(shared)),
            (_, false) => Err(Answer::queued()),
        }
    }

    /// Ends submission, and waits until all bios have ended: uninterruptibly, and accounted as I/O
    /// wait.
    ///
    /// A polled bio ends only if somebody polls for it. The caller of the request cannot while this
    /// task waits, so this does.
    // Not inline, for the requests that nobody waits for.
    #[doc(alias = "blk_io_schedule")]
    #[inline(never)]
    pub fn wait(self, ctx: MaySleep) -> Unique<T> {
        let task = || crate::task::Task::current_raw().cast::<c_void>();
        let (shared, is_ours) = self.hand_over(Some(task));
        if !is_ours {
            let is_done = || shared.protocol.is_handed_back();
            if shared.polled.load(Relaxed) {
                // SAFETY: The last bio leaves the request to us, so its kiocb is valid.
                poll_until(unsafe { &(*shared.head.get()).left.iocb }, is_done, ctx);
            } else {
                sleep_until(ctx, is_done);
            }
        }
        // INVARIANT: The last reference is gone, and its owner has left the request to us.
        Unique::counted(shared)
    }

    /// Seals the request and drops the references of the submission. Returns whether it owns the
    /// request then.
    #[inline(always)]
    fn hand_over(self, waiter: Option<impl FnOnce() -> *mut c_void>) -> (Shared<T>, bool) {
        let shared = self.shared;
        self.armed.defuse();
        // The protocol does not look at the request after it has dropped them.
        let is_ours = shared.protocol.seal(shared.bio_refs.get(), waiter);
        (shared, is_ours)
    }
}

/// Polls for the bio of a request until `is_done`.
#[doc(alias = "iocb_bio_iopoll")]
#[cold]
pub(super) fn poll_until(iocb: &BusyIocb<DioOps>, is_done: impl Fn() -> bool, _ctx: MaySleep) {
    while !is_done() {
        // SAFETY: The kiocb is valid. What it says of a bio is checked under RCU. The context may
        // sleep, and the state is set back when the time is over.
        unsafe {
            bindings::iocb_bio_iopoll(iocb.as_raw(), ptr::null_mut(), bindings::BLK_POLL_ONESHOT);
            if is_done() {
                return;
            }
            // Not at once again: other bios may need this processor to end.
            bindings::set_current_state(bindings::TASK_UNINTERRUPTIBLE);
            bindings::io_schedule_timeout(1);
        }
    }
}

/// The value in C.
#[inline(always)]
fn raw(state: TaskState) -> c_uint {
    match state {
        TaskState::Running => bindings::TASK_RUNNING,
        TaskState::Uninterruptible => bindings::TASK_UNINTERRUPTIBLE,
    }
}

/// The current task sleeps uninterruptibly, and accounted as I/O wait.
impl Sleeper for MaySleep {
    #[inline(always)]
    fn set_state(&self, state: TaskState) {
        // SAFETY: `sleep_until` sets the state back.
        unsafe { bindings::set_current_state(raw(state)) };
    }

    #[inline(always)]
    fn set_state_relaxed(&self, state: TaskState) {
        // SAFETY: As above.
        unsafe { bindings::__set_current_state(raw(state)) };
    }

    #[inline(always)]
    fn schedule(&self) {
        // SAFETY: The context may sleep.
        unsafe { bindings::blk_io_schedule() };
    }
}

/// A task that waits for a request.
///
/// # Invariants
///
/// The task waits until it is handed the request.
struct Waiting(*mut bindings::task_struct);

impl Waiter for Waiting {
    /// A task that exits is freed after a grace period.
    type Alive = rcu::Guard;

    #[inline(always)]
    fn keep(&self) -> rcu::Guard {
        rcu::read_lock()
    }

    #[inline(always)]
    fn wake(&self, alive: rcu::Guard) {
        // SAFETY: By the invariants the task was there when the read-side section began, which was
        // before the hand-back. If it has exited since, being woken is harmless.
        unsafe { bindings::blk_wake_io_task(self.0) };
        drop(alive);
    }
}

/// Hands a request back to the task that waits for it, and wakes the task (`blk_wake_io_task()`).
///
/// # Safety
///
/// `task` must wait for the request until it is handed back.
#[cold]
pub(super) unsafe fn wake(task: *mut c_void, hand_back: impl FnOnce()) {
    // INVARIANT: Required of the caller.
    hand_back_to(Waiting(task.cast()), hand_back);
}

/// The reference of one bio in flight, which travels in `bi_private`.
///
/// # Invariants
///
/// Owns a reference.
#[must_use = "a request is never completed while one of its bios is in flight"]
pub(super) struct BioRef<T> {
    pub(super) shared: Shared<T>,
}

// SAFETY: The reference count is atomic, and what a `BioRef` shows of the request is `Sync`.
// Whoever drops the last one gets the request: `T` is `Send`, and nothing that is done with a kiocb
// depends on the thread, as C completes it wherever the last bio ends.
unsafe impl<T: Send> Send for BioRef<T> {}

impl<T> BioRef<T> {
    /// Turns the reference into a pointer for `bi_private`.
    #[inline]
    pub(super) fn into_raw(self) -> *mut c_void {
        self.shared.0.cast()
    }

    /// Takes the reference back from `bi_private`.
    ///
    /// # Safety
    ///
    /// `raw` must come from [`BioRef::into_raw`] of the same type, and must not be used again.
    #[inline]
    pub(super) unsafe fn from_raw(raw: *mut c_void) -> Self {
        // INVARIANT: The reference that `into_raw` gave up, which keeps the request.
        Self {
            shared: Shared(raw.cast()),
        }
    }

    /// Records that the bio has failed. The first error of a request wins.
    #[inline]
    pub(super) fn record_error(&self, error: Error) {
        self.shared.protocol.record_error(error.to_errno());
    }

    /// Whether any bio has failed so far, this one included.
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.shared.protocol.has_failed()
    }

    /// Drops the reference. Returns the request if it was the last and no task waits for the
    /// request.
    ///
    /// A task that waits is woken, and owns the request from then on. `at_ioend` says that a worker
    /// for ioends does so; that of the last bio counts.
    #[inline]
    pub(super) fn finish(self, at_ioend: bool) -> Option<Unique<T>> {
        let shared = self.shared;
        // Our reference keeps the request until it is dropped here. If it was not the last, the
        // protocol does not look at the request any more.
        let ended = shared.protocol.finish(|| {
            if at_ioend {
                shared.at_ioend.store(true, Relaxed);
            }
        });
        match ended {
            AtEnd::Nothing => None,
            // INVARIANT: It was the last reference. The submission has dropped its own, so the
            // request was sealed.
            AtEnd::Request => Some(Unique::counted(shared)),
            AtEnd::Awaited(task) => {
                // SAFETY: The request is there until we hand it back, and the task until then.
                unsafe { wake(task, move || shared.protocol.hand_back()) };
                None
            }
        }
    }
}

/// A request whose bios have all ended, and which belongs to this value.
///
/// Dropping it warns, because the request is never completed.
///
/// # Invariants
///
/// `head` is the memory of a request with this `home`, and initialised. Nobody else refers to it;
/// the kiocb does not, whose poller would find a freed bio.
#[must_use = "a dropped request is never completed"]
pub struct Unique<T> {
    head: *mut Head<T>,
    /// Here as well, so that the compiler knows it.
    home: Home,
    armed: Armed,
}

impl<T> Unique<T> {
    /// The request, if all references are gone. The caller guarantees the invariants.
    #[inline(always)]
    fn counted(shared: Shared<T>) -> Self {
        Self {
            head: shared.0.cast(),
            home: Home::Own,
            armed: Armed::new(),
        }
    }

    /// The request in front of its only bio, which nobody polls for any more.
    ///
    /// # Safety
    ///
    /// The bio must have ended, be from a bio set for such requests and belong to the caller.
    /// `home` is not `Own`, and says whether it has its pages. `should_dirty` and `left` are
    /// initialised.
    #[inline(always)]
    pub(super) unsafe fn in_front_of(bio: *mut bindings::bio, home: Home) -> Self {
        // INVARIANT: Required of the caller. The kiocb lets go of the bio below.
        let request = Self {
            head: FrontPad::<T>::of(bio).cast(),
            home,
            armed: Armed::new(),
        };
        request.iocb().clear_polled_bio();
        request
    }

    /// The first error of the request, if there was one (`bi_status`, if it has a single bio).
    #[inline(always)]
    pub fn result(&self) -> Result {
        match self.home {
            // SAFETY: By the invariants there is a bio behind it, which has ended.
            Home::FrontPad | Home::FrontPadWithPages | Home::FrontPadBounced => unsafe {
                bio::result(bio_behind(self.head))
            },
            Home::Own => to_result(self.shared().protocol.error()),
        }
    }

    /// The memory of a request of its own.
    #[inline(always)]
    fn shared(&self) -> Shared<T> {
        Shared(self.head.cast())
    }

    #[inline(always)]
    fn head(&self) -> &Head<T> {
        // SAFETY: By the invariants the request is initialised and ours alone.
        unsafe { &*self.head }
    }

    #[inline(always)]
    pub(super) fn head_mut(&mut self) -> &mut Head<T> {
        // SAFETY: As above.
        unsafe { &mut *self.head }
    }

    /// The kiocb.
    #[inline]
    pub fn iocb(&self) -> &BusyIocb<DioOps> {
        &self.head().left.iocb
    }

    /// The description.
    #[inline]
    pub fn dio(&self) -> &T {
        &self.head().left.dio
    }

    /// Whether the caller's pages have to be marked as dirty.
    #[inline]
    pub fn should_dirty(&self) -> bool {
        self.head().should_dirty
    }

    /// The kiocb, and the description, which alone may be exchanged.
    #[inline(always)]
    pub fn parts(&mut self) -> (&BusyIocb<DioOps>, &mut T) {
        let Left { iocb, dio } = &mut self.head_mut().left;
        (iocb, dio)
    }

    /// The kiocb, and the rest of the request, which is freed when it is dropped. If the bio still
    /// has its pages or bounce buffers, they are given back.
    #[inline(always)]
    pub fn into_parts(self) -> (BusyIocb<DioOps>, Over<T>) {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the invariants the request is initialised and ours alone. The kiocb is read
        // once, as `self` ends. A bio gives its pages back once, as `Over` does not.
        let iocb = unsafe {
            if let Home::FrontPadWithPages | Home::FrontPadBounced = this.home {
                give_back(this.head, this.home);
            }
            ptr::read(&raw const (*this.head).left.iocb)
        };
        // INVARIANT: The kiocb was taken just now.
        (iocb, Over(this))
    }

    /// Whether its memory is there.
    #[inline]
    pub(super) fn is_at(&self, head: *const Head<T>) -> bool {
        ptr::eq(self.head, head)
    }

    /// No longer counts as a request that ended at the end of an ioend.
    #[inline]
    pub(super) fn leave_ioend(&self) {
        if let Home::Own = self.home {
            self.shared().at_ioend.store(false, Relaxed);
        }
    }

    /// Gives the request to C as an opaque `struct iomap_dio`.
    #[inline]
    pub fn into_raw(self) -> *mut bindings::iomap_dio {
        self.armed.defuse();
        // SAFETY: The request is ours.
        unsafe {
            #[cfg(CONFIG_IOMAP_DIO_COMPARE)]
            (&raw mut (*self.head).mark).write(MaybeUninit::new(MARK));
            (&raw mut (*self.head).home).write(MaybeUninit::new(self.home));
        }
        self.head.cast()
    }

    /// Takes a request back from C.
    ///
    /// # Safety
    ///
    /// `raw` must come from [`Unique::into_raw`] of the same type, and must not be used again.
    #[inline]
    pub unsafe fn from_raw(raw: *mut bindings::iomap_dio) -> Self {
        let head: *mut Head<T> = raw.cast();
        // INVARIANT: Nobody knew of the request but C, who gives it back.
        Self {
            head,
            // SAFETY: Required of the caller: it says where it is. Read as a `Home`, so that the
            // compiler knows what it may be.
            home: unsafe { (&raw const (*head).home).cast::<Home>().read() },
            armed: Armed::new(),
        }
    }
}

/// Gives back the pages, or the bounce buffers, that a bio keeps as long as its request.
///
/// # Safety
///
/// `head` must be the memory of a request with this `home`, which belongs to the caller. Once.
#[cold]
unsafe fn give_back<T>(head: *mut Head<T>, home: Home) {
    let bio = bio_behind(head);
    // SAFETY: Required of the caller.
    unsafe {
        match home {
            Home::FrontPadWithPages => bio::give_back_pages(bio, (*head).should_dirty),
            Home::FrontPadBounced => bio::unbounce(bio, (*head).should_dirty),
            Home::FrontPad | Home::Own => {}
        }
    }
}

/// The bio that a front pad belongs to.
#[inline(always)]
fn bio_behind<T>(head: *mut Head<T>) -> *mut bindings::bio {
    head.cast::<FrontPad<T>>().wrapping_add(1).cast()
}

/// The description of a request that is over, in the memory of the request. Dropping this frees it:
/// `bio_put()` or `kfree()`.
///
/// # Invariants
///
/// The kiocb was taken, and nobody uses what is left of it there.
pub struct Over<T>(ManuallyDrop<Unique<T>>);

impl<T> Deref for Over<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.0.dio()
    }
}

impl<T> Over<T> {
    /// Whether the caller's pages had to be marked as dirty.
    #[inline(always)]
    pub fn should_dirty(&self) -> bool {
        self.0.should_dirty()
    }

    /// Whether its memory is there.
    #[inline]
    pub(super) fn is_at(&self, head: *const Head<T>) -> bool {
        self.0.is_at(head)
    }

    /// Whether a worker for ioends ended the last bio, which is process context already.
    #[inline(always)]
    pub fn at_ioend(&self) -> bool {
        matches!(self.0.home, Home::Own) && self.0.shared().at_ioend.load(Relaxed)
    }
}

impl<T> Drop for Over<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // Nothing else of a description has to be dropped.
        const { assert!(!core::mem::needs_drop::<T>()) };
        // SAFETY: By the invariants the memory is ours alone, and the bios have ended.
        unsafe {
            match self.0.home {
                Home::Own => bindings::kfree(self.0.head.cast()),
                Home::FrontPad | Home::FrontPadWithPages | Home::FrontPadBounced => {
                    bindings::bio_put(bio_behind(self.0.head))
                }
            }
        }
    }
}
