// SPDX-License-Identifier: GPL-2.0

//! Counters of the direct I/O path (`CONFIG_IOMAP_DIO_STATS`).
//!
//! `/sys/kernel/debug/iomap/dio_stats` shows them, a line for each, in sum and for each processor.
//! A processor counts for itself, so no cache line moves. Without the option nothing of it is left.
//!
//! C header: `fs/iomap/direct_io_glue.h`.

use crate::bindings;

/// What is counted.
///
/// A request that is left to a worker may have several reasons, and counts for each.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Stat {
    /// Simple reads that are over.
    SimpleRead = bindings::IOMAP_DIO_STAT_SIMPLE_READ,
    /// Requests without completion work that are over.
    Direct = bindings::IOMAP_DIO_STAT_DIRECT,
    /// Requests with completion work that are over.
    Deferred = bindings::IOMAP_DIO_STAT_DEFERRED,
    /// Requests through bounce buffers that are over.
    Bounce = bindings::IOMAP_DIO_STAT_BOUNCE,
    /// Completed by the submitter, which waited or was still there.
    BySubmitter = bindings::IOMAP_DIO_STAT_BY_SUBMITTER,
    /// Completed where the last bio ended.
    ByLastBio = bindings::IOMAP_DIO_STAT_BY_LAST_BIO,
    /// Completed by a worker.
    ByWorker = bindings::IOMAP_DIO_STAT_BY_WORKER,
    /// Completed by the worker for ioends.
    ByIoend = bindings::IOMAP_DIO_STAT_BY_IOEND,
    /// How often a worker took requests.
    WorkerRuns = bindings::IOMAP_DIO_STAT_WORKER_RUNS,
    /// How often a file system was told of several writes at once.
    MergedRuns = bindings::IOMAP_DIO_STAT_MERGED_RUNS,
    /// The writes in these runs.
    MergedWrites = bindings::IOMAP_DIO_STAT_MERGED_WRITES,
    /// How often several writes shared a flush.
    SharedFlushes = bindings::IOMAP_DIO_STAT_SHARED_FLUSHES,
    /// The writes that did.
    SharingWrites = bindings::IOMAP_DIO_STAT_SHARING_WRITES,
    /// Left to a worker: unwritten blocks have to be converted.
    PuntUnwritten = bindings::IOMAP_DIO_STAT_PUNT_UNWRITTEN,
    /// Left to a worker: shared blocks have to be remapped.
    PuntCow = bindings::IOMAP_DIO_STAT_PUNT_COW,
    /// Left to a worker: the blocks are new.
    PuntNew = bindings::IOMAP_DIO_STAT_PUNT_NEW,
    /// Left to a worker: the file grows.
    PuntExtend = bindings::IOMAP_DIO_STAT_PUNT_EXTEND,
    /// Left to a worker: the data has to be stable.
    PuntSync = bindings::IOMAP_DIO_STAT_PUNT_SYNC,
    /// Left to a worker: pages that were cached meanwhile have to be dropped.
    PuntInvalidate = bindings::IOMAP_DIO_STAT_PUNT_INVALIDATE,
    /// Left to a worker: an error has to be reported.
    PuntError = bindings::IOMAP_DIO_STAT_PUNT_ERROR,
    /// `EAGAIN` because of the page cache, or of the end of the file.
    AgainCache = bindings::IOMAP_DIO_STAT_AGAIN_CACHE,
    /// `EAGAIN` before a bio was submitted: no mapping, or no memory, without waiting.
    AgainMapping = bindings::IOMAP_DIO_STAT_AGAIN_MAPPING,
    /// `EAGAIN` after bios were submitted: by the device, or by a later mapping.
    AgainSubmitted = bindings::IOMAP_DIO_STAT_AGAIN_SUBMITTED,
}

/// Counts one. Any context.
#[inline(always)]
pub fn count(stat: Stat) {
    add(stat, 1);
}

/// Counts `n`. Any context.
#[inline(always)]
pub fn add(stat: Stat, n: usize) {
    #[cfg(CONFIG_IOMAP_DIO_STATS)]
    // SAFETY: The function has no requirements.
    unsafe {
        // CAST: `enum` constants of C are `u32` here.
        bindings::iomap_dio_count(stat as u32, n)
    };
    #[cfg(not(CONFIG_IOMAP_DIO_STATS))]
    let _ = (stat, n);
}
