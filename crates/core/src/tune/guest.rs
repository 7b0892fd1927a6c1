//! Which parameters of a guest's governor haltpoll serve its recorded idle periods best.
//!
//! The way is that of KVM's parameters ([`super::search`], [`super::advice`]): a grid on the part that fits, then
//! around the best of it, a final on the whole capture from both starts, and the same advice. Two things differ.
//! A poll that ends by a wake spares the exit on HLT and the IPI, so these count ([`Sums::exits`]); and nothing of
//! the grid is played side by side, which is why a capture is thinned to fewer halts before.
//!
//! For comparison with settings of the host, [`exits_as`] adds their exits: under such a setting each halt exits.

#[cfg(test)]
mod test;

use super::candidates::{self, Candidate, SHORTEST_NS};
use super::figures;
use super::final_round::{self, FinalRound};
use super::inputs::{Inputs, Terms, VcpuInput};
use super::pool::Pool;
use super::search::{self, Aim, Found};
use super::stage::{self, CeilingsOf, Entry, Part, Player, Taken};
use crate::kvm::guest::{Params, Rule};
use crate::policy::{self, Spec, SpecError, Start};
use crate::replay::Cost;
use crate::replay::Sums;
use crate::replay::run::Run;

/// The governor of a guest as it was when recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Governor {
    pub rule: Rule,
    pub in_force: Params,
}

impl Candidate for Params {
    const FEWEST: usize = 32;

    fn named(terms: &Terms) -> [Self; 2] {
        [terms.governor.in_force, Self::default()]
    }

    fn grid(terms: &Terms) -> Vec<Self> {
        let mut first = grid(&terms.governor.in_force);
        first.extend(Self::named(terms));
        first
    }

    fn around(inputs: &Inputs, found: &[Found<Self>], aim: &Aim, steps: &[f64]) -> Vec<Self> {
        let best = search::best(found, aim, inputs, search::AROUND).into_iter();
        best.flat_map(|best| neighbours(&best.knobs, steps))
            .collect()
    }

    fn player(terms: &Terms, seated: &VcpuInput, entries: &[Entry<Self>]) -> Player {
        let runs = entries.iter().map(|entry| run(terms, seated, entry));
        Player::Runs(runs.collect(), Sums::with_exits_of)
    }

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
}

/// Plays the best of a search on the whole capture, from both starts.
pub fn play_final(
    inputs: &Inputs,
    found: &[Found<Params>],
    aims: &[Aim],
    pool: &impl Pool,
) -> FinalRound<Params> {
    let named = Params::named(&inputs.terms).into_iter();
    let others = final_round::others(inputs, Vec::new(), found, aims, pool);
    let all = named.chain(others);
    let entries: Vec<Entry<Params>> = all.map(|params| entry(&inputs.terms, params)).collect();
    final_round::play_from_both(inputs, &entries, Vec::new(), pool)
}

/// A setting of the governor. One that does what the one in force does goes on from where that was.
pub fn entry(terms: &Terms, params: Params) -> Entry<Params> {
    let is_in_force = params.is_same(&terms.governor.in_force, terms);
    Entry {
        ceilings: if is_in_force {
            CeilingsOf::Recorded
        } else {
            CeilingsOf::Param
        },
        ..Entry::new(params)
    }
}

/// Another policy on all vCPUs, part by part: the part that fits, then the judging blocks.
pub fn parts_of(inputs: &Inputs, spec: &Spec, pool: &impl Pool) -> Result<Vec<Sums>, SpecError> {
    let seats = &inputs.seats;
    let pieces = pool.each("evaluating settings", seats.len(), |number| {
        let seated = &seats[number];
        let run = figures::policy(inputs, seated, spec, &Cost::FREE)?;
        let mut player = Player::Runs(vec![run], Sums::with_exits_of);
        let taken = Taken::recorded(seated);
        let mut parts = [Vec::new()];
        player.parts(seated, &inputs.ends(seated), &taken, &mut parts);
        let [parts] = parts;
        Ok(parts)
    });
    let mut sums = Vec::new();
    for piece in pieces {
        Sums::add_parts(&mut sums, &piece?);
    }
    Ok(sums)
}

