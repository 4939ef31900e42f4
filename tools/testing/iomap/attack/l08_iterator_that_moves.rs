// SPDX-License-Identifier: GPL-2.0
//! L8: file systems store the address of a mapping iterator, so it must not move.

use kernel::iomap::iter::Iter;

/// The iterator is only borrowed, so it cannot be moved out.
pub fn attack(iter: &mut Iter<'_>) {
    let _moved = *iter; //~ E0507 move
}
