// SPDX-License-Identifier: GPL-2.0
//! S13: a front pad aligns what is in it correctly, or does not compile.

use kernel::{
    error::Result,
    iomap::{
        bio_set::BioSet,
        kiocb::BusyIocb,
        request::{
            Cache,
            Unique, //
        },
        worker::{
            Batch,
            Operations, //
        },
    },
    task::MaySleep, //
};

/// A request whose description has the alignment of a page.
#[derive(Clone, Copy)]
#[repr(align(4096))]
pub struct Wide([u8; 4096]);

// SAFETY: No such request is submitted.
static CACHE: Cache<Wide> = unsafe { Cache::new() };

impl Operations for Wide {
    type SimpleRead = Self;

    fn done_simple_read(_read: Self, _iocb: BusyIocb<()>) {}

    fn done(request: Unique<Self>) -> Option<Unique<Self>> {
        Some(request)
    }

    fn done_at_ioend(request: Unique<Self>, _ctx: MaySleep) -> Option<Unique<Self>> {
        Some(request)
    }

    fn complete_work(_batch: Batch<Self>, _ctx: MaySleep) {}

    fn goes_with(_: &Unique<Self>, _: &Unique<Self>) -> bool {
        true
    }
}

/// The front pad would not be aligned.
pub fn set(bios: &'static BioSet<Wide>) -> Result {
    // SAFETY: Called once.
    unsafe { bios.init(4)? }; //~ E0080 assertion
    Ok(())
}
