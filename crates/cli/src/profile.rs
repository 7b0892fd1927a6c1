//! Hot spots: where the samples of a capture lie.
//!
//! | file | holds |
//! |---|---|
//! | [`load`] | from a capture to the account of its samples |
//! | [`view`] | the figures, declared |
//! | [`build`] | the figures, computed from the account |
//! | [`page`] | what is shown of them |
//! | [`flame`] | the boxes of the page's flame graph |

pub(crate) mod build;
pub(crate) mod flame;
pub(crate) mod load;
pub(crate) mod page;
pub(crate) mod view;

pub(crate) const SCHEMA: u32 = 1;
