// SPDX-License-Identifier: GPL-2.0

//! The protocols by which a request is handed over.
//!
//! A submission and the bios it has sent run at the same time, and one of them completes the
//! request: whoever is last. This module decides who that is. It holds the state by which a request
//! is handed over, and the memory ordering of that; [`super::request`] owns the memory and knows
//! the scheduler. This module uses nothing but atomics, so that `tools/testing/iomap/host` compiles
//! this very file and runs it through all its interleavings.
//!
//! # Several bios
//!
//! [`Protocol`] counts references. The submission and each bio in flight hold some:
//!
//! ```text
//!                submission                      each bio
//!
//!                refs = BIAS
//!                a bio, another, ...             finish(): refs -= 1 (full)
//!   all ended    seal(): look
//!       <--------- refs == BIAS - bio_refs? (acquire)
//!   else           waiter = task, if it waits
//!                  refs -= BIAS - bio_refs (full)
//!                     |                             |
//!                     +-> drops the count to 0: <---+
//!                           owns the request
//!
//!       (acquire) is_handed_back() <------------- hand_back() (release), if that is a bio and
//!                                                              `waiter` is set
//! ```
//!
//! # One bio
//!
//! [`Handshake`] needs no count. The submission and the bio each make one step, and the second owns
//! the request:
//!
//! ```text
//!                    the bio ends first
//!  SUBMITTING ---------------------------> ENDED: the submission owns the request
//!      |                                     ^
//!      | leave()                             | hand_back()
//!      +---------> LEFT --end()--> the bio owns the request
//!      | wait()                              |
//!      +---------> task --end()--------------+
//! ```
//!
//! Each step is fully ordered, except that `hand_back()` is a release; a look that finds the step
//! of the other is an acquire. None of this sleeps or takes a lock, so it works in any context.
//!
//! # Many requests for one worker
//!
//! [`Llist`] collects requests that have to be completed in process context. The first one on the
//! list leads: it queues its work item, which takes the list.
//!
//! # Sleeping and waking
//!
//! A task that waits sleeps in [`sleep_until`]; the bio that owns the request meanwhile returns it
//! with [`hand_back_to`]. Each side writes one word and then looks at the other's, with a full
//! barrier in between:
//!
//! ```text
//!       sleep_until()                          hand_back_to()
//!
//!       state = uninterruptible                hand back (release)
//!       barrier                                barrier
//!       handed back? (acquire)                 state == uninterruptible?
//!         if not: sleep                          if so: state = running, wake
//! ```
//!
//! So at least one of them sees what the other wrote: the task does not sleep, or it is woken. The
//! barriers and the state are the scheduler's ([`Sleeper`], [`Waiter`]); the order is decided here.
//!
//! # Ordering
//!
//! The owner of a request must see everything that was done under any reference: the data, the
//! error, and what the submission left behind for the completion. Dropping a reference therefore is
//! a fully ordered operation, and a single load that finds all others gone is an acquire. The
//! recorded error and the name of the waiter need no ordering of their own, because the reference
//! count publishes them. Handing a request back is a release: the waiter may free the request as
//! soon as it sees the store.

use crate::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Relaxed,
    Release, //
};
use core::{
    ffi::c_void,
    ptr, //
};

/// The number of references that a submission begins with.
///
/// It gives one to each bio and drops the rest at the end, so that a bio costs one atomic
/// operation, not two. Until then the count cannot reach zero, whichever bios have ended: without a
/// sign it is one more than the bios that an `i32` can count.
const BIAS: i32 = i32::MIN;

/// What a bio that has ended has of the request ([`Protocol::finish`], [`Handshake::end`]).
#[must_use]
pub(super) enum AtEnd {
    /// Nothing: another bio, or the submission, will own the request.
    Nothing,
    /// The request, which the submission has left.
    Request,
    /// The request, to hand it to this task: `hand_back()` comes next.
    Awaited(*mut c_void),
}

/// The state of a request of several bios, as part of its memory.
///
/// Whoever calls a method holds a reference, owns the request, or waits for it. A method that gives
/// this up does not look at the state afterwards: it may be freed.
#[repr(C)]
pub(super) struct Protocol {
    /// References. During submission: `BIAS` less the bios that have ended. Once the request is
    /// sealed: the bios in flight.
    refs: Atomic<i32>,
    /// The first error, as a negative errno, or zero.
    error: Atomic<i32>,
    /// The task that waits for the request, or NULL. `seal` sets it, `hand_back` clears it.
    waiter: Atomic<*mut c_void>,
}

