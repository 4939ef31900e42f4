// SPDX-License-Identifier: GPL-2.0

//! Models of the hand-over: a submission, and bios that end on other processors.
//!
//! A model makes the same calls to [`Protocol`] as `request.rs`, around memory that `loom`
//! observes: `loom` reports an access as a data race unless it is ordered with every conflicting
//! access. Each model is executed exhaustively, without a limit on preemption.
//!
//! These are about what one thread sees of another. What comes of whole requests in many orders, such as
//! bios that end during their submission, is tested in `world/`.

use crate::{
    handover::{
        hand_back_to,
        sleep_until,
        AtEnd,
        Handshake,
        Llist,
        Protocol, //
    },
    sync::atomic::Atomic,
    task::Task, //
};
use loom::{
    cell::UnsafeCell,
    model::Builder,
    sync::atomic::{
        AtomicBool,
        Ordering::{
            Acquire,
            Release, //
        },
    },
    thread, //
};
use std::{
    ffi::c_void,
    fmt::Debug,
    mem::ManuallyDrop,
    ptr,
    sync::{
        atomic::{
            AtomicUsize,
            Ordering, //
        },
        Arc,
        Mutex, //
    },
};

/// The largest number of bios. With the submission this is one thread less than `loom` supports.
const BIOS: usize = if FEW { 2 } else { 3 };
/// Fewer models, for mutants.sh.
const FEW: bool = option_env!("IOMAP_HOST_FEW").is_some();

/// How the submitter waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Wait {
    /// Not at all: the request is asynchronous.
    #[default]
    No,
    /// It checks in a loop, like a polling submitter.
    Looks,
    /// It sleeps until the last bio wakes it.
    Sleeps,
}

impl Wait {
    /// Waits like a submitter.
    fn until(self, task: &Task, is_over: impl Fn() -> bool) {
        match self {
            Wait::No => panic!("waits although it should not"),
            Wait::Looks => {
                while !is_over() {
                    thread::yield_now();
                }
            }
            Wait::Sleeps => sleep_until(task, is_over),
        }
    }

    /// Ends the wait like a bio.
    fn end(self, task: &Task, hand_back: impl FnOnce()) {
        match self {
            Wait::No => panic!("left to nobody"),
            // There is nobody to wake, and the barriers would hide that an ordering is missing.
            Wait::Looks => hand_back(),
            Wait::Sleeps => hand_back_to(task, hand_back),
        }
    }

    /// The largest number of bios. A sleeper meets only the last one, and has many more orders.
    fn most_bios(self) -> usize {
        if self == Wait::Sleeps {
            2
        } else {
            BIOS
        }
    }
}

/// The name of the task that waits, a pointer for comparison only.
fn task() -> *mut c_void {
    ptr::without_provenance_mut(0x1000)
}

/// Memory whose accesses `loom` observes.
#[derive(Default)]
struct Observed<T>(UnsafeCell<T>);

impl<T> Observed<T> {
    fn access<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: `loom` checks that no other thread does.
        self.0.with_mut(|value| f(unsafe { &mut *value }))
    }
}

// SAFETY: `loom` executes one thread at a time, and reports races.
unsafe impl<T> Sync for Observed<T> {}

/// Drops a protocol that is under test. It cannot be borrowed for that, because others may look at it
/// if it is wrong.
fn free<T>(protocol: &ManuallyDrop<T>) {
    // SAFETY: The memory is valid until the end of the model, and nothing else drops it. `loom`
    // reports every access afterwards.
    drop(unsafe { ptr::read(&raw const **protocol) });
}

/// The parameters of a model.
#[derive(Clone, Copy, Debug, Default)]
struct Case {
    bios: usize,
    wait: Wait,
    /// The bios that fail, a bit mask.
    failing: u32,
}

impl Case {
    fn fails(&self, bio: usize) -> bool {
        self.failing >> bio & 1 != 0
    }
}

