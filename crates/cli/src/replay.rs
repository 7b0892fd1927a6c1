//! The replay of a capture under other policies: [`play`] reads and plays, [`sums`] adds up, [`guest`] says what polling
//! in the guest is worth, [`quicker`] what shorter wake-ups would change; [`view`] declares the figures, [`build`]
//! computes them, [`page`] shows them.

pub(crate) mod build;
mod guest;
pub(crate) mod page;
pub(crate) mod play;
pub(crate) mod quicker;
mod sums;
pub(crate) mod view;

/// Version of the JSON; documented in `docs/replay-json.md`.
pub(crate) const SCHEMA: u32 = 1;
