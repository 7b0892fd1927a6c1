//! Facts that a reader must know about a capture although the capture can be read.
//!
//! The whole list is one enum. Notes travel with every result that rests on the capture.

use std::fmt;
use std::path::PathBuf;

use crate::info::{Dropped, rfc3339};
use crate::laws::Law;
use crate::table::Table;

/// Something that is not as it should be in a capture that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A recorder is writing to it right now.
    StillRecording,
    /// The recording was not ended by its recorder: it was killed, or the disk was full.
    Cut,
    /// `capture.json` cannot be read, and a copy from when the recording began is.
    OlderInfo { error: String },
    /// The last bytes of a stream are no whole batch.
    TornTail {
        table: Table,
        path: PathBuf,
        /// Where the last whole batch ends, in bytes.
        offset: u64,
        bytes: u64,
    },
    /// A table's file is not there.
    MissingTable {
        table: Table,
        /// The file that should be there.
        path: PathBuf,
    },
    /// A table's file cannot be read at all; reading the table gives the error again.
    UnreadableTable { table: Table, error: String },
    /// A table has not as many rows as its recorder wrote.
    RowsDiffer {
        table: Table,
        /// Rows that the recorder wrote.
        written: u64,
        found: u64,
    },
    /// `capture.json` is not as it was written.
    InfoChanged { path: PathBuf },
    /// Another program rewrote a table's file, so that its checksums are of no use.
    Rewritten { table: Table, path: PathBuf },
    /// Parts of a table were damaged before the capture was made of what was left.
    Repaired {
        table: String,
        /// Rows that could be counted.
        rows: u64,
        bytes: u64,
    },
    /// Rows that stand after a later one of the same vCPU.
    OutOfOrder { halts: u64 },
    /// Halts that have no row, because the disk did not take it, and of which an older recorder kept counts.
    AsCounts { halts: u64 },
    /// Older segments of a ring that are no longer there.
    Dropped(Dropped),
    /// Rows that no recording can hold: they were left out of what was read.
    LeftOut { table: Table, law: Law, rows: u64 },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StillRecording => {
                f.write_str("the recording is still running; rows so far are read")
            }
            Self::Cut => f.write_str("the recording was not finished by its recorder"),
            Self::OlderInfo { error } => write!(
                f,
                "{error}: its copy in {} is read, which may lack the VMs that came later",
                crate::spare::NAME
            ),
            Self::TornTail {
                table,
                path,
                offset,
                bytes,
            } => write!(
                f,
                "table {table} has a torn tail: the last {bytes} bytes of {}, from offset {offset}, \
                 are no whole batch",
                path.display()
            ),
            Self::MissingTable { table, path } => {
                write!(f, "table {table} is missing: no {}", path.display())
            }
            Self::UnreadableTable { table, error } => {
                write!(f, "table {table} cannot be read: {error}")
            }
            Self::RowsDiffer {
                table,
                written,
                found,
            } => write!(
                f,
                "table {table} has {found} rows, but {written} were written: it was edited or \
                 replaced"
            ),
            Self::InfoChanged { path } => write!(
                f,
                "{} does not match its checksum, or lacks the checksums of its tables: it was damaged or edited \
                 (to edit it, remove its last field, `crc32`)",
                path.display()
            ),
            Self::Rewritten { table, path } => write!(
                f,
                "table {table} was written again by another program: {} is not checked for damage",
                path.display()
            ),
            Self::Repaired { table, rows, bytes } => {
                write!(f, "table {table} was damaged and repaired: ")?;
                repaired(f, *rows, *bytes)
            }
            Self::OutOfOrder { halts } => {
                write!(f, "{halts} halts stand after a later halt of the same vCPU")
            }
            Self::AsCounts { halts } => write!(
                f,
                "{halts} halts are counts only, because the disk was full or failed: they are in sums and rates of \
                 `report` and `top`, and missing where single halts are needed (`diff`, `verify`, `tune`)"
            ),
            Self::Dropped(of) => dropped(f, of),
            Self::LeftOut { table, law, rows } => {
                let noun = if *rows == 1 { "row" } else { "rows" };
                write!(f, "{rows} {noun} of table {table} left out: {law}")
            }
        }
    }
}

fn dropped(f: &mut fmt::Formatter<'_>, of: &Dropped) -> fmt::Result {
    write!(
        f,
        "the ring has dropped {} older segments, with {} halts and {} bytes; the last of them began at {}",
        of.segments,
        of.halts,
        of.bytes,
        rfc3339(of.until_unix_ns)
    )
}

fn repaired(f: &mut fmt::Formatter<'_>, rows: u64, bytes: u64) -> fmt::Result {
    match (rows, bytes) {
        (0, 0) => f.write_str("an unknown number of rows is missing"),
        (0, bytes) => write!(f, "the rows of {bytes} bytes are missing"),
        (rows, _) => write!(f, "{rows} rows are missing"),
    }
}
