//! Reading a capture: complete, cut, or still growing.
//!
//! Rows come in batches, so that a capture larger than memory can be read.

mod joined;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use haltwise_core::event::{
    Halt, HaltCounts, HostSample, IdleState, Knob, Lost, Vcpu, Vm, WindowChange,
};
use haltwise_core::exit::Exits;
use haltwise_core::ids::VmIndex;
use haltwise_core::profile::{Frame, Sample, Stack, Thread};
use serde::Deserialize;

use crate::batches::{Batches, footer, open};
use crate::error::{CaptureReadError, TableFile, with_sources};
use crate::files;
use crate::frames::Frames;
use crate::info::{self, CaptureInfo, FILE, Intact, MAX_BYTES, SCHEMA, State};
use crate::laws::{Laws, LeftOut};
use crate::note::Note;
use crate::parquet_form;
use crate::ring::{self, RingInfo};
use crate::rows::{Rows, rows_of};
use crate::spare;
use crate::sums::Sums;
use crate::table::Table;
use crate::tables::Row;

#[derive(Debug, Clone)]
pub struct Capture {
    directory: PathBuf,
    info: Arc<CaptureInfo>,
    /// Whether `capture.json` is as it was written.
    pub(crate) intact: Intact,
    rows: BTreeMap<Table, u64>,
    notes: Vec<Note>,
    left_out: LeftOut,
    as_stored: bool,
    /// The last moment of the recording, once that was asked for.
    last_ns: OnceLock<Option<u64>>,
    /// The captures that this one is made of, if it is made of several.
    parts: Vec<Self>,
}

impl Capture {
    /// Opens a capture, or what the last recorder wrote to a [`ring`].
    pub fn open(directory: &Path) -> Result<Self, CaptureReadError> {
        let Some((ring, segments)) = ring::last_recording(directory) else {
            return Self::open_one(directory);
        };
        let mut parts = Vec::new();
        for segment in segments {
            match Self::open_one(&segment.path) {
                Ok(part) => parts.push(part),
                // Dropped meanwhile.
                Err(_) if !segment.path.exists() => {}
                Err(error) => return Err(error),
            }
        }
        let path = || directory.to_owned();
        let joined = joined::join(&ring, parts);
        let joined = joined.ok_or_else(|| CaptureReadError::NotACapture { path: path() })?;
        Ok(Self {
            directory: path(),
            ..joined
        })
    }

    /// Opens a capture and looks it over: `capture.json`, and each table from the outside.
    pub(crate) fn open_one(directory: &Path) -> Result<Self, CaptureReadError> {
        if RingInfo::read(directory).is_some() {
            let path = directory.to_owned();
            return Err(CaptureReadError::Ring { path });
        }
        let mut notes = Vec::new();
        let (info, intact) = read_info(directory, FILE).or_else(|error| {
            let Some(copy) = copy_of_info(directory, &error) else {
                return Err(error);
            };
            let error = with_sources(&error);
            notes.push(Note::OlderInfo { error });
            Ok(copy)
        })?;
        let mut capture = Self {
            directory: directory.to_owned(),
            info: Arc::new(info),
            intact,
            rows: BTreeMap::new(),
            notes,
            left_out: LeftOut::default(),
            as_stored: false,
            last_ns: OnceLock::new(),
            parts: Vec::new(),
        };
        if intact == Intact::No {
            capture.note_changed();
        }
        if capture.info.state == State::Recording {
            let live = is_being_written(directory);
            capture.notes.push(if live {
                Note::StillRecording
            } else {
                Note::Cut
            });
        } else if capture.info.cut.is_some() {
            capture.notes.push(Note::Cut);
        }
        for table in Table::ALL {
            capture.look_at(table);
        }
        let repaired = capture.info.repaired.iter();
        capture
            .notes
            .extend(repaired.map(|(table, left)| Note::Repaired {
                table: table.clone(),
                rows: left.rows,
                bytes: left.bytes,
            }));
        Ok(capture)
    }

