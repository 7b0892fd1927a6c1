//! The best ceilings under each set of the parameters that ceilings share.

use super::super::candidates::{self, CEILINGS_NS, Moves};
use super::super::crew::Crew;
use super::super::material::Material;
use super::super::stage::{CeilingsOf, Entry, Part};
use super::super::sums::Sums;
use super::Cap;
use super::crowd::{self, BATCH, Crowd, Parts, Tally, price};
use crate::kvm::Knobs;
use crate::policy::Start;
use crate::replay::Cost;

/// Ceilings, and what comes of them.
pub(super) struct Own {
    pub(super) knobs: Knobs,
    pub(super) caps: Vec<Cap>,
    /// Part by part, all crowds together, not priced.
    pub(super) raw: Parts,
    pub(super) priced: Tally,
    /// What the part that fits costs.
    fit: u128,
}

impl Own {
    fn add(&mut self, (fit, parts): (u128, &Parts), cost: &Cost) {
        self.fit += fit;
        Sums::add_parts(&mut self.raw, parts);
        self.priced.add(&price(parts, cost));
    }
}

/// Sets of the parameters that ceilings share, tried at most.
const SETS: usize = 8;

/// Those sets, each once, whatever its `halt_poll_ns`.
fn sets(material: &Material, one: &Knobs, others: &[Knobs]) -> Vec<Knobs> {
    let terms = &material.terms;
    if terms.moves() == Moves::Ceiling {
        return vec![terms.in_force];
    }
    // A first window above every ceiling: all or nothing, whatever the VM's ceiling.
    let toggle = candidates::toggle(candidates::LONGEST_NS, &terms.in_force);
    let first = [*one, terms.in_force, terms.default_knobs(), toggle];
    let mut sets: Vec<Knobs> = Vec::new();
    for knobs in first.iter().chain(others) {
        let set = Knobs {
            halt_poll_ns: terms.in_force.halt_poll_ns,
            ..*knobs
        };
        if !sets.contains(&set) && sets.len() < SETS {
            sets.push(set);
        }
    }
    sets
}

/// The best ceilings under the best of the sets.
pub(super) fn own(
    material: &Material,
    crowds: &[Crowd<'_>],
    one: &Knobs,
    others: &[Knobs],
    crew: &impl Crew,
) -> Option<Own> {
    let mut ceilings = CEILINGS_NS.to_vec();
    ceilings.extend([one.halt_poll_ns, material.terms.in_force.halt_poll_ns]);
    ceilings.sort_unstable();
    ceilings.dedup();
    let under = |set: Knobs| choose(material, crowds, set, &ceilings, crew);
    let tried = sets(material, one, others).into_iter().map(under);
    tried.min_by_key(|own| own.fit)
}

/// Each VM's best ceiling, and the one that is best for those that follow.
fn choose(
    material: &Material,
    crowds: &[Crowd<'_>],
    set: Knobs,
    ceilings: &[u32],
    crew: &impl Crew,
) -> Own {
    let (vms, follow) = crowds.split_at(crowds.partition_point(|crowd| crowd.vm.is_some()));
    // Where nobody follows it, halt_poll_ns stays as it is.
    let mut own = Own {
        knobs: set,
        caps: Vec::new(),
        raw: Vec::new(),
        priced: Tally::default(),
        fit: 0,
    };
    let best = |of: &dyn Fn(usize) -> u128| {
        let all = 0..ceilings.len();
        all.min_by_key(|&at| (of(at), at)).unwrap_or(0)
    };
    let as_cap = |ns: u32| Entry {
        ceilings: CeilingsOf::Caps(ns),
        ..Entry::new(set)
    };
    let entries = from_both_starts(ceilings.iter().map(|&ns| as_cap(ns)));
    for batch in vms.chunks(BATCH) {
        for (crowd, played) in
            batch
                .iter()
                .zip(crowd::play(material, batch, &entries, Part::Whole, crew))
        {
            let at = best(&|at| worse(&played, at, &crowd.cost).0);
            own.caps.extend(crowd.vm.map(|vm| Cap {
                vm,
                ceiling_ns: ceilings[at],
            }));
            own.add(worse(&played, at, &crowd.cost), &crowd.cost);
        }
    }
    if follow.is_empty() {
        return own;
    }
    let as_param = |halt_poll_ns: u32| {
        Entry::new(Knobs {
            halt_poll_ns,
            ..set
        })
    };
    let entries = from_both_starts(ceilings.iter().map(|&ns| as_param(ns)));
    let played = crowd::play(material, follow, &entries, Part::Whole, crew);
    let all = || follow.iter().zip(&played);
    let at = best(&|at| {
        all()
            .map(|(crowd, played)| worse(played, at, &crowd.cost).0)
            .sum()
    });
    own.knobs.halt_poll_ns = ceilings[at];
    for (crowd, played) in all() {
        own.add(worse(played, at, &crowd.cost), &crowd.cost);
    }
    own
}

/// Each entry with windows that start at 0, then at the ceiling.
fn from_both_starts(entries: impl Iterator<Item = Entry>) -> Vec<Entry> {
    let start = Start::Ceiling;
    entries
        .flat_map(|entry| [entry, Entry { start, ..entry }])
        .collect()
}

/// What a crowd costs under one of the ceilings by the worse start, and its parts from there.
fn worse<'a>(played: &'a [Parts], at: usize, cost: &Cost) -> (u128, &'a Parts) {
    let fit = |parts: &Parts| parts.first().map_or(0, |fit| fit.milli(cost));
    let [zero, ceiling] = [2 * at, 2 * at + 1].map(|at| &played[at]);
    if fit(ceiling) > fit(zero) {
        (fit(ceiling), ceiling)
    } else {
        (fit(zero), zero)
    }
}