fn errno_of_bio(bio: usize) -> i32 {
    -10 - bio as i32
}

/// The description that the submission writes.
#[derive(Default)]
struct Sealed {
    written: bool,
    last_words: u32,
}

/// The observations of the model. `loom` does not track them, so they order nothing.
#[derive(Default)]
struct Notes {
    owners: u32,
    /// The error that the owner read.
    error: i32,
    /// The error that each failing context read after recording its own.
    errors: Vec<i32>,
}

/// A request.
struct Request {
    case: Case,
    protocol: ManuallyDrop<Protocol>,
    sealed: Observed<Sealed>,
    /// Written by the end of each bio.
    ended: [Observed<bool>; BIOS],
    /// The submitter. It may be woken after the request is freed.
    task: Task,
    notes: Mutex<Notes>,
}

impl Request {
    fn model(case: Case) {
        let request = Self {
            case,
            protocol: ManuallyDrop::new(Protocol::new()),
            sealed: Observed::default(),
            ended: Default::default(),
            task: Task::new(true),
            notes: Mutex::default(),
        };
        Arc::new(request).submit();
    }

    /// The end of a bio, as `BioRef::finish`.
    fn end(&self, bio: usize) {
        self.ended[bio].access(|ended| *ended = true);
        if self.case.fails(bio) {
            self.protocol.record_error(errno_of_bio(bio));
            let error = self.protocol.error();
            assert_ne!(error, 0, "an error was forgotten");
            self.notes.lock().unwrap().errors.push(error);
        }
        let last_word = || {
            self.sealed.access(|sealed| {
                assert!(sealed.written, "the last bio came before the seal");
                sealed.last_words += 1;
            })
        };
        match self.protocol.finish(last_word) {
            AtEnd::Nothing => {}
            AtEnd::Request => {
                assert_eq!(self.case.wait, Wait::No, "taken from who waits for it");
                self.complete(1);
            }
            AtEnd::Awaited(waiter) => {
                assert_eq!(waiter, task());
                let hand_back = || self.protocol.hand_back();
                self.case.wait.end(&self.task, hand_back);
            }
        }
    }

    /// A complete submission.
    fn submit(self: Arc<Self>) {
        let case = self.case;
        let threads: Vec<_> = (0..case.bios)
            .map(|bio| {
                let bio_ref = self.clone();
                thread::spawn(move || bio_ref.end(bio))
            })
            .collect();

        self.sealed.access(|sealed| sealed.written = true);
        let waiter = (case.wait != Wait::No).then_some(task);
        if self.protocol.seal(case.bios as i32, waiter) {
            self.complete(0);
        } else if case.wait != Wait::No {
            case.wait
                .until(&self.task, || self.protocol.is_handed_back());
            self.complete(1);
        }

        self.task.exit();
        for thread in threads {
            thread.join().unwrap();
        }
        self.check();
    }

    /// Completes and frees the request. The last bio has added `last_words` to the description.
    fn complete(&self, last_words: u32) {
        let owners = {
            let mut notes = self.notes.lock().unwrap();
            notes.owners += 1;
            notes.owners
        };
        assert_eq!(owners, 1, "the request was completed twice");

        for ended in &self.ended[..self.case.bios] {
            let ended = ended.access(|ended| *ended);
            assert!(ended, "completed before all bios had ended");
        }
        self.sealed.access(|sealed| {
            assert!(sealed.written, "completed before it was sealed");
            assert_eq!(sealed.last_words, last_words, "last words");
        });
        let error = self.protocol.error();
        self.notes.lock().unwrap().error = error;
        free(&self.protocol);
    }

