//! Rows as the bytes of a file.

use arrow_array::builder::{ListBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use haltwise_core::costs::GRID;
use haltwise_core::costs::table::{Row, labels_text};
use haltwise_core::kvm::Knobs;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;

use super::columns::{COLUMNS, schema};
use super::{GRID_KEY, SCHEMA, SCHEMA_KEY, seal};
use crate::cells::computed;
use crate::parquet_form;
use crate::table::number_field;
use crate::tables::array;

/// Rows that are encoded at once.
const BATCH_ROWS: usize = 8 * 1024;

const GROUP_ROWS: usize = 64 * 1024;

/// Why a costs table cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CostsWriteError {
    /// The rows cannot be put into columns.
    #[error("encode the costs table")]
    Encode(#[from] ArrowError),
    /// They cannot be put into a file.
    #[error("encode the costs table as Parquet")]
    Parquet(#[from] ParquetError),
}

/// The bytes of a file, and how many rows they hold.
pub fn encode(rows: impl Iterator<Item = Row>) -> Result<(Vec<u8>, u64), CostsWriteError> {
    let entry = |key: &str, text: String| KeyValue::new(key.to_owned(), text);
    let about = vec![
        entry(SCHEMA_KEY, SCHEMA.to_string()),
        entry(GRID_KEY, GRID.to_owned()),
        seal::blank(),
    ];
    let properties = parquet_form::properties_of(COLUMNS, GROUP_ROWS, about)?;
    let mut writer = ArrowWriter::try_new(Vec::new(), schema(), Some(properties))?;
    let (mut count, mut rows) = (0, rows.peekable());
    while rows.peek().is_some() {
        let some: Vec<Row> = rows.by_ref().take(BATCH_ROWS).collect();
        let batch = batch_of(&some)?;
        parquet_form::check_texts(&batch)?;
        writer.write(&batch)?;
        count += some.len() as u64;
    }
    Ok((seal::seal(writer.into_inner()?), count))
}

pub fn batch_of(rows: &[Row]) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_new(schema(), columns(rows))
}

fn columns(rows: &[Row]) -> Vec<ArrayRef> {
    let mut columns = of_host(rows);
    columns.extend(of_vm(rows));
    columns.extend(of_setting(rows));
    columns.extend(figures(rows));
    columns
}

fn texts<'a>(rows: &'a [Row], of: impl Fn(&'a Row) -> &'a str) -> ArrayRef {
    array(StringArray::from_iter_values(rows.iter().map(of)))
}

fn maybe_texts<'a>(rows: &'a [Row], of: impl Fn(&'a Row) -> Option<&'a str>) -> ArrayRef {
    array(rows.iter().map(of).collect::<StringArray>())
}

fn of_host(rows: &[Row]) -> Vec<ArrayRef> {
    vec![
        texts(rows, |row| &row.host.name),
        maybe_texts(rows, |row| row.host.date.as_deref()),
        computed(rows, |row| row.host.start_unix_ns),
        computed(rows, |row| row.host.end_unix_ns),
        texts(rows, |row| &row.host.kernel),
        texts(rows, |row| &row.host.kernel_release),
        texts(rows, |row| &row.host.arch),
        maybe_texts(rows, |row| row.host.cpu_model.as_deref()),
        computed(rows, |row| row.host.cpus),
        computed(rows, |row| row.host.switch_cpu_ns),
        texts(rows, |row| &row.host.switch_cpu_source),
        computed(rows, |row| labels_text(&row.host.labels)),
    ]
}

fn of_vm(rows: &[Row]) -> Vec<ArrayRef> {
    let mut columns = vec![
        maybe_texts(rows, |row| row.vm.name.as_deref()),
        maybe_texts(rows, |row| row.vm.vmm.as_deref()),
    ];
    let kinds = 0..haltwise_core::identity::Identity::KINDS;
    columns.extend(kinds.map(|kind| maybe_texts(rows, |row| row.vm.identity.names()[kind].1)));
    columns.extend([
        computed(rows, |row| row.vm.vcpus),
        maybe_texts(rows, |row| row.vm.class.as_deref()),
        maybe_texts(rows, |row| row.vm.goal.as_deref()),
        computed(rows, |row| row.vm.own_ceiling_ns),
    ]);
    columns
}

fn of_setting(rows: &[Row]) -> Vec<ArrayRef> {
    let knobs = |of: fn(Knobs) -> u32| computed(rows, |row| row.knobs.map(of));
    vec![
        texts(rows, |_| GRID),
        texts(rows, |row| row.kind.as_str()),
        knobs(|knobs| knobs.halt_poll_ns),
        knobs(|knobs| knobs.grow),
        knobs(|knobs| knobs.grow_start),
        knobs(|knobs| knobs.shrink),
        texts(rows, |row| row.half.as_str()),
    ]
}

fn figures(rows: &[Row]) -> Vec<ArrayRef> {
    let mut hists = ListBuilder::new(UInt64Builder::new()).with_field(number_field());
    for row in rows {
        hists.values().append_slice(&row.figures.latency.counts());
        hists.append(true);
    }
    vec![
        computed(rows, |row| row.figures.sums.halts),
        computed(rows, |row| row.figures.sums.blocks),
        computed(rows, |row| row.figures.sums.failed_polls),
        computed(rows, |row| row.figures.sums.poll_ns),
        computed(rows, |row| row.figures.sums.latency_ns),
        computed(rows, |row| row.figures.sums.halt_ns),
        array(hists.finish()),
        computed(rows, |row| row.figures.latency.sum()),
        computed(rows, |row| row.figures.latency.max()),
    ]
}
