//! The replay of a capture under other policies: [`play`] reads and plays, [`sums`] adds up, [`guest`] says what polling
//! in the guest is worth, [`wakes`] what other wake-ups would change; [`view`] declares the figures and
//! computes them, [`page`] shows them.

mod guest;
pub(crate) mod page;
pub(crate) mod play;
mod sums;
pub(crate) mod view;
mod wakes;

pub(crate) const SCHEMA: u32 = 2;
