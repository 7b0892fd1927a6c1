//! The best setting by sums, and how sure a difference is.

use std::collections::BTreeMap;

use super::cell::{Cell, Costed, IN_FORCE, Places};
use super::cohort::Cohort;
use crate::account::sums::folds;
use crate::kvm::Knobs;
use crate::stats::Interval;
use crate::stats::jackknife::Jackknife;
use crate::tune::advice::{LEAST_GAIN, Verdict};
use crate::tune::candidates::Candidate;

/// The lowest setting of the grid of those that cost about as little as the cheapest, on the half that fits: which of them
/// costs least is chance.
pub fn best(cell: &Cell, places: &Places) -> Option<(usize, Knobs)> {
    // A setting of which rows are missing, or repeated, is of other halts.
    let halts = cell.fit(IN_FORCE).halts;
    let settings = || {
        let all = places.settings();
        all.filter(|(place, _)| halts > 0 && cell.fit(*place).halts == halts)
    };
    let milli = |place: usize| cell.fit(place).milli as f64;
    let least = settings()
        .map(|(place, _)| milli(place))
        .fold(f64::INFINITY, f64::min);
    let near = settings().filter(|(place, _)| milli(*place) <= least * (1.0 + LEAST_GAIN));
    near.min_by_key(|(_, knobs)| knobs.key())
        .map(|(place, knobs)| (place, *knobs))
}

#[derive(Debug, Clone)]
pub struct Chosen {
    pub one: usize,
    pub cohorts: BTreeMap<Cohort, Choice>,
}

impl Chosen {
    /// Whether any cohort takes another setting than the one in force.
    pub fn changes(&self) -> bool {
        (self.cohorts.values()).any(|choice| choice.takes != Takes::InForce)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// The place of the setting that is best for it.
    pub best: usize,
    /// By how much less that costs than what is in force, as a share.
    pub gain: Interval,
    pub takes: Takes,
    pub place: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Takes {
    /// The setting that is best for it.
    Own,
    /// The one setting for all.
    One,
    InForce,
}

/// Two settings on the same halts of a unit, on the half that validates.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pair {
    pub own: Costed,
    /// Cost that `own` is compared with.
    pub other: Costed,
    /// How long the halves are, in nanoseconds.
    pub span_ns: u64,
}

folds! {
    Pair { own, other, span_ns }
}

impl Pair {
    /// By how much less the setting costs, as a share.
    pub fn gain(&self) -> Option<f64> {
        (self.other.milli > 0).then(|| self.own.gain_on(&self.other))
    }

    /// How many CPUs it saves on a host, on average over the time.
    pub fn cpus_saved(&self) -> Option<f64> {
        let saved = self.other.cpu_ns as f64 - self.own.cpu_ns as f64;
        (self.span_ns > 0).then(|| saved / self.span_ns as f64)
    }
}

/// The interval of a figure over units that holds the true one in 95 of 100 fleets like this; without ends where there
/// are too few units.
pub fn interval(units: Vec<Pair>, figure: impl Fn(&Pair) -> Option<f64>) -> Interval {
    let estimate = Jackknife::new(units).estimate(figure);
    estimate.map_or(Interval::unknown(0.0), |estimate| estimate.interval())
}

/// Verdict on a setting, by its gain on the half that validates.
pub fn verdict(gain: &Interval) -> Verdict {
    match () {
        () if gain.value <= 0.0 => Verdict::AlreadyBest,
        () if gain.value < LEAST_GAIN => Verdict::TooSmall,
        () if !gain.is_known() => Verdict::TooShort,
        () if gain.low <= 0.0 => Verdict::NotSignificant,
        () => Verdict::Change,
    }
}
