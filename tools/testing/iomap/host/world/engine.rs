// SPDX-License-Identifier: GPL-2.0

//! What executes a schedule: threads, the points at which they are switched, and memory that traps.
//!
//! Everything in a schedule follows from its seed: the order of the threads and what the world
//! draws. Each object has a page of its own, which nobody can access once the object is freed, so any
//! access afterwards is seen, also by code that calls nothing of this.

use crate::{
    bindings::task_struct,
    scenario::{Case, Facts},
    types::NotThreadSafe,
};
use shuttle::{
    scheduler::{Schedule, Scheduler, Task, TaskId},
    thread::{self, JoinHandle, Thread},
};
use std::{
    alloc::Layout,
    cell::RefCell,
    ffi::c_int,
    fmt::Write as _,
    io::Write as _,
    mem::{self, take},
    panic, process,
    ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut},
    sync::{Mutex, Once},
};

const PAGE: usize = 4096;
/// The most objects of a schedule.
const PAGES: usize = 640;
/// A schedule with more steps does not come to an end.
const MOST_STEPS: usize = 400_000;

/// Where a bio is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Flight {
    Grounded,
    Flying,
    /// It ends when somebody polls for it.
    Polled,
    Ended,
}

/// An object, which has a page.
pub(crate) struct Object {
    pub(crate) what: &'static str,
    pub(crate) live: bool,
    /// If it is a bio.
    pub(crate) flight: Flight,
    /// For which request it was allocated.
    pub(crate) request: usize,
}

impl Object {
    /// A bio goes on, if it was there.
    pub(crate) fn goes(&mut self, from: Flight, to: Flight) -> bool {
        assert_eq!(self.what, "bio");
        self.flight == from && mem::replace(&mut self.flight, to) == from
    }
}

/// What a thread of the world is.
#[derive(Default)]
struct Context {
    name: &'static str,
    /// The request that it does something for.
    request: usize,
    /// Those that it ends afterwards, of which it does not say which one is next.
    others: Vec<usize>,
    /// What it works for, if it is a worker.
    worker_of: Option<usize>,
    /// Where its work item is, if it is a worker.
    work: Option<usize>,
    /// The requests that it has ended, and how often it has flushed.
    ended: Vec<usize>,
    flushed: usize,
    /// Interrupts and sections that may not sleep.
    atomic: u32,
    /// It has copied data to the caller's memory, and no barrier has come after that.
    copied: bool,
    task: Option<(*mut task_struct, Thread)>,
}

/// The state of a schedule.
#[derive(Default)]
pub(crate) struct World {
    seed: u64,
    random: u64,
    /// The pages, from the first schedule of a thread of the host on.
    memory: usize,
    pub(crate) objects: Vec<Object>,
    steps: Vec<(usize, &'static str, usize, usize)>,
    contexts: Vec<Context>,
    threads: Vec<JoinHandle<()>>,
    /// RCU read-side sections, and what is freed when there is none.
    readers: u32,
    rcu: Vec<usize>,
    /// The current thread has nothing to do.
    spins: bool,
    /// How many times in eight a thread goes on; eight stands for priorities.
    stays: u64,
    priorities: Vec<u64>,
    /// The points at which the current thread gets the lowest priority.
    changes: Vec<u64>,
    at: u64,
    pub(crate) requests: Vec<(Case, Facts)>,
}

std::thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

/// Looks at the world. `f` comes to no point.
pub(crate) fn world<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with(|world| f(&mut world.borrow_mut()))
}

/// A number below `n`.
pub(crate) fn draw(n: u64) -> u64 {
    world(|w| w.draw(n))
}

/// True once in `n` times.
pub(crate) fn once_in(n: u64) -> bool {
    draw(n) == 0
}

/// Another thread may run.
pub(crate) fn point() {
    thread::yield_now();
}

/// Other threads run, because this one has nothing to do before they have.
pub(crate) fn spin() {
    world(|w| w.spins = true);
    point();
}

/// Notes what the current thread does, for who reads of a failure. Who does something with a kiocb turns
/// to its request.
pub(crate) fn step<T: ?Sized>(what: &'static str, object: *const T, value: usize) {
    let (me, at) = (me(), object.cast::<u8>().addr());
    let request = world(|w| {
        w.steps.push((me, what, at, value));
        let object = w.objects.get(at.wrapping_sub(w.memory) / PAGE);
        object.filter(|o| o.what == "kiocb").map(|o| o.request)
    });
    if let Some(request) = request {
        turn_to(request);
    }
}

