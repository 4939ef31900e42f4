// SPDX-License-Identifier: GPL-2.0

//! Requests of a single bio, each as one allocation.
//!
//! A bio set can keep room in front of each of its bios (front pad). A [`BioSet`] puts the request
//! there. Such a request needs no allocation besides its bio, which comes from a per-CPU cache, and
//! no reference count: of the submission and the end of the bio, the second one owns the request.
//!
//! ```text
//!                 submit(): given away with its bio
//!  Unsubmitted ------------------------------------> GivenAway, or Unique after an error
//!     |
//!     | start()           +--> Queued, the bio has it: ended ---------+
//!     +---------> InFlight                                            +--> Unique
//!                         +--> leave() or wait(): ended --------------+
//! ```
//!
//! C header: [`include/linux/bio.h`](srctree/include/linux/bio.h).
//!
//! # Submitting a request of one bio
//!
//! 1. Implement [`Operations`] for a kind of request. Make a static [`BioSet`], and call
//!    [`BioSet::init`] once at boot.
//! 2. Allocate a bio with [`BioSet::alloc`], set its sector, and fill it with [`Unfilled::pin`].
//!    Up to here an error leaves the caller everything it needs to serve the request in another
//!    way.
//! 3. Choose how it is completed:
//!    * [`Unsubmitted::submit`] gives the request away with the bio, for a request that has nothing
//!      to do after its bio was submitted. It is the cheapest: the end of the bio needs no atomic
//!      operation.
//!    * [`Unsubmitted::start`] leaves the submission a hold on the request, until it calls
//!      [`InFlight::leave`] or [`InFlight::wait`].
//!
//!    Both wait for the bio of a synchronous kiocb and return the request, because nobody could
//!    complete such a kiocb later.
//! 4. The owner of the [`Unique`] completes the request with [`Unique::into_parts`].
//!
//! ```no_run
//! use kernel::{
//!     block::{
//!         bdev::BlockDevice,
//!         bio::{OpFlags, MAX_VECS},
//!     },
//!     iomap::{
//!         bio_set::{BioSet, Wait},
//!         kiocb::{Answer, BusyIocb, DoneIocb},
//!         ops::DioOps,
//!         request::{Operations, Unique},
//!     },
//!     iov::IovIter,
//!     task::MaySleep,
//! };
//!
//! /// Transfers as much of `memory` as fits a bio of `set`, from `sector` on. `end` ends a request,
//! /// and returns what its caller gets.
//! fn transfer<T: Operations<Sealed = isize>>(
//!     set: &'static BioSet<T>,
//!     iocb: BusyIocb<DioOps>,
//!     bdev: &BlockDevice,
//!     memory: &mut IovIter<'_>,
//!     sector: u64,
//!     end: fn(Unique<T>) -> (DoneIocb, isize),
//!     ctx: MaySleep,
//! ) -> Answer {
//!     let bio = set
//!         .alloc(iocb, bdev, memory, OpFlags::SYNC, MAX_VECS, Wait::Allowed(ctx))
//!         .and_then(|mut bio| {
//!             bio.set_sector(sector);
//!             bio.pin(bdev.logical_block_size())
//!         });
//!     let bio = match bio {
//!         Ok(bio) => bio,
//!         Err((iocb, error)) => return iocb.refuse(error),
//!     };
//!     let size = bio.size() as isize;
//!     match bio.start(size, ctx).leave(ctx) {
//!         Ok(request) => {
//!             let (iocb, result) = end(request);
//!             iocb.answer(result)
//!         }
//!         Err(queued) => queued.answer(),
//!     }
//! }
//! ```

use super::{
    handover::{
        sleep_until,
        AtHandshake,
        Handshake, //
    },
    kiocb::{
        BusyIocb,
        Queued, //
    },
    ops::DioOps,
    request::{
        wake,
        FrontPad,
        Left,
        Operations,
        Unique, //
    },
};
use crate::{
    alloc::flags::{
        GFP_KERNEL,
        GFP_NOWAIT, //
    },
    bindings,
    block::{
        bdev::BlockDevice,
        bio::{
            self,
            op,
            Bio,
            Empty,
            OpFlags,
            Pages,
            Pinned,
            MAX_VECS, //
        },
    },
    error::to_result,
    iov::IovIter,
    prelude::*,
    task::{
        MaySleep,
        Task, //
    },
    types::Opaque, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull, //
};

