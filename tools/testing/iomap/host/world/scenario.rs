// SPDX-License-Identifier: GPL-2.0

//! Requests, what happens to them, and what has to come of them.

use crate::{
    bindings::*,
    direct_io,
    engine::{
        self,
        alloc,
        atomic,
        current,
        draw,
        execute,
        free,
        is_atomic,
        join,
        might_sleep,
        once_in,
        point,
        spawn,
        spin,
        step,
        was_seen,
        world, //
    },
    pin_init::zeroed, //
};
use std::{
    env,
    ffi::{
        c_int,
        c_long,
        c_uint, //
    },
    mem::offset_of,
    ptr,
    sync::{
        Arc,
        Mutex,
        Once, //
    },
    thread,
};

/// How a request is made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Entry {
    /// `iomap_dio_rw()`.
    #[default]
    Rw,
    /// `__iomap_dio_rw()` and `iomap_dio_complete()`.
    Split,
    /// `__iomap_dio_read_simple()`, and `iomap_dio_rw()` if that says so.
    Simple,
}

/// What the file system does with bios.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Part {
    #[default]
    None,
    /// It submits them as they are.
    Submits,
    /// It ends them later, in process context (`iomap_dio_bio_end_io()`).
    EndsLater,
    /// They are parts of ioends (`iomap_finish_ioend_direct()`).
    Ioends,
}

/// A request, and what it meets.
#[derive(Debug, Default)]
pub(crate) struct Case {
    entry: Entry,
    part: Part,
    write: bool,
    sync: bool,
    /// User memory.
    user: bool,
    iocb_flags: u32,
    dio_flags: u32,
    /// Mappings of so many blocks: type and flags.
    maps: Vec<(u64, u32, u32)>,
    /// Bytes of the first and of the last block that the request leaves out.
    around: (u64, u64),
    /// Of the device.
    features: u32,
    has_end_io: bool,
    has_iomap_end: bool,
    end_io_fails: bool,
    extends: bool,
    /// Somebody reads through the page cache meanwhile.
    cached: bool,
    /// The mapping that the file system refuses, with which error.
    refused: Option<(usize, c_int)>,
    /// The bio that cannot be filled, counted from one.
    pub(crate) fault: u32,
    pub(crate) no_memory: bool,
    pub(crate) bio_bytes: usize,
    pub(crate) fails_of_4: u64,
}

const BLOCK: u64 = 4096;
/// Where the first mapping begins.
const START: u64 = 16 * BLOCK;
const QUEUED: isize = -(EIOCBQUEUED as isize);

/// What has happened.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) begun: bool,
    pub(crate) bios: u32,
    /// That bios were submitted for, or zeroed.
    pub(crate) bytes: usize,
    pub(crate) all_fua: bool,
    /// Bios that were filled, or could not be.
    pub(crate) filled: u32,
    /// Of the bios that have failed: one of them is the result.
    pub(crate) errors: Vec<c_int>,
    /// Others that may be the result.
    pub(crate) perhaps: Vec<c_int>,
    pub(crate) invalidated: bool,
    pub(crate) flushed: bool,
    pub(crate) reports: u32,
    /// The file system has asked for the page cache.
    fell_back: bool,
    /// It was a simple read.
    simple: bool,
    /// Pages were cached when the last bio ended.
    pub(crate) cached_at_end: bool,
    file: Option<*mut Open>,
    /// Who has the file open.
    users: u32,
    /// What `->end_io` was told, and what it said.
    told: Option<(c_int, c_uint, c_int)>,
    /// What `ki_complete()` got.
    completed: Option<isize>,
    answered: Option<isize>,
}

pub(crate) fn facts<R>(f: impl FnOnce(&mut Facts) -> R) -> R {
    world(|w| f(&mut w.facts))
}

fn case<R>(f: impl FnOnce(&Case) -> R) -> R {
    world(|w| f(&w.case))
}

impl Case {
    fn has(&self, iocb_flag: u32) -> bool {
        self.iocb_flags & iocb_flag != 0
    }

    /// The end of mapping `n`.
    fn end_of(&self, n: usize) -> u64 {
        START + self.maps[..=n].iter().map(|map| map.0 * BLOCK).sum::<u64>()
    }

