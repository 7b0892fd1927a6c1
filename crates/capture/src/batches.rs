//! The batches of one table, one at a time, from either form.
//!
//! Decoders are called inside [`contain`] only, and not again after a panic.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use crate::capture::is_parquet;
use crate::contain::contain;
use crate::error::CaptureReadError;
use crate::files;
use crate::frames::{FrameError, Frames};
use crate::parquet_form::{self, Promised};
use crate::sums::{Checked, Found, Sums};
use crate::table::Table;

/// Why there is no next batch.
#[derive(Debug)]
pub(crate) enum BatchError {
    /// Not frames of a stream.
    Frame(u64, String),
    Io(std::io::Error),
    Arrow(ArrowError),
    Parquet(ParquetError),
    Panicked(String),
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(_, what) => f.write_str(what),
            Self::Panicked(what) => write!(f, "the decoder gave up: {what}"),
            Self::Io(error) => error.fmt(f),
            Self::Arrow(error) => error.fmt(f),
            Self::Parquet(error) => error.fmt(f),
        }
    }
}

type Source = Box<dyn Iterator<Item = Result<RecordBatch, BatchError>> + Send>;

pub(crate) struct Batches {
    table: Table,
    path: PathBuf,
    rows: u64,
    /// `None` when there is nothing more, or after an error.
    source: Option<Source>,
    /// Where the file was found damaged, which then is what an error comes of.
    found: Option<Found>,
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches")
            .field("table", &self.table)
            .field("path", &self.path)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl Batches {
    /// No batches: the table's file is missing.
    pub(crate) fn none(table: Table, path: PathBuf) -> Self {
        Self {
            table,
            path,
            rows: 0,
            source: None,
            found: None,
        }
    }

    pub(crate) fn of_stream<R: Read + Seek + Send + 'static>(
        table: Table,
        path: PathBuf,
        reader: R,
    ) -> Result<Self, CaptureReadError> {
        let mut batches = Self::none(table, path);
        match Frames::new(reader) {
            Ok(frames) => batches.source = Some(Box::new(StreamBatches::new(frames))),
            Err(error) => return Err(batches.error(BatchError::Io(error))),
        }
        Ok(batches)
    }