/// A request that can be given away with its bio: what is kept of it.
pub trait GivenAway: Send + Sized + 'static {
    /// The kind of request that it becomes if it fails.
    type Failed: Operations;

    /// The request is over and went well; its bio is gone. This completes it.
    ///
    /// Any context, the hard interrupt included: this must not sleep.
    fn went_well(self, iocb: BusyIocb<()>);

    /// The description of the request, which is punted.
    fn failed(self) -> <Self::Failed as Operations>::Sealed;
}

/// What is in front of the bio of a request that was given away, in place of [`Left`].
type Given<G> = (BusyIocb<()>, G);

/// Whether an allocation may wait for memory.
#[derive(Clone, Copy)]
pub enum Wait {
    /// It may, and does not fail (`GFP_KERNEL`).
    Allowed(MaySleep),
    /// It may not (`GFP_NOWAIT`), as for a kiocb with `IOCB_NOWAIT`.
    #[doc(alias = "GFP_NOWAIT")]
    Never,
}

/// A bio set with room for a request in front of each bio (`struct bio_set`).
#[doc(alias = "bio_set")]
pub struct BioSet<T: Operations> {
    raw: Opaque<bindings::bio_set>,
    _kind: PhantomData<T>,
}

// SAFETY: A bio set is made for concurrent use.
unsafe impl<T: Operations> Sync for BioSet<T> {}

impl<T: Operations> BioSet<T> {
    /// Bytes in front of each bio, a whole number of cache lines. The bio itself then begins a
    /// cache line, so that the fields that submission and completion touch share one.
    #[doc(alias = "front_pad")]
    const FRONT_PAD: usize = {
        assert!(align_of::<FrontPad<T>>() <= bindings::IOMAP_DIO_CACHE_LINE_BYTES);
        size_of::<FrontPad<T>>().next_multiple_of(bindings::IOMAP_DIO_CACHE_LINE_BYTES)
    };

    /// A bio set that has no bios yet.
    ///
    /// # Safety
    ///
    /// [`BioSet::init`] must have succeeded before the bio set is used. It is never destroyed,
    /// so it must be part of the kernel, not of a module.
    pub const unsafe fn new() -> Self {
        Self {
            raw: Opaque::zeroed(),
            _kind: PhantomData,
        }
    }

    /// Fills the reserve with `reserve` bios and sets up the caches per CPU (`bioset_init()`).
    ///
    /// The reserve guarantees progress when memory is short: an allocation that may wait gets a bio
    /// when one of these is put. Fails with `ENOMEM`.
    ///
    /// # Safety
    ///
    /// Must be called at most once, before any use of the bio set (from an initcall).
    #[doc(alias = "bioset_init")]
    pub unsafe fn init(&'static self, reserve: u32) -> Result {
        // SAFETY: The bio set is static and, by the requirement, not in use.
        to_result(unsafe {
            bindings::bioset_init(
                self.raw.get(),
                reserve,
                // CAST: A few cache lines.
                Self::FRONT_PAD as u32,
                (bindings::BIOSET_NEED_BVECS | bindings::BIOSET_PERCPU_CACHE) as c_int,
            )
        })
    }

