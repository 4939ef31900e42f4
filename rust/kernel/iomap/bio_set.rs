// SPDX-License-Identifier: GPL-2.0

//! Requests of a single bio, each as one allocation.
//!
//! A bio set can keep room in front of each of its bios (front pad). A [`BioSet`] puts the request
//! there. Such a request needs no allocation besides its bio, which comes from a per-CPU cache if
//! it has few segments, and a bounce buffer, and no reference count: of the submission and the end
//! of the bio, the second one owns the request.
//!
//! ```text
//!                 submit(): given away with its bio
//!  Unsubmitted ------------------------------------> SimpleRead, or Unique after an error
//!     |
//!     | start()           +--> Answer, the bio has it: ended ---------+
//!     +---------> InFlight                                            +--> Unique
//!                         +--> leave() or wait(): ended --------------+
//! ```
//!
//! C header: [`include/linux/bio.h`](srctree/include/linux/bio.h).
//!
//! Up to its submission an error leaves the caller everything it needs to serve the request in
//! another way. [`Unsubmitted::submit`] is for a simple read, whose submission has nothing to do
//! afterwards: the end of its bio needs no atomic operation. [`Unsubmitted::start`] leaves the
//! submission a hold on the request.

use super::{
    bio::done,
    handover::{
        sleep_until,
        AtEnd,
        Handshake, //
    },
    iter::{
        Place,
        Whole, //
    },
    kiocb::{
        Answer,
        Armed,
        BusyIocb,
        Callbacks, //
    },
    ops::{
        DioOps,
        EndIo, //
    },
    request::{
        create_cache,
        poll_until,
        wake,
        FrontPad,
        Home,
        Left,
        Unique, //
    },
    stats::{
        self,
        Stat, //
    },
    worker::Operations,
};
use crate::{
    alloc::flags::{
        GFP_KERNEL,
        GFP_NOWAIT, //
    },
    bindings,
    block::bio::{
        self,
        op,
        Bio,
        Filled,
        OpFlags,
        MAX_VECS,
        MOST_UNBOUNCED, //
    },
    error::to_result,
    fs::IocbFlags,
    iov::IovIter,
    page::PAGE_SIZE,
    prelude::*,
    task::{
        MaySleep,
        Task, //
    },
    types::Opaque, //
};
use core::{
    cell::UnsafeCell,
    cmp::min,
    marker::PhantomData,
    mem::MaybeUninit,
    ptr, //
};

/// What is in front of the bio of a request that was given away, in place of [`Left`].
struct Given<T: Operations> {
    iocb: BusyIocb<()>,
    read: T::SimpleRead,
}

/// A bio set with room for a request in front of each bio (`struct bio_set`).
pub struct BioSet<T: Operations> {
    raw: Opaque<bindings::bio_set>,
    /// The bounce buffers of a page, and of [`MOST_UNBOUNCED`].
    buffers: UnsafeCell<[*mut bindings::kmem_cache; 2]>,
    _kind: PhantomData<T>,
}

// SAFETY: A bio set is made for concurrent use. The caches are written before any use.
unsafe impl<T: Operations> Sync for BioSet<T> {}

impl<T: Operations> BioSet<T> {
    /// Bytes in front of each bio, a whole number of cache lines. The bio itself then begins a
    /// cache line, so that the fields that submission and completion touch share one.
    #[doc(alias = "front_pad")]
    const FRONT_PAD: usize = {
        assert!(align_of::<FrontPad<T>>() <= bindings::IOMAP_DIO_CACHE_LINE_BYTES);
        assert!(size_of::<FrontPad<T>>() <= PAGE_SIZE);
        size_of::<FrontPad<T>>().next_multiple_of(bindings::IOMAP_DIO_CACHE_LINE_BYTES)
    };

    /// A bio set that has no bios yet.
    ///
    /// # Safety
    ///
    /// [`BioSet::init`] must have succeeded before the bio set is used. It is never destroyed, so
    /// it must be part of the kernel, not of a module. `T` must be as [`Cache::new`] requires.
    ///
    /// [`Cache::new`]: super::request::Cache::new
    pub const unsafe fn new() -> Self {
        Self {
            raw: Opaque::zeroed(),
            buffers: UnsafeCell::new([ptr::null_mut(); 2]),
            _kind: PhantomData,
        }
    }

