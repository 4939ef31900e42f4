// SPDX-License-Identifier: GPL-2.0

//! Walking over a file range, mapping by mapping.
//!
//! A file system maps as much of a range as it can in one go. [`Iter`] asks it for the mapping at
//! the current position, and tells it how far the work got when the next one is asked for.
//!
//! C headers: [`include/linux/iomap.h`](srctree/include/linux/iomap.h); `fs/iomap/iter.c`.
//!
//! # Types
//!
//! `struct iomap_iter` holds both the position in the range and the current mapping. Only an
//! [`Iter`] moves on. Everybody may look at the [`Place`] where it is, and at the [`Mapping`]
//! there, which is borrowed until it moves on, so that a mapping that is over cannot be used. What
//! bios transfer is a [`Span`]: checked against the mapping and the device, so that a bio for it
//! cannot reach other blocks.
//!
//! # Calls of the file system
//!
//! `iomap_iter()` calls the `iomap_next` of a file system for each mapping. Without one it calls
//! `iomap_begin`, and then `iomap_end` with the bytes that were done. This module leaves out what
//! has no effect. An `iomap_begin` without an `iomap_end` it calls itself, also one beside an
//! `iomap_next`, and then nothing at the end of the last mapping, if all of the range was done. Any
//! other `iomap_next` it calls itself as well. While a tracepoint of iterators is enabled, no walk
//! calls either itself.

use super::{
    flags::{
        BeginFlags,
        MapFlags, //
    },
    ops::MapOps,
    trace, //
};
use crate::{
    bindings,
    block::{
        bdev::BlockDevice,
        bio::OpFlags,
        SECTOR_SHIFT, //
    },
    error::to_result,
    fs::inode::Inode,
    iov::IovIter,
    prelude::*,
    task::MaySleep,
    types::Opaque, //
};
use core::{
    cell::Cell,
    marker::PhantomData,
    ops::Deref,
    ptr, //
};

/// The type of a mapping, with what it offers (`iomap.type`).
///
/// A read takes zeroes from a hole and from unwritten blocks. A write needs mapped, unwritten or
/// inline space, which the file system allocates before it returns the mapping.
#[derive(Clone, Copy)]
pub enum Mapping<'m> {
    /// Nothing: reads as zeroes. A write never gets one, unless the file system has a bug.
    #[doc(alias = "IOMAP_HOLE")]
    Hole,
    /// Delayed allocation: the file system has promised space, and the data is in the page cache
    /// only.
    ///
    /// Direct I/O has written the page cache back before, so a page was dirtied through a mapping
    /// since.
    #[doc(alias = "IOMAP_DELALLOC")]
    Delalloc,
    /// Blocks of a device that hold the data.
    #[doc(alias = "IOMAP_MAPPED")]
    Mapped(Extent<'m>),
    /// Blocks of a device for a write, which read as zeroes until the file system converts them
    /// when the write completes. For a read they are a [`Mapping::Hole`].
    #[doc(alias = "IOMAP_UNWRITTEN")]
    Unwritten(Extent<'m>),
    /// Memory of the file system that holds the data.
    #[doc(alias = "IOMAP_INLINE")]
    Inline(Inline<'m>),
    /// A type that this code does not know, data on no device, or a mapping of another position.
    /// Nothing can be done with it. Also stands for no mapping.
    Unknown,
}

/// A position in a range of a file, with the mapping found there (`struct iomap_iter`).
///
/// A simple read gets one from C; otherwise an [`Iter`] dereferences to it.
///
/// # Invariants
///
/// Holds a valid iterator, of whose `srcmap` C may have filled in no more than that there is none.
/// Its mapping is either a hole of no bytes or was filled in by the file system, which has not been
/// told that it is not needed any more.
#[repr(transparent)]
pub struct Place(Opaque<bindings::iomap_iter>);

/// An iterator over the mappings of a range of a file.
///
/// File systems find the whole iterator behind the mapping that they are asked to fill in
/// (`container_of()`), so this is the C structure, zeroed as C does.
///
/// # Invariants
///
/// `ops` are those of a [`MapOps`] that outlives it, and the iterator is over its inode, within its
/// range, in its direction and with its private data. It does not move.
#[doc(alias = "iomap_iter")]
pub struct Iter<'a> {
    place: Place,
    /// The callbacks of the file system.
    ops: *const bindings::iomap_ops,
    asked: Asked,
    /// Invariant in the lifetime, so that no two iterators are of one type and could be swapped.
    _brand: PhantomData<Cell<&'a ()>>,
}

/// How the file system was asked for the first mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    NotYet,
    /// By its `iomap_begin`: there is nothing to do at the end of a mapping.
    Directly,
    /// By [`Iter::iterate`].
    ByIter,
    /// In one of these ways or not at all, and it is not asked again.
    Over,
}

