//! Steps from a capture. Rows are read in batches: memory grows with vCPUs and steps, and steps are longer where
//! there would be too many.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use haltwise_capture::capture::Capture;
use haltwise_capture::note::Note;
use haltwise_capture::table::Table;
use haltwise_core::account::seen::Span;
use haltwise_core::account::within::Interval;
use haltwise_core::event::{Halt, HaltCounts, Knob, KnobScope, Vm, WindowChange};
use haltwise_core::exit::Exits;
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::{Mode, Roster};
use haltwise_core::stats::total;

use super::step::{Around, Step, Used, used_so_far};
use super::timeline::Origin;
use super::timeline::Timeline;
use crate::exit::Failure;
use crate::reading::opened::{Broken, Opened, explain_shared, in_a_line};
use crate::reading::pass::{Sink, feed, pass};
use crate::reading::select;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// Length in nanoseconds; longer where the capture is long.
    Ns(u64),
    Whole,
}

/// Reads a capture. `pick` says which VMs are wanted; `None` for all, and for what is of no VM.
pub(crate) fn load(
    dir: &Path,
    length: Length,
    pick: impl FnOnce(&Roster) -> Result<Option<Vec<VmIndex>>, Failure>,
) -> Result<(Origin, Timeline), Failure> {
    let opened = Opened::open(dir)?;
    let capture = opened.capture();
    let wanted = pick(&capture.info().roster)?;
    let mut from = capture.info().clock.start_monotonic_ns;
    let step = |end| Step::between(std::mem::replace(&mut from, end), end);
    let mut reader = Reader {
        steps: ends(&opened, length).into_iter().map(step).collect(),
        wanted,
        is_full: capture.info().mode == Mode::Full,
        has_exits: capture.info().exits.is_some(),
        facts: 0,
    };
    let ends = pass(&opened, "reading", &mut [&mut reader]);
    reader.small_tables(&opened);
    // Not before: what was left out is known by now.
    let mut origin = origin(capture, dir);
    let small = [
        &opened.host_samples().broken,
        &opened.lost().broken,
        &opened.knobs().broken,
    ];
    let small = small.into_iter().flatten();
    let broken: Vec<&Broken> = ends.all_broken().chain(small).collect();
    if let (0, Some(first)) = (reader.facts, broken.first()) {
        return Err(explain_shared(first));
    }
    for error in broken {
        let note = in_a_line(error);
        if !origin.notes.iter().any(|known| known.contains(&note)) {
            origin.notes.push(note);
        }
        origin.partial = true;
    }
    let steps = reader.finish(&opened);
    Ok((origin, Timeline::of(steps)))
}

fn origin(capture: &Capture, dir: &Path) -> Origin {
    let info = capture.info();
    let hostname = info.host.hostname.clone();
    let mut origin = Origin {
        capture: Some(dir.display().to_string()),
        hostname: hostname.unwrap_or_else(|| "unnamed".to_owned()),
        kernel: info.host.kernel_release.clone(),
        rung: info.rung,
        mode: info.mode,
        clock: info.clock.clone(),
        names: info
            .exits
            .as_ref()
            .map(haltwise_core::exit::Recorded::names),
        missing: info.missing.clone(),
        notes: Vec::new(),
        partial: false,
    };
    for note in capture.notes() {
        let whole = matches!(note, Note::Dropped(_) | Note::StillRecording);
        origin.partial |= !whole;
        origin.notes.push(note.to_string());
    }
    origin
}

/// More cells, each a vCPU in a step, are not kept: an hour of ten vCPUs in steps of a second, some hundred megabytes.
const CELLS: u64 = 40_000;

const STEPS: u64 = 20_000;

