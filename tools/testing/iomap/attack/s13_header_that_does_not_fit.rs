// SPDX-License-Identifier: GPL-2.0
//! S13: a header fits in front of a bio, whatever it needs to be aligned to.

use kernel::{
    error::Result,
    iomap::bio_set::{
        Header,
        HeaderSet,
        Single, //
    },
    task::MaySleep, //
};

/// A header that begins a page.
#[repr(align(4096))]
pub struct Wide([u8; 4096]);

impl Header for Wide {
    type Ops = ();

    fn punted(request: Single<Self>, _ctx: MaySleep) {
        drop(request);
    }
}

/// The front pad would not be aligned.
pub fn set(bios: &'static HeaderSet<Wide>) -> Result {
    // SAFETY: Called once.
    unsafe { bios.init(4)? }; //~ E0080 assertion
    Ok(())
}
