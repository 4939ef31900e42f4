// SPDX-License-Identifier: GPL-2.0
//! S6: a bio is submitted unchanged, through the file system that it was built for.

use kernel::{
    block::bio::{
        Bio,
        Pinned, //
    },
    error::Result,
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
};

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
