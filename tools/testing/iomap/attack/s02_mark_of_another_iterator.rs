// SPDX-License-Identifier: GPL-2.0
//! S2: a mark of one iterator is none of another, which may have been advanced by less.

use kernel::iov::{
    IovIter,
    Mark, //
};

/// A mark is of an iterator that was borrowed for as long.
pub fn shorten(mark: Mark<'static>, memory: &mut IovIter<'_>) {
    memory.rewind(mark, 0); //~ E0521 escapes
}

/// Where it stands is not for others to say.
pub fn move_on(mut mark: Mark<'_>) {
    mark.left = usize::MAX; //~ E0616 left
}