/// The moments at which steps end: at even distances; in counts mode where the recorder read its counts.
fn ends(opened: &Opened, length: Length) -> Vec<u64> {
    let info = opened.info();
    let start_ns = info.clock.start_monotonic_ns;
    let ended = info.ended.as_ref().map(|ended| ended.time_ns);
    let along = info.mode == Mode::Counts && matches!(length, Length::Ns(_));
    // A recording without an end lasts until its last row. Rows that cannot be read are reported by the second pass.
    let (mut last_ns, mut read) = (start_ns, BTreeSet::new());
    if ended.is_none() {
        let see = |halt: Halt| last_ns = last_ns.max(halt.end_ns());
        feed(opened.capture().halts(), see).ok();
        let samples = opened.host_samples().rows.iter();
        last_ns = samples.fold(last_ns, |last_ns, it| last_ns.max(it.time_ns));
    }
    if ended.is_none() || along {
        let see = |counts: HaltCounts| {
            last_ns = last_ns.max(counts.time_ns);
            read.insert(counts.time_ns);
        };
        feed(opened.capture().halt_counts(), see).ok();
    }
    let whole = Interval {
        start_ns,
        end_ns: ended.unwrap_or(last_ns).max(start_ns),
    };
    match length {
        Length::Whole => vec![whole.end_ns],
        Length::Ns(ns) => {
            let ns = bounded(&info.roster, whole, ns);
            if along {
                at_readings(whole, ns, read)
            } else {
                even(whole, ns)
            }
        }
    }
}

/// The length of steps: as asked, doubled until there are neither too many steps nor too many cells.
fn bounded(roster: &Roster, whole: Interval, length_ns: u64) -> u64 {
    let lived = |vm: &Vm| (vm.index, whole.of_vm(vm).length_ns());
    let lived: BTreeMap<VmIndex, u64> = roster.vms.iter().map(lived).collect();
    let cells = |length_ns: u64| -> u64 {
        let vcpus = roster.vcpus.iter().filter_map(|vcpu| lived.get(&vcpu.vm));
        total(vcpus.map(|lived_ns| lived_ns.div_ceil(length_ns).max(1)))
    };
    let mut length_ns = length_ns.max(1);
    while length_ns < whole.length_ns()
        && (whole.length_ns() / length_ns > STEPS || cells(length_ns) > CELLS)
    {
        length_ns = length_ns.saturating_mul(2);
    }
    length_ns
}

/// Steps of the same length; the last may be up to a half longer or shorter.
fn even(whole: Interval, length_ns: u64) -> Vec<u64> {
    let count = (whole.length_ns() / length_ns).max(1);
    let ends = (1..=count).map(|n| whole.start_ns.saturating_add(n.saturating_mul(length_ns)));
    closed(ends.collect(), whole.end_ns, length_ns)
}

/// Steps that end at some of the readings, no nearer to each other than most of a length.
fn at_readings(whole: Interval, length_ns: u64, readings: BTreeSet<u64>) -> Vec<u64> {
    // A reading comes a little late, and the next is late by as much less.
    let near = length_ns - length_ns / 10;
    let mut ends = Vec::new();
    let mut from = whole.start_ns;
    for reading in readings {
        if reading <= whole.end_ns && reading >= from.saturating_add(near) {
            ends.push(reading);
            from = reading;
        }
    }
    if ends.is_empty() {
        return vec![whole.end_ns];
    }
    closed(ends, whole.end_ns, length_ns)
}

fn closed(mut ends: Vec<u64>, end_ns: u64, length_ns: u64) -> Vec<u64> {
    match ends.last_mut() {
        Some(last) if *last > end_ns || end_ns - *last <= length_ns / 2 => *last = end_ns,
        _ => ends.push(end_ns),
    }
    ends
}

/// Facts between two looks at what only building needs.
const LOOK: u64 = 1 << 16;

struct Reader {
    steps: Vec<Step>,
    wanted: Option<Vec<VmIndex>>,
    is_full: bool,
    has_exits: bool,
    facts: u64,
}

impl Reader {
    fn is_wanted(&self, vm: Option<VmIndex>) -> bool {
        select::is_among(self.wanted.as_deref(), vm)
    }

    /// The step of a moment: the first that does not end before it; else the last.
    fn at(&mut self, time_ns: u64) -> &mut Step {
        let place = self.steps.partition_point(|step| step.end_ns < time_ns);
        let place = place.min(self.steps.len() - 1);
        &mut self.steps[place]
    }

    fn step(&mut self, vm: Option<VmIndex>, time_ns: u64) -> Option<&mut Step> {
        self.facts += 1;
        if self.facts.is_multiple_of(LOOK) {
            self.steps.iter_mut().for_each(Step::settle);
        }
        self.is_wanted(vm).then(|| self.at(time_ns))
    }

