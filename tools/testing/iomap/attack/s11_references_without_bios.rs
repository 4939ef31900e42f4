// SPDX-License-Identifier: GPL-2.0
//! S11: references that are forgotten would wrap the count.

use kernel::iomap::request::{
    Operations,
    Submitter, //
};

/// Only what submits a bio makes one.
pub fn attack<T: Operations>(submitter: &Submitter<T>) {
    core::mem::forget(submitter.bio_ref()); //~ E0624 bio_ref
}