    /// Fills the reserve with `reserve` bios and sets up the caches per CPU (`bioset_init()`), and
    /// those of bounce buffers, which `/proc/slabinfo` shows as `iomap_dio_bounce...`.
    ///
    /// The reserve is for simple reads, whose bios are put where they end, or by a worker if the
    /// read has failed: one that may wait for memory gets a bio when another is put. Fails with
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// Must be called at most once, before any use of the bio set (from an initcall).
    pub unsafe fn init(&'static self, reserve: u32) -> Result {
        let small = create_cache(c"iomap_dio_bounce_page", PAGE_SIZE, PAGE_SIZE, 0)?;
        let large = create_cache(c"iomap_dio_bounce", MOST_UNBOUNCED, PAGE_SIZE, 0)?;
        // SAFETY: The bio set is static and, by the requirement, not in use.
        to_result(unsafe {
            *self.buffers.get() = [small.as_ptr(), large.as_ptr()];
            bindings::bioset_init(
                self.raw.get(),
                reserve,
                // CAST: A few cache lines.
                Self::FRONT_PAD as u32,
                (bindings::BIOSET_NEED_BVECS | bindings::BIOSET_PERCPU_CACHE) as c_int,
            )
        })
    }

    /// Builds the bio of all of `span`, from or to `memory`, for the request of `iocb`. `flags` are
    /// those of the bio.
    ///
    /// With [`Callbacks::BOUNCED`] the data of a write is copied to a buffer of the bio now, and
    /// that of a read when the bio has ended. A simple read leaves out what only others need.
    ///
    /// The kiocb belongs to the bio from now on. If this fails, it comes back with the error; the
    /// memory stays where pinning or copying it has ended, but for a simple read that fails with
    /// `ENOTBLK`. If this succeeds, the memory of an asynchronous kiocb, or that of a bounced read,
    /// may stay where it was: whoever answers the request moves it on ([`IovIter::advance`]).
    ///
    /// Only a simple read that may block waits for memory for its bio. Where the device would wait,
    /// the bio of a request that must not block fails with `EAGAIN`: [`Unsubmitted::start`] sees to
    /// that, and of a simple read `flags` do.
    ///
    /// Fails with `ENOTBLK` if one bio may not take all of it or, unless this is a simple read, the
    /// file is encrypted, with `EAGAIN` if there is no memory without waiting, with `EFAULT` if the
    /// caller's memory cannot be accessed, and with `EINVAL` if that is not aligned as the device
    /// needs it, or if the memory is for the other direction, or the kiocb of another file, than
    /// the mapping; that of a simple read may be one for a write.
    #[doc(alias("bio_alloc_bioset", "bio_iov_iter_get_pages", "bio_iov_iter_bounce"))]
    #[inline(always)]
    pub fn fill<'m, O: Callbacks>(
        &'static self,
        iocb: BusyIocb<O>,
        span: &Whole<'m>,
        memory: &mut IovIter<'_>,
        flags: OpFlags,
        _ctx: MaySleep,
    ) -> Result<Unsubmitted<'m, T, O>, (BusyIocb<O>, Error)> {
        let place = span.place;
        let write = memory.is_source();
        if write != (!O::SIMPLE && place.is_write()) || !ptr::eq(iocb.inode(), place.inode()) {
            return Err((iocb, EINVAL));
        }
        // What ends a request may wait for a context of encryption from the pool that the one of its
        // bio would be from. A counted request gives it back where the bio ends.
        #[cfg(CONFIG_FS_ENCRYPTION_INLINE_CRYPT)]
        // SAFETY: The inode is valid. Whether it is encrypted does not change while it is open.
        let is_encrypted =
            unsafe { (*place.inode().as_raw()).i_flags & bindings::S_ENCRYPTED != 0 };
        #[cfg(not(CONFIG_FS_ENCRYPTION_INLINE_CRYPT))]
        let is_encrypted = false;
        if !O::SIMPLE && is_encrypted {
            return Err((iocb, ENOTBLK));
        }
        // Whether there are more than a bio can have is seen by one more.
        let most = if O::SIMPLE || O::BOUNCED {
            MAX_VECS
        } else {
            MAX_VECS + 1
        };
        let vecs = if !O::BOUNCED {
            memory.vecs_to_alloc(most)
        } else if write {
            1
        } else if memory.is_bvec() {
            // CAST: No more than `MAX_VECS`.
            min(memory.bvecs().0.len().saturating_add(1), MAX_VECS.into()) as u16
        } else {
            memory.bounce_vecs()
        };
        if !O::SIMPLE && vecs == most {
            return Err((iocb, ENOTBLK));
        }
        // What ends a request may wait for a file system below this one that needs a bio of the
        // reserve. So the bio of a request that lives in front of it does not come from there.
        let gfp = if O::SIMPLE && !place.is_nowait() {
            GFP_KERNEL
        } else {
            GFP_NOWAIT
        };
        let opf = flags.into_raw() | op(write);
        // SAFETY: The bio set is static, and in use as its constructor requires. There is room in
        // front of a bio of this set.
        let mut bio = unsafe {
            let Some(bio) = Bio::alloc(span.bdev(), vecs, opf, gfp, self.raw.get()) else {
                return Err((iocb, EAGAIN));
            };
            let head = &raw mut (*FrontPad::<T>::of(bio.as_raw())).head;
            // As `IovIter::should_dirty`; whether it writes is known.
            (&raw mut (*head).should_dirty).write(!write && memory.is_user_backed());
            bio
        };
        bio.set_sector(span.sector(place.pos()));
        if !O::SIMPLE {
            bio.set_write_hint(place.inode());
        }
        let filled = if O::BOUNCED {
            // SAFETY: `init` has made the caches.
            unsafe { bio.bounce_at_once(memory, place.remaining(), *self.buffers.get()) }
        } else if memory.is_bvec() && !iocb.is_sync() {
            bio.borrow(memory, span.bdev(), place.remaining())
        } else {
            // All of it or nothing: the walk would pin again what is cut off. A simple read is cut
            // as in C.
            let alignment = if O::SIMPLE {
                span.bdev().logical_block_size()
            } else {
                1
            };
            bio.pin(memory, span.bdev(), alignment)
        };
        let mut bio = match filled {
            Ok(bio) => bio,
            Err(error) => return Err((iocb, error)),
        };
        bio.set_ioprio(iocb.ioprio());
        // One with a bounce buffer has it all.
        if !O::BOUNCED && u64::from(bio.size()) != place.remaining() {
            // Lent memory has not moved on, and others have a mark.
            if O::SIMPLE && (!memory.is_bvec() || iocb.is_sync()) {
                // SAFETY: The iterator was advanced by so much just now.
                unsafe { bindings::iov_iter_revert(memory.as_raw(), bio.size() as usize) };
            }
            return Err((iocb, ENOTBLK));
        }
        if write {
            bio.account_write();
        }
        // INVARIANT: What becomes of the pages was written above.
        Ok(Unsubmitted {
            bio,
            iocb,
            _kind: PhantomData,
        })
    }
}