    fn pos(&self) -> u64 {
        START + self.around.0
    }

    fn bytes(&self) -> u64 {
        self.end_of(self.maps.len() - 1) - self.around.1 - self.pos()
    }

    /// The bytes that the request transfers if no bio fails.
    fn good(&self) -> u64 {
        match self.refused {
            Some((0, _)) => 0,
            Some((n, _)) => self.end_of(n - 1) - self.pos(),
            None => self.bytes(),
        }
    }

    /// Somebody else polls for the request.
    fn is_polled(&self) -> bool {
        self.has(IOCB_HIPRI) && !self.sync && self.dio_flags & IOMAP_DIO_FORCE_WAIT == 0
    }
}

/// A kind of requests: what they have in common, and steps that some of them must come to.
struct Kind {
    name: &'static str,
    shape: fn(&mut Case),
    must: &'static [&'static str],
}

const KINDS: [Kind; 8] = [
    Kind {
        name: "simple_reads",
        shape: |c| (c.entry, c.write, c.maps) = (Entry::Simple, false, vec![(1, IOMAP_MAPPED, 0)]),
        must: &["complete", "answer", "punt", "sleep", "wake", "dirty later", "report", "poll", "load"],
    },
    Kind {
        name: "single_bios",
        shape: |c| {
            c.maps = vec![(1 + draw(3), IOMAP_MAPPED, 0)];
            c.bio_bytes = 1 << 20;
        },
        must: &["complete", "answer", "punt", "sleep", "wake", "dirty later", "invalidate", "flush"],
    },
    Kind {
        name: "deferred_writes",
        shape: |c| {
            c.write = true;
            let kind = [IOMAP_UNWRITTEN, IOMAP_MAPPED][draw(2) as usize];
            let flags = [IOMAP_F_NEW, IOMAP_F_SHARED, IOMAP_F_DIRTY, 0][draw(4) as usize];
            c.maps = vec![(1 + draw(2), kind, flags)];
            c.iocb_flags |= [0, IOCB_DSYNC, IOCB_DSYNC | IOCB_SYNC][draw(3) as usize];
        },
        must: &["complete", "answer", "punt", "sleep", "wake", "invalidate", "flush", "cmpxchg"],
    },
    Kind {
        name: "several_bios",
        shape: |c| c.bio_bytes = BLOCK as usize,
        must: &["complete", "answer", "punt", "sleep", "wake", "fetch_sub", "report", "refuse"],
    },
    Kind {
        name: "bounced",
        shape: |c| {
            c.dio_flags |= IOMAP_DIO_BOUNCE;
            if !c.write {
                // The copy to the caller's memory takes process context.
                c.part = [Part::EndsLater, Part::Ioends][draw(2) as usize];
            }
        },
        must: &["complete", "answer", "punt", "sleep", "wake", "ioend"],
    },
    Kind {
        name: "polled",
        shape: |c| {
            c.iocb_flags |= IOCB_HIPRI;
            c.sync = once_in(8);
            c.maps.truncate(2);
        },
        must: &["complete", "answer", "punt", "poll", "wake"],
    },
    Kind {
        name: "file_systems_that_take_part",
        shape: |c| c.part = [Part::Submits, Part::EndsLater, Part::Ioends][draw(3) as usize],
        must: &["complete", "answer", "punt", "sleep", "wake", "ioend", "later"],
    },
    Kind {
        name: "split_calls",
        shape: |c| c.entry = Entry::Split,
        must: &["complete", "answer", "punt", "sleep", "wake"],
    },
];

