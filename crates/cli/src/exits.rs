//! Exits: which reasons, how many, how long, and whose.
//!
//! | file | holds |
//! |---|---|
//! | [`load`] | from a capture to the account of its exits |
//! | [`view`] | what is said, as data: the JSON |
//! | [`build`] | the view, computed from the account |
//! | [`text`] | the view on a screen |
//! | [`words`] | what text and page say in the same words |
//! | [`csv`] | its table for other programs |

pub(crate) mod build;
pub(crate) mod csv;
pub(crate) mod load;
pub(crate) mod text;
pub(crate) mod view;
pub(crate) mod words;

/// Version of the JSON; documented in `docs/exits-json.md`.
pub(crate) const SCHEMA: u32 = 1;
