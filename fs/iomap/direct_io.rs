// SPDX-License-Identifier: GPL-2.0

//! Direct I/O over space mappings: the exported entry points.
//!
//! These modules execute the direct I/O of ext4, XFS, btrfs and the other users of
//! `iomap_dio_rw()`. `Documentation/rust/iomap.rst` explains the terms and says where to begin.
//!
//! * [`submit`]: the checks of a new request, and its classification.
//! * [`single`]: single-bio requests and simple reads.
//! * [`mapping`]: counted requests: the walk over the mappings, and the bios for one mapping.
//! * [`complete`]: the completion of requests.
//! * [`dio`]: the description of a request.
//! * [`decide`]: the rules, as functions of plain values.
//!
//! This file contains the functions that C calls, and is the only one with `unsafe`: each function
//! converts its arguments to types whose invariants the caller guarantees.
//!
//! # The house
//!
//! Each floor uses those below it. Only the end of a bio and a worker come up from below, by a
//! trait:
//!
//! ```text
//!         a file system calls
//!                 |
//!  +--------------v---------------------------------------------------------------+
//!  | this file    pointers of C become types                                      |
//!  +------------------------------------------------------------------------------+
//!  | direct_io/   submit   single   mapping               complete                |
//!  |              dio   decide                               ^                    |
//!  +---------------------------------------------------------|--------------------+
//!  | rust/kernel/ request   bio_set   bio   handover     Operations               |
//!  |    iomap/    kiocb   iter   ops   flags                 |                    |
//!  |              worker   stats   trace                     |                    |
//!  +---------------------------------------------------------|--------------------+
//!  | rust/kernel/ block/   fs/   iov/   task/                |                    |
//!  +---------------------------------------------------------|--------------------+
//!                 |                                          |
//!     block layer, page cache, scheduler           a bio ends, a worker runs
//! ```
//!
//! # One 4k write
//!
//! An asynchronous overwrite of 4k is a request of a single bio. On the left is what its kiocb is
//! in each line, and what returns it to its caller in the end:
//!
//! ```text
//!                   task                      interrupt                   worker
//!
//!  NewIocb          iomap_dio_rw()
//!                   submit::rw()
//!                     begin(), admit()
//!  BusyIocb<EndIo>    NewIocb::begin_dio()
//!                     decide_and_submit()
//!                       Iter::begin_single()
//!                       single::start()
//!                         BioSet::fill()
//!  BusyIocb<DioOps>       Unsubmitted::start()
//!                       Iter::end()           bi_end_io: end_started()
//!                       InFlight::leave()
//!  (Answer)             -EIOCBQUEUED          Dio::done()
//!                                               end()                     end()
//!  BusyIocb<Told>                                 BusyIocb::end_io()          BusyIocb::end_io()
//!                                                                             invalidate_written()
//!  DoneIocb                                       BusyIocb::end_dio()         BusyIocb::end_dio()
//!                                                 advance_pos()               advance_pos()
//!                                                                           sync_written()
//!  (ki_complete())                              DoneIocb::complete()        DoneIocb::complete()
//!                                             with completion work instead:
//!                                             Unique::punt() -----------> Dio::complete_work()
//! ```
//!
//! The interrupt may come as soon as the bio is submitted. If it comes before `leave()`, this
//! returns the request, and the task completes it with [`complete::answer`]. This write needs
//! a worker only if pages have to be dropped or the device flushed, or after an error.
//!
//! C header: [`include/linux/iomap.h`](srctree/include/linux/iomap.h).

// The compiler names every match that a new variant concerns.
#![deny(clippy::wildcard_enum_match_arm)]

use kernel::{
    bindings,
    ffi::c_void,
    fs::inode::Inode,
    iomap::{
        bio,
        bio_set::BioSet,
        flags::CallerFlags,
        iter::Place,
        kiocb::{
            BusyIocb,
            NewIocb, //
        },
        ops::{
            DioOps,
            EndIo,
            MapOps, //
        },
        request::{
            Cache,
            Unique, //
        }, //
    },
    iov::IovIter,
    prelude::*,
    task::MaySleep, //
};

#[path = "direct_io/complete.rs"]
mod complete;
#[path = "direct_io/decide.rs"]
mod decide;
#[path = "direct_io/dio.rs"]
mod dio;
#[path = "direct_io/mapping.rs"]
mod mapping;
#[path = "direct_io/single.rs"]
mod single;
#[path = "direct_io/submit.rs"]
mod submit;

use dio::Dio;
use submit::Call;

/// The last errno that a pointer can stand for (`MAX_ERRNO`).
// CAST: It fits.
const LAST_ERRNO: isize = -(bindings::MAX_ERRNO as isize);

/// Warns once about something that a file system must not do.
macro_rules! warn_once {
    () => {
        ::kernel::do_once_lite! {
            ::kernel::warn_on!(true);
        }
    };
}
use warn_once;

