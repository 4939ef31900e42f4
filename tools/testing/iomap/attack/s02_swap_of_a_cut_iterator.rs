// SPDX-License-Identifier: GPL-2.0
//! S2: an iterator swapped into the place of a cut one would get bytes that it never had.

use kernel::{
    iov::IovIter,
    task::MaySleep, //
};

/// The closure gets a temporary iterator, and other code cannot cut one.
pub fn attack<'a>(a: &mut IovIter<'a>, b: IovIter<'a>, ctx: MaySleep) {
    a.cut(0, |cut| *cut = b); //~ E0624 cut
    a.zero(u64::MAX, ctx);
}
