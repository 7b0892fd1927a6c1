//! Cost of sleeping and waking on this host: measured by two threads, corrected by a capture.
//!
//! | file | holds |
//! |---|---|
//! | [`recorded`] | what a capture's sleeps took longer |
//! | [`page`] | the costs on a screen |
//! | `figures` | the fields of the JSON |

pub(crate) mod figures;
pub(crate) mod page;
pub(crate) mod recorded;
