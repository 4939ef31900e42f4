// SPDX-License-Identifier: GPL-2.0

//! Models of the hand-over: a submission and bios that end on other processors.
//!
//! A model is what `request.rs` does with its [`Protocol`], around memory that `loom` watches: an
//! access that is not ordered after all that could conflict with it fails as a data race, whether
//! or not it happens to go well. Each is run exhaustively, without a limit on preemption.

use crate::handover::{
    AtEnd,
    AtHandshake,
    AtSeal,
    Handshake,
    Protocol, //
};
use loom::{
    cell::UnsafeCell,
    model::Builder,
    sync::Notify,
    thread, //
};
use std::{
    ffi::c_void,
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

/// The most bios of a request: with the submission as many threads as `loom` can do, less one.
const BIOS: usize = if FEW { 2 } else { 3 };
/// Fewer models, for the mutants.
const FEW: bool = option_env!("IOMAP_HOST_FEW").is_some();

/// How a task waits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    /// It does not: the request is asynchronous.
    No,
    /// It looks again and again, as one that polls.
    Looks,
    /// It sleeps until it is woken.
    Sleeps,
}

/// A request to make a model of. Sets of bios are bits.
#[derive(Clone, Copy, Debug)]
struct Case {
    bios: usize,
    wait: Wait,
    /// The bios that end while the submission submits them; the others end on other processors.
    within: u32,
    /// The bios that fail.
    failing: u32,
    /// The submission fails.
    submission_fails: bool,
}

const PLAIN: Case = Case {
    bios: 0,
    wait: Wait::No,
    within: 0,
    failing: 0,
    submission_fails: false,
};

impl Case {
    fn fails(&self, bio: usize) -> bool {
        self.failing >> bio & 1 != 0
    }

    fn ends_within(&self, bio: usize) -> bool {
        self.within >> bio & 1 != 0
    }
}

fn errno_of_bio(bio: usize) -> i32 {
    -10 - bio as i32
}

const ERRNO_OF_SUBMISSION: i32 = -1;

/// The task that waits, a pointer that is only compared.
fn task() -> *mut c_void {
    ptr::without_provenance_mut(0x1000)
}

/// What the submission leaves behind.
struct Sealed {
    written: bool,
    last_words: u32,
}

/// What the model finds out. `loom` does not know of it, so it orders nothing.
#[derive(Default)]
struct Notes {
    owners: u32,
    /// The error as the owner found it.
    error: i32,
    /// The error as those found it who had recorded one.
    errors: Vec<i32>,
    /// The submission knew that a bio has failed.
    knew: bool,
}

/// A request.
struct Request {
    case: Case,
    protocol: std::cell::UnsafeCell<ManuallyDrop<Protocol>>,
    sealed: UnsafeCell<Sealed>,
    /// What each bio leaves behind: whether it has ended.
    ended: [UnsafeCell<bool>; BIOS],
    /// Wakes the task. It may be used after the request is gone, as the task outlives it.
    wakeup: Notify,
    notes: Mutex<Notes>,
}

// SAFETY: Races are what the models look for, and `loom` runs one thread at a time.
unsafe impl Send for Request {}
// SAFETY: As above.
unsafe impl Sync for Request {}

impl Request {
    fn new(case: Case) -> Self {
        Self {
            case,
            protocol: std::cell::UnsafeCell::new(ManuallyDrop::new(Protocol::new())),
            sealed: UnsafeCell::new(Sealed {
                written: false,
                last_words: 0,
            }),
            ended: std::array::from_fn(|_| UnsafeCell::new(false)),
            wakeup: Notify::new(),
            notes: Mutex::default(),
        }
    }

    fn protocol(&self) -> &Protocol {
        // SAFETY: The memory stays until the end of the model. An access after `complete` has
        // dropped the protocol is found by `loom`.
        unsafe { &*self.protocol.get() }
    }

    fn fail(&self, errno: i32) {
        self.protocol().record_error(errno);
        let error = self.protocol().error();
        assert_ne!(error, 0, "an error was forgotten");
        self.notes.lock().unwrap().errors.push(error);
    }

    /// `BioRef::finish_with`, by the end of a bio.
    fn end(&self, bio: usize) {
        // SAFETY: `loom` checks that nobody else does.
        self.ended[bio].with_mut(|ended| unsafe { *ended = true });
        if self.case.fails(bio) {
            self.fail(errno_of_bio(bio));
        }
        let last_word = || {
            self.sealed.with_mut(|sealed| {
                // SAFETY: As above.
                let sealed = unsafe { &mut *sealed };
                assert!(sealed.written, "the last bio came before the seal");
                sealed.last_words += 1;
            })
        };
        match self.protocol().finish(last_word) {
            AtEnd::Nothing => {}
            AtEnd::Request => {
                assert_eq!(self.case.wait, Wait::No, "taken from who waits for it");
                self.complete(1);
            }
            AtEnd::Awaited(waiter) => {
                assert_ne!(self.case.wait, Wait::No, "left to nobody");
                assert_eq!(waiter, task());
                self.protocol().hand_back();
                self.wakeup.notify();
            }
        }
    }

