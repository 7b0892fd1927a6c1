//! Explain: what a capture shows that can be put right, and how.
//!
//! The rules are `haltwise_core::explain`'s.
//!
//! | file | holds |
//! |---|---|
//! | [`load`] | from a capture to what the rules look at |
//! | [`tune_advice`] | what `tune` says beside it, of KVM's parameters or of a guest |
//! | [`view`] | what they say: each figure with its name, unit and meaning |
//! | [`page`] | the same on a screen, and as a section of the page |

pub(crate) mod load;
pub(crate) mod page;
pub(crate) mod tune_advice;
pub(crate) mod view;

pub(crate) const SCHEMA: u32 = 2;
