// SPDX-License-Identifier: GPL-2.0

//! The ways of requests, and the flags that each passes to `->end_io`.

use super::{
    decide::Owed,
    travel::{
        Transfer,
        Travel, //
    },
};
use kernel::{
    block::bio::Pages,
    macros::kunit_tests, //
};

#[kunit_tests(rust_iomap_travel)]
mod cases {
    use super::*;

    const READ: Transfer = Transfer::Read;
    const WRITE: Transfer = Transfer::Write { through: false };
    const NOTHING: Owed = Owed::NOTHING;

    #[test]
    fn choice_of_the_way() {
        assert_eq!(Travel::single(READ, NOTHING), Travel::Simple(READ));
        assert_eq!(Travel::counted(READ, false, NOTHING), Travel::Plain(READ));
        assert_eq!(
            Travel::counted(READ, true, NOTHING),
            Travel::Bounce(READ, None)
        );
        for travel in [
            Travel::single(WRITE, Owed::RECORD),
            Travel::counted(WRITE, false, Owed::RECORD),
        ] {
            assert!(matches!(travel, Travel::Deferred(WRITE, debt) if debt.has(Owed::RECORD)));
        }
        let bounced = Travel::counted(WRITE, true, Owed::RECORD);
        assert!(matches!(bounced, Travel::Bounce(WRITE, Some(debt)) if debt.has(Owed::RECORD)));
    }

    #[test]
    fn change_of_the_way() {
        for mut travel in [
            Travel::single(WRITE, NOTHING),
            Travel::counted(WRITE, false, NOTHING),
        ] {
            travel.owe(NOTHING);
            assert!(travel.debt().is_none());
            travel.owe(Owed::REMAP);
            travel.owe(Owed::CONVERT);
            travel.owe(NOTHING);
            assert!(matches!(
                travel,
                Travel::Deferred(WRITE, debt)
                    if debt.has(Owed::REMAP) && debt.has(Owed::CONVERT) && !debt.has(Owed::FLUSH)
            ));
        }
        // A bounced request keeps its variant, whatever its debt.
        let mut travel = Travel::counted(READ, true, NOTHING);
        travel.owe(Owed::REPORT);
        assert!(matches!(travel, Travel::Bounce(READ, Some(debt)) if debt.has(Owed::REPORT)));

        for mut travel in [
            Travel::counted(WRITE, false, NOTHING),
            Travel::counted(WRITE, false, Owed::CONVERT),
            Travel::counted(WRITE, true, Owed::CONVERT),
        ] {
            travel.write_through();
            assert_eq!(travel.transfer(), Transfer::Write { through: true });
        }
    }

    #[test]
    fn landing() {
        for (mut travel, bounced) in [
            (Travel::single(WRITE, NOTHING), false),
            (Travel::counted(WRITE, false, NOTHING), false),
            (Travel::counted(WRITE, true, NOTHING), true),
        ] {
            let clear = travel.land(false, || false);
            assert!(clear.is_some_and(|clear| clear.transfer == WRITE && clear.bounced == bounced));
            assert!(travel.land(false, || true).is_none());
            assert!(travel.debt().is_some_and(|debt| debt.has(Owed::DROP_PAGES)));
            // The debt stays.
            assert!(travel.land(false, || false).is_none());
        }
        let mut read = Travel::single(READ, NOTHING);
        assert!(read.land(false, || true).is_some());
        assert!(read.land(true, || true).is_none());
        assert!(matches!(read, Travel::Deferred(READ, debt) if debt.has(Owed::REPORT)));
        // A request with a debt is not checked for cached pages.
        let mut owing = Travel::counted(WRITE, true, Owed::FLUSH);
        let mut asked = false;
        assert!(owing
            .land(false, || {
                asked = true;
                true
            })
            .is_none());
        assert!(!asked);
    }

    #[test]
    fn end_io_flags() {
        // The flags of the C implementation for the same request, bit by bit.
        let flags = |travel: &Travel, pages| travel.end_io_flags(pages).into_raw();
        let read = Travel::single(READ, NOTHING);
        assert_eq!(flags(&read, Pages::Dirtied), 1 << 31);
        assert_eq!(flags(&read, Pages::LeftAlone), 0);
        let failed = Travel::single(READ, Owed::REPORT);
        assert_eq!(flags(&failed, Pages::LeftAlone), 1 << 27);

        let overwrite = Travel::counted(WRITE, false, NOTHING);
        assert_eq!(flags(&overwrite, Pages::LeftAlone), 1 << 30);
        let through = Travel::single(Transfer::Write { through: true }, NOTHING);
        assert_eq!(flags(&through, Pages::LeftAlone), 1 << 30 | 1 << 28);

        let clear = |mut travel: Travel, pages| {
            let clear = travel.land(false, || false);
            clear.map(|clear| clear.end_io_flags(pages).into_raw())
        };
        assert_eq!(clear(read, Pages::Dirtied), Some(1 << 31));
        assert_eq!(clear(overwrite, Pages::LeftAlone), Some(1 << 30));
        assert_eq!(
            clear(Travel::counted(WRITE, true, NOTHING), Pages::LeftAlone),
            Some(1 << 30 | 1 << 4)
        );

        let all = Owed::CONVERT.with(Owed::REMAP).with(Owed::FLUSH);
        let bounced = Travel::counted(WRITE, true, all);
        assert_eq!(
            flags(&bounced, Pages::LeftAlone),
            1 << 30 | 1 << 29 | 1 << 27 | 1 << 4 | 1 << 1 | 1
        );
        // These parts of a debt have no flag of their own.
        let other = Owed::RECORD
            .with(Owed::EXTEND)
            .with(Owed::DROP_PAGES)
            .with(Owed::REPORT);
        let deferred = Travel::counted(WRITE, false, other);
        assert_eq!(flags(&deferred, Pages::LeftAlone), 1 << 30 | 1 << 27);
    }
}
