// SPDX-License-Identifier: GPL-2.0

//! A request of a single bio as one allocation.
//!
//! A bio set can keep room in front of each of its bios (front pad). [`HeaderSet`] puts the
//! description of the request, a [`Header`], there, so that a small request needs no allocation
//! besides its bio, and that one comes from a cache per CPU.
//!
//! C header: [`include/linux/bio.h`](srctree/include/linux/bio.h).

use super::{
    bio::{
        Bio,
        Contents,
        Empty,
        EndedBio,
        Pinned, //
    },
    check,
    context::MaySleep,
    device::BlockDevice,
    flags::Opf,
    inode::{
        DoneQueue,
        Puntable, //
    },
    iov_iter::IovIter,
    kiocb::BusyIocb, //
};
use crate::{
    alloc::flags::{
        GFP_KERNEL,
        GFP_NOWAIT, //
    },
    bindings,
    prelude::*,
    static_lock_class,
    types::Opaque,
    workqueue::RawWorkItem, //
};
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull, //
};

/// A request that fits in front of its only bio.
pub trait Header: Send + Sized + 'static {
    /// The bio has ended. Any context, the hard interrupt included.
    fn ended(request: Single<Self>);

    /// The work queue that the request is punted to.
    fn queue(&self) -> Option<DoneQueue<'_>>;

    /// The request runs on the work queue that it was punted to.
    fn punted(request: Single<Self>, ctx: MaySleep);
}

/// The front pad.
#[repr(C)]
struct Pad<H> {
    header: MaybeUninit<H>,
    /// Initialised when the request is punted, which few are.
    work: Opaque<bindings::work_struct>,
}

/// Whether an allocation may wait for memory.
#[derive(Clone, Copy)]
pub enum Wait {
    /// It may, and does not fail.
    Allowed(MaySleep),
    /// It may not (`GFP_NOWAIT`).
    Never,
}

/// A bio set whose bios have a header of type `H` (`struct bio_set`).
pub struct HeaderSet<H: Header> {
    raw: Opaque<bindings::bio_set>,
    _header: PhantomData<H>,
}

// SAFETY: A bio set is made for concurrent use.
unsafe impl<H: Header> Sync for HeaderSet<H> {}

impl<H: Header> Default for HeaderSet<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: Header> HeaderSet<H> {
    /// Bytes in front of each bio. The bio itself then begins a cache line, so that the fields
    /// that submission and completion touch share one.
    const FRONT_PAD: usize =
        size_of::<Pad<H>>().next_multiple_of(bindings::IOMAP_DIO_CACHE_LINE_BYTES);

    /// A bio set that has no bios yet: [`HeaderSet::init`] comes first.
    pub const fn new() -> Self {
        Self {
            raw: Opaque::zeroed(),
            _header: PhantomData,
        }
    }

    /// Fills the reserve with `reserve` bios and sets up the caches per CPU (`bioset_init()`).
    ///
    /// # Safety
    ///
    /// Must be called at most once, before any use of the bio set (from an initcall).
    pub unsafe fn init(&'static self, reserve: u32) -> Result {
        // SAFETY: The bio set is static and, by the requirement, not in use.
        check(unsafe {
            bindings::bioset_init(
                self.raw.get(),
                reserve,
                // CAST: A few cache lines.
                Self::FRONT_PAD as u32,
                (bindings::BIOSET_NEED_BVECS | bindings::BIOSET_PERCPU_CACHE) as c_int,
            )
        })
    }

