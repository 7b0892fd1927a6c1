//! The batches of one table, one at a time, from either form, and those behind damage where they are asked for.
//!
//! Decoders are called inside [`contain`] only, and not again after a panic.

use std::fs::File;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::errors::ParquetError;

use crate::columns::Columns;
use crate::contain::contain;
use crate::error::{CaptureReadError, TableFile, with_sources};
use crate::files;
use crate::frames::Frames;
use crate::parquet_form;
use crate::sums::{Checked, Sums};
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

impl Damage {
    /// The damage that an error reports, of unknown extent.
    pub(crate) fn of(error: &CaptureReadError) -> Self {
        let (offset, what) = match error {
            CaptureReadError::Damaged { offset, what, .. } => (Some(*offset), what.clone()),
            other => (None, with_sources(other)),
        };
        Self {
            offset,
            bytes: None,
            rows: None,
            what,
        }
    }
}

pub(crate) struct Batches {
    pub(crate) file: TableFile,
    /// Rows of the file before the next batch.
    pub(crate) rows: u64,
    source: Source,
}

enum Source {
    Stream(Box<(Frames, StreamDecoder)>),
    Parquet(Checked, Box<ParquetRecordBatchReader>),
    Ended,
}

impl Batches {
    /// No batches: the table's file is missing.
    pub(crate) fn none(file: TableFile) -> Self {
        Self {
            file,
            rows: 0,
            source: Source::Ended,
        }
    }

    pub(crate) fn open(file: TableFile, sums: Option<Sums>) -> Result<Self, CaptureReadError> {
        let opened = open(&file.path)?;
        Self::of_opened(file, opened, sums)
    }

    pub(crate) fn of_opened(
        file: TableFile,
        opened: File,
        sums: Option<Sums>,
    ) -> Result<Self, CaptureReadError> {
        let source = if file.is_parquet() {
            let checked = checked(&file, opened, sums)?;
            let decoder = row_groups(&file, &checked, 0)?;
            Source::Parquet(checked, Box::new(decoder))
        } else {
            let frames = Frames::new(file.clone(), opened)?;
            Source::Stream(Box::new((frames, StreamDecoder::new())))
        };
        Ok(Self {
            source,
            ..Self::none(file)
        })
    }

    /// Goes on behind the damage that the last batch was not given for: with the next whole frame of a stream, with
    /// the next row group of a Parquet file.
    pub(crate) fn skip_damage(&mut self, error: &CaptureReadError) -> Damage {
        let mut damage = Damage::of(error);
        match &mut self.source {
            Source::Stream(stream) => {
                let frames = &mut stream.0;
                let from = damage.offset.unwrap_or(frames.offset);
                // The decoder is not asked again after it has refused a whole frame, and a stream that cannot be
                // searched has no next frame.
                let goes_on = damage.offset.is_some() && frames.skip_damage().unwrap_or(false);
                if !goes_on {
                    frames.offset = frames.end;
                }
                damage.offset = Some(from);
                damage.bytes = Some(frames.offset.saturating_sub(from));
            }
            Source::Parquet(checked, _) => {
                let checked = checked.clone();
                let ends = parquet(&self.file, &checked, parquet_form::row_group_ends);
                let (ends, row) = (ends.unwrap_or_default(), self.rows);
                let next = ends.partition_point(|&end| end <= row) + 1;
                let last = ends.last().copied().unwrap_or(row).max(row);
                self.rows = last;
                self.source = Source::Ended;
                if next < ends.len()
                    && let Ok(decoder) = row_groups(&self.file, &checked, next)
                {
                    self.rows = ends[next - 1];
                    self.source = Source::Parquet(checked, Box::new(decoder));
                }
                damage.rows = Some(self.rows - row);
            }
            Source::Ended => {}
        }
        damage
    }

    /// The rows of the next batch.
    pub(crate) fn next_rows<R: Row>(&mut self) -> Option<Result<Vec<R>, CaptureReadError>> {
        let first_row = self.rows;
        let batch = self.next()?;
        Some(batch.and_then(|batch| {
            let columns = Columns {
                batch: &batch,
                file: &self.file,
                first_row,
            };
            R::read(&columns, R::TABLE.as_str())
        }))
    }

