// SPDX-License-Identifier: GPL-2.0
//! S12: a request on a work queue that runs in soft interrupts would get a false `MaySleep`.

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

/// Only `punt()` queues a counted request.
pub fn counted<T: Operations>(request: Unique<T>) {
    workqueue::system_bh().enqueue(request); //~ E0277 RawWorkItem
}

/// Only `punt()` queues a single-bio request.
pub fn single<H: Header>(request: Single<H>) {
    workqueue::system_bh().enqueue(request); //~ E0277 RawWorkItem
}

/// Making a `MaySleep` from nothing is `unsafe`.
pub fn assumed() {
    let _ctx = MaySleep::assume(); //~ E0133 unsafe
}
