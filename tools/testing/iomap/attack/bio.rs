// SPDX-License-Identifier: GPL-2.0
//! A bio is submitted as it was built, and its end gives back what it was filled with.

use kernel::{
    block::bio::OpFlags,
    error::Result,
    fs::IocbFlags,
    iomap::{
        bio::Template,
        bio_set::{
            BioSet,
            Unsubmitted, //
        },
        iter::{
            Iter,
            Mapping,
            Span,
            Whole, //
        },
        kiocb::BusyIocb,
        ops::{
            DioOps,
            EndIo, //
        },
        request::Submitter,
        worker::Operations, //
    },
    iov::IovIter,
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

/// A bio that is not part of a request is nobody's.
pub mod alone {
    pub use kernel::block::bio::Bio; //~ E0603 Bio
}

/// Other code cannot fill a bio, and so not in another way than its request says.
pub mod filled {
    pub use kernel::block::bio::Filled; //~ E0603 Filled
}

/// Other code cannot exchange the bios of two requests.
pub fn exchange<T: Operations>(a: &mut Unsubmitted<T, EndIo>, b: &mut Unsubmitted<T, EndIo>) {
    core::mem::swap(&mut a.bio, &mut b.bio); //~ E0616 bio
}

// S6, N7: a bio is submitted unchanged, for its request, through the file system it was built for.

/// Other code cannot change what the bios of a mapping have in common.
pub fn elsewhere<T: Operations>(bios: &mut Template<'_, '_, T>) {
    bios.left = usize::MAX; //~ E0616 left
}

/// Other code cannot change the callbacks of a request.
pub fn for_others(iocb: &mut BusyIocb<DioOps>, others: DioOps) {
    iocb.ops = others; //~ E0616 ops
}

/// A request cannot be over while bios are built for it.
pub fn outlive<T: Operations>(
    mut request: Submitter<'_, T>,
    span: Span<'_>,
    ctx: MaySleep,
) -> Result {
    let mut bios = Template::new(&mut request, span, OpFlags::SYNC, ctx).unwrap();
    let _ended = request.seal(ctx); //~ E0505 request
    bios.submit_next()
}

/// Other code cannot exchange its memory.
pub fn memory<'d, T: Operations>(request: &mut Submitter<'d, T>, other: IovIter<'d>) {
    request.memory = other; //~ E0616 memory
}

// N4, N6: a bio lies in its mapping.

/// A bio begins where the one before it has ended.
pub fn beyond<T: Operations>(bios: &mut Template<'_, '_, T>) {
    let _next = bios.submit_next(0); //~ E0061 argument
}

/// A span is made of a mapping, which checks it.
pub fn made(span: &mut Span<'_>) {
    span.alignment = 1; //~ E0616 alignment
}

/// All of the range is more than what a mapping covers of it.
pub fn all<T: Operations>(
    set: &'static BioSet<T>,
    iocb: BusyIocb<EndIo>,
    span: &Span<'_>,
    memory: &mut IovIter<'_>,
    ctx: MaySleep,
) {
    let flags = OpFlags::SYNC;
    let _ = set.fill(iocb, span, memory, flags, ctx); //~ E0308 mismatched
}

/// A file system that takes part in how bios are made or submitted gets no other ones.
pub fn aside<T: Operations>(
    set: &'static BioSet<T>,
    iocb: BusyIocb<DioOps>,
    span: &Whole<'_>,
    memory: &mut IovIter<'_>,
    ctx: MaySleep,
) {
    let flags = OpFlags::SYNC;
    let _ = set.fill(iocb, span, memory, flags, ctx); //~ E0277 Callbacks
}

/// Nor does one that is passed over for a bio with a bounce buffer only.
pub fn unbounced(ops: DioOps) {
    let _ops: Option<EndIo> = ops.only_end_io::<true>(); //~ E0308 mismatched
}

/// A bio is submitted before its mapping is over.
pub fn late<T: Operations>(
    set: &'static BioSet<T>,
    iocb: BusyIocb<EndIo>,
    (iter, memory): (&mut Iter<'_>, &mut IovIter<'_>),
    dio: T,
    ctx: MaySleep,
) {
    if let Mapping::Mapped(extent) = iter.mapping() {
        let (all, flags) = (extent.whole(false).unwrap(), OpFlags::SYNC);
        if let Ok(bio) = set.fill(iocb, &all, memory, flags, ctx) {
            let _over = iter.next(Ok(()), ctx); //~ E0502 iter
            let _flight = bio.start(dio, ctx);
        }
    }
}

/// Other code cannot choose the sector.
pub fn sector<T: Operations>(bio: &mut Unsubmitted<T, EndIo>) {
    bio.set_sector(0); //~ E0599 set_sector
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
