//! Entry points for the fuzz targets and their smoke run: bytes in, no panic.
//!
//! Not part of the library's interface. Each gives how many rows it could read.

use std::io::Cursor;
use std::path::PathBuf;

use haltwise_core::event::Halt;

use crate::batches::Batches;
use crate::error::{CaptureReadError, TableFile};
use crate::frames::Frames;
use crate::info;
use crate::rows::rows_of;
use crate::table::Table;
use crate::tables::{Row, of_table};

pub use crate::import::fuzz::import_text;

/// Reads bytes as `capture.json`; 1 if they are one.
pub fn capture_json(bytes: &[u8]) -> u64 {
    u64::from(info::parse(bytes).is_ok())
}

/// Reads bytes as a stream of every table in turn.
pub fn stream(bytes: &[u8]) -> u64 {
    // Must not panic whatever comes of it.
    let _ = Frames::new(Cursor::new(bytes)).map(Frames::extent);
    let rows = Table::STREAMED.map(|table| of_table!(table, rows(bytes)));
    rows.into_iter().sum()
}

/// Reads bytes as the table `halts` in Parquet.
pub fn parquet(bytes: &[u8]) -> u64 {
    let reader = bytes::Bytes::copy_from_slice(bytes);
    count::<Halt>(Batches::of_parquet(unnamed(Table::Halts), reader, None, 0))
}

fn rows<R: Row>(bytes: &[u8]) -> u64 {
    let reader = Cursor::new(bytes.to_vec());
    count::<R>(Batches::of_stream(unnamed(R::TABLE), reader))
}

fn unnamed(table: Table) -> TableFile {
    let path = PathBuf::new();
    TableFile { table, path }
}

fn count<R: Row>(batches: Result<Batches, CaptureReadError>) -> u64 {
    batches.map_or(0, |batches| {
        rows_of::<R>(batches).map_while(Result::ok).count() as u64
    })
}
