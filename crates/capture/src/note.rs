//! What a reader must know about a capture although it can be read.
//!
//! The whole list is one enum. Notes travel with every result that rests on the capture.

use std::fmt;
use std::path::PathBuf;

use crate::table::Table;

/// Something that is not as it should be in a capture that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A recorder is writing to it right now.
    StillRecording,
    /// The recording was not ended by its recorder: it was killed, or the disk was full.
    Cut,
    /// The last bytes of a stream are no whole batch.
    TornTail {
        /// The table.
        table: Table,
        /// The stream.
        path: PathBuf,
        /// Where the last whole batch ends, in bytes.
        offset: u64,
        /// Bytes after that.
        bytes: u64,
    },
    /// A table's file is not there.
    MissingTable {
        /// The table.
        table: Table,
        /// The file that should be there.
        path: PathBuf,
    },
    /// A table's file cannot be read at all; reading the table gives the error again.
    UnreadableTable {
        /// The table.
        table: Table,
        /// Why.
        error: String,
    },
    /// A table has not as many rows as its recorder wrote.
    RowsDiffer {
        /// The table.
        table: Table,
        /// Rows that the recorder wrote.
        written: u64,
        /// Rows that are there.
        found: u64,
    },
    /// Rows that stand after a later one of the same vCPU.
    OutOfOrder {
        /// How many halts.
        halts: u64,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StillRecording => f.write_str("the recording goes on; rows up to now are read"),
            Self::Cut => f.write_str("the recording was cut: its recorder did not end it"),
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
            Self::OutOfOrder { halts } => {
                write!(f, "{halts} halts stand after a later halt of the same vCPU")
            }
        }
    }
}
