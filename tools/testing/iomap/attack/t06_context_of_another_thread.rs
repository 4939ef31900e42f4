// SPDX-License-Identifier: GPL-2.0
//! T6: who may sleep here may not sleep elsewhere.

use kernel::task::MaySleep;

fn elsewhere<T: Send>(_: T) {}

/// The proof stays on its thread.
pub fn attack(ctx: MaySleep) {
    elsewhere(ctx); //~ E0277 sent
}
