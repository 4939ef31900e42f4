// SPDX-License-Identifier: GPL-2.0

//! Requests of a single bio, each as one allocation.
//!
//! A bio set can keep room in front of each of its bios (front pad). [`HeaderSet`] puts the
//! description of the request, a [`Header`], there. Such a request needs no allocation besides its
//! bio, which comes from a per-CPU cache, and no reference count: of the submission and the end of
//! the bio, the second one owns the request.
//!
//! ```text
//!                 submit(): given away with its bio, failed; synchronous
//!  Unsubmitted --------------------------------------------------> Single
//!     |                                                               ^
//!     | start()           +--> Queued, the bio has it: ended ---------+
//!     +---------> InFlight                                            |
//!                         +--> leave() or wait(): ended --------------+
//! ```
//!
//! C header: [`include/linux/bio.h`](srctree/include/linux/bio.h).
//!
//! # Submitting a request of one bio
//!
//! 1. Implement [`Header`] for the description of the request. Make a static [`HeaderSet`], and
//!    call [`HeaderSet::init`] once at boot.
//! 2. Allocate a bio with [`HeaderSet::alloc`], set its sector, and fill it with [`Unfilled::pin`].
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
//! 4. The owner of the [`Single`] completes the request with [`Single::into_parts`].
//!
//! ```no_run
//! use kernel::{
//!     block::{
//!         bdev::BlockDevice,
//!         bio::{OpFlags, MAX_VECS},
//!     },
//!     iomap::{
//!         bio_set::{Header, HeaderSet, Single, Started, Wait},
//!         flags::EndIoFlags,
//!         kiocb::{Answer, BusyIocb, DoneIocb},
//!         ops::DioOps,
//!     },
//!     iov::IovIter,
//!     task::MaySleep,
//! };
//!
//! /// A request of so many bytes.
//! struct Bytes(isize);
//!
//! // SAFETY: An initcall calls `init()`, and there are no requests before.
//! static SET: HeaderSet<Bytes> = unsafe { HeaderSet::new() };
//!
//! impl Header for Bytes {
//!     type Ops = DioOps;
//!
//!     fn punted(request: Single<Self>, _ctx: MaySleep) {
//!         let (iocb, result) = end(request);
//!         iocb.complete(result);
//!     }
//! }
//!
//! impl Started for Bytes {
//!     fn ended(request: Single<Self>) {
//!         // Perhaps an interrupt: let a worker complete it.
//!         request.punt();
//!     }
//! }
//!
//! /// Ends a request, and returns what its caller gets.
//! fn end(request: Single<Bytes>) -> (DoneIocb, isize) {
//!     let error = request.result().err().map_or(0, Error::to_errno);
//!     let (iocb, Bytes(size), _bio) = request.into_parts();
//!     let (iocb, error) = iocb.end_io(size, error, EndIoFlags::empty);
//!     let result = if error == 0 { size } else { error as isize };
//!     let mut iocb = iocb.end_dio();
//!     iocb.advance_pos(result.max(0) as i64);
//!     (iocb, result)
//! }
//!
//! /// Transfers as much of `memory` as fits a bio, from `sector` on.
//! fn transfer(
//!     iocb: BusyIocb<DioOps>,
//!     bdev: &BlockDevice,
//!     memory: &mut IovIter<'_>,
//!     sector: u64,
//!     ctx: MaySleep,
//! ) -> Answer {
//!     let bio = SET
//!         .alloc(iocb, bdev, memory, OpFlags::SYNC, MAX_VECS, Wait::Allowed(ctx))
//!         .and_then(|mut bio| {
//!             bio.set_sector(sector);
//!             bio.pin(bdev.logical_block_size())
//!         });
//!     let bio = match bio {
//!         Ok(bio) => bio,
//!         Err((iocb, error)) => return iocb.refuse(error),
//!     };
//!     let header = Bytes(bio.size() as isize);
//!     match bio.start(header, ctx).leave(ctx) {
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
    request::wake, //
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
    fs::inode::{
        DioDoneWq,
        Puntable, //
    },
    iov::IovIter,
    prelude::*,
    static_lock_class,
    task::{
        MaySleep,
        Task, //
    },
    types::Opaque,
    workqueue::RawWorkItem, //
};
use core::{
    marker::PhantomData,
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
    ptr::NonNull, //
};

