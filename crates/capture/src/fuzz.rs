//! Entry points for the fuzz targets and their smoke run: bytes in, no panic.
//!
//! Not part of the library's interface. Each gives how many rows it could read.

use std::io::Cursor;
use std::path::PathBuf;

use haltwise_core::event::{Halt, HaltCounts, HostSample, IdleState, Knob, Lost, WindowChange};
use haltwise_core::exit::Exits;
use haltwise_core::profile::{Frame, Sample, Stack, Thread};

use crate::batches::Batches;
use crate::frames::Frames;
use crate::info;
use crate::rows::rows_of;
use crate::table::Table;
use crate::tables::Row;

pub use crate::import::fuzz::import_text;

/// Reads bytes as `capture.json`; 1 if they are one.
pub fn capture_json(bytes: &[u8]) -> u64 {
    u64::from(info::parse(bytes).is_ok())
}

/// Reads bytes as a stream of every table in turn.
pub fn stream(bytes: &[u8]) -> u64 {
    // Must not panic whatever comes of it.
    let _ = Frames::new(Cursor::new(bytes)).map(Frames::extent);
    rows::<Halt>(bytes)
        + rows::<WindowChange>(bytes)
        + rows::<HaltCounts>(bytes)
        + rows::<Knob>(bytes)
        + rows::<HostSample>(bytes)
        + rows::<IdleState>(bytes)
        + rows::<Lost>(bytes)
        + rows::<Exits>(bytes)
        + rows::<Frame>(bytes)
        + rows::<Stack>(bytes)
        + rows::<Thread>(bytes)
        + rows::<Sample>(bytes)
}

/// Reads bytes as the table `halts` in Parquet.
pub fn parquet(bytes: &[u8]) -> u64 {
    let reader = bytes::Bytes::copy_from_slice(bytes);
    count::<Halt>(Batches::of_parquet(Table::Halts, PathBuf::new(), reader))
}

fn rows<R: Row>(bytes: &[u8]) -> u64 {
    let reader = Cursor::new(bytes.to_vec());
    count::<R>(Batches::of_stream(R::TABLE, PathBuf::new(), reader))
}

fn count<R: Row>(batches: Result<Batches, crate::error::CaptureReadError>) -> u64 {
    batches.map_or(0, |batches| {
        rows_of::<R>(batches).map_while(Result::ok).count() as u64
    })
}