    pub(crate) fn of_parquet<R: parquet::file::reader::ChunkReader + 'static>(
        table: Table,
        path: PathBuf,
        reader: R,
    ) -> Result<Self, CaptureReadError> {
        Self::of_checked_parquet(table, path, reader, None, 0)
    }

    fn of_checked_parquet<R: parquet::file::reader::ChunkReader + 'static>(
        table: Table,
        path: PathBuf,
        reader: R,
        found: Option<Found>,
        from: usize,
    ) -> Result<Self, CaptureReadError> {
        let mut batches = Self::none(table, path);
        batches.found = found;
        let opened = decode(
            || parquet_form::open(table, reader, from),
            BatchError::Parquet,
        );
        let mut decoder = opened.map_err(|error| batches.error(error))?;
        batches.source = Some(Box::new(std::iter::from_fn(move || {
            decode(|| decoder.next().transpose(), BatchError::Arrow).transpose()
        })));
        Ok(batches)
    }

    pub(crate) fn row_groups(
        table: Table,
        path: &Path,
        sums: Option<Sums>,
    ) -> Result<Vec<u64>, CaptureReadError> {
        let mut batches = Self::none(table, path.to_owned());
        let file = batches.checked(open(path)?, sums)?;
        let groups = decode(|| parquet_form::row_groups(&file), BatchError::Parquet);
        groups.map_err(|error| batches.error(error))
    }

    pub(crate) fn of_groups(
        table: Table,
        path: &Path,
        sums: Option<Sums>,
        from: usize,
    ) -> Result<Self, CaptureReadError> {
        let file = Self::none(table, path.to_owned()).checked(open(path)?, sums)?;
        let found = Some(file.found());
        Self::of_checked_parquet(table, path.to_owned(), file, found, from)
    }

    pub(crate) fn promised(
        table: Table,
        path: &Path,
        file: File,
        sums: Option<Sums>,
    ) -> Result<Promised, CaptureReadError> {
        let mut batches = Self::none(table, path.to_owned());
        let file = batches.checked(file, sums)?;
        let promised = decode(|| parquet_form::promised(&file), BatchError::Parquet);
        promised.map_err(|error| batches.error(error))
    }

    /// A file that is held against its checksums, if it has any.
    fn checked(&mut self, file: File, sums: Option<Sums>) -> Result<Checked, CaptureReadError> {
        let checked =
            Checked::new(file, sums).map_err(|error| self.error(BatchError::Io(error)))?;
        self.found = Some(checked.found());
        Ok(checked)
    }

    pub(crate) fn frame_error(
        table: Table,
        path: &Path,
        offset: u64,
        error: FrameError,
    ) -> CaptureReadError {
        let error = match error {
            FrameError::Torn => BatchError::Frame(offset, "the file ends here".to_owned()),
            FrameError::Bad(what) => BatchError::Frame(offset, what),
            FrameError::Io(error) => BatchError::Io(error),
        };
        Self::none(table, path.to_owned()).error(error)
    }

    pub(crate) fn of_file(
        table: Table,
        path: &Path,
        sums: Option<Sums>,
    ) -> Result<Self, CaptureReadError> {
        Self::of_opened(table, path, open(path)?, sums)
    }

    /// From a file of either form that is open.
    pub(crate) fn of_opened(
        table: Table,
        path: &Path,
        file: File,
        sums: Option<Sums>,
    ) -> Result<Self, CaptureReadError> {
        if is_parquet(path) {
            let file = Self::none(table, path.to_owned()).checked(file, sums)?;
            let found = Some(file.found());
            Self::of_checked_parquet(table, path.to_owned(), file, found, 0)
        } else {
            Self::of_stream(table, path.to_owned(), BufReader::new(file))
        }
    }

    pub(crate) fn table(&self) -> Table {
        self.table
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// An error with its place.
    fn error(&self, error: BatchError) -> CaptureReadError {
        let (table, path, row) = (self.table, self.path.clone(), self.rows);
        if let Some(mismatch) = self.found.as_ref().and_then(|found| found.get()) {
            let (offset, what) = (mismatch.offset, mismatch.to_string());
            return CaptureReadError::Damaged {
                table,
                path,
                offset,
                what,
            };
        }
        match error {
            BatchError::Frame(offset, what) => CaptureReadError::Damaged {
                table,
                path,
                offset,
                what,
            },
            BatchError::Io(source) => CaptureReadError::Io {
                act: "read",
                path,
                source,
            },
            BatchError::Arrow(source) => CaptureReadError::Arrow {
                table,
                path,
                row,
                source,
            },
            BatchError::Parquet(source) => CaptureReadError::Parquet {
                table,
                path,
                source,
            },
            BatchError::Panicked(what) => CaptureReadError::Panicked {
                table,
                path,
                row,
                what,
            },
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, CaptureReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut source = self.source.take()?;
        let item = match source.next()? {
            Ok(item) => item,
            Err(error) => return Some(Err(self.error(error))),
        };
        self.rows = self.rows.saturating_add(item.num_rows() as u64);
        self.source = Some(source);
        Some(Ok(item))
    }
}

fn open(path: &Path) -> Result<File, CaptureReadError> {
    files::open_member(path).map_err(|source| CaptureReadError::Io {
        act: "open",
        path: path.to_owned(),
        source,
    })
}

fn decode<T, E>(
    decoder: impl FnOnce() -> Result<T, E>,
    error: fn(E) -> BatchError,
) -> Result<T, BatchError> {
    contain(decoder)
        .map_err(BatchError::Panicked)?
        .map_err(error)
}

pub(crate) struct StreamBatches<R> {
    frames: Frames<R>,
    decoder: StreamDecoder,
}

impl<R: Read + Seek> StreamBatches<R> {
    pub(crate) fn new(frames: Frames<R>) -> Self {
        Self {
            frames,
            decoder: StreamDecoder::new(),
        }
    }

    pub(crate) fn frames(&mut self) -> &mut Frames<R> {
        &mut self.frames
    }

    /// The next batch. After [`BatchError::Frame`] those behind the damage may be asked for.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>, BatchError> {
        loop {
            let offset = self.frames.offset();
            let frame = match self.frames.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) | Err(FrameError::Torn) => return Ok(None),
                Err(FrameError::Bad(what)) => return Err(BatchError::Frame(offset, what)),
                Err(FrameError::Io(error)) => return Err(BatchError::Io(error)),
            };
            let mut bytes = Buffer::from_vec(frame.to_vec());
            // The decoder hands a batch out as soon as it is whole, so one frame gives at most one.
            let mut batch = None;
            while !bytes.is_empty() {
                batch = decode(|| self.decoder.decode(&mut bytes), BatchError::Arrow)?;
            }
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }
}

impl<R: Read + Seek> Iterator for StreamBatches<R> {
    type Item = Result<RecordBatch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}
