//! Many settings on all halts, block by block.
//!
//! Work is cut into pieces of some settings on some vCPUs. Sums are whole numbers, so what comes of it
//! does not depend on who did which piece.

use super::candidates::Candidate;
use super::doubt::Doubt;
use super::inputs::{Inputs, Terms, VcpuInput};
use super::pool::Pool;
use crate::kvm::Knobs;
use crate::policy::{Setting, Spec, SpecError, Start};
use crate::recording::Side;
use crate::replay::Sums;
use crate::replay::arrivals::Follow;
use crate::replay::grid::{Choice, Grid};
use crate::replay::latency::Table;
use crate::replay::run::{Frame, Run};
use crate::replay::{Cost, Outcome, Sample, VcpuKey};
use crate::stats::Fold;
use crate::workload::SplitMix64;

/// A setting, and from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<S = Knobs> {
    pub knobs: S,
    pub ceilings: CeilingsOf,
    pub start: Start,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CeilingsOf {
    /// The module parameter's, but for VMs that have their own.
    Param,
    /// Those that were recorded, VM by VM; of a guest's CPU, the limit at which its recording began. A limit outlives a
    /// change of the parameters.
    Recorded,
    /// This one for every VM, in nanoseconds, as a cap of its own.
    Caps(u32),
}

impl<S: Copy> Entry<S> {
    /// A setting, from no window.
    pub fn new(knobs: S) -> Self {
        Self {
            knobs,
            ceilings: CeilingsOf::Param,
            start: Start::Zero,
        }
    }

    /// The same under the ceilings that were recorded.
    #[must_use]
    pub fn recorded(self) -> Self {
        Self {
            ceilings: CeilingsOf::Recorded,
            ..self
        }
    }

    /// It, and the same from the other start.
    pub fn from_both(self) -> [Self; 2] {
        let start = self.start.other();
        [self, Self { start, ..self }]
    }
}

impl Entry {
    /// Whether another has the same parameters, and the same ceiling for every vCPU.
    pub fn does_the_same(&self, other: &Self, inputs: &Inputs) -> bool {
        let is_same = |seated: &VcpuInput| self.ceiling_ns(seated) == other.ceiling_ns(seated);
        self.knobs == other.knobs && inputs.seats.iter().all(is_same)
    }

