// SPDX-License-Identifier: GPL-2.0

//! Requests, what happens to them, and what has to come of them.

use crate::{bindings::*, direct_io, engine::*, pin_init::zeroed};
use std::{
    env,
    ffi::{c_int, c_long, c_uint},
    mem::offset_of,
    ptr::{null, null_mut},
    sync::{Arc, Mutex, Once},
    thread,
};

const BLOCK: u64 = 4096;
/// Where the first mapping begins.
const START: u64 = 16 * BLOCK;
const QUEUED: isize = -(EIOCBQUEUED as isize);

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
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    entry: Entry,
    part: Part,
    /// It takes no part in bounced reads that are copied in any context.
    pub(crate) inline: bool,
    write: bool,
    sync: bool,
    pub(crate) user_memory: bool,
    iocb_flags: u32,
    /// The inode wants all writes to be stable (`S_SYNC`), but only until this one is submitted.
    pub(crate) was_sync: bool,
    dio_flags: u32,
    /// The mappings: blocks, type and flags.
    maps: Vec<(u64, u32, u32)>,
    /// Bytes of the first and of the last block that the request leaves out.
    around: (u64, u64),
    /// Of the device.
    features: u32,
    /// It takes requests, not bios.
    queues: bool,
    /// The most sectors and vectors that it takes at once, the sectors of a chunk, and what memory must not cross.
    limits: (u32, u16, u32, u64),
    /// Its physical block, and the longest piece of memory that is certainly one segment (bytes).
    sizes: (u32, u32),
    /// The sector of the disk that it begins with.
    partition: u64,
    pub(crate) has_end_io: bool,
    pub(crate) has_iomap_end: bool,
    end_io_fails: bool,
    /// Conversions in the first inode wait until no request to the other one is left.
    short_of_space: bool,
    extends: bool,
    /// Somebody reads through the page cache meanwhile.
    cached: bool,
    /// Somebody polls already during the call.
    polled_early: bool,
    /// The mapping that the file system refuses, and the error.
    refused: Option<(usize, c_int)>,
    /// The bio that cannot be filled, counted from one.
    pub(crate) fault: u32,
    pub(crate) no_memory: bool,
    pub(crate) bio_bytes: usize,
    pub(crate) fails_of_4: u64,
    /// Bytes between the start of the file and the first mapping.
    start: u64,
    /// To which of two inodes the request is, and by which of its files.
    file: usize,
    other_file: bool,
    /// With which of two tables of callbacks.
    other_ops: bool,
    /// Somebody truncates the file meanwhile.
    truncated: bool,
    /// So many requests are made at the same time.
    pub(crate) many: u64,
    /// They are alike, and follow each other.
    alike: bool,
}

/// What has happened.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) begun: bool,
    pub(crate) bios: u32,
    /// Bios that were filled, or could not be.
    pub(crate) filled: u32,
    /// That bios were submitted for, or zeroed.
    pub(crate) bytes: usize,
    pub(crate) all_fua: bool,
    /// Of the bios that have failed: one of them is the result.
    pub(crate) errors: Vec<c_int>,
    /// One of them was recorded.
    pub(crate) settled: bool,
    /// Others that may be the result.
    pub(crate) perhaps: Vec<c_int>,
    pub(crate) invalidated: bool,
    pub(crate) flushed: bool,
    /// The flush has failed.
    flush_fails: bool,
    pub(crate) reports: u32,
    /// The page of the file that was cached when the last bio ended.
    pub(crate) cached_at_end: Option<u64>,
    /// The file system wants the rest to go through the page cache.
    fell_back: bool,
    /// There was no memory for a bio without waiting.
    pub(crate) no_bio: bool,
    /// It was a simple read.
    pub(crate) simple: bool,
    file: Option<*mut Open>,
    iocb: Option<*mut kiocb>,
    /// It counts in `i_dio_count`.
    pub(crate) counts: bool,
    /// What `->end_io` was told, and what it said.
    pub(crate) told: Option<(c_int, c_uint, c_int)>,
    /// It has failed to hear of this and others together.
    failed_together: bool,
    /// What `ki_complete()` got, and what the call returned.
    completed: Option<isize>,
    answered: Option<isize>,
}

/// What has happened to the request of the current thread.
pub(crate) fn facts<R>(f: impl FnOnce(&mut Facts) -> R) -> R {
    let request = request();
    world(|w| f(&mut w.requests[request].1))
}

/// What the request of the current thread is like.
pub(crate) fn case<R>(f: impl FnOnce(&Case) -> R) -> R {
    let request = request();
    world(|w| f(&w.requests[request].0))
}

/// The request that has a property.
fn find(has: impl Fn(&Case, &Facts) -> bool) -> Option<usize> {
    world(|w| w.requests.iter().position(|(c, f)| has(c, f)))
}

