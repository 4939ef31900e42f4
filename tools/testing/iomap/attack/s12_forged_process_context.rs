// SPDX-License-Identifier: GPL-2.0
//! S12: a request on a queue that runs in soft interrupts would forge a `MaySleep`.

use kernel::{
    iomap::{
        bio_set::{
            Header,
            Single, //
        },
        request::{
            Operations,
            Unique, //
        },
    },
    task::MaySleep,
    workqueue, //
};

/// A request goes to a queue by `punt()` only.
pub fn counted<T: Operations>(request: Unique<T>) {
    workqueue::system_bh().enqueue(request); //~ E0277 RawWorkItem
}

/// So does one of a single bio.
pub fn single<H: Header>(request: Single<H>) {
    workqueue::system_bh().enqueue(request); //~ E0277 RawWorkItem
}

/// Whoever else says that it may sleep promises it.
pub fn assumed() {
    let _ctx = MaySleep::assume(); //~ E0133 unsafe
}
