//! From a capture on disk to the sums of its blocks, in two passes. Memory grows with VMs and causes of exits, not
//! with the capture.

use std::collections::BTreeMap;

use haltwise_capture::capture::Capture;
use haltwise_capture::note::Note;
use haltwise_capture::table::Table;
use haltwise_core::account::within::Interval;
use haltwise_core::diff::block::Cut;
use haltwise_core::diff::figure::{Exited, Halted};
use haltwise_core::event::{Halt, HaltCounts, WindowChange};
use haltwise_core::exit::{Cause, Exits, Kind};
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::{Missing, Mode};
use haltwise_core::stats::jackknife::Jackknife;

use crate::exit::Failure;
use crate::reading::load::{self, OverTime};
use crate::reading::opened::{Broken, Opened};
use crate::reading::pass::{PassEnds, Sink};
use crate::reading::recording::Recording;
use crate::words::plural;

#[derive(Debug)]
pub(crate) struct Side<'a> {
    pub(crate) opened: &'a Opened,
    pub(crate) recording: Recording,
    /// Longest interval over which halts, and exits, were counted before they were told.
    halts_interval_ns: u64,
    exits_interval_ns: u64,
    /// Until when halts can be read: to the end, unless their table breaks off.
    halts_end_ns: u64,
    /// Whether all calls of grow and shrink, and all exits, can be read.
    tells_changes: bool,
    exits_whole: bool,
}

#[derive(Debug)]
pub(crate) struct Sums {
    pub(crate) halts: Jackknife<Halted>,
    /// Length of a block of halts; 0 if none can be read.
    pub(crate) block_ns: u64,
    /// By cause; `None` if the capture holds no exits.
    pub(crate) exits: Option<BTreeMap<Cause, Jackknife<Exited>>>,
    /// The same for a cause that was never seen.
    pub(crate) no_exits: Jackknife<Exited>,
}

/// Properties of the halts that must be known before the halts are cut into blocks.
#[derive(Debug, Default)]
pub(crate) struct HaltsSeen {
    interval_ns: u64,
    last_ns: u64,
}

impl Sink for HaltsSeen {
    fn wants(&self, table: Table) -> bool {
        matches!(table, Table::Halts | Table::HaltCounts)
    }

    fn halt(&mut self, halt: &Halt, _: Option<&WindowChange>) {
        self.last_ns = halt.end_ns().max(self.last_ns);
    }

    fn counts(&mut self, counts: &HaltCounts) {
        self.interval_ns = counts.interval_ns.max(self.interval_ns);
        self.last_ns = counts.time_ns.max(self.last_ns);
    }
}

/// Properties of the exits that must be known before the exits are cut into blocks.
#[derive(Debug)]
pub(crate) struct ExitsSeen {
    recorded: bool,
    interval_ns: u64,
    other: u64,
}

impl ExitsSeen {
    pub(crate) fn new(opened: &Opened) -> Self {
        Self {
            recorded: opened.info().exits.is_some(),
            interval_ns: 0,
            other: 0,
        }
    }
}

impl Sink for ExitsSeen {
    fn wants(&self, table: Table) -> bool {
        table == Table::Exits && self.recorded
    }

    fn exits(&mut self, row: &Exits) {
        self.interval_ns = row.interval_ns.max(self.interval_ns);
        if row.cause.kind == Kind::Other {
            self.other = self.other.saturating_add(row.count);
        }
    }
}

pub(crate) fn side(opened: &Opened) -> Result<Side<'_>, Failure> {
    let (mut halts, mut exits) = (HaltsSeen::default(), ExitsSeen::new(opened));
    let (recording, ends) = load::load(opened, OverTime::Host, &mut [&mut halts, &mut exits])?;
    Ok(Side::new(
        opened,
        recording,
        (&halts, &ends),
        (&exits, &ends),
    ))
}

/// Whether a table has all rows that were written, as far as can be seen without reading it.
fn is_whole(capture: &Capture, wanted: Table) -> bool {
    !capture.notes().iter().any(|note| match note {
        Note::MissingTable { table, .. }
        | Note::UnreadableTable { table, .. }
        | Note::RowsDiffer { table, .. } => *table == wanted,
        _ => false,
    })
}

