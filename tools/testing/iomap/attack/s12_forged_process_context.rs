// SPDX-License-Identifier: GPL-2.0
//! S12: a request on a queue that runs in soft interrupts would forge a `MaySleep`.

use kernel::{
    iomap::request::{
        Operations,
        Unique, //
    },
    workqueue, //
};

/// A request goes to a queue by `punt()` only.
pub fn attack<T: Operations>(request: Unique<T>) {
    workqueue::system_bh().enqueue(request); //~ E0277 RawWorkItem
}
