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
//! # Modules
//!
//! One file holds one C object:
//!
//! * [`bio`]: the bios of a request of several; [`bio_set`]: a bio with the request in front of it
//!   as one allocation (front pad).
//! * [`flags`]: the flag words, each its own type because their bits overlap.
//! * [`iter`]: the mapping iterator and what one mapping allows.
//! * [`kiocb`]: the caller's I/O control block.
//! * [`ops`]: the callbacks a file system hands in.
//! * [`request`]: the memory of a request, and who owns it.
//! * [`trace`]: the tracepoints of the direct I/O path.
//! * [`worker`]: the requests that a worker completes, many at once.
//!
//! General parts lie where other subsystems look for them: bios, block devices and plugs in
//! [`crate::block`], inodes and the fields of a kiocb in [`crate::fs`], the caller's memory in
//! [`crate::iov`], and the proof that the context may sleep in [`crate::task`].
//!
//! Lengths and positions are in bytes unless a name says sectors.
//!
//! # Walking over mappings
//!
//! To find out where a range of a file lives:
//!
//! 1. Take the callbacks of the file system and the range from C ([`ops::MapOps`]).
//! 2. Run a closure with an iterator over the range ([`iter::Iter::over`]). File systems know the
//!    iterator by its address, so it does not leave the closure.
//! 3. Ask for the first mapping ([`iter::Iter::begin`]), and match on it
//!    ([`iter::Place::mapping`]).
//! 4. Move on by the bytes that were dealt with ([`iter::Iter::advance`]), and ask for the next
//!    mapping with the result ([`iter::Iter::next`]), which tells the file system that the last one
//!    is done with. `false` says that the range is at its end.
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
//! 1. Take what C passes: the kiocb ([`kiocb::NewIocb`]), the memory ([`IovIter`]), the callbacks
//!    ([`ops::MapOps`], [`ops::DioOps`]) and the flags ([`flags::CallerFlags`]). Each has a
//!    `from_raw()` whose safety section is what C has to guarantee.
//! 2. Write back or invalidate the page cache ([`Kiocb::write_and_wait`],
//!    [`Kiocb::invalidate_pages`]), and count the request ([`kiocb::NewIocb::begin_dio`]).
//!    The types require that the count is given back.
//! 3. Ask for the first mapping. If one bio can take all of the request, use a
//!    [`bio_set::BioSet`]: [`fill()`](bio_set::BioSet::fill), and `submit()` or `start()`.
//! 4. Otherwise allocate the memory that the bios of the request share ([`request::Prepared::new`]),
//!    begin the submission with it ([`request::Submitter::new`]), which then owns the kiocb and
//!    the memory, and walk. For each mapping with blocks make a [`bio::Template`], which builds and
//!    submits the bios.
//! 5. End the submission with [`request::Submitter::seal`] or, to wait for the bios,
//!    [`request::Submitter::wait`]. They return a [`request::Unique`] if the caller has to complete
//!    the request; otherwise the last bio does, by [`request::Operations`].
//! 6. To complete, tell the file system ([`kiocb::BusyIocb::end_io`]), give the count back
//!    ([`kiocb::BusyIocb::end_dio`]), and either call `ki_complete()`
//!    ([`kiocb::DoneIocb::complete`]) or answer the caller ([`kiocb::DoneIocb::answer`]). Each step
//!    consumes the value that the step before returned, so none is left out or done twice.
//!
//! A function that may sleep takes a [`MaySleep`], or a value that was made with one. Completion
//! chooses by that: what may run where a bio ends, perhaps in an interrupt, has none.
//!
//! [`IovIter`]: crate::iov::IovIter
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
#[cfg(CONFIG_RUST_IOMAP_KUNIT_TEST)]
mod tests;
pub mod trace;
pub mod worker;
