// SPDX-License-Identifier: GPL-2.0
//! A bio is submitted as it was built, and its end gives back what it was filled with.

use kernel::{
    block::bio::{
        Bio,
        Bounced,
        OpFlags,
        Pages,
        Pinned, //
    },
    error::Result,
    fs::IocbFlags,
    iomap::{
        bio::{
            Exported,
            Template, //
        },
        kiocb::BusyIocb,
        ops::DioOps,
        request::{
            Operations,
            Submitter, //
        },
    },
    task::MaySleep, //
};

// L5: a bio is put before its request can be completed; other code cannot reach either.

/// Other code cannot name the type of the reference that the end of a bio drops.
pub mod bio_ref {
    pub use kernel::iomap::request::BioRef; //~ E0603 BioRef
}

/// There is no type for a bio that has ended.
pub mod bio {
    pub use kernel::iomap::bio::EndedBio; //~ E0432 EndedBio
}

// S5: the end of a bio releases exactly what the bio was filled with.

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

// S6: a bio is submitted unchanged, through the file system that it was built for.

/// A bio of a counted request has no `submit()` of its own.
pub fn alone<T: Operations>(bio: Bio<Pinned>, request: &Submitter<T>) {
    bio.submit(request, 0); //~ E0599 submit
}

/// Other code cannot change a template.
pub fn elsewhere(template: &mut Template<'_>) {
    template.ops = DioOps::none(); //~ E0616 ops
}

/// Other code cannot change the callbacks of a request.
pub fn for_others(iocb: &mut BusyIocb<DioOps>) {
    iocb.ops = DioOps::none(); //~ E0616 ops
}

/// Submission consumes the bio.
pub fn after<T: Exported>(
    template: &Template<'_>,
    bio: Bio<Pinned>,
    request: &Submitter<T>,
) -> Result {
    template.submit(bio, request, 0)?;
    bio.account_write(); //~ E0382 bio
    Ok(())
}

// S9: memory pinned for a write cannot become the target of a read, whose device would modify it.

/// The memory determines the operation; there is no flag for it.
pub fn operation() {
    let _write = OpFlags::WRITE; //~ E0599 WRITE
    let _read = OpFlags::READ; //~ E0599 READ
}

/// Flags cannot be made from numbers.
pub fn word() {
    let _flags = OpFlags::from_raw(1); //~ E0599 from_raw
    let _flags = OpFlags(1); //~ E0423 private
    let _flags = OpFlags::SYNC | 1; //~ E0308 mismatched
}

/// There is no flag for polling: only `poll_for()` sets it, and stores the bio in the kiocb.
pub fn polled() {
    let _polled = OpFlags::POLLED; //~ E0599 POLLED
}

/// The flags of a kiocb come from the kiocb.
pub fn asked() {
    let _flags = IocbFlags::from_raw(1); //~ E0599 from_raw
    let _flags = IocbFlags(1); //~ E0423 private
}