    /// Allocates a bio for `memory`, for the request of `iocb`, with at most `max_vecs` segments of
    /// its own.
    ///
    /// The operation is a write if `memory` is a source. The kiocb belongs to the bio from now on.
    /// If this fails, it comes back with the error.
    ///
    /// Fails with `EAGAIN` if the allocation would have to wait and must not, and with `ENOTBLK` if
    /// the memory may need more segments.
    #[doc(alias = "bio_alloc_bioset")]
    #[inline(always)]
    pub fn alloc<'m, 'd, O>(
        &'static self,
        iocb: BusyIocb<O>,
        bdev: &'m BlockDevice,
        memory: &'m mut IovIter<'d>,
        flags: OpFlags,
        max_vecs: u16,
        wait: Wait,
    ) -> Result<Unfilled<'m, 'd, T, O>, Refused<O>> {
        let gfp = match wait {
            Wait::Allowed(_) => GFP_KERNEL,
            Wait::Never => GFP_NOWAIT,
        };
        let vecs = memory.vecs_to_alloc();
        if max_vecs < MAX_VECS && vecs > max_vecs {
            return Err((iocb, ENOTBLK));
        }
        // SAFETY: The device is valid, and so is the bio set, as its constructor requires.
        let raw = unsafe {
            bindings::bio_alloc_bioset(
                bdev.as_raw(),
                vecs,
                flags.into_raw() | op(memory),
                gfp.as_raw(),
                self.raw.get(),
            )
        };
        let Some(raw) = NonNull::new(raw) else {
            return Err((iocb, EAGAIN));
        };
        // SAFETY: The bio was allocated just now.
        let bio = unsafe { Bio::from_raw(raw) };
        // INVARIANT: The bio is from this set.
        Ok(Unfilled {
            bio,
            iocb,
            bdev,
            memory,
            _kind: PhantomData,
        })
    }
}

/// A bio with room for a request, still to be filled from the memory that it was allocated for.
///
/// # Invariants
///
/// The bio is from a `BioSet<T>`, and its operation is that of `memory`.
#[must_use]
pub struct Unfilled<'m, 'd, T: Operations, O> {
    bio: Bio<Empty>,
    /// Goes to the front pad on submission.
    iocb: BusyIocb<O>,
    /// The device, whose alignment the memory must have.
    bdev: &'m BlockDevice,
    memory: &'m mut IovIter<'d>,
    _kind: PhantomData<T>,
}

/// The kiocb of a request that could not be put into a bio, and the error.
pub type Refused<O> = (BusyIocb<O>, Error);

impl<T: Operations, O> Unfilled<'_, '_, T, O> {
    /// Fills the bio with as much of the memory as fits, zero-copy ([`Bio::pin`]).
    ///
    /// If that fails, the kiocb comes back with the error.
    #[doc(alias = "bio_iov_iter_get_pages")]
    #[inline(always)]
    pub fn pin(self, alignment: u32) -> Result<Unsubmitted<T, O>, Refused<O>> {
        let iocb = self.iocb;
        let bio = match self.bio.pin(self.memory, self.bdev, alignment) {
            Ok(bio) => bio,
            Err(error) => return Err((iocb, error)),
        };
        // SAFETY: By the invariants there is room in front of the bio.
        unsafe { (&raw mut (*FrontPad::<T>::of(bio.as_raw())).head.pages).write(bio.pages()) };
        // INVARIANT: Written just now.
        Ok(Unsubmitted {
            bio,
            iocb,
            _kind: PhantomData,
        })
    }

    /// As [`Unfilled::pin`], for exactly the next `len` bytes of memory.
    ///
    /// Fails also with `ENOTBLK`, and with the memory back where it was, if the bio does not take
    /// them all.
    #[inline(always)]
    pub fn pin_all(self, alignment: u32, len: u64) -> Result<Unsubmitted<T, O>, Refused<O>> {
        let memory = self.memory.as_raw();
        let bio = self.pin(alignment)?;
        if u64::from(bio.size()) != len {
            // SAFETY: The iterator was advanced by so much just now.
            unsafe { bindings::iov_iter_revert(memory, bio.size() as usize) };
            return Err((bio.into_iocb(), ENOTBLK));
        }
        Ok(bio)
    }

    /// Sets the first sector of the transfer on the device, in units of 512 bytes
    /// ([`Bio::set_sector`]).
    #[doc(alias = "bi_sector")]
    #[inline]
    pub fn set_sector(&mut self, sector: u64) {
        self.bio.set_sector(sector);
    }

    /// Gives the bio the I/O priority of the request (`bi_ioprio`).
    #[doc(alias = "bi_ioprio")]
    #[inline]
    pub fn set_ioprio(&mut self) {
        self.bio.set_ioprio(self.iocb.ioprio());
    }

