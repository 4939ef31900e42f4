// SPDX-License-Identifier: GPL-2.0
//! S11: references made without a bio and forgotten would wrap the count.

use kernel::iomap::request::{
    Operations,
    Submitter, //
};

/// Only the submission of a bio makes a reference.
pub fn attack<T: Operations>(submitter: &Submitter<T>) {
    core::mem::forget(submitter.bio_ref()); //~ E0624 bio_ref
}
