// SPDX-License-Identifier: GPL-2.0

//! The attribute that the kernel's entry points have. An attribute cannot be made in another way.

use proc_macro::TokenStream;

/// Leaves the function as it is.
#[proc_macro_attribute]
pub fn export(_attr: TokenStream, item: TokenStream) -> TokenStream {
    item
}
