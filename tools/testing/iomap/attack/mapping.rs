// SPDX-License-Identifier: GPL-2.0
//! A mapping is used while it lasts, and the memory of a request stays whole.

use kernel::{
    bindings,
    error::Result,
    ffi::c_void,
    fs::inode::Inode,
    iomap::{
        flags::BeginFlags,
        iter::{
            Extent,
            Inline,
            Iter,
            Mapping, //
        },
        ops::MapOps, //
    },
    iov::{
        IovIter,
        Mark, //
    },
    task::MaySleep, //
};

// L8: file systems store the address of a mapping iterator, so it must not move.

/// The iterator is only borrowed, so it cannot be moved out.
pub fn moved(iter: &mut Iter<'_>) {
    let _moved = *iter; //~ E0507 move
}

// S2: a mark of one iterator cannot rewind another, which may have advanced less.

/// A mark has the lifetime of its iterator.
pub fn shorten(mark: Mark<'static>, memory: &mut IovIter<'_>) {
    memory.rewind(mark, 0); //~ E0521 escapes
}

/// Other code cannot change a mark.
pub fn move_on(mut mark: Mark<'_>) {
    mark.left = usize::MAX; //~ E0616 left
}

// S2: an iterator swapped into the place of a cut one would get bytes that it never had.

/// The closure gets a temporary iterator, and other code cannot cut one.
pub fn swapped<'a>(a: &mut IovIter<'a>, b: IovIter<'a>, ctx: MaySleep) {
    a.cut(0, |cut| *cut = b); //~ E0624 cut
    a.zero(u64::MAX, ctx);
}

/// There is no copy of an iterator that could move by itself.
pub fn copied(memory: IovIter<'_>) {
    let _copy = memory.clone(); //~ E0599 clone
    drop(memory);
}

// S7: a mapping is not used after its end was reported to the file system.

/// The caller has to promise what the callbacks expect.
pub fn promise(
    ops: *const bindings::iomap_ops,
    inode: &Inode,
    private: *mut c_void,
    memory: &IovIter<'_>,
) {
    let _ops = MapOps::from_raw(ops, inode, private, 0, memory); //~ E0133 unsafe
}

/// Other code cannot change the private data afterwards.
pub fn change(ops: &mut MapOps<'_>, private: *mut c_void) {
    ops.private = private; //~ E0616 private
}

/// A mapping cannot be used after `next()`.
pub fn next(iter: &mut Iter<'_>, ctx: MaySleep) -> Result<u64> {
    let Mapping::Mapped(extent) = iter.mapping() else {
        return Ok(0);
    };
    iter.next(Ok(()), ctx)?; //~ E0502 iter
    Ok(extent.span(false)?.bdev().has_nowait().into())
}

/// A mapping cannot be used after `end()`.
pub fn end(iter: &mut Iter<'_>, memory: &mut IovIter<'_>, ctx: MaySleep) -> Result<usize> {
    let Mapping::Inline(inline) = iter.mapping() else {
        return Ok(0);
    };
    iter.end(ctx); //~ E0502 iter
    inline.copy(memory, ctx)
}

/// A mapping cannot be stored across `next()`.
pub fn keep<'m>(iter: &'m mut Iter<'_>, kept: &mut [Option<Mapping<'m>>; 2], ctx: MaySleep) {
    kept[0] = Some(iter.mapping());
    let _next = iter.next(Ok(()), ctx); //~ E0502 iter
}

/// An inline mapping has no blocks.
pub fn blocks(inline: Inline<'_>) {
    let _span = inline.span(false); //~ E0599 span
}

/// A mapping with blocks has no memory.
pub fn memory(extent: Extent<'_>, memory: &mut IovIter<'_>, ctx: MaySleep) {
    let _copied = extent.copy(memory, ctx); //~ E0599 copy
}

/// The memory determines the direction; there is no flag for it.
pub fn direction() {
    let _flags = BeginFlags::WRITE; //~ E0599 WRITE
}