pub(super) fn run(terms: &Terms, seated: &VcpuInput, entry: &Entry<Params>) -> Run {
    let Governor { rule, .. } = terms.governor;
    let limit_ns = match (entry.start, entry.ceilings) {
        (Start::Ceiling, _) => entry.knobs.guest_halt_poll_ns,
        (Start::Zero, CeilingsOf::Recorded) => seated.first_window_ns.unwrap_or(0),
        (Start::Zero, _) => 0,
    };
    Run::new(policy::guest_haltpoll(rule, entry.knobs, limit_ns))
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

pub fn never_polls(inputs: &Inputs, pool: &impl Pool) -> Vec<Sums> {
    let off = Params {
        guest_halt_poll_ns: 0,
        ..Params::default()
    };
    let mut parts = stage::play(inputs, &[Entry::new(off)], Part::Whole, "judge", pool);
    parts.pop().unwrap_or_default()
}

/// Ceilings of the grid in nanoseconds, as people write them. People sweep this parameter by hand from 0.2 to
/// 10 ms; a longer poll saves one exit in ten milliseconds at most, which no user notices.
const CEILINGS_NS: [u32; 20] = [
    0, 10_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000, 200_000, 250_000, 300_000,
    400_000, 500_000, 750_000, 1_000_000, 1_500_000, 2_000_000, 3_000_000, 5_000_000, LONGEST_NS,
];

/// No ceiling above this is evaluated, in nanoseconds.
const LONGEST_NS: u32 = 10_000_000;

/// First limits of the grid in nanoseconds; the ceiling itself comes to them.
const FIRST_LIMITS_NS: [u32; 5] = [10_000, 25_000, 50_000, 100_000, 400_000];

/// Factors of growth. 0 and 1 stay at the first limit, which is what a first limit at the ceiling does better.
const GROWS: [u32; 2] = [2, 4];

/// Divisors of shrinking: at once to 0, by half, to a quarter.
const SHRINKS: [u32; 3] = [0, 2, 4];

/// The whole grid. Where a parameter makes no difference it is as in `in_force`.
fn grid(in_force: &Params) -> Vec<Params> {
    let mut grid = vec![Params {
        guest_halt_poll_ns: 0,
        allow_shrink: true,
        ..*in_force
    }];
    for ceiling_ns in CEILINGS_NS.into_iter().filter(|&ns| ns > 0) {
        let ceiling = Params {
            guest_halt_poll_ns: ceiling_ns,
            ..*in_force
        };
        let starts = FIRST_LIMITS_NS.into_iter().filter(|&ns| ns < ceiling_ns);
        let starts = starts.flat_map(|ns| GROWS.map(|grow| (ns, grow)));
        for (grow_start, grow) in starts.chain([(ceiling_ns, in_force.grow)]) {
            grid.extend(shrinking(Params {
                grow,
                grow_start,
                ..ceiling
            }));
        }
    }
    grid
}

/// All ways to shrink, and none.
fn shrinking(of: Params) -> impl Iterator<Item = Params> {
    let ways = SHRINKS.map(|shrink| (shrink, true)).into_iter();
    ways.chain([(of.shrink, false)])
        .map(move |(shrink, allow_shrink)| Params {
            shrink,
            allow_shrink,
            ..of
        })
}

/// Settings around one, each a step away. `steps` are factors for times.
fn neighbours(around: &Params, steps: &[f64]) -> Vec<Params> {
    if around.guest_halt_poll_ns == 0 {
        return Vec::new();
    }
    let scaled = |ns: u32, step| candidates::scaled(ns, step, SHORTEST_NS..=LONGEST_NS);
    let mut found = Vec::new();
    for &step in steps {
        let ceiling_ns = scaled(around.guest_halt_poll_ns, step);
        let grow_start = scaled(around.grow_start, step);
        let mut moved = *around;
        moved.guest_halt_poll_ns = ceiling_ns;
        let with_start = |of: Params| Params { grow_start, ..of };
        found.extend([moved, with_start(moved), with_start(*around)]);
    }
    let grows = [around.grow.saturating_sub(1), around.grow.saturating_add(1)];
    found.extend(grows.map(|grow| Params { grow, ..*around }));
    found.extend(shrinking(*around));
    found.retain(|params| params.grow_start <= params.guest_halt_poll_ns && params.grow > 0);
    found
}