/// The request that begins at a byte of a file.
pub(crate) unsafe fn request_at(inode: *mut inode, pos: u64) -> usize {
    let file: *mut Open = inode.wrapping_byte_sub(offset_of!(Open, inode)).cast();
    find(|c, f| f.file == Some(file) && c.pos() == pos)
        .unwrap_or_else(|| panic!("no request at {pos}"))
}

/// The requests to a file of which a bio is on its way.
pub(crate) unsafe fn in_flight(inode: *mut inode) -> c_int {
    let file: *mut Open = inode.wrapping_byte_sub(offset_of!(Open, inode)).cast();
    world(|w| {
        let flies = |o: &Object| matches!(o.flight, Flight::Flying | Flight::Polled);
        let of = |n: usize| w.objects.iter().any(|o| o.request == n && flies(o));
        let to_file = |n: &usize| w.requests[*n].1.file == Some(file) && of(*n);
        (0..w.requests.len()).filter(to_file).count() as c_int
    })
}

/// A flush begins for the request of the current thread, and for others in these bytes of the file that
/// have come as far: those of the same open file that ask for the same.
pub(crate) unsafe fn flushes(end: u64, len: u64, fails: bool) {
    let (me, file, mut together) = (request(), opened(), 0);
    let kind = |c: &Case| (c.other_file, c.has(IOCB_SYNC), c.has(IOCB_DSYNC));
    let (mine, range) = (case(kind), end - len..end);
    let (mut others_pages, mut theirs, ended) = (vec![], vec![], ended());
    world(|w| {
        assert!(!w.requests[me].1.counts, "flush before inode_dio_end()");
        for (n, (c, f)) in w.requests.iter_mut().enumerate() {
            let there = f.file == Some(file) && range.contains(&c.pos());
            // Too late for who was told that it is stable.
            let waits = f.completed.is_none() && f.answered.is_none_or(|answer| answer == QUEUED);
            if there && kind(c) == mine && f.begun && !f.counts {
                together += 1;
                f.flushed |= waits;
                theirs.push(c.pos()..c.pos() + f.bytes as u64);
                if ended.contains(&n) {
                    // What has failed is not flushed.
                    f.flush_fails |= fails && f.errors.is_empty();
                    others_pages.extend(f.cached_at_end.filter(|at| range.contains(at)));
                }
            }
        }
    });
    others_pages.retain(|at| !theirs.iter().any(|own| own.contains(at)));
    assert!(
        others_pages.is_empty(),
        "a flush of pages that no write has"
    );
    if together > 1 {
        let what = ["flush together", "fail together"][usize::from(fails)];
        step(what, file, together);
    }
}

impl Case {
    pub(crate) fn has(&self, iocb_flag: u32) -> bool {
        self.iocb_flags & iocb_flag != 0
    }

    /// Where the mappings before `n` end.
    fn end_of(&self, n: usize) -> u64 {
        self.start + self.maps[..n].iter().map(|map| map.0 * BLOCK).sum::<u64>()
    }

    pub(crate) fn pos(&self) -> u64 {
        self.start + self.around.0
    }

    /// The bytes in the mappings before `n`.
    fn bytes(&self, n: usize) -> u64 {
        let end = self.end_of(self.maps.len()) - self.around.1;
        end.min(self.end_of(n)).saturating_sub(self.pos())
    }

    /// Bios are not over when the device has done with them.
    pub(crate) fn ends_later(&self) -> bool {
        matches!(self.part, Part::EndsLater | Part::Ioends)
    }

    /// The pages that it reads to have to be dirtied.
    pub(crate) fn is_dirtied(&self) -> bool {
        self.user_memory && !self.write
    }

    /// Through bounce buffers.
    pub(crate) fn is_bounced(&self) -> bool {
        self.dio_flags & IOMAP_DIO_BOUNCE != 0
    }

    /// Somebody else polls for the request.
    fn is_polled(&self) -> bool {
        self.has(IOCB_HIPRI) && !self.sync && self.dio_flags & IOMAP_DIO_FORCE_WAIT == 0
    }
}

fn pick<T: Copy>(of: &[T]) -> T {
    of[draw(of.len() as u64) as usize]
}

/// A flag once in so many times.
fn flag(n: u64, flag: u32) -> u32 {
    u32::from(once_in(n)) * flag
}

