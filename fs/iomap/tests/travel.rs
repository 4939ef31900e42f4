// SPDX-License-Identifier: GPL-2.0

//! The ways of requests, and the word that `end_io` is told about each.

use super::{
    decide::{
        Durability,
        Reasons, //
    },
    travel::{
        Pages,
        Read,
        Transfer,
        Travel,
        Write, //
    },
};
use kernel::{
    iomap::flags::EndIoFlags,
    macros::kunit_tests, //
};

#[kunit_tests(rust_iomap_travel)]
mod cases {
    use super::*;

    const READ: Transfer = Transfer::Read(Read {
        pages: Pages::Dirtied,
        i_size: 1000,
    });
    const WRITE: Write = Write {
        unwritten: false,
        cow: false,
        durability: Durability::NotNeeded,
    };

    #[test]
    fn choice_of_the_way() {
        let none = Reasons::NONE;
        assert!(matches!(Travel::new(READ, false, none), Travel::Plain(_)));
        assert!(matches!(Travel::new(READ, true, none), Travel::Bounce(..)));
        assert!(matches!(
            Travel::new(Transfer::Write(WRITE), false, Reasons::NEW),
            Travel::Deferred(_, Reasons::NEW)
        ));
        assert!(matches!(
            Travel::new(Transfer::Write(WRITE), true, Reasons::NEW),
            Travel::Bounce(_, Reasons::NEW)
        ));
    }

    #[test]
    fn change_of_the_way() {
        let mut travel = Travel::new(Transfer::Write(WRITE), false, Reasons::NONE);
        travel.set_reasons(Reasons::ERROR);
        assert!(matches!(travel, Travel::Deferred(_, Reasons::ERROR)));
        travel.set_reasons(Reasons::NONE);
        assert!(matches!(travel, Travel::Plain(_)));

        // What was bounced stays so, whatever else happens to it.
        let mut travel = Travel::new(READ, true, Reasons::NONE);
        travel.set_reasons(Reasons::ERROR);
        assert!(matches!(travel, Travel::Bounce(_, Reasons::ERROR)));
    }

    #[test]
    fn direction() {
        let read = Travel::new(READ, false, Reasons::NONE);
        assert_eq!(read.read_limit(), Some(1000));
        assert!(read.as_write().is_none());
        let write = Travel::new(Transfer::Write(WRITE), true, Reasons::NONE);
        assert_eq!(write.read_limit(), None);
        assert!(write.as_write().is_some());
    }

    #[test]
    fn end_io_flags() {
        // The word of the C implementation for the same request, bit by bit.
        let read = Travel::new(READ, false, Reasons::NONE);
        assert_eq!(read.end_io_flags(false, true).into_raw(), 1 << 31);
        assert_eq!(read.end_io_flags(true, true).into_raw(), 1 << 31 | 1 << 3);

        let read = Transfer::Read(Read {
            pages: Pages::LeftAlone,
            i_size: 0,
        });
        let failed = Travel::new(read, false, Reasons::ERROR);
        assert_eq!(failed.end_io_flags(false, false).into_raw(), 1 << 27);

        let overwrite = Travel::new(Transfer::Write(WRITE), false, Reasons::NONE);
        assert_eq!(overwrite.end_io_flags(false, false).into_raw(), 1 << 30);
        assert_eq!(
            overwrite.end_io_flags(false, true).into_raw(),
            1 << 30 | 1 << 26
        );

        let through = Transfer::Write(Write {
            durability: Durability::WrittenThrough,
            ..WRITE
        });
        assert_eq!(
            Travel::new(through, false, Reasons::NONE)
                .end_io_flags(false, false)
                .into_raw(),
            1 << 30 | 1 << 28
        );

        let all = Transfer::Write(Write {
            unwritten: true,
            cow: true,
            durability: Durability::Flush,
        });
        let bounced = Travel::new(all, true, Reasons::UNWRITTEN);
        assert_eq!(
            bounced.end_io_flags(true, false),
            EndIoFlags::from_raw(1 << 30 | 1 << 29 | 1 << 27 | 1 << 4 | 1 << 3 | 1 << 1 | 1)
        );
    }
}