/// A request that fits in front of its only bio.
pub trait Header: Send + Sized + 'static {
    /// The callbacks of the file system for the request.
    type Ops: Send + 'static;

    /// Whether the pages are given back together with the bio, when the request is completed, and
    /// not when the bio ends.
    const KEEPS_PAGES: bool = false;

    /// The request runs on the work queue that it was punted to. This owns it and completes it.
    fn punted(request: Single<Self>, ctx: MaySleep);
}

/// A request that its submission may leave to its bio.
pub trait Started: Header {
    /// The bio has ended after the submission left the request. This owns it and completes or punts
    /// it.
    ///
    /// Any context, the hard interrupt included: this must not sleep.
    fn ended(request: Single<Self>);
}

/// A request that can be given away with its bio.
pub trait GivenAway: Header {
    /// The request is over and went well; its bio is gone. This completes it.
    ///
    /// Any context, the hard interrupt included: this must not sleep. A request that failed is
    /// punted instead.
    fn went_well(self, iocb: BusyIocb<Self::Ops>);
}

/// The end of the front pad, next to the bio.
///
/// ```text
///       | work | kiocb | header | handshake | pages | bio ...
///  ^                                                ^
///  FRONT_PAD bytes before the bio                   begins a cache line
/// ```
///
/// The fields that every request uses come last, so that they share no cache line with the others.
#[repr(C)]
struct Pad<H: Header> {
    /// Initialised when the request is punted, which few are.
    work: Opaque<bindings::work_struct>,
    /// Written before the bio is submitted, as the header.
    iocb: MaybeUninit<BusyIocb<H::Ops>>,
    header: MaybeUninit<H>,
    handshake: Handshake,
    /// What happens to the pages when the bio has ended.
    pages: Pages,
}

/// Whether an allocation may wait for memory.
#[derive(Clone, Copy)]
pub enum Wait {
    /// It may, and does not fail (`GFP_KERNEL`).
    Allowed(MaySleep),
    /// It may not (`GFP_NOWAIT`), as for a kiocb with `IOCB_NOWAIT`.
    #[doc(alias = "GFP_NOWAIT")]
    Never,
}

/// A bio set whose bios have a header of type `H` (`struct bio_set`).
#[doc(alias = "bio_set")]
pub struct HeaderSet<H: Header> {
    raw: Opaque<bindings::bio_set>,
    _header: PhantomData<H>,
}

// SAFETY: A bio set is made for concurrent use.
unsafe impl<H: Header> Sync for HeaderSet<H> {}

impl<H: Header> HeaderSet<H> {
    /// Bytes in front of each bio, a whole number of cache lines. The bio itself then begins a
    /// cache line, so that the fields that submission and completion touch share one.
    #[doc(alias = "front_pad")]
    const FRONT_PAD: usize = {
        assert!(align_of::<Pad<H>>() <= bindings::IOMAP_DIO_CACHE_LINE_BYTES);
        size_of::<Pad<H>>().next_multiple_of(bindings::IOMAP_DIO_CACHE_LINE_BYTES)
    };

