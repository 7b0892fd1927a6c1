//! `clairvoyant`: polls exactly those halts whose gap is shorter than a block is worth.
//!
//! Nothing that cannot see the future does better: its cost is the yardstick of every other policy.
//! It wins everywhere and exists nowhere. Source: the offline optimum of ski rental (Karlin, Manasse,
//! `McGeoch`, Owicki, SODA 1990).

use super::{Ask, Entry, Policy, Seen};

pub(super) const ENTRY: Entry = Entry {
    name: "clairvoyant",
    form: "",
    summary: "knows each gap beforehand: the yardstick, not a rule",
    build: |_, setting| {
        Ok(Box::new(Clairvoyant {
            break_even_ns: setting.break_even_ns,
        }))
    },
};

#[derive(Debug)]
struct Clairvoyant {
    break_even_ns: u64,
}

impl Policy for Clairvoyant {
    fn window(&mut self, ask: &Ask) -> u64 {
        match ask.future_gap_ns {
            Some(gap_ns) if gap_ns <= self.break_even_ns => gap_ns,
            _ => 0,
        }
    }

    fn learn(&mut self, _: &Seen) {}
}
