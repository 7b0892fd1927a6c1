//! Reading a capture: complete, cut, or still growing.
//!
//! Rows come in batches, so that a capture larger than memory can be read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use haltwise_core::event::{Halt, HaltCounts, HostSample, Knob, Lost, Vcpu, Vm, WindowChange};
use haltwise_core::exit::Exits;
use haltwise_core::profile::{Frame, Sample, Stack, Thread};

use crate::batches::Batches;
use crate::error::CaptureReadError;
use crate::frames::Frames;
use crate::info::{self, CaptureInfo, FILE, MAX_BYTES, ParseError, State};
use crate::note::Note;
use crate::rows::{Rows, rows_of};
use crate::table::Table;
use crate::tables::Row;

/// A capture on disk.
#[derive(Debug, Clone)]
pub struct Capture {
    directory: PathBuf,
    info: CaptureInfo,
    rows: BTreeMap<Table, u64>,
    notes: Vec<Note>,
}

impl Capture {
    /// Opens a capture and looks it over: `capture.json`, and each table from the outside.
    pub fn open(directory: &Path) -> Result<Self, CaptureReadError> {
        let info = read_info(directory)?;
        let mut capture = Self {
            directory: directory.to_owned(),
            info,
            rows: BTreeMap::new(),
            notes: Vec::new(),
        };
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
        if capture.info.halts_out_of_order > 0 {
            let halts = capture.info.halts_out_of_order;
            capture.notes.push(Note::OutOfOrder { halts });
        }
        Ok(capture)
    }