/// Draws a request.
fn drawn(kind: &Kind) -> Case {
    let write = once_in(2);
    let mut case = Case {
        write,
        sync: once_in(4),
        user: once_in(2),
        iocb_flags: if once_in(8) { IOCB_HIPRI } else { 0 } | if once_in(8) { IOCB_DSYNC } else { 0 },
        dio_flags: if once_in(8) { IOMAP_DIO_FORCE_WAIT } else { 0 },
        maps: (0..1 + draw(3)).map(|_| (1 + draw(2), IOMAP_MAPPED, 0)).collect(),
        around: (if once_in(4) { 512 } else { 0 }, if once_in(4) { 1024 } else { 0 }),
        features: [0, BLK_FEAT_WRITE_CACHE, BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA][draw(3) as usize],
        has_end_io: !once_in(3),
        has_iomap_end: once_in(3),
        end_io_fails: once_in(16),
        extends: once_in(8),
        cached: once_in(4),
        fault: if once_in(8) { 1 + draw(3) as u32 } else { 0 },
        no_memory: once_in(16),
        bio_bytes: [BLOCK as usize, 1 << 20][draw(2) as usize],
        fails_of_4: draw(4).saturating_sub(1),
        ..Case::default()
    };
    for map in &mut case.maps {
        match draw(6) {
            0 => map.1 = if write { IOMAP_UNWRITTEN } else { IOMAP_HOLE },
            1 => map.1 = IOMAP_UNWRITTEN,
            2 if write => map.2 = IOMAP_F_NEW,
            _ => {}
        }
    }
    if once_in(6) {
        case.refused = Some((draw(case.maps.len() as u64) as usize, [-5, -15][draw(2) as usize]));
    }
    (kind.shape)(&mut case);
    case.refused = case.refused.filter(|r| r.0 < case.maps.len());
    case.has_end_io |= case.part != Part::None;
    if case.entry == Entry::Simple {
        case.iocb_flags |= if once_in(4) { IOCB_NOWAIT } else { 0 };
        (case.around, case.dio_flags) = ((0, 0), 0);
    }
    case
}

// --- The file system ---

unsafe extern "C" fn iomap_begin(
    _: *mut inode,
    pos: loff_t,
    _: loff_t,
    _: u32,
    map: *mut iomap,
    _: *mut iomap,
) -> c_int {
    might_sleep("iomap_begin()");
    point();
    let device = unsafe { &raw mut (*opened()).bdev };
    let maps = case(|c| c.maps.len());
    let n = (0..maps).find(|&n| (pos as u64) < case(|c| c.end_of(n))).unwrap();
    if let Some((_, error)) = case(|c| c.refused.filter(|r| r.0 == n)) {
        step("refuse", map, error as usize);
        facts(|f| match error {
            -15 => f.fell_back = true,
            _ => f.perhaps.push(error),
        });
        return error;
    }
    case(|c| {
        let (blocks, kind, flags) = c.maps[n];
        let offset = c.end_of(n) - blocks * BLOCK;
        // SAFETY: Required of the caller.
        unsafe {
            (*map).addr = offset + (1 << 20);
            (*map).offset = offset as i64;
            (*map).length = blocks * BLOCK;
            (*map).type_ = kind as u16;
            (*map).flags = flags as u16;
            (*map).bdev = device;
        }
    });
    0
}

unsafe extern "C" fn iomap_end(_: *mut inode, _: i64, _: i64, _: isize, _: u32, _: *mut iomap) -> c_int {
    might_sleep("iomap_end()");
    0
}

unsafe extern "C" fn end_io(iocb: *mut kiocb, size: isize, error: c_int, flags: c_uint) -> c_int {
    point();
    // SAFETY: The kiocb is there, and with it the file.
    let counted = unsafe { (*(*(*iocb).ki_filp).f_inode).i_dio_count };
    assert_eq!(counted, 1, "->end_io() after inode_dio_end()");
    no_bio_flies("->end_io()");
    if flags & (IOMAP_DIO_UNWRITTEN | IOMAP_DIO_COW) != 0 {
        might_sleep("conversion");
    }
    step("->end_io", iocb, size as usize);
    world(|w| {
        let says = if error == 0 && w.case.end_io_fails { -28 } else { error };
        assert_eq!(size as usize, w.facts.bytes, "the size that ->end_io() is told");
        let before = w.facts.told.replace((error, flags, says));
        assert!(before.is_none(), "->end_io() is called twice");
        says
    })
}

unsafe extern "C" fn submit_io(_: *const iomap_iter, bio: *mut bio, _: loff_t) {
    // SAFETY: The bio is complete, and given to us.
    unsafe {
        match case(|c| c.part) {
            Part::None | Part::Submits => {}
            Part::EndsLater => (*bio).bi_end_io = Some(end_later),
            Part::Ioends => (*bio).bi_end_io = Some(end_ioend),
        }
        submit_bio(bio);
    }
}

