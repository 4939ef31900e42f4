// SPDX-License-Identifier: GPL-2.0

//! Properties of the rules of direct I/O.
//!
//! Each test implements a rule a second time, as simply as possible: with integers that cannot
//! overflow, by division instead of masks, or flag by flag like the C code. Both implementations
//! have to agree on thousands of cases, which are the same in every run with the same SEED.

use crate::decide::{self, CompWork};
use proptest::{
    prelude::*,
    test_runner::RngSeed, //
};
use std::{cell::Cell, env};

fn config() -> ProptestConfig {
    let seed = env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    ProptestConfig {
        cases: 50_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed.unwrap_or(0x696f_6d61_7073_6565)),
        ..ProptestConfig::default()
    }
}

/// Block sizes and alignments: mostly those in use, otherwise other powers of two.
fn block_size() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => prop::sample::select(vec![512, 1024, 4096, 16384, 65536]),
        1 => (0..32u32).prop_map(|bit| 1 << bit),
    ]
}

/// Positions, often near a multiple of a block size, near zero or near the largest position.
fn position() -> impl Strategy<Value = i64> {
    prop_oneof![
        2 => (0..1i64 << 24, block_size(), -1..=1i64)
            .prop_map(|(n, block, off)| (n * i64::from(block) + off).max(0)),
        1 => 0..10_000i64,
        1 => 0..=i64::MAX,
        1 => (0..=1i64 << 20).prop_map(|back| i64::MAX - back),
    ]
}

/// Lengths of any size.
fn length() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => position().prop_map(|pos| pos as u64),
        1 => any::<u64>(),
        1 => (0..1u64 << 20).prop_map(|back| u64::MAX - back),
    ]
}

/// The position at distance `off` from `pos`.
fn near(pos: i64, off: i64) -> i64 {
    (i128::from(pos) + i128::from(off)).clamp(0, i128::from(i64::MAX)) as i64
}

const ALL: [CompWork; 7] = [
    CompWork::UNWRITTEN,
    CompWork::COW,
    CompWork::NEW,
    CompWork::EXTEND,
    CompWork::SYNC,
    CompWork::INVALIDATE,
    CompWork::ERROR,
];

/// A set of completion work. Bit `i` stands for `ALL[i]`.
fn some_work() -> impl Strategy<Value = u32> {
    0..1u32 << ALL.len()
}

fn has(set: u32, part: usize) -> bool {
    set >> part & 1 != 0
}

fn work(set: u32) -> CompWork {
    let parts = (0..ALL.len()).filter(|&i| has(set, i));
    parts.fold(CompWork::empty(), |work, i| work | ALL[i])
}

/// Blocks that a write goes to.
#[derive(Clone, Copy, Debug)]
struct Target {
    unwritten: bool,
    new: bool,
    shared: bool,
    dirty: bool,
}

impl Target {
    fn work(&self) -> CompWork {
        CompWork::empty()
            .with_if(self.unwritten, CompWork::UNWRITTEN)
            .with_if(self.shared, CompWork::COW)
            .with_if(self.new, CompWork::NEW)
    }
}

/// Blocks that a write goes to, with a fair share of pure overwrites.
fn target() -> impl Strategy<Value = Target> {
    let rare = || prop::bool::weighted(0.2);
    (rare(), rare(), rare(), rare()).prop_map(|(unwritten, new, shared, dirty)| Target {
        unwritten,
        new,
        shared,
        dirty,
    })
}

