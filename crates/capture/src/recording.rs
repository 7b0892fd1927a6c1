//! Writing a capture while it is recorded.
//!
//! Not here: turning streams into Parquet, which is [`crate::convert`], and reading.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use haltwise_core::event::{Facts, Halt, HaltCounts, HostSample, Knob, Lost, WindowChange};
use haltwise_core::exit::Exits;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::profile::{Frame, Rows, Sample, Stack, Thread};
use haltwise_core::recording::{Missing, Overhead, Roster};

use crate::convert;
use crate::error::CaptureWriteError;
use crate::files;
use crate::info::{CaptureInfo, Ended, FILE, SCHEMA, State, TableSize};
use crate::stream::TableStream;
use crate::table::Table;
use crate::tables::Row;

/// A capture that is being written.
///
/// Dropped without [`Recording::finish`], it stays as a capture that was cut: readable as it is.
#[derive(Debug)]
pub struct Recording {
    directory: PathBuf,
    info: CaptureInfo,
    halts: TableStream,
    windows: TableStream,
    counts: TableStream,
    knobs: TableStream,
    host: TableStream,
    lost: TableStream,
    /// Made with the first exits.
    exits: Option<TableStream>,
    /// Made with the first samples: frames, stacks, threads, samples.
    profile: Option<[TableStream; 4]>,
    order: StartOrder,
    /// Rows that could not be appended, by table.
    refused: BTreeMap<String, u64>,
}

/// How a recording ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// When, and by what.
    pub ended: Ended,
    /// Events lost in all, by place.
    pub lost: BTreeMap<String, u64>,
    /// What the recorder cost.
    pub overhead: Option<Overhead>,
}

/// What a finished capture holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The directory.
    pub directory: PathBuf,
    /// Rows and bytes of each table, by its name.
    pub tables: BTreeMap<String, TableSize>,
    /// Halts that stand after a later halt of the same vCPU.
    pub halts_out_of_order: u64,
}

impl Recording {
    /// Starts a capture in a directory that is empty or does not exist yet.
    pub fn create(directory: &Path, info: CaptureInfo) -> Result<Self, CaptureWriteError> {
        let io = |act, source| CaptureWriteError::Io {
            act,
            path: directory.to_owned(),
            source,
        };
        fs::create_dir_all(directory).map_err(|source| io("create", source))?;
        let mut entries = fs::read_dir(directory).map_err(|source| io("list", source))?;
        if entries.next().is_some() {
            return Err(CaptureWriteError::NotEmpty {
                path: directory.to_owned(),
            });
        }
        let created = Self::create_in(directory, info);
        if created.is_err() {
            // Best effort: the first error is the one that matters.
            for table in Table::STREAMED {
                let _ = fs::remove_file(directory.join(table.stream_file()));
            }
        }
        created
    }

    fn create_in(directory: &Path, mut info: CaptureInfo) -> Result<Self, CaptureWriteError> {
        info.schema = SCHEMA;
        info.state = State::Recording;
        let halts = TableStream::create::<Halt>(directory)?;
        // Readers see by this lock that somebody is writing; the kernel drops it with the process.
        let locked = halts.file().try_lock().map_err(std::io::Error::from);
        locked.map_err(|source| CaptureWriteError::Io {
            act: "lock",
            path: directory.join(Table::Halts.stream_file()),
            source,
        })?;
        let recording = Self {
            windows: TableStream::create::<WindowChange>(directory)?,
            counts: TableStream::create::<HaltCounts>(directory)?,
            knobs: TableStream::create::<Knob>(directory)?,
            host: TableStream::create::<HostSample>(directory)?,
            lost: TableStream::create::<Lost>(directory)?,
            exits: None,
            profile: None,
            directory: directory.to_owned(),
            info,
            halts,
            order: StartOrder::default(),
            refused: BTreeMap::new(),
        };
        write_info(directory, &recording.info)?;
        Ok(recording)
    }

    /// Appends what one flush brought. When this returns, the kernel has it.
    ///
    /// Halts are put in order of their start first. Every table is tried, and the first error is
    /// returned: rows that were refused are not tried again, but counted as lost when the
    /// recording ends. The next flush may succeed.
    pub fn append(&mut self, facts: &Facts) -> Result<(), CaptureWriteError> {
        let by_start = |a: &Halt, b: &Halt| a.start_ns.cmp(&b.start_ns);
        let mut sorted = Vec::new();
        let halts = if facts.halts.is_sorted_by_key(|halt| halt.start_ns) {
            &facts.halts
        } else {
            sorted.clone_from(&facts.halts);
            sorted.sort_by(by_start);
            &sorted
        };
        let appended = [
            append(&mut self.halts, halts, &mut self.refused),
            append(&mut self.windows, &facts.windows, &mut self.refused),
            append(&mut self.counts, &facts.counts, &mut self.refused),
            append(&mut self.knobs, &facts.knobs, &mut self.refused),
            append(&mut self.host, &facts.host, &mut self.refused),
            append(&mut self.lost, &facts.lost, &mut self.refused),
            self.append_exits(&facts.exits),
            self.append_profile(&facts.profile),
        ];
        if appended[0].is_ok() {
            for halt in halts {
                self.order.see(halt);
            }
        }
        appended.into_iter().collect()
    }

