// SPDX-License-Identifier: GPL-2.0
//! L5: a bio is put before its request can be completed; other code cannot reach either.

/// Other code cannot name the type of the reference that the end of a bio drops.
pub mod bio_ref {
    pub use kernel::iomap::request::BioRef; //~ E0603 BioRef
}

/// There is no type for a bio that has ended.
pub mod bio {
    pub use kernel::iomap::bio::EndedBio; //~ E0432 EndedBio
}
