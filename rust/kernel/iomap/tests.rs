// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of what needs neither a file nor a device.

use super::{
    bio::{
        Buffers,
        Pages, //
    },
    context::MaySleep,
    flags::{
        CallerFlags,
        EndIoFlags,
        MapFlags, //
    },
    iov_iter::IovIter,
    kiocb::Iocb,
    request::{
        Cache,
        Operations,
        Prepared,
        Submitter,
        Unique, //
    },
};
use crate::{
    bindings,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        Completion, //
    },
    types::Opaque,
    workqueue,
};

/// A request whose owner only says that it was there.
enum Probe {}

/// Drops tell when the request was let go of.
struct Seal {
    value: u32,
    done: Arc<Completion>,
}

impl Operations for Probe {
    type Sealed = Seal;

    fn cache() -> &'static Cache<Self> {
        &CACHE
    }

    fn iocb(_seal: &Seal) -> Option<&Iocb> {
        None
    }

    fn ended(request: Unique<Self>) {
        request.punt();
    }

    fn at_ioend(_seal: &mut Seal) {}

    fn ioend_ended(request: Unique<Self>, _ctx: MaySleep) {
        request.punt();
    }

    fn punted(request: Unique<Self>, _ctx: MaySleep) {
        request.into_sealed().done.complete_all();
    }
}

fn ctx() -> MaySleep {
    // SAFETY: KUnit runs tests in a kernel thread, without locks.
    unsafe { MaySleep::assume() }
}

fn seal(value: u32) -> Result<Seal> {
    Ok(Seal {
        value,
        done: Arc::pin_init(Completion::new(), GFP_KERNEL)?,
    })
}

static CACHE: Cache<Probe> = Cache::new();
static CACHE_READY: AtomicFlag = AtomicFlag::new(false);

fn start() -> Result<Submitter<Probe>> {
    if !CACHE_READY.xchg(true, Relaxed) {
        // SAFETY: The first test comes here first, and KUnit runs one at a time.
        unsafe { CACHE.init(c"iomap_dio_kunit")? };
    }
    Ok(Prepared::<Probe>::new(ctx())?.start(Buffers::InPlace(Pages::Dirtied)))
}

#[macros::kunit_tests(rust_iomap)]
mod cases {
    use super::*;

    #[test]
    fn request_without_bios_is_the_submitters() -> Result {
        let submitter = start()?;
        let Ok(mut request) = submitter.seal(seal(1)?) else {
            return Err(EINVAL);
        };
        assert_eq!(request.pages(), Pages::Dirtied);
        assert!(request.result().is_ok());
        assert_eq!(request.sealed().value, 1);
        assert_eq!(request.into_sealed().value, 1);

        // Also if the submitter would have waited.
        let submitter = start()?;
        assert_eq!(submitter.wait(seal(2)?, ctx()).into_sealed().value, 2);
        Ok(())
    }

    #[test]
    fn last_bio_owns_a_queued_request() -> Result {
        let submitter = start()?;
        let (first, last) = (submitter.share(), submitter.share());
        assert!(first.finish(|_| ()).is_none());
        assert!(submitter.seal(seal(2)?).is_err());
        let request = last.finish(|_| ()).ok_or(EINVAL)?;
        assert_eq!(request.into_sealed().value, 2);
        Ok(())
    }

    #[test]
    fn bios_that_end_early_leave_the_request_alone() -> Result {
        let submitter = start()?;
        assert!(submitter.share().finish(|_| ()).is_none());
        assert!(submitter.share().finish(|_| ()).is_none());
        let Ok(request) = submitter.seal(seal(3)?) else {
            return Err(EINVAL);
        };
        assert_eq!(request.into_sealed().value, 3);
        Ok(())
    }

    #[test]
    fn last_bio_has_the_last_word() -> Result {
        let submitter = start()?;
        let (first, last) = (submitter.share(), submitter.share());
        assert!(first.finish(|sealed| sealed.value = 0).is_none());
        assert!(submitter.seal(seal(8)?).is_err());
        let request = last.finish(|sealed| sealed.value += 1).ok_or(EINVAL)?;
        assert_eq!(request.into_sealed().value, 9);
        Ok(())
    }

    #[test]
    fn first_error_wins() -> Result {
        let submitter = start()?;
        assert!(!submitter.has_failed());
        let share = submitter.share();
        share.record_error(EIO);
        assert!(submitter.has_failed() && share.has_failed());
        submitter.record_error(EINVAL);
        assert!(share.finish(|_| ()).is_none());
        let Ok(request) = submitter.seal(seal(4)?) else {
            return Err(EINVAL);
        };
        assert_eq!(request.result().err(), Some(EIO));
        drop(request.into_sealed());
        Ok(())
    }