impl Deref for Iter<'_> {
    type Target = Place;

    #[inline]
    fn deref(&self) -> &Place {
        &self.place
    }
}

/// A field of an iterator. Not by a reference to all of it, which need not be filled in.
macro_rules! field {
    ($place:expr, $($field:ident).+) => {{
        let place: &Place = $place;
        // SAFETY: By the invariants the iterator is valid, and nobody changes it while it is
        // borrowed: C does so only in calls of functions of `Iter` that take `&mut self`.
        unsafe { (*place.as_raw()).$($field).+ }
    }};
}

/// The position in the file after the last byte of one of the mappings of an iterator.
macro_rules! end_of {
    ($place:expr, $map:ident) => {
        // OVERFLOW: What a file system returns is not to be trusted with a panic; C wraps too.
        // CAST: Positions are not negative; the cast is what C does.
        (field!($place, $map.offset) as u64).wrapping_add(field!($place, $map.length))
    };
}

/// The errno of an error, or zero.
#[inline(always)]
fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Whether there is a mapping, from what `iomap_iter()` or an `iomap_next` has returned.
#[inline(always)]
fn is_there(ret: c_int) -> Result<bool> {
    to_result(ret).map(|()| ret > 0)
}

impl Iter<'_> {
    /// Empties the mapping, so that the next one, from the position on, can be asked for. Zeroes it
    /// inline, word by word, which takes a fifth of the instructions of a `memset()` call.
    #[inline(always)]
    fn reset_mapping(&mut self) {
        const WORDS: usize = size_of::<bindings::iomap>() / size_of::<usize>();
        const { assert!(size_of::<bindings::iomap>() == WORDS * size_of::<usize>()) };
        let iter = self.as_raw();
        // SAFETY: The memory is ours, and nobody uses the mapping, which is lent until here at
        // most. All of it are plain numbers and pointers.
        unsafe {
            for map in [&raw mut (*iter).iomap, &raw mut (*iter).srcmap] {
                let words = map.cast::<[usize; WORDS]>();
                let mut i = 0;
                while i < WORDS {
                    // Volatile, or else it is compiled to that call.
                    (&raw mut (*words)[i]).write_volatile(0);
                    i += 1;
                }
            }
        }
    }

    /// The iterator as this function may change it, while C does not.
    #[inline(always)]
    fn fields_mut(&mut self) -> &mut bindings::iomap_iter {
        // SAFETY: By the invariants the iterator is valid, and it is borrowed as long.
        unsafe { &mut *self.as_raw() }
    }

    /// Runs `walk` with an iterator over the range of `ops`.
    ///
    /// The file system gets `flags`, and `IOMAP_WRITE` if `ops` are for a write. There is no
    /// mapping before [`Iter::begin`]. File systems know the iterator by its address, so it stays
    /// on this stack frame and `walk` cannot keep it.
    ///
    /// A `walk` that returns before the last mapping has ended leaves the file system with what it
    /// holds for that, which may be a lock. With `CONFIG_DEBUG_VFS` the kernel warns of it.
    #[inline(always)]
    pub fn over<R>(
        ops: MapOps<'_>,
        flags: BeginFlags,
        walk: impl for<'i> FnOnce(&mut Iter<'i>) -> R,
    ) -> R {
        let mut this = Iter {
            place: Place(Opaque::uninit()),
            ops: ops.ops,
            asked: Asked::NotYet,
            _brand: PhantomData,
        };
        let iter = this.as_raw();
        let direction = if ops.is_write() {
            bindings::IOMAP_WRITE
        } else {
            0
        };
        this.reset_mapping();
        // SAFETY: The memory is ours, and each other field is written.
        unsafe {
            (&raw mut (*iter).inode).write(ops.inode().as_raw());
            (&raw mut (*iter).pos).write(ops.pos());
            (&raw mut (*iter).iter_start_pos).write(ops.pos());
            // CAST: Widening.
            (&raw mut (*iter).len).write(ops.len as u64);
            (&raw mut (*iter).flags).write(flags.into_raw() | direction);
            (&raw mut (*iter).private).write(ops.private);
            (&raw mut (*iter).status).write(0);
            (&raw mut (*iter).fbatch).write(ptr::null_mut());
        }
        // INVARIANT: This is what `iomap_iter()` starts from.
        let result = walk(&mut this);
        if cfg!(CONFIG_DEBUG_VFS) && this.has_to_end() {
            crate::warn_on!(true);
        }
        result
    }

    /// Asks for the mapping at the position by `iomap_begin`, if that may be called without
    /// `iomap_iter()`: something is left of the range, there is nothing to do at the end of a
    /// mapping, and nobody traces iterators.
    ///
    /// A file system with an `iomap_next` does both in there. It may name its `iomap_begin` as
    /// well, and no `iomap_end`, to say that there is nothing else in it.
    #[inline(always)]
    fn begin_directly(&mut self, _ctx: MaySleep) -> Option<c_int> {
        let raw = self.as_raw();
        // SAFETY: By the invariants the iterator and the callbacks, which are constant, are valid.
        // The context may sleep, and our callers have zeroed the mapping.
        let ret = unsafe {
            let (begin, len) = ((*self.ops).iomap_begin?, (*raw).len);
            if (*self.ops).iomap_end.is_some() || trace::iterators_are_traced() || len == 0 {
                return None;
            }
            self.asked = Asked::Directly;
            begin(
                (*raw).inode,
                (*raw).pos,
                // CAST: Positions and lengths of a file are not negative.
                len as i64,
                (*raw).flags,
                &raw mut (*raw).iomap,
                &raw mut (*raw).srcmap,
            )
        };
        if ret < 0 {
            self.stop();
            return Some(ret);
        }
        Some(1)
    }

    /// Whether there is a mapping at whose end the file system may have something to do.
    #[inline]
    fn has_to_end(&self) -> bool {
        self.asked != Asked::Directly && field!(self, iomap.length) != 0
    }

    /// Asks for the first mapping (`iomap_iter()`), unless it was asked for already. Returns
    /// whether there is a mapping.
    ///
    /// A file system that has nothing to do at the end of a mapping is asked by its `iomap_begin`,
    /// others by [`Iter::iterate`]. Fails with the error of the file system, such as `EAGAIN` if it
    /// would have to block for a [`BeginFlags::NOWAIT`] request; there is no mapping then.
    #[inline(always)]
    pub fn begin(&mut self, ctx: MaySleep) -> Result<bool> {
        if self.asked != Asked::NotYet {
            return Ok(self.asked != Asked::Over && self.remaining() > 0);
        }
        if let Some(ret) = self.begin_directly(ctx) {
            return is_there(ret);
        }
        is_there(self.begin_by_iter(ctx))
    }

    /// As [`Iter::begin`], once, for a request of a single bio, which fails with `EAGAIN` if it
    /// must not block and would have to wait later on. Returns false if it has to wait instead.
    ///
    /// A write has to wait as well if the file system may have done something that stays, such as
    /// to put blocks into the file that hold old data of the device. A file system that names its
    /// `iomap_begin` and no `iomap_end` has done nothing.
    #[doc(alias = "IOMAP_NOWAIT")]
    #[inline(always)]
    pub fn begin_single(&mut self, ctx: MaySleep) -> Result<bool> {
        if self.asked != Asked::NotYet {
            return Ok(false);
        }
        match self.begin_directly(ctx) {
            Some(ret) => is_there(ret),
            None => is_there(self.begin_single_by_iter(ctx)).map(|_| !self.may_stay()),
        }
    }

    /// As [`Iter::begin_by_iter`]. Not inline, for the requests that do not come here.
    #[inline(never)]
    fn begin_single_by_iter(&mut self, ctx: MaySleep) -> c_int {
        self.begin_by_iter(ctx)
    }

    /// Whether this is a write that must not block, of which something may stay if it fails now.
    fn may_stay(&self) -> bool {
        // SAFETY: By the invariants the callbacks, which are constant, are valid.
        let ops = unsafe { &*self.ops };
        self.is_write()
            && self.is_nowait()
            && (ops.iomap_begin.is_none() || ops.iomap_end.is_some())
    }

    /// As [`Iter::begin`], by [`Iter::iterate`]. Returns what `iomap_iter()` would.
    #[inline(always)]
    fn begin_by_iter(&mut self, ctx: MaySleep) -> c_int {
        if self.remaining() == 0 {
            self.asked = Asked::Over;
            return 0;
        }
        self.asked = Asked::ByIter;
        self.iterate(ctx)
    }

    /// Makes the mapping a hole of no bytes, so that nobody uses it and no `iomap_end` is called
    /// for it again, and asks for no other.
    #[inline]
    fn stop(&mut self) {
        self.asked = Asked::Over;
        let map = &mut self.fields_mut().iomap;
        // CAST: It fits.
        map.type_ = bindings::IOMAP_HOLE as u16;
        map.length = 0;
    }

    /// Ends the walk if the file system has returned a mapping of no bytes, with which nothing can
    /// be done. [`Iter::next`] takes that for none: it would forget the status, and ask again.
    #[cold]
    pub fn stop_if_empty(&mut self) {
        if field!(self, iomap.length) == 0 {
            self.stop();
        }
    }

    /// Ends the current mapping and asks for the one at the current position (`iomap_iter()`), if
    /// there was one so far.
    ///
    /// `status` is the result of the work on the current mapping; the file system's `iomap_end`
    /// gets the number of bytes that the position has moved. Returns `false` at the end of the
    /// range, or if the position has not moved: no byte is mapped then. Fails with `status` if
    /// that is an error, or with the error of the file system. A file system that has nothing to do
    /// at the end of a mapping is not called for the last one if all of the range was done.
    #[inline]
    pub fn next(&mut self, status: Result, ctx: MaySleep) -> Result<bool> {
        if self.asked == Asked::ByIter {
            self.fields_mut().status = errno(status);
            return is_there(self.iterate(ctx));
        }
        if self.asked == Asked::Directly && status.is_ok() && self.remaining() == 0 {
            return Ok(false);
        }
        is_there(self.finish_and_begin(status, ctx))
    }

    /// Ends the current mapping, if there is one, after all that was left of the range was
    /// submitted.
    ///
    /// Ignores the result of the callback, as `iomap_iter()` does after progress.
    #[doc(alias = "iomap_end")]
    #[inline]
    pub fn end(&mut self, ctx: MaySleep) {
        if self.has_to_end() {
            let status = self.advance(self.remaining());
            let _ = self.finish_and_begin(status, ctx);
        }
    }

    /// Ends the current mapping, if there is one, and asks for the next as [`Iter::begin`] did.
    /// Returns what `iomap_iter()` would.
    fn finish_and_begin(&mut self, status: Result, ctx: MaySleep) -> c_int {
        if let Asked::NotYet | Asked::Over = self.asked {
            return errno(status);
        }
        let has_moved = self.pos() != field!(self, iter_start_pos) && self.remaining() > 0;
        if self.asked == Asked::Directly && has_moved && status.is_ok() {
            self.reset_mapping();
            self.fields_mut().iter_start_pos = self.pos();
            if let Some(ret) = self.begin_directly(ctx) {
                return ret;
            }
        }
        self.fields_mut().status = errno(status);
        self.iterate(ctx)
    }

    /// Calls `iomap_next`, or `iomap_iter()` if there is none or somebody traces iterators. That
    /// has the checks of [`Place::mapping`] besides, and one for what only buffered writes set.
    #[inline(always)]
    fn iterate(&mut self, _ctx: MaySleep) -> c_int {
        let (raw, ops) = (self.as_raw(), self.ops);
        // SAFETY: The iterator and the callbacks are valid, and the context may sleep.
        let ret = unsafe {
            let next = (*ops).iomap_next;
            match next.filter(|_| !trace::iterators_are_traced()) {
                Some(next) => next(raw, &raw mut (*raw).iomap, &raw mut (*raw).srcmap),
                None => bindings::iomap_iter(raw, ops),
            }
        };
        if ret > 0 {
            self.fields_mut().iter_start_pos = self.pos();
        } else {
            self.stop();
        }
        ret
    }

    /// Moves the position forward by `bytes` (`iomap_iter_advance()`).
    ///
    /// Fails with `EIO`, and warns, if the current mapping does not cover so many.
    #[inline]
    pub fn advance(&mut self, bytes: u64) -> Result {
        // SAFETY: The iterator is valid.
        to_result(unsafe { bindings::iomap_iter_advance(self.as_raw(), bytes) })
    }
}

