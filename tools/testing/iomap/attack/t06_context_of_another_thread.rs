// SPDX-License-Identifier: GPL-2.0
//! T6: a `MaySleep` is valid on one thread only.

use kernel::task::MaySleep;

fn elsewhere<T: Send>(_: T) {}

/// Other threads cannot get the value.
pub fn attack(ctx: MaySleep) {
    elsewhere(ctx); //~ E0277 sent
}