/// Draws a request of a kind.
fn drawn(kind: fn(&mut Case)) -> Case {
    let write = once_in(2);
    let mut c = Case {
        write,
        sync: once_in(4),
        user_memory: once_in(2),
        iocb_flags: flag(8, IOCB_HIPRI) | flag(8, IOCB_DSYNC) | flag(4, IOCB_NOWAIT),
        dio_flags: flag(8, IOMAP_DIO_FORCE_WAIT),
        around: (pick(&[0, 0, 512]), pick(&[0, 0, 1024])),
        features: pick(&[0, BLK_FEAT_WRITE_CACHE, BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA])
            | pick(&[
                0,
                BLK_FEAT_NOWAIT,
                BLK_FEAT_NOWAIT,
                BLK_FEAT_NOWAIT | BLK_FEAT_ZONED,
            ]),
        queues: once_in(2),
        limits: (
            pick(&[8, 2048]),
            pick(&[1, 4, 128]),
            pick(&[0, 0, 12, 20]),
            pick(&[0, 0, BLOCK - 1]),
        ),
        sizes: (pick(&[512, 4096]), pick(&[4096, 4096, 1024])),
        partition: pick(&[0, 4]),
        has_end_io: !once_in(3),
        has_iomap_end: once_in(3),
        end_io_fails: once_in(16),
        extends: write && once_in(8),
        cached: once_in(4),
        polled_early: once_in(2),
        fault: pick(&[0, 0, 0, 0, 0, 1, 2, 3]),
        no_memory: once_in(16),
        bio_bytes: pick(&[BLOCK as usize / 2, BLOCK as usize, 1 << 20]),
        fails_of_4: pick(&[0, 0, 1, 2]),
        start: START,
        many: 1,
        ..Case::default()
    };
    let special = if write { IOMAP_UNWRITTEN } else { IOMAP_HOLE };
    let kinds = [IOMAP_MAPPED, IOMAP_MAPPED, IOMAP_UNWRITTEN, special];
    for _ in 0..1 + draw(3) {
        let new = flag(8, u32::from(write) * IOMAP_F_NEW);
        c.maps.push((1 + draw(2), pick(&kinds), new));
    }
    kind(&mut c);
    if once_in(6) {
        c.refused = Some((draw(c.maps.len() as u64) as usize, pick(&[-5, -15])));
    }
    c.has_end_io |= c.part != Part::None;
    if c.entry == Entry::Simple {
        (c.around, c.dio_flags, c.extends) = ((0, 0), 0, false);
    }
    c
}

/// What has to hold.
macro_rules! wants {
    ($($holds:expr => $($what:expr),*;)*) => { $(assert!($holds, $($what),*);)* };
}

/// A worker completes requests of one inode: others would wait for them.
fn one_file_only() {
    let file = facts(|f| f.file.map(|file| file.addr()));
    let before = worker_of(file);
    assert!(
        before.is_none() || before == file,
        "a worker for two inodes"
    );
}

/// The requests that `->end_io()` is told of, from that of the current thread on, by their bytes. None of
/// their bios is on its way.
fn run_of(size: usize) -> Vec<usize> {
    let (file, mut end, mut bytes, mut run) = (opened(), case(Case::pos), 0, vec![]);
    while bytes < size || run.is_empty() {
        let next = find(|c, f| f.file == Some(file) && c.pos() == end && f.told.is_none());
        let next = next.expect("->end_io() is told of more than there is");
        let more = world(|w| w.requests[next].1.bytes);
        (end, bytes) = (end + more as u64, bytes + more);
        run.push(next);
    }
    let others = world(|w| {
        run.iter()
            .any(|&n| w.requests[n].0.other_ops != w.requests[run[0]].0.other_ops)
    });
    assert!(!others, "->end_io() is told of what has other callbacks");
    assert_eq!(bytes, size, "->end_io() is told {size} bytes");
    let flies = |o: &Object| {
        run.contains(&o.request) && matches!(o.flight, Flight::Flying | Flight::Polled)
    };
    let flying = world(|w| w.objects.iter().any(flies));
    assert!(!flying, "->end_io() while a bio is in flight");
    run
}