/// A filled bio with room for a request, not submitted yet.
///
/// # Invariants
///
/// The bio is from a `BioSet<T>`, has bounce buffers if [`Callbacks::BOUNCED`], and what becomes of
/// its pages is written in front of it.
#[must_use]
pub struct Unsubmitted<'m, T: Operations, O: Callbacks> {
    bio: Filled,
    /// Goes to the front pad on submission.
    iocb: BusyIocb<O>,
    /// The blocks are those of a mapping.
    _kind: PhantomData<(&'m Place, T)>,
}

impl<T: Operations, O: Callbacks> Unsubmitted<'_, T, O> {
    /// The kiocb of the request.
    #[inline]
    pub fn iocb(&self) -> &BusyIocb<O> {
        &self.iocb
    }

    /// The size of the transfer in bytes (`bi_size`).
    #[inline]
    pub fn size(&self) -> u32 {
        self.bio.size()
    }

    /// Lets the caller of the request poll for this bio, or clears `IOCB_HIPRI` if nobody can.
    ///
    /// Nothing for a kiocb without the flag, or for a synchronous one, whose caller waits.
    #[doc(alias = "bio_set_polled")]
    #[inline]
    pub fn poll_for(&mut self) {
        self.iocb.poll_for(&mut self.bio);
    }

    /// Submits the bio, which ends with `end_io`. It may be gone when this returns, unless a
    /// handshake was begun.
    ///
    /// # Safety
    ///
    /// What `end_io` looks at must be written in front of the bio.
    #[inline(always)]
    unsafe fn send(bio: Filled, end_io: unsafe extern "C" fn(*mut bindings::bio), _ctx: MaySleep) {
        let raw = bio.into_raw();
        // SAFETY: By the invariants of the caller what becomes of the pages is written in front of
        // the bio. The bio is complete and given up here; page locks may sleep, and so may the
        // context.
        unsafe {
            if !O::BOUNCED && (*FrontPad::<T>::of(raw)).head.should_dirty {
                bindings::bio_set_pages_dirty(raw);
            }
            (*raw).bi_end_io = Some(end_io);
            bindings::submit_bio(raw);
        }
    }
}