/// Collects what C passes to `iomap_dio_rw()`.
///
/// # Safety
///
/// As for [`iomap_dio_rw`]. The result must not outlive the call.
#[inline(always)]
unsafe fn call<'a, O>(
    iocb: *mut bindings::kiocb,
    iter: *mut bindings::iov_iter,
    ops: *const bindings::iomap_ops,
    dops: O,
    dio_flags: c_uint,
    private: *mut c_void,
    done_before: usize,
) -> Call<'a, O> {
    // SAFETY: Required of the caller, for each of the pointers. No call has another request.
    unsafe {
        let inode = Inode::from_raw((*(*iocb).ki_filp).f_inode);
        let memory = IovIter::from_raw(iter);
        Call {
            iocb: NewIocb::from_raw(iocb, dops),
            ops: MapOps::from_raw(ops, inode, private, (*iocb).ki_pos, &memory),
            memory,
            flags: CallerFlags::from_raw(dio_flags),
            done_before,
            ctx: MaySleep::assume(),
        }
    }
}

/// Reads or writes a file directly, and completes the request if it is not in flight.
///
/// Returns bytes, a negative errno, or `-EIOCBQUEUED` if `ki_complete()` will be called.
///
/// # Safety
///
/// * The context may sleep.
/// * `iocb` and its open file are valid until the request is over, `iter` and `ops` until the call
///   returns, `dops` (which may be NULL) until the request is over.
/// * The memory of a request in flight stays valid until it is over.
/// * The caller holds the locks on the file that its file system needs, and the VFS has checked the
///   range.
/// * With `IOMAP_DIO_BOUNCE` a file system that submits the bios of a read itself ends them in
///   process context.
#[cfg_attr(not(CONFIG_IOMAP_DIO_COMPARE), export)]
#[cfg_attr(CONFIG_IOMAP_DIO_COMPARE, export_name = "rust_iomap_dio_rw")]
pub unsafe extern "C" fn iomap_dio_rw(
    iocb: *mut bindings::kiocb,
    iter: *mut bindings::iov_iter,
    ops: *const bindings::iomap_ops,
    dops: *const bindings::iomap_dio_ops,
    dio_flags: c_uint,
    private: *mut c_void,
    done_before: usize,
) -> isize {
    let flags = CallerFlags::from_raw(dio_flags);
    // SAFETY: Required of the caller. A request that is returned is completed once.
    unsafe {
        // With `PARTIAL` the memory is often not resident, so that a single bio would be short.
        if !flags.has(CallerFlags::PARTIAL) {
            let dops = DioOps::from_raw(dops);
            if flags.has(CallerFlags::BOUNCE) {
                if let Some(dops) = dops.only_end_io() {
                    return rw::<true>(iocb, iter, ops, dops, dio_flags, private, done_before);
                }
            } else if let Some(dops) = dops.only_end_io() {
                return rw::<false>(iocb, iter, ops, dops, dio_flags, private, done_before);
            }
        }
        let dio = __iomap_dio_rw(iocb, iter, ops, dops, dio_flags, private, done_before);
        // CAST: As `PTR_ERR()` does.
        match dio.addr() as isize {
            answer @ LAST_ERRNO..=0 => answer,
            _ => iomap_dio_complete(dio),
        }
    }
}

/// [`submit::rw`], so that no request sets up the stack frame of another kind.
///
/// # Safety
///
/// As for [`iomap_dio_rw`].
#[inline(never)]
unsafe fn rw<const BOUNCED: bool>(
    iocb: *mut bindings::kiocb,
    iter: *mut bindings::iov_iter,
    ops: *const bindings::iomap_ops,
    dops: EndIo<BOUNCED>,
    dio_flags: c_uint,
    private: *mut c_void,
    done_before: usize,
) -> isize {
    // SAFETY: Required of the caller.
    let call = unsafe { call(iocb, iter, ops, dops, dio_flags, private, done_before) };
    submit::rw(call).into_raw()
}

/// As [`iomap_dio_rw`], but leaves a request that is not in flight to the caller.
///
/// Returns NULL if there was nothing to do, the request, for [`iomap_dio_complete`], or an errno
/// as a pointer, which is `-EIOCBQUEUED` if the request is in flight.
///
/// # Safety
///
/// As for [`iomap_dio_rw`]. A request that is returned must be passed to [`iomap_dio_complete`].
#[cfg_attr(not(CONFIG_IOMAP_DIO_COMPARE), export)]
#[cfg_attr(CONFIG_IOMAP_DIO_COMPARE, export_name = "rust___iomap_dio_rw")]
pub unsafe extern "C" fn __iomap_dio_rw(
    iocb: *mut bindings::kiocb,
    iter: *mut bindings::iov_iter,
    ops: *const bindings::iomap_ops,
    dops: *const bindings::iomap_dio_ops,
    dio_flags: c_uint,
    private: *mut c_void,
    done_before: usize,
) -> *mut bindings::iomap_dio {
    // SAFETY: Required of the caller.
    let call = unsafe {
        let dops = DioOps::from_raw(dops);
        call(iocb, iter, ops, dops, dio_flags, private, done_before)
    };
    match submit::rw_dio(call) {
        Ok(request) => request.into_raw(),
        Err(answer) => answer.into_err_ptr(),
    }
}