// The file system.
functions! {
    sleep fn iomap_begin(_: *mut inode, pos: i64, _: i64, _: u32, map: *mut iomap, _: *mut iomap) -> c_int {
        let n = case(|c| (0..).find(|&n| (pos as u64) < c.end_of(n + 1)).unwrap());
        if let Some((_, error)) = case(|c| c.refused.filter(|refused| refused.0 == n)) {
            step("refuse", map, error as usize);
            facts(|f| match error {
                -15 => f.fell_back = true,
                _ => f.perhaps.push(error),
            });
            return error;
        }
        let (offset, (blocks, kind, flags)) = case(|c| (c.end_of(n), c.maps[n]));
        ((*map).addr, (*map).offset, (*map).length) = (offset + (1 << 20), offset as i64, blocks * BLOCK);
        ((*map).type_, (*map).flags, (*map).bdev) = (kind as u16, flags, &raw mut (*opened()).bdev);
        0
    }
    sleep fn iomap_end(_: *mut inode, _: i64, _: i64, _: isize, _: u32, _: *mut iomap) -> c_int { 0 }
    any fn end_io(iocb: *mut kiocb, size: isize, error: c_int, flags: c_uint) -> c_int {
        step("->end_io", iocb, size as usize);
        let run = run_of(size as usize);
        let converts = flags & (IOMAP_DIO_UNWRITTEN | IOMAP_DIO_COW) != 0;
        if converts {
            might_sleep("conversion");
            if case(|c| c.short_of_space && c.file == 0) {
                step("wait for the other", iocb, 0);
                while find(|c, f| c.file == 1 && f.counts).is_some() {
                    spin();
                }
            }
        }
        let fails = world(|w| run.iter().any(|&n| w.requests[n].0.end_io_fails));
        let says = if error == 0 && fails { -28 } else { error };
        if run.len() > 1 {
            step("merge", iocb, run.len());
            assert_eq!(error, 0, "failed requests are merged");
            assert!(size <= 16 << 20, "too much is told together");
            assert!(!case(|c| c.extends), "the file grows before all of it is converted");
            assert_eq!(flags & IOMAP_DIO_COW, 0, "blocks may be remapped twice");
            let torn = run.iter().any(|&n| world(|w| w.requests[n].0.has(IOCB_ATOMIC)));
            assert!(!torn, "an untorn write is told of with others");
            for &n in &run {
                let before = world(|w| std::mem::replace(&mut w.requests[n].1.failed_together, says != 0));
                assert!(!before, "told together again");
            }
        }
        if says == 0 {
            others_follow(&run[1..]);
        }
        for &n in run.iter().filter(|_| run.len() == 1 || says == 0) {
            let before = world(|w| w.requests[n].1.told.replace((error, flags, says)));
            assert!(before.is_none(), "->end_io() is called twice");
        }
        wants! {
            !converts || flags & IOMAP_DIO_COMP_WORK != 0 || case(Case::ends_later) => "a conversion is no work";
            by() != "worker" || flags & IOMAP_DIO_COMP_WORK != 0 || case(|c| c.inline) => "a worker that has no work";
            by() != "ioends" || flags & IOMAP_DIO_COMP_WORK == 0 => "work that ioends leave to a worker";
            world(|w| run.iter().all(|&n| w.requests[n].1.counts)) => "->end_io() after inode_dio_end()";
        }
        says
    }
    /// In place of no `->end_io`: says which requests a worker that has several ends now.
    any fn says_whose(iocb: *mut kiocb, size: isize, error: c_int, _: c_uint) -> c_int {
        step("end", iocb, size as usize);
        others_follow(&run_of(size as usize)[1..]);
        error
    }
    any fn submit_io(_: *const iomap_iter, bio: *mut bio, _: i64) {
        match case(|c| c.part) {
            Part::None | Part::Submits => {}
            Part::EndsLater => (*bio).bi_end_io = Some(end_later),
            Part::Ioends => (*bio).bi_end_io = Some(end_ioend),
        }
        submit_bio(bio);
    }
    any fn end_later(bio: *mut bio) {
        step("later", bio, 0);
        spawn("endio", move || direct_io::iomap_dio_bio_end_io(bio));
    }
    any fn end_ioend(bio: *mut bio) {
        step("ioend", bio, 0);
        let ioend: *mut iomap_ioend = bio.wrapping_byte_sub(offset_of!(iomap_ioend, io_bio)).cast();
        (*ioend).io_error = blk_status_to_errno((*bio).bi_status);
        spawn("ioends", move || _ = direct_io::iomap_finish_ioend_direct(ioend));
    }
    any fn ki_complete(iocb: *mut kiocb, result: c_long) {
        step("complete", iocb, result as usize);
        one_file_only();
        over(iocb, result as isize);
        let before = facts(|f| f.completed.replace(result as isize));
        wants! {
            before.is_none() => "completed twice";
            (*iocb).private.is_null() => "a poller still finds the bio";
        }
        if !case(Case::is_polled) {
            free("kiocb", iocb);
            close();
        }
    }
}

// --- Who makes the request, and who waits for it ---

/// An open file, and what belongs to its file system.
pub(crate) struct Open {
    /// It is open twice.
    files: [file; 2],
    inode: inode,
    pub(crate) mapping: address_space,
    /// Who has it open.
    users: u32,
    /// `i_rwsem`, of who waits for all requests.
    pub(crate) locked: bool,
    queue: request_queue,
    bdev: block_device,
    dops: [iomap_dio_ops; 2],
    set: bio_set,
}

/// A super block.
struct Super {
    sb: super_block,
    /// The open files.
    files: u32,
}

/// What is there during a call.
struct Call {
    iter: iov_iter,
    ops: iomap_ops,
}