    /// Bytes of a stream behind the last batch that are no whole batch.
    pub(crate) fn torn_bytes(&self) -> u64 {
        match &self.source {
            Source::Stream(stream) => stream.0.end - stream.0.offset,
            Source::Parquet(..) | Source::Ended => 0,
        }
    }

    /// Whether the frames of a stream have checksums, as far as they were read.
    pub(crate) fn is_sealed(&self) -> bool {
        matches!(&self.source, Source::Stream(stream) if stream.0.sealed == Some(true))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, CaptureReadError>;

    /// The next batch. After an error only [`Batches::skip_damage`] goes on.
    fn next(&mut self) -> Option<Self::Item> {
        let (file, row) = (&self.file, self.rows);
        let next = match &mut self.source {
            Source::Stream(stream) => next_of_stream(file, row, stream),
            Source::Parquet(checked, decoder) => {
                let next = decode(file, Some(row), || decoder.next().transpose());
                next.map_err(|error| cause(file, checked, error))
            }
            Source::Ended => Ok(None),
        };
        if let Ok(Some(batch)) = &next {
            self.rows = row.saturating_add(batch.num_rows() as u64);
        }
        next.transpose()
    }
}

fn next_of_stream(
    file: &TableFile,
    row: u64,
    (frames, decoder): &mut (Frames, StreamDecoder),
) -> Result<Option<RecordBatch>, CaptureReadError> {
    while let Some(frame) = frames.next_frame()? {
        let mut bytes = Buffer::from_vec(frame.to_vec());
        // The decoder hands a batch out as soon as it is whole, so one frame gives at most one.
        let mut batch = None;
        while !bytes.is_empty() {
            batch = decode(file, Some(row), || decoder.decode(&mut bytes))?;
        }
        if batch.is_some() {
            return Ok(batch);
        }
    }
    Ok(None)
}

/// A decoder of the row groups of a Parquet file, from this one on.
fn row_groups(
    file: &TableFile,
    checked: &Checked,
    from: usize,
) -> Result<ParquetRecordBatchReader, CaptureReadError> {
    let open = |checked: &Checked| parquet_form::open(file.table, checked.clone(), from);
    parquet(file, checked, open)
}

/// Result of `look` on the footer of a Parquet file.
pub(crate) fn footer<T>(
    file: &TableFile,
    opened: File,
    sums: Option<Sums>,
    look: fn(&Checked) -> Result<T, ParquetError>,
) -> Result<T, CaptureReadError> {
    parquet(file, &checked(file, opened, sums)?, look)
}

fn checked(
    file: &TableFile,
    opened: File,
    sums: Option<Sums>,
) -> Result<Checked, CaptureReadError> {
    Checked::new(opened, sums).map_err(CaptureReadError::io("read", &file.path))
}

pub(crate) fn open(path: &Path) -> Result<File, CaptureReadError> {
    files::open_member(path).map_err(CaptureReadError::io("open", path))
}

fn parquet<T>(
    file: &TableFile,
    checked: &Checked,
    look: impl FnOnce(&Checked) -> Result<T, ParquetError>,
) -> Result<T, CaptureReadError> {
    let found = decode(file, None, || look(checked));
    found.map_err(|error| cause(file, checked, error))
}

/// An error of a decoder: a damaged block of the file, if one was found.
fn cause(file: &TableFile, checked: &Checked, error: CaptureReadError) -> CaptureReadError {
    match checked.take_damage() {
        Some(block) => CaptureReadError::Damaged {
            file: file.clone(),
            offset: block.offset,
            what: block.to_string(),
        },
        None => error,
    }
}

fn decode<T, E: std::error::Error + Send + Sync + 'static>(
    file: &TableFile,
    row: Option<u64>,
    decoder: impl FnOnce() -> Result<T, E>,
) -> Result<T, CaptureReadError> {
    let file = || file.clone();
    match contain(decoder) {
        Ok(outcome) => outcome.map_err(|source| CaptureReadError::Decode {
            file: file(),
            row,
            source: source.into(),
        }),
        Err(what) => Err(CaptureReadError::Panicked {
            file: file(),
            row: row.unwrap_or(0),
            what,
        }),
    }
}