/// Memory that a file system keeps a range of a file in, less than a page.
#[derive(Clone, Copy)]
pub struct Inline<'m> {
    place: &'m Place,
}

impl Inline<'_> {
    /// Copies between the mapping and `memory`, and returns the number of bytes.
    ///
    /// A write past the end of the file zeroes the gap, moves the end and marks the inode dirty;
    /// the lock for that is one of the invariants of [`MapOps`]. Faults user memory in, and copies
    /// less if that fails.
    ///
    /// Fails with `EIO` if the file system gave no memory, and with `EINVAL` if `memory` is for the
    /// other direction than the iterator.
    #[doc(alias = "iomap_inline_data")]
    pub fn copy(&self, memory: &mut IovIter<'_>, _ctx: MaySleep) -> Result<usize> {
        let place = self.place;
        // A source that ends before the position says nothing of the length.
        let (pos, length) = (place.pos(), core::cmp::min(place.length(), place.covered()));
        let inline_data = field!(place, iomap.inline_data);
        let offset = field!(place, iomap.offset);
        if inline_data.is_null() {
            return Err(EIO);
        }
        if memory.is_source() != place.is_write() {
            return Err(EINVAL);
        }
        // CAST: Inline data is smaller than a page, and lies around `pos`.
        let at = |pos: i64| {
            inline_data
                .cast::<u8>()
                .wrapping_offset(pos.wrapping_sub(offset) as isize)
        };
        // CAST: As above.
        let length = length as usize;

        let inode = place.inode();
        let size = inode.size();
        // SAFETY: The file system maps inline data from the start of the file, so the gap up to
        // `pos` is within its buffer, and so are `length` bytes from `pos`. It may change them at
        // the same time, which is why no reference to them is made. If the mapping is for writing,
        // the locks for that are held; the inode is valid.
        unsafe {
            if !memory.is_source() {
                return Ok(bindings::copy_to_iter(
                    at(pos).cast(),
                    length,
                    memory.as_raw(),
                ));
            }
            if pos > size {
                at(size).write_bytes(0, pos.wrapping_sub(size) as usize);
            }
            let copied = bindings::copy_from_iter(at(pos).cast(), length, memory.as_raw());
            if copied > 0 {
                // CAST: At most `length`.
                let end = pos.wrapping_add(copied as i64);
                if end > inode.size() {
                    bindings::i_size_write(inode.as_raw(), end);
                }
                bindings::mark_inode_dirty(inode.as_raw());
            }
            Ok(copied)
        }
    }
}

