//! Which parameters of a guest's governor haltpoll serve its recorded idle periods best.
//!
//! The way is that of KVM's parameters ([`super::search`], [`super::advice`]): a grid on the part that fits, then
//! around the best of it, a final on the whole capture from both starts, and the same advice. Two things differ.
//! A poll that ends by a wake spares the exit on HLT and the IPI, so these count ([`Sums::exits`]); and nothing of
//! the grid is played side by side, which is why a capture is thinned to fewer halts before.
//!
//! What the host could do for the same halts is compared by [`exits_as`]: under a setting of the host each halt exits.

mod grid;
#[cfg(test)]
mod test;

use std::collections::BTreeSet;

use super::candidates::Candidate;
use super::crew::Crew;
use super::figures;
use super::finalist::{self, Final, Finalist};
use super::material::{Material, Seated, Terms};
use super::search::{self, Aim, Found};
use super::stage;
use crate::kvm::guest::{Params, Rule};
use crate::policy::{self, Spec, SpecError, Start};
use crate::replay::Cost;
use crate::replay::Sums;
use crate::replay::run::Run;

/// The governor of a guest as it was when recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Governor {
    pub rule: Rule,
    pub in_force: Params,
}

/// A setting of the governor, and where limits begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub rule: Rule,
    pub params: Params,
    /// Where limits begin.
    pub limits: Limits,
}

/// Where the limits of CPUs begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// At 0, as a new CPU's does.
    Zero,
    /// At `guest_halt_poll_ns`.
    Ceiling,
    /// Where they were when the recording began: a limit outlives a change of the parameters. At 0 where that was not
    /// recorded.
    Recorded,
}

impl Limits {
    /// The limit of a CPU's first idle period, in nanoseconds.
    fn limit_ns(self, params: &Params, seated: &Seated) -> u32 {
        match self {
            Self::Zero => 0,
            Self::Ceiling => params.guest_halt_poll_ns,
            Self::Recorded => seated.first_window_ns.unwrap_or(0),
        }
    }
}

impl Candidate for Params {
    fn key(&self) -> [u32; 5] {
        [
            self.guest_halt_poll_ns,
            self.grow_start,
            self.grow,
            self.shrink,
            u32::from(!self.allow_shrink),
        ]
    }

    fn applies(_: &Terms) -> bool {
        true
    }

    fn is_same(&self, other: &Self, _: &Terms) -> bool {
        // A divisor that is never used makes no difference.
        let plain = |params: &Self| Self {
            shrink: if params.allow_shrink {
                params.shrink
            } else {
                0
            },
            ..*params
        };
        let off = |params: &Self| params.guest_halt_poll_ns == 0 && params.allow_shrink;
        (off(self) && off(other)) || plain(self) == plain(other)
    }

    fn changes(&self, from: &Self, _: &Terms) -> u32 {
        let differ = self.key().into_iter().zip(from.key());
        differ.map(|(own, other)| u32::from(own != other)).sum()
    }

    fn is_off(&self) -> bool {
        self.guest_halt_poll_ns == 0
    }
}

const STEPS: [&[f64]; 2] = [&[0.75, 0.875, 1.125, 1.25], &[0.94, 1.06]];

/// Around how many of the best, for each aim, a round looks.
const AROUND: usize = 4;

/// Looks through the grid and around the best of it, for every aim. No setting comes twice.
pub fn search(
    material: &Material,
    governor: &Governor,
    aims: &[Aim],
    crew: &impl Crew,
) -> Vec<Found<Params>> {
    let in_force = &governor.in_force;
    let fit =
        |wanted, known: &mut _, what| fit((material, governor.rule), wanted, known, what, crew);
    let mut known = BTreeSet::new();
    let mut first = grid::grid(in_force);
    first.extend([*in_force, Params::default()]);
    let mut found = fit(first, &mut known, "grid");
    for steps in STEPS {
        let mut around = Vec::new();
        for aim in aims {
            for best in search::best(&found, aim, (material, in_force), AROUND) {
                around.extend(grid::neighbours(&best.knobs, steps));
            }
        }
        found.extend(fit(around, &mut known, "refine"));
    }
    found
}

fn fit(
    (material, rule): (&Material, Rule),
    mut wanted: Vec<Params>,
    known: &mut BTreeSet<[u32; 5]>,
    what: &str,
    crew: &impl Crew,
) -> Vec<Found<Params>> {
    wanted.retain(|params| known.insert(params.key()));
    let zero = |&params: &Params| Entry {
        rule,
        params,
        limits: Limits::Zero,
    };
    let entries: Vec<Entry> = wanted.iter().map(zero).collect();
    let parts = play(material, &entries, false, what, crew);
    let found = |(knobs, parts): (Params, Vec<Sums>)| Found {
        knobs,
        fit: Sums::total(&parts),
    };
    wanted.into_iter().zip(parts).map(found).collect()
}

