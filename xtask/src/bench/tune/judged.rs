//! What was measured of a recommendation: a load and a goal, judged.

use haltwise_core::stats::{Estimate, FEWEST, median_estimate};
use haltwise_core::tune::gain::off_share;

use super::{Ceiling, Run, Tuned};

/// A cost within this share of another is no worse: repetitions of one setting differ by as much.
const EQUAL: f64 = 1.02;

/// How near the best of the sweep a recommendation should come.
pub(super) const NEAR: f64 = 1.10;

const HALF: f64 = 0.5;

/// Where a ratio stands to a line that a promise draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    /// All of its interval is below, or on it.
    Below,
    /// All of it is above.
    Above,
    /// More rounds would tell.
    Open,
}

impl Stand {
    fn of(ratio: &Estimate, line: f64) -> Self {
        let is_itself = ratio.low.to_bits() == 1_f64.to_bits() && ratio.high <= 1.0;
        if ratio.samples < FEWEST && !is_itself {
            Self::Open
        } else if ratio.high <= line {
            Self::Below
        } else if ratio.low > line {
            Self::Above
        } else {
            Self::Open
        }
    }
}

/// What the law says of twice as cheap, before anything is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Law {
    /// Not polling is.
    Twice,
    /// Not even the oracle is.
    Never,
    /// Not polling is not, the oracle is: it depends on what windows can tell apart.
    Open,
}

/// A load and a goal. Costs are medians of a halt in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    pub(super) in_force_ns: f64,
    pub(super) off_ns: f64,
    pub(super) own_ns: f64,
    /// The best ceiling of the sweep, and its cost.
    pub(super) best: (u64, f64),
    /// The recommended one over that in force, round by round.
    pub(super) to_force: Estimate,
    /// The same over the best.
    pub(super) to_best: Estimate,
    /// Not polling over that in force, by the law: from the account in force and the calibration.
    pub(super) off_by_law: f64,
    /// The oracle over that in force: the bound of everything.
    pub(super) least: f64,
    /// Most polls are met in force, and last longer than the break-even.
    pub(super) is_between: bool,
}

impl Judged {
    /// The recommended ceiling costs no more than the one in force, by the median.
    pub(super) fn is_not_worse(&self) -> bool {
        self.to_force.median <= EQUAL
    }

    /// The same by the interval.
    pub(super) fn not_worse(&self) -> Stand {
        Stand::of(&self.to_force, EQUAL)
    }

    /// It comes near the best of the sweep, by the median.
    pub(super) fn is_near_best(&self) -> bool {
        self.to_best.median <= NEAR
    }

    /// The same by the interval.
    pub(super) fn near_best(&self) -> Stand {
        Stand::of(&self.to_best, NEAR)
    }

    /// It is at least twice as cheap.
    pub(super) fn is_twice(&self) -> bool {
        self.to_force.median <= HALF
    }

    pub(super) fn law(&self) -> Law {
        if self.off_by_law <= HALF {
            Law::Twice
        } else if self.least > HALF {
            Law::Never
        } else {
            Law::Open
        }
    }

    /// More rounds would tell on which side of a line it is.
    pub(super) fn is_undecided(&self) -> bool {
        let is_open = |stand| stand == Stand::Open;
        is_open(self.near_best())
            || is_open(self.not_worse())
            || (self.law() == Law::Twice && is_open(Stand::of(&self.to_force, HALF)))
    }
}

fn median(values: &[f64]) -> f64 {
    median_estimate(values).map_or(f64::NAN, |of| of.median)
}

fn mean(runs: &[Run], get: fn(&Run) -> f64) -> f64 {
    runs.iter().map(get).sum::<f64>() / runs.len().max(1) as f64
}

impl Tuned {
    /// Judges a goal by its place in [`super::GOALS`]. `None` before every ceiling ran once.
    pub(super) fn judged(&self, goal: usize) -> Option<Judged> {
        let own = self.at(self.said.goals[goal].ceiling_ns)?;
        let (in_force, off) = (self.at(self.said.in_force_ns)?, self.at(0)?);
        let ranked = self.ranked(goal);
        let &(best_ns, best) = ranked.first()?;
        let ratio = |other: &Ceiling| {
            let pairs = own.runs.iter().filter_map(|run| {
                let beside = other.runs.iter().find(|other| other.round == run.round)?;
                Some(self.cost_ns(run, goal) / self.cost_ns(beside, goal))
            });
            median_estimate(&pairs.collect::<Vec<f64>>())
        };
        let in_force_ns = self.median_ns(in_force, goal);
        let least: Vec<f64> = (off.runs.iter())
            .filter_map(|run| Some(run.least?[goal].cost_ns(self.said.switch_cpu_ns, goal)))
            .collect();
        let break_even = self.break_even_ns[goal];
        let polled = mean(&in_force.runs, |run| run.account.poll_ns);
        let blocks = mean(&in_force.runs, |run| run.account.blocks);
        let met = 1.0 - blocks;
        Some(Judged {
            in_force_ns,
            off_ns: self.median_ns(off, goal),
            own_ns: self.median_ns(own, goal),
            best: (best_ns, best),
            to_force: ratio(in_force)?,
            to_best: ratio(self.at(best_ns)?)?,
            off_by_law: off_share(polled, blocks, break_even),
            least: median(&least) / in_force_ns,
            is_between: met > 0.5 && polled / met > break_even,
        })
    }

    /// Ceilings by the median cost of a halt for a goal, the cheapest first.
    pub(super) fn ranked(&self, goal: usize) -> Vec<(u64, f64)> {
        let ran = self
            .ceilings
            .iter()
            .filter(|ceiling| !ceiling.runs.is_empty());
        let mut ranked: Vec<(u64, f64)> = ran
            .map(|ceiling| (ceiling.ns, self.median_ns(ceiling, goal)))
            .collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        ranked
    }

    fn at(&self, ns: u64) -> Option<&Ceiling> {
        let found = self.ceilings.iter().find(|ceiling| ceiling.ns == ns);
        found.filter(|ceiling| !ceiling.runs.is_empty())
    }

    fn cost_ns(&self, run: &Run, goal: usize) -> f64 {
        run.account.cost_ns(self.said.switch_cpu_ns, goal)
    }

    fn median_ns(&self, ceiling: &Ceiling, goal: usize) -> f64 {
        let costs: Vec<f64> = (ceiling.runs.iter())
            .map(|run| self.cost_ns(run, goal))
            .collect();
        median(&costs)
    }
}