impl<T: Operations> Unsubmitted<'_, T, ()> {
    /// Submits the bio and gives the request away. [`Operations::done_simple_read`] or, after an
    /// error, [`Operations::complete_work`] goes on with it, perhaps before this returns. The
    /// caller of the request may have freed its `memory` by then.
    ///
    /// Sleeps on page locks, and until the driver has a free tag unless the bio must not wait.
    /// Waits for the bio if the kiocb is synchronous, because nobody could complete that, and
    /// returns it with the result.
    #[inline(always)]
    pub fn submit(
        self,
        read: T::SimpleRead,
        _memory: IovIter<'_>,
        ctx: MaySleep,
    ) -> Result<(BusyIocb<()>, Result), Answer> {
        if self.iocb.is_sync() {
            return Ok(self.submit_and_wait(ctx));
        }
        const { assert!(size_of::<Given<T>>() <= size_of::<Left<T>>()) };
        const { assert!(align_of::<Given<T>>() <= align_of::<Left<T>>()) };
        let pad = FrontPad::<T>::of(self.bio.as_raw());
        // SAFETY: There is room in front of the bio, and all that `end_given` looks at is written.
        unsafe {
            (&raw mut (*pad).head.left).cast::<Given<T>>().write(Given {
                iocb: self.iocb,
                read,
            });
            Self::send(self.bio, end_given::<T>, ctx);
        }
        Err(Answer::queued())
    }

    /// Submits the bio, and waits until it has ended: uninterruptibly, and accounted as I/O wait.
    #[inline(always)]
    fn submit_and_wait(self, ctx: MaySleep) -> (BusyIocb<()>, Result) {
        let bio = self.bio.as_raw();
        let pad = FrontPad::<T>::of(bio);
        // SAFETY: There is room in front of the bio, of which all that `end_awaited` looks at is
        // written. The bio is ours again once it has ended.
        let result = unsafe {
            (&raw mut (*pad).handshake).write(Handshake::new());
            Self::send(self.bio, end_awaited::<T>, ctx);
            if !(*pad).handshake.has_ended() {
                sleep(&(*pad).handshake, None, ctx);
            }
            let result = bio::result(bio);
            bio::put_with_pages(bio, (*pad).head.should_dirty);
            result
        };
        (self.iocb, result)
    }
}

impl<T: Operations, const BOUNCED: bool> Unsubmitted<'_, T, EndIo<BOUNCED>> {
    /// Submits the bio of a request that is not over before the submission has left it.
    ///
    /// Until it leaves the request, the submission can look at the kiocb, also when the bio has
    /// ended.
    #[inline(always)]
    pub fn start(self, dio: T, ctx: MaySleep) -> InFlight<T, BOUNCED> {
        let bio = self.bio.as_raw();
        let pad = FrontPad::<T>::of(bio);
        // SAFETY: There is room in front of the bio, and all that its end looks at is written now.
        unsafe {
            (&raw mut (*pad).handshake).write(Handshake::new());
            (&raw mut (*pad).head.left).write(Left {
                iocb: self.iocb.into_dio(),
                dio,
            });
            // Only now, so that the description does not have to outlive a call.
            if (*pad).head.left.iocb.flags().has(IocbFlags::NOWAIT) {
                bio::set_nowait(bio);
            }
            let end_io = if BOUNCED {
                end_bounced::<T>
            } else {
                end_started::<T>
            };
            Self::send(self.bio, end_io, ctx);
        }
        // INVARIANT: Just submitted.
        InFlight {
            bio,
            armed: Armed::new(),
            _kind: PhantomData,
        }
    }
}