impl Place {
    /// Borrows an iterator from C.
    ///
    /// # Safety
    ///
    /// `ptr` must point at an iterator whose mapping was filled in by the file system, and which
    /// nobody changes for the duration of `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::iomap_iter) -> &'a Self {
        // SAFETY: `Self` is transparent; the rest is required of the caller.
        unsafe { &*ptr.cast() }
    }

    /// The iterator as C knows it.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::iomap_iter {
        self.0.get()
    }

    /// Whether the range is mapped for a write (`IOMAP_WRITE`).
    #[inline]
    pub fn is_write(&self) -> bool {
        field!(self, flags) & bindings::IOMAP_WRITE != 0
    }

    /// Whether the file system must not block (`IOMAP_NOWAIT`).
    #[inline]
    pub fn is_nowait(&self) -> bool {
        field!(self, flags) & bindings::IOMAP_NOWAIT != 0
    }

    /// The current position in the file, in bytes.
    #[inline]
    pub fn pos(&self) -> i64 {
        field!(self, pos)
    }

    /// The number of bytes from the position to the end of the whole range.
    #[inline]
    pub fn remaining(&self) -> u64 {
        field!(self, len)
    }

    /// The inode of the file.
    #[inline]
    pub fn inode(&self) -> &Inode {
        let inode = field!(self, inode);
        // SAFETY: The creator of the iterator keeps the inode for as long as the iterator is used.
        unsafe { Inode::from_raw(inode) }
    }

    /// The number of bytes from the position that the current mapping covers (`iomap_length()`), at
    /// most those of the range that are left.
    ///
    /// If the data is copied from another mapping (copy-on-write), that one must cover them as
    /// well. Without a mapping it is none, wherever the position is.
    #[inline]
    pub fn length(&self) -> u64 {
        if field!(self, iomap.length) == 0 {
            return 0;
        }
        let mut end = end_of!(self, iomap);
        if self.has_source() {
            end = core::cmp::min(end, end_of!(self, srcmap));
        }
        // CAST: Positions are not negative.
        core::cmp::min(self.remaining(), end.wrapping_sub(self.pos() as u64))
    }

    /// The current mapping, until the iterator moves on.
    #[inline(always)]
    pub fn mapping(&self) -> Mapping<'_> {
        match u32::from(field!(self, iomap.type_)) {
            bindings::IOMAP_UNWRITTEN if self.is_write() && !field!(self, iomap.bdev).is_null() => {
                self.extent().map_or(Mapping::Unknown, Mapping::Unwritten)
            }
            bindings::IOMAP_MAPPED => self.extent().map_or(Mapping::Unknown, Mapping::Mapped),
            _ if self.covered() == 0 => Mapping::Unknown,
            // Unwritten blocks read as zeroes, also without a device.
            bindings::IOMAP_HOLE | bindings::IOMAP_UNWRITTEN => Mapping::Hole,
            bindings::IOMAP_DELALLOC => Mapping::Delalloc,
            bindings::IOMAP_INLINE => Mapping::Inline(Inline { place: self }),
            _ => Mapping::Unknown,
        }
    }

    /// The flags of the current mapping (`iomap.flags`).
    #[inline]
    pub(super) fn flags(&self) -> MapFlags {
        MapFlags::from_raw(field!(self, iomap.flags))
    }

    /// The number of bytes from the position that the current mapping covers, whatever its source
    /// is and however many are left of the range.
    #[inline(always)]
    fn covered(&self) -> u64 {
        // CAST: Positions are not negative.
        let before = (self.pos() as u64).wrapping_sub(field!(self, iomap.offset) as u64);
        field!(self, iomap.length).saturating_sub(before)
    }

    /// The blocks of the current mapping, if it covers the position and the file system named their
    /// device.
    #[inline(always)]
    fn extent(&self) -> Option<Extent<'_>> {
        let (bdev, covered) = (field!(self, iomap.bdev), self.covered());
        if bdev.is_null() || covered == 0 {
            return None;
        }
        // SAFETY: The file system keeps the device of its mapping open.
        let bdev = unsafe { BlockDevice::from_raw(bdev) };
        // INVARIANT: Checked just now.
        Some(Extent {
            place: self,
            bdev,
            covered,
        })
    }

    /// Whether the current data has to be read from another mapping (`srcmap`), as for
    /// copy-on-write.
    #[inline]
    pub fn has_source(&self) -> bool {
        u32::from(field!(self, srcmap.type_)) != bindings::IOMAP_HOLE
    }
}

