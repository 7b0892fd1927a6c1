//! Two captures compared.
//!
//! | file | holds |
//! |---|---|
//! | [`pair`] | whose figures are compared: which VM of one is which of the other |
//! | [`load`] | from a capture to the sums of its blocks |
//! | [`around`] | what else differs: kernel, settings, length, losses |
//! | [`view`] | what is said, as data: the JSON |
//! | [`build`] | the view, computed from the sums |
//! | [`text`] | the view on a screen |

pub(crate) mod around;
pub(crate) mod build;
pub(crate) mod load;
pub(crate) mod pair;
pub(crate) mod text;
pub(crate) mod view;

/// Version of the JSON; documented in `docs/diff-json.md`.
pub(crate) const SCHEMA: u32 = 1;