/// Completes a request that [`__iomap_dio_rw`] has returned.
///
/// Returns bytes or a negative errno.
///
/// # Safety
///
/// `dio` must come from [`__iomap_dio_rw`] and must not be used afterwards; what that function
/// requires must still hold, and the context may sleep.
#[cfg_attr(not(CONFIG_IOMAP_DIO_COMPARE), export)]
#[cfg_attr(CONFIG_IOMAP_DIO_COMPARE, export_name = "rust_iomap_dio_complete")]
pub unsafe extern "C" fn iomap_dio_complete(dio: *mut bindings::iomap_dio) -> isize {
    // SAFETY: Required of the caller.
    let (request, ctx) = unsafe { (Unique::<Dio>::from_raw(dio), MaySleep::assume()) };
    complete::answer_rare(request, ctx).into_raw()
}

/// Ends a bio that a file system has submitted through `->submit_io` and now ends itself.
///
/// # Safety
///
/// `bio` must be one that was given to `submit_io`, with the `bi_private` that it had then, and
/// must not be used afterwards. Any context.
#[cfg_attr(not(CONFIG_IOMAP_DIO_COMPARE), export)]
#[cfg_attr(CONFIG_IOMAP_DIO_COMPARE, export_name = "rust_iomap_dio_bio_end_io")]
pub unsafe extern "C" fn iomap_dio_bio_end_io(bio: *mut bindings::bio) {
    // SAFETY: Required of the caller.
    unsafe { bio::end_io::<Dio>(bio) };
}

/// Ends an ioend whose bio belongs to a request. Returns the number of segments of the bio.
///
/// # Safety
///
/// As for [`iomap_dio_bio_end_io`], for the bio of `ioend`; called by the worker that finishes
/// ioends.
#[cfg_attr(not(CONFIG_IOMAP_DIO_COMPARE), export)]
#[cfg_attr(
    CONFIG_IOMAP_DIO_COMPARE,
    export_name = "rust_iomap_finish_ioend_direct"
)]
pub unsafe extern "C" fn iomap_finish_ioend_direct(ioend: *mut bindings::iomap_ioend) -> u32 {
    // SAFETY: Required of the caller.
    unsafe { bio::ioend_end_io::<Dio>(ioend) }
}

/// Submits a simple read, with the mapping that the inline function of the C header has found.
///
/// Returns bytes, a negative errno, `-EIOCBQUEUED`, or `-ENOTBLK` if the caller has to use
/// [`iomap_dio_rw`] instead.
///
/// # Safety
///
/// * The context may sleep.
/// * `iocb`, its open file and `iter` are as for [`iomap_dio_rw`], and `iter` is a destination.
/// * `iomi` is valid, with a mapping of the file system, until the call returns.
/// * `inode_dio_begin()` was called; the count is given back by this request.
/// * The file is not encrypted.
#[cfg_attr(not(CONFIG_IOMAP_DIO_COMPARE), export)]
#[cfg_attr(CONFIG_IOMAP_DIO_COMPARE, export_name = "rust___iomap_dio_read_simple")]
pub unsafe extern "C" fn __iomap_dio_read_simple(
    iocb: *mut bindings::kiocb,
    iter: *mut bindings::iov_iter,
    iomi: *mut bindings::iomap_iter,
) -> isize {
    // SAFETY: Required of the caller, for each of the pointers. No call has another request.
    let (iocb, memory, place, ctx) = unsafe {
        (
            BusyIocb::from_raw(iocb),
            IovIter::from_raw(iter),
            Place::from_raw(iomi),
            MaySleep::assume(),
        )
    };
    single::read(iocb, memory, place, ctx).into_raw()
}

/// The number of bios in reserve for simple reads that may wait for memory.
const RESERVE: u32 = 4;

/// The bios of simple reads and of the other requests of a single bio.
// SAFETY: `iomap_dio_rust_init()` initialises it, or the kernel does not boot. The exported end
// functions are above.
static SINGLES: BioSet<Dio> = unsafe { BioSet::new() };

/// The memory of counted requests.
// SAFETY: As above.
static REQUESTS: Cache<Dio> = unsafe { Cache::new() };

/// Sets up the bios of single-bio requests, and the memory of counted requests.
///
/// # Safety
///
/// Called once, by an initcall that runs before file systems are mounted.
#[export]
pub unsafe extern "C" fn iomap_dio_rust_init() -> c_int {
    // SAFETY: Required of the caller. An initcall may sleep.
    let (ready, ctx) = unsafe { (SINGLES.init(RESERVE), MaySleep::assume()) };
    match ready.and_then(|()| REQUESTS.init(c"iomap_dio", ctx)) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
