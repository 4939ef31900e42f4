// SPDX-License-Identifier: GPL-2.0

//! Batching of submitted bios.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h).

use crate::{
    bindings,
    types::Opaque, //
};

/// Runs `section` with a plug: bios submitted in it reach the driver together.
///
/// The plug lives on this stack frame and `current->plug` points at it, so it is neither movable
/// nor nameable from outside. Blocking in `section` flushes what is plugged.
///
/// `struct blk_plug`, `blk_start_plug()` and `blk_finish_plug()`.
#[inline]
pub fn plugged<R>(section: impl FnOnce() -> R) -> R {
    let plug = Opaque::<bindings::blk_plug>::uninit();

    // SAFETY: `plug` is valid for writes and stays in place until `blk_finish_plug()` below; the
    // kernel does not unwind, so that call is always reached.
    unsafe { bindings::blk_start_plug(plug.get()) };
    let result = section();
    // SAFETY: `plug` was started above, on this task.
    unsafe { bindings::blk_finish_plug(plug.get()) };

    result
}