    /// A bio set that has no bios yet.
    ///
    /// # Safety
    ///
    /// [`HeaderSet::init`] must have succeeded before the bio set is used. It is never destroyed,
    /// so it must be part of the kernel, not of a module.
    pub const unsafe fn new() -> Self {
        Self {
            raw: Opaque::zeroed(),
            _header: PhantomData,
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
    pub fn alloc<'m, 'd>(
        &'static self,
        iocb: BusyIocb<H::Ops>,
        bdev: &'m BlockDevice,
        memory: &'m mut IovIter<'d>,
        flags: OpFlags,
        max_vecs: u16,
        wait: Wait,
    ) -> Result<Unfilled<'m, 'd, H>, Refused<H>> {
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
        // INVARIANT: The bio is from a set with front pad for `H`.
        Ok(Unfilled {
            bio,
            iocb,
            bdev,
            memory,
        })
    }
}

/// The front pad of `bio`, which must be from a `HeaderSet<H>`.
#[inline(always)]
fn pad<H: Header>(bio: *mut bindings::bio) -> *mut Pad<H> {
    bio.wrapping_byte_sub(size_of::<Pad<H>>()).cast()
}

/// A bio with room for a header, still to be filled from the memory that it was allocated for.
///
/// # Invariants
///
/// The bio is from a `HeaderSet<H>`, and its operation is that of `memory`.
#[must_use]
pub struct Unfilled<'m, 'd, H: Header> {
    bio: Bio<Empty>,
    /// Goes to the front pad on submission.
    iocb: BusyIocb<H::Ops>,
    /// The device, whose alignment the memory must have.
    bdev: &'m BlockDevice,
    memory: &'m mut IovIter<'d>,
}

/// The kiocb of a request that could not be put into a bio, and the error.
pub type Refused<H> = (BusyIocb<<H as Header>::Ops>, Error);

impl<H: Header> Unfilled<'_, '_, H> {
    /// Fills the bio with as much of the memory as fits, zero-copy ([`Bio::pin`]).
    ///
    /// If that fails, the kiocb comes back with the error.
    #[doc(alias = "bio_iov_iter_get_pages")]
    #[inline(always)]
    pub fn pin(self, alignment: u32) -> Result<Unsubmitted<H>, Refused<H>> {
        let iocb = self.iocb;
        let bio = match self.bio.pin(self.memory, self.bdev, alignment) {
            Ok(bio) => bio,
            Err(error) => return Err((iocb, error)),
        };
        // SAFETY: By the invariants there is room in front of the bio.
        unsafe { (&raw mut (*pad::<H>(bio.as_raw())).pages).write(bio.pages()) };
        // INVARIANT: Written just now.
        Ok(Unsubmitted { bio, iocb })
    }

    /// As [`Unfilled::pin`], for exactly the next `len` bytes of memory.
    ///
    /// Fails also with `ENOTBLK`, and with the memory back where it was, if the bio does not take
    /// them all.
    #[inline(always)]
    pub fn pin_all(self, alignment: u32, len: u64) -> Result<Unsubmitted<H>, Refused<H>> {
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

/// A filled bio with room for a header, not submitted yet.
///
/// [`Unsubmitted::into_iocb`] gives back the bio and its pages, and leaves the request to the
/// caller.
///
/// # Invariants
///
/// The bio is from a `HeaderSet<H>`, and it is known what becomes of its pages.
#[must_use]
pub struct Unsubmitted<H: Header> {
    bio: Bio<Pinned>,
    /// Goes to the front pad on submission.
    iocb: BusyIocb<H::Ops>,
}

impl<H: Header> Unsubmitted<H> {
    /// The kiocb of the request.
    #[inline]
    pub fn iocb(&self) -> &BusyIocb<H::Ops> {
        &self.iocb
    }

    /// Puts the bio, unsubmitted, and returns the kiocb.
    #[inline]
    pub fn into_iocb(self) -> BusyIocb<H::Ops> {
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

    /// Writes the front pad and submits the bio, which ends with `end_io`. The bio may be gone when
    /// this returns, unless a handshake was begun.
    #[inline(always)]
    fn send(
        self,
        header: H,
        end_io: unsafe extern "C" fn(*mut bindings::bio),
        _ctx: MaySleep,
    ) -> *mut bindings::bio {
        let raw = self.bio.into_parts().0;
        let pad = pad::<H>(raw);
        // SAFETY: By the invariants there is room in front of the bio. The bio is complete and given
        // up here; page locks may sleep, and so may the context.
        unsafe {
            (&raw mut (*pad).iocb).write(MaybeUninit::new(self.iocb));
            (&raw mut (*pad).header).write(MaybeUninit::new(header));
            if (*pad).pages == Pages::Dirtied {
                bindings::bio_set_pages_dirty(raw);
            }
            (*raw).bi_end_io = Some(end_io);
            bio::submit(raw);
        }
        raw
    }

    /// Submits the bio and gives the request away. [`GivenAway::went_well`] or, after an error,
    /// [`Header::punted`] goes on with it, perhaps before this returns.
    ///
    /// Sleeps on page locks, and until the driver has a free tag. Waits for the bio and returns the
    /// request if the kiocb is synchronous: nobody could complete that.
    #[inline(always)]
    pub fn submit(self, header: H, ctx: MaySleep) -> Result<Single<H>, Queued>
    where
        H: GivenAway,
    {
        if self.iocb.is_sync() {
            return Ok(self.submit_and_wait(header, ctx));
        }
        self.send(header, end_given::<H>, ctx);
        Err(Queued::new())
    }

    /// Prepares the front pad for a submission that does not give the request away.
    #[inline(always)]
    fn begin_handshake(&self) {
        // SAFETY: By the invariants there is room in front of the bio.
        unsafe { (&raw mut (*pad::<H>(self.bio.as_raw())).handshake).write(Handshake::new()) };
    }

    /// Submits the bio, and waits until it has ended: uninterruptibly, and accounted as I/O wait.
    #[inline(always)]
    fn submit_and_wait(self, header: H, ctx: MaySleep) -> Single<H> {
        self.begin_handshake();
        let bio = self.send(header, end_awaited::<H>, ctx);
        // SAFETY: The bio leaves the request to us when it has ended.
        let handshake = unsafe { &(*pad::<H>(bio)).handshake };
        if !handshake.has_ended() {
            sleep(handshake, ctx);
        }
        // INVARIANT: The bio has ended, and left the request to us.
        Single {
            bio,
            _header: PhantomData,
        }
    }

    /// Submits the bio of a request that is not over before the submission has left it.
    ///
    /// The submission can still look at the kiocb, whichever comes first.
    #[inline(always)]
    pub fn start(self, header: H, ctx: MaySleep) -> InFlight<H>
    where
        H: Started,
    {
        self.begin_handshake();
        // INVARIANT: Just submitted.
        InFlight {
            bio: self.send(header, end_started::<H>, ctx),
            _header: PhantomData,
        }
    }
}

/// A request whose bio was submitted, as its submission sees it.
///
/// # Invariants
///
/// `bio` is from a `HeaderSet<H>` and was submitted with an initialised header; the submission has
/// not left the request.
#[must_use = "a request is never completed unless it is left or waited for"]
pub struct InFlight<H: Started> {
    bio: *mut bindings::bio,
    _header: PhantomData<H>,
}

impl<H: Started> Drop for InFlight<H> {
    fn drop(&mut self) {
        // The request would never be completed.
        crate::warn_on!(true);
    }
}

impl<H: Started> InFlight<H> {
    /// The state of the handshake.
    #[inline(always)]
    fn handshake(&self) -> &Handshake {
        // SAFETY: By the invariants the request is not over.
        unsafe { &(*pad::<H>(self.bio)).handshake }
    }

    /// The kiocb of the request.
    #[inline]
    pub fn iocb(&self) -> &BusyIocb<H::Ops> {
        // SAFETY: By the invariants the request is not over, and the kiocb is initialised. The end of
        // the bio does not look at it before the submission has left.
        unsafe { (*pad::<H>(self.bio)).iocb.assume_init_ref() }
    }

    /// Leaves the request to its bio, whose end calls [`Started::ended`]. Returns the request
    /// instead if the bio has ended already.
    ///
    /// Waits for the bio if the kiocb is synchronous: nobody could complete that.
    #[inline(always)]
    pub fn leave(self, ctx: MaySleep) -> Result<Single<H>, Queued> {
        if self.iocb().is_sync() {
            return Ok(self.wait(ctx));
        }
        let this = ManuallyDrop::new(self);
        if !this.handshake().leave() {
            return Err(Queued::new());
        }
        // INVARIANT: The bio has ended, and left the request to us.
        Ok(Single {
            bio: this.bio,
            _header: PhantomData,
        })
    }

    /// Waits until the bio has ended: uninterruptibly, and accounted as I/O wait.
    #[inline(always)]
    pub fn wait(self, ctx: MaySleep) -> Single<H> {
        if !self.handshake().has_ended() {
            sleep(self.handshake(), ctx);
        }
        // INVARIANT: The bio has ended, and left the request to us.
        Single {
            bio: ManuallyDrop::new(self).bio,
            _header: PhantomData,
        }
    }
}

/// Sleeps until the bio has ended.
fn sleep(handshake: &Handshake, ctx: MaySleep) {
    if !handshake.wait(Task::current_raw().cast()) {
        sleep_until(ctx, || handshake.has_ended());
    }
}

/// A request whose only bio has ended, and which belongs to this value.
///
/// Dropping it warns, because the request is never completed.
///
/// # Invariants
///
/// `bio` has ended, and belongs to this value; its pages were given back unless the request keeps
/// them. It is from a `HeaderSet<H>` and its header is initialised.
#[must_use = "a dropped request is never completed"]
pub struct Single<H: Header> {
    bio: *mut bindings::bio,
    _header: PhantomData<H>,
}

impl<H: Header> Drop for Single<H> {
    #[cold]
    fn drop(&mut self) {
        crate::warn_on!(true);
    }
}

// SAFETY: Nobody else refers to the bio, and the header is `Send`.
unsafe impl<H: Header> Send for Single<H> {}

impl<H: Header> Single<H> {
    /// The result of the transfer (`bi_status`).
    #[doc(alias = "bi_status")]
    #[inline(always)]
    pub fn result(&self) -> Result {
        // SAFETY: The bio is ours.
        unsafe { bio::result(self.bio) }
    }

    /// What has happened to the caller's pages.
    #[inline]
    pub fn pages(&self) -> Pages {
        // SAFETY: The bio is ours, and what is in front of it was written before it was submitted.
        unsafe { (*pad::<H>(self.bio)).pages }
    }

    /// The description of the request.
    #[inline]
    pub fn header(&self) -> &H {
        // SAFETY: By the invariants the header is initialised, and it lives as long as the bio.
        unsafe { (*pad::<H>(self.bio)).header.assume_init_ref() }
    }

    /// The kiocb and the description of the request.
    #[inline]
    pub fn parts(&mut self) -> (&mut BusyIocb<H::Ops>, &mut H) {
        let pad = pad::<H>(self.bio);
        // SAFETY: As in `header`, and the request is ours alone.
        unsafe {
            (
                (*pad).iocb.assume_init_mut(),
                (*pad).header.assume_init_mut(),
            )
        }
    }

    /// Takes the kiocb and the description out of the front pad. The bio is put when the third
    /// value is dropped, which can wait until the request was completed.
    #[inline(always)]
    pub fn into_parts(self) -> (BusyIocb<H::Ops>, H, Emptied) {
        let bio = ManuallyDrop::new(self).bio;
        let pad = pad::<H>(bio);
        // SAFETY: By the invariants both are initialised; they are read once, as `self` ends.
        let (iocb, header) = unsafe {
            (
                (*pad).iocb.assume_init_read(),
                (*pad).header.assume_init_read(),
            )
        };
        let pages = H::KEEPS_PAGES.then(|| {
            // SAFETY: As above.
            unsafe { (*pad).pages }
        });
        // INVARIANT: Ours, and the pages were given back unless `KEEPS_PAGES`.
        (iocb, header, Emptied { bio, pages })
    }

    /// Lets [`Header::punted`] go on with the request on the queue of the super block, or on the
    /// system's queue if there is none. Any context.
    #[doc(alias = "queue_work")]
    #[cold]
    pub fn punt(self) {
        Punted(self).punt();
    }
}

/// A bio that is not needed any more. Dropping this puts it (`bio_put()`), with its pages if they
/// were kept.
///
/// # Invariants
///
/// The bio has ended and belongs to this value. Its pages are still to be given back if there are
/// `pages`.
#[doc(alias = "bio_put")]
pub struct Emptied {
    bio: *mut bindings::bio,
    pages: Option<Pages>,
}

impl Drop for Emptied {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe {
            match self.pages {
                Some(pages) => bio::put_with_pages(self.bio, pages),
                None => bindings::bio_put(self.bio),
            }
        }
    }
}

/// A request on its way to a work queue.
struct Punted<H: Header>(Single<H>);

impl<H: Header> Puntable for Punted<H> {
    fn queue(&self) -> Option<DioDoneWq<'_>> {
        // SAFETY: As in `Single::header`.
        let iocb = unsafe { (*pad::<H>(self.0.bio)).iocb.assume_init_ref() };
        iocb.inode().dio_done_wq()
    }
}

/// Gives back the pages of a bio that has ended, unless its request keeps them.
///
/// # Safety
///
/// `bio` must have ended, be from a `HeaderSet<H>`, and belong to the caller. Once for a bio.
#[inline(always)]
unsafe fn give_back_unless_kept<H: Header>(bio: *mut bindings::bio) {
    if !H::KEEPS_PAGES {
        // SAFETY: Required of the caller. What becomes of the pages was written before the bio was
        // submitted.
        unsafe { bio::give_back_pages(bio, (*pad::<H>(bio)).pages) };
    }
}

/// The `bi_end_io` of a bio whose request was given away.
///
/// # Safety
///
/// Called by the block layer, once, for such a bio.
#[doc(alias = "bi_end_io")]
unsafe extern "C" fn end_given<H: GivenAway>(bio: *mut bindings::bio) {
    // SAFETY: The bio has ended and is given back.
    if unsafe { (*bio).bi_status } != 0 {
        // SAFETY: As there, and what becomes of its pages was written before it was submitted.
        unsafe { give_back_unless_kept::<H>(bio) };
        // INVARIANT: The bio has ended; its header was written before it was submitted.
        let request = Single::<H> {
            bio,
            _header: PhantomData,
        };
        return request.punt();
    }
    let pad = pad::<H>(bio);
    // SAFETY: Both were written before the bio was submitted, and are read once.
    let (iocb, header) = unsafe {
        (
            (*pad).iocb.assume_init_read(),
            (*pad).header.assume_init_read(),
        )
    };
    // SAFETY: What becomes of the pages was written before, too. The bio is ours, and gone afterwards.
    unsafe { bio::put_with_pages(bio, (*pad).pages) };
    header.went_well(iocb);
}

/// The `bi_end_io` of a bio whose request is not over before the submission has left it.
///
/// # Safety
///
/// Called by the block layer, once, for such a bio.
#[doc(alias = "bi_end_io")]
unsafe extern "C" fn end_started<H: Started>(bio: *mut bindings::bio) {
    let pad = pad::<H>(bio);
    // SAFETY: The bio has ended and is given back. What becomes of its pages was written before it
    // was submitted, and is not changed.
    unsafe { give_back_unless_kept::<H>(bio) };
    // SAFETY: The submission has not been told that the bio has ended.
    match unsafe { (*pad).handshake.end() } {
        // INVARIANT: The bio has ended, its pages were given back just now unless they are kept, and
        // the submission has left; the header was written before.
        AtHandshake::Request => H::ended(Single {
            bio,
            _header: PhantomData,
        }),
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
unsafe extern "C" fn end_awaited<H: Header>(bio: *mut bindings::bio) {
    let pad = pad::<H>(bio);
    // SAFETY: As in `end_started`.
    unsafe { give_back_unless_kept::<H>(bio) };
    // SAFETY: The submission has not been told that the bio has ended.
    match unsafe { (*pad).handshake.end() } {
        // Nobody leaves such a request.
        AtHandshake::Nothing | AtHandshake::Request => {}
        // SAFETY: The request is there until we hand it back, and the task until then.
        AtHandshake::Awaited(task) => unsafe { wake(task, move || (*pad).handshake.hand_back()) },
    }
}

/// The name of the lock class of the work items: as for requests of several bios, one address for
/// all crates.
static WORK_NAME: &CStr = c"iomap_dio_single";

// SAFETY: The `work_struct` is part of the front pad, which `__enqueue` gives up and which stays
// as it is until the work function takes it back.
unsafe impl<H: Header> RawWorkItem<0> for Punted<H> {
    type EnqueueOutput = ();

    unsafe fn __enqueue<F>(self, queue_work_on: F)
    where
        F: FnOnce(*mut bindings::work_struct) -> bool,
    {
        // SAFETY: The front pad is ours.
        let work = unsafe { (*pad::<H>(ManuallyDrop::new(self).0.bio)).work.get() };
        // SAFETY: The field is valid for writes, nobody else refers to it, and the lock class is
        // static.
        unsafe {
            bindings::init_work_with_key(
                work,
                Some(run::<H>),
                false,
                WORK_NAME.as_char_ptr(),
                static_lock_class!().as_ptr(),
            )
        };
        // A work item that was initialised just now is not queued anywhere, so this succeeds.
        queue_work_on(work);
    }
}

/// Goes on with a request on a work queue, in process context.
///
/// # Safety
///
/// `work` must be the field of a front pad that was given up in `__enqueue`.
#[doc(alias = "work_func_t")]
unsafe extern "C" fn run<H: Header>(work: *mut bindings::work_struct) {
    let work = Opaque::cast_from(work);
    // SAFETY: The work item is the field of a front pad.
    let pad: *const Pad<H> = unsafe { crate::container_of!(work, Pad<H>, work) };
    let bio = pad.cast_mut().wrapping_add(1).cast();
    // INVARIANT: The request that `__enqueue` gave up.
    let request = Single {
        bio,
        _header: PhantomData,
    };
    // SAFETY: A worker is in process context.
    let ctx = unsafe { MaySleep::assume() };
    H::punted(request, ctx);
}