proptest! {
    #![proptest_config(config())]

    // D51
    #[test]
    fn alignment(pos in position(), len in length(), alignment in block_size(), whole: (bool, bool)) {
        let block = u64::from(alignment);
        let pos = if whole.0 { pos - pos % i64::from(alignment) } else { pos };
        let len = if whole.1 { len - len % block } else { len };
        let expected = pos % i64::from(alignment) == 0 && len % block == 0;
        prop_assert_eq!(decide::is_aligned(pos, len, alignment), expected);
    }

    // D80: a write that ends beyond the end of the file extends it.
    #[test]
    fn past_the_end(pos in position(), len in length(), end in position(), off in -1..=1i64, close: bool) {
        let end = if close {
            near(i64::try_from(u128::from(len) + pos as u128).unwrap_or(i64::MAX), off)
        } else {
            end
        };
        let expected = i128::from(pos) + i128::from(len) > i128::from(end);
        prop_assert_eq!(decide::goes_past(pos, len, end), expected);
    }

    // D130: only bytes before the end of the file count. A read begins before it.
    #[test]
    fn reads_are_clamped(i_size in position(), back in position(), size in position(), off in -1..=1i64, close: bool) {
        let pos = (i_size - back).max(0);
        let size = if close { near(i_size - pos, off) } else { size };
        let end = (i128::from(pos) + i128::from(size)).min(i128::from(i_size));
        let expected = end - i128::from(pos);
        prop_assert_eq!(decide::clamp_read(pos, size as isize, i_size) as i128, expected);
    }

    // D82: completion work adds up in any order, and its reasons are distinct.
    #[test]
    fn work_adds_up(a in some_work(), b in some_work(), on: bool) {
        let union = a | b;
        prop_assert_eq!(work(a) | work(b), work(union));
        prop_assert_eq!(work(b) | work(a), work(union));
        prop_assert_eq!(work(a).with_if(on, work(b)), work(if on { union } else { a }));
        prop_assert_eq!(work(a).is_empty(), a == 0);
        prop_assert_eq!(work(a) == work(b), a == b);
        prop_assert_eq!(work(a).has(work(b)), a & b != 0);
        prop_assert_eq!(work(a).without(work(b)), work(a & !b));
        for (i, &one) in ALL.iter().enumerate() {
            prop_assert_eq!(work(a).has(one), has(a, i));
        }
    }

    // D80 to D87: a complete request, with the flags of C.
    #[test]
    fn plans(
        mappings in prop::collection::vec((target(), any::<bool>(), any::<bool>()), 0..8),
        dsync: bool,
        full_sync: bool,
    ) {
        // C checks `IOCB_SYNC` only if `IOCB_DSYNC` is set; `IOCB_SYNC` implies it.
        let mut write_through = dsync && !full_sync;
        let mut comp_work = false;
        let mut cow = false;
        let mut unwritten = false;
        let mut new = false;

        let mut through = write_through;
        let mut all = CompWork::empty().with_if(dsync && full_sync, CompWork::SYNC);
        for (mapping, write_cache, has_fua) in mappings {
            let asked = Cell::new(0);
            let work = mapping.work();
            let fua = decide::writes_through(work, through, mapping.dirty, || {
                asked.set(asked.get() + 1);
                !write_cache || has_fua
            });
            all = (all | work).with_if(through && !fua, CompWork::SYNC);
            through = fua;

            let completion_work = mapping.unwritten || mapping.shared || mapping.new;
            let mut expected = false;
            let mut matters = false;
            if write_through {
                matters = !completion_work && !mapping.dirty;
                if matters && (!write_cache || has_fua) {
                    expected = true;
                } else {
                    write_through = false;
                }
            }
            comp_work |= completion_work;
            cow |= mapping.shared;
            unwritten |= mapping.unwritten;
            new |= mapping.new;

            prop_assert_eq!(fua, expected);
            prop_assert_eq!(asked.get(), u32::from(matters));
            prop_assert_eq!(work.zeroes_around(), mapping.unwritten || mapping.new);
            // The request stays polled as long as it has no completion work but a flush.
            prop_assert_eq!(all.without(CompWork::SYNC).is_empty(), !comp_work);
        }
        prop_assert_eq!(through, write_through);
        let expected = CompWork::empty()
            .with_if(unwritten, CompWork::UNWRITTEN)
            .with_if(cow, CompWork::COW)
            .with_if(new, CompWork::NEW)
            .with_if(dsync && !write_through, CompWork::SYNC);
        prop_assert_eq!(all, expected);
    }

    // D71 to D74: a write leaves no stale data in its blocks.
    #[test]
    fn no_stale_data(
        mapping in target(),
        pos in 0..1i64 << 40,
        len in 1..1i64 << 20,
        block in block_size(),
        i_size in 0..1i64 << 41,
        off in prop::option::of(-1..=1i64),
        write: bool,
    ) {
        let end = pos + len;
        let i_size = off.map_or(i_size, |off| end + off);
        // Reads have no plan, and zero nothing.
        let around = write
            && mapping.work().zeroes_around();
        let asked = Cell::new(false);
        let zeroes = decide::zeroes_tail(write, around, end, || {
            asked.set(true);
            i_size
        });

        let fresh = mapping.unwritten || mapping.new;
        if !write {
            prop_assert!(!around && !zeroes);
        } else if fresh {
            prop_assert!(around && zeroes);
        } else {
            prop_assert!(!around);
            prop_assert_eq!(zeroes, end >= i_size);
        }
        // Loading the file size costs a contended cache line.
        prop_assert_eq!(asked.get(), write && !fresh);

        // One bio is enough unless there are zeroes to write.
        let needs = decide::needs_zeroes(around, pos, len as u64, block, || i_size);
        let size = i64::from(block);
        let head = if around { pos % size } else { 0 };
        let tail = if zeroes { (size - end % size) % size } else { 0 };
        if write {
            prop_assert_eq!(needs, head != 0 || tail != 0);
        }
    }
}
