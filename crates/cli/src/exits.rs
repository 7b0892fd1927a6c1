//! Exits: which reasons, how many, how long, and whose.

pub(crate) mod load;
pub(crate) mod page;
pub(crate) mod view;

pub(crate) const SCHEMA: u32 = 1;