unsafe extern "C" fn end_later(bio: *mut bio) {
    step("later", bio, 0);
    // SAFETY: The bio has ended.
    spawn("endio", move || unsafe { direct_io::iomap_dio_bio_end_io(bio) });
    point();
}

unsafe extern "C" fn end_ioend(bio: *mut bio) {
    step("ioend", bio, 0);
    let ioend: *mut iomap_ioend = bio.wrapping_byte_sub(offset_of!(iomap_ioend, io_bio)).cast();
    // SAFETY: The bio set has room in front of its bios.
    spawn("ioends", move || unsafe {
        (*ioend).io_error = blk_status_to_errno((*bio).bi_status);
        direct_io::iomap_finish_ioend_direct(ioend);
    });
    point();
}

// --- Who makes the request, and who waits for it ---

/// What an open file is, and what belongs to its file system.
pub(crate) struct Open {
    file: file,
    inode: inode,
    pub(crate) mapping: address_space,
    sb: super_block,
    queue: request_queue,
    bdev: block_device,
    dops: iomap_dio_ops,
    set: bio_set,
}

/// What is there during a call.
struct Call {
    iter: iov_iter,
    ops: iomap_ops,
}

pub(crate) fn opened() -> *mut Open {
    facts(|f| f.file.unwrap())
}

/// Opens the file, for so many.
fn open(users: u32) -> *mut Open {
    let open: *mut Open = alloc("file", size_of::<Open>()).cast();
    // SAFETY: All of it is plain, and there is nobody else.
    let it = unsafe {
        open.write(zeroed());
        &mut *open
    };
    it.file.f_inode = &raw mut it.inode;
    it.file.f_mapping = &raw mut it.mapping;
    it.inode.i_sb = &raw mut it.sb;
    it.inode.i_blkbits = 12;
    it.bdev.bd_queue = &raw mut it.queue;
    it.queue.limits.logical_block_size = 512;
    it.set.front_pad = offset_of!(iomap_ioend, io_bio) as u32;
    case(|c| {
        it.inode.i_size = if c.extends && c.write { START as i64 } else { 1 << 30 };
        it.queue.limits.features = c.features;
        it.dops.end_io = c.has_end_io.then_some(end_io);
        if c.part != Part::None {
            it.dops.submit_io = Some(submit_io);
            it.dops.bio_set = &raw mut it.set;
        }
    });
    facts(|f| (f.file, f.users, f.all_fua) = (Some(open), users, true));
    open
}

/// The last user closes the file.
fn close() {
    if facts(|f| {
        f.users -= 1;
        f.users == 0
    }) {
        free("file", opened());
    }
}

/// The caller of the request has its result.
fn over(iocb: *mut kiocb, result: isize) {
    // SAFETY: The kiocb is there until now.
    let (counted, moved) = unsafe { ((*opened()).inode.i_dio_count, (*iocb).ki_pos as u64 - case(Case::pos)) };
    assert_eq!(counted, 0, "over while it counts in i_dio_count");
    assert!(result < 0 || moved == result as u64, "the position has moved by {moved} of {result}");
}

unsafe extern "C" fn ki_complete(iocb: *mut kiocb, result: c_long) {
    step("complete", iocb, result as usize);
    over(iocb, result as isize);
    // SAFETY: As above.
    assert!(unsafe { (*iocb).private.is_null() }, "a poller still finds the bio");
    let before = facts(|f| f.completed.replace(result as isize));
    assert!(before.is_none(), "completed twice");
    if !case(Case::is_polled) {
        free("kiocb", iocb);
        close();
    }
    point();
}

/// Polls until the request is over (`io_do_iopoll()`).
fn poll(iocb: *mut kiocb) {
    loop {
        let (completed, answered) = facts(|f| (f.completed, f.answered));
        if completed.is_some() {
            free("kiocb", iocb);
            close();
        }
        if completed.is_some() || answered.is_some_and(|answer| answer != QUEUED) {
            return;
        }
        // SAFETY: The kiocb is there.
        unsafe { iocb_bio_iopoll(iocb, ptr::null_mut(), 0) };
        spin();
    }
}

