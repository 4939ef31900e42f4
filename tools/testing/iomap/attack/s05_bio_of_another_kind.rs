// SPDX-License-Identifier: GPL-2.0
//! S5: the end of a bio releases exactly what the bio was filled with.

use kernel::{
    block::bio::{
        Bio,
        Bounced,
        Pages,
        Pinned, //
    },
    task::MaySleep, //
};

/// The pages of a bounced bio are not dirtied.
pub fn dirty(bio: &mut Bio<Bounced>, ctx: MaySleep) {
    bio.set_pages_dirty(ctx); //~ E0599 set_pages_dirty
}

/// The memory determines how pages are released; other code cannot choose.
pub fn pages() {
    let _pinned = Pinned(Pages::LeftAlone); //~ E0423 private
    let _bounced = Bounced(Pages::Dirtied); //~ E0423 private
}

/// Other code cannot exchange the contents of two bios.
pub fn exchange(a: &mut Bio<Pinned>, b: &mut Bio<Pinned>) {
    core::mem::swap(&mut a.contents, &mut b.contents); //~ E0616 contents
}
