//! The final: settings that are played on the whole capture, from both starts, with what was not recorded taken otherwise,
//! and with their ceilings a little lower and higher.

use std::collections::BTreeSet;

use super::candidates::{self, Candidate};
use super::doubt::{self, Doubt};
use super::inputs::Inputs;
use super::pareto;
use super::pool::Pool;
use super::search::{self, Aim, Found};
use super::stage::{self, Entry, Part};
use crate::kvm::Knobs;
use crate::policy::Start;
use crate::replay::Cost;
use crate::replay::Sums;
use crate::replay::latency::class_of;
use crate::replay::session::BISTABLE_SHARE;

/// A setting that was played on the whole capture, from both starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finalist<S = Knobs> {
    pub knobs: S,
    /// The start that counts: where windows begin.
    pub start: Start,
    /// Sums of each part from the start that counts: the fit half, then the blocks of the validation half.
    pub parts: Vec<Sums>,
    /// From the other start.
    pub others: Vec<Sums>,
    /// From the start that counts, with something taken otherwise; nothing where all was recorded.
    pub doubted: Vec<(Doubt, Vec<Sums>)>,
    /// With the ceiling lower, and higher, by a wake-up latency; of the setting in force and the default nothing.
    pub near: Vec<Vec<Sums>>,
}

impl Finalist<Knobs> {
    /// The setting, from the start that counts.
    pub fn entry(&self) -> Entry {
        Entry {
            start: self.start,
            ..Entry::new(self.knobs)
        }
    }
}

impl<S> Finalist<S> {
    pub fn fit(&self) -> Sums {
        self.parts.first().copied().unwrap_or_default()
    }

    pub fn blocks(&self) -> &[Sums] {
        self.parts.get(1..).unwrap_or_default()
    }

    pub fn judged(&self) -> Sums {
        Sums::total(self.blocks())
    }

    /// The blocks of the validation half under a doubt.
    pub fn blocks_under(&self, doubt: Option<Doubt>) -> &[Sums] {
        self.under(doubt).get(1..).unwrap_or_default()
    }

    /// The parts under a doubt; those as taken where nothing depends on it.
    pub fn under(&self, doubt: Option<Doubt>) -> &[Sums] {
        let mut doubted = self.doubted.iter();
        let found = doubted.find(|(of, _)| Some(*of) == doubt);
        found.map_or(&self.parts, |(_, parts)| parts)
    }

    /// The other start is the one that counts.
    fn turn(&mut self) {
        std::mem::swap(&mut self.parts, &mut self.others);
        self.start = self.start.other();
    }

    /// Whether as many halts as recorded sleep from the other start, rather than from this one.
    fn is_nearer_from_ceiling(&self, inputs: &Inputs) -> bool {
        let recorded = inputs.seats.iter().map(|seated| seated.recorded.blocks);
        let recorded: u64 = recorded.sum();
        let off = |parts: &[Sums]| Sums::total(parts).blocks.abs_diff(recorded);
        off(&self.others) < off(&self.parts)
    }

