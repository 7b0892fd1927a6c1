//! The search: the whole grid on the part that fits, then twice around the best of it.

use std::collections::BTreeSet;

use super::candidates::{self, Candidate, Moves, Reach};
use super::crew::Crew;
use super::material::{Material, Seated};
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
    /// The most that it can take, in the same way: what polled when recorded and what was idle then. Who
    /// polls for more takes the CPU from somebody who wants it, and no replay knows what that costs.
    pub possible_poll_cpu_percent: Option<f64>,
}

impl Aim {
    /// What things cost at the ends of the price of a block, where wake-ups are as much shorter and longer as they are at
    /// another time (of all settings alike, so that it weighs as the weight of latency); nothing where no ends are known.
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

/// A setting that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<S = Knobs> {
    pub knobs: S,
    /// What came of the part that fits.
    pub fit: Sums,
}

const STEPS: [&[f64]; 2] = [&[0.75, 0.875, 1.125, 1.25], &[0.94, 1.06]];

/// Around how many of the best, for each aim, a round looks.
const AROUND: usize = 4;

/// Looks through the grid and around the best of it, for every aim. No setting comes twice; the first
/// are those of the grid, in its order.
pub fn search(material: &Material, aims: &[Aim], crew: &impl Crew) -> Vec<Found> {
    search_up_to(material, aims, u32::MAX, crew)
}

/// The same among ceilings up to this one, and what is in force.
pub fn search_up_to(
    material: &Material,
    aims: &[Aim],
    highest_ns: u32,
    crew: &impl Crew,
) -> Vec<Found> {
    let rule = material.terms.rule();
    let in_force = &material.terms.in_force;
    let moves = material.terms.moves();
    let mut first = candidates::grid(&rule, in_force, moves);
    first.push(*in_force);
    if moves == Moves::All {
        first.push(material.terms.default_knobs());
    }
    let is_allowed = |knobs: &Knobs| knobs.halt_poll_ns <= highest_ns || knobs == in_force;
    first.retain(is_allowed);
    let mut known = BTreeSet::new();
    let mut found = play(material, first, &mut known, "grid", crew);
    for steps in STEPS {
        let mut around = Vec::new();
        for aim in aims {
            for best in best(&found, aim, (material, in_force), AROUND) {
                around.extend(candidates::neighbours(&rule, &best.knobs, steps, moves));
            }
            if moves == Moves::All && Reach::of(&rule).grow_start {
                around.extend(around_fixed(material, &found, aim, steps));
            }
        }
        around.retain(is_allowed);
        found.extend(play(material, around, &mut known, "refine", crew));
    }
    found
}

fn play(
    material: &Material,
    mut wanted: Vec<Knobs>,
    known: &mut BTreeSet<[u32; 5]>,
    what: &str,
    crew: &impl Crew,
) -> Vec<Found> {
    wanted.retain(|knobs| known.insert(knobs.key()));
    let entries: Vec<Entry> = wanted.into_iter().map(Entry::new).collect();
    let seats: Vec<&Seated> = material.seats.iter().collect();
    let sums = stage::play(material, &seats, &entries, Part::Fit, what, crew);
    let found = |(entry, sums): (Entry, Vec<Sums>)| Found {
        knobs: entry.knobs,
        fit: Sums::total(&sums),
    };
    entries.into_iter().zip(sums).map(found).collect()
}

/// Whether polling stays within what it may take, on the part that fits.
pub fn is_within(aim: &Aim, material: &Material, fit: &Sums) -> bool {
    material.fit_wall.poll_cpu_percent(fit) <= aim.limit_percent()
}

/// The cheapest that stay within what polling may take, on the part that fits; of equal ones, those
/// that change fewer of the parameters in force.
pub fn best<'a, S: Candidate>(
    found: &'a [Found<S>],
    aim: &Aim,
    (material, in_force): (&Material, &S),
    count: usize,
) -> Vec<&'a Found<S>> {
    let mut within: Vec<&Found<S>> = found
        .iter()
        .filter(|found| is_within(aim, material, &found.fit))
        .collect();
    within.sort_by_key(|found| {
        let changes = found.knobs.changes(in_force, &material.terms);
        (found.fit.milli(&aim.cost), changes, found.knobs.key())
    });
    within.truncate(count);
    within
}

/// The simplest of those that cost about as little as the best, see [`super::advice::TIE`]: those that
/// change the fewest parameters, and of these the lowest ceilings.
pub fn simplest<'a, S: Candidate>(
    found: &'a [Found<S>],
    aim: &Aim,
    (material, in_force): (&Material, &S),
    count: usize,
) -> Vec<&'a Found<S>> {
    let Some(best) = best(found, aim, (material, in_force), 1).first().copied() else {
        return Vec::new();
    };
    let most = best.fit.milli(&aim.cost) as f64 * (1.0 + super::advice::TIE);
    let mut near: Vec<&Found<S>> = found
        .iter()
        .filter(|found| is_within(aim, material, &found.fit))
        .filter(|found| found.fit.milli(&aim.cost) as f64 <= most)
        .collect();
    near.sort_by_key(|found| {
        let changes = found.knobs.changes(in_force, &material.terms);
        (changes, found.knobs.key())
    });
    near.truncate(count);
    near
}

/// Around the best fixed threshold that was found, and the ways in which a window comes by it while halts are short: short
/// takes in the wake-up of the threshold's own length.
fn around_fixed(material: &Material, found: &[Found], aim: &Aim, steps: &[f64]) -> Vec<Knobs> {
    let is_fixed = |it: &&Found| it.knobs == candidates::fixed(it.knobs.halt_poll_ns);
    let fixed: Vec<Found> = found.iter().filter(is_fixed).copied().collect();
    let in_force = &material.terms.in_force;
    let Some(best) = best(&fixed, aim, (material, in_force), 1).first().copied() else {
        return Vec::new();
    };
    let rule = material.terms.rule();
    let mut around = candidates::neighbours(&rule, &best.knobs, steps, Moves::All);
    let latency_ns = material.seats.iter().map(|seated| seated.table.median(0));
    let above_ns = u64::from(best.knobs.halt_poll_ns) + latency_ns.max().unwrap_or(0);
    if let Ok(ceiling_ns) = u32::try_from(above_ns) {
        around.extend([0, 1].map(|shrink| Knobs {
            halt_poll_ns: candidates::rounded(ceiling_ns),
            shrink,
            ..best.knobs
        }));
    }
    around
}
