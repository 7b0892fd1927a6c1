//! `haltwise fleet show`: what many hosts should set, from their costs tables.

pub(crate) mod build;
pub(crate) mod load;
pub(crate) mod page;
pub(crate) mod view;

pub(crate) const SCHEMA: u32 = 3;
