//! Explain: what a capture shows that can be put right, and how.
//!
//! The rules are `haltwise_core::explain`'s.

pub(crate) mod load;
pub(crate) mod page;
pub(crate) mod tune_advice;
pub(crate) mod view;

pub(crate) const SCHEMA: u32 = 2;
