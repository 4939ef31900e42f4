// SPDX-License-Identifier: GPL-2.0

//! Batching of submitted bios.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h).

use crate::{
    bindings,
    task::MaySleep,
    types::Opaque, //
};

/// Runs `section` with a plug, so that the bios it submits reach the driver in one batch.
///
/// The block layer holds back the requests of a task that has a plug, merges neighbours, and passes
/// them to the driver when `section` returns (`blk_start_plug()`, `blk_finish_plug()`). It does so
/// earlier if the task sleeps or if many requests have come together, so a `section` that waits for
/// its own bios does not deadlock. Inside another `plugged()` the outer plug collects the requests.
///
/// Process context, because the plug belongs to the current task (`current->plug`). It lives on
/// this stack frame; a closure, unlike a guard, neither moves it nor lets anybody name it.
///
/// # Examples
///
/// ```
/// use kernel::{block::plug::plugged, task::MaySleep};
///
/// fn answer(ctx: MaySleep) -> u32 {
///     // What `section` returns comes back.
///     plugged(ctx, || 42)
/// }
/// ```
#[doc(alias("blk_plug", "blk_start_plug", "blk_finish_plug"))]
#[inline]
pub fn plugged<R>(_ctx: MaySleep, section: impl FnOnce() -> R) -> R {
    let plug = Opaque::<bindings::blk_plug>::uninit();

    // SAFETY: `plug` is valid for writes and stays in place until `blk_finish_plug()` below; the
    // kernel does not unwind, so that call is always reached.
    unsafe { bindings::blk_start_plug(plug.get()) };
    let result = section();
    // SAFETY: `plug` was started above, on this task.
    unsafe { bindings::blk_finish_plug(plug.get()) };

    result
}
