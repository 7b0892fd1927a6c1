//! `haltwise fleet show`: what many hosts should set, from their costs tables.
//!
//! | file | holds |
//! |---|---|
//! | [`load`] | from files to sums, on all CPUs |
//! | [`view`] | the figures, declared |
//! | [`build`] | the figures, computed |
//! | [`page`] | what is shown of them, also as a page for a browser |

pub(crate) mod build;
pub(crate) mod load;
pub(crate) mod page;
pub(crate) mod view;

pub(crate) const SCHEMA: u32 = 3;
