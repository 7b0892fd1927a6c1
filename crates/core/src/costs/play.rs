//! From the halts of a capture to the figures of each VM, setting and half. Figures are sums of whole numbers, which add
//! up in any order.

use std::collections::BTreeMap;

use super::grid::{self, Kind};
use crate::account::sums::folds;
use crate::hist::LogHist;
use crate::ids::VmIndex;
use crate::kvm::Knobs;
use crate::policy::{Spec, SpecError, Start};
use crate::replay::Cost;
use crate::replay::Sums;
use crate::replay::run::Run;
use crate::stats::Fold;
use crate::tune::figures;
use crate::tune::inputs::{Inputs, VcpuInput};
use crate::tune::pool::Pool;
use crate::tune::stage::{self, Entry, Player, Taken};

/// The latency of every so many-th halt of a vCPU is in the histogram. A prime: few loads repeat after so many halts.
pub const EVERY: usize = 17;

/// Sums over halts. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// Without the histogram.
    pub sums: Sums,
    /// Wake-up latency of every [`EVERY`]-th halt of each vCPU; 0 for those that did not sleep.
    pub latency: LogHist,
}

folds! {
    Figures { sums, latency }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmCosts {
    /// Which; `None` of halts whose VM is not known.
    pub vm: Option<VmIndex>,
    /// vCPUs that halted.
    pub vcpus: u32,
    /// A ceiling of its own, which no module parameter reaches.
    pub own_ceiling_ns: Option<u32>,
    pub lines: Vec<Line>,
}

impl VmCosts {
    /// Adds what came of other halts of the same VM, under the same settings.
    pub fn add(&mut self, other: Self) {
        self.vcpus = self.vcpus.max(other.vcpus);
        self.own_ceiling_ns = self.own_ceiling_ns.or(other.own_ceiling_ns);
        for line in other.lines {
            let is_it = |own: &&mut Line| (own.kind, own.knobs) == (line.kind, line.knobs);
            match self.lines.iter_mut().find(is_it) {
                Some(own) => own.halves.fold(&line.halves),
                None => self.lines.push(line),
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub kind: Kind,
    /// The parameters, of those kinds that have them.
    pub knobs: Option<Knobs>,
    /// The figures of the half that fits and of the one that validates.
    pub halves: [Figures; 2],
}

/// Plays the grid, what is in force, the default and the bounds; recorded figures are there if
/// [`crate::tune::Gather::with_recorded`] has kept them. Fails where a policy cannot be built.
pub fn costs(
    inputs: &Inputs,
    switch_cpu_ns: u64,
    pool: &impl Pool,
) -> Result<Vec<VmCosts>, SpecError> {
    let in_force = Entry::new(inputs.terms.in_force).recorded();
    let wanted = wanted(inputs, in_force);
    let mut entries: Vec<Entry> = wanted.iter().map(|(_, entry)| *entry).collect();
    entries.push(Entry {
        start: Start::Ceiling,
        ..in_force
    });
    let oracle: Spec = "clairvoyant".parse()?;
    let pieces = pool.each("evaluating settings", inputs.seats.len(), |at| {
        let seated = &inputs.seats[at];
        let mut of_seat = played(inputs, seated, &entries);
        of_seat.push(recorded(inputs, seated));
        for (_, latency_weight_milli) in Kind::ORACLES {
            let cost = Cost {
                switch_cpu_ns,
                latency_weight_milli,
                ..Cost::FREE
            };
            of_seat.push(bound(inputs, seated, &oracle, cost)?);
        }
        Ok(of_seat)
    });
    let mut vms = BTreeMap::<Option<VmIndex>, (Vec<&VcpuInput>, Vec<[Figures; 2]>)>::new();
    for (seated, piece) in inputs.seats.iter().zip(pieces) {
        let piece: Vec<[Figures; 2]> = piece?;
        let (seats, sums) = vms.entry(seated.seat.vm).or_default();
        seats.push(seated);
        sums.resize_with(piece.len(), Default::default);
        for (sums, halves) in sums.iter_mut().zip(&piece) {
            sums.fold(halves);
        }
    }
    let from_ceiling = is_nearer_from_ceiling(inputs, wanted.len(), vms.values().map(|it| &it.1));
    let stands_for = |(at, (_, entry)): (usize, &(Kind, Entry))| {
        let is_moved = from_ceiling && entry.does_the_same(&in_force, inputs);
        if is_moved { wanted.len() } else { at }
    };
    let places: Vec<usize> = wanted.iter().enumerate().map(stands_for).collect();
    let of_vm = |(vm, (seats, sums)): (_, (Vec<&VcpuInput>, Vec<_>))| VmCosts {
        vm,
        vcpus: u32::try_from(seats.len()).unwrap_or(u32::MAX),
        own_ceiling_ns: seats.iter().find_map(|seated| seated.own_ceiling_ns),
        lines: lines(&wanted, &places, &sums),
    };
    Ok(vms.into_iter().map(of_vm).collect())
}

/// The settings of a table that KVM's rule replays: the one in force first.
fn wanted(inputs: &Inputs, in_force: Entry) -> Vec<(Kind, Entry)> {
    let default = Entry::new(inputs.terms.default_knobs());
    let mut wanted = vec![(Kind::InForce, in_force), (Kind::Default, default)];
    let grid = grid::settings().into_iter();
    wanted.extend(grid.map(|knobs| (Kind::Grid, Entry::new(knobs))));
    wanted
}

/// Whether as many halts as recorded sleep under the setting in force from its ceiling, rather than from no window.
/// `ceiling` is the place of the sums from its ceiling; those from no window are the first.
fn is_nearer_from_ceiling<'a>(
    inputs: &Inputs,
    ceiling: usize,
    vms: impl Iterator<Item = &'a Vec<[Figures; 2]>>,
) -> bool {
    let recorded: u64 = (inputs.seats.iter())
        .map(|seated| seated.recorded.blocks)
        .sum();
    let mut sleeps = [0_u64; 2];
    for sums in vms {
        for (sleeps, at) in sleeps.iter_mut().zip([0, ceiling]) {
            *sleeps += sums[at].iter().map(|half| half.sums.blocks).sum::<u64>();
        }
    }
    sleeps[1].abs_diff(recorded) < sleeps[0].abs_diff(recorded)
}

/// The rows of a VM out of its sums, which are those of all entries, what was recorded, and the bounds. `places` are those
/// of the wanted settings.
fn lines(wanted: &[(Kind, Entry)], places: &[usize], sums: &[[Figures; 2]]) -> Vec<Line> {
    let line = |kind, knobs, at: usize| Line {
        kind,
        knobs,
        halves: sums[at].clone(),
    };
    let recorded = wanted.len() + 1;
    let mut lines = Vec::new();
    if sums[recorded].iter().any(|half| half.sums.halts > 0) {
        lines.push(line(Kind::Recorded, None, recorded));
    }
    let wanted = wanted.iter().zip(places);
    lines.extend(wanted.map(|((kind, entry), at)| line(*kind, Some(entry.knobs), *at)));
    let bounds = Kind::ORACLES.iter().zip(recorded + 1..);
    lines.extend(bounds.map(|((kind, _), at)| line(*kind, None, at)));
    lines
}

/// The figures of a vCPU under every entry. A histogram takes every [`EVERY`]-th halt: what a tally has more after
/// that halt than before.
fn played(inputs: &Inputs, seated: &VcpuInput, entries: &[Entry]) -> Vec<[Figures; 2]> {
    let mut all: Vec<[Figures; 2]> = vec![Default::default(); entries.len()];
    let mut player = Player::new(&inputs.terms, seated, entries);
    let (samples, taken) = (&seated.samples, Taken::recorded(seated));
    let (fit, _) = inputs.halves(seated);
    let ends = [fit.len(), seated.samples.len()];
    let mut from = 0;
    let mut last = player.tallies();
    for (half, end) in ends.into_iter().enumerate() {
        while from < end {
            // The last of each stretch is the one that the histogram takes.
            let next = from / EVERY * EVERY + EVERY - 1;
            if from < next {
                player.go(&samples[from..next.min(end)], &taken);
            }
            if next < end {
                let before = player.tallies();
                player.go(&samples[next..=next], &taken);
                let after = player.tallies();
                for ((all, before), after) in all.iter_mut().zip(before).zip(after) {
                    (all[half].latency).record(after.latency_ns - before.latency_ns);
                }
            }
            from = (next + 1).min(end);
        }
        let now = player.tallies();
        for ((all, last), now) in all.iter_mut().zip(&last).zip(&now) {
            all[half].sums = now.since(last);
        }
        last = now;
    }
    all
}

/// The least that a vCPU's halts can cost.
fn bound(
    inputs: &Inputs,
    seated: &VcpuInput,
    oracle: &Spec,
    cost: Cost,
) -> Result<[Figures; 2], SpecError> {
    let mut run = figures::policy(inputs, seated, oracle, &cost)?;
    let frame = stage::frame(seated, cost);
    let (fit, _) = inputs.halves(seated);
    let mut halves: [Figures; 2] = Default::default();
    for (number, sample) in seated.samples.iter().enumerate() {
        if number == fit.len() {
            halves[0].sums = of_run(&mut run);
        }
        let before_ns = run.outcome().latency_ns;
        run.step(sample, &frame);
        if number % EVERY == EVERY - 1 {
            let latency_ns = run.outcome().latency_ns - before_ns;
            halves[usize::from(number >= fit.len())]
                .latency
                .record(latency_ns);
        }
    }
    let last = usize::from(seated.samples.len() > fit.len());
    halves[last].sums = of_run(&mut run);
    Ok(halves)
}

fn of_run(run: &mut Run) -> Sums {
    Sums::of(&run.take())
}

/// Recorded figures of a vCPU's halts, where the recorded polls were kept.
fn recorded(inputs: &Inputs, seated: &VcpuInput) -> [Figures; 2] {
    let (fit, _) = inputs.halves(seated);
    let mut halves: [Figures; 2] = Default::default();
    let halts = seated.samples.iter().zip(&seated.polls);
    for (number, (sample, poll)) in halts.enumerate() {
        let figures = &mut halves[usize::from(number >= fit.len())];
        figures.sums.fold(&Sums {
            halts: 1,
            blocks: u64::from(poll.waited()),
            failed_polls: u64::from(poll.waited() && poll.poll_ns() > 0),
            poll_ns: poll.poll_ns(),
            latency_ns: sample.latency_ns,
            halt_ns: sample.halt_ns(),
            ..Sums::default()
        });
        if number % EVERY == EVERY - 1 {
            figures.latency.record(sample.latency_ns);
        }
    }
    halves
}