/// The task that makes the request, and exits.
fn submit(iocb: *mut kiocb) {
    let open = opened();
    let call: *mut Call = alloc("call", size_of::<Call>()).cast();
    let (entry, flags) = case(|c| (c.entry, c.dio_flags));
    // SAFETY: All is as the functions want it.
    let answer = unsafe {
        call.write(zeroed());
        case(|c| {
            let iter = &mut (*call).iter;
            iter.iter_type = if c.user { iter_type_ITER_UBUF } else { iter_type_ITER_KVEC } as u8;
            iter.data_source = c.write;
            iter.__bindgen_anon_1.__bindgen_anon_1.count = c.bytes() as usize;
            (*call).ops.iomap_begin = Some(iomap_begin);
            (*call).ops.iomap_end = c.has_iomap_end.then_some(iomap_end);
        });
        let (iter, ops, dops) = (&raw mut (*call).iter, &raw const (*call).ops, &raw const (*open).dops);
        let none = ptr::null_mut();
        match entry {
            Entry::Rw => direct_io::iomap_dio_rw(iocb, iter, ops, dops, flags, none, 0),
            Entry::Simple => match read_simple(iocb, iter) {
                -15 => direct_io::iomap_dio_rw(iocb, iter, ops, dops, flags, none, 0),
                answer => {
                    facts(|f| f.simple = true);
                    answer
                }
            },
            Entry::Split => {
                let dio = direct_io::__iomap_dio_rw(iocb, iter, ops, dops, flags, none, 0);
                match dio.addr() as isize {
                    answer @ -4095..=0 => answer,
                    _ => direct_io::iomap_dio_complete(dio),
                }
            }
        }
    };
    step("answer", iocb, answer as usize);
    free("call", call);
    facts(|f| f.answered = Some(answer));
    if answer == QUEUED {
        close();
    } else {
        over(iocb, answer);
    }
}

/// As the inline function of the C header.
unsafe fn read_simple(iocb: *mut kiocb, iter: *mut iov_iter) -> isize {
    // SAFETY: Required of the caller.
    unsafe {
        let inode = (*(*iocb).ki_filp).f_inode;
        let mut iomi: iomap_iter = zeroed();
        (iomi.inode, iomi.pos, iomi.len) = (inode, (*iocb).ki_pos, case(Case::bytes));
        iomi.flags = IOMAP_DIRECT | if case(|c| c.has(IOCB_NOWAIT)) { IOMAP_NOWAIT } else { 0 };
        inode_dio_begin(inode);
        let (map, src) = (&raw mut iomi.iomap, &raw mut iomi.srcmap);
        let ret = iomap_begin(inode, iomi.pos, iomi.len as i64, iomi.flags, map, src);
        if ret != 0 {
            inode_dio_end(inode);
            return ret as isize;
        }
        direct_io::__iomap_dio_read_simple(iocb, iter, &mut iomi)
    }
}

/// A schedule of a request.
fn run(seed: u64) {
    static INIT: Once = Once::new();
    // SAFETY: Once, and before all use.
    INIT.call_once(|| assert_eq!(unsafe { direct_io::iomap_dio_rust_init() }, 0));

    let drawn = drawn(&KINDS[seed as usize % KINDS.len()]);
    world(|w| w.case = drawn);
    let (polled, cached) = case(|c| (c.is_polled(), c.cached));
    let file = open(2 + u32::from(cached));
    let iocb: *mut kiocb = alloc("kiocb", size_of::<kiocb>()).cast();
    // SAFETY: All of it is plain, and there is nobody else.
    unsafe {
        iocb.write(zeroed());
        (*iocb).ki_filp = &raw mut (*file).file;
        case(|c| {
            (*iocb).ki_pos = c.pos() as i64;
            (*iocb).ki_flags = c.iocb_flags as i32;
            (*iocb).ki_complete = (!c.sync).then_some(ki_complete);
        });
    }
    spawn("submitter", move || submit(iocb));
    if polled {
        spawn("poller", move || poll(iocb));
    }
    if cached {
        spawn("reader", move || {
            point();
            // SAFETY: The file is open.
            unsafe { ((*file).mapping.i_pages.xa_head, (*file).mapping.nrpages) = (file.cast(), 1) };
            close();
        });
    }
    join();
    check();
}

