//! All that can still be read of one table, whatever is damaged in it.
//!
//! Readers of a capture stop at the first damage. Here what comes after it is read too: of a stream the frames from the
//! next whole one on, of a Parquet file the row groups behind the damaged one.

use std::fs::File;
use std::io::BufReader;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;

use crate::batches::{BatchError, Batches, StreamBatches};
use crate::capture::is_parquet;
use crate::columns::Columns;
use crate::error::{CaptureReadError, with_sources};
use crate::files;
use crate::frames::Frames;
use crate::sums::Sums;
use crate::tables::Row;

/// A place of a table that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins, in bytes from the start of the file. `None` where only the whole is known to be wrong.
    pub offset: Option<u64>,
    /// How many bytes are left out.
    pub bytes: Option<u64>,
    /// How many rows are left out.
    pub rows: Option<u64>,
    pub what: String,
}

/// The rows of a table that can be read, batch by batch.
pub(crate) struct Salvage<R> {
    path: PathBuf,
    source: Source,
    rows: u64,
    /// Bytes at the end of a stream that are no whole batch.
    torn_bytes: u64,
    is_summed: bool,
    damage: Vec<Damage>,
    row: PhantomData<R>,
}

enum Source {
    Stream(Box<StreamBatches<BufReader<File>>>),
    Parquet(Groups),
    Ended,
}

/// The row groups of a Parquet file.
struct Groups {
    sums: Option<Sums>,
    /// The row after each group, counted in the file.
    ends: Vec<u64>,
    /// The first row of `batches`.
    first_row: u64,
    batches: Batches,
}

impl<R: Row> Salvage<R> {
    pub(crate) fn open(path: &Path, sums: Option<Sums>) -> Self {
        let mut salvage = Self {
            path: path.to_owned(),
            source: Source::Ended,
            rows: 0,
            torn_bytes: 0,
            is_summed: sums.is_some(),
            damage: Vec::new(),
            row: PhantomData,
        };
        let opened = if is_parquet(path) {
            salvage.groups(sums).map(Source::Parquet)
        } else {
            salvage.stream().map(Source::Stream)
        };
        match opened {
            Ok(source) => salvage.source = source,
            Err(error) => salvage.damage.push(whole(&error)),
        }
        salvage
    }