    /// The whole of a submission.
    fn submit(self: Arc<Self>) {
        let case = self.case;
        let mut threads = Vec::new();
        let mut bio_refs = 0;
        for bio in 0..case.bios {
            bio_refs += 1;
            let bio_ref = self.clone();
            if case.ends_within(bio) {
                bio_ref.end(bio);
            } else {
                threads.push(thread::spawn(move || bio_ref.end(bio)));
            }
        }
        if case.failing != 0 {
            self.notes.lock().unwrap().knew = self.protocol().has_failed();
        }
        if case.submission_fails {
            self.fail(ERRNO_OF_SUBMISSION);
        }

        // SAFETY: `loom` checks that nobody else does.
        self.sealed
            .with_mut(|sealed| unsafe { (*sealed).written = true });
        let waiter = (case.wait != Wait::No).then_some(task);
        match self.protocol().seal(bio_refs, waiter) {
            AtSeal::Request => self.complete(0),
            AtSeal::Nothing => assert_eq!(case.wait, Wait::No, "nobody waits for it"),
            AtSeal::Waiting => {
                while !self.protocol().is_handed_back() {
                    match case.wait {
                        Wait::No => panic!("waits although it should not"),
                        Wait::Looks => thread::yield_now(),
                        Wait::Sleeps => self.wakeup.wait(),
                    }
                }
                self.complete(1);
            }
        }

        for thread in threads {
            thread.join().unwrap();
        }
        self.check();
    }

    /// Completes and frees the request, which the last bio has had `last_words` about.
    fn complete(&self, last_words: u32) {
        let owners = {
            let mut notes = self.notes.lock().unwrap();
            notes.owners += 1;
            notes.owners
        };
        assert_eq!(owners, 1, "the request was completed twice");

        for ended in &self.ended[..self.case.bios] {
            // SAFETY: `loom` checks that nobody else does.
            let ended = ended.with_mut(|ended| unsafe { *ended });
            assert!(ended, "completed before all bios had ended");
        }
        self.sealed.with_mut(|sealed| {
            // SAFETY: As above.
            let sealed = unsafe { &*sealed };
            assert!(sealed.written, "completed before it was sealed");
            assert_eq!(sealed.last_words, last_words, "last words");
        });
        let error = self.protocol().error();
        self.notes.lock().unwrap().error = error;
        // SAFETY: Nobody else uses the protocol any more, which `loom` checks.
        unsafe { ManuallyDrop::drop(&mut *self.protocol.get()) };
    }

    /// What has to be true in the end, all being quiet.
    fn check(&self) {
        let case = &self.case;
        let notes = self.notes.lock().unwrap();
        assert_eq!(notes.owners, 1, "the request was never completed");

        let mut possible: Vec<i32> = (0..case.bios)
            .filter(|&bio| case.fails(bio))
            .map(errno_of_bio)
            .collect();
        if case.submission_fails {
            possible.push(ERRNO_OF_SUBMISSION);
        }
        if possible.is_empty() {
            assert_eq!(notes.error, 0);
        } else {
            assert!(possible.contains(&notes.error), "an error was lost");
        }
        for &error in &notes.errors {
            assert_eq!(error, notes.error, "an error was replaced");
        }
        if notes.knew {
            assert_ne!(notes.error, 0);
            assert_ne!(notes.error, ERRNO_OF_SUBMISSION);
        }
        // What fails within the submission comes before all that is submitted later.
        let first = (0..case.bios).find(|&bio| case.fails(bio));
        if let Some(first) = first.filter(|&bio| case.ends_within(bio)) {
            assert_eq!(
                notes.error,
                errno_of_bio(first),
                "the first error did not win"
            );
        }
    }
}

/// Runs the models of some requests.
fn explore(cases: impl IntoIterator<Item = Case>) {
    let executions = Arc::new(AtomicUsize::new(0));
    for case in cases {
        let mut builder = Builder::new();
        // Whatever the environment says.
        builder.preemption_bound = None;
        builder.max_permutations = None;
        builder.max_duration = None;
        let counter = executions.clone();
        println!("{case:?}");
        builder.check(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            Arc::new(Request::new(case)).submit();
        });
    }
    // run.sh adds these up.
    println!("executions: {}", executions.load(Ordering::Relaxed));
}

/// Whatever ends when, one owner completes the request, and sees what all others did to it.
#[test]
fn one_owner() {
    explore((0..=BIOS).map(|bios| Case { bios, ..PLAIN }));
}

/// A task that waits gets the request back, once, and nobody looks at it after.
#[test]
fn waiter_gets_it_back() {
    explore((0..=BIOS).map(|bios| Case {
        bios,
        wait: Wait::Looks,
        ..PLAIN
    }));
}

/// As above, and no wakeup is lost.
#[test]
fn waiter_is_woken() {
    explore((0..=BIOS).map(|bios| Case {
        bios,
        wait: Wait::Sleeps,
        ..PLAIN
    }));
}

