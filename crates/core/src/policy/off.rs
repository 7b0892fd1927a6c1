//! `off`: never polls.
//!
//! Wins where gaps are longer than a block is worth, and where the CPU is wanted elsewhere. Loses a
//! wake-up latency on every halt. Source: what KVM did before 4.0, and does at `halt_poll_ns` 0.

use super::Entry;
use super::fixed::Fixed;

pub(super) const ENTRY: Entry = Entry {
    name: "off",
    form: "",
    summary: "never polls",
    build: |_, _| Ok(Box::new(Fixed::of_host(0))),
};