    /// Checks the result after all threads have ended.
    fn check(&self) {
        let case = &self.case;
        let notes = self.notes.lock().unwrap();
        assert_eq!(notes.owners, 1, "the request was never completed");

        let possible: Vec<i32> = (0..case.bios)
            .filter(|&bio| case.fails(bio))
            .map(errno_of_bio)
            .collect();
        if possible.is_empty() {
            assert_eq!(notes.error, 0);
        } else {
            assert!(possible.contains(&notes.error), "an error was lost");
        }
        for &error in &notes.errors {
            assert_eq!(error, notes.error, "an error was replaced");
        }
    }
}

/// Executes a model of each case.
fn explore<C>(cases: impl IntoIterator<Item = C>, model: fn(C))
where
    C: Copy + Debug + Send + Sync + 'static,
{
    let executions = Arc::new(AtomicUsize::new(0));
    for case in cases {
        let mut builder = Builder::new();
        // Ignore the limits of the environment.
        builder.preemption_bound = None;
        builder.max_permutations = None;
        builder.max_duration = None;
        let counter = executions.clone();
        println!("{case:?}");
        builder.check(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            model(case);
        });
    }
    // run.sh adds these numbers.
    println!("executions: {}", executions.load(Ordering::Relaxed));
}

fn explore_any_number_of_bios(wait: Wait) {
    let cases = (0..=wait.most_bios()).map(|bios| Case {
        bios,
        wait,
        ..Case::default()
    });
    explore(cases, Request::model);
}

/// In every order exactly one owner completes the request, and it sees all accesses of the others.
#[test]
fn one_owner() {
    explore_any_number_of_bios(Wait::No);
}

/// A waiting task gets the request back once, and no other access follows.
#[test]
fn waiter_gets_it_back() {
    explore_any_number_of_bios(Wait::Looks);
}

/// The same, and no wake-up is lost.
#[test]
fn waiter_is_woken() {
    explore_any_number_of_bios(Wait::Sleeps);
}

/// The first error of two bios is the error of the request.
#[test]
fn first_error_wins() {
    // Errors do not depend on how the task waits.
    let cases = [Wait::No, Wait::Looks].map(|wait| {
        (1..1 << 2).map(move |failing| Case {
            bios: 2,
            wait,
            failing,
        })
    });
    explore(cases.into_iter().flatten(), Request::model);
}

/// A single-bio request, with the same calls to [`Handshake`] as in `bio_set.rs`.
struct Single {
    wait: Wait,
    handshake: ManuallyDrop<Handshake>,
    /// Written by the end of the bio, and by the submission after it has submitted the bio.
    ended: Observed<bool>,
    submitted: Observed<bool>,
    task: Task,
    owners: AtomicUsize,
}

impl Single {
    /// The bio ends within its submission or on another processor.
    fn model((wait, within): (Wait, bool)) {
        let single = Self {
            wait,
            handshake: ManuallyDrop::new(Handshake::new()),
            ended: Observed::default(),
            submitted: Observed::default(),
            task: Task::new(true),
            owners: AtomicUsize::new(0),
        };
        Arc::new(single).submit(within);
    }

    /// The end of the bio.
    fn end(&self) {
        self.ended.access(|ended| *ended = true);
        match self.handshake.end() {
            AtEnd::Request => {
                assert_eq!(self.wait, Wait::No, "taken from who waits");
                self.complete();
            }
            AtEnd::Nothing => {}
            AtEnd::Awaited(waiter) => {
                assert_eq!(waiter, task());
                self.wait.end(&self.task, || self.handshake.hand_back());
            }
        }
    }

    /// A complete submission.
    fn submit(self: Arc<Self>, within: bool) {
        let bio = self.clone();
        let mut thread = None;
        if within {
            bio.end();
        } else {
            thread = Some(thread::spawn(move || bio.end()));
        }
        self.submitted.access(|done| *done = true);
        let ended = if self.wait == Wait::No {
            self.handshake.leave()
        } else {
            if !self.handshake.has_ended() && !self.handshake.wait(task()) {
                self.wait.until(&self.task, || self.handshake.has_ended());
            }
            true
        };
        if ended {
            self.complete();
        }
        self.task.exit();
        if let Some(thread) = thread {
            thread.join().unwrap();
        }
        assert_eq!(self.owners.load(Ordering::Relaxed), 1, "never completed");
    }

