// SPDX-License-Identifier: GPL-2.0

//! Tables for the rules of direct I/O, with a row on each side of every boundary.

use super::decide::{
    self,
    CompWork,
    IterEnd,
    IterEndAction, //
};
use kernel::macros::kunit_tests;

#[kunit_tests(rust_iomap_decide)]
mod cases {
    use super::*;

    #[test]
    fn alignment() {
        // (pos, len, alignment, aligned)
        for (pos, len, alignment, expected) in [
            (0, 0, 512, true),
            (0, 512, 512, true),
            (512, 512, 512, true),
            (512, 512, 4096, false),
            (4096, 4096, 4096, true),
            (4095, 1, 4096, false),
            (0, 511, 512, false),
            (0, 513, 512, false),
            (1, 512, 512, false),
            (511, 512, 512, false),
            (1, 1, 1, true),
            (i64::MAX, 1, 1, true),
            (i64::MAX - 511, 512, 512, true),
            (i64::MAX - 510, 512, 512, false),
        ] {
            assert_eq!(decide::is_aligned(pos, len, alignment), expected);
        }
    }

    #[test]
    fn end_of_file() {
        // (pos, len, end, past the end)
        for (pos, len, end, expected) in [
            (0, 0, 0, false),
            (0, 1, 0, true),
            (0, 4096, 4096, false),
            (0, 4097, 4096, true),
            (1, 4096, 4096, true),
            (4096, 0, 4096, false),
            (i64::MAX, 1, i64::MAX, true),
            (i64::MAX, u64::MAX, i64::MAX, true),
        ] {
            assert_eq!(decide::goes_past(pos, len, end), expected);
        }
        // (pos, size, size of the file, result)
        for (pos, size, i_size, expected) in [
            (0, 4096, 4096, 4096),
            (0, 4096, 4095, 4095),
            (0, 4096, 1, 1),
            (4096, 4096, 8191, 4095),
            (4096, 512, 8192, 512),
            (0, 0, 0, 0),
            (i64::MAX - 1, 4096, i64::MAX, 1),
        ] {
            assert_eq!(decide::clamp_read(pos, size, i_size), expected);
        }
    }

    #[test]
    fn zeroing_of_tails() {
        // (write, zero around, end of the data, size of the file, zeroes)
        for (write, around, end, i_size, expected) in [
            (false, false, 100, 0, false),
            (true, false, 99, 100, false),
            (true, false, 100, 100, true),
            (true, false, 101, 100, true),
            (true, true, 1, 100, true),
        ] {
            assert_eq!(decide::zeroes_tail(write, around, end, || i_size), expected);
        }
    }

    #[test]
    fn need_for_zeroes() {
        // (zero around, pos, len, block size, size of the file, zeroes)
        for (around, pos, len, block, i_size, expected) in [
            (true, 0, 4096, 4096, 0, false),
            (true, 4096, 8192, 4096, 0, false),
            (true, 0, 512, 4096, 1 << 20, true),
            (true, 512, 3584, 4096, 1 << 20, true),
            (false, 0, 512, 4096, 513, false),
            (false, 0, 512, 4096, 512, true),
            (false, 0, 512, 4096, 511, true),
            // The data before the write in its block stays.
            (false, 512, 3584, 4096, 0, false),
            (false, 512, 512, 512, 0, false),
        ] {
            let zeroes = decide::needs_zeroes(around, pos, len, block, || i_size);
            assert_eq!(zeroes, expected);
        }
    }

    #[test]
    fn work_that_comes_up_at_the_end() {
        // A read with cached pages has no work: reads never drop pages.
        let none = CompWork::NONE;
        assert_eq!(decide::work_at_end(false, false, || true), none);
        assert_eq!(decide::work_at_end(true, false, || false), none);
        let work = decide::work_at_end(true, false, || true);
        assert_eq!(work, CompWork::INVALIDATE);
        // An error is never handled in interrupt context, not even that of a read.
        for write in [false, true] {
            let work = decide::work_at_end(write, true, || true);
            assert_eq!(work, CompWork::ERROR);
        }
    }

    #[test]
    fn ends_of_the_iteration() {
        use IterEndAction::*;
        // (end, size, partial, nowait, action)
        for (end, size, partial, nowait, expected) in [
            (IterEnd::Fault, 0, true, false, Fail),
            (IterEnd::Fault, 4096, false, false, Fail),
            (IterEnd::Fault, 4096, true, false, Wait),
            (IterEnd::Fault, 4096, true, true, Continue),
            (IterEnd::FallBack, 0, false, false, Wait),
            (IterEnd::FallBack, 4096, false, true, Wait),
            (IterEnd::Failed, 0, true, false, Fail),
            (IterEnd::Failed, 4096, true, true, Fail),
        ] {
            let action = decide::iter_end_action(end, size, partial, nowait);
            assert_eq!(action, expected);
        }
    }
}
