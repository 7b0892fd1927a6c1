//! Facts that a reader must know about a capture although the capture can be read.
//!
//! The whole list is one enum. Notes travel with every result that rests on the capture.

use std::path::PathBuf;

use crate::info::{Dropped, rfc3339};
use crate::laws::Law;
use crate::spare;
use crate::table::Table;

/// Something that is not as it should be in a capture that can be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Note {
    /// A recorder is writing to it right now.
    #[error("the recording is still running; rows so far are read")]
    StillRecording,
    /// The recorder was killed, or the disk was full.
    #[error("the recording was not finished by its recorder")]
    Cut,
    /// `capture.json` cannot be read, and the copy from when the recording began can.
    #[error(
        "{error}: its copy in {} is read, which may lack the VMs that came later",
        spare::NAME
    )]
    OlderInfo { error: String },
    #[error(
        "table {table} has a torn tail: the last {bytes} bytes of {path}, from offset {offset}, are no whole batch"
    )]
    TornTail {
        table: Table,
        path: PathBuf,
        /// Where the last whole batch ends, in bytes.
        offset: u64,
        bytes: u64,
    },
    #[error("table {table} is missing: no {path}")]
    MissingTable { table: Table, path: PathBuf },
    /// Reading the table gives the error again.
    #[error("table {table} cannot be read: {error}")]
    UnreadableTable { table: Table, error: String },
    #[error(
        "table {table} has {found} rows, but {written} were written: it was edited or replaced"
    )]
    RowsDiffer {
        table: Table,
        written: u64,
        found: u64,
    },
    #[error(
        "{path} does not match its checksum, or lacks the checksums of its tables: it was damaged or edited \
         (to edit it, remove its last field, `crc32`)"
    )]
    InfoChanged { path: PathBuf },
    /// The checksums of the table do not apply any more.
    #[error("table {table} was written again by another program: {path} is not checked for damage")]
    Rewritten { table: Table, path: PathBuf },
    /// Parts of a table were damaged before the capture was made of what was left.
    #[error("table {table} was damaged and repaired: {}", missing(*rows, *bytes))]
    Repaired {
        table: String,
        /// Rows that could be counted.
        rows: u64,
        bytes: u64,
    },
    #[error(
        "the ring has dropped {} older segments, with {} halts and {} bytes; the last of them began at {}",
        .0.segments, .0.halts, .0.bytes, rfc3339(.0.until_unix_ns)
    )]
    Dropped(Dropped),
    /// No recording can hold these rows.
    #[error("{rows} {} of table {table} left out: {law}", if *rows == 1 { "row" } else { "rows" })]
    LeftOut { table: Table, law: Law, rows: u64 },
}

fn missing(rows: u64, bytes: u64) -> String {
    match (rows, bytes) {
        (0, 0) => "an unknown number of rows is missing".to_owned(),
        (0, bytes) => format!("the rows of {bytes} bytes are missing"),
        (rows, _) => format!("{rows} rows are missing"),
    }
}
