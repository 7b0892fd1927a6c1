//! Whether a capture is whole, and making a whole one of it: what `check` and `repair` say.
//!
//! | file | holds |
//! |---|---|
//! | [`view`] | what is said, as data: the JSON |
//! | [`text`] | the same on a screen |

pub(crate) mod text;
pub(crate) mod view;

/// Version of the JSON of both; documented in `docs/check-json.md`.
pub(crate) const SCHEMA: u32 = 1;