/// A value of at most a word, for a step.
pub(crate) fn word<T: Copy>(value: T) -> usize {
    let mut word = [0; size_of::<usize>()];
    // SAFETY: All values here are plain. None is larger.
    unsafe { word.as_mut_ptr().cast::<T>().write_unaligned(value) };
    usize::from_ne_bytes(word)
}

/// Looks at what a value points at, if that is an object.
pub(crate) fn look<T: Copy>(value: T) {
    let at = with_exposed_provenance::<u8>(word(value));
    point();
    if world(|w| at.addr().wrapping_sub(w.memory) < w.objects.len() * PAGE) {
        // SAFETY: The page is there, if the object is.
        unsafe { at.read_volatile() };
    }
}

/// Whether a step of this name was made.
pub(crate) fn was_made(what: &str) -> bool {
    world(|w| w.steps.iter().any(|step| step.1 == what))
}

// --- Threads ---

fn me() -> usize {
    shuttle::current::get_current_task().map_or(0, usize::from)
}

fn context<R>(f: impl FnOnce(&mut Context) -> R) -> R {
    let me = me();
    world(|w| {
        if w.contexts.len() <= me {
            w.contexts.resize_with(me + 1, Context::default);
        }
        f(&mut w.contexts[me])
    })
}

/// The name of the current thread.
pub(crate) fn by() -> &'static str {
    context(|c| c.name)
}

/// The request that the current thread does something for.
pub(crate) fn request() -> usize {
    context(|c| c.request)
}

/// The current thread does something for another request.
pub(crate) fn turn_to(request: usize) {
    context(|c| c.request = request);
}

/// The current thread ends these requests after the one that it does something for.
pub(crate) fn others_follow(requests: &[usize]) {
    context(|c| c.others = requests.iter().rev().copied().collect());
}

/// The current thread ends the next of them, if there is one.
pub(crate) fn turn_to_next() -> bool {
    context(|c| c.others.pop().map(|next| c.request = next).is_some())
}

/// What the current thread works for from now on, if it is a worker. Returns what it was before.
pub(crate) fn worker_of(what: Option<usize>) -> Option<usize> {
    context(|c| {
        let is_worker = c.name == "worker";
        mem::replace(&mut c.worker_of, what.filter(|_| is_worker))
    })
}

/// Starts a thread in process context, for the same request.
pub(crate) fn spawn(name: &'static str, f: impl FnOnce() + 'static) {
    struct Sent<F>(F);
    // SAFETY: All threads of a schedule are one thread of the host.
    unsafe impl<F> Send for Sent<F> {}

    let (f, request) = (Sent(f), request());
    let thread = thread::spawn(move || {
        let f = f;
        context(|c| (c.name, c.request) = (name, request));
        (f.0)();
        if let Some((task, _)) = context(|c| c.task.take()) {
            // SAFETY: The task is there until it is freed.
            assert_eq!(unsafe { (*task).__state }, 0, "the state was not set back");
            free_rcu(task);
        }
    });
    world(|w| w.threads.push(thread));
}

/// Waits for all threads.
pub(crate) fn join() {
    while let Some(thread) = world(|w| w.threads.pop()) {
        thread.join().unwrap();
    }
}

/// Executes `f` where nothing may sleep.
pub(crate) fn atomic<R>(f: impl FnOnce() -> R) -> R {
    context(|c| c.atomic += 1);
    let result = f();
    context(|c| c.atomic -= 1);
    result
}

pub(crate) fn is_atomic() -> bool {
    context(|c| c.atomic > 0)
}

/// The current thread executes a work item, which is in an object.
pub(crate) fn runs<T>(work: *mut T) {
    context(|c| c.work = Some(work.addr()));
}

/// The current thread ends one more request. Returns how many it has.
pub(crate) fn ends() -> usize {
    context(|c| {
        c.ended.push(c.request);
        c.ended.len()
    })
}

/// The current thread has copied data, or others see what it has copied. Returns what it said before.
pub(crate) fn has_copied(now: bool) -> bool {
    context(|c| mem::replace(&mut c.copied, now))
}

/// The requests that the current thread has ended.
pub(crate) fn ended() -> Vec<usize> {
    context(|c| c.ended.clone())
}

/// The current thread flushes once more. Returns how often it has.
pub(crate) fn flushed() -> usize {
    context(|c| {
        c.flushed += 1;
        c.flushed
    })
}

/// The caller is about to do what may sleep.
pub(crate) fn might_sleep(what: &str) {
    let (atomic, work) = context(|c| (c.atomic, c.work));
    assert_eq!(atomic, 0, "{what} where nothing may sleep");
    // A work item at the same address waits for the worker.
    let live =
        work.is_none_or(|at| world(|w| w.object(with_exposed_provenance_mut::<u8>(at)).live));
    assert!(
        live,
        "{what} while the memory of the work item may be that of another"
    );
}

