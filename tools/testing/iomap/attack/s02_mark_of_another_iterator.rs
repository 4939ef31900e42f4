// SPDX-License-Identifier: GPL-2.0
//! S2: a mark of one iterator is none of another, which may have been advanced by less.

use kernel::iomap::iov_iter::{
    IovIter,
    Mark, //
};

/// A mark is of an iterator that was borrowed for as long.
pub fn shorten<'long: 'short, 'short>(mark: Mark<'long>, memory: &mut IovIter<'short>) {
    let left = mark.left; //~ E0616 left
    memory.rewind(mark, left);
}