impl Protocol {
    /// The state of a request without bios.
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            refs: Atomic::new(BIAS),
            error: Atomic::new(0),
            waiter: Atomic::new(ptr::null_mut()),
        }
    }

    /// Records an error, a negative errno, unless there is one already. The first error wins.
    #[inline]
    pub(super) fn record_error(&self, errno: i32) {
        // ORDERING: None needed: dropping a reference publishes the value to the request's owner.
        let _ = self.error.cmpxchg(0, errno, Relaxed);
    }

    /// Whether an error was recorded.
    ///
    /// Only a hint while bios are in flight: another CPU may be about to record one.
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.error() != 0
    }

    /// The first error, or zero. Final for the owner of the request.
    #[inline]
    pub(super) fn error(&self) -> i32 {
        // ORDERING: Dropping the last reference has published it.
        self.error.load(Relaxed)
    }

    /// Drops `count` references and returns whether they were the last.
    #[inline]
    fn put(&self, count: i32) -> bool {
        // ORDERING: Full, as `atomic_dec_and_test()`: the owner of the last reference sees
        // everything that was done under any reference.
        self.refs.fetch_sub(count, Full) == count
    }

    /// Ends the submission: drops its references, less `bio_refs` that it gave to bios. Returns
    /// whether it owns the request, as all bios have ended; otherwise the last one will.
    ///
    /// The submission has written everything that the completion needs before. With a `waiter` the
    /// last bio hands the request back to the task that it names; `waiter` is called only if bios
    /// are in flight. Without one the request may be gone by now.
    #[must_use]
    #[inline]
    pub(super) fn seal(&self, bio_refs: i32, waiter: Option<impl FnOnce() -> *mut c_void>) -> bool {
        // OVERFLOW: Wraps to what is left, which is at least one.
        let ours = BIAS.wrapping_sub(bio_refs);

        // Often all bios have ended by now: then one look replaces the last atomic operation.
        // ORDERING: Pairs with the full ordering in `put` of each bio: if their references are all
        // gone, everything that was done under them is visible.
        if self.refs.load(Acquire) == ours {
            return true;
        }

        if let Some(waiter) = waiter {
            // ORDERING: Dropping our references publishes it.
            self.waiter.store(waiter(), Relaxed);
        }
        self.put(ours)
    }

    /// Drops the reference of a bio that has ended.
    ///
    /// If it was the last, `last` is called before anybody else gets the request.
    #[inline]
    pub(super) fn finish(&self, last: impl FnOnce()) -> AtEnd {
        if !self.put(1) {
            return AtEnd::Nothing;
        }
        last();
        // ORDERING: Set before the submission dropped its references. From then on only `hand_back`
        // changes it.
        let task = self.waiter.load(Relaxed);
        if task.is_null() {
            AtEnd::Request
        } else {
            AtEnd::Awaited(task)
        }
    }

    /// Gives the request to the task that waits for it. The caller wakes that task afterwards.
    #[inline]
    pub(super) fn hand_back(&self) {
        // ORDERING: Pairs with the acquire in `is_handed_back`: the request may be freed as soon as
        // the store is seen, so everything we did with it comes before.
        self.waiter.store(ptr::null_mut(), Release);
    }

    /// Whether the waiting task owns the request by now.
    #[inline]
    pub(super) fn is_handed_back(&self) -> bool {
        // ORDERING: Pairs with the release in `hand_back`.
        self.waiter.load(Acquire).is_null()
    }
}

/// The submission is not done yet.
const SUBMITTING: *mut c_void = ptr::without_provenance_mut(1);
/// The bio has ended, and the submission owns the request.
const ENDED: *mut c_void = ptr::without_provenance_mut(2);
/// The submission has left the request to the bio.
const LEFT: *mut c_void = ptr::null_mut();

/// The state of a request of a single bio: one of the above, or the task that waits for the bio.
///
/// The submission calls methods until it has left, and the end of the bio until it has given the
/// request up. A method that gives the request up does not look at the state afterwards.
#[repr(transparent)]
pub(super) struct Handshake(Atomic<*mut c_void>);

impl Handshake {
    /// The state of a request that is being submitted.
    #[inline]
    pub(super) fn new() -> Self {
        Self(Atomic::new(SUBMITTING))
    }

