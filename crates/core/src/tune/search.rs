//! The search: the whole grid on the part that fits, then twice around the best of it.

use std::collections::BTreeSet;

use super::candidates::Candidate;
use super::inputs::Inputs;
use super::pool::Pool;
use super::stage::{self, Entry, Part};
use crate::kvm::Knobs;
use crate::replay::Cost;
use crate::replay::Sums;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aim {
    pub cost: Cost,
    /// The ends of the interval of a calibrated [`Cost::switch_cpu_ns`].
    pub switch_cpu_ends_ns: Option<[u64; 2]>,
    /// [`drifts_percent`](crate::replay::calibration::drifts_percent) of the recorded host.
    pub drifts_percent: [u64; 2],
    /// The most that polling may take, in % of one CPU for all vCPUs together.
    pub max_poll_cpu_percent: Option<f64>,
    /// The most that it can take, in the same way: what polled when recorded and what was idle then. Polling
    /// for more takes the CPU from a task that wants it, and no replay knows what that costs.
    pub possible_poll_cpu_percent: Option<f64>,
}

impl Aim {
    /// Costs at the ends of the price of a block, with wake-ups as much shorter and longer as wake-ups are at another
    /// time (for all settings alike, so the change acts as a weight of latency); nothing where no ends are known.
    pub fn ends(&self) -> impl Iterator<Item = Cost> {
        let ends = self.switch_cpu_ends_ns.into_iter().flatten();
        let (cost, drifts) = (self.cost, self.drifts_percent);
        ends.zip(drifts).map(move |(switch_cpu_ns, percent)| Cost {
            switch_cpu_ns,
            latency_weight_milli: cost.latency_weight_milli * percent / 100,
            ..cost
        })
    }

    /// The lower of both limits.
    pub fn limit_percent(&self) -> f64 {
        let may = self.max_poll_cpu_percent.unwrap_or(f64::INFINITY);
        may.min(self.possible_poll_cpu_percent.unwrap_or(f64::INFINITY))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<S = Knobs> {
    pub knobs: S,
    pub fit: Sums,
}

const STEPS: [&[f64]; 2] = [&[0.75, 0.875, 1.125, 1.25], &[0.94, 1.06]];

/// A search plays about so many halts at most, in stretches: settings that cost as little to a thousandth are many, and
/// those that come into the final are played on all halts.
pub(super) const MOST_HALTS: usize = 1 << 19;

/// Around how many of the best, for each aim, a round looks.
pub(super) const AROUND: usize = 4;

/// Looks through the grid and around the best of it, for every aim. No setting comes twice; the first
/// are those of the grid, in its order.
pub fn search<S: Candidate>(inputs: &Inputs, aims: &[Aim], pool: &impl Pool) -> Vec<Found<S>> {
    search_up_to(inputs, aims, u32::MAX, pool)
}

/// The same among ceilings up to this one, and what is in force.
pub fn search_up_to<S: Candidate>(
    inputs: &Inputs,
    aims: &[Aim],
    highest_ns: u32,
    pool: &impl Pool,
) -> Vec<Found<S>> {
    let [in_force, _] = S::named(&inputs.terms);
    let is_allowed = |knobs: &S| knobs.key()[0] <= highest_ns || *knobs == in_force;
    let mut known = BTreeSet::new();
    let part = Part::Fit(one_in(inputs, MOST_HALTS));
    let mut play = |mut wanted: Vec<S>, what| {
        wanted.retain(|knobs| is_allowed(knobs) && known.insert(knobs.key()));
        play(inputs, wanted, part, what, pool)
    };
    let mut found = play(S::grid(&inputs.terms), "grid");
    for steps in STEPS {
        let around = aims
            .iter()
            .flat_map(|aim| S::around(inputs, &found, aim, steps));
        let around = around.collect();
        found.extend(play(around, "refine"));
    }
    found
}

/// One of so many stretches of the fit half is played, which leaves about `most` halts; 1 for all of them.
pub(super) fn one_in(inputs: &Inputs, most: usize) -> usize {
    let halts = inputs.seats.iter().map(|it| inputs.halves(it).0.len());
    halts.sum::<usize>().div_ceil(most).max(1)
}

pub(super) fn play<S: Candidate>(
    inputs: &Inputs,
    wanted: Vec<S>,
    part: Part,
    what: &str,
    pool: &impl Pool,
) -> Vec<Found<S>> {
    let entries: Vec<Entry<S>> = wanted.into_iter().map(Entry::new).collect();
    let sums = stage::play(inputs, &entries, part, what, pool);
    let found = |(entry, sums): (Entry<S>, Vec<Sums>)| Found {
        knobs: entry.knobs,
        fit: Sums::total(&sums),
    };
    entries.into_iter().zip(sums).map(found).collect()
}

/// Whether polling stays within what it may take, on the part that fits.
pub fn is_within(aim: &Aim, inputs: &Inputs, fit: &Sums) -> bool {
    inputs.fit_wall.poll_cpu_percent(fit) <= aim.limit_percent()
}

/// The cheapest that stay within what polling may take, on the part that fits; of equal ones, those
/// that change fewer of the parameters in force.
pub fn best<'a, S: Candidate>(
    found: &'a [Found<S>],
    aim: &Aim,
    inputs: &Inputs,
    count: usize,
) -> Vec<&'a Found<S>> {
    let cost = |found: &Found<S>| found.fit.milli(&aim.cost);
    first_by(found, (aim, inputs, count), |found| Some(cost(found)))
}

/// The simplest of those that cost about as little as the best, see [`super::advice::TIE`]: those that
/// change the fewest parameters, and of these the lowest ceilings.
pub fn simplest<'a, S: Candidate>(
    found: &'a [Found<S>],
    aim: &Aim,
    inputs: &Inputs,
    count: usize,
) -> Vec<&'a Found<S>> {
    let best = best(found, aim, inputs, 1);
    let least = best.first().map(|best| best.fit.milli(&aim.cost) as f64);
    let most = least.unwrap_or(0.0) * (1.0 + super::advice::TIE);
    let is_near = |found: &Found<S>| found.fit.milli(&aim.cost) as f64 <= most;
    first_by(found, (aim, inputs, count), |it| is_near(it).then_some(0))
}

/// The first by a key among those that have one and stay within what polling may take; of equal ones, those that change
/// fewer parameters.
fn first_by<'a, S: Candidate>(
    found: &'a [Found<S>],
    (aim, inputs, count): (&Aim, &Inputs, usize),
    key: impl Fn(&Found<S>) -> Option<u128>,
) -> Vec<&'a Found<S>> {
    let [in_force, _] = S::named(&inputs.terms);
    let within = found
        .iter()
        .filter(|found| is_within(aim, inputs, &found.fit));
    let mut keyed: Vec<_> = within
        .filter_map(|found| {
            let changes = found.knobs.changes(&in_force, &inputs.terms);
            Some(((key(found)?, changes, found.knobs.key()), found))
        })
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.truncate(count);
    keyed.into_iter().map(|(_, found)| found).collect()
}
