// SPDX-License-Identifier: GPL-2.0
//! S6: a bio is submitted as it was built, to the file system that it was built for.

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

/// A bio has no submission of its own.
pub fn alone<T: Operations>(bio: Bio<Pinned>, request: &Submitter<T>) {
    bio.submit(request, 0); //~ E0599 submit
}

/// A template does not change.
pub fn elsewhere(template: &mut Template<'_>) {
    template.ops = DioOps::none(); //~ E0616 ops
}

/// Nor do the callbacks of a request.
pub fn for_others(iocb: &mut BusyIocb<DioOps>) {
    iocb.ops = DioOps::none(); //~ E0616 ops
}

/// What was submitted is not touched.
pub fn after<T: Exported>(
    template: &Template<'_>,
    bio: Bio<Pinned>,
    request: &Submitter<T>,
) -> Result {
    template.submit(bio, request, 0)?;
    bio.account_write(); //~ E0382 bio
    Ok(())
}