    /// Whether the bio has ended, so that the submission owns the request.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        // ORDERING: Pairs with the release when the bio ends: everything done by then is visible.
        self.0.load(Acquire) == ENDED
    }

    /// Goes from `SUBMITTING` to `next`, unless the bio has ended. Returns whether it has.
    #[inline]
    fn submitted(&self, next: *mut c_void) -> bool {
        // ORDERING: Full: what the submission did is visible to the bio that sees `next`.
        // Otherwise the bio has ended, and `has_ended` orders that.
        self.has_ended() || (self.0.cmpxchg(SUBMITTING, next, Full).is_err() && self.has_ended())
    }

    /// Leaves the request to the bio. Returns whether that has ended already, so that the
    /// submission owns the request instead.
    #[inline]
    pub(super) fn leave(&self) -> bool {
        self.submitted(LEFT)
    }

    /// Names the task that waits for the bio. Returns whether that has ended already.
    #[inline]
    pub(super) fn wait(&self, task: *mut c_void) -> bool {
        self.submitted(task)
    }

    /// Ends the bio, and says who owns the request.
    #[inline]
    pub(super) fn end(&self) -> AtEnd {
        // ORDERING: Pairs with the full ordering in `submitted`.
        let mut state = self.0.load(Acquire);
        if state == SUBMITTING {
            // ORDERING: Full: what was done with the bio is visible to the submission.
            if self.0.cmpxchg(SUBMITTING, ENDED, Full).is_ok() {
                return AtEnd::Nothing;
            }
            // ORDERING: As above. Nobody changes it any more.
            state = self.0.load(Acquire);
        }
        if state == LEFT {
            AtEnd::Request
        } else {
            AtEnd::Awaited(state)
        }
    }

    /// Gives the request to the task that waits for it. The caller wakes that task afterwards.
    #[inline]
    pub(super) fn hand_back(&self) {
        // ORDERING: Pairs with the acquire in `has_ended`.
        self.0.store(ENDED, Release);
    }
}

/// A list that grows by one and is taken as a whole (`struct llist_head`).
///
/// Who adds the first element leads: it alone may take the list, once, with whatever was added
/// since. Until then the list does not become empty, so nobody else leads.
#[repr(transparent)]
pub(super) struct Llist(Atomic<*mut c_void>);

impl Llist {
    /// Adds `element` in front of the one that was added last, which `link` gets, or NULL. Returns
    /// whether the list was empty, so that the caller leads.
    ///
    /// Otherwise the element belongs to who leads, and may be gone when this returns.
    #[doc(alias = "llist_add")]
    #[inline]
    pub(super) fn add(&self, element: *mut c_void, link: impl Fn(*mut c_void)) -> bool {
        // ORDERING: None needed: only the address is used.
        let mut first = self.0.load(Relaxed);
        loop {
            link(first);
            // ORDERING: Full: publishes the element, and the link, to who takes it.
            match self.0.cmpxchg(first, element, Full) {
                Ok(_) => return first.is_null(),
                Err(now) => first = now,
            }
        }
    }

    /// Takes all elements. Returns the one that was added last.
    #[doc(alias = "llist_del_all")]
    #[inline]
    pub(super) fn del_all(&self) -> *mut c_void {
        // ORDERING: Pairs with the `cmpxchg()` of each element: the later ones continue its release
        // sequence.
        self.0.xchg(ptr::null_mut(), Full)
    }
}

/// The states that a task has while it waits.
pub(super) enum TaskState {
    /// It runs, or is about to (`TASK_RUNNING`).
    Running,
    /// It stops when it calls the scheduler, until it is woken (`TASK_UNINTERRUPTIBLE`).
    Uninterruptible,
}

/// The current task, which waits.
pub(super) trait Sleeper {
    /// Sets the state of the task. A full barrier follows (`set_current_state()`).
    fn set_state(&self, state: TaskState);

    /// Sets the state of the task, without a barrier (`__set_current_state()`).
    fn set_state_relaxed(&self, state: TaskState);

    /// Sleeps, unless the task is [`TaskState::Running`] or until it is woken.
    fn schedule(&self);
}

/// Another task, which waits.
pub(super) trait Waiter {
    /// As long as this exists, so does the task.
    type Alive;

    /// Keeps the task, which may be gone once it has seen that its wait is over.
    fn keep(&self) -> Self::Alive;

    /// Makes the task [`TaskState::Running`] if it is not, and lets go of it. A full barrier comes
    /// before the look at its state (`wake_up_process()`).
    fn wake(&self, alive: Self::Alive);
}

/// Sleeps until `is_done`.
///
/// The task may be woken too early. Whoever makes the condition true wakes it afterwards.
#[inline(always)]
pub(super) fn sleep_until(task: impl Sleeper, is_done: impl Fn() -> bool) {
    loop {
        // ORDERING: The barrier pairs with the one in `Waiter::wake`: if we do not see that it is
        // done, whoever does it sees that we are about to sleep.
        task.set_state(TaskState::Uninterruptible);
        if is_done() {
            break;
        }
        task.schedule();
    }
    // ORDERING: None needed: a wake-up that comes now sets the same state.
    task.set_state_relaxed(TaskState::Running);
}

/// Calls `hand_back`, which ends the wait of `task`, and wakes the task.
#[inline(always)]
pub(super) fn hand_back_to(task: impl Waiter, hand_back: impl FnOnce()) {
    // The task may see that the request is its own, go on and exit before it is woken.
    let alive = task.keep();
    hand_back();
    // ORDERING: The barrier pairs with the one in `Sleeper::set_state`.
    task.wake(alive);
}
