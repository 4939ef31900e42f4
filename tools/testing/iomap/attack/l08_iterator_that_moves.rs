// SPDX-License-Identifier: GPL-2.0
//! L8: file systems know where an iterator is.

use kernel::iomap::iter::Iter;

/// An iterator is borrowed where it lies.
pub fn attack(iter: &mut Iter<'_>) {
    let _moved = *iter; //~ E0507 move
}
