//! The pilot: decides which setting serves each VM, all the time, and shows that it helps.
//!
//! | file | holds |
//! |---|---|
//! | [`config`] | its configuration file |
//! | [`metrics`] | what it shows to Prometheus |
//! | [`kept`] | what it keeps on disk, and who else reads that |
//! | [`status`] | what it says of itself |

#[expect(dead_code, reason = "the verb comes with the engine")]
pub(crate) mod config;
pub(crate) mod kept;
#[expect(dead_code, reason = "the verb comes with the engine")]
pub(crate) mod metrics;
pub(crate) mod status;