    /// What `capture.json` says.
    pub fn info(&self) -> &CaptureInfo {
        &self.info
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What must be known about it.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// How many rows a table has, by its frames or its footer. `None` if it cannot be read.
    pub fn rows(&self, table: Table) -> Option<u64> {
        self.rows.get(&table).copied()
    }

    /// The halts.
    pub fn halts(&self) -> Result<Rows<Halt>, CaptureReadError> {
        self.table()
    }

    /// The calls of grow and shrink.
    pub fn window_changes(&self) -> Result<Rows<WindowChange>, CaptureReadError> {
        self.table()
    }

    /// The counts per vCPU and interval.
    pub fn halt_counts(&self) -> Result<Rows<HaltCounts>, CaptureReadError> {
        self.table()
    }

    /// The settings.
    pub fn knobs(&self) -> Result<Rows<Knob>, CaptureReadError> {
        self.table()
    }

    /// The host's own state.
    pub fn host_samples(&self) -> Result<Rows<HostSample>, CaptureReadError> {
        self.table()
    }

    /// The losses.
    pub fn lost(&self) -> Result<Rows<Lost>, CaptureReadError> {
        self.table()
    }

    /// The exits. None unless they were asked for: see [`CaptureInfo::exits`].
    pub fn exits(&self) -> Result<Rows<Exits>, CaptureReadError> {
        self.table()
    }

    /// The samples. None unless they were asked for: see [`CaptureInfo::profile`].
    pub fn samples(&self) -> Result<Rows<Sample>, CaptureReadError> {
        self.table()
    }

    /// The functions that samples hit.
    pub fn sample_frames(&self) -> Result<Rows<Frame>, CaptureReadError> {
        self.table()
    }

    /// The stacks of samples.
    pub fn sample_stacks(&self) -> Result<Rows<Stack>, CaptureReadError> {
        self.table()
    }

    /// The names of threads that were sampled.
    pub fn sample_threads(&self) -> Result<Rows<Thread>, CaptureReadError> {
        self.table()
    }

    /// The VMs, as `vms.parquet` has them. [`CaptureInfo::roster`] is the same, and always there.
    pub fn vms(&self) -> Result<Rows<Vm>, CaptureReadError> {
        self.table()
    }

    /// The vCPUs, as `vcpus.parquet` has them. [`CaptureInfo::roster`] is the same, and always there.
    pub fn vcpus(&self) -> Result<Rows<Vcpu>, CaptureReadError> {
        self.table()
    }

    /// Events lost, by place: the totals if the recording has ended, else the losses noted so far.
    pub fn lost_by_place(&self) -> Result<BTreeMap<String, u64>, CaptureReadError> {
        if self.info.ended.is_some() {
            return Ok(self.info.lost.clone());
        }
        let mut places = BTreeMap::<String, u64>::new();
        for lost in self.lost()? {
            let Lost { count, place, .. } = lost?;
            let sum = places.entry(place).or_default();
            *sum = sum.saturating_add(count);
        }
        Ok(places)
    }

    fn table<R: Row>(&self) -> Result<Rows<R>, CaptureReadError> {
        let table = R::TABLE;
        let batches = match file_of(&self.directory, table, self.info.state) {
            Some(path) => Batches::of_file(table, &path)?,
            None => Batches::none(table, self.directory.join(table.parquet_file())),
        };
        Ok(rows_of(batches))
    }

    /// Counts a table's rows and notes what is wrong with its file.
    fn look_at(&mut self, table: Table) {
        let state = self.info.state;
        let Some(path) = file_of(&self.directory, table, state) else {
            let of_roster = !Table::STREAMED.contains(&table);
            let never_there = table.is_optional() && !self.info.tables.contains_key(table.as_str());
            if !(of_roster && state == State::Recording || never_there) {
                let path = expected_file(&self.directory, table, state);
                self.notes.push(Note::MissingTable { table, path });
            }
            return;
        };
        match self.count_rows(table, &path) {
            Ok(rows) => {
                self.rows.insert(table, rows);
                let written = self.info.tables.get(table.as_str()).map(|size| size.rows);
                if let Some(written) = written.filter(|&written| written != rows) {
                    let found = rows;
                    self.notes.push(Note::RowsDiffer {
                        table,
                        written,
                        found,
                    });
                }
            }
            Err(error) => {
                let error = with_sources(&error);
                self.notes.push(Note::UnreadableTable { table, error });
            }
        }
    }

    fn count_rows(&mut self, table: Table, path: &Path) -> Result<u64, CaptureReadError> {
        let io = |act, source| CaptureReadError::Io {
            act,
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(|source| io("open", source))?;
        if is_parquet(path) {
            return Batches::parquet_rows(table, path, &file);
        }
        let frames = Frames::new(BufReader::new(file)).map_err(|source| io("read", source))?;
        let extent = frames
            .extent()
            .map_err(|(offset, error)| Batches::frame_error(table, path, offset, error))?;
        if extent.torn_bytes > 0 {
            self.notes.push(Note::TornTail {
                table,
                path: path.to_owned(),
                offset: extent.whole_bytes,
                bytes: extent.torn_bytes,
            });
        }
        Ok(extent.rows)
    }
}

/// The file that holds a table, if there is one.
///
/// A complete capture has Parquet only. In one that is not, a Parquet file that has its name is
/// whole, so it comes before the stream that it was made from.
pub(crate) fn file_of(directory: &Path, table: Table, state: State) -> Option<PathBuf> {
    let parquet = directory.join(table.parquet_file());
    let stream = directory.join(table.stream_file());
    match state {
        _ if parquet.exists() => Some(parquet),
        State::Recording if stream.exists() => Some(stream),
        _ => None,
    }
}

fn expected_file(directory: &Path, table: Table, state: State) -> PathBuf {
    directory.join(match state {
        State::Recording => table.stream_file(),
        State::Complete => table.parquet_file(),
    })
}

pub(crate) fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|name| name == "parquet")
}

/// Whether a recorder holds the lock that [`crate::recording::Recording::create`] takes.
fn is_being_written(directory: &Path) -> bool {
    let halts = File::open(directory.join(Table::Halts.stream_file()));
    halts.is_ok_and(|file| {
        matches!(
            file.try_lock_shared(),
            Err(std::fs::TryLockError::WouldBlock)
        )
    })
}

fn read_info(directory: &Path) -> Result<CaptureInfo, CaptureReadError> {
    let path = directory.join(FILE);
    let io = |source| CaptureReadError::Io {
        act: "read",
        path: path.clone(),
        source,
    };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && directory.is_dir() => {
            return Err(CaptureReadError::NotACapture {
                path: directory.to_owned(),
            });
        }
        Err(source) => return Err(io(source)),
    };
    let bytes = file.metadata().map_err(io)?.len();
    if bytes > MAX_BYTES {
        let limit = MAX_BYTES;
        return Err(CaptureReadError::JsonTooLarge { path, bytes, limit });
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text).map_err(io)?;
    info::parse(&text).map_err(|error| match error {
        ParseError::Json(source) => CaptureReadError::Json { path, source },
        ParseError::Schema(0) => CaptureReadError::NoSuchSchema { path, found: 0 },
        ParseError::Schema(found) => CaptureReadError::NewerSchema { path, found },
    })
}

/// An error and what caused it, on one line.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
