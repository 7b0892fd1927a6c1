//! Every fixed threshold at once: what `fixed:T` would give, for all `T` there are.
//!
//! Sorted by gap, halts lie in the order in which a rising threshold reaches them. What it changes on
//! its way are running sums: a halt whose gap it reaches, less the [overrun](super::overrun), stops to
//! block; one whose sleep it makes short enough for a faster class of wake-ups changes its latency; all
//! others poll a little longer. Halts with different overruns are sorted apart. Between
//! two such events the cost can only rise, so the best threshold is one of them, and a single sweep
//! finds it. Results equal a replay of each threshold; `the_sweep_is_a_replay_of_each_threshold` holds
//! both against each other.
//!
//! **What is assumed.** Gaps stay as recorded ([`super::Arrivals::FixedGap`]): under other readings the
//! gap after a halt depends on the threshold, and no order of halts serves them all. Replay the winner
//! with the reading that holds. Polls that were cut are cut at the same length, exactly.
//!
//! Memory: 24 bytes for each halt, and for one whose poll was cut as much again for each class of sleep
//! below its own that the cut leaves in reach.

mod sweep;

use std::collections::BTreeMap;

use super::cost::Cost;
use super::grid::Tally;
use super::latency::Table;
use super::overrun::Overrun;
use super::sample::Sample;
use sweep::Sweep;

#[derive(Debug, Clone, Copy)]
struct Halt {
    gap_ns: u64,
    /// Its own latency, which holds for its own class.
    latency_ns: u64,
    /// Its number times 32, plus its own class, or [`NO_CLASS`].
    turn_and_class: u64,
}

/// Where a halt's own class is not known.
const NO_CLASS: u64 = 31;

impl Halt {
    fn new(sample: &Sample, turn: u64) -> Self {
        let class = sample.slept_class.map_or(NO_CLASS, u64::from);
        Self {
            gap_ns: sample.gap_ns,
            latency_ns: sample.latency_ns,
            turn_and_class: turn << 5 | class,
        }
    }

    /// The latency of a sleep of this class: as [`super::run`] has it.
    fn latency_ns(&self, class: usize, table: &Table) -> u64 {
        if self.turn_and_class & 31 == class as u64 {
            self.latency_ns
        } else {
            table.at(class, self.turn_and_class >> 5).0
        }
    }
}

/// Halts with the same overrun, by gap.
#[derive(Debug)]
struct Sorted {
    overrun: Overrun,
    halts: Vec<Halt>,
}

/// The halts of one vCPU, in the order in which thresholds reach them.
#[derive(Debug)]
pub struct Thresholds<'a> {
    table: &'a Table,
    /// Without those that a cut keeps from ever being reached.
    sorted: Vec<Sorted>,
    /// With where their polls were cut, in nanoseconds.
    cut: Vec<(Halt, u64)>,
    /// Halts that neither polled nor slept: cut at once, and the wake event was there.
    over_at_once: u64,
}

/// A threshold and what it would give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// In nanoseconds; 0 is not to poll at all.
    pub threshold_ns: u64,
    /// What comes of the halts.
    pub tally: Tally,
}

impl<'a> Thresholds<'a> {
    /// Takes all halts of a vCPU, in the order in which they came. `table` holds its wake-up latencies.
    pub fn new(samples: impl IntoIterator<Item = Sample>, table: &'a Table) -> Self {
        let (mut sorted, mut cut, mut over_at_once) = (BTreeMap::new(), Vec::new(), 0);
        for (turn, sample) in (0..).zip(samples) {
            let halt = Halt::new(&sample, turn);
            if sample.cut_ns < sample.gap_ns {
                cut.push((halt, sample.cut_ns));
            } else if sample.cut_ns == 0 {
                over_at_once += 1;
            } else {
                let overrun = sample.overrun(table);
                let of = sorted.entry((overrun.polling_ns, overrun.unpolled_ns));
                let (_, halts) = of.or_insert_with(|| (overrun, Vec::new()));
                halts.push(halt);
            }
        }
        let sorted = sorted.into_values().map(|(overrun, mut halts)| {
            halts.sort_unstable_by_key(|halt: &Halt| halt.gap_ns);
            Sorted { overrun, halts }
        });
        Self {
            table,
            sorted: sorted.collect(),
            cut,
            over_at_once,
        }
    }

    /// What each of these thresholds (in nanoseconds, rising) would give. [`u64::MAX`]: polls until it
    /// is woken.
    pub fn curve(&self, thresholds_ns: impl IntoIterator<Item = u64>) -> Vec<Threshold> {
        let mut sweep = Sweep::new(self);
        let point = |threshold_ns| {
            sweep.advance(threshold_ns);
            sweep.point()
        };
        thresholds_ns.into_iter().map(point).collect()
    }

    /// The threshold up to `longest_ns` of least cost; the shortest, of several.
    pub fn best(&self, cost: &Cost, longest_ns: u64) -> Threshold {
        let mut sweep = Sweep::new(self);
        sweep.advance(0);
        let mut best = sweep.point();
        let mut least = sweep.milli(cost);
        while let Some(next_ns) = sweep.next_ns().filter(|&next_ns| next_ns <= longest_ns) {
            sweep.advance(next_ns);
            let milli = sweep.milli(cost);
            if milli < least {
                (best, least) = (sweep.point(), milli);
            }
            // Halts that are not reached yet poll at least as long under any higher threshold.
            if sweep.polled_milli(cost) >= least {
                break;
            }
        }
        best
    }
}

#[cfg(test)]
mod test;
