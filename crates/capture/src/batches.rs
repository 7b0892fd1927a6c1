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
use crate::frames::{FrameError, Frames};
use crate::parquet_form;
use crate::table::Table;

/// Why there is no next batch.
#[derive(Debug)]
pub(crate) enum BatchError {
    /// Not frames of a stream.
    Frame(u64, String),
    /// The file cannot be read.
    Io(std::io::Error),
    /// The Arrow decoder refused.
    Arrow(ArrowError),
    /// The Parquet decoder refused.
    Parquet(ParquetError),
    /// A decoder panicked.
    Panicked(String),
}

type Source = Box<dyn Iterator<Item = Result<RecordBatch, BatchError>> + Send>;

/// The batches of one table.
pub(crate) struct Batches {
    table: Table,
    path: PathBuf,
    rows: u64,
    /// `None` when there is nothing more, or after an error.
    source: Option<Source>,
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
        }
    }

    /// From a stream.
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

    /// From a Parquet file.
    pub(crate) fn of_parquet<R: parquet::file::reader::ChunkReader + 'static>(
        table: Table,
        path: PathBuf,
        reader: R,
    ) -> Result<Self, CaptureReadError> {
        let mut batches = Self::none(table, path);
        let opened = decode(|| parquet_form::open(table, reader), BatchError::Parquet);
        let mut decoder = opened.map_err(|error| batches.error(error))?;
        batches.source = Some(Box::new(std::iter::from_fn(move || {
            decode(|| decoder.next().transpose(), BatchError::Arrow).transpose()
        })));
        Ok(batches)
    }

    /// How many rows the footer of a Parquet file promises.
    pub(crate) fn parquet_rows(
        table: Table,
        path: &Path,
        file: &File,
    ) -> Result<u64, CaptureReadError> {
        decode(|| parquet_form::rows(file), BatchError::Parquet)
            .map_err(|error| Self::none(table, path.to_owned()).error(error))
    }

    /// What is wrong with the frames of a stream.
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

    /// From a file of either form, by its name.
    pub(crate) fn of_file(table: Table, path: &Path) -> Result<Self, CaptureReadError> {
        let file = File::open(path).map_err(|source| CaptureReadError::Io {
            act: "open",
            path: path.to_owned(),
            source,
        })?;
        if is_parquet(path) {
            Self::of_parquet(table, path.to_owned(), file)
        } else {
            Self::of_stream(table, path.to_owned(), BufReader::new(file))
        }
    }

    /// The table.
    pub(crate) fn table(&self) -> Table {
        self.table
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Rows handed out so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// An error with its place.
    fn error(&self, error: BatchError) -> CaptureReadError {
        let (table, path, row) = (self.table, self.path.clone(), self.rows);
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

fn decode<T, E>(
    decoder: impl FnOnce() -> Result<T, E>,
    error: fn(E) -> BatchError,
) -> Result<T, BatchError> {
    contain(decoder)
        .map_err(BatchError::Panicked)?
        .map_err(error)
}

/// The batches of a stream: whole frames, each handed to the decoder.
struct StreamBatches<R> {
    frames: Frames<R>,
    decoder: StreamDecoder,
}

impl<R: Read + Seek> StreamBatches<R> {
    fn new(frames: Frames<R>) -> Self {
        Self {
            frames,
            decoder: StreamDecoder::new(),
        }
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, BatchError> {
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