    /// Its `capture.json` is not the one that its recorder wrote.
    fn note_changed(&mut self) {
        let path = self.directory.join(FILE);
        let note = Note::InfoChanged { path };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
        self.intact = Intact::No;
    }

    /// Contents of `capture.json`.
    pub fn info(&self) -> &CaptureInfo {
        &self.info
    }

    /// The same, to keep beside the capture: with many VMs it is large.
    pub fn shared_info(&self) -> Arc<CaptureInfo> {
        Arc::clone(&self.info)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The same capture with all rows, also those that break a law.
    #[must_use]
    pub fn as_stored(self) -> Self {
        Self {
            as_stored: true,
            parts: self.parts.into_iter().map(Self::as_stored).collect(),
            ..self
        }
    }

    /// Notes that a reader must know. Rows that break a law are found when their table is read: ask once more
    /// when that is done.
    pub fn notes(&self) -> Vec<Note> {
        let mut left_out = self.left_out.all();
        for part in &self.parts {
            for (what, rows) in part.left_out.all() {
                *left_out.entry(what).or_default() += rows;
            }
        }
        let left_out = left_out
            .into_iter()
            .map(|((table, law), rows)| Note::LeftOut { table, law, rows });
        self.notes.iter().cloned().chain(left_out).collect()
    }

    /// How many rows a table has, by its frames or its footer. `None` if it cannot be read.
    pub fn rows(&self, table: Table) -> Option<u64> {
        self.rows.get(&table).copied()
    }

    /// The rows of a table.
    pub(crate) fn table<R: Row>(&self) -> Result<Rows<R>, CaptureReadError> {
        if let Some((first, rest)) = self.parts.split_first() {
            let rest: Result<Vec<_>, _> = rest.iter().map(Self::table).collect();
            return Ok(first.table()?.then(rest?));
        }
        let table = R::TABLE;
        let batches = match self.batches(table) {
            Some(batches) => batches?,
            None => Batches::none(TableFile {
                table,
                path: self.directory.join(table.parquet_file()),
            }),
        };
        let rows = rows_of(batches);
        if self.as_stored {
            return Ok(rows);
        }
        Ok(rows.lawful(self.laws()))
    }

    /// The laws that its rows obey, for one reading of one table.
    pub(crate) fn laws(&self) -> Laws {
        let last_ns = *self.last_ns.get_or_init(|| self.last_ns());
        Laws::new(&self.info, last_ns, self.left_out.clone())
    }

    fn batches(&self, table: Table) -> Option<Result<Batches, CaptureReadError>> {
        let file = file_of(&self.directory, table, self.info.state)?;
        let sums = self.sums(&file);
        Some(Batches::open(file, sums))
    }

    /// The last moment of the recording. One that was cut has it from its last sample of the host, which
    /// every flush writes; one that goes on has none.
    fn last_ns(&self) -> Option<u64> {
        if let Some(ended) = &self.info.ended {
            return Some(ended.time_ns);
        }
        if self.notes.contains(&Note::StillRecording) {
            return None;
        }
        let samples = rows_of::<HostSample>(self.batches(Table::HostSamples)?.ok()?);
        samples.map_while(Result::ok).map(|row| row.time_ns).max()
    }

    /// The checksums of a table's file. Of one that was written again since, which has another length, there are none.
    pub(crate) fn sums(&self, file: &TableFile) -> Option<Sums> {
        let table = file.table.as_str();
        let written = self.info.tables.get(table)?;
        let found = std::fs::symlink_metadata(&file.path).ok()?.len();
        let sums = self.info.checksums.get(table).cloned();
        sums.filter(|_| found == written.bytes && file.is_parquet())
    }

    /// Counts a table's rows and notes what is wrong with its file.
    fn look_at(&mut self, table: Table) {
        let state = self.info.state;
        let Some(file) = file_of(&self.directory, table, state) else {
            let of_roster = !Table::STREAMED.contains(&table);
            let never_there = table.is_optional() && !self.info.tables.contains_key(table.as_str());
            if !(of_roster && state == State::Recording || never_there) {
                let path = self.directory.join(match state {
                    State::Recording => table.stream_file(),
                    State::Complete => table.parquet_file(),
                });
                self.notes.push(Note::MissingTable { table, path });
            }
            return;
        };
        let written = self.info.tables.get(table.as_str()).map(|size| size.rows);
        let has_sums = self.info.checksums.contains_key(table.as_str());
        let found = match self.count_rows(&file) {
            Ok(found) => found,
            Err(error) => {
                let error = with_sources(&error);
                self.notes.push(Note::UnreadableTable { table, error });
                return;
            }
        };
        self.rows.insert(table, found);
        if has_sums && self.sums(&file).is_none() {
            let path = file.path;
            self.notes.push(Note::Rewritten { table, path });
        }
        if let Some(written) = written.filter(|&written| written != found) {
            self.notes.push(Note::RowsDiffer {
                table,
                written,
                found,
            });
        }
    }

    fn count_rows(&mut self, file: &TableFile) -> Result<u64, CaptureReadError> {
        let (opened, table) = (open(&file.path)?, file.table);
        if file.is_parquet() {
            let promised = footer(file, opened, self.sums(file), parquet_form::promised)?;
            let has_sums = self.info.checksums.contains_key(table.as_str());
            if promised.is_summed && !has_sums && self.info.state == State::Complete {
                self.note_changed();
            }
            return Ok(promised.rows);
        }
        let extent = Frames::new(file.clone(), opened)?.extent()?;
        if extent.torn_bytes > 0 {
            self.notes.push(Note::TornTail {
                table,
                path: file.path.clone(),
                offset: extent.whole_bytes,
                bytes: extent.torn_bytes,
            });
        }
        Ok(extent.rows)
    }
}

/// Declares for each table a function that gives its rows.
macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident: $row:ty;)*) => {
        impl Capture {
            $($(#[$doc])*
            pub fn $table(&self) -> Result<Rows<$row>, CaptureReadError> {
                self.table()
            })*
        }
    };
}

