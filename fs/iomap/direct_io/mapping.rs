// SPDX-License-Identifier: GPL-2.0

//! Requests of several bios: the walk over the mappings, and the bios of each mapping.

#![forbid(unsafe_code)]

use super::{
    decide::{
        self,
        CompWork, //
    },
    dio::Dio,
    warn_once, //
};
use kernel::{
    iomap::{
        bio::Template,
        flags::CallerFlags,
        iter::{
            Extent,
            Iter,
            Mapping,
            Place, //
        },
        request::Submitter, //
    },
    iov::IovIter,
    prelude::*,
    task::MaySleep, //
};

/// The error of a mapping that a file system must not give. Each place warns once.
macro_rules! unexpected {
    () => {{
        #[cold]
        fn warn() -> Result<usize> {
            warn_once!();
            Err(EIO)
        }
        warn()
    }};
}

/// Builds and submits the bios for each mapping of the range. The file system may have been asked
/// for the first one already.
pub(super) fn walk(bios: &mut Submitter<'_, Dio>, iter: &mut Iter<'_>, ctx: MaySleep) -> Result {
    if !iter.begin(ctx)? {
        return Ok(());
    }
    loop {
        let status = one_mapping(bios, iter, ctx);
        // Only a request of a single bio can be polled.
        bios.iocb().stop_polling();
        if !iter.next(status, ctx)? {
            return Ok(());
        }
    }
}

/// Transfers the range of the current mapping in the way that its type requires, and moves the
/// iterator on.
#[inline(always)]
fn one_mapping(bios: &mut Submitter<'_, Dio>, iter: &mut Iter<'_>, ctx: MaySleep) -> Result {
    let extent = match iter.mapping() {
        Mapping::Mapped(extent) => Some((extent, false)),
        Mapping::Unwritten(extent) => Some((extent, true)),
        Mapping::Delalloc => {
            // After the writeback of the page cache, a page was dirtied through mmap(), and the
            // file system reserved space for it. Direct I/O does not lock out page faults.
            bios.iocb().warn_collision();
            return Err(EIO);
        }
        Mapping::Hole | Mapping::Inline(_) | Mapping::Unknown => None,
    };
    let took = match extent {
        Some((extent, unwritten)) => blocks(bios, iter, extent, unwritten, ctx)?,
        None => bios.copy(|memory| without_bios(memory, iter, ctx))?,
    };
    // OVERFLOW: No request is larger than `isize::MAX`.
    let dio = bios.dio_mut();
    dio.size = dio.size.wrapping_add(took as isize);
    // CAST: Widening.
    iter.advance(took as u64)
}

/// Transfers the range of a mapping without blocks. Returns the number of bytes.
#[inline(never)]
fn without_bios(memory: &mut IovIter<'_>, iter: &mut Iter<'_>, ctx: MaySleep) -> Result<usize> {
    let copied = match iter.mapping() {
        Mapping::Hole if !iter.is_write() => memory.zero(iter.length(), ctx),
        Mapping::Inline(inline) => inline.copy(memory, ctx).or_else(|_| unexpected!())?,
        // A file system maps space for a write before it returns.
        Mapping::Hole | Mapping::Unwritten(_) | Mapping::Delalloc | Mapping::Mapped(_) => {
            return unexpected!();
        }
        Mapping::Unknown => {
            iter.stop_if_empty();
            return unexpected!();
        }
    };
    if copied == 0 {
        return Err(EFAULT);
    }
    Ok(copied)
}

/// Builds and submits the bios for a mapping with blocks. Returns how many bytes they transfer.
#[inline(always)]
fn blocks(
    bios: &mut Submitter<'_, Dio>,
    place: &Place,
    extent: Extent<'_>,
    unwritten: bool,
    ctx: MaySleep,
) -> Result<usize> {
    let dio = bios.dio_mut();
    let span = extent.span(dio.flags.has(CallerFlags::FSBLOCK_ALIGNED))?;
    let (flags, work) = match dio.plan(&span, unwritten) {
        Ok(plan) => plan,
        Err(error) => {
            // What it saw is told all the same.
            if unwritten {
                dio.add_work(CompWork::SAW_UNWRITTEN);
            }
            return Err(error);
        }
    };
    if dio.is_write() {
        dio.set_through(flags);
        if !work.is_empty() {
            dio.add_work(work);
        }
        // What needs a work queue because of its range or mapping is not polled for.
        if !dio.work().without(CompWork::SYNC).is_empty() {
            bios.iocb().stop_polling();
        }
    }

    let mark = bios.memory().mark();
    let zero_around = work.zeroes_around();
    let Some(mut template) = Template::new(bios, span, flags, ctx) else {
        return unexpected!();
    };
    let result = build(&mut template, place, zero_around);
    let copied = template.submitted();
    if let Err(error) = result {
        // The bytes of a bio that was not submitted are not transferred: the next attempt needs
        // them.
        bios.rewind(mark, copied);
        if copied == 0 {
            return Err(error);
        }
        // An error after some progress is dropped: the attempt at the rest meets it again.
    }
    Ok(copied)
}

/// Submits bios until the mapping or the memory ends.
#[inline(always)]
fn build(bios: &mut Template<'_, '_, Dio>, place: &Place, zero_around: bool) -> Result {
    if bios.is_over() {
        return Ok(());
    }
    if zero_around {
        zeroed(bios.zero_head())?;
    }

    let mut result = Ok(());
    while !bios.is_over() && result.is_ok() {
        // If one bio has failed, the request has: submit no more.
        if bios.request().has_failed() {
            return Ok(());
        }
        result = bios.submit_next();
    }

    // Also after an error: the rest of the current block must not show old data.
    let i_size = || place.inode().size();
    if decide::zeroes_tail(place.is_write(), zero_around, bios.pos(), i_size) {
        if let Err(error) = zeroed(bios.zero_tail()) {
            // Data may be in flight, so that the error of the walk alone would not fail the
            // request.
            bios.request().record_error(error);
            result = Err(error);
        }
    }
    result
}

/// The result of zeroing. Without it the request fails, rather than show old data.
fn zeroed(result: Result) -> Result {
    if result.is_err() {
        warn_once!();
    }
    result
}