    /// The ceiling of a vCPU, in nanoseconds.
    pub fn ceiling_ns(&self, seated: &VcpuInput) -> u32 {
        match self.ceilings {
            CeilingsOf::Param => seated.own_ceiling_ns.unwrap_or(self.knobs.halt_poll_ns),
            CeilingsOf::Recorded => seated.ceiling_ns,
            CeilingsOf::Caps(ns) => ns,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The half that fits: one of so many stretches of it, as if the others were like it.
    Fit(usize),
    /// The same of each vCPU by itself: as many of its stretches as leave about so many of its halts.
    FitOfEach(usize),
    /// All, in parts: those that fit, then each judging block.
    Whole,
    /// The same, with something that was not recorded taken otherwise.
    Doubted(Doubt),
}

const MOST: usize = 1_024;

/// Up to so many settings are played without vectors.
const FEW: usize = 4;

/// Halts of a stretch: many more than a window takes to forget what was before.
const STRETCH: usize = 1 << 12;

/// As many pieces as there are for each worker at least, where [`Candidate::FEWEST`] allows, so that all end at about
/// one time.
const PIECES: usize = 4;

/// Pieces that vCPUs are put into at most.
const LOTS: usize = 16;

/// Plays settings on all vCPUs; gives for each the sums of each part.
pub fn play<S: Candidate>(
    inputs: &Inputs,
    entries: &[Entry<S>],
    part: Part,
    what: &str,
    pool: &impl Pool,
) -> Vec<Vec<Sums>> {
    let groups = [inputs.seats.iter().collect()];
    let mut sums = play_each(inputs, &groups, entries, part, what, pool);
    sums.pop().unwrap_or_default()
}

/// The same on each of several groups of vCPUs.
pub fn play_each<S: Candidate>(
    inputs: &Inputs,
    groups: &[Vec<&VcpuInput>],
    entries: &[Entry<S>],
    part: Part,
    what: &str,
    pool: &impl Pool,
) -> Vec<Vec<Vec<Sums>>> {
    let groups = groups.iter().enumerate();
    let mut lots: Vec<(usize, Vec<&VcpuInput>)> = (groups.clone())
        .flat_map(|(group, seats)| lots(seats).into_iter().map(move |lot| (group, lot)))
        .collect();
    // The longest pieces first, so that all workers end at about one time.
    lots.sort_by_key(|(_, lot)| std::cmp::Reverse(halts(lot)));
    let length = chunk(entries.len(), lots.len(), pool.workers(), S::FEWEST);
    let chunks: Vec<&[Entry<S>]> = entries.chunks(length).collect();
    let pieces = pool.each(what, lots.len() * chunks.len(), |number| {
        let ((_, lot), chunk) = (&lots[number / chunks.len()], chunks[number % chunks.len()]);
        play_piece(inputs, lot, chunk, part)
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
fn chunk(entries: usize, lots: usize, workers: usize, fewest: usize) -> usize {
    let most = (entries * lots)
        .div_ceil(PIECES * workers)
        .clamp(fewest, MOST);
    let chunks = entries.div_ceil(most).max(1);
    entries.div_ceil(chunks).max(1)
}

fn lots<'a>(seats: &[&'a VcpuInput]) -> Vec<Vec<&'a VcpuInput>> {
    let mut by_size = seats.to_vec();
    by_size.sort_by_key(|seated| std::cmp::Reverse(seated.samples.len()));
    let mut lots = vec![Vec::new(); LOTS.min(seats.len())];
    for (seated, lot) in by_size.into_iter().zip((0..lots.len()).cycle()) {
        lots[lot].push(seated);
    }
    lots
}

fn halts(lot: &[&VcpuInput]) -> usize {
    lot.iter().map(|seated| seated.samples.len()).sum()
}

/// The stretches of a vCPU's half that fits that are played, one of so `many`. The first one is drawn for each vCPU, so
/// that those of many short vCPUs are of all kinds of them.
fn stretches<'a>(
    inputs: &Inputs,
    seated: &'a VcpuInput,
    many: usize,
) -> impl Iterator<Item = &'a [Sample]> {
    let (fit, _) = inputs.halves(seated);
    let VcpuKey { vm, vcpu, tid } = seated.seat;
    let of = |id: Option<u32>| u64::from(id.unwrap_or(0));
    let vcpu = of(vcpu.map(|it| it.0)) ^ of(tid.map(|it| it.0));
    let mut draw = SplitMix64(of(vm.map(|it| it.0)) << 32 ^ vcpu);
    let first = usize::try_from(draw.below(many as u64)).unwrap_or(0);
    fit.chunks(STRETCH).skip(first).step_by(many)
}

fn play_piece<S: Candidate>(
    inputs: &Inputs,
    lot: &[&VcpuInput],
    entries: &[Entry<S>],
    part: Part,
) -> Vec<Vec<Sums>> {
    let mut sums: Vec<Vec<Sums>> = vec![Vec::new(); entries.len()];
    // A grid takes longer to make than to copy, and those of many vCPUs are alike.
    let mut made: Option<([Option<u32>; 2], Box<Grid>)> = None;
    for seated in lot {
        let many = match part {
            Part::Fit(many) => Some(many),
            Part::FitOfEach(most) => Some(inputs.halves(seated).0.len().div_ceil(most).max(1)),
            Part::Whole | Part::Doubted(_) => None,
        };
        let chosen: Option<(usize, Vec<&[Sample]>)> =
            many.map(|many| (many, stretches(inputs, seated, many).collect()));
        if matches!(&chosen, Some((_, stretches)) if stretches.is_empty()) {
            continue;
        }
        let doubt = match part {
            Part::Doubted(doubt) => Some(doubt),
            _ => None,
        };
        let other = doubt.and_then(|doubt| doubt.table(seated));
        let taken = Taken {
            table: other.as_ref().unwrap_or(&*seated.table),
            follow: doubt.map_or(seated.follow, |doubt| doubt.follow(seated)),
        };
        let ceilings = [seated.own_ceiling_ns, Some(seated.ceiling_ns)];
        let mut player = match &made {
            Some((of, grid)) if *of == ceilings => Player::Grid(grid.clone()),
            _ => {
                let player = S::player(&inputs.terms, seated, entries);
                if let Player::Grid(grid) = &player {
                    made = Some((ceilings, grid.clone()));
                }
                player
            }
        };
        match chosen {
            Some((many, stretches)) => player.stretches(seated, &stretches, many, &mut sums),
            None => player.parts(seated, &inputs.ends(seated), &taken, &mut sums),
        }
    }
    sums
}

