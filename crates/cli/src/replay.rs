//! The replay of a capture under other policies: [`play`] reads and plays, [`view`] declares the figures and computes
//! them, [`page`] shows them.

pub(crate) mod page;
pub(crate) mod play;
pub(crate) mod view;

pub(crate) const SCHEMA: u32 = 3;