/// Bios that end while they are submitted do not end the request, in any mixture with others.
#[test]
fn ends_within_submission() {
    let mut cases = Vec::new();
    for wait in [Wait::No, Wait::Looks, Wait::Sleeps] {
        for bios in 1..=BIOS {
            for within in 1..1 << bios {
                cases.push(Case {
                    bios,
                    wait,
                    within,
                    ..PLAIN
                });
            }
        }
    }
    explore(cases);
}

/// The first error is the error of the request, among two bios and the submission.
#[test]
fn first_error_wins() {
    let mut cases = Vec::new();
    // How a task sleeps has nothing to do with errors.
    for wait in [Wait::No, Wait::Looks] {
        for failing in 0..1 << 2 {
            for within in 0..1 << 2 {
                for submission_fails in [false, true] {
                    // Half a million executions more, that differ only in what is seen of `waiter`.
                    if (FEW || wait != Wait::No) && within == 0 && failing == 0b11 && submission_fails {
                        continue;
                    }
                    cases.push(Case {
                        bios: 2,
                        wait,
                        within,
                        failing,
                        submission_fails,
                    });
                }
            }
        }
    }
    explore(cases);
}

/// A request of a single bio, which is what `bio_set.rs` does with its [`Handshake`].
struct Single {
    wait: Wait,
    handshake: std::cell::UnsafeCell<ManuallyDrop<Handshake>>,
    /// What the bio leaves behind, and what the submission does after it has submitted the bio.
    ended: UnsafeCell<bool>,
    submitted: UnsafeCell<bool>,
    wakeup: Notify,
    owners: AtomicUsize,
}

// SAFETY: As for `Request`.
unsafe impl Send for Single {}
// SAFETY: As above.
unsafe impl Sync for Single {}

impl Single {
    fn handshake(&self) -> &Handshake {
        // SAFETY: As in `Request::protocol`.
        unsafe { &*self.handshake.get() }
    }

    /// The end of the bio.
    fn end(&self) {
        // SAFETY: `loom` checks that nobody else does.
        self.ended.with_mut(|ended| unsafe { *ended = true });
        match self.handshake().end() {
            AtHandshake::Request => {
                assert_eq!(self.wait, Wait::No, "taken from who waits");
                self.complete();
            }
            AtHandshake::Nothing => {}
            AtHandshake::Awaited(waiter) => {
                assert_ne!(self.wait, Wait::No, "left to nobody");
                assert_eq!(waiter, task());
                self.handshake().hand_back();
                self.wakeup.notify();
            }
        }
    }

    /// The whole of a submission, whose bio ends within it or on another processor.
    fn submit(self: Arc<Self>, within: bool) {
        let bio = self.clone();
        let thread = if within {
            bio.end();
            None
        } else {
            Some(thread::spawn(move || bio.end()))
        };
        // SAFETY: `loom` checks that nobody else does.
        self.submitted.with_mut(|done| unsafe { *done = true });
        let ended = match self.wait {
            Wait::No => self.handshake().leave(),
            Wait::Looks | Wait::Sleeps => {
                if !self.handshake().has_ended() && !self.handshake().wait(task()) {
                    while !self.handshake().has_ended() {
                        match self.wait {
                            Wait::Sleeps => self.wakeup.wait(),
                            _ => thread::yield_now(),
                        }
                    }
                }
                true
            }
        };
        if ended {
            self.complete();
        }
        if let Some(thread) = thread {
            thread.join().unwrap();
        }
        assert_eq!(self.owners.load(Ordering::Relaxed), 1, "never completed");
    }

    fn complete(&self) {
        let owners = self.owners.fetch_add(1, Ordering::Relaxed) + 1;
        assert_eq!(owners, 1, "the request was completed twice");
        // SAFETY: `loom` checks that nobody else does.
        assert!(self.ended.with_mut(|ended| unsafe { *ended }), "completed before its bio");
        // SAFETY: As above.
        let submitted = self.submitted.with_mut(|done| unsafe { *done });
        assert!(submitted, "completed under the submission");
        // SAFETY: Nobody else uses it any more, which `loom` checks.
        unsafe { ManuallyDrop::drop(&mut *self.handshake.get()) };
    }
}

/// The submission and the bio shake hands: one of them completes the request, after the other.
#[test]
fn handshakes() {
    let executions = Arc::new(AtomicUsize::new(0));
    for wait in [Wait::No, Wait::Looks, Wait::Sleeps] {
        for within in [false, true] {
            println!("{wait:?} within={within}");
            let counter = executions.clone();
            loom::model(move || {
                counter.fetch_add(1, Ordering::Relaxed);
                let handshake = ManuallyDrop::new(Handshake::new());
                Arc::new(Single {
                    wait,
                    handshake: std::cell::UnsafeCell::new(handshake),
                    ended: UnsafeCell::new(false),
                    submitted: UnsafeCell::new(false),
                    wakeup: Notify::new(),
                    owners: AtomicUsize::new(0),
                })
                .submit(within);
            });
        }
    }
    println!("executions: {}", executions.load(Ordering::Relaxed));
}