pub(crate) fn opened() -> *mut Open {
    facts(|f| f.file.unwrap())
}

/// Opens the file, unless it is open, for so many more, and prepares a kiocb.
unsafe fn open(sb: *mut Super, users: u32) -> *mut kiocb {
    let number = case(|c| c.file);
    let is_open = find(|c, f| c.file == number && f.file.is_some());
    let open: *mut Open = match is_open {
        Some(other) => world(|w| w.requests[other].1.file.unwrap()),
        None => alloc_zeroed("file"),
    };
    let iocb: *mut kiocb = alloc_zeroed("kiocb");
    facts(|f| (f.file, f.all_fua) = (Some(open), true));
    let it = &mut *open;
    it.users += users;
    (*sb).files += u32::from(is_open.is_none());
    for file in &mut it.files {
        (file.f_inode, file.f_mapping) = (&raw mut it.inode, &raw mut it.mapping);
    }
    (it.inode.i_sb, it.inode.i_blkbits) = (&raw mut (*sb).sb, 12);
    (it.bdev.bd_queue, it.queue.limits.logical_block_size) = (&raw mut it.queue, 512);
    it.set.front_pad = offset_of!(iomap_ioend, io_bio) as u32;
    let others = world(|w| w.requests.len() > 1);
    case(|c| {
        it.inode.i_size = if c.extends { START as i64 } else { 1 << 30 };
        let limits = &mut it.queue.limits;
        limits.features = c.features;
        (limits.physical_block_size, limits.max_fast_segment_size) = c.sizes;
        it.bdev.bd_start_sect = c.partition;
        (
            limits.max_sectors,
            limits.max_segments,
            limits.chunk_sectors,
            limits.virt_boundary_mask,
        ) = c.limits;
        it.queue.mq_ops = if c.queues {
            (&raw const *limits).cast()
        } else {
            null()
        };
        let dops = &mut it.dops[usize::from(c.other_ops)];
        dops.end_io = if c.has_end_io {
            Some(end_io)
        } else {
            others.then_some(says_whose)
        };
        dops.flags = IOMAP_DIO_MERGE_END_IO;
        if c.inline {
            dops.flags |= IOMAP_DIO_INLINE_UNBOUNCE;
        }
        if c.part != Part::None {
            dops.submit_io = Some(submit_io);
            dops.bio_set = &raw mut it.set;
        }
        let file = &raw mut it.files[usize::from(c.other_file)];
        ((*iocb).ki_filp, (*iocb).ki_pos) = (file, c.pos() as i64);
        (*iocb).ki_flags = c.iocb_flags as i32;
        (*iocb).ki_complete = (!c.sync).then_some(ki_complete);
    });
    iocb
}

/// The last user closes the file, and unmounts the file system after the last file.
unsafe fn close() {
    let open = opened();
    (*open).users -= 1;
    if (*open).users == 0 {
        let sb: *mut Super = (*open).inode.i_sb.cast();
        free("file", open);
        (*sb).files -= 1;
        if (*sb).files == 0 {
            assert!((*sb).sb.s_dio_done_list.first.is_null(), "left on the list");
            free("super block", sb);
        }
    }
}

/// The caller of the request has its result.
unsafe fn over(iocb: *mut kiocb, result: isize) {
    let moved = (*iocb).ki_pos as u64 - case(Case::pos);
    wants! {
        facts(|f| !f.counts) => "over while it counts in i_dio_count";
        result < 0 || moved == result as u64 => "the position has moved by {moved} of {result}";
    }
}

/// Polls until the request is over (`io_do_iopoll()`).
unsafe fn poll(iocb: *mut kiocb) {
    while facts(|f| f.completed.is_none() && f.answered.is_none_or(|answer| answer == QUEUED)) {
        if case(|c| c.polled_early) || facts(|f| f.answered.is_some()) {
            iocb_bio_iopoll(iocb, null_mut(), 0);
        }
        spin();
    }
    if facts(|f| f.completed.is_some()) {
        free("kiocb", iocb);
        close();
    }
}

/// Whether somebody may poll for this bio of the request.
pub(crate) unsafe fn may_be_polled(bio: *mut bio) -> bool {
    let over =
        facts(|f| f.completed.is_some() || f.answered.is_some_and(|answer| answer != QUEUED));
    !over && facts(|f| f.iocb).is_some_and(|iocb| (*iocb).private == bio.cast())
}