/// The current task (`current`).
pub(crate) fn current() -> *mut task_struct {
    if let Some(task) = context(|c| c.task.as_ref().map(|t| t.0)) {
        return task;
    }
    let task: *mut task_struct = alloc_zeroed("task");
    context(|c| c.task = Some((task, thread::current())));
    task
}

/// Wakes the thread of a task.
pub(crate) fn unpark(task: *mut task_struct) {
    let find = |c: &Context| c.task.as_ref().filter(|t| t.0 == task).map(|t| t.1.clone());
    if let Some(thread) = world(|w| w.contexts.iter().find_map(find)) {
        thread.unpark();
    }
}

// --- Memory ---

/// Allocates an object, of which nothing is initialised.
pub(crate) fn alloc(what: &'static str, size: usize) -> *mut u8 {
    assert!(size <= PAGE);
    let request = request();
    let memory = world(|w| {
        assert!(w.objects.len() < PAGES, "more than {PAGES} objects");
        let (live, flight) = (true, Flight::Grounded);
        w.objects.push(Object {
            what,
            live,
            flight,
            request,
        });
        with_exposed_provenance_mut::<u8>(w.memory + (w.objects.len() - 1) * PAGE)
    });
    // SAFETY: The page is there, and nobody uses it.
    unsafe { memory.write_bytes(0xa5, size) };
    step("alloc", memory, 0);
    memory
}

/// Allocates an object of zeroes.
pub(crate) fn alloc_zeroed<T>(what: &'static str) -> *mut T {
    let object: *mut T = alloc(what, size_of::<T>()).cast();
    // SAFETY: Just allocated.
    unsafe { object.write(crate::pin_init::zeroed()) };
    object
}

impl World {
    /// The object that an address is in.
    pub(crate) fn object<T>(&mut self, at: *mut T) -> &mut Object {
        let page = at.addr().wrapping_sub(self.memory) / PAGE;
        self.objects.get_mut(page).expect("no object")
    }
}

/// Frees an object: from now on every access is seen.
pub(crate) fn free<T>(what: &str, at: *mut T) {
    step("free", at, 0);
    world(|w| {
        let object = w.object(at);
        assert_eq!(object.what, what, "freed as something else");
        assert!(take(&mut object.live), "{what} is freed twice");
    });
    let whole = what == "bio" || at.addr() % PAGE == 0;
    assert!(whole, "{what} is freed in the middle");
    protect(at.addr() / PAGE * PAGE, PAGE, libc::PROT_NONE);
}

/// Frees an object when nobody is in a read-side section that has begun before.
fn free_rcu<T>(at: *mut T) {
    if world(|w| w.readers == 0) {
        free("task", at);
    } else {
        world(|w| w.rcu.push(at.expose_provenance()));
    }
}

/// A read-side section of RCU.
pub(crate) struct Guard(NotThreadSafe);

/// Begins a read-side section.
pub(crate) fn read_lock() -> Guard {
    point();
    context(|c| c.atomic += 1);
    world(|w| w.readers += 1);
    Guard(NotThreadSafe)
}

impl Drop for Guard {
    fn drop(&mut self) {
        context(|c| c.atomic -= 1);
        world(|w| w.readers -= 1);
        if world(|w| w.readers == 0) {
            for at in world(|w| take(&mut w.rcu)) {
                free("task", with_exposed_provenance_mut::<u8>(at));
            }
        }
        point();
    }
}

/// Says who may access pages.
fn protect(at: usize, size: usize, access: c_int) {
    // SAFETY: The pages are ours, and nobody uses them who may not.
    let ret = unsafe { libc::mprotect(with_exposed_provenance_mut(at), size, access) };
    assert_eq!(ret, 0, "mprotect() at {at:#x}");
}

// --- Schedules ---

/// Executes a schedule for each seed.
struct Seeds<I>(I);

impl<I: Iterator<Item = u64>> Scheduler for Seeds<I> {
    fn new_execution(&mut self) -> Option<Schedule> {
        let seed = self.0.next()?;
        world(|w| w.begin(seed));
        Some(Schedule::new(seed))
    }

    fn next_task(&mut self, all: &[&Task], current: Option<TaskId>, _: bool) -> Option<TaskId> {
        // A parked thread is woken by nobody but the world.
        let ready = all.iter().filter(|thread| thread.runnable());
        let ready: Vec<_> = ready.map(|thread| thread.id().into()).collect();
        Some(world(|w| w.choose(&ready, current.map(usize::from))).into())
    }