/// Blocks of a device that a range of the file is mapped to.
///
/// # Invariants
///
/// The mapping covers the position of the place.
#[derive(Clone, Copy)]
pub struct Extent<'m> {
    pub(super) place: &'m Place,
    bdev: &'m BlockDevice,
    /// The number of bytes from the position that the mapping covers, whatever its source is.
    covered: u64,
}

impl<'m> Extent<'m> {
    /// The device that holds the blocks.
    #[inline]
    pub fn bdev(&self) -> &'m BlockDevice {
        self.bdev
    }

    /// The flags of the mapping (`iomap.flags`).
    #[inline]
    pub fn flags(&self) -> MapFlags {
        self.place.flags()
    }

    /// What the mapping covers of the range that is left.
    ///
    /// Fails with `EINVAL` if that is not aligned to the logical blocks of the device or, with
    /// `fs_blocks` or [`MapFlags::MIXED`], to the blocks of the file system.
    #[inline(always)]
    pub fn span(self, fs_blocks: bool) -> Result<Span<'m>> {
        let mut len = core::cmp::min(self.covered, self.place.remaining());
        if self.place.has_source() {
            // That may end before the position, and then the length says nothing.
            len = core::cmp::min(len, self.place.length());
        }
        self.checked(len, fs_blocks || self.flags().has(MapFlags::MIXED))
    }

    /// All of the range that is left, whatever the source of the mapping is.
    ///
    /// Fails with `ENOTBLK` if nothing is left or the mapping does not cover it, and otherwise as
    /// [`Extent::span`]; but [`MapFlags::MIXED`] asks nothing of a bio that has all of it.
    #[inline(always)]
    pub fn whole(self, fs_blocks: bool) -> Result<Whole<'m>> {
        let len = self.place.remaining();
        // Nothing wraps to more than any mapping covers.
        if len.wrapping_sub(1) >= self.covered {
            return Err(ENOTBLK);
        }
        // INVARIANT: Checked just now.
        Ok(Whole(self.checked(len, fs_blocks)?))
    }

    /// The next `len` bytes.
    #[inline(always)]
    fn checked(self, len: u64, fs_blocks: bool) -> Result<Span<'m>> {
        let logical = self.bdev().logical_block_size();
        let alignment = if fs_blocks {
            core::cmp::max(logical, self.place.inode().block_size())
        } else {
            logical
        };
        // CAST: Only the low bits matter, and positions are not negative.
        if (self.place.pos() as u64 | len) & u64::from(alignment.wrapping_sub(1)) != 0 {
            return Err(EINVAL);
        }
        // INVARIANT: Checked just now.
        Ok(Span {
            extent: self,
            len,
            alignment,
        })
    }
}