    pub(crate) fn damage(&self) -> &[Damage] {
        &self.damage
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes at the end of a stream that are no whole batch, once it has been read.
    pub(crate) fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// Whether the file has checksums, as far as it was read.
    pub(crate) fn is_summed(&self) -> bool {
        self.is_summed
    }

    fn stream(&self) -> Result<Box<StreamBatches<BufReader<File>>>, CaptureReadError> {
        let io = |act, source| CaptureReadError::Io {
            act,
            path: self.path.clone(),
            source,
        };
        let file = files::open_member(&self.path).map_err(|source| io("open", source))?;
        let frames = Frames::new(BufReader::new(file)).map_err(|source| io("read", source))?;
        Ok(Box::new(StreamBatches::new(frames)))
    }

    fn groups(&self, sums: Option<Sums>) -> Result<Groups, CaptureReadError> {
        Ok(Groups {
            ends: Batches::row_groups(R::TABLE, &self.path, sums.clone())?,
            first_row: 0,
            batches: Batches::of_groups(R::TABLE, &self.path, sums.clone(), 0)?,
            sums,
        })
    }

    /// The next rows; what is damaged before them is noted.
    pub(crate) fn next_rows(&mut self) -> Option<Vec<R>> {
        loop {
            let batch = match &mut self.source {
                Source::Ended => return None,
                Source::Stream(_) => self.next_of_stream(),
                Source::Parquet(_) => self.next_of_groups(),
            };
            let Some(batch) = batch else { continue };
            let columns = Columns {
                batch: &batch,
                table: R::TABLE,
                path: &self.path,
                first_row: self.rows,
            };
            match R::decode(&columns) {
                Ok(rows) => {
                    self.rows = self.rows.saturating_add(rows.len() as u64);
                    return Some(rows);
                }
                Err(error) => {
                    let rows = Some(batch.num_rows() as u64);
                    let damage = whole(&error);
                    self.damage.push(Damage { rows, ..damage });
                }
            }
        }
    }

    fn next_of_stream(&mut self) -> Option<RecordBatch> {
        let Source::Stream(stream) = &mut self.source else {
            return None;
        };
        let (offset, what, goes_on) = match stream.next_batch() {
            Ok(Some(batch)) => return Some(batch),
            Ok(None) => {
                self.torn_bytes = stream.frames().end() - stream.frames().offset();
                self.is_summed = stream.frames().is_sealed() == Some(true);
                self.source = Source::Ended;
                return None;
            }
            Err(BatchError::Frame(offset, what)) => {
                // What cannot be searched has no next frame.
                let goes_on = stream.frames().skip_damage().unwrap_or(false);
                (offset, what, goes_on)
            }
            // The decoder is not asked again after it has refused a frame that was whole.
            Err(error) => (stream.frames().offset(), error.to_string(), false),
        };
        let next = if goes_on {
            stream.frames().offset()
        } else {
            stream.frames().end()
        };
        self.damage.push(Damage {
            offset: Some(offset),
            bytes: Some(next.saturating_sub(offset)),
            rows: None,
            what,
        });
        self.is_summed = stream.frames().is_sealed() == Some(true);
        if !goes_on {
            self.source = Source::Ended;
        }
        None
    }

    fn next_of_groups(&mut self) -> Option<RecordBatch> {
        let Source::Parquet(groups) = &mut self.source else {
            return None;
        };
        let error = match groups.batches.next() {
            Some(Ok(batch)) => return Some(batch),
            Some(Err(error)) => error,
            None => {
                self.source = Source::Ended;
                return None;
            }
        };
        let row = groups.first_row.saturating_add(groups.batches.rows());
        let next = groups.ends.partition_point(|&end| end <= row) + 1;
        let end = groups.ends.get(next - 1).copied().unwrap_or(row);
        let damage = whole(&error);
        self.damage.push(Damage {
            rows: Some(end - row),
            ..damage
        });
        let sums = groups.sums.clone();
        let opened = (next < groups.ends.len())
            .then(|| Batches::of_groups(R::TABLE, &self.path, sums, next))
            .and_then(Result::ok);
        if let Some(batches) = opened {
            (groups.first_row, groups.batches) = (end, batches);
        } else {
            let last = groups.ends.last().copied();
            if let Some(damage) = self.damage.last_mut() {
                damage.rows = Some(last.unwrap_or(end).max(end) - row);
            }
            self.source = Source::Ended;
        }
        None
    }
}

/// An error as damage; of how many rows is not known.
fn whole(error: &CaptureReadError) -> Damage {
    let (offset, what) = match error {
        CaptureReadError::Damaged { offset, what, .. } => (Some(*offset), what.clone()),
        other => (None, with_sources(other)),
    };
    Damage {
        offset,
        bytes: None,
        rows: None,
        what,
    }
}

/// The table of a type that is known only when the program runs: calls a generic function of it.
macro_rules! of_table {
    ($table:expr, $function:ident $arguments:tt) => {
        match $table {
            $crate::table::Table::Halts => $function::<haltwise_core::event::Halt> $arguments,
            $crate::table::Table::WindowChanges => {
                $function::<haltwise_core::event::WindowChange> $arguments
            }
            $crate::table::Table::HaltCounts => {
                $function::<haltwise_core::event::HaltCounts> $arguments
            }
            $crate::table::Table::Knobs => $function::<haltwise_core::event::Knob> $arguments,
            $crate::table::Table::HostSamples => {
                $function::<haltwise_core::event::HostSample> $arguments
            }
            $crate::table::Table::IdleStates => {
                $function::<haltwise_core::event::IdleState> $arguments
            }
            $crate::table::Table::Lost => $function::<haltwise_core::event::Lost> $arguments,
            $crate::table::Table::Vms => $function::<haltwise_core::event::Vm> $arguments,
            $crate::table::Table::Vcpus => $function::<haltwise_core::event::Vcpu> $arguments,
            $crate::table::Table::Exits => $function::<haltwise_core::exit::Exits> $arguments,
            $crate::table::Table::SampleFrames => {
                $function::<haltwise_core::profile::Frame> $arguments
            }
            $crate::table::Table::SampleStacks => {
                $function::<haltwise_core::profile::Stack> $arguments
            }
            $crate::table::Table::SampleThreads => {
                $function::<haltwise_core::profile::Thread> $arguments
            }
            $crate::table::Table::Samples => $function::<haltwise_core::profile::Sample> $arguments,
        }
    };
}

pub(crate) use of_table;
