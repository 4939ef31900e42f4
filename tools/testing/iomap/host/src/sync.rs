// SPDX-License-Identifier: GPL-2.0

//! `kernel::sync`, as much of it as the tests need.

pub(crate) mod atomic;