tables! {
    halts: Halt;
    /// The calls of grow and shrink.
    window_changes: WindowChange;
    /// The counts per vCPU and interval.
    halt_counts: HaltCounts;
    knobs: Knob;
    /// The host's own state.
    host_samples: HostSample;
    /// The states of its CPUs' idle time. None where there is no cpuidle.
    idle_states: IdleState;
    lost: Lost;
    /// The exits. None unless they were asked for: see [`CaptureInfo::exits`].
    exits: Exits;
    /// The samples. None unless they were asked for: see [`CaptureInfo::profile`].
    samples: Sample;
    /// The functions that samples hit.
    sample_frames: Frame;
    sample_stacks: Stack;
    sample_threads: Thread;
    /// The VMs, as `vms.parquet` has them. [`CaptureInfo::roster`] is the same, and always there.
    vms: Vm;
    /// The vCPUs, as `vcpus.parquet` has them. [`CaptureInfo::roster`] is the same, and always there.
    vcpus: Vcpu;
}

/// The file that holds a table, if there is one.
///
/// A complete capture has Parquet only. In one that is not, a Parquet file that has its name is
/// whole, so it comes before the stream that it was made from.
pub(crate) fn file_of(directory: &Path, table: Table, state: State) -> Option<TableFile> {
    let parquet = directory.join(table.parquet_file());
    let stream = directory.join(table.stream_file());
    let path = match state {
        _ if parquet.exists() => parquet,
        State::Recording if stream.exists() => stream,
        _ => return None,
    };
    Some(TableFile { table, path })
}