    /// Gives the bio the lifetime hint of the file (`bi_write_hint`).
    #[doc(alias = "bi_write_hint")]
    #[inline]
    pub fn set_write_hint(&mut self) {
        self.bio.set_write_hint(self.iocb.inode());
    }

    /// Sets up inline encryption for byte `pos` of the file, if that is encrypted
    /// (`fscrypt_set_bio_crypt_ctx()`).
    #[doc(alias = "fscrypt_set_bio_crypt_ctx")]
    #[inline]
    pub fn set_crypt_ctx(&mut self, pos: i64, ctx: MaySleep) {
        self.bio.set_crypt_ctx(self.iocb.inode(), pos, ctx);
    }
}

/// A filled bio with room for a request, not submitted yet.
///
/// [`Unsubmitted::into_iocb`] gives back the bio and its pages, and leaves the request to the
/// caller.
///
/// # Invariants
///
/// The bio is from a `BioSet<T>`, and what becomes of its pages is written in front of it.
#[must_use]
pub struct Unsubmitted<T: Operations, O> {
    bio: Bio<Pinned>,
    /// Goes to the front pad on submission.
    iocb: BusyIocb<O>,
    _kind: PhantomData<T>,
}

impl<T: Operations, O> Unsubmitted<T, O> {
    /// The kiocb of the request.
    #[inline]
    pub fn iocb(&self) -> &BusyIocb<O> {
        &self.iocb
    }

    /// Puts the bio, unsubmitted, and returns the kiocb.
    #[inline]
    pub fn into_iocb(self) -> BusyIocb<O> {
        self.iocb
    }

    /// The size of the transfer in bytes ([`Bio::size`]).
    #[doc(alias = "bi_size")]
    #[inline]
    pub fn size(&self) -> u32 {
        self.bio.size()
    }

    /// Charges the bytes of the bio to the current task as written ([`Bio::account_write`]).
    #[doc(alias = "task_io_account_write")]
    #[inline]
    pub fn account_write(&self) {
        self.bio.account_write();
    }

    /// Adds flags to the bio ([`Bio::add_flags`]).
    #[doc(alias = "bi_opf")]
    #[inline]
    pub fn add_flags(&mut self, flags: OpFlags) {
        self.bio.add_flags(flags);
    }

    /// Lets the caller of the request poll for this bio, or clears `IOCB_HIPRI` if nobody can.
    ///
    /// Nothing for a synchronous kiocb, whose caller waits.
    #[doc(alias = "bio_set_polled")]
    #[inline]
    pub fn poll_for(&mut self) {
        if !self.iocb.is_sync() {
            self.bio.poll_for(&self.iocb);
        }
    }

    /// Submits the bio, which ends with `end_io`. It may be gone when this returns, unless a handshake
    /// was begun.
    ///
    /// # Safety
    ///
    /// What `end_io` looks at must be written in front of the bio.
    #[inline(always)]
    unsafe fn send(
        bio: Bio<Pinned>,
        end_io: unsafe extern "C" fn(*mut bindings::bio),
        _ctx: MaySleep,
    ) {
        let raw = bio.into_parts().0;
        // SAFETY: By the invariants of the caller what becomes of the pages is written in front of the
        // bio. The bio is complete and given up here; page locks may sleep, and so may the context.
        unsafe {
            if (*FrontPad::<T>::of(raw)).head.pages == Pages::Dirtied {
                bindings::bio_set_pages_dirty(raw);
            }
            (*raw).bi_end_io = Some(end_io);
            bio::submit(raw);
        }
    }

    /// Prepares the front pad for a submission that does not give the request away.
    #[inline(always)]
    fn begin_handshake(&self) -> *mut FrontPad<T> {
        let pad = FrontPad::<T>::of(self.bio.as_raw());
        // SAFETY: By the invariants there is room in front of the bio.
        unsafe { (&raw mut (*pad).handshake).write(Handshake::new()) };
        pad
    }
}

