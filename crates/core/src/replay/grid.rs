//! KVM's own rule under many settings at once: what `kvm:max=…,grow=…` would give, for a whole grid.
//!
//! A search for the best setting replays the same halts under hundreds of settings. Here each setting
//! is a lane of a vector: a halt is looked at once, what it may come to is put in a small table, and
//! all lanes take their step in the same few instructions. Results equal those of [`super::run::Run`] with
//! the policy `kvm` to the nanosecond; `grid_and_scalar_agree` holds both against each other.
//!
//! Settings that differ where no window ever comes do the same on any halts, and so do settings that have
//! come to the same window with the same way on: they share a lane, see `ladder`.
//!
//! Memory depends on the number of settings alone: halts come in slices of any length.
//!
//! **What is covered.** Every rule with a window that adapts: [`WindowOf::Vcpu`], 4.3 and later. At full speed goes what kernels since 5.1 do
//! with windows up to 2^28 ns (268 ms). Kernels before 5.1, longer windows, and factors that can wrap
//! 32 bits are played one by one, with the reference model itself: exact too, at the speed of `Run`. Rules
//! without a window (before 4.3) are refused: they are a fixed threshold or none.

mod group;
mod halt;
mod kernel;
mod ladder;
mod lane;
mod vectors;

use super::arrivals::Follow;
use super::latency::Table;
use super::sample::Sample;
use super::sums::Sums;
use crate::kvm::rule::WindowOf;
use crate::kvm::{Knobs, Rule};
use crate::policy::Start;
use group::Terms;
use lane::Lane;
use vectors::Vectors;

/// One point of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The module parameters. `halt_poll_ns` matters only where growth is capped at the module's
    /// parameter (4.6 to 5.12).
    pub knobs: Knobs,
    /// The ceiling in force, in nanoseconds.
    pub ceiling_ns: u32,
    pub start: Start,
}

/// Why a grid cannot be made: the rule has no window that adapts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this kernel's rule has no window that adapts (KVM before 4.3): replay its settings one by \
     one, as `fixed:TIME` or `off`"
)]
pub struct NoWindow;

/// Where a choice is played.
#[derive(Debug, Clone, Copy)]
enum Slot {
    /// In a vector: its number among those.
    Vector(usize),
    Lane(usize),
}

/// Many settings on their way through the halts of one vCPU.
#[derive(Debug, Clone)]
pub struct Grid {
    rule: Rule,
    slots: Vec<Slot>,
    vectors: Vectors,
    /// Lanes that vectors do not cover.
    lanes: Vec<Lane>,
    /// How many halts were played.
    turn: u64,
}

impl Grid {
    /// Before the first halt. Fails where the rule has no window that adapts.
    pub fn new(rule: Rule, choices: &[Choice]) -> Result<Self, NoWindow> {
        Self::where_covered(rule, choices, |choice| Terms::of(choice, rule))
    }

    /// The same without vectors, for a few settings: preparing a halt for vectors costs more than their steps.
    pub fn one_by_one(rule: Rule, choices: &[Choice]) -> Result<Self, NoWindow> {
        Self::where_covered(rule, choices, |_| None)
    }

    fn where_covered(
        rule: Rule,
        choices: &[Choice],
        terms: impl Fn(&Choice) -> Option<Terms>,
    ) -> Result<Self, NoWindow> {
        if rule.window != WindowOf::Vcpu {
            return Err(NoWindow);
        }
        let (mut slots, mut covered, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
        for &choice in choices {
            let lane = Lane::new(choice, rule);
            if let Some(terms) = terms(&choice) {
                slots.push(Slot::Vector(covered.len()));
                covered.push((lane, terms));
            } else {
                slots.push(Slot::Lane(lanes.len()));
                lanes.push(lane);
            }
        }
        Ok(Self {
            rule,
            slots,
            vectors: Vectors::new(rule, covered),
            lanes,
            turn: 0,
        })
    }

    /// Plays the next halts of the vCPU under every setting. `table` holds its wake-up latencies,
    /// `follow` says how far waking earlier makes its next gap longer.
    pub fn play(&mut self, samples: &[Sample], table: &Table, follow: &Follow) {
        for (turn, sample) in (self.turn..).zip(samples) {
            for lane in &mut self.lanes {
                lane.step(self.rule, sample, table, follow, turn);
            }
        }
        self.turn += samples.len() as u64;
        if !self.vectors.is_empty() {
            self.vectors.play(samples, table, follow);
        }
    }

    /// Totals of all halts so far, in the order of the choices.
    pub fn tallies(&self) -> Vec<Sums> {
        let tally = |slot: &Slot| match *slot {
            Slot::Lane(number) => self.lanes[number].tally(),
            Slot::Vector(number) => self.vectors.tally(number),
        };
        self.slots.iter().map(tally).collect()
    }
}

#[cfg(test)]
mod test;