/// The task that makes the request, and exits.
unsafe fn submit(iocb: *mut kiocb) {
    facts(|f| f.iocb = Some(iocb));
    let call: *mut Call = alloc_zeroed("call");
    let (iter, ops) = (&mut (*call).iter, &mut (*call).ops);
    let (mut vectors, borrowed) = ([PAGE; 16], once_in(2));
    vectors[0].bv_len = pick(&[u32::MAX, PAGE.bv_len]);
    let (entry, flags) = case(|c| {
        iter.iter_type = match c.user_memory {
            true => iter_type_ITER_UBUF,
            false if borrowed => iter_type_ITER_BVEC,
            false => iter_type_ITER_KVEC,
        } as u8;
        iter.data_source = c.write;
        iter.__bindgen_anon_2.nr_segs = vectors.len();
        let memory = &mut iter.__bindgen_anon_1.__bindgen_anon_1;
        memory.count = c.bytes(c.maps.len()) as usize;
        memory.__bindgen_anon_1.bvec = vectors.as_ptr();
        ops.iomap_begin = Some(iomap_begin);
        ops.iomap_end = c.has_iomap_end.then_some(iomap_end);
        (c.entry, c.dio_flags)
    });
    let other_ops = usize::from(case(|c| c.other_ops));
    let (dops, none) = (&raw const (*opened()).dops[other_ops], null_mut());
    let mut answer = -15;
    if entry == Entry::Split {
        let dio = direct_io::__iomap_dio_rw(iocb, iter, ops, dops, flags, none, 0);
        answer = match dio.addr() as isize {
            answer @ -4095..=0 => answer,
            _ => direct_io::iomap_dio_complete(dio),
        };
    } else {
        if entry == Entry::Simple {
            facts(|f| f.simple = true);
            answer = read_simple(iocb, iter);
        }
        if answer == -15 {
            facts(|f| f.simple = false);
            answer = direct_io::iomap_dio_rw(iocb, iter, ops, dops, flags, none, 0);
        }
    }
    step("answer", iocb, answer as usize);
    let left = iter.__bindgen_anon_1.__bindgen_anon_1.count as isize;
    let all = case(|c| c.bytes(c.maps.len())) as isize;
    wants! {
        answer < 0 || all - left == answer => "{left} bytes of {all} are left after {answer}";
        answer != -11 || left == all || facts(|f| f.simple) => "{left} bytes of {all} are left, nothing is done";
    }
    free("call", call);
    facts(|f| f.answered = Some(answer));
    match answer {
        QUEUED => close(),
        _ => over(iocb, answer),
    }
}

/// As the inline function of the C header.
unsafe fn read_simple(iocb: *mut kiocb, iter: *mut iov_iter) -> isize {
    let inode = (*(*iocb).ki_filp).f_inode;
    let mut iomi: iomap_iter = zeroed();
    (iomi.inode, iomi.pos, iomi.len) = (inode, (*iocb).ki_pos, case(|c| c.bytes(1)));
    iomi.flags = IOMAP_DIRECT | u32::from(case(|c| c.has(IOCB_NOWAIT))) * IOMAP_NOWAIT;
    inode_dio_begin(inode);
    let (map, src) = (&raw mut iomi.iomap, &raw mut iomi.srcmap);
    let ret = iomap_begin(inode, iomi.pos, iomi.len as i64, iomi.flags, map, src);
    if ret != 0 {
        inode_dio_end(inode);
        return ret as isize;
    }
    direct_io::__iomap_dio_read_simple(iocb, iter, &mut iomi)
}

/// A schedule of a request of a kind.
unsafe fn run(kind: fn(&mut Case)) {
    let mut cases = vec![drawn(kind)];
    for n in 1..cases[0].many as usize {
        let before = &cases[n - 1];
        let end = before.end_of(before.maps.len());
        // They are told apart by where they begin.
        let overlaps = end - before.start > BLOCK && once_in(2);
        let next = if overlaps { end - BLOCK } else { end };
        if before.alike {
            let mut c = before.clone();
            (c.start, c.cached, c.truncated, c.end_io_fails) = (next, false, false, once_in(4));
            cases.push(c);
            continue;
        }
        let mut c = if before.many > 32 {
            before.clone()
        } else {
            drawn(kind)
        };
        // Most follow each other.
        c.start = if once_in(8) { end + BLOCK } else { next };
        (c.file, c.other_file, c.other_ops) = (draw(6) as usize / 5, once_in(4), once_in(8));
        (c.features, c.truncated) = (before.features, false);
        (c.queues, c.limits, c.sizes) = (before.queues, before.limits, before.sizes);
        c.partition = before.partition;
        (c.has_end_io, c.extends, c.cached) = (before.has_end_io, before.extends, false);
        c.short_of_space = before.short_of_space;
        if !once_in(4) {
            // Then one worker may complete both.
            c.iocb_flags = before.iocb_flags;
        }
        cases.push(c);
    }
    let all = cases.len();
    world(|w| w.requests = cases.into_iter().map(|c| (c, Facts::default())).collect());
    let sb: *mut Super = alloc_zeroed("super block");
    let mut iocbs = vec![];
    for request in 0..all {
        turn_to(request);
        let users = 2 + u32::from(case(|c| c.cached));
        iocbs.push(open(sb, users));
    }
    for (request, iocb) in iocbs.into_iter().enumerate() {
        turn_to(request);
        spawn("submitter", move || submit(iocb));
        if case(Case::is_polled) {
            spawn("poller", move || poll(iocb));
        }
        if case(|c| c.truncated) {
            (*opened()).users += 1;
            spawn("truncater", || {
                let open = opened();
                (*open).locked = true;
                point();
                while (*open).inode.i_dio_count > 0 {
                    spin();
                }
                (*open).locked = false;
                close();
            });
        }
        if case(|c| c.cached) {
            spawn("reader", move || {
                point();
                let mapping = &mut (*opened()).mapping;
                let (pos, end) = case(|c| (c.pos(), c.end_of(c.maps.len())));
                let at = pick(&[pos, end, pos + (1 << 20)]) as i64;
                (mapping.nrpages, mapping.page) = (1, Some(at));
                close();
            });
        }
    }
    join();
    world(|w| {
        for (c, f) in &w.requests {
            check(w, c, f);
        }
    });
}

