//! Hot spots: where the samples of a capture lie.

pub(crate) mod flame;
pub(crate) mod load;
pub(crate) mod page;
pub(crate) mod view;

pub(crate) const SCHEMA: u32 = 1;
