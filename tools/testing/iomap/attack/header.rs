// SPDX-License-Identifier: GPL-2.0
//! S13: a front pad aligns its header correctly, or does not compile.

use kernel::{
    error::Result,
    iomap::bio_set::{
        Header,
        HeaderSet,
        Single, //
    },
    task::MaySleep, //
};

/// A header with the alignment of a page.
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
