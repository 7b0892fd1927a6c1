//! Many settings on all halts, block by block.
//!
//! Work is cut into pieces of some settings on some vCPUs. Sums are whole numbers, so what comes of it
//! does not depend on who did which piece.

use super::crew::Crew;
use super::doubt::Doubt;
use super::material::{Material, Seated, Terms};
use crate::kvm::Knobs;
use crate::policy::{Setting, Spec, SpecError, Start};
use crate::recording::Side;
use crate::replay::Sums;
use crate::replay::arrivals::Follow;
use crate::replay::grid::{Choice, Grid};
use crate::replay::latency::Table;
use crate::replay::run::{Frame, Run};
use crate::replay::{Cost, Sample};
use crate::stats::Fold;

/// A setting, and from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub knobs: Knobs,
    pub ceilings: CeilingsOf,
    pub start: Start,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CeilingsOf {
    /// The module parameter's, but for VMs that have their own.
    Param,
    /// Those that were recorded, VM by VM.
    Recorded,
    /// This one for every VM, in nanoseconds, as a cap of its own.
    Caps(u32),
}

impl Entry {
    /// A setting of the module, from no window.
    pub fn new(knobs: Knobs) -> Self {
        Self {
            knobs,
            ceilings: CeilingsOf::Param,
            start: Start::Zero,
        }
    }

    /// Whether another has the same parameters, and the same ceiling for every vCPU.
    pub fn does_the_same(&self, other: &Self, material: &Material) -> bool {
        let is_same = |seated: &Seated| self.ceiling_ns(seated) == other.ceiling_ns(seated);
        self.knobs == other.knobs && material.seats.iter().all(is_same)
    }

    /// The ceiling of a vCPU, in nanoseconds.
    pub fn ceiling_ns(&self, seated: &Seated) -> u32 {
        match self.ceilings {
            CeilingsOf::Param => seated.ceiling_under(self.knobs.halt_poll_ns),
            CeilingsOf::Recorded => seated.ceiling_ns,
            CeilingsOf::Caps(ns) => ns,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Fit,
    /// All, in parts: those that fit, then each judging block.
    Whole,
    /// The same, with something that nobody recorded taken otherwise.
    Doubted(Doubt),
}

/// Settings of one piece at least, where there are as many: all of a piece share one look at each halt.
const FEWEST: usize = 256;

const MOST: usize = 1_024;

/// As many pieces as there are for each hand at least, where [`FEWEST`] allows, so that all end at about
/// one time.
const PIECES: usize = 4;

/// Pieces that vCPUs are put into at most.
const LOTS: usize = 16;

/// Plays settings on some vCPUs; gives for each the sums of each part.
pub fn play(
    material: &Material,
    seats: &[&Seated],
    entries: &[Entry],
    part: Part,
    what: &str,
    crew: &impl Crew,
) -> Vec<Vec<Sums>> {
    let groups = [seats.to_vec()];
    let mut sums = play_each(material, &groups, entries, part, what, crew);
    sums.pop().unwrap_or_default()
}

/// The same on each of several groups of vCPUs.
pub fn play_each(
    material: &Material,
    groups: &[Vec<&Seated>],
    entries: &[Entry],
    part: Part,
    what: &str,
    crew: &impl Crew,
) -> Vec<Vec<Vec<Sums>>> {
    let groups = groups.iter().enumerate();
    let mut lots: Vec<(usize, Vec<&Seated>)> = (groups.clone())
        .flat_map(|(group, seats)| lots(seats).into_iter().map(move |lot| (group, lot)))
        .collect();
    // The longest pieces first: nobody begins one when the others have nothing left to do.
    lots.sort_by_key(|(_, lot)| std::cmp::Reverse(halts(lot)));
    let length = chunk(entries.len(), lots.len(), crew.hands());
    let chunks: Vec<&[Entry]> = entries.chunks(length).collect();
    let pieces = crew.each(what, lots.len() * chunks.len(), |number| {
        let ((_, lot), chunk) = (&lots[number / chunks.len()], chunks[number % chunks.len()]);
        play_piece(material, lot, chunk, part)
    });
    let mut sums = vec![vec![Vec::new(); entries.len()]; groups.len()];
    for (number, piece) in pieces.into_iter().enumerate() {
        let (group, _) = lots[number / chunks.len()];
        let first = (number % chunks.len()) * length;
        for (sums, parts) in sums[group][first..].iter_mut().zip(piece) {
            Sums::add_parts(sums, &parts);
        }
    }
    sums
}

/// How many of so many settings make a piece: like sizes, as large as leaves enough pieces.
fn chunk(entries: usize, lots: usize, hands: usize) -> usize {
    let most = (entries * lots)
        .div_ceil(PIECES * hands)
        .clamp(FEWEST, MOST);
    let chunks = entries.div_ceil(most).max(1);
    entries.div_ceil(chunks).max(1)
}

/// vCPUs in groups with about as many halts each.
fn lots<'a>(seats: &[&'a Seated]) -> Vec<Vec<&'a Seated>> {
    let mut by_size = seats.to_vec();
    by_size.sort_by_key(|seated| std::cmp::Reverse(seated.samples.len()));
    let mut lots: Vec<(usize, Vec<&Seated>)> = vec![(0, Vec::new()); LOTS.min(seats.len())];
    for seated in by_size {
        if let Some(lightest) = lots.iter_mut().min_by_key(|(halts, _)| *halts) {
            lightest.0 += seated.samples.len();
            lightest.1.push(seated);
        }
    }
    lots.into_iter().map(|(_, lot)| lot).collect()
}

