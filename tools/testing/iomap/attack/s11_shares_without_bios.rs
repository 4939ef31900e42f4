// SPDX-License-Identifier: GPL-2.0
//! S11: shares that are forgotten would wrap the count.

use kernel::iomap::request::{
    Operations,
    Submitter, //
};

/// Only what submits a bio makes a share.
pub fn attack<T: Operations>(submitter: &Submitter<T>) {
    core::mem::forget(submitter.share()); //~ E0624 share
}
