//! The replay of a capture under other policies: [`play`] reads and plays, [`costs`] finds out what a
//! block costs, [`doubts`] says what was not recorded, [`words`] what else figures rest on, [`view`]
//! holds what is said, [`text`] lays it out.

pub(crate) mod costs;
pub(crate) mod doubts;
pub(crate) mod play;
pub(crate) mod text;
pub(crate) mod view;
pub(crate) mod words;

/// Version of the JSON; documented in `docs/replay-json.md`.
pub(crate) const SCHEMA: u32 = 1;
