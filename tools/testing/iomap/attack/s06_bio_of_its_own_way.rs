// SPDX-License-Identifier: GPL-2.0
//! S6: a bio is submitted as it was built, to the file system that it was built for.

use kernel::iomap::{
    bio::{
        Bio,
        Pinned, //
    },
    kiocb::BusyIocb,
    ops::DioOps,
    request::{
        Operations,
        Submitter, //
    },
};

/// A bio has no submission of its own.
pub fn attack<T: Operations>(
    bio: Bio<Pinned>,
    request: &Submitter<T>,
    ops: &DioOps,
    iocb: &mut BusyIocb,
) {
    bio.submit(request, ops, iocb, 0); //~ E0599 submit
}