impl<'a> Side<'a> {
    pub(crate) fn new(
        opened: &'a Opened,
        recording: Recording,
        halts: (&HaltsSeen, &PassEnds),
        exits: (&ExitsSeen, &PassEnds),
    ) -> Self {
        let capture = opened.capture();
        let whole =
            |ends: &PassEnds, table| ends.broken(table).is_none() && is_whole(capture, table);
        let mut side = Self {
            tells_changes: recording.reported.mode == Mode::Full
                && whole(halts.1, Table::WindowChanges),
            halts_end_ns: recording.interval().end_ns,
            opened,
            recording,
            halts_interval_ns: halts.0.interval_ns,
            exits_interval_ns: exits.0.interval_ns,
            exits_whole: exits.0.recorded && whole(exits.1, Table::Exits),
        };
        let table = match side.recording.reported.mode {
            Mode::Counts | Mode::Stats => Table::HaltCounts,
            Mode::Full => Table::Halts,
        };
        if !whole(halts.1, table) {
            // A table that breaks off ends there, or the time after the break would seem to be without halts.
            side.halts_end_ns = halts.0.last_ns.max(side.recording.reported.start_ns);
            // These go on, and would all seem to fall on the last moment.
            side.tells_changes = false;
        }
        if exits.0.recorded {
            side.note_exits(exits.0.other, exits.1.broken(Table::Exits));
        }
        side
    }

    fn note_exits(&mut self, other: u64, broken: Option<&Broken>) {
        self.recording.take_notes(self.opened.capture());
        if let Some(broken) = broken {
            self.recording.breaks_off(broken);
        }
        let notes = &mut self.recording.reported.notes;
        if !self.exits_whole {
            notes.push("not all exits can be read, so none are compared".to_owned());
        }
        if other > 0 {
            let exits = plural(other, "exit");
            notes.push(format!(
                "{exits} did not fit into the recorder's table and are not included"
            ));
        }
    }

    fn tells(&self, field: &str) -> bool {
        let mut missing = self.recording.reported.missing.iter();
        !missing.any(|missing| fields(missing).any(|one| one == field))
    }

    /// Sums up each of these VMs, and the host for `None`.
    pub(crate) fn summing(&self, vms: Vec<Option<&[VmIndex]>>) -> Summing {
        Summing {
            places: Places::new(&vms),
            subjects: (vms.into_iter())
                .map(|it| SubjectBlocks::new(self, it))
                .collect(),
            full: self.recording.reported.mode == Mode::Full,
            exits: self.exits_whole,
        }
    }
}

/// Sums up the blocks of all VMs and of the host while a capture is read.
pub(crate) struct Summing {
    subjects: Vec<SubjectBlocks>,
    places: Places,
    full: bool,
    exits: bool,
}

impl Summing {
    fn each(&mut self, vm: Option<VmIndex>, mut take: impl FnMut(&mut SubjectBlocks)) {
        for place in self.places.of(vm) {
            take(&mut self.subjects[place]);
        }
    }

    pub(crate) fn finish(self) -> Vec<Sums> {
        let all = self.subjects.into_iter();
        all.map(|it| it.finish(self.exits)).collect()
    }
}

impl Sink for Summing {
    fn wants(&self, table: Table) -> bool {
        match table {
            Table::Halts | Table::WindowChanges => self.full,
            Table::HaltCounts => !self.full,
            Table::Exits => self.exits,
            _ => false,
        }
    }

    fn halt(&mut self, halt: &Halt, _: Option<&WindowChange>) {
        self.each(halt.vm, |it| it.block(halt.end_ns()).halt(halt));
    }

    fn change(&mut self, change: &WindowChange) {
        self.each(change.vm, |it| it.block(change.time_ns).change(change));
    }

    fn counts(&mut self, counts: &HaltCounts) {
        let middle = counts.time_ns.saturating_sub(counts.interval_ns / 2);
        self.each(counts.vm, |it| it.block(middle).counts(counts));
    }