    fn complete(&self) {
        let owners = self.owners.fetch_add(1, Ordering::Relaxed) + 1;
        assert_eq!(owners, 1, "the request was completed twice");
        let ended = self.ended.access(|ended| *ended);
        assert!(ended, "completed before its bio");
        let submitted = self.submitted.access(|done| *done);
        assert!(submitted, "completed under the submission");
        free(&self.handshake);
    }
}

/// Of submission and bio, the second one to finish completes the request.
#[test]
fn handshakes() {
    let waits = [Wait::No, Wait::Looks, Wait::Sleeps];
    let cases = waits.map(|wait| [false, true].map(|within| (wait, within)));
    explore(cases.into_iter().flatten(), Single::model);
}

/// Requests that are punted on several processors, with the same calls to [`Llist`] as in `worker.rs`.
struct Punted {
    /// In memory of C, as the super block has it.
    list: Atomic<*mut c_void>,
    /// What the end of its bio has done with each, and the name of the one before.
    requests: [Observed<(bool, usize)>; BIOS],
    completed: AtomicUsize,
}

impl Punted {
    fn model(requests: usize) {
        let punted = Arc::new(Self {
            list: Atomic::new(ptr::null_mut()),
            requests: Default::default(),
            completed: AtomicUsize::new(0),
        });
        let threads: Vec<_> = (1..=requests)
            .map(|name| {
                let punted = punted.clone();
                thread::spawn(move || punted.punt(name))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let completed = punted.completed.load(Ordering::Relaxed);
        assert_eq!(completed, requests, "left on the list");
    }

    /// Punts a request. The work item of a leader runs at once, on the same processor: this orders least.
    fn punt(&self, name: usize) {
        let request = &self.requests[name - 1];
        request.access(|request| request.0 = true);
        let link = |next: *mut c_void| request.access(|request| request.1 = next.addr());
        // SAFETY: The list is nothing but this.
        let list = unsafe { &*(&raw const self.list).cast::<Llist>() };
        if !list.add(ptr::without_provenance_mut(name), link) {
            return;
        }
        let (mut next, mut own) = (list.del_all().addr(), false);
        while next != 0 {
            own |= next == name;
            next = self.requests[next - 1].access(|(ended, next)| {
                assert!(std::mem::take(ended), "completed twice, or before it ended");
                *next
            });
            self.completed.fetch_add(1, Ordering::Relaxed);
        }
        assert!(own, "completed under its own work item");
    }
}

/// Each request is taken from the list once, by a worker that sees what was done with it.
#[test]
fn lists() {
    explore(1..=BIOS, Punted::model);
}

/// A wait alone, for another thread, which perhaps wakes the task for another reason before.
fn wait_for_another((woken_before, fenced): (bool, bool)) {
    let task = Arc::new(Task::new(fenced));
    let is_over = Arc::new(AtomicBool::new(false));
    let other = thread::spawn({
        let (task, is_over) = (task.clone(), is_over.clone());
        move || {
            if woken_before {
                task.wake_up();
            }
            hand_back_to(&*task, || is_over.store(true, Release));
        }
    });
    let is_over = || is_over.load(Acquire);
    sleep_until(&*task, is_over);
    assert!(is_over(), "woken too early");
    task.exit();
    other.join().unwrap();
}

/// Whatever wakes a task, it sleeps until its wait is over.
#[test]
fn sleeps_until() {
    explore([(false, true), (true, true)], wait_for_another);
}

/// If who wakes the task has no barrier, a wake-up is lost, and `loom` finds it.
#[test]
#[should_panic(expected = "deadlock")]
fn waking_needs_a_barrier() {
    explore([(false, false)], wait_for_another);
}
