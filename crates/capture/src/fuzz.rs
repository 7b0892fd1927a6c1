//! Entry points for the fuzz targets and their smoke run: bytes in, no panic.
//!
//! Not part of the library's interface. Each gives how many rows it could read.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::Path;

use haltwise_core::event::Halt;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::batches::Batches;
use crate::capture::parse;
use crate::error::{CaptureReadError, TableFile};
use crate::frames::Frames;
use crate::rows::rows_of;
use crate::table::Table;
use crate::tables::{Row, of_table};

pub use crate::import::fuzz::import_text;

/// Reads bytes as `capture.json`; 1 if they are one.
pub fn capture_json(bytes: &[u8]) -> u64 {
    u64::from(parse(bytes, Path::new("")).is_ok())
}

/// Reads bytes as a stream of every table in turn.
pub fn stream(bytes: &[u8]) -> u64 {
    // Must not panic whatever comes of it.
    drop(extent(bytes));
    let rows = Table::STREAMED.map(|it| of_table!(it, rows(Table::stream_file, bytes)));
    rows.into_iter().sum()
}

/// Reads bytes as the table `halts` in Parquet.
pub fn parquet(bytes: &[u8]) -> u64 {
    rows::<Halt>(Table::parquet_file, bytes)
}

fn extent(bytes: &[u8]) -> Result<u64, CaptureReadError> {
    let file = table_file(Table::Halts, Table::stream_file);
    let opened = in_memory(bytes).map_err(CaptureReadError::io("write", &file.path))?;
    Ok(Frames::new(file, opened)?.extent()?.rows)
}

/// How many rows of a table can be read of these bytes as its file of this form.
fn rows<R: Row>(form: fn(Table) -> String, bytes: &[u8]) -> u64 {
    let file = table_file(R::TABLE, form);
    let opened = in_memory(bytes).ok();
    let batches = opened.and_then(|opened| Batches::of_opened(file, opened, None).ok());
    batches.map_or(0, |batches| {
        rows_of::<R>(batches).map_while(Result::ok).count() as u64
    })
}

fn table_file(table: Table, form: fn(Table) -> String) -> TableFile {
    let path = form(table).into();
    TableFile { table, path }
}

fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("fuzz", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
