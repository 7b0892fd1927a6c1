//! Hot spots: where the samples of a capture lie.
//!
//! | file | holds |
//! |---|---|
//! | [`load`] | from a capture to the account of its samples |
//! | [`view`] | what is said, as data: the JSON |
//! | [`build`] | the view, computed from the account |
//! | [`text`] | the view on a screen |
//! | [`csv`] | its table for other programs |
//! | [`speedscope`] | the stacks for speedscope.app |
//! | [`svg`] | the stacks as a picture |

pub(crate) mod build;
pub(crate) mod csv;
pub(crate) mod load;
pub(crate) mod speedscope;
pub(crate) mod svg;
pub(crate) mod text;
pub(crate) mod view;

/// Version of the JSON; documented in `docs/profile-json.md`.
pub(crate) const SCHEMA: u32 = 1;