/// Whether a recorder holds the lock that [`crate::recording::Recording::create`] takes.
fn is_being_written(directory: &Path) -> bool {
    let halts = files::open_member(&directory.join(Table::Halts.stream_file()));
    halts.is_ok_and(|file| {
        matches!(
            file.try_lock_shared(),
            Err(std::fs::TryLockError::WouldBlock)
        )
    })
}

/// The copy that a recorder keeps, where a loss of power has taken `capture.json` itself.
fn copy_of_info(directory: &Path, error: &CaptureReadError) -> Option<(CaptureInfo, Intact)> {
    use CaptureReadError::{Info, Json, NotACapture};
    let gone = matches!(error, NotACapture { .. } | Json { .. } | Info { .. });
    let copy = gone.then(|| read_info(directory, spare::NAME).ok())?;
    copy.filter(|(copy, intact)| copy.state == State::Recording && *intact != Intact::No)
}

/// Reads `capture.json`, or another file of its form.
fn read_info(directory: &Path, name: &str) -> Result<(CaptureInfo, Intact), CaptureReadError> {
    let path = directory.join(name);
    let file = match files::open_member(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && directory.is_dir() => {
            return Err(CaptureReadError::NotACapture {
                path: directory.to_owned(),
            });
        }
        Err(source) => return Err(CaptureReadError::io("read", &path)(source)),
    };
    info_of(&file, path, name)
}

pub(crate) fn info_of(
    file: &File,
    path: PathBuf,
    name: &str,
) -> Result<(CaptureInfo, Intact), CaptureReadError> {
    let io = || CaptureReadError::io("read", &path);
    let bytes = file.metadata().map_err(io())?.len();
    if bytes > MAX_BYTES {
        let what = format!("it has {bytes} bytes, and at most {MAX_BYTES} are read");
        return Err(CaptureReadError::Info { path, what });
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text).map_err(io())?;
    // The copy has blanks behind it, and zeros where a loss of power took those: both belong to no other file.
    let used = text.iter().rposition(|byte| !matches!(byte, b' ' | 0));
    let used = &text[..used.map_or(0, |last| last + 1)];
    let intact = info::intact(if name == spare::NAME { used } else { &text });
    let info = parse(used, &path).map_err(|error| match error {
        CaptureReadError::Json { .. } => error,
        _ if intact == Intact::No => {
            let what = "its bytes do not match their checksum".to_owned();
            CaptureReadError::Info { path, what }
        }
        error => error,
    })?;
    Ok((info, intact))
}

/// A VM that has the number of an earlier one: each row would belong to both.
fn twice(info: &CaptureInfo) -> Option<VmIndex> {
    let mut seen = BTreeSet::new();
    let mut numbers = info.roster.vms.iter().map(|vm| vm.index);
    numbers.find(|index| !seen.insert(*index))
}

/// Reads the bytes of the `capture.json` at this path.
pub(crate) fn parse(bytes: &[u8], path: &Path) -> Result<CaptureInfo, CaptureReadError> {
    #[derive(Deserialize)]
    struct OnlySchema {
        schema: u64,
    }
    let path = path.to_owned();
    match serde_json::from_slice(bytes) {
        Ok(OnlySchema { schema: 0 }) => {
            let what = "schema 0 was never written".to_owned();
            Err(CaptureReadError::Info { path, what })
        }
        Ok(OnlySchema { schema: found }) if found > u64::from(SCHEMA) => {
            Err(CaptureReadError::NewerSchema { path, found })
        }
        Ok(_) => match serde_json::from_slice::<CaptureInfo>(bytes) {
            Ok(info) => match twice(&info) {
                Some(vm) => {
                    let what = format!("two of its VMs have the number {}", vm.0);
                    Err(CaptureReadError::Info { path, what })
                }
                None => Ok(info),
            },
            Err(source) => Err(CaptureReadError::Json { path, source }),
        },
        Err(source) => Err(CaptureReadError::Json { path, source }),
    }
}
