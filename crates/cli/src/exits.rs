//! Exits: which reasons, how many, how long, and whose.
//!
//! | file | holds |
//! |---|---|
//! | [`load`] | from a capture to the account of its exits |
//! | [`view`] | the figures, declared |
//! | [`build`] | the figures, computed from the account |
//! | [`page`] | what is shown of them |

pub(crate) mod build;
pub(crate) mod load;
pub(crate) mod page;
pub(crate) mod view;

pub(crate) const SCHEMA: u32 = 1;