    #[test]
    fn waiter_gets_the_request_back() -> Result {
        // Often enough that both orders of the race occur.
        for round in 0..200 {
            let submitter = start()?;
            let share = submitter.share();
            workqueue::system().try_spawn(GFP_KERNEL, move || {
                if round % 2 == 0 {
                    share.record_error(EIO);
                }
                // Nothing to own here: either the submitter is not done, or it waits. The last word
                // is heard all the same.
                drop(share.finish(|sealed| sealed.value += 1));
            })?;
            let request = submitter.wait(seal(round)?, ctx());
            assert_eq!(request.result().is_err(), round % 2 == 0);
            let value = request.into_sealed().value;
            assert!(value == round || value == round + 1);
        }
        Ok(())
    }

    #[test]
    fn punted_request_runs_on_the_queue() -> Result {
        let submitter = start()?;
        let sealed = seal(6)?;
        let done = sealed.done.clone();
        let Ok(request) = submitter.seal(sealed) else {
            return Err(EINVAL);
        };
        // It has no queue of its own, so it is the system's.
        request.punt();
        done.wait_for_completion();
        Ok(())
    }

    #[test]
    fn flag_words_overlap_and_differ() {
        // The reason why there are two types.
        assert_eq!(
            CallerFlags::FORCE_WAIT.into_raw(),
            EndIoFlags::UNWRITTEN.into_raw()
        );
        assert_eq!(
            CallerFlags::OVERWRITE_ONLY.into_raw(),
            EndIoFlags::COW.into_raw()
        );
        // What C does not know is passed on.
        assert_eq!(MapFlags::from_raw(0x8000).into_raw(), 0x8000);
        // A feature that is off is never reported.
        let none = MapFlags::from_raw(0);
        assert!(!MapFlags::from_raw(0xffff).has(none));
        assert!(!none.has(MapFlags::INTEGRITY));
    }

    #[test]
    fn iterators_are_cut_and_restored() -> Result {
        let mut buffer = KVec::from_elem(0xffu8, 4096, GFP_KERNEL)?;
        let vec = bindings::kvec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let raw = Opaque::<bindings::iov_iter>::zeroed();
        // SAFETY: The iterator and the vector are valid for writes and live to the end of the test.
        unsafe { bindings::iov_iter_kvec(raw.get(), bindings::ITER_DEST, &vec, 1, 4096) };
        // SAFETY: As above.
        let mut memory = unsafe { IovIter::from_raw(raw.get()) };

        assert!(!memory.is_source() && !memory.is_user_backed());
        let start = memory.mark();
        let (zeroed, left) = memory.cut(1024, |memory| {
            assert_eq!(memory.len(), 1024);
            // A mark of the part is none of the whole.
            let mark = memory.mark();
            let zeroed = memory.zero(512, ctx());
            assert_eq!(memory.zero(256, ctx()), 256);
            memory.rewind(mark, 512);
            (zeroed, memory.len())
        });
        assert_eq!((zeroed, left), (512, 512));
        assert_eq!(memory.len(), 4096 - 512);
        // A cut that is none.
        assert_eq!(memory.cut(8192, |memory| memory.len()), 4096 - 512);

        // Back as far as is asked for, at most to the mark, and never forward.
        let later = memory.mark();
        assert_eq!(memory.zero(88, ctx()), 88);
        memory.rewind(start, 4096);
        assert_eq!(memory.len(), 4096 - 600);
        memory.rewind(later, 10);
        assert_eq!(memory.len(), 4096 - 522);
        memory.rewind(start, 100);
        assert_eq!(memory.len(), 4096 - 100);
        memory.rewind(later, 0);
        assert_eq!(memory.len(), 4096 - 100);
        memory.rewind(start, 0);
        assert_eq!(memory.len(), 4096);
        assert_eq!(memory.zero(u64::MAX, ctx()), 4096);
        assert!(memory.is_empty());
        assert!(buffer.iter().all(|&byte| byte == 0));
        Ok(())
    }

    #[test]
    fn iterators_know_their_direction() {
        let vec = bindings::kvec {
            iov_base: core::ptr::null_mut(),
            iov_len: 0,
        };
        let raw = Opaque::<bindings::iov_iter>::zeroed();
        // SAFETY: An empty iterator is valid.
        unsafe { bindings::iov_iter_kvec(raw.get(), bindings::ITER_SOURCE, &vec, 1, 0) };
        // SAFETY: As above.
        let mut memory = unsafe { IovIter::from_raw(raw.get()) };
        assert!(memory.is_source());
        assert_eq!(memory.zero(1, ctx()), 0);
    }
}
