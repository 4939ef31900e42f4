// SPDX-License-Identifier: GPL-2.0
//! L5: a bio is put before the request can be over, so neither is left to others.

/// The reference of a bio, which its end drops, cannot be named.
pub mod bio_ref {
    pub use kernel::iomap::request::BioRef; //~ E0603 BioRef
}

/// Nor can a bio that has ended.
pub mod bio {
    pub use kernel::iomap::bio::EndedBio; //~ E0432 EndedBio
}