/// A request whose bio was submitted, as its submission sees it.
///
/// # Invariants
///
/// `bio` is from a `BioSet<T>` and was submitted with all of a request in front of it; the
/// submission has not left the request. It has bounce buffers if `BOUNCED`.
#[must_use = "a request is never completed unless it is left or waited for"]
pub struct InFlight<T: Operations, const BOUNCED: bool = false> {
    bio: *mut bindings::bio,
    armed: Armed,
    _kind: PhantomData<T>,
}

impl<T: Operations, const BOUNCED: bool> InFlight<T, BOUNCED> {
    /// What both the submission and the end of the bio look at.
    #[inline(always)]
    fn shared(&self) -> (&BusyIocb<DioOps>, &Handshake) {
        let pad = FrontPad::<T>::of(self.bio);
        // SAFETY: By the invariants the request is there, and not over. The end of the bio changes
        // no more than the handshake of these, which is atomic.
        unsafe { (&(*pad).head.left.iocb, &(*pad).handshake) }
    }

    /// The kiocb of the request.
    #[inline]
    pub fn iocb(&self) -> &BusyIocb<DioOps> {
        self.shared().0
    }

    /// Leaves the request to its bio, whose end calls [`Operations::done`]. Returns the request,
    /// and its `memory`, instead if the bio has ended already; otherwise the caller of the request
    /// may have freed the memory.
    ///
    /// Waits for the bio if the kiocb is synchronous: nobody could complete that.
    #[inline(always)]
    pub fn leave<'d>(
        self,
        memory: IovIter<'d>,
        ctx: MaySleep,
    ) -> Result<(Unique<T>, IovIter<'d>), Answer> {
        if self.iocb().is_sync() {
            return Ok((self.wait(ctx), memory));
        }
        let left = self.shared().1.leave();
        self.armed.defuse();
        if !left {
            return Err(Answer::queued());
        }
        // SAFETY: The bio has ended, and left the request to us.
        Ok((unsafe { Self::ended(self.bio) }, memory))
    }

    /// Waits until the bio has ended: uninterruptibly, and accounted as I/O wait. Polls for it if
    /// nobody else can.
    #[inline(always)]
    pub fn wait(self, ctx: MaySleep) -> Unique<T> {
        let (iocb, handshake) = self.shared();
        // SAFETY: The bio is there as long as the request is, which it leaves to us when it ends.
        unsafe {
            if !handshake.has_ended() {
                let opf = (&raw const (*self.bio).bi_opf).read_volatile();
                let polled = opf & 1 << bindings::req_flag_bits___REQ_POLLED != 0;
                sleep(handshake, polled.then_some(iocb), ctx);
            }
            self.armed.defuse();
            Self::ended(self.bio)
        }
    }

    /// The request in front of `bio`.
    ///
    /// # Safety
    ///
    /// The bio must be that of such a request, have ended, and have left the request to the
    /// submission. Once.
    #[inline(always)]
    unsafe fn ended(bio: *mut bindings::bio) -> Unique<T> {
        // SAFETY: Required of the caller. The end of a bio with a bounce buffer has written `home`.
        unsafe {
            let home = if BOUNCED {
                (*FrontPad::<T>::of(bio)).head.home.assume_init()
            } else {
                Home::FrontPad
            };
            Unique::in_front_of(bio, home)
        }
    }
}

/// Sleeps until the bio has ended. If it is polled for, polls with its kiocb, `polled`, instead.
fn sleep(handshake: &Handshake, polled: Option<&BusyIocb<DioOps>>, ctx: MaySleep) {
    if let Some(iocb) = polled {
        poll_until(iocb, || handshake.has_ended(), ctx);
    } else if !handshake.wait(Task::current_raw().cast()) {
        sleep_until(ctx, || handshake.has_ended());
    }
}