    /// Allocates a bio for `memory`.
    ///
    /// Fails with `EAGAIN` if that would mean to wait and must not, and with `ENOTBLK` if the bio
    /// set is not initialised.
    #[inline(always)]
    pub fn alloc(
        &'static self,
        bdev: &BlockDevice,
        memory: &mut IovIter<'_>,
        opf: Opf,
        iocb: &BusyIocb,
        wait: Wait,
    ) -> Result<Unsubmitted<H, Empty>> {
        // SAFETY: Only `init` writes to the field. A bio set that was not initialised has no slab.
        if unsafe { (*self.raw.get()).bio_slab }.is_null() {
            return Err(ENOTBLK);
        }
        let gfp = match wait {
            Wait::Allowed(_) => GFP_KERNEL,
            Wait::Never => GFP_NOWAIT,
        };
        // SAFETY: The device and the bio set are valid.
        let raw = unsafe {
            bindings::bio_alloc_bioset(
                bdev.as_raw(),
                memory.vecs_to_alloc(),
                opf.into_raw(),
                gfp.as_raw(),
                self.raw.get(),
            )
        };
        let raw = NonNull::new(raw).ok_or(EAGAIN)?;
        // SAFETY: The bio was allocated just now.
        let mut bio = unsafe { Bio::from_raw(raw) };
        bio.set_ioprio(iocb.ioprio());
        // INVARIANT: The bio is from a set with front pad for `H`.
        Ok(Unsubmitted {
            bio,
            _header: PhantomData,
        })
    }
}

/// The front pad of `bio`.
#[inline]
fn pad<H: Header>(bio: *mut bindings::bio) -> *mut Pad<H> {
    bio.wrapping_byte_sub(HeaderSet::<H>::FRONT_PAD).cast()
}

/// A bio with room for a header that was not submitted yet.
///
/// # Invariants
///
/// The bio is from a `HeaderSet<H>`.
#[must_use]
pub struct Unsubmitted<H: Header, C: Contents> {
    bio: Bio<C>,
    _header: PhantomData<H>,
}

impl<H: Header> Unsubmitted<H, Empty> {
    /// As [`Bio::pin`].
    #[inline(always)]
    pub fn pin(
        self,
        memory: &mut IovIter<'_>,
        bdev: &BlockDevice,
        alignment: u32,
    ) -> Result<Unsubmitted<H, Pinned>> {
        Ok(Unsubmitted {
            bio: self.bio.pin(memory, bdev, alignment)?,
            _header: PhantomData,
        })
    }

    /// As [`Bio::set_sector`].
    #[inline]
    pub fn set_sector(&mut self, sector: u64) {
        self.bio.set_sector(sector);
    }
}

impl<H: Header> Unsubmitted<H, Pinned> {
    /// As [`Bio::size`].
    #[inline]
    pub fn size(&self) -> u32 {
        self.bio.size()
    }

    /// As [`Bio::set_pages_dirty`].
    #[inline]
    pub fn set_pages_dirty(&mut self, ctx: MaySleep) {
        self.bio.set_pages_dirty(ctx);
    }

    /// As [`Bio::add_flags`].
    #[inline]
    pub fn add_flags(&mut self, flags: Opf) {
        self.bio.add_flags(flags);
    }

    /// Lets the caller poll for this bio.
    #[inline]
    pub fn set_polled(&mut self, iocb: &mut BusyIocb) {
        self.bio.set_polled(iocb);
    }

    #[inline]
    fn into_raw(self, header: H) -> *mut bindings::bio {
        let raw = self.bio.into_raw();
        // SAFETY: By the invariants there is room for a header in front of the bio.
        unsafe { (&raw mut (*pad::<H>(raw)).header).write(MaybeUninit::new(header)) };
        raw
    }

    /// Submits the bio; [`Header::ended`] goes on with the request (`submit_bio()`).
    #[inline]
    pub fn submit(self, header: H) {
        let raw = self.into_raw(header);
        // SAFETY: The bio is complete and given up here.
        unsafe {
            (*raw).bi_end_io = Some(end_io::<H>);
            bindings::submit_bio(raw);
        }
    }

    /// Submits the bio and waits for its end (`submit_bio_wait()`).
    #[inline]
    pub fn submit_and_wait(self, header: H, _ctx: MaySleep) -> Single<H> {
        let raw = self.into_raw(header);
        // SAFETY: The bio is complete, and the context may sleep. How it ended stays in the bio.
        unsafe { bindings::submit_bio_wait(raw) };
        // INVARIANT: The bio has ended, and a bio that is waited for stays ours.
        Single {
            bio: raw,
            _header: PhantomData,
        }
    }
}