impl<T: Operations> Unsubmitted<T, ()> {
    /// Submits the bio and gives the request away. [`GivenAway::went_well`] or, after an error,
    /// [`Operations::punted`] goes on with it, perhaps before this returns.
    ///
    /// Sleeps on page locks, and until the driver has a free tag. Waits for the bio if the kiocb is
    /// synchronous, because nobody could complete that, and returns it with the result.
    #[inline(always)]
    pub fn submit<G: GivenAway<Failed = T>>(
        self,
        given: G,
        ctx: MaySleep,
    ) -> Result<(BusyIocb<()>, Result), Queued> {
        if self.iocb.is_sync() {
            return Ok(self.submit_and_wait(ctx));
        }
        const { assert!(size_of::<Given<G>>() <= size_of::<Left<T>>()) };
        const { assert!(align_of::<Given<G>>() <= align_of::<Left<T>>()) };
        let pad = FrontPad::<T>::of(self.bio.as_raw());
        // SAFETY: There is room in front of the bio, of which all that `end_given` looks at is written.
        unsafe {
            (&raw mut (*pad).head.left)
                .cast::<Given<G>>()
                .write((self.iocb, given));
            Self::send(self.bio, end_given::<G>, ctx);
        }
        Err(Queued::new())
    }

    /// Submits the bio, and waits until it has ended: uninterruptibly, and accounted as I/O wait.
    #[inline(always)]
    fn submit_and_wait(self, ctx: MaySleep) -> (BusyIocb<()>, Result) {
        let pad = self.begin_handshake();
        let bio = self.bio.as_raw();
        // SAFETY: The handshake is written. The bio leaves the front pad to us when it has ended.
        let handshake = unsafe {
            Self::send(self.bio, end_awaited::<T>, ctx);
            &(*pad).handshake
        };
        wait(handshake, ctx);
        // SAFETY: The bio has ended, and belongs to us.
        let result = unsafe {
            let result = bio::result(bio);
            bio::put_with_pages(bio, (*pad).head.pages);
            result
        };
        (self.iocb, result)
    }
}

impl<T: Operations> Unsubmitted<T, DioOps> {
    /// Submits the bio of a request that is not over before the submission has left it.
    ///
    /// The submission can still look at the kiocb, whichever comes first.
    #[inline(always)]
    pub fn start(self, sealed: T::Sealed, ctx: MaySleep) -> InFlight<T> {
        let pad = self.begin_handshake();
        let bio = self.bio.as_raw();
        // SAFETY: There is room in front of the bio, all of which is written now.
        unsafe {
            (*pad).head.left.write((self.iocb, sealed));
            Self::send(self.bio, end_started::<T>, ctx);
        }
        // INVARIANT: Just submitted.
        InFlight {
            bio,
            _kind: PhantomData,
        }
    }
}

/// A request whose bio was submitted, as its submission sees it.
///
/// # Invariants
///
/// `bio` is from a `BioSet<T>` and was submitted with all of a request in front of it; the submission
/// has not left the request.
#[must_use = "a request is never completed unless it is left or waited for"]
pub struct InFlight<T: Operations> {
    bio: *mut bindings::bio,
    _kind: PhantomData<T>,
}

impl<T: Operations> Drop for InFlight<T> {
    fn drop(&mut self) {
        // The request would never be completed.
        crate::warn_on!(true);
    }
}

impl<T: Operations> InFlight<T> {
    /// The state of the handshake.
    #[inline(always)]
    fn handshake(&self) -> &Handshake {
        // SAFETY: By the invariants the request is not over.
        unsafe { &(*FrontPad::<T>::of(self.bio)).handshake }
    }

    /// The kiocb of the request.
    #[inline]
    pub fn iocb(&self) -> &BusyIocb<DioOps> {
        // SAFETY: By the invariants the request is not over, and initialised. The end of the bio does not
        // look at the kiocb before the submission has left.
        unsafe { &(*FrontPad::<T>::of(self.bio)).head.left.assume_init_ref().0 }
    }

    /// Leaves the request to its bio, whose end calls [`Operations::ended`]. Returns the request
    /// instead if the bio has ended already.
    ///
    /// Waits for the bio if the kiocb is synchronous: nobody could complete that.
    #[inline(always)]
    pub fn leave(self, ctx: MaySleep) -> Result<Unique<T>, Queued> {
        if self.iocb().is_sync() {
            return Ok(self.wait(ctx));
        }
        let this = ManuallyDrop::new(self);
        if !this.handshake().leave() {
            return Err(Queued::new());
        }
        // SAFETY: The bio has ended, and left the request to us.
        Ok(unsafe { Unique::in_front_of(this.bio) })
    }

