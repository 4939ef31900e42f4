// SPDX-License-Identifier: GPL-2.0
//! S2: another iterator in the place of one that is cut would get its bytes back.

use kernel::{
    iov::IovIter,
    task::MaySleep, //
};

/// The section gets an iterator of its own, and nobody else can cut one.
pub fn attack<'a>(a: &mut IovIter<'a>, b: IovIter<'a>, ctx: MaySleep) {
    a.cut(0, |cut| *cut = b); //~ E0624 cut
    a.zero(u64::MAX, ctx);
}