/// What has to have come of a request.
fn check(w: &World, c: &Case, f: &Facts) {
    let result = match (f.answered, f.completed) {
        (Some(QUEUED), Some(result)) => result,
        (Some(answer), None) if answer != QUEUED => answer,
        (answer, result) => panic!("the answer was {answer:?} and ki_complete() got {result:?}"),
    };
    if c.sync || c.dio_flags & IOMAP_DIO_FORCE_WAIT != 0 || f.fell_back {
        assert_ne!(f.answered, Some(QUEUED), "nobody has waited");
    }
    for object in &w.objects {
        let of = &w.requests[object.request].1;
        let stays = match object.what {
            "kiocb" => of.completed.is_none(),
            "file" | "super block" => w.requests.iter().any(|r| r.1.completed.is_none()),
            _ => false,
        };
        assert!(!object.live || stays, "{} is never freed", object.what);
    }

    assert!(
        !f.no_bio || f.answered == Some(-11),
        "it waits for memory after all"
    );
    let mapped = c.refused.map_or(c.maps.len(), |refused| refused.0);
    let told = c.has_end_io && f.begun && !f.simple && !f.perhaps.contains(&-12);
    let (mut bytes, mut error) = (c.bytes(mapped) as isize, result.min(0) as c_int);
    if f.flush_fails {
        (bytes, error) = (-5, 0);
    }
    let (error, flags, says) = f.told.unwrap_or((error, 0, error));
    let possible = f.errors.contains(&error) || f.perhaps.contains(&error);
    wants! {
        f.told.is_some() == told => "->end_io() is called: {}", !told;
        possible || (error == 0 && f.errors.is_empty()) => "the error {error}";
        says != 0 || result == bytes => "the result {result}";
        says == 0 || result == says as isize => "the result {result}, not the error {says}";
        !f.perhaps.is_empty() || f.reports == u32::from(error != 0) => "{} reports of an error", f.reports;
    }
    if error != 0 || !c.write || result <= 0 {
        return;
    }
    for map in c.maps[..mapped].iter().filter(|_| told) {
        wants! {
            map.1 != IOMAP_UNWRITTEN || flags & IOMAP_DIO_UNWRITTEN != 0 => "blocks are not converted";
            map.2 & IOMAP_F_SHARED == 0 || flags & IOMAP_DIO_COW != 0 => "blocks are not remapped";
        }
    }
    wants! {
        f.flushed || !c.has(IOCB_SYNC) => "not flushed";
        f.flushed || f.all_fua || !c.has(IOCB_DSYNC) => "not stable";
        f.invalidated || f.cached_at_end != Some(c.pos()) => "the page cache has old data";
    }
}

