// SPDX-License-Identifier: GPL-2.0

//! A model of a task that sleeps and is woken.
//!
//! The full barriers of the scheduler are `SeqCst` fences. Such a fence is weaker than `smp_mb()`,
//! but has what a wake-up needs: of two threads that both store, fence, and load what the other one
//! stores, at least one sees the store. A task that is not woken sleeps forever, which `loom`
//! reports as a deadlock.

use crate::handover::{
    Sleeper,
    TaskState,
    Waiter, //
};
use loom::sync::{
    atomic::{
        fence,
        AtomicBool,
        Ordering, //
    },
    Condvar,
    Mutex,
    RwLock,
    RwLockReadGuard, //
};

/// A task.
pub(crate) struct Task {
    /// Its state: whether it sleeps, or is about to.
    sleeps: AtomicBool,
    /// Held to go to sleep, and to wake the task. Setting the state takes no lock.
    run_queue: Mutex<()>,
    woken: Condvar,
    /// Whether the task exists. It does not end while this is read-locked, in the place of RCU.
    exists: RwLock<bool>,
    /// Whether there is a barrier in a wake-up, as there must be.
    fenced: bool,
}

impl Task {
    pub(crate) fn new(fenced: bool) -> Self {
        Self {
            sleeps: AtomicBool::new(false),
            run_queue: Mutex::new(()),
            woken: Condvar::new(),
            exists: RwLock::new(true),
            fenced,
        }
    }

    /// Wakes the task if it sleeps or is about to (`try_to_wake_up()`).
    pub(crate) fn wake_up(&self) {
        let _lock = self.run_queue.lock().unwrap();
        if self.fenced {
            fence(Ordering::SeqCst);
        }
        if self.sleeps.load(Ordering::Relaxed) {
            self.sleeps.store(false, Ordering::Relaxed);
            self.woken.notify_one();
        }
    }

    /// The current task has done its work and ends.
    pub(crate) fn exit(&self) {
        let sleeps = self.sleeps.load(Ordering::Relaxed);
        assert!(!sleeps, "the state was not set back");
        *self.exists.write().unwrap() = false;
    }
}

impl Sleeper for &Task {
    fn set_state(&self, state: TaskState) {
        self.set_state_relaxed(state);
        fence(Ordering::SeqCst);
    }

    fn set_state_relaxed(&self, state: TaskState) {
        let sleeps = matches!(state, TaskState::Uninterruptible);
        self.sleeps.store(sleeps, Ordering::Relaxed);
    }

    fn schedule(&self) {
        let mut lock = self.run_queue.lock().unwrap();
        while self.sleeps.load(Ordering::Relaxed) {
            lock = self.woken.wait(lock).unwrap();
        }
    }
}

impl<'a> Waiter for &'a Task {
    type Alive = RwLockReadGuard<'a, bool>;

    fn keep(&self) -> Self::Alive {
        self.exists.read().unwrap()
    }

    fn wake(&self, alive: Self::Alive) {
        assert!(*alive, "a task was woken that is gone");
        self.wake_up();
    }
}
