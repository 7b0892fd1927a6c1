//! `ski-rental`: polls for exactly what a block costs. `ski-rental:draw=random` for a time drawn anew
//! at each halt, which no load can aim at.
//!
//! Polling is renting, a block is buying. Whoever rents until the rent has reached the price pays at
//! most twice what the [oracle](super::clairvoyant) pays, on any load; no rule without a draw
//! promises less. With a draw of density `e^(t/B) / (B (e - 1))` on 0 to B, the expected cost is
//! `e / (e - 1)`, 1.58 times the oracle's, whatever comes.
//! Wins nothing on average: it is the least that a rule which learns must hold to. Loses on idle loads,
//! twice the cost of `off`. Source: Karlin, Manasse, `McGeoch`, Owicki, "Competitive randomized
//! algorithms for non-uniform problems", SODA 1990. It does not adapt, so where it starts is the same.

use super::{Ask, Entry, Policy, Seen};
use crate::workload::SplitMix64;

pub(super) const ENTRY: Entry = Entry {
    name: "ski-rental",
    form: "draw=random, optional",
    summary: "polls as long as a sleep costs: at most twice the oracle",
    build: |args, setting| {
        let draw = args.word("draw", &[("random", true)], "`random`")?;
        let random = draw.map(|_| SplitMix64(setting.seed));
        Ok(Box::new(SkiRental {
            break_even_ns: setting.break_even_ns,
            random,
        }))
    },
};

#[derive(Debug, PartialEq)]
struct SkiRental {
    break_even_ns: u64,
    random: Option<SplitMix64>,
}

impl Policy for SkiRental {
    fn window(&mut self, _: &Ask) -> u64 {
        match &mut self.random {
            None => self.break_even_ns,
            Some(random) => drawn(random.unit(), self.break_even_ns),
        }
    }

    fn learn(&mut self, _: &Seen) {}
}

/// The time below which the share `unit` of all draws lies: `B ln(1 + unit (e - 1))`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the logarithm lies in 0..1, and the cast saturates"
)]
fn drawn(unit: f64, break_even_ns: u64) -> u64 {
    let share = (1.0 + unit * (std::f64::consts::E - 1.0)).ln();
    let ns = share * break_even_ns as f64;
    (ns.round() as u64).min(break_even_ns)
}

#[cfg(test)]
mod test;