    /// Few recordings hold exits: those that do not have no table of them either.
    fn append_exits(&mut self, rows: &[Exits]) -> Result<(), CaptureWriteError> {
        if self.exits.is_none() && !rows.is_empty() {
            self.exits = Some(TableStream::create::<Exits>(&self.directory)?);
        }
        match &mut self.exits {
            Some(stream) => append(stream, rows, &mut self.refused),
            None => Ok(()),
        }
    }

    /// What samples point to goes first, so that a capture that was cut holds it too.
    fn append_profile(&mut self, rows: &Rows) -> Result<(), CaptureWriteError> {
        let dir = &self.directory;
        if self.profile.is_none() && !rows.is_empty() {
            self.profile = Some([
                TableStream::create::<Frame>(dir)?,
                TableStream::create::<Stack>(dir)?,
                TableStream::create::<Thread>(dir)?,
                TableStream::create::<Sample>(dir)?,
            ]);
        }
        let Some([frames, stacks, threads, samples]) = &mut self.profile else {
            return Ok(());
        };
        let appended = [
            append(frames, &rows.frames, &mut self.refused),
            append(stacks, &rows.stacks, &mut self.refused),
            append(threads, &rows.threads, &mut self.refused),
            append(samples, &rows.samples, &mut self.refused),
        ];
        appended.into_iter().collect()
    }

    /// Writes who was seen, if that has changed.
    pub fn set_roster(&mut self, roster: &Roster) -> Result<(), CaptureWriteError> {
        if self.info.roster == *roster {
            return Ok(());
        }
        self.info.roster.clone_from(roster);
        write_info(&self.directory, &self.info)
    }

    /// Writes what is missing from the recording, if that has changed.
    pub fn set_missing(&mut self, missing: &[Missing]) -> Result<(), CaptureWriteError> {
        if self.info.missing == missing {
            return Ok(());
        }
        missing.clone_into(&mut self.info.missing);
        write_info(&self.directory, &self.info)
    }

    /// What is known so far.
    pub fn info(&self) -> &CaptureInfo {
        &self.info
    }

    /// Ends the recording: every stream becomes Parquet.
    ///
    /// On an error, as on a crash, each table is whole in one form or the other, and
    /// [`convert::convert`] may finish the work later.
    pub fn finish(mut self, ending: Ending) -> Result<Summary, CaptureWriteError> {
        self.info.ended = Some(ending.ended);
        self.info.lost = ending.lost;
        for (table, rows) in std::mem::take(&mut self.refused) {
            let place = format!("write of table {table}");
            *self.info.lost.entry(place).or_default() += rows;
        }
        self.info.overhead = ending.overhead;
        self.info.halts_out_of_order = self.order.violations;
        // `self.halts` keeps the lock until the end.
        convert::complete(&self.directory, &mut self.info)
    }
}

/// Appends rows, and remembers how many could not be.
fn append<R: Row>(
    stream: &mut TableStream,
    rows: &[R],
    refused: &mut BTreeMap<String, u64>,
) -> Result<(), CaptureWriteError> {
    let appended = stream.append(rows);
    let lost = match &appended {
        Ok(()) => 0,
        Err(CaptureWriteError::Append { rows_refused, .. }) => *rows_refused,
        Err(_) => rows.len() as u64,
    };
    if lost > 0 {
        *refused.entry(R::TABLE.to_string()).or_default() += lost;
    }
    appended
}

/// Writes `capture.json` in one step.
pub(crate) fn write_info(directory: &Path, info: &CaptureInfo) -> Result<(), CaptureWriteError> {
    let path = directory.join(FILE);
    let mut text = match serde_json::to_vec_pretty(info) {
        Ok(text) => text,
        Err(source) => return Err(CaptureWriteError::Json { path, source }),
    };
    text.push(b'\n');
    files::replace(&path, &text).map_err(|source| CaptureWriteError::Io {
        act: "write",
        path,
        source,
    })
}

/// Counts halts that come after a later one of the same vCPU.
#[derive(Debug, Default)]
pub(crate) struct StartOrder {
    latest: BTreeMap<(Option<VmIndex>, Option<VcpuId>, Tid), u64>,
    violations: u64,
}

impl StartOrder {
    /// Looks at the next halt.
    pub(crate) fn see(&mut self, halt: &Halt) {
        let latest = self
            .latest
            .entry((halt.vm, halt.vcpu, halt.tid))
            .or_default();
        if halt.start_ns < *latest {
            self.violations += 1;
        }
        *latest = (*latest).max(halt.start_ns);
    }

    /// How many.
    pub(crate) fn violations(&self) -> u64 {
        self.violations
    }
}
