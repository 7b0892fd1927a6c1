//! `clairvoyant`: polls exactly those halts whose gap is shorter than a block is worth.
//!
//! Nothing that cannot see the future does better: its cost is the lower bound of every other policy.
//! It wins everywhere and exists nowhere. Source: the offline optimum of ski rental (Karlin, Manasse,
//! `McGeoch`, Owicki, SODA 1990).

use super::{Ask, Entry, Policy, Seen};

pub(super) const ENTRY: Entry = Entry {
    name: "clairvoyant",
    form: "",
    summary: "the oracle: knows each gap in advance; a lower bound",
    build: |_, _| Ok(Box::new(Clairvoyant)),
};

#[derive(Debug, PartialEq)]
struct Clairvoyant;

impl Policy for Clairvoyant {
    fn window(&mut self, ask: &Ask) -> u64 {
        ask.best_window_ns.unwrap_or(0)
    }

    fn learn(&mut self, _: &Seen) {}

    fn sees_the_future(&self) -> bool {
        true
    }
}
