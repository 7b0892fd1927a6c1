//! From a capture on disk to the sums of its blocks. Rows are read one by one: memory grows with VMs and
//! causes of exits, not with the capture.

use std::collections::BTreeMap;
use std::path::Path;

use haltwise_capture::capture::Capture;
use haltwise_capture::error::CaptureReadError;
use haltwise_capture::note::Note;
use haltwise_capture::rows::Rows;
use haltwise_capture::table::Table;
use haltwise_core::diff::block::Cut;
use haltwise_core::diff::figure::{Exited, Halted};
use haltwise_core::diff::jackknife::Jackknife;
use haltwise_core::exit::{Cause, Exits, Kind};
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::{Missing, Mode};

use super::pair::Whose;
use crate::exit::Failure;
use crate::open::explain;
use crate::report::build::presence_ns;
use crate::report::load as report;
use crate::report::recording::Recording;
use crate::words::plural;

/// A capture that was looked through once.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) capture: Capture,
    /// How it was recorded, and its accounts.
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

/// What is known of somebody.
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

/// Looks through a capture.
pub(crate) fn open(dir: &Path) -> Result<Side, Failure> {
    let capture = Capture::open(dir).map_err(explain)?;
    let recording = report::load(dir)?;
    let mut side = Side {
        tells_changes: recording.mode == Mode::Full
            && is_whole(&capture, Table::WindowChanges)
            && (!recording.damaged || reads(capture.window_changes(), |_| ()).is_ok()),
        halts_end_ns: recording.end_ns,
        capture,
        recording,
        halts_interval_ns: 0,
        exits_interval_ns: 0,
        exits_whole: false,
    };
    look_at_halts(&mut side);
    if side.capture.info().exits.is_some() {
        look_at_exits(&mut side);
    }
    Ok(side)
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

/// Reads a table through.
fn reads<T>(
    rows: Result<Rows<T>, CaptureReadError>,
    mut take: impl FnMut(T),
) -> Result<(), CaptureReadError> {
    for row in rows? {
        take(row?);
    }
    Ok(())
}

/// Over how long halts were counted, and until when they can be read: what breaks off ends there, or
/// the time after it would seem to be without halts. That it did has been noted by the report's reader.
fn look_at_halts(side: &mut Side) {
    let (mut interval_ns, mut last_ns) = (0, side.recording.start_ns);
    let (table, read) = match side.recording.mode {
        Mode::Counts | Mode::Stats => {
            let read = reads(side.capture.halt_counts(), |counts| {
                interval_ns = counts.interval_ns.max(interval_ns);
                last_ns = counts.time_ns.max(last_ns);
            });
            (Table::HaltCounts, read)
        }
        Mode::Full if side.recording.damaged => {
            let read = reads(side.capture.halts(), |halt| {
                last_ns = halt.end_ns().max(last_ns);
            });
            (Table::Halts, read)
        }
        Mode::Full => (Table::Halts, Ok(())),
    };
    side.halts_interval_ns = interval_ns;
    if read.is_err() || !is_whole(&side.capture, table) {
        side.halts_end_ns = last_ns;
        // These go on, and would all seem to fall on the last moment.
        side.tells_changes = false;
    }
}

/// Over how long exits were counted, and whether they can be read: what breaks off is not compared.
fn look_at_exits(side: &mut Side) {
    let (mut interval_ns, mut other) = (0, 0_u64);
    let read = reads(side.capture.exits(), |row| {
        interval_ns = row.interval_ns.max(interval_ns);
        if row.cause.kind == Kind::Other {
            other = other.saturating_add(row.count);
        }
    });
    side.exits_interval_ns = interval_ns;
    side.exits_whole = read.is_ok() && is_whole(&side.capture, Table::Exits);
    let notes = &mut side.recording.notes;
    if let Err(error) = read {
        let note = format!("{:#}", anyhow::Error::new(error));
        if !notes.iter().any(|known| known.contains(&note)) {
            notes.push(note);
        }
        side.recording.damaged = true;
    }
    if !side.exits_whole {
        notes.push("not all exits can be read: none are compared".to_owned());
    }
    if other > 0 {
        let exits = plural(other, "exit");
        notes.push(format!(
            "{exits} found no room in the recorder's table and are in no figure"
        ));
    }
}

impl Side {
    /// Whether a field of the table of halts can be told at all.
    fn tells(&self, field: &str) -> bool {
        let mut missing = self.recording.missing.iter();
        !missing.any(|missing| fields(missing).any(|one| one == field))
    }

    /// Sums up the blocks of each of `whose`.
    pub(crate) fn sums(&self, whose: &[Whose]) -> Vec<Sums> {
        let mut somebody: Vec<Somebody> = whose.iter().map(|it| Somebody::new(self, it)).collect();
        let places = Places::new(whose);
        let each = |somebody: &mut Vec<Somebody>,
                    vm: Option<VmIndex>,
                    take: &mut dyn FnMut(&mut Somebody)| {
            for place in places.of(vm) {
                take(&mut somebody[place]);
            }
        };
        if self.recording.mode == Mode::Full {
            for halt in self
                .capture
                .halts()
                .into_iter()
                .flatten()
                .map_while(Result::ok)
            {
                each(&mut somebody, halt.vm, &mut |it| {
                    let place = it.cut.place(halt.end_ns());
                    it.halts[place].halt(&halt);
                });
            }
            let changes = self.capture.window_changes().into_iter().flatten();
            for change in changes.map_while(Result::ok) {
                each(&mut somebody, change.vm, &mut |it| {
                    let place = it.cut.place(change.time_ns);
                    it.halts[place].change(&change);
                });
            }
        } else {
            let rows = self.capture.halt_counts().into_iter().flatten();
            for counts in rows.map_while(Result::ok) {
                let middle = counts.time_ns.saturating_sub(counts.interval_ns / 2);
                each(&mut somebody, counts.vm, &mut |it| {
                    let place = it.cut.place(middle);
                    it.halts[place].counts(&counts);
                });
            }
        }
        if self.exits_whole {
            let rows = self.capture.exits().into_iter().flatten();
            for row in rows.map_while(Result::ok).filter(is_compared) {
                each(&mut somebody, row.vm, &mut |it| it.exits(&row));
            }
        }
        somebody
            .into_iter()
            .map(|it| it.finish(self.exits_whole))
            .collect()
    }
}

/// The fields that are missing together.
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

/// Blocks of somebody while a capture is read.
struct Somebody {
    cut: Cut,
    tells_cuts: bool,
    halts: Vec<Halted>,
    exits_cut: Cut,
    exits: BTreeMap<Cause, Vec<Exited>>,
}

impl Somebody {
    fn new(side: &Side, whose: &Whose) -> Self {
        let recording = &side.recording;
        let presence = match whose {
            Whose::Host => None,
            Whose::Vm(indices) => {
                let vms = recording.roster.vms.iter();
                let vms = vms.filter(|vm| indices.contains(&vm.index));
                vms.map(|vm| presence_ns(recording, vm)).max()
            }
        };
        let to_ns = recording.end_ns.max(recording.start_ns);
        let from_ns = presence.map_or(recording.start_ns, |ns| to_ns.saturating_sub(ns));
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
            tells_cuts: side.tells("poll_cut"),
            exits_cut: Cut::new(from_ns, to_ns, side.exits_interval_ns),
            exits: BTreeMap::new(),
        }
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

    fn finish(mut self, with_exits: bool) -> Sums {
        if !self.tells_cuts {
            // Not told is not never.
            for block in &mut self.halts {
                block.cut_known = 0;
            }
        }
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

/// Who is meant by a row's VM.
struct Places {
    hosts: Vec<usize>,
    vms: BTreeMap<VmIndex, Vec<usize>>,
}

impl Places {
    fn new(whose: &[Whose]) -> Self {
        let mut places = Self {
            hosts: Vec::new(),
            vms: BTreeMap::new(),
        };
        for (place, whose) in whose.iter().enumerate() {
            match whose {
                Whose::Host => places.hosts.push(place),
                Whose::Vm(indices) => {
                    for index in indices {
                        places.vms.entry(*index).or_default().push(place);
                    }
                }
            }
        }
        places
    }

    fn of(&self, vm: Option<VmIndex>) -> impl Iterator<Item = usize> {
        let vm = vm.and_then(|vm| self.vms.get(&vm)).into_iter().flatten();
        self.hosts.iter().chain(vm).copied()
    }
}
