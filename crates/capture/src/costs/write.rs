//! Rows as the bytes of a file.

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use haltwise_core::costs::GRID;
use haltwise_core::costs::table::{Row, labels_text};
use haltwise_core::identity::Identity;
use haltwise_core::kvm::Knobs;
use haltwise_core::replay::Sums;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;

use super::columns::COLUMNS;
use super::{GRID_KEY, SCHEMA, SCHEMA_KEY, seal};
use crate::cells::computed;
use crate::parquet_form;
use crate::table::documented;
use crate::tables::array;
use crate::tables::halts::bucket_lists;

const BATCH_ROWS: usize = 8 * 1024;

const GROUP_ROWS: usize = 64 * 1024;

pub fn encode(rows: impl Iterator<Item = Row>) -> Result<(Vec<u8>, u64), ParquetError> {
    let entry = |key: &str, text: String| KeyValue::new(key.to_owned(), text);
    let about = vec![
        entry(SCHEMA_KEY, SCHEMA.to_string()),
        entry(GRID_KEY, GRID.to_owned()),
        seal::blank(),
    ];
    let properties = parquet_form::properties_of(COLUMNS, GROUP_ROWS, about)?;
    let schema = documented(COLUMNS);
    let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))?;
    let (mut count, mut rows) = (0, rows.peekable());
    while rows.peek().is_some() {
        let some: Vec<Row> = rows.by_ref().take(BATCH_ROWS).collect();
        let batch = RecordBatch::try_new(schema.clone(), columns(&some))?;
        parquet_form::check_texts(&batch)?;
        writer.write(&batch)?;
        count += some.len() as u64;
    }
    Ok((seal::seal(writer.into_inner()?), count))
}

fn texts<'a>(rows: &'a [Row], of: impl Fn(&'a Row) -> &'a str) -> ArrayRef {
    array(StringArray::from_iter_values(rows.iter().map(of)))
}

fn maybe_texts<'a>(rows: &'a [Row], of: impl Fn(&'a Row) -> Option<&'a str>) -> ArrayRef {
    array(rows.iter().map(of).collect::<StringArray>())
}

fn columns(rows: &[Row]) -> Vec<ArrayRef> {
    let names = 0..Identity::KINDS;
    let names = names.map(|kind| maybe_texts(rows, |row| row.vm.identity.names()[kind].1));
    let knobs = |of: fn(Knobs) -> u32| computed(rows, |row| row.knobs.map(of));
    let sums = |of: fn(&Sums) -> u64| computed(rows, |row| of(&row.figures.sums));
    let mut columns = vec![
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
        maybe_texts(rows, |row| row.vm.name.as_deref()),
        maybe_texts(rows, |row| row.vm.vmm.as_deref()),
    ];
    columns.extend(names);
    columns.extend([
        computed(rows, |row| row.vm.vcpus),
        maybe_texts(rows, |row| row.vm.class.as_deref()),
        maybe_texts(rows, |row| row.vm.goal.as_deref()),
        computed(rows, |row| row.vm.own_ceiling_ns),
        texts(rows, |_| GRID),
        texts(rows, |row| row.kind.as_str()),
        knobs(|knobs| knobs.halt_poll_ns),
        knobs(|knobs| knobs.grow),
        knobs(|knobs| knobs.grow_start),
        knobs(|knobs| knobs.shrink),
        texts(rows, |row| row.half.as_str()),
        sums(|sums| sums.halts),
        sums(|sums| sums.blocks),
        sums(|sums| sums.failed_polls),
        sums(|sums| sums.poll_ns),
        sums(|sums| sums.latency_ns),
        sums(|sums| sums.halt_ns),
        bucket_lists(rows.iter().map(|row| &row.figures.latency)),
        computed(rows, |row| row.figures.latency.sum()),
        computed(rows, |row| row.figures.latency.max()),
    ]);
    columns
}
