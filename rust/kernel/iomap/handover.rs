// SPDX-License-Identifier: GPL-2.0

//! How a request is handed over, apart from the request.
//!
//! What several processors change at the same time is here, and with it all memory ordering; whose
//! memory it is and how a task sleeps is in [`super::request`]. Nothing is used but atomics, so that
//! `tools/testing/iomap/host` compiles this very file and runs it through all its interleavings.
//!
//! ```text
//!                submission                      each bio
//!
//!                refs = BIAS
//!                a bio, another, ...             finish(): refs -= 1
//!   all ended    seal(): look
//!       <--------- refs == BIAS - bio_refs?
//!   else           waiter = task, if it waits
//!                  refs -= BIAS - bio_refs
//!                     |                             |
//!                     +------> who gets to 0 <------+
//!                        is left with the request
//!
//!                is_handed_back() <------------- hand_back(), if that is a bio and `waiter` is set
//! ```
//!
//! A request of a single bio is not counted: the submission and the bio shake hands, and who comes
//! second is left with the request ([`Handshake`]).

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

/// The references that a submission begins with.
///
/// It gives one to each bio and drops the rest at the end, so that a bio costs one atomic operation,
/// not two. Until then the count cannot reach zero, whichever bios have ended.
const BIAS: i32 = 1 << 30;

/// The state of the protocol, a part of each request.
///
/// Whoever calls a method holds a reference, is left with the request, or waits for it. Methods
/// that give this up do not look at the state any more after they did: it may be freed.
#[repr(C)]
pub(super) struct Protocol {
    /// References. While the request is submitted: `BIAS` less the bios that have ended. Once it
    /// is sealed: the bios in flight.
    refs: Atomic<i32>,
    /// The first error, as a negative errno, or zero.
    error: Atomic<i32>,
    /// The task that waits for the request, or NULL. Set by `seal`, cleared by `hand_back`.
    waiter: Atomic<*mut c_void>,
}

/// What the submission is left with.
#[must_use]
pub(super) enum AtSeal {
    /// The request: all bios have ended.
    Request,
    /// Nothing: the last bio is left with the request, which may be gone by now.
    Nothing,
    /// The task that it named is handed the request by the last bio.
    Waiting,
}

/// What a bio is left with.
#[must_use]
pub(super) enum AtEnd {
    /// Nothing: there are others.
    Nothing,
    /// The request, which was sealed and nobody waits for.
    Request,
    /// The request, for this task: [`Protocol::hand_back`] comes next.
    Awaited(*mut c_void),
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

    /// Records an error, a negative errno, unless there is one.
    #[inline]
    pub(super) fn record_error(&self, errno: i32) {
        // ORDERING: The reference count orders the value before whoever completes the request.
        let _ = self.error.cmpxchg(0, errno, Relaxed);
    }

    /// Whether an error was recorded.
    ///
    /// A hint about the errors of others, who may be about to record one.
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.error() != 0
    }

    /// The first error, or zero. Final for who is left with the request.
    #[inline]
    pub(super) fn error(&self) -> i32 {
        // ORDERING: Dropping the last reference has published it.
        self.error.load(Relaxed)
    }

    /// Drops `count` references and says whether they were the last.
    #[inline]
    fn put(&self, count: i32) -> bool {
        // ORDERING: Full, as `atomic_dec_and_test()`: what was done under any reference is
        // visible to the owner of the last.
        self.refs.fetch_sub(count, Full) == count
    }

    /// Drops the references of a submission that gave `bio_refs` of them to bios, once it has written
    /// all that it leaves behind.
    ///
    /// With a `waiter` the last bio hands the request back to the task that it names.
    #[inline]
    pub(super) fn seal(
        &self,
        bio_refs: i32,
        waiter: Option<impl FnOnce() -> *mut c_void>,
    ) -> AtSeal {
        // OVERFLOW: The memory for so many bios does not exist.
        let ours = BIAS.wrapping_sub(bio_refs);

        // Often all bios have ended by now: then one look replaces the last atomic operation.
        // ORDERING: Pairs with the full ordering in `put` of each bio: what was done under their
        // references is visible if they are all gone.
        if self.refs.load(Acquire) == ours {
            return AtSeal::Request;
        }

        let waits = waiter.is_some();
        if let Some(waiter) = waiter {
            // ORDERING: Dropping our references publishes it.
            self.waiter.store(waiter(), Relaxed);
        }
        if self.put(ours) {
            AtSeal::Request
        } else if waits {
            AtSeal::Waiting
        } else {
            AtSeal::Nothing
        }
    }

    /// Drops the reference of a bio.
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

    /// Gives the request to the task that waits for it, which is to be woken after.
    #[inline]
    pub(super) fn hand_back(&self) {
        // ORDERING: Pairs with the acquire in `is_handed_back`: the request may be freed as soon as
        // the store is seen, so everything we did with it comes before.
        self.waiter.store(ptr::null_mut(), Release);
    }

    /// Whether the request was given to the task that waits for it.
    #[inline]
    pub(super) fn is_handed_back(&self) -> bool {
        // ORDERING: Pairs with the release in `hand_back`.
        self.waiter.load(Acquire).is_null()
    }
}