fn halts(lot: &[&Seated]) -> usize {
    lot.iter().map(|seated| seated.samples.len()).sum()
}

fn play_piece(
    material: &Material,
    lot: &[&Seated],
    entries: &[Entry],
    part: Part,
) -> Vec<Vec<Sums>> {
    let mut sums: Vec<Vec<Sums>> = vec![Vec::new(); entries.len()];
    for seated in lot {
        let ends = match part {
            Part::Fit => vec![material.halves(seated).0.len()],
            Part::Whole | Part::Doubted(_) => material.ends(seated),
        };
        let doubt = match part {
            Part::Fit | Part::Whole => None,
            Part::Doubted(doubt) => Some(doubt),
        };
        let other = doubt.and_then(|doubt| doubt.table(seated));
        let taken = Taken {
            table: other.as_ref().unwrap_or(&*seated.table),
            follow: doubt.map_or(seated.follow, |doubt| doubt.follow(seated)),
        };
        let mut player = Player::new(&material.terms, seated, entries);
        let mut last = vec![Sums::default(); entries.len()];
        let mut from = 0;
        for (block, &end) in ends.iter().enumerate() {
            let so_far = player.play(&seated.samples[from..end], &taken);
            from = end;
            for ((sums, last), so_far) in sums.iter_mut().zip(&mut last).zip(so_far) {
                if sums.len() <= block {
                    sums.resize(block + 1, Sums::default());
                }
                let of_block = so_far.since(last).weighed(seated.weight_milli);
                sums[block].fold(&of_block.times(seated.stands_for_milli));
                *last = so_far;
            }
        }
    }
    sums
}

/// What of a vCPU is taken as recorded, or otherwise.
pub(crate) struct Taken<'a> {
    pub(crate) table: &'a Table,
    pub(crate) follow: Follow,
}

impl<'a> Taken<'a> {
    /// All as recorded, as far as it was.
    pub(crate) fn recorded(seated: &'a Seated) -> Self {
        Self {
            table: &seated.table,
            follow: seated.follow,
        }
    }
}

pub(crate) enum Player {
    Grid(Box<Grid>),
    /// One by one, where the rule has no window that adapts.
    Runs(Vec<Run>),
}

impl Player {
    pub(crate) fn new(terms: &Terms, seated: &Seated, entries: &[Entry]) -> Self {
        let choice = |entry: &Entry| Choice {
            knobs: entry.knobs,
            ceiling_ns: entry.ceiling_ns(seated),
            start: entry.start,
        };
        let choices: Vec<Choice> = entries.iter().map(choice).collect();
        match Grid::new(terms.rule(), &choices) {
            Ok(grid) => Self::Grid(Box::new(grid)),
            Err(_) => Self::Runs(
                (entries.iter())
                    .filter_map(|entry| kvm(terms, seated, entry).ok())
                    .collect(),
            ),
        }
    }

    /// Plays on; gives the sums of all so far.
    fn play(&mut self, samples: &[Sample], taken: &Taken<'_>) -> Vec<Sums> {
        self.go(samples, taken);
        self.tallies()
    }

    pub(crate) fn tallies(&self) -> Vec<Sums> {
        match self {
            Self::Grid(grid) => grid.tallies(),
            Self::Runs(runs) => runs.iter().map(|run| Sums::of(run.outcome())).collect(),
        }
    }

    pub(crate) fn go(&mut self, samples: &[Sample], taken: &Taken<'_>) {
        match self {
            Self::Grid(grid) => grid.play(samples, taken.table, &taken.follow),
            Self::Runs(runs) => {
                // What an oracle would pay is not asked here, so any cost will do.
                let frame = Frame {
                    table: taken.table,
                    cost: Cost {
                        switch_cpu_ns: 0,
                        latency_weight_milli: 0,
                        ..Cost::FREE
                    },
                    follow: taken.follow,
                };
                for run in runs.iter_mut() {
                    for sample in samples {
                        run.step(sample, &frame);
                    }
                }
            }
        }
    }
}

pub(crate) fn frame(seated: &Seated, cost: Cost) -> Frame<'_> {
    Frame {
        table: &seated.table,
        cost,
        follow: seated.follow,
    }
}

pub(super) fn kvm(terms: &Terms, seated: &Seated, entry: &Entry) -> Result<Run, SpecError> {
    let spec: Spec = "kvm".parse()?;
    let policy = spec.build(&setting(terms, seated, entry, 0))?;
    Ok(Run::new(policy))
}

pub(crate) fn setting(
    terms: &Terms,
    seated: &Seated,
    entry: &Entry,
    break_even_ns: u64,
) -> Setting {
    Setting {
        version: terms.version,
        side: Side::Host,
        arch: terms.arch,
        knobs: entry.knobs,
        ceiling_ns: entry.ceiling_ns(seated),
        break_even_ns,
        start: entry.start,
    }
}