    /// Costs per halt on the validation half from both starts, where they differ by more than
    /// [`BISTABLE_SHARE`]: the load has two steady states there, and chance picks one.
    pub fn two_states(&self, cost: &Cost) -> Option<(f64, f64)> {
        let others = self.others.get(1..).unwrap_or_default();
        let own = self.judged().cost_per_halt_ns(cost);
        let other = Sums::total(others).cost_per_halt_ns(cost);
        ((own - other).abs() > BISTABLE_SHARE * own.min(other)).then_some((own, other))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinalRound<S = Knobs> {
    /// The setting in force, with each VM's own ceiling, from the start that came nearer to what was
    /// recorded.
    pub in_force: Finalist<S>,
    pub default: Finalist<S>,
    /// The others: the best for each aim, and a selection of the front.
    pub others: Vec<Finalist<S>>,
}

impl<S> FinalRound<S> {
    pub fn all(&self) -> impl Iterator<Item = &Finalist<S>> {
        let first = [&self.in_force, &self.default].into_iter();
        first.chain(&self.others)
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Finalist<S>> {
        let first = [&mut self.in_force, &mut self.default].into_iter();
        first.chain(&mut self.others)
    }
}

/// How many settings come into the next round: for each aim the cheapest, and the simplest of those that cost about as
/// little; then of the front.
type Places = [usize; 3];

/// Out of the search, whose costs may be those of a sample.
const OF_SEARCH: Places = [16, 8, 32];

/// Out of the round after it.
const OF_FIT: Places = [4, 4, 16];

/// Settings of a round that come into the next.
fn wanted<S: Candidate>(
    inputs: &Inputs,
    found: &[Found<S>],
    aims: &[Aim],
    [best, simplest, of_front]: Places,
) -> Vec<S> {
    let mut wanted: Vec<S> = Vec::new();
    let mut want = |knobs: S| {
        if !wanted.contains(&knobs) {
            wanted.push(knobs);
        }
    };
    for aim in aims {
        let best = search::best(found, aim, inputs, best);
        let simplest = search::simplest(found, aim, inputs, simplest);
        for found in best.into_iter().chain(simplest) {
            want(found.knobs);
        }
    }
    let points: Vec<pareto::Point> = (found.iter())
        .map(|found| (found.fit.poll_ns, found.fit.latency_ns))
        .collect();
    for index in pareto::thin(&pareto::front(&points), &points, of_front) {
        want(found[index].knobs);
    }
    wanted
}

/// Settings of a search that change the ceiling alone. They come first: they are taken before others that cost no less.
fn ceilings(in_force: &Knobs, found: &[Found]) -> Vec<Knobs> {
    let ceilings_ns: BTreeSet<u32> = found.iter().map(|found| found.knobs.halt_poll_ns).collect();
    (ceilings_ns.into_iter())
        .filter(|ns| candidates::CEILINGS_NS.contains(ns) && *ns != in_force.halt_poll_ns)
        .map(|ns| candidates::with_ceiling(in_force, ns))
        .collect()
}

/// Plays the best of a search on the whole capture.
pub fn play_final(inputs: &Inputs, found: &[Found], aims: &[Aim], pool: &impl Pool) -> FinalRound {
    let [in_force, default] = Knobs::named(&inputs.terms);
    let mut entries = vec![Entry::new(in_force).recorded(), Entry::new(default)];
    let others = others(inputs, ceilings(&in_force, found), found, aims, pool);
    let near = others
        .iter()
        .flat_map(|knobs| near(inputs, knobs))
        .collect();
    entries.extend(others.into_iter().map(Entry::new));
    let mut of = play_from_both(inputs, &entries, near, pool);
    if of.in_force.is_nearer_from_ceiling(inputs) {
        // A setting equal to the one in force has the same figures.
        let in_force = entries[0];
        for (entry, finalist) in entries.iter_mut().zip(of.all_mut()) {
            if entry.does_the_same(&in_force, inputs) {
                entry.start = Start::Ceiling;
                finalist.turn();
            }
        }
    }
    doubt::play(inputs, &entries, &mut of, pool);
    of
}

/// The round after a search plays about so many halts of the fit half at most: four times as many as the search.
const MOST_HALTS: usize = 1 << 21;

/// Settings of the final beside the setting in force and the default: `first` ones, then those of the search. Where the
/// search played a sample, a round on a larger one comes before.
pub(super) fn others<S: Candidate>(
    inputs: &Inputs,
    mut first: Vec<S>,
    found: &[Found<S>],
    aims: &[Aim],
    pool: &impl Pool,
) -> Vec<S> {
    let mut others = wanted(inputs, found, aims, OF_SEARCH);
    others.retain(|knobs| !first.contains(knobs));
    if search::one_in(inputs, search::MOST_HALTS) > 1 {
        let larger = Part::Fit(search::one_in(inputs, MOST_HALTS));
        let many = first.len();
        first.append(&mut others);
        let found = search::play(inputs, first, larger, "fit", pool);
        let next = |found| wanted(inputs, found, aims, OF_FIT);
        (first, others) = (next(&found[..many]), next(&found));
        others.retain(|knobs| !first.contains(knobs));
    }
    first.extend(others);
    first
}

/// Plays settings on the whole capture, from both starts. `entries` are what is in force, the default, and the others;
/// `near` are two settings next to each of the others, or none.
pub(super) fn play_from_both<S: Candidate>(
    inputs: &Inputs,
    entries: &[Entry<S>],
    near: Vec<Entry<S>>,
    pool: &impl Pool,
) -> FinalRound<S> {
    let mut all: Vec<Entry<S>> = entries.iter().flat_map(|it| it.from_both()).collect();
    all.extend(near);
    let sums = stage::play(inputs, &all, Part::Whole, "judge", pool);
    let (both, near) = sums.split_at(2 * entries.len());
    let finalist = |(entry, pair): (&Entry<S>, &[Vec<Sums>])| Finalist {
        knobs: entry.knobs,
        start: entry.start,
        parts: pair[0].clone(),
        others: pair[1].clone(),
        doubted: Vec::new(),
        near: Vec::new(),
    };
    let mut finalists: Vec<Finalist<S>> =
        entries.iter().zip(both.chunks(2)).map(finalist).collect();
    let mut others = finalists.split_off(2);
    for (other, near) in others.iter_mut().zip(near.chunks(2)) {
        other.near = near.to_vec();
    }
    let default = finalists.remove(1);
    FinalRound {
        in_force: finalists.remove(0),
        default,
        others,
    }
}

/// A setting with its ceiling a wake-up latency lower and higher, and with it a first window that is the ceiling.
fn near(inputs: &Inputs, of: &Knobs) -> [Entry; 2] {
    let ceiling_ns = of.halt_poll_ns;
    let class = class_of(u64::from(ceiling_ns));
    let latencies_ns = inputs.seats.iter().map(|seated| seated.table.median(class));
    let latency_ns = latencies_ns.max();
    let step_ns = latency_ns.unwrap_or(0).min(u64::from(ceiling_ns) / 2);
    let step_ns = u32::try_from(step_ns).unwrap_or(0);
    // A lower ceiling locks polling out from below, a higher one keeps it open from above.
    let lower = (ceiling_ns - step_ns, Start::Zero);
    let higher = (ceiling_ns.saturating_add(step_ns), Start::Ceiling);
    [lower, higher].map(|(halt_poll_ns, start)| {
        let mut knobs = candidates::with_ceiling(of, halt_poll_ns);
        if of.grow_start == ceiling_ns {
            knobs.grow_start = halt_poll_ns;
        }
        Entry {
            start,
            ..Entry::new(knobs)
        }
    })
}