/// The submission is still at it.
const SUBMITTING: *mut c_void = ptr::without_provenance_mut(1);
/// The bio has ended.
const ENDED: *mut c_void = ptr::without_provenance_mut(2);
/// The submission has left the request to the bio.
const LEFT: *mut c_void = ptr::null_mut();

/// The state of a request of a single bio: one of the above, or the task that waits for the bio.
///
/// Whoever calls a method is the submission that has not left, or the bio that has not ended. A
/// method that gives the request up does not look at the state any more after it did.
#[repr(transparent)]
pub(super) struct Handshake(Atomic<*mut c_void>);

/// What a bio is left with that ends.
#[must_use]
pub(super) enum AtHandshake {
    /// The request.
    Request,
    /// Nothing: the submission will find that the bio has ended.
    Nothing,
    /// The request, for this task: [`Handshake::hand_back`] comes next.
    Awaited(*mut c_void),
}

impl Handshake {
    /// The state of a request that is being submitted.
    #[inline]
    pub(super) fn new() -> Self {
        Self(Atomic::new(SUBMITTING))
    }

    /// Whether the bio has ended, and so left the request to the submission.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        // ORDERING: Pairs with the release when the bio ends: what was done by then is visible.
        self.0.load(Acquire) == ENDED
    }

    /// Moves on from `SUBMITTING`, unless the bio has ended. Returns whether it has.
    #[inline]
    fn submitted(&self, next: *mut c_void) -> bool {
        // ORDERING: Full: what the submission did is visible to the bio that sees `next`.
        // Otherwise the bio has ended, and `has_ended` orders that.
        self.has_ended() || (self.0.cmpxchg(SUBMITTING, next, Full).is_err() && self.has_ended())
    }

    /// Leaves the request to the bio. Returns whether it has ended already, and so the request is
    /// left to the submission.
    #[inline]
    pub(super) fn leave(&self) -> bool {
        self.submitted(LEFT)
    }

    /// Names the task that waits for the bio. Returns whether it has ended already.
    #[inline]
    pub(super) fn wait(&self, task: *mut c_void) -> bool {
        self.submitted(task)
    }

    /// The bio has ended.
    #[inline]
    pub(super) fn end(&self) -> AtHandshake {
        // ORDERING: Pairs with the full ordering in `submitted`.
        let mut state = self.0.load(Acquire);
        if state == SUBMITTING {
            // ORDERING: Full: what was done with the bio is visible to the submission.
            if self.0.cmpxchg(SUBMITTING, ENDED, Full).is_ok() {
                return AtHandshake::Nothing;
            }
            // ORDERING: As above. Nobody changes it any more.
            state = self.0.load(Acquire);
        }
        if state == LEFT {
            AtHandshake::Request
        } else {
            AtHandshake::Awaited(state)
        }
    }

    /// Gives the request to the task that waits for it, which is to be woken after.
    #[inline]
    pub(super) fn hand_back(&self) {
        // ORDERING: Pairs with the acquire in `has_ended`.
        self.0.store(ENDED, Release);
    }
}
