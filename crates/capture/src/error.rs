//! What can go wrong with a capture, with the path, the table, the column and the row.
//!
//! Damage that leaves the rest readable is not an error but a [`crate::note::Note`].

use std::io;
use std::path::PathBuf;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use crate::info::SCHEMA;
use crate::recording::Summary;
use crate::table::Table;

/// Why a capture, or a part of it, cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureReadError {
    /// No `capture.json`: not a capture at all.
    #[error("open capture {path}: it holds no capture.json, so it is not a capture")]
    NotACapture { path: PathBuf },
    /// A ring of captures, where only one will do.
    #[error("open capture {path}: it is a ring of captures")]
    Ring { path: PathBuf },
    #[error("{act} {path}")]
    Io {
        act: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// `capture.json` is not what it should be.
    #[error("read {path}")]
    Json {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    /// `capture.json` names a schema that is not read here, and is not as it was written.
    #[error("read {path}: its bytes do not match their checksum")]
    InfoChanged { path: PathBuf },
    /// `capture.json` is larger than any recorder writes.
    #[error("read {path}: it has {bytes} bytes, and at most {limit} are read")]
    JsonTooLarge {
        path: PathBuf,
        bytes: u64,
        limit: u64,
    },
    /// The capture is of a later schema.
    #[error(
        "read {path}: written by a newer haltwise (schema {found}, this one reads up to {SCHEMA}): \
         update haltwise"
    )]
    NewerSchema { path: PathBuf, found: u64 },
    /// Schema 0 never existed.
    #[error("read {path}: schema {found} was never written")]
    NoSuchSchema { path: PathBuf, found: u64 },
    /// Bytes of a stream are not what a recorder writes, and not a torn tail either.
    #[error("read table {table}: {path}, offset {offset}: {what}")]
    Damaged {
        table: Table,
        path: PathBuf,
        /// Where, in bytes from the start of the file.
        offset: u64,
        what: String,
    },
    /// The Arrow decoder refused a batch.
    #[error("read table {table}: {path}, after row {row}")]
    Arrow {
        table: Table,
        path: PathBuf,
        row: u64,
        #[source]
        source: ArrowError,
    },
    /// The Parquet decoder refused the file.
    #[error("read table {table}: {path}")]
    Parquet {
        table: Table,
        path: PathBuf,
        #[source]
        source: ParquetError,
    },
    /// A decoder panicked: the bytes are such as no writer makes.
    #[error("read table {table}: {path}, after row {row}: the decoder gave up: {what}")]
    Panicked {
        table: Table,
        path: PathBuf,
        row: u64,
        what: String,
    },
    #[error("read table {table}: {path} has no column `{column}`")]
    MissingColumn {
        table: Table,
        path: PathBuf,
        column: String,
    },
    #[error("read table {table}: {path}: column `{column}` is {found}, not {wanted}")]
    ColumnType {
        table: Table,
        path: PathBuf,
        column: String,
        found: String,
        /// The type it should have.
        wanted: &'static str,
    },
    /// A value that no recorder writes.
    #[error("read table {table}: {path}: column `{column}`, row {row}: {what}")]
    Value {
        table: Table,
        path: PathBuf,
        column: String,
        /// The row, from 0.
        row: u64,
        what: String,
    },
}

/// An error and what caused it, on one line.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Why a capture cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureWriteError {
    /// There is something in the directory already.
    #[error("create capture {path}: the directory is not empty")]
    NotEmpty { path: PathBuf },
    #[error("{act} {path}")]
    Io {
        act: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file or the directory is no longer where it was made.
    #[error("write {path}: it was removed, moved or replaced while recording")]
    Removed { path: PathBuf },
    /// Rows could not be appended. What was written before stays readable.
    #[error(
        "append to table {table}: write {path}: {rows_safe} rows are safe, {rows_refused} are not written"
    )]
    Append {
        table: Table,
        path: PathBuf,
        /// Rows of it that are whole on disk.
        rows_safe: u64,
        /// Rows of this flush that are not.
        rows_refused: u64,
        #[source]
        source: io::Error,
    },
    /// Rows could not be put into columns.
    #[error("encode table {table}")]
    Encode {
        table: Table,
        #[source]
        source: ArrowError,
    },
    /// The Parquet file could not be written. The stream stays, whole.
    #[error("convert table {table}: write {path}: the rows stay readable in the stream")]
    Parquet {
        table: Table,
        path: PathBuf,
        #[source]
        source: ParquetError,
    },
    /// The recording has ended, and `capture.json` says what was lost, but its streams could not be converted.
    #[error("convert capture {}: its streams are kept", summary.directory.display())]
    NotConverted {
        /// What the streams hold.
        summary: Box<Summary>,
        #[source]
        source: Box<CaptureWriteError>,
    },
    /// `capture.json` could not be put into words.
    #[error("write {path}")]
    Json {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    /// Somebody is still recording into it.
    #[error(
        "convert capture {path}: a recorder is still writing to it, or another process has locked it"
    )]
    StillRecording { path: PathBuf },
    /// What was to be converted cannot be read.
    #[error(transparent)]
    Read(#[from] CaptureReadError),
}
