//! Which setting a capture asks for: [`seek`] reads and searches, [`counted`] does so where only
//! histograms were kept, [`view`] holds what is said, [`text`] lays it out, [`plan`] makes a plan of it.

pub(crate) mod beside;
pub(crate) mod counted;
pub(crate) mod goal;
pub(crate) mod plan;
mod plot;
pub(crate) mod rests;
pub(crate) mod say;
pub(crate) mod seek;
pub(crate) mod text;
mod threads;
pub(crate) mod view;

/// Version of the JSON; documented in `docs/tune-json.md`.
pub(crate) const SCHEMA: u32 = 1;
