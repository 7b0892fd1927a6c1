//! Steps from a capture. Rows are read in batches: what is kept is as large as there are vCPUs and
//! steps, and where that is too much, steps become longer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use haltwise_capture::capture::Capture;
use haltwise_capture::note::Note;
use haltwise_capture::table::Table;
use haltwise_core::account::seen::Span;
use haltwise_core::account::within::Interval;
use haltwise_core::event::{Halt, HaltCounts, Knob, KnobScope, Vcpu, Vm, WindowChange};
use haltwise_core::exit::Exits;
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::{Mode, Roster};
use haltwise_core::stats::Fold;

use super::grid::Grid;
use super::origin::Origin;
use super::step::{Key, Losses, Step, Used};
use super::timeline::Timeline;
use crate::exit::Failure;
use crate::reading::open::{explain_shared, in_a_line};
use crate::reading::opened::{Broken, Opened};
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
    let mut reader = Reader {
        grid: grid(&opened, length),
        knobs: capture.info().knobs.clone(),
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
    let steps = reader.finish(capture);
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
        let whole = matches!(
            note,
            Note::OutOfOrder { .. } | Note::Dropped(_) | Note::StillRecording
        );
        origin.partial |= !whole;
        origin.notes.push(note.to_string());
    }
    origin
}

/// Where steps end: at even distances; in counts mode where the recorder read its counts.
fn grid(opened: &Opened, length: Length) -> Grid {
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
    let end_ns = ended.unwrap_or(last_ns).max(start_ns);
    match length {
        Length::Whole => Grid::whole(start_ns, end_ns),
        Length::Ns(ns) if along => Grid::along(start_ns, end_ns, ns, read),
        Length::Ns(ns) => Grid::even(start_ns, end_ns, ns),
    }
}

struct Reader {
    grid: Grid,
    knobs: Vec<Knob>,
    wanted: Option<Vec<VmIndex>>,
    is_full: bool,
    has_exits: bool,
    /// Rows of the large tables.
    facts: u64,
}

impl Reader {
    fn is_wanted(&self, vm: Option<VmIndex>) -> bool {
        select::is_among(self.wanted.as_deref(), vm)
    }

    /// Puts the small tables into their steps.
    fn small_tables(&mut self, opened: &Opened) {
        let (samples, lost, knobs) = (opened.host_samples(), opened.lost(), opened.knobs());
        for sample in &samples.rows {
            self.grid.at(sample.time_ns).host(sample);
        }
        // Halts that are in the counts are not lost here.
        let info = opened.info();
        let lost_rows = lost.rows.iter();
        for lost in lost_rows.filter(|lost| !info.is_in_counts(&lost.place)) {
            self.grid.at(lost.time_ns).lost(lost);
        }
        self.knobs.extend(knobs.rows.iter().cloned());
    }

    /// The step of a row, where its VM is wanted.
    fn step(&mut self, vm: Option<VmIndex>, time_ns: u64) -> Option<&mut Step> {
        self.facts += 1;
        self.is_wanted(vm).then(|| self.grid.at(time_ns))
    }

    fn finish(mut self, capture: &Capture) -> Vec<Step> {
        let info = capture.info();
        let mut steps = std::mem::take(&mut self.grid).finish();
        if let Some(first) = steps.first_mut() {
            first.start_ns = first.told().start_ns;
        }
        if let Some(last) = steps.last_mut() {
            last.end_ns = last.told().end_ns;
        }
        let roster = &of_interval(&info.roster, &steps);
        self.knobs.retain(|knob| knob.scope == KnobScope::Host);
        self.knobs.sort_by_key(|knob| knob.time_ns);
        let mut knobs = self.knobs.iter().peekable();
        let mut in_force = Rc::new(BTreeMap::new());
        let mut lost = Losses::default();
        let mut there = There::default();
        let mut sample = None;
        for step in &mut steps {
            let until = step.end_ns;
            let is_there = |vm: &Vm| {
                let acted = step.acted(Key::Vm(vm.index));
                self.is_wanted(Some(vm.index)) && (acted || step.holds(vm))
            };
            there.come(roster, is_there);
            let map = Rc::make_mut(&mut in_force);
            while let Some(knob) = knobs.next_if(|knob| knob.time_ns <= until) {
                map.insert(knob.name.clone(), knob.value.clone());
            }
            lost.fold(&step.lost);
            if let Some(before) = sample {
                step.host(&before);
            }
            sample = step.last_sample().copied();
            step.around.vms = Rc::clone(&there.vms);
            step.around.vcpus = Rc::clone(&there.vcpus);
            step.around.knobs = Rc::clone(&in_force);
            step.around.lost = Rc::new(lost.clone());
            step.around.added_ns_per_halt = info.overhead.and_then(|o| o.added_ns_per_halt);
        }
        // A capture has the CPU time of all of it.
        if let [whole] = &mut steps[..] {
            whole.used = Used::so_far(roster);
        }
        if let Some(last) = steps.last_mut() {
            let lost = info
                .lost
                .iter()
                .filter(|(place, _)| !info.is_in_counts(place));
            tell_totals(last, lost);
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

/// The roster with the time in which each VM was there, as far as it was not all of it.
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
    roster
}

/// VMs that were there in a step, or did something in it, and their vCPUs.
#[derive(Debug, Default)]
struct There {
    vms: Rc<Vec<Vm>>,
    vcpus: Rc<Vec<Vcpu>>,
}

impl There {
    fn come(&mut self, roster: &Roster, is_there: impl Fn(&Vm) -> bool) {
        let vms: Vec<&Vm> = roster.vms.iter().filter(|vm| is_there(vm)).collect();
        if vms
            .iter()
            .map(|vm| vm.index)
            .eq(self.vms.iter().map(|vm| vm.index))
        {
            return;
        }
        let there: BTreeSet<VmIndex> = vms.iter().map(|vm| vm.index).collect();
        let vcpus = (roster.vcpus.iter()).filter(|vcpu| there.contains(&vcpu.vm));
        // The windows of a roster are those of the end.
        let vcpus = vcpus.map(|vcpu| Vcpu {
            window_ns: None,
            ..vcpu.clone()
        });
        let mut vcpus: Vec<Vcpu> = vcpus.collect();
        vcpus.sort_by_key(|vcpu| (vcpu.vm, vcpu.id));
        self.vcpus = Rc::new(vcpus);
        self.vms = Rc::new(vms.into_iter().cloned().collect());
    }
}