    fn small_tables(&mut self, opened: &Opened) {
        for sample in &opened.host_samples().rows {
            self.at(sample.time_ns).host.sample(sample);
        }
        for lost in &opened.lost().rows {
            self.at(lost.time_ns).lost(lost);
        }
    }

    fn finish(mut self, opened: &Opened) -> Vec<Step> {
        let info = opened.info();
        let mut steps = std::mem::take(&mut self.steps);
        steps.iter_mut().for_each(Step::settle);
        if let Some(first) = steps.first_mut() {
            first.start_ns = first.told().start_ns;
        }
        if let Some(last) = steps.last_mut() {
            last.end_ns = last.told().end_ns;
        }
        let roster = &of_interval(&info.roster, &steps);
        let mut knobs: Vec<&Knob> = info.knobs.iter().chain(&opened.knobs().rows).collect();
        knobs.retain(|knob| knob.scope == KnobScope::Host);
        knobs.sort_by_key(|knob| knob.time_ns);
        let mut knobs = knobs.into_iter().peekable();
        let mut around = Around {
            added_ns_per_halt: info.overhead.and_then(|it| it.added_ns_per_halt),
            ..Around::default()
        };
        let mut sample = None;
        for step in &mut steps {
            around.advance(step, roster, |vm| self.is_wanted(Some(vm.index)));
            while let Some(knob) = knobs.next_if(|knob| knob.time_ns <= step.end_ns) {
                around.set(knob);
            }
            if let Some(before) = &sample {
                step.host.sample(before);
            }
            sample = step.host.last_sample();
            step.around = around.clone();
        }
        // A capture has the CPU time of all of it.
        if let [whole] = &mut steps[..] {
            whole.use_cpus(&Used::new(), &used_so_far(roster));
        }
        if let Some(last) = steps.last_mut() {
            tell_totals(last, info.lost.iter());
        }
        steps
    }
}

impl Sink for Reader {
    fn wants(&self, table: Table) -> bool {
        match table {
            Table::Halts | Table::WindowChanges => self.is_full,
            // In a full recording: halts whose rows were not written.
            Table::HaltCounts => true,
            Table::Exits => self.has_exits,
            _ => false,
        }
    }

    fn halt(&mut self, halt: &Halt, _: Option<&WindowChange>) {
        if let Some(step) = self.step(halt.vm, halt.end_ns()) {
            step.halt(halt);
        }
    }

    fn change(&mut self, change: &WindowChange) {
        if let Some(step) = self.step(change.vm, change.time_ns) {
            step.window(change);
        }
    }

    fn counts(&mut self, counts: &HaltCounts) {
        if let Some(step) = self.step(counts.vm, counts.time_ns) {
            step.counts(counts);
        }
    }

    fn exits(&mut self, row: &Exits) {
        if let Some(step) = self.step(row.vm, row.time_ns) {
            step.exits(row);
        }
    }
}

/// Adds the total losses that a recorder reports, where its table reports less.
fn tell_totals<'a>(step: &mut Step, totals: impl Iterator<Item = (&'a String, &'a u64)>) {
    let time_ns = step.end_ns;
    let lost = Rc::make_mut(&mut step.around.lost);
    for (place, total) in totals {
        let told = lost.get(place).map_or(0, |span| span.count);
        let more = total.saturating_sub(told);
        if more > 0 {
            let more = Span::of_one(time_ns).times(more);
            lost.add(place.clone(), &more);
            step.lost.add(place.clone(), &more);
        }
    }
}

/// The roster in order, with the time in which each VM was there, as far as that was not all of the capture.
fn of_interval(roster: &Roster, steps: &[Step]) -> Roster {
    let ends = steps.first().zip(steps.last());
    let whole = ends.map_or_else(Interval::default, |(first, last)| Interval {
        start_ns: first.start_ns,
        end_ns: last.end_ns,
    });
    let mut roster = roster.clone();
    for vm in &mut roster.vms {
        let there = whole.of_vm(vm);
        let came = there.start_ns > whole.start_ns;
        vm.from_ns = came.then_some(there.start_ns);
    }
    for vcpu in &mut roster.vcpus {
        // Known at the end of the recording alone.
        vcpu.window_ns = None;
    }
    roster.vms.sort_by_key(|vm| vm.index);
    roster.vcpus.sort_by_key(|vcpu| (vcpu.vm, vcpu.id));
    roster
}

#[cfg(test)]
mod test;