/// Plays the best of a search on the whole capture, from both starts.
pub fn play_final(
    material: &Material,
    governor: &Governor,
    found: &[Found<Params>],
    aims: &[Aim],
    crew: &impl Crew,
) -> Final<Params> {
    let Governor { rule, in_force } = governor;
    let rule = *rule;
    let mut all = vec![*in_force, Params::default()];
    all.extend(finalist::wanted(material, in_force, found, aims));
    let entry = |params, limits| Entry {
        rule,
        params,
        limits,
    };
    // What is in force goes on from where it was.
    let pair = |(at, &params): (usize, &Params)| match at {
        0 => [Limits::Recorded, Limits::Ceiling].map(|limits| entry(params, limits)),
        _ => [Limits::Zero, Limits::Ceiling].map(|limits| entry(params, limits)),
    };
    let entries: Vec<Entry> = all.iter().enumerate().flat_map(pair).collect();
    let sums = play(material, &entries, true, "judge", crew);
    let of_pair = |(params, pair): (&Params, &[Vec<Sums>])| Finalist {
        knobs: *params,
        start: Start::Zero,
        parts: pair[0].clone(),
        others: pair[1].clone(),
        doubted: Vec::new(),
        near: Vec::new(),
    };
    let finalists = all.iter().zip(sums.chunks(2)).map(of_pair);
    let mut finalists: Vec<Finalist<Params>> = finalists.collect();
    // A setting equal to the one in force has the same figures.
    let (first, rest) = finalists.split_at_mut(1);
    for finalist in rest {
        if finalist.knobs.is_same(&first[0].knobs, &material.terms) {
            finalist.parts.clone_from(&first[0].parts);
            finalist.others.clone_from(&first[0].others);
        }
    }
    let others = finalists.split_off(2);
    let default = finalists.remove(1);
    Final {
        in_force: finalists.remove(0),
        default,
        others,
    }
}

/// Settings that go into a piece of work.
const TOGETHER: usize = 32;

/// Plays settings on all vCPUs; gives for each the sums of each part: only the one that fits, or all.
fn play(
    material: &Material,
    entries: &[Entry],
    is_whole: bool,
    what: &str,
    crew: &impl Crew,
) -> Vec<Vec<Sums>> {
    let chunks: Vec<&[Entry]> = entries.chunks(TOGETHER).collect();
    let seats = &material.seats;
    let pieces = crew.each(what, seats.len() * chunks.len(), |number| {
        let (seated, chunk) = (&seats[number / chunks.len()], chunks[number % chunks.len()]);
        let played = |entry| play_one(material, seated, entry, is_whole);
        chunk.iter().map(played).collect::<Vec<_>>()
    });
    let mut sums = vec![Vec::new(); entries.len()];
    for (number, piece) in pieces.into_iter().enumerate() {
        let first = (number % chunks.len()) * TOGETHER;
        for (sums, parts) in sums[first..].iter_mut().zip(piece) {
            Sums::add_parts(sums, &parts);
        }
    }
    sums
}

fn play_one(material: &Material, seated: &Seated, entry: &Entry, is_whole: bool) -> Vec<Sums> {
    let ends = if is_whole {
        material.ends(seated)
    } else {
        vec![material.halves(seated).0.len()]
    };
    parts(seated, ends, run(entry, seated))
}

/// Another policy on all vCPUs, part by part: the part that fits, then the judging blocks.
pub fn parts_of(
    material: &Material,
    spec: &Spec,
    crew: &impl Crew,
) -> Result<Vec<Sums>, SpecError> {
    let seats = &material.seats;
    let pieces = crew.each("evaluating settings", seats.len(), |number| {
        let seated = &seats[number];
        let run = figures::policy(material, seated, spec, &Cost::FREE)?;
        Ok(parts(seated, material.ends(seated), run))
    });
    let mut sums = Vec::new();
    for piece in pieces {
        Sums::add_parts(&mut sums, &piece?);
    }
    Ok(sums)
}

fn parts(seated: &Seated, ends: Vec<usize>, mut run: Run) -> Vec<Sums> {
    // What an oracle would pay is not asked here, so any cost will do.
    let frame = stage::frame(seated, Cost::FREE);
    let mut from = 0;
    let mut part = |end: usize| {
        for sample in &seated.samples[from..end] {
            run.step_beside(sample, &frame, None);
        }
        from = end;
        Sums::with_exits_of(&run.take())
    };
    ends.into_iter().map(&mut part).collect()
}

pub(super) fn run(entry: &Entry, seated: &Seated) -> Run {
    let limit_ns = entry.limits.limit_ns(&entry.params, seated);
    Run::new(policy::guest_haltpoll(entry.rule, entry.params, limit_ns))
}

/// Parts of a setting of the host, with the exits and IPIs that its halts have then: those of a guest that never
/// polls, part by part.
pub fn exits_as(parts: &[Sums], never_polls: &[Sums]) -> Vec<Sums> {
    let with = |(part, of): (&Sums, &Sums)| Sums {
        exits: of.exits,
        ipis: of.ipis,
        ..*part
    };
    parts.iter().zip(never_polls).map(with).collect()
}

/// The parts of a guest that never polls.
pub fn never_polls(material: &Material, rule: Rule, crew: &impl Crew) -> Vec<Sums> {
    let off = Entry {
        rule,
        params: Params {
            guest_halt_poll_ns: 0,
            ..Params::default()
        },
        limits: Limits::Zero,
    };
    let mut parts = play(material, &[off], true, "judge", crew);
    parts.pop().unwrap_or_default()
}
