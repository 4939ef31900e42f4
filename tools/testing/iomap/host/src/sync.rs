// SPDX-License-Identifier: GPL-2.0

//! The parts of `kernel::sync` that the tests need.

pub(crate) mod atomic;
