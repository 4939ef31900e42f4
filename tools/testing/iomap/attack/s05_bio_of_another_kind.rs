// SPDX-License-Identifier: GPL-2.0
//! S5: what is given back with a bio is what it was filled with.

use kernel::{
    block::bio::{
        Bio,
        Bounced,
        Pages,
        Pinned, //
    },
    task::MaySleep, //
};

/// A copy is not dirtied.
pub fn dirty(bio: &mut Bio<Bounced>, ctx: MaySleep) {
    bio.set_pages_dirty(ctx); //~ E0599 set_pages_dirty
}

/// What becomes of pages follows from the memory.
pub fn pages() {
    let _pinned = Pinned(Pages::LeftAlone); //~ E0423 private
    let _bounced = Bounced(Pages::Dirtied); //~ E0423 private
}

/// The contents of a bio are not exchanged.
pub fn exchange(a: &mut Bio<Pinned>, b: &mut Bio<Pinned>) {
    core::mem::swap(&mut a.contents, &mut b.contents); //~ E0616 contents
}
