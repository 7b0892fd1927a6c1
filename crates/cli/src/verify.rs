//! Recorded halts, checked against KVM's algorithm.
//!
//! [`crate::reading::rule`] finds out which algorithm and which settings, [`feed`] reads the capture
//! through [`haltwise_core::verify`]; [`view`] declares the figures and computes them, [`page`] shows them.

pub(crate) mod feed;
pub(crate) mod page;
pub(crate) mod view;

const SCHEMA: u32 = 1;