/// A request whose only bio has ended.
///
/// # Invariants
///
/// `bio` has ended and belongs to this value; it is from a `HeaderSet<H>` and its header is
/// initialised.
#[must_use = "the request is leaked unless it is completed"]
pub struct Single<H: Header> {
    bio: *mut bindings::bio,
    _header: PhantomData<H>,
}

// SAFETY: Nobody else refers to the bio, and the header is `Send`.
unsafe impl<H: Header> Send for Single<H> {}

impl<H: Header> Single<H> {
    /// Whether the transfer failed.
    #[inline]
    pub fn has_failed(&self) -> bool {
        // SAFETY: The bio is ours.
        unsafe { (*self.bio).bi_status != 0 }
    }

    /// The description of the request.
    #[inline]
    pub fn header(&self) -> &H {
        // SAFETY: By the invariants the header is initialised, and it lives as long as the bio.
        unsafe { (*pad::<H>(self.bio)).header.assume_init_ref() }
    }

    /// The description of the request, to be changed.
    #[inline]
    pub fn header_mut(&mut self) -> &mut H {
        // SAFETY: As in `header`, and the request is ours alone.
        unsafe { (*pad::<H>(self.bio)).header.assume_init_mut() }
    }

    /// Takes the request apart.
    #[inline]
    pub fn into_parts(self) -> (H, EndedBio) {
        // SAFETY: By the invariants the header is initialised; it is read once, as `self` ends.
        let header = unsafe { (*pad::<H>(self.bio)).header.assume_init_read() };
        // SAFETY: The bio has ended and is ours.
        let bio = unsafe { EndedBio::from_raw(NonNull::new_unchecked(self.bio)) };
        (header, bio)
    }

    /// Lets [`Header::punted`] go on with the request on [`Header::queue`]. Gives the request back
    /// if there is none.
    #[cold]
    pub fn punt(self) -> Result<(), Self> {
        Puntable::punt(self)
    }
}

impl<H: Header> Puntable for Single<H> {
    fn queue(&self) -> Option<DoneQueue<'_>> {
        self.header().queue()
    }
}

/// The end of a bio that [`Unsubmitted::submit`] has submitted.
///
/// # Safety
///
/// Called by the block layer, once, for such a bio.
unsafe extern "C" fn end_io<H: Header>(bio: *mut bindings::bio) {
    // INVARIANT: The bio has ended and is given back; its header was written before submission.
    H::ended(Single {
        bio,
        _header: PhantomData,
    });
}

/// As for requests of several bios, one address for all crates.
static WORK_NAME: &CStr = c"iomap_dio_single";

// SAFETY: The `work_struct` is part of the front pad, which `__enqueue` gives up and which stays
// as it is until the work function takes it back.
unsafe impl<H: Header> RawWorkItem<0> for Single<H> {
    type EnqueueOutput = ();

    unsafe fn __enqueue<F>(self, queue_work_on: F)
    where
        F: FnOnce(*mut bindings::work_struct) -> bool,
    {
        // SAFETY: The front pad is ours.
        let work = unsafe { (*pad::<H>(self.bio)).work.get() };
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

/// Goes on with a request on a work queue.
///
/// # Safety
///
/// `work` must be the field of a front pad that was given up in `__enqueue`.
unsafe extern "C" fn run<H: Header>(work: *mut bindings::work_struct) {
    let work = Opaque::cast_from(work);
    // SAFETY: The work item is the field of a front pad.
    let pad = unsafe { crate::container_of!(work, Pad<H>, work) };
    // INVARIANT: The request that `__enqueue` gave up.
    let request = Single {
        bio: pad
            .cast_mut()
            .wrapping_byte_add(HeaderSet::<H>::FRONT_PAD)
            .cast(),
        _header: PhantomData,
    };
    // SAFETY: A worker is in process context.
    let ctx = unsafe { MaySleep::assume() };
    H::punted(request, ctx);
}
