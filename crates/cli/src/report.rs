//! The report: from the accounts of a recording to one screen per VM, or to JSON.
//!
//! [`view`] holds what is said, [`build`] computes it, [`text`] lays it out; [`quality`] words what
//! every page says of the recording itself. The text shows nothing that the JSON does not hold.

pub(crate) mod build;
pub(crate) mod quality;
pub(crate) mod text;
pub(crate) mod verdict;
pub(crate) mod view;

pub(crate) const SCHEMA: u32 = 2;
