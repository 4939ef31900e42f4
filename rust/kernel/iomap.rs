// SPDX-License-Identifier: GPL-2.0

//! Space mappings of files, and what direct I/O over them is built from.
//!
//! `iomap` is the kernel's space mapping library: a file system answers "where does this range of
//! the file live?" with a mapping, and the library moves the data. These are the safe
//! abstractions under the direct I/O path in `fs/iomap/direct_io.rs`. One file holds one C object:
//!
//! * [`bio`]: the bios of a request of several; [`bio_set`]: a bio and the request header in front of
//!   it as one allocation (front pad).
//! * [`flags`]: the flag words, each its own type because their bits overlap.
//! * [`iter`]: the mapping iterator and what one mapping allows.
//! * [`kiocb`]: the caller's I/O control block.
//! * [`ops`]: the callbacks a file system hands in.
//! * [`request`]: who owns a request of several bios, and who completes it.
//! * [`trace`]: the tracepoints of the direct I/O path.
//!
//! What others need as well lies where they look for it: bios, block devices and plugs in
//! [`crate::block`], inodes in [`crate::fs`], the caller's memory in [`crate::iov`], and the proof that
//! the context may sleep in [`crate::task`].
//!
//! Lengths and positions are in bytes unless a name says sectors.
//!
//! C headers: [`include/linux/iomap.h`](srctree/include/linux/iomap.h),
//! [`include/linux/bio.h`](srctree/include/linux/bio.h).

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