/// Wake-up latencies and timers of a vCPU, taken as recorded or otherwise.
pub(crate) struct Taken<'a> {
    pub(crate) table: &'a Table,
    pub(crate) follow: Follow,
}

impl<'a> Taken<'a> {
    /// All as recorded, as far as it was.
    pub(crate) fn recorded(seated: &'a VcpuInput) -> Self {
        Self {
            table: &seated.table,
            follow: seated.follow,
        }
    }
}

/// Settings on their way through the halts of a vCPU.
#[derive(Debug)]
pub enum Player {
    Grid(Box<Grid>),
    /// One by one, where the grid does not have the rule; and what of their outcomes counts.
    Runs(Vec<Run>, fn(&Outcome) -> Sums),
}

impl Player {
    pub(crate) fn new(terms: &Terms, seated: &VcpuInput, entries: &[Entry]) -> Self {
        let choice = |entry: &Entry| Choice {
            knobs: entry.knobs,
            ceiling_ns: entry.ceiling_ns(seated),
            start: entry.start,
        };
        let choices: Vec<Choice> = entries.iter().map(choice).collect();
        let grid = if choices.len() > FEW {
            Grid::new
        } else {
            Grid::one_by_one
        };
        match grid(terms.rule(), &choices) {
            Ok(grid) => Self::Grid(Box::new(grid)),
            Err(_) => Self::Runs(
                (entries.iter())
                    .filter_map(|entry| kvm(terms, seated, entry).ok())
                    .collect(),
                Sums::of,
            ),
        }
    }

    /// Plays the halts of a vCPU; adds to each setting's sums of each part. `ends` are where parts end.
    pub(super) fn parts(
        &mut self,
        seated: &VcpuInput,
        ends: &[usize],
        taken: &Taken<'_>,
        sums: &mut [Vec<Sums>],
    ) {
        for sums in &mut *sums {
            sums.resize(sums.len().max(ends.len()), Sums::default());
        }
        let (mut last, mut from) = (self.tallies(), 0);
        for (part, &end) in ends.iter().enumerate() {
            if end == from {
                continue;
            }
            self.go(&seated.samples[from..end], taken);
            from = end;
            let so_far = self.tallies();
            for ((sums, last), so_far) in sums.iter_mut().zip(&last).zip(&so_far) {
                let of_part = so_far.since(last).weighed(seated.weight_milli);
                sums[part].fold(&of_part.times(seated.stands_for_milli));
            }
            last = so_far;
        }
    }

    /// Plays some stretches, each of which stands for so `many`.
    fn stretches(
        &mut self,
        seated: &VcpuInput,
        stretches: &[&[Sample]],
        many: usize,
        sums: &mut [Vec<Sums>],
    ) {
        let taken = Taken::recorded(seated);
        for samples in stretches {
            self.go(samples, &taken);
        }
        for (sums, of_fit) in sums.iter_mut().zip(self.tallies()) {
            let of_fit = of_fit.weighed(seated.weight_milli);
            let of_fit = of_fit.times(seated.stands_for_milli.saturating_mul(many as u64));
            Sums::add_parts(sums, &[of_fit]);
        }
    }

    pub(crate) fn tallies(&self) -> Vec<Sums> {
        match self {
            Self::Grid(grid) => grid.tallies(),
            Self::Runs(runs, sums) => runs.iter().map(|run| sums(run.outcome())).collect(),
        }
    }

    pub(crate) fn go(&mut self, samples: &[Sample], taken: &Taken<'_>) {
        match self {
            Self::Grid(grid) => grid.play(samples, taken.table, &taken.follow),
            Self::Runs(runs, _) => {
                // The cost of an oracle is not asked for here, so any cost will do.
                let frame = Frame {
                    table: taken.table,
                    cost: Cost::FREE,
                    follow: taken.follow,
                };
                for run in runs.iter_mut() {
                    for sample in samples {
                        run.step_beside(sample, &frame, None);
                    }
                }
            }
        }
    }
}

pub(crate) fn frame(seated: &VcpuInput, cost: Cost) -> Frame<'_> {
    Frame {
        table: &seated.table,
        cost,
        follow: seated.follow,
    }
}

pub(super) fn kvm(terms: &Terms, seated: &VcpuInput, entry: &Entry) -> Result<Run, SpecError> {
    let spec: Spec = "kvm".parse()?;
    let policy = spec.build(&setting(terms, seated, entry, 0))?;
    Ok(Run::new(policy))
}

pub(crate) fn setting(
    terms: &Terms,
    seated: &VcpuInput,
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