/// Executes the schedules of a kind of requests, and wants each of these steps in one of them.
///
/// `SEED` is the first of `SCHEDULES` seeds, or the only one if there is no `SCHEDULES`. The last
/// digits of a seed say which kind it is for.
fn explore(number: u64, kind: fn(&mut Case), steps: &[&'static str]) {
    let variable = |name| env::var(name).ok()?.parse().ok();
    let (first, many) = match (variable("SEED"), variable("SCHEDULES")) {
        (Some(seed), None) => (seed, 1),
        (seed, many) => (seed.unwrap_or(1), many.unwrap_or(100_000)),
    };
    static INIT: Once = Once::new();
    // By itself, so that no schedule depends on others before it.
    // SAFETY: Once, and before any use.
    let init = || assert_eq!(unsafe { direct_io::iomap_dio_rust_init() }, 0);
    INIT.call_once(|| execute(0..1, init));
    let of = move |n: u64, is: u64| (first..first + many).filter(move |seed| seed % n == is);
    let missing = Arc::new(Mutex::new(steps.to_vec()));
    thread::scope(|scope| {
        for processor in 0..2 {
            let missing = missing.clone();
            let schedule = move || {
                // SAFETY: The world is as C is.
                unsafe { run(kind) };
                missing.lock().unwrap().retain(|step| !was_made(step));
            };
            scope.spawn(move || execute(of(2 * KINDS, number + KINDS * processor), schedule));
        }
    });
    let done = of(KINDS, number).count();
    println!("executions: {done}");
    let missing = missing.lock().unwrap();
    wants! { done < 1000 || missing.is_empty() => "in no schedule: {missing:?}"; }
}

/// Kinds of requests by the last digits of their seeds, and steps that some of them come to.
macro_rules! kinds {
    ($all:literal: $($number:literal $name:ident $kind:expr, $steps:expr;)*) => {
        const KINDS: u64 = $all;
        $(#[test] fn $name() { explore($number, $kind, &$steps) })*
    };
}

kinds! { 9:
    0 simple_reads |c| (c.entry, c.write, c.maps) = (Entry::Simple, false, vec![(1, IOMAP_MAPPED, 0)]),
        ["complete", "answer", "punt", "sleep", "wake", "dirty later", "report", "poll"];
    1 single_bios |c| (c.maps, c.bio_bytes) = (vec![(1 + draw(3), IOMAP_MAPPED, 0)], 1 << 20),
        ["complete", "answer", "punt", "sleep", "wake", "dirty later", "invalidate", "flush", "refuse to wait"];
    2 deferred_writes |c| {
            c.write = true;
            let flags = pick(&[IOMAP_F_NEW, IOMAP_F_SHARED, IOMAP_F_DIRTY, 0]);
            c.maps = vec![(1 + draw(2), pick(&[IOMAP_UNWRITTEN, IOMAP_MAPPED]), flags)];
            c.iocb_flags |= pick(&[0, IOCB_DSYNC, IOCB_DSYNC | IOCB_SYNC]);
        }, ["complete", "answer", "punt", "sleep", "wake", "invalidate", "flush", "cmpxchg"];
    3 several_bios |c| c.bio_bytes = BLOCK as usize,
        ["complete", "answer", "punt", "sleep", "wake", "fetch_sub", "report", "refuse"];
    4 bounced |c| {
            c.dio_flags |= IOMAP_DIO_BOUNCE;
            if !c.write {
                // The copy to the caller's memory takes process context, or little time.
                c.part = pick(&[Part::EndsLater, Part::Ioends]);
                c.inline = once_in(2);
            }
        }, ["complete", "answer", "punt", "sleep", "wake", "ioend"];
    5 polled |c| {
            c.iocb_flags |= IOCB_HIPRI;
            c.sync = once_in(8);
            c.maps.truncate(2);
        }, ["complete", "answer", "punt", "poll", "wake"];
    6 file_systems_that_take_part |c| c.part = pick(&[Part::Submits, Part::EndsLater, Part::Ioends]),
        ["complete", "answer", "punt", "sleep", "wake", "ioend", "later"];
    7 split_calls |c| c.entry = Entry::Split, ["complete", "answer", "punt", "sleep", "wake"];
    8 several_requests |c| {
            (c.many, c.write, c.sync, c.around) = (2 + draw(4), true, false, (0, 0));
            (c.truncated, c.short_of_space, c.was_sync) = (once_in(2), once_in(2), once_in(4));
            if once_in(100) {
                // More than one worker completes.
                (c.many, c.truncated, c.short_of_space) = (64, false, false);
            }
            (c.iocb_flags, c.dio_flags) = (pick(&[0, 0, IOCB_DSYNC, IOCB_DSYNC | IOCB_SYNC]), 0);
            if c.many < 64 {
                // So many that spin would take too long.
                c.iocb_flags |= flag(8, IOCB_HIPRI);
            }
            c.iocb_flags |= flag(8, IOCB_ATOMIC);
            c.alike = once_in(4);
            let kind = pick(&[IOMAP_UNWRITTEN, IOMAP_UNWRITTEN, IOMAP_MAPPED]);
            c.maps = vec![(1 + draw(2), kind, flag(4, IOMAP_F_SHARED))];
            if c.many < 64 && once_in(8) {
                // Several are more than are told together.
                (c.maps[0].0, c.bio_bytes, c.user_memory) = (3000, 1 << 20, true);
            }
            (c.fault, c.no_memory, c.fails_of_4) = (0, false, pick(&[0, 0, 0, 1]));
        }, ["complete", "answer", "punt", "merge", "invalidate", "flush together", "fail together",
         "report", "xchg", "wait for the other"];
}