    fn next_u64(&mut self) -> u64 {
        draw(u64::MAX)
    }
}

impl World {
    fn begin(&mut self, seed: u64) {
        let layout = Layout::from_size_align(PAGE * PAGES, PAGE).unwrap();
        if self.memory == 0 {
            // SAFETY: The layout has a size.
            self.memory = unsafe { std::alloc::alloc(layout) }.expose_provenance();
        }
        protect(
            self.memory,
            layout.size(),
            libc::PROT_READ | libc::PROT_WRITE,
        );
        let (memory, random) = (self.memory, seed);
        *self = World {
            seed,
            random,
            memory,
            requests: vec![Default::default()],
            ..World::default()
        };
        self.stays = [0, 4, 7, 8][self.draw(4) as usize];
        let (depth, steps) = (self.draw(5), 32 << self.draw(6));
        self.changes = (0..depth).map(|_| self.draw(steps)).collect();
    }

    /// The thread that runs next: at random, or by priorities that change at random points (PCT).
    fn choose(&mut self, ready: &[usize], current: Option<usize>) -> usize {
        self.at += 1;
        let goes_back = take(&mut self.spins) || self.changes.contains(&self.at);
        let goes_on = !goes_back && self.draw(8) < self.stays % 8;
        if let Some(current) = current.filter(|current| goes_on && ready.contains(current)) {
            return current;
        }
        if self.stays < 8 {
            return ready[self.draw(ready.len() as u64) as usize];
        }
        while self.priorities.len() <= ready.iter().copied().max().max(current).unwrap() {
            let priority = u64::MAX - self.draw(1 << 32);
            self.priorities.push(priority);
        }
        if let Some(current) = current.filter(|_| goes_back) {
            self.priorities[current] = u64::MAX / 2 - self.at;
        }
        *ready
            .iter()
            .max_by_key(|&&thread| self.priorities[thread])
            .unwrap()
    }

    /// SplitMix64, below `n`.
    fn draw(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Executes a schedule of `run` for each seed.
pub(crate) fn execute(
    seeds: impl Iterator<Item = u64> + 'static,
    run: impl Fn() + Send + Sync + 'static,
) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // Much of what panics is called by C, so nothing can be unwound, and nothing is.
        panic::set_hook(Box::new(|what| fail(&what.to_string())));
        // SAFETY: The handler is one.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = trapped as extern "C" fn(_, _, _) as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGSEGV, &action, null_mut());
        }
    });
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 17;
    config.failure_persistence = shuttle::FailurePersistence::None;
    config.max_steps = shuttle::MaxSteps::FailAfter(MOST_STEPS);
    shuttle::Runner::new(Seeds(seeds), config).run(run);
}

/// What is at an address, or a number.
fn name(w: &World, at: usize) -> String {
    match at.checked_sub(w.memory).map(|at| (at / PAGE, at % PAGE)) {
        Some((page, rest)) if page < w.objects.len() => match rest {
            0 => format!("{}-{page}", w.objects[page].what),
            _ => format!("{}-{page}+{rest}", w.objects[page].what),
        },
        _ => format!("{:#x}", at as isize),
    }
}

/// Memory was accessed that is not there.
extern "C" fn trapped(_: i32, info: &libc::siginfo_t, _: usize) {
    // SAFETY: A trap says where.
    let at = unsafe { info.si_addr() }.addr();
    // SAFETY: No other thread of the host has it, and this one does not go on.
    let what = WORLD.with(|w| name(unsafe { &*w.as_ptr() }, at));
    let what = format!("{what} is accessed, which is not there");
    fail(&format!("panicked at an access:\n{what}"));
}

/// Says what has happened, with the seed and the steps, and ends the process.
fn fail(what: &str) -> ! {
    static ONE: Mutex<()> = Mutex::new(());
    mem::forget(ONE.lock());
    // SAFETY: As above.
    let w = WORLD.with(|w| unsafe { &*w.as_ptr() });
    let (first, rest) = what.split_once('\n').unwrap_or((what, ""));
    let (rest, seed) = (rest.replace('\n', " "), w.seed);
    let mut out = format!("\n{first}\n{rest} (SEED={seed})\n");
    for (case, _) in &w.requests {
        let _ = writeln!(out, "{case:?}");
    }
    for &(thread, what, object, value) in &w.steps {
        let thread = w.contexts.get(thread).map_or("", |c| c.name);
        let (object, value) = (name(w, object), name(w, value));
        let _ = writeln!(out, "  {thread:<10} {what} {object} {value}");
    }
    // Not what the test harness captures.
    let _ = std::io::stderr().write_all(out.as_bytes());
    process::exit(101);
}
