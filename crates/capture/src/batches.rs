//! The batches of one table, one at a time, from either form.
//!
//! Decoders are called inside [`contain`] only, and not again after a panic.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use crate::capture::is_parquet;
use crate::contain::contain;
use crate::error::{CaptureReadError, TableFile};
use crate::files;
use crate::frames::{FrameError, Frames};
use crate::parquet_form;
use crate::sums::{Checked, Found, Sums};

#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchError {
    #[error("{1}")]
    Frame(u64, String),
    #[error(transparent)]
    Io(std::io::Error),
    #[error(transparent)]
    Arrow(ArrowError),
    #[error(transparent)]
    Parquet(ParquetError),
    #[error("the decoder gave up: {0}")]
    Panicked(String),
}

type Source = Box<dyn Iterator<Item = Result<RecordBatch, BatchError>> + Send>;

pub(crate) struct Batches {
    pub(crate) file: TableFile,
    pub(crate) rows: u64,
    /// `None` when there is nothing more, or after an error.
    source: Option<Source>,
    /// Where the file was found damaged, which then is what an error comes of.
    found: Option<Found>,
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches")
            .field("file", &self.file)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl Batches {
    /// No batches: the table's file is missing.
    pub(crate) fn none(file: TableFile) -> Self {
        Self {
            file,
            rows: 0,
            source: None,
            found: None,
        }
    }

    pub(crate) fn of_stream<R: Read + Seek + Send + 'static>(
        file: TableFile,
        reader: R,
    ) -> Result<Self, CaptureReadError> {
        let mut batches = Self::none(file);
        match Frames::new(reader) {
            Ok(frames) => batches.source = Some(Box::new(StreamBatches::new(frames))),
            Err(error) => return Err(batches.error(BatchError::Io(error))),
        }
        Ok(batches)
    }

    /// From a row group on; `found` is where the reader says what it finds damaged.
    pub(crate) fn of_parquet<R: parquet::file::reader::ChunkReader + 'static>(
        file: TableFile,
        reader: R,
        found: Option<Found>,
        from: usize,
    ) -> Result<Self, CaptureReadError> {
        let table = file.table;
        let mut batches = Self::none(file);
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

    /// Result of `look` on the footer of a Parquet file.
    pub(crate) fn of_footer<T>(
        file: TableFile,
        opened: File,
        sums: Option<Sums>,
        look: fn(&Checked) -> Result<T, ParquetError>,
    ) -> Result<T, CaptureReadError> {
        let mut batches = Self::none(file);
        let checked = batches.checked(opened, sums)?;
        let found = decode(|| look(&checked), BatchError::Parquet);
        found.map_err(|error| batches.error(error))
    }

    /// A file that is held against its checksums, if it has any.
    fn checked(&mut self, file: File, sums: Option<Sums>) -> Result<Checked, CaptureReadError> {
        let checked =
            Checked::new(file, sums).map_err(|error| self.error(BatchError::Io(error)))?;
        self.found = Some(checked.found());
        Ok(checked)
    }

    pub(crate) fn frame_error(file: TableFile, offset: u64, error: FrameError) -> CaptureReadError {
        Self::none(file).error(error.at(offset))
    }

    pub(crate) fn of_file(file: TableFile, sums: Option<Sums>) -> Result<Self, CaptureReadError> {
        let opened = open(&file.path)?;
        Self::of_opened(file, opened, sums, 0)
    }

    /// From a file that is open; of a Parquet file from a row group on.
    pub(crate) fn of_opened(
        file: TableFile,
        opened: File,
        sums: Option<Sums>,
        from: usize,
    ) -> Result<Self, CaptureReadError> {
        if is_parquet(&file.path) {
            let checked = Self::none(file.clone()).checked(opened, sums)?;
            let found = Some(checked.found());
            Self::of_parquet(file, checked, found, from)
        } else {
            Self::of_stream(file, BufReader::new(opened))
        }
    }

    fn error(&self, error: BatchError) -> CaptureReadError {
        let (file, row) = (self.file.clone(), self.rows);
        if let Some(mismatch) = self.found.as_ref().and_then(|found| found.get()) {
            let (offset, what) = (mismatch.offset, mismatch.to_string());
            return CaptureReadError::Damaged { file, offset, what };
        }
        match error {
            BatchError::Frame(offset, what) => CaptureReadError::Damaged { file, offset, what },
            BatchError::Io(source) => CaptureReadError::io("read", &file.path)(source),
            BatchError::Arrow(source) => CaptureReadError::Arrow { file, row, source },
            BatchError::Parquet(source) => CaptureReadError::Parquet { file, source },
            BatchError::Panicked(what) => CaptureReadError::Panicked { file, row, what },
        }
    }
}

impl FrameError {
    fn at(self, offset: u64) -> BatchError {
        match self {
            Self::Torn => BatchError::Frame(offset, "the file ends here".to_owned()),
            Self::Bad(what) => BatchError::Frame(offset, what),
            Self::Io(error) => BatchError::Io(error),
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

pub(crate) fn open(path: &Path) -> Result<File, CaptureReadError> {
    files::open_member(path).map_err(CaptureReadError::io("open", path))
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
    pub(crate) frames: Frames<R>,
    decoder: StreamDecoder,
}

impl<R: Read + Seek> StreamBatches<R> {
    pub(crate) fn new(frames: Frames<R>) -> Self {
        Self {
            frames,
            decoder: StreamDecoder::new(),
        }
    }

    /// The next batch. After [`BatchError::Frame`] those behind the damage may be asked for.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>, BatchError> {
        loop {
            let offset = self.frames.offset;
            let frame = match self.frames.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) | Err(FrameError::Torn) => return Ok(None),
                Err(error) => return Err(error.at(offset)),
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
