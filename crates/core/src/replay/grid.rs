//! KVM's own rule under many settings at once: what `kvm:max=…,grow=…` would give, for a whole grid.
//!
//! A search for the best setting replays the same halts under hundreds of settings. Here each setting
//! is a lane of a vector: a halt is looked at once, what it may come to is put in a small table, and
//! all lanes take their step in the same few instructions. Results equal those of [`super::run::Run`] with
//! the policy `kvm` to the nanosecond; `grid_and_scalar_agree` holds both against each other.
//!
//! Memory depends on the number of settings alone: halts come in slices of any length.
//!
//! **What is covered.** Every rule with a window that adapts: [`WindowOf::Vcpu`] (4.3 and later, every
//! port) and [`WindowOf::Vcore`] (powerpc's `kvm-hv`). At full speed goes what kernels since 5.1 do
//! with windows up to 2^28 ns (268 ms). Kernels before 5.1, longer windows, and factors that can wrap
//! 32 bits are played one by one, with the transcript itself: exact too, at the speed of `Run`. Rules
//! without a window (before 4.3) are refused: they are a fixed threshold or none.
//!
//! | module | holds |
//! |---|---|
//! | `halt` | what a halt may come to, worked out once for all lanes |
//! | `group` | windows, settings and sums of some lanes, side by side |
//! | `kernel` | the step itself |
//! | `lane` | one setting the plain way, for what the vectors do not cover |

mod group;
mod halt;
mod kernel;
mod lane;

use super::arrivals::Follow;
use super::latency::Table;
use super::outcome::Outcome;
use super::sample::Sample;
use crate::kvm::rule::WindowOf;
use crate::kvm::{Knobs, Rule};
use crate::policy::Start;
use group::{Group, LANES, Terms};
use halt::{Ahead, Prepared};
use lane::Lane;

/// Halts that are prepared together: few enough for a second-level cache.
const BLOCK: usize = 256;

/// Groups that play a block together: few enough for a first-level cache of 32 KiB.
const TILE: usize = 8;

/// One point of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The module parameters. `halt_poll_ns` matters only where growth is capped at the module's
    /// parameter (4.6 to 5.12).
    pub knobs: Knobs,
    /// The ceiling in force, in nanoseconds.
    pub ceiling_ns: u32,
    /// Where the window begins.
    pub start: Start,
}

/// What came of all halts under one setting: the figures of [`super::Outcome`] by the same names, in
/// nanoseconds where they are times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Halts.
    pub halts: u64,
    /// Halts that polled.
    pub polls: u64,
    /// Polls that ended in a wake.
    pub successful_polls: u64,
    /// Halts that slept.
    pub blocks: u64,
    /// Time polled.
    pub poll_ns: u64,
    /// Of it, by polls that did not end in a wake.
    pub poll_fail_ns: u64,
    /// Wake-up latency in all.
    pub latency_ns: u64,
    /// Time asleep.
    pub sleep_ns: u64,
    /// Whole halts.
    pub halt_ns: u64,
    /// Halts that slept for a length of which no wake-up was recorded.
    pub latency_guessed: u64,
}

impl Tally {
    /// The same figures of a replay of one policy.
    pub fn of(outcome: &Outcome) -> Self {
        Self {
            halts: outcome.halts,
            polls: outcome.polls,
            successful_polls: outcome.successful_polls,
            blocks: outcome.blocks,
            poll_ns: outcome.poll_ns,
            poll_fail_ns: outcome.poll_fail_ns,
            latency_ns: outcome.latency_ns,
            sleep_ns: outcome.sleep_ns,
            halt_ns: outcome.halt_ns,
            latency_guessed: outcome.doubts.latency_guessed,
        }
    }
}

/// Why a grid cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// The kernel has no window that adapts.
    #[error(
        "this kernel's rule has no window that adapts (KVM before 4.3): replay its settings one by \
         one, as `fixed:TIME` or `off`"
    )]
    NoWindow,
}

