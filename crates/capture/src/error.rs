//! Errors of a capture, with the path, the table, the column and the row.
//!
//! Damage that leaves the rest readable is not an error but a [`crate::note::Note`].

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use crate::files::Directory;
use crate::info::{SCHEMA, Summary};
use crate::table::Table;

/// Why a capture, or a part of it, cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureReadError {
    #[error("open capture {path}: it holds no capture.json, so it is not a capture")]
    NotACapture { path: PathBuf },
    #[error("open capture {path}: it is a ring of captures")]
    Ring { path: PathBuf },
    #[error("{act} {path}")]
    Io {
        act: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("read {path}")]
    Json {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    /// It is not the `capture.json` that a recorder wrote.
    #[error("read {path}: {what}")]
    Info { path: PathBuf, what: String },
    #[error(
        "read {path}: written by a newer haltwise (schema {found}, this one reads up to {SCHEMA}): \
         update haltwise"
    )]
    NewerSchema { path: PathBuf, found: u64 },
    #[error("{file}, offset {offset}: {what}")]
    Damaged {
        file: TableFile,
        /// Where, in bytes from the start of the file.
        offset: u64,
        what: String,
    },
    /// A decoder refuses it: the rows after this one, or the whole file.
    #[error("{file}{}", row.map_or_else(String::new, |row| format!(", after row {row}")))]
    Decode {
        file: TableFile,
        row: Option<u64>,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{file}, after row {row}: the decoder gave up: {what}")]
    Panicked {
        file: TableFile,
        row: u64,
        what: String,
    },
    #[error("{file}{what}")]
    Column { file: TableFile, what: String },
}

/// The file of a table, which an error of reading is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFile {
    pub table: Table,
    pub path: PathBuf,
}

impl TableFile {
    /// Whether it is the finished table, else a stream.
    pub(crate) fn is_parquet(&self) -> bool {
        self.path.extension().is_some_and(|name| name == "parquet")
    }
}

impl fmt::Display for TableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read table {}: {}", self.table, self.path.display())
    }
}

impl CaptureReadError {
    /// Error of a failed action on a file.
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            act,
            path: path.to_owned(),
            source,
        }
    }
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
    #[error("create capture {path}: the directory is not empty")]
    NotEmpty { path: PathBuf },
    #[error("{act} {path}")]
    Io {
        act: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("write {path}: it was removed, moved or replaced while recording")]
    Removed { path: PathBuf },
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
    #[error("encode table {table}")]
    Encode {
        table: Table,
        #[source]
        source: ArrowError,
    },
    #[error("convert table {table}: write {path}: the rows stay readable in the stream")]
    Parquet {
        table: Table,
        path: PathBuf,
        #[source]
        source: ParquetError,
    },
    #[error("convert capture {}: its streams are kept", summary.directory.display())]
    NotConverted {
        summary: Box<Summary>,
        #[source]
        source: Box<CaptureWriteError>,
    },
    #[error(
        "convert capture {path}: a recorder is still writing to it, or another process has locked it"
    )]
    StillRecording { path: PathBuf },
    /// The capture to convert cannot be read.
    #[error(transparent)]
    Read(#[from] CaptureReadError),
}

impl CaptureWriteError {
    /// Error of a failed action on a file.
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { act, path, source }
    }

    /// The same of a file by its name in a directory.
    pub(crate) fn below(
        act: &'static str,
        directory: &Directory,
        name: &str,
    ) -> impl FnOnce(io::Error) -> Self {
        Self::io(act, &directory.path().join(name))
    }
}
