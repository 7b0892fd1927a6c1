//! The sums of a cohort in a unit, setting by setting and half by half. What a sleep costs differs from host to host,
//! and what latency is worth from VM to VM, so costs are summed up beside what they are made of.

use crate::account::sums::folds;
use crate::costs::{Half, Kind, grid};
use crate::kvm::Knobs;
use crate::replay::Cost;
use crate::replay::Sums;
use crate::stats::Fold;

// Places before those of the grid.
pub const IN_FORCE: usize = 0;
pub const DEFAULT: usize = 1;
/// The bound for each VM's own goal.
pub const BOUND: usize = 2;
const NAMED: usize = 3;

/// Which place each row has.
#[derive(Debug, Clone)]
pub struct Places {
    grid: Vec<Knobs>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            grid: grid::settings(),
        }
    }
}

impl Places {
    pub fn count(&self) -> usize {
        NAMED + self.grid.len()
    }

    /// The place of a row that was replayed; `guess` is where it may be. `None` of a setting that the grid does not have.
    #[inline]
    pub fn of(&self, kind: Kind, knobs: Option<&Knobs>, guess: usize) -> Option<usize> {
        match kind {
            Kind::Recorded => return None,
            Kind::InForce => return Some(IN_FORCE),
            Kind::Default => return Some(DEFAULT),
            Kind::OracleDensity | Kind::OracleBalanced | Kind::OracleLatency => return Some(BOUND),
            Kind::Grid => {}
        }
        let knobs = knobs?;
        let is_it = |place: usize| {
            let at = place.checked_sub(NAMED)?;
            (self.grid.get(at) == Some(knobs)).then_some(place)
        };
        let find = || self.grid.iter().position(|it| it == knobs);
        is_it(guess)
            .or_else(|| is_it(guess.max(NAMED - 1) + 1))
            .or_else(|| find().map(|at| at + NAMED))
    }

    pub fn settings(&self) -> impl Iterator<Item = (usize, &Knobs)> {
        let grid = self.grid.iter().enumerate();
        grid.map(|(at, knobs)| (at + NAMED, knobs))
    }

    pub fn knobs(&self, place: usize) -> Option<Knobs> {
        self.grid.get(place.checked_sub(NAMED)?).copied()
    }

    pub fn place(&self, knobs: &Knobs) -> Option<usize> {
        self.of(Kind::Grid, Some(knobs), 0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Costed {
    pub halts: u64,
    /// Wake-up latency in all, in nanoseconds.
    pub latency_ns: u64,
    /// CPU time of polling and switching, in nanoseconds.
    pub cpu_ns: u64,
    /// Cost of the halts, in thousandths of a nanosecond of CPU.
    pub milli: u128,
}

impl Costed {
    #[inline]
    pub fn of(sums: &Sums, cost: &Cost) -> Self {
        Self {
            halts: sums.halts,
            latency_ns: sums.latency_ns,
            cpu_ns: sums.cpu_ns(cost.switch_cpu_ns),
            milli: sums.milli(cost),
        }
    }

    /// Mean cost of a halt, in nanoseconds of CPU.
    pub fn per_halt_ns(&self) -> f64 {
        self.milli as f64 / 1e3 / self.halts.max(1) as f64
    }

    /// Mean wake-up latency, in nanoseconds.
    pub fn latency_mean_ns(&self) -> f64 {
        self.latency_ns as f64 / self.halts.max(1) as f64
    }

    /// By how much less this costs than `other`, as a share of it; negative if it costs more.
    pub fn gain_on(&self, other: &Self) -> f64 {
        if other.milli == 0 {
            return 0.0;
        }
        1.0 - self.milli as f64 / other.milli as f64
    }
}

folds! {
    Costed { halts, latency_ns, cpu_ns, milli }
}

/// All places, half by half; empty before anything was added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell(Box<[[Costed; 2]]>);

impl Fold for Cell {
    fn fold(&mut self, other: &Self) {
        if self.0.is_empty() {
            self.clone_from(other);
            return;
        }
        for (own, more) in self.0.iter_mut().zip(&other.0) {
            own.fold(more);
        }
    }
}

impl Cell {
    pub fn new(places: usize) -> Self {
        Self(vec![[Costed::default(); 2]; places].into())
    }

    #[inline]
    pub fn add(&mut self, place: usize, half: Half, costed: &Costed) {
        self.0[place][half as usize].fold(costed);
    }

    pub fn fit(&self, place: usize) -> &Costed {
        &self.0[place][0]
    }

    pub fn judged(&self, place: usize) -> &Costed {
        &self.0[place][1]
    }
}
