//! The rows of each table: how facts become columns, and columns facts again.
//!
//! One file for each table. None of them touches a file; `stream`, `parquet_form` and `recording` do.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::ArrowError;

use crate::columns::Columns;
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::table::Table;

pub(crate) mod exits;
pub(crate) mod halt_counts;
pub(crate) mod halts;
pub(crate) mod host_samples;
pub(crate) mod idle_states;
pub(crate) mod knobs;
pub(crate) mod lost;
pub(crate) mod samples;
pub(crate) mod vcpus;
pub(crate) mod vms;
pub(crate) mod window_changes;

/// A fact that is a row of a table.
pub(crate) trait Row: Sized {
    const TABLE: Table;

    /// One array for each of the table's columns, in their order.
    fn encode(rows: &[Self]) -> Vec<ArrayRef>;

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError>;

    /// Those that obey the laws, of the next rows of the table.
    fn lawful(rows: Vec<Self>, _laws: &mut Laws) -> Vec<Self> {
        rows
    }
}

/// Rows as a batch of their table.
pub(crate) fn batch_of<R: Row>(rows: &[R]) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(R::TABLE.schema(), R::encode(rows), &options)
}

/// An array behind the pointer that batches hold.
pub(crate) fn array<A: arrow_array::Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

/// The place of a name among all; there are far fewer than 128.
pub(crate) fn place<T: PartialEq + Copy>(all: &[T], wanted: T) -> u8 {
    let place = all.iter().position(|one| *one == wanted).unwrap_or(0);
    u8::try_from(place).unwrap_or(0)
}