/// What has to have come of the request.
fn check() {
    world(|w| {
        let (c, f) = (&w.case, &w.facts);
        let result = match (f.answered, f.completed) {
            (Some(QUEUED), Some(result)) => result,
            (Some(answer), None) if answer != QUEUED => answer,
            (answer, result) => panic!("the answer was {answer:?} and ki_complete() got {result:?}"),
        };
        if c.sync || c.dio_flags & IOMAP_DIO_FORCE_WAIT != 0 || f.fell_back {
            assert_ne!(f.answered, Some(QUEUED), "nobody has waited");
        }
        for object in &w.objects {
            let stays = (object.what == "file" || object.what == "kiocb") && f.completed.is_none();
            assert!(!object.live || stays, "{} is never freed", object.what);
        }

        let refused = f.perhaps.contains(&-12);
        let told = c.has_end_io && f.begun && !f.simple && !refused;
        assert_eq!(f.told.is_some(), told, "->end_io() was called");
        let (error, flags, says) = f.told.unwrap_or((result.min(0) as c_int, 0, result.min(0) as c_int));
        let possible = f.errors.contains(&error) || f.perhaps.contains(&error);
        assert!(possible || (error == 0 && f.errors.is_empty()), "the error {error}");
        let good = if says == 0 { c.good() as isize } else { says as isize };
        assert_eq!(result, good, "the result");
        if f.perhaps.is_empty() {
            assert_eq!(f.reports, u32::from(error != 0), "reports of an error");
        }
        if error != 0 || !c.write || result <= 0 {
            return;
        }
        for (n, map) in c.maps.iter().enumerate() {
            if told && c.refused.is_none_or(|r| n < r.0) {
                let wanted = if map.1 == IOMAP_UNWRITTEN { IOMAP_DIO_UNWRITTEN } else { 0 }
                    | if map.2 & IOMAP_F_SHARED != 0 { IOMAP_DIO_COW } else { 0 };
                assert_eq!(flags & wanted, wanted, "what ->end_io() has to convert");
            }
        }
        if c.has(IOCB_DSYNC | IOCB_SYNC) {
            assert!(f.flushed || (f.all_fua && !c.has(IOCB_SYNC)), "not stable");
        }
        assert!(f.invalidated || !f.cached_at_end, "the page cache has old data");
    });
}

/// Executes the schedules of a kind of requests, on two processors.
///
/// `SEED` is the first of `SCHEDULES` seeds, or the only one if there is no `SCHEDULES`.
fn explore(kind: usize) {
    let number = |name| env::var(name).ok().filter(|v| !v.is_empty()).map(|v| v.parse::<u64>().expect(name));
    let (first, many) = match (number("SEED"), number("SCHEDULES")) {
        (Some(seed), None) => (seed, 1),
        (seed, many) => (seed.unwrap_or(1), many.unwrap_or(100_000)),
    };
    let kinds = KINDS.len() as u64;
    let of_kind = move |seed: &u64| *seed % kinds == kind as u64;
    let left = Arc::new(Mutex::new(KINDS[kind].must.to_vec()));
    thread::scope(|scope| {
        for processor in 0..2 {
            let left = left.clone();
            scope.spawn(move || {
                let seeds = (first..first + many).filter(of_kind).filter(move |s| s / kinds % 2 == processor);
                execute(seeds, run, move || left.lock().unwrap().retain(|what| !was_seen(what)));
            });
        }
    });
    let done = (first..first + many).filter(of_kind).count();
    let left = left.lock().unwrap();
    assert!(done < 1000 || left.is_empty(), "in no schedule: {left:?}");
    // run.sh adds these numbers.
    println!("executions: {done}");
}

macro_rules! tests {
    ($($name:ident = $kind:literal,)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(KINDS[$kind].name, stringify!($name));
            explore($kind);
        })*
    };
}

tests! {
    simple_reads = 0,
    single_bios = 1,
    deferred_writes = 2,
    several_bios = 3,
    bounced = 4,
    polled = 5,
    file_systems_that_take_part = 6,
    split_calls = 7,
}
