//! The pilot: decides which setting serves each VM, all the time, and shows that it helps.
//!
//! | file | holds |
//! |---|---|
//! | [`kept`] | what it keeps on disk, and who else reads that |
//! | [`status`] | what it says of itself |

pub(crate) mod kept;
pub(crate) mod status;