    fn exits(&mut self, row: &Exits) {
        if is_compared(row) {
            self.each(row.vm, |it| it.exits(row));
        }
    }
}

pub(super) fn fields(missing: &Missing) -> impl Iterator<Item = &str> {
    missing.field.split(',').map(str::trim)
}

/// Exits, and what stands for them where KVM virtualises in software.
fn is_compared(row: &Exits) -> bool {
    matches!(
        row.cause.kind,
        Kind::Exit | Kind::UserspaceExit | Kind::InjVirq | Kind::EmulateInsn
    )
}

struct SubjectBlocks {
    cut: Cut,
    halts: Vec<Halted>,
    exits_cut: Cut,
    exits: BTreeMap<Cause, Vec<Exited>>,
}

impl SubjectBlocks {
    fn new(side: &Side<'_>, indices: Option<&[VmIndex]>) -> Self {
        let recording = &side.recording;
        let presence = indices.and_then(|indices| {
            let vms = recording.info.roster.vms.iter();
            let vms = vms.filter(|vm| indices.contains(&vm.index));
            vms.map(|vm| recording.interval_of(vm))
                .reduce(Interval::hull)
        });
        let there = presence.unwrap_or_else(|| recording.interval());
        let (from_ns, to_ns) = (there.start_ns, there.end_ns);
        let halts_to_ns = side.halts_end_ns.min(to_ns);
        let cut = Cut::new(from_ns, halts_to_ns, side.halts_interval_ns);
        let block = Halted {
            span_ns: if halts_to_ns > from_ns {
                cut.block_ns()
            } else {
                0
            },
            tells_changes: side.tells_changes && side.tells("change"),
            ..Halted::default()
        };
        Self {
            halts: vec![block; cut.count()],
            cut,
            exits_cut: Cut::new(from_ns, to_ns, side.exits_interval_ns),
            exits: BTreeMap::new(),
        }
    }

    fn block(&mut self, time_ns: u64) -> &mut Halted {
        let place = self.cut.place(time_ns);
        &mut self.halts[place]
    }

    fn exits(&mut self, row: &Exits) {
        let middle = row.time_ns.saturating_sub(row.interval_ns / 2);
        let place = self.exits_cut.place(middle);
        let none = no_exits(&self.exits_cut);
        let cause = Cause {
            sub: None,
            ..row.cause
        };
        self.exits.entry(cause).or_insert(none)[place].exits(row);
    }

    fn finish(self, with_exits: bool) -> Sums {
        let exits = self.exits.into_iter();
        Sums {
            block_ns: self.halts.first().map_or(0, |block| block.span_ns),
            halts: Jackknife::new(self.halts),
            exits: with_exits.then(|| {
                exits
                    .map(|(cause, blocks)| (cause, Jackknife::new(blocks)))
                    .collect()
            }),
            no_exits: Jackknife::new(no_exits(&self.exits_cut)),
        }
    }
}

fn no_exits(cut: &Cut) -> Vec<Exited> {
    let block = Exited {
        span_ns: cut.block_ns(),
        ..Exited::default()
    };
    vec![block; cut.count()]
}

/// Places of those compared, by VM; of the host under `None`.
struct Places(BTreeMap<Option<VmIndex>, Vec<usize>>);

impl Places {
    fn new(vms: &[Option<&[VmIndex]>]) -> Self {
        let mut places = BTreeMap::<_, Vec<usize>>::new();
        for (place, vms) in vms.iter().enumerate() {
            let indices = |vms: &[VmIndex]| vms.iter().copied().map(Some).collect();
            for key in vms.map_or_else(|| vec![None], indices) {
                places.entry(key).or_default().push(place);
            }
        }
        Self(places)
    }

    fn of(&self, vm: Option<VmIndex>) -> impl Iterator<Item = usize> {
        let own = self.0.get(&vm).filter(|_| vm.is_some());
        let all = [self.0.get(&None), own].into_iter().flatten();
        all.flatten().copied()
    }
}
