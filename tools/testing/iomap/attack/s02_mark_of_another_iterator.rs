// SPDX-License-Identifier: GPL-2.0
//! S2: a mark of one iterator cannot rewind another, which may have advanced less.

use kernel::iov::{
    IovIter,
    Mark, //
};

/// A mark has the lifetime of its iterator.
pub fn shorten(mark: Mark<'static>, memory: &mut IovIter<'_>) {
    memory.rewind(mark, 0); //~ E0521 escapes
}

/// Other code cannot change a mark.
pub fn move_on(mut mark: Mark<'_>) {
    mark.left = usize::MAX; //~ E0616 left
}
