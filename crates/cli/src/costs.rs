//! `haltwise fleet add`: what every setting of a grid would have cost each VM of a capture, as a table that adds up with
//! those of other captures ([`haltwise_core::costs`]).
//!
//! | file | holds |
//! |---|---|
//! | [`play`] | from a capture to the figures of its VMs |
//! | [`who`] | whose they are: host, VMs, labels, classes, goals |
//! | [`view`] | what is said of a table that was written, declared |
//! | [`page`] | the same as text |

pub(crate) mod page;
pub(crate) mod play;
pub(crate) mod view;
pub(crate) mod who;

pub(crate) const SCHEMA: u32 = 1;
