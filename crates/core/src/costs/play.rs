//! From the halts of a capture to the figures of each VM, setting and half.

use std::collections::BTreeMap;

use super::figures::{EVERY, Figures};
use super::grid::{self, Kind};
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

/// Costs of a VM's halts.
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

/// A setting of the table, with those of its entries that stand for each start.
struct Wanted {
    kind: Kind,
    knobs: Knobs,
    zero: usize,
    /// From the ceiling, where the setting does what the one in force does.
    ceiling: Option<usize>,
}

/// Plays the grid, what is in force, the default and the bounds; recorded figures are there if
/// [`crate::tune::Gather::with_recorded`] has kept them. Fails where a policy cannot be built.
pub fn costs(
    inputs: &Inputs,
    switch_cpu_ns: u64,
    pool: &impl Pool,
) -> Result<Vec<VmCosts>, SpecError> {
    let (entries, wanted) = entries(inputs);
    let oracle: Spec = "clairvoyant".parse()?;
    let pieces = pool.each("evaluating settings", inputs.seats.len(), |at| {
        let seated = &inputs.seats[at];
        let mut of_seat = vec![recorded(inputs, seated)];
        of_seat.extend(played(inputs, seated, &entries));
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
    let mut vms = BTreeMap::<Option<VmIndex>, OfVm>::new();
    for (seated, piece) in inputs.seats.iter().zip(pieces) {
        let piece: Vec<[Figures; 2]> = piece?;
        vms.entry(seated.seat.vm).or_default().add(seated, &piece);
    }
    let sums: Vec<&OfVm> = vms.values().collect();
    let from_ceiling = is_nearer_from_ceiling(inputs, &wanted, &sums);
    let of_vm = |(vm, of): (Option<VmIndex>, OfVm)| VmCosts {
        vm,
        vcpus: of.vcpus,
        own_ceiling_ns: of.own_ceiling_ns,
        lines: lines(&wanted, &of.sums, from_ceiling),
    };
    Ok(vms.into_iter().map(of_vm).collect())
}

/// Sums over a VM's vCPUs: recorded, entry by entry, bound by bound.
#[derive(Debug, Default)]
struct OfVm {
    vcpus: u32,
    own_ceiling_ns: Option<u32>,
    sums: Vec<[Figures; 2]>,
}

impl OfVm {
    fn add(&mut self, seated: &VcpuInput, of_seat: &[[Figures; 2]]) {
        self.vcpus += 1;
        self.own_ceiling_ns = self.own_ceiling_ns.or(seated.own_ceiling_ns);
        self.sums.resize_with(of_seat.len(), Default::default);
        for (sums, halves) in self.sums.iter_mut().zip(of_seat) {
            sums.fold(halves);
        }
    }
}

/// All that is replayed as KVM's rule: the setting in force from both starts, then the others; and what of it is
/// in the table.
fn entries(inputs: &Inputs) -> (Vec<Entry>, Vec<Wanted>) {
    let in_force = Entry::new(inputs.terms.in_force).recorded();
    let named = [
        (Kind::InForce, in_force),
        (Kind::Default, Entry::new(inputs.terms.default_knobs())),
    ];
    let grid = grid::settings().into_iter();
    let grid = grid.map(|knobs| (Kind::Grid, Entry::new(knobs)));
    let (mut entries, mut wanted) = (Vec::new(), Vec::new());
    for (kind, entry) in named.into_iter().chain(grid) {
        let zero = entries.len();
        entries.push(entry);
        let is_same = entry.does_the_same(&in_force, inputs);
        if is_same {
            entries.push(Entry {
                start: Start::Ceiling,
                ..entry
            });
        }
        wanted.push(Wanted {
            kind,
            knobs: entry.knobs,
            zero,
            ceiling: is_same.then_some(zero + 1),
        });
    }
    (entries, wanted)
}

/// Whether as many halts as recorded sleep under the setting in force from its ceiling, rather than from no window.
fn is_nearer_from_ceiling(inputs: &Inputs, wanted: &[Wanted], vms: &[&OfVm]) -> bool {
    let recorded = inputs.seats.iter().map(|seated| seated.recorded.blocks);
    let recorded: u64 = recorded.sum();
    let Some((zero, ceiling)) = wanted.first().and_then(|it| Some((it.zero, it.ceiling?))) else {
        return false;
    };
    let mut sleeps = [0_u64; 2];
    for of_vm in vms {
        for (sleeps, at) in sleeps.iter_mut().zip([zero, ceiling]) {
            // The recorded sums come before the replayed sums.
            let halves = of_vm.sums[at + 1].iter();
            *sleeps += halves.map(|half| half.sums.blocks).sum::<u64>();
        }
    }
    sleeps[1].abs_diff(recorded) < sleeps[0].abs_diff(recorded)
}

/// The rows of a VM out of its sums: recorded, entry by entry, bound by bound.
fn lines(wanted: &[Wanted], sums: &[[Figures; 2]], from_ceiling: bool) -> Vec<Line> {
    let line = |kind, knobs, at: usize| Line {
        kind,
        knobs,
        halves: sums[at].clone(),
    };
    let mut lines = Vec::new();
    if sums[0].iter().any(|half| half.sums.halts > 0) {
        lines.push(line(Kind::Recorded, None, 0));
    }
    lines.extend(wanted.iter().map(|it| {
        let at = it.ceiling.filter(|_| from_ceiling).unwrap_or(it.zero);
        line(it.kind, Some(it.knobs), at + 1)
    }));
    let first = sums.len() - Kind::ORACLES.len();
    let bounds = Kind::ORACLES.iter().enumerate();
    lines.extend(bounds.map(|(n, (kind, _))| line(*kind, None, first + n)));
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