/// The `bi_end_io` of a bio whose request was given away.
///
/// # Safety
///
/// Called by the block layer, once, for such a bio.
#[doc(alias = "iomap_dio_simple_end_io")]
unsafe extern "C" fn end_given<T: Operations>(bio: *mut bindings::bio) {
    let pad = FrontPad::<T>::of(bio);
    // SAFETY: The bio has ended and is given back. What is in front of it was written before it was
    // submitted, and is read once. If it has failed, in place of that is all of a request then.
    let failed = unsafe {
        let Given { iocb, read } = (&raw const (*pad).head.left).cast::<Given<T>>().read();
        if (*bio).bi_status == 0 {
            iocb.clear_polled_bio();
            bio::put_with_pages(bio, (*pad).head.should_dirty);
            return T::done_simple_read(read, iocb);
        }
        let (iocb, dio) = (iocb.into_dio(), read.into());
        (&raw mut (*pad).head.left).write(Left { iocb, dio });
        Unique::<T>::in_front_of(bio, Home::FrontPadWithPages)
    };
    stats::count(Stat::PuntError);
    // Together with others it would keep its bio, which may be of the reserve, while they wait.
    failed.punt_alone();
}

/// The `bi_end_io` of a bio whose request is not over before the submission has left it.
///
/// # Safety
///
/// Called by the block layer, once, for such a bio.
unsafe extern "C" fn end_started<T: Operations>(bio: *mut bindings::bio) {
    let pad = FrontPad::<T>::of(bio);
    // SAFETY: The bio has ended and is given back. What becomes of its pages was written before it
    // was submitted, and the submission has not been told yet.
    let request = unsafe {
        bio::give_back_pages(bio, (*pad).head.should_dirty);
        end_handshake::<T>(bio, Home::FrontPad)
    };
    if let Some(request) = request.and_then(T::done) {
        request.punt();
    }
}

/// As [`end_started`], for a bio with a bounce buffer. A copy that takes long is left to whoever
/// completes the request, in process context.
///
/// # Safety
///
/// As there.
#[doc(alias = "bi_end_io")]
unsafe extern "C" fn end_bounced<T: Operations>(bio: *mut bindings::bio) {
    let pad = FrontPad::<T>::of(bio);
    // SAFETY: The bio has ended and is given back. What becomes of its pages was written before it
    // was submitted, and the submission has not been told yet.
    let (home, request) = unsafe {
        let home = if bio::unbounce_here(bio, (*pad).head.should_dirty) {
            Home::FrontPad
        } else {
            Home::FrontPadBounced
        };
        (&raw mut (*pad).head.home).write(MaybeUninit::new(home));
        (home, end_handshake::<T>(bio, home))
    };
    if let Some(request) = request {
        match home {
            Home::FrontPadBounced => request.punt(),
            Home::FrontPad | Home::FrontPadWithPages | Home::Own => done(request),
        }
    }
}

/// The `bi_end_io` of a bio that its submission waits for.
///
/// # Safety
///
/// Called by the block layer, once, for such a bio.
unsafe extern "C" fn end_awaited<T: Operations>(bio: *mut bindings::bio) {
    // SAFETY: The bio has ended, and the submission, which does not leave it, has not been told
    // yet.
    let _ = unsafe { end_handshake::<T>(bio, Home::FrontPadWithPages) };
}

/// Tells the submission that the bio has ended. Returns the request if the submission has left it.
///
/// # Safety
///
/// The bio must be from a bio set for such requests and have ended, after a handshake was begun.
/// `home` says whether it has its pages. The submission must not have been told; if it leaves the
/// request, it has written all of it.
#[inline(always)]
unsafe fn end_handshake<T: Operations>(bio: *mut bindings::bio, home: Home) -> Option<Unique<T>> {
    let pad = FrontPad::<T>::of(bio);
    // SAFETY: The request is there until the submission is told or, if it waits, until we hand the
    // request back; the task until then.
    unsafe {
        match (*pad).handshake.end() {
            AtEnd::Request => return Some(Unique::in_front_of(bio, home)),
            AtEnd::Nothing => {}
            AtEnd::Awaited(task) => wake(task, move || (*pad).handshake.hand_back()),
        }
    }
    None
}