/// Where a choice is played.
#[derive(Debug, Clone, Copy)]
enum Slot {
    /// In a vector: the lane's number.
    Vector(usize),
    /// One by one.
    Lane(usize),
}

/// Many settings on their way through the halts of one vCPU.
#[derive(Debug)]
pub struct Grid {
    rule: Rule,
    slots: Vec<Slot>,
    groups: Vec<Group>,
    /// What vectors do not cover.
    lanes: Vec<Lane>,
    /// Lanes of vectors, for halts that vectors do not cover; in order of the vectors' lanes.
    spare: Vec<Lane>,
    ahead: Ahead,
    block: Vec<Prepared>,
}

impl Grid {
    /// Before the first halt. Fails where the rule has no window that adapts.
    pub fn new(rule: Rule, choices: &[Choice]) -> Result<Self, GridError> {
        if !matches!(rule.window, WindowOf::Vcpu | WindowOf::Vcore) {
            return Err(GridError::NoWindow);
        }
        let mut grid = Self {
            rule,
            slots: Vec::with_capacity(choices.len()),
            groups: Vec::new(),
            lanes: Vec::new(),
            spare: Vec::new(),
            ahead: Ahead::default(),
            block: Vec::with_capacity(BLOCK),
        };
        for &choice in choices {
            let lane = Lane::new(choice, &rule);
            let Some(terms) = Terms::of(&choice, &rule) else {
                grid.slots.push(Slot::Lane(grid.lanes.len()));
                grid.lanes.push(lane);
                continue;
            };
            let number = grid.spare.len();
            if number.is_multiple_of(LANES) {
                grid.groups.push(Group::default());
            }
            grid.groups[number / LANES].put(number % LANES, &terms);
            grid.ahead.longest = grid.ahead.longest.max(terms.longest);
            grid.slots.push(Slot::Vector(number));
            grid.spare.push(lane);
        }
        Ok(grid)
    }

    /// Plays the next halts of the vCPU under every setting. `table` holds its wake-up latencies,
    /// `follow` says how far waking earlier makes its next gap longer.
    pub fn play(&mut self, samples: &[Sample], table: &Table, follow: &Follow) {
        for (turn, sample) in (self.ahead.turn()..).zip(samples) {
            for lane in &mut self.lanes {
                lane.step(&self.rule, sample, table, follow, turn);
            }
        }
        for sample in samples {
            if let Some(prepared) = self.ahead.prepare(&self.rule, sample, table, follow) {
                self.block.push(prepared);
                if self.block.len() == BLOCK {
                    self.run_block();
                }
            } else {
                self.run_block();
                self.step_apart(sample, table, follow);
            }
        }
        self.run_block();
    }

    fn run_block(&mut self) {
        for tile in self.groups.chunks_mut(TILE) {
            kernel::run(tile, &self.block);
        }
        self.block.clear();
    }

    /// A halt that vectors do not cover, lane by lane.
    fn step_apart(&mut self, sample: &Sample, table: &Table, follow: &Follow) {
        let turn = self.ahead.turn();
        let known = self.ahead.is_last_known();
        for (number, lane) in self.spare.iter_mut().enumerate() {
            let (group, index) = (&mut self.groups[number / LANES], number % LANES);
            lane.take_over(group.window(index));
            if known {
                lane.set_ahead(self.ahead.recorded_ns(), group.last_ns(index));
            }
            lane.step(&self.rule, sample, table, follow, turn);
            group.take_over(index, lane.window());
        }
        self.ahead.went_apart(sample);
    }

    /// What came of all halts so far, in the order of the choices.
    pub fn tallies(&self) -> Vec<Tally> {
        let tally = |slot: &Slot| match *slot {
            Slot::Lane(number) => self.lanes[number].tally(),
            Slot::Vector(number) => {
                let group = &self.groups[number / LANES];
                group.tally(number % LANES, &self.ahead, &self.spare[number].tally())
            }
        };
        self.slots.iter().map(tally).collect()
    }
}

#[cfg(test)]
mod test;
