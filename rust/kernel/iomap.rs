// SPDX-License-Identifier: GPL-2.0

//! Space mappings of files, and the parts that direct I/O over them is built from.
//!
//! `iomap` is the kernel's space mapping library: a file system answers "where does this range of
//! the file live?" with a mapping, and the library moves the data. These are the safe abstractions
//! under the direct I/O path in `fs/iomap/direct_io.rs`, which itself has no `unsafe` code beyond
//! its entry points.
//!
//! C headers: [`include/linux/iomap.h`](srctree/include/linux/iomap.h),
//! [`include/linux/bio.h`](srctree/include/linux/bio.h).
//!
//! General parts lie where other subsystems look for them: bios, block devices and plugs in
//! [`crate::block`], inodes and the fields of a kiocb in [`crate::fs`], the caller's memory in
//! [`crate::iov`], and the proof that the context may sleep in [`crate::task`].
//!
//! Lengths and positions are in bytes unless a name says sectors.
//!
//! # Walking over mappings
//!
//! File systems know an iterator by its address, so it does not leave the closure that runs with
//! it. Each mapping is asked for with the result of the work on the one before, which the file
//! system gets to know in this way.
//!
//! ```no_run
//! use kernel::{
//!     iomap::{
//!         flags::BeginFlags,
//!         iter::{Iter, Mapping},
//!         ops::MapOps,
//!     },
//!     task::MaySleep,
//! };
//!
//! /// Counts the bytes of a range that no block holds.
//! fn count_holes(ops: MapOps<'_>, ctx: MaySleep) -> Result<u64> {
//!     Iter::over(ops, BeginFlags::DIRECT, |iter| {
//!         let mut holes = 0;
//!         let mut found = iter.begin(ctx)?;
//!         while found {
//!             let bytes = iter.length();
//!             match iter.mapping() {
//!                 Mapping::Hole => holes += bytes,
//!                 Mapping::Mapped(_) | Mapping::Unwritten(_) => {}
//!                 Mapping::Inline(_) | Mapping::Delalloc | Mapping::Unknown => {}
//!             }
//!             let status = iter.advance(bytes);
//!             found = iter.next(status, ctx)?;
//!         }
//!         Ok(holes)
//!     })
//! }
//! ```
//!
//! # Serving a direct I/O request
//!
//! 1. Take what C passes. Each `from_raw()` has a safety section, which is what C has to guarantee.
//! 2. Write back or invalidate the page cache ([`Kiocb::write_and_wait`],
//!    [`Kiocb::invalidate_pages`]), and count the request ([`kiocb::NewIocb::begin_dio`]).
//! 3. Ask for the first mapping. If one bio can take all of the request, use a
//!    [`bio_set::BioSet`].
//! 4. Otherwise begin a [`request::Submitter`], and walk. For each mapping with blocks make a
//!    [`bio::Template`], which builds and submits the bios. At the end, seal the request or wait.
//! 5. Complete the [`request::Unique`] in the order that [`kiocb`] describes. If the submission
//!    does not get one, the last bio does ([`worker::Operations`]).
//!
//! A function that may sleep takes a [`MaySleep`], or a value that was made with one. Completion
//! chooses by that: what may run where a bio ends, perhaps in an interrupt, has none.
//!
//! [`Kiocb::write_and_wait`]: crate::fs::Kiocb::write_and_wait
//! [`Kiocb::invalidate_pages`]: crate::fs::Kiocb::invalidate_pages
//! [`MaySleep`]: crate::task::MaySleep

pub mod bio;
pub mod bio_set;
pub mod flags;
mod handover;
pub mod iter;
pub mod kiocb;
pub mod ops;
pub mod request;
pub mod stats;
#[cfg(CONFIG_RUST_IOMAP_KUNIT_TEST)]
mod tests;
pub mod trace;
pub mod worker;