    /// Waits until the bio has ended: uninterruptibly, and accounted as I/O wait.
    #[inline(always)]
    pub fn wait(self, ctx: MaySleep) -> Unique<T> {
        let this = ManuallyDrop::new(self);
        wait(this.handshake(), ctx);
        // SAFETY: The bio has ended, and left the request to us.
        unsafe { Unique::in_front_of(this.bio) }
    }
}

/// Waits until the bio has ended.
#[inline(always)]
fn wait(handshake: &Handshake, ctx: MaySleep) {
    if !handshake.has_ended() {
        sleep(handshake, ctx);
    }
}

/// Sleeps until the bio has ended.
fn sleep(handshake: &Handshake, ctx: MaySleep) {
    if !handshake.wait(Task::current_raw().cast()) {
        sleep_until(ctx, || handshake.has_ended());
    }
}

/// The `bi_end_io` of a bio whose request was given away.
///
/// # Safety
///
/// Called by the block layer, once, for such a bio.
#[doc(alias = "bi_end_io")]
unsafe extern "C" fn end_given<G: GivenAway>(bio: *mut bindings::bio) {
    let pad = FrontPad::<G::Failed>::of(bio);
    // SAFETY: The bio has ended and is given back. What is in front of it was written before it was
    // submitted, and is read once.
    let (iocb, given) = unsafe { (&raw const (*pad).head.left).cast::<Given<G>>().read() };
    // SAFETY: The bio is ours.
    if unsafe { (*bio).bi_status } != 0 {
        let left = (iocb.without_callbacks(), given.failed());
        // SAFETY: As above, and in place of what was read there is all of a request now.
        let request = unsafe {
            bio::give_back_pages(bio, (*pad).head.pages);
            (*pad).head.left.write(left);
            Unique::<G::Failed>::in_front_of(bio)
        };
        return request.punt();
    }
    // SAFETY: The bio is ours, and gone afterwards.
    unsafe { bio::put_with_pages(bio, (*pad).head.pages) };
    given.went_well(iocb);
}

/// The `bi_end_io` of a bio whose request is not over before the submission has left it.
///
/// # Safety
///
/// Called by the block layer, once, for such a bio.
#[doc(alias = "bi_end_io")]
unsafe extern "C" fn end_started<T: Operations>(bio: *mut bindings::bio) {
    let pad = FrontPad::<T>::of(bio);
    // SAFETY: The bio has ended and is given back. What becomes of its pages was written before it
    // was submitted.
    unsafe { bio::give_back_pages(bio, (*pad).head.pages) };
    // SAFETY: The submission has not been told that the bio has ended.
    match unsafe { (*pad).handshake.end() } {
        // SAFETY: The bio has ended, and the submission has left the request, which it wrote before.
        AtHandshake::Request => T::ended(unsafe { Unique::in_front_of(bio) }),
        AtHandshake::Nothing => {}
        // SAFETY: The request is there until we hand it back, and the task until then.
        AtHandshake::Awaited(task) => unsafe { wake(task, move || (*pad).handshake.hand_back()) },
    }
}

/// The `bi_end_io` of a bio that its submission waits for.
///
/// # Safety
///
/// Called by the block layer, once, for such a bio.
#[doc(alias = "bi_end_io")]
unsafe extern "C" fn end_awaited<T: Operations>(bio: *mut bindings::bio) {
    let pad = FrontPad::<T>::of(bio);
    // SAFETY: The submission has not been told that the bio has ended.
    match unsafe { (*pad).handshake.end() } {
        // Nobody leaves such a request.
        AtHandshake::Nothing | AtHandshake::Request => {}
        // SAFETY: The request is there until we hand it back, and the task until then.
        AtHandshake::Awaited(task) => unsafe { wake(task, move || (*pad).handshake.hand_back()) },
    }
}