/// What a mapping with blocks covers of the range that is left, aligned so that bios can transfer
/// it.
///
/// # Invariants
///
/// Position and length are multiples of the alignment.
#[derive(Clone, Copy)]
pub struct Span<'m> {
    extent: Extent<'m>,
    /// Its size in bytes.
    pub(super) len: u64,
    /// What the size of each bio is a multiple of, in bytes: a power of two, and no less than the
    /// logical block size of the device.
    pub(super) alignment: u32,
}

/// A [`Span`] that is all of the range that is left, which is not nothing.
///
/// # Invariants
///
/// The mapping covers it.
pub struct Whole<'m>(Span<'m>);

impl<'m> Deref for Whole<'m> {
    type Target = Span<'m>;

    #[inline(always)]
    fn deref(&self) -> &Span<'m> {
        &self.0
    }
}

impl<'m> Deref for Span<'m> {
    type Target = Extent<'m>;

    #[inline(always)]
    fn deref(&self) -> &Extent<'m> {
        &self.extent
    }
}

impl<'m> Span<'m> {
    /// The flag of a bio of all of the span that the device must not tear (`REQ_ATOMIC`).
    ///
    /// Fails with `EINVAL` unless that is all of the range that is left, in blocks of one state: a
    /// power cut could come between two mappings, and between data and conversion.
    #[inline]
    pub fn untorn(&self) -> Result<OpFlags> {
        if self.len == self.place.remaining() && !self.flags().has(MapFlags::MIXED) {
            Ok(OpFlags::ATOMIC)
        } else {
            Err(EINVAL)
        }
    }

    /// The sector of the device, in units of 512 bytes, that holds byte `pos` of the file
    /// (`iomap_sector()`), which must be in a block of the span.
    ///
    /// All ones for [`MapFlags::ANON_WRITE`]: the file system decides at submission.
    #[inline(always)]
    pub(super) fn sector(&self, pos: i64) -> u64 {
        if self.flags().has(MapFlags::ANON_WRITE) {
            return u64::MAX;
        }
        // CAST: Positions are not negative.
        field!(self.place, iomap.addr)
            .wrapping_add(pos as u64)
            .wrapping_sub(field!(self.place, iomap.offset) as u64)
            >> SECTOR_SHIFT
    }

    /// The size in bytes of the largest bio that can be bounced or have integrity data
    /// (`iomap_max_bio_size()`).
    ///
    /// Only integrity data limits it, because that must fit one buffer.
    #[inline]
    pub(super) fn max_bio_bytes(&self) -> usize {
        if self.flags().has(MapFlags::INTEGRITY) {
            return self.bdev().max_integrity_bytes();
        }
        bindings::IOMAP_DIO_BIO_MAX_BYTES
    }
}
