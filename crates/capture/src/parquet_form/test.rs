//! The Parquet form, written and read back: its bounds hold for what is written.

use arrow_array::{ArrayRef, Int64Array, ListArray};
use bytes::Bytes;
use haltwise_core::event::{Halt, Knob, KnobScope};
use haltwise_core::recording::Rung;
use parquet::arrow::ArrowWriter;

use super::*;
use crate::info::example;
use crate::tables::batch_of;

/// A table in Parquet as it is written at the end of a recording.
fn written(table: Table, batch: &RecordBatch) -> Vec<u8> {
    let info = example(Clock::new(5, 7), Rung::Bpf);
    let properties = Some(properties(table, &info).unwrap());
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), properties).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn read(table: Table, bytes: Vec<u8>) -> Result<Vec<RecordBatch>, String> {
    let reader = open(table, Bytes::from(bytes), 0).map_err(|error| error.to_string())?;
    let batches: Result<_, _> = reader.collect();
    batches.map_err(|error| error.to_string())
}

fn halts(count: u64) -> RecordBatch {
    let halt = |i: u64| Halt {
        start_ns: i.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ..Halt::default()
    };
    batch_of(&(0..count).map(halt).collect::<Vec<_>>()).unwrap()
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[test]
fn pages_of_the_longest_texts_are_read_back() {
    let knob = |i: usize| Knob {
        time_ns: 0,
        // All different, so that neither a dictionary nor zstd makes the pages smaller.
        name: format!("{i}").repeat(MAX_TEXT / 2),
        scope: KnobScope::Host,
        value: format!("{i}").repeat(MAX_TEXT),
    };
    let batch = batch_of(&(0..9).map(knob).collect::<Vec<_>>()).unwrap();
    check_texts(&batch).unwrap();
    let batches = read(Table::Knobs, written(Table::Knobs, &batch)).unwrap();
    assert_eq!(rows(&batches), 9);
}

#[test]
fn a_text_that_could_not_be_read_back_is_not_written() {
    let knob = Knob {
        time_ns: 0,
        name: "x".repeat(MAX_TEXT + 1),
        scope: KnobScope::Host,
        value: String::new(),
    };
    let error = check_texts(&batch_of(&[knob]).unwrap()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a text of 4194305 bytes, more than 4194304")
    );
}

#[test]
fn pages_full_of_one_value_are_read_back() {
    // zstd packs these as well as it can.
    let rows_written = 600_000;
    let halts = batch_of(&vec![Halt::default(); rows_written]).unwrap();
    let batches = read(Table::Halts, written(Table::Halts, &halts)).unwrap();
    assert_eq!(rows(&batches), rows_written);
}

/// The footer of a table whose columns are packed otherwise.
fn packed(column: &str, codec: Compression) -> ParquetMetaData {
    let bytes = Bytes::from(written(Table::Halts, &halts(3)));
    let metadata = footer::read(&bytes).unwrap().as_ref().clone();
    let mut metadata = metadata.into_builder();
    let groups = metadata.take_row_groups().into_iter().map(|group| {
        let columns = group.columns().iter().cloned().map(|chunk| {
            let is_it = chunk.column_path().string() == column;
            let codec = if is_it { codec } else { chunk.compression() };
            chunk.into_builder().set_compression(codec).build().unwrap()
        });
        let columns = columns.collect();
        let group = group.into_builder().set_column_metadata(columns);
        group.build().unwrap()
    });
    let groups = groups.collect();
    metadata.set_row_groups(groups).build()
}

#[test]
fn a_codec_that_is_not_read_is_named() {
    let gzip = Compression::GZIP(parquet::basic::GzipLevel::default());
    for (codec, name) in [(Compression::LZ4_RAW, "LZ4_RAW"), (gzip, "GZIP")] {
        let error = check_codecs(Table::Halts.columns(), &packed("halt_ns", codec)).unwrap_err();
        let what =
            format!("column halt_ns is compressed with {name}: ZSTD, SNAPPY and UNCOMPRESSED");
        assert!(error.to_string().contains(&what), "{error}");
    }
    let plain = packed("halt_ns", Compression::UNCOMPRESSED);
    check_codecs(Table::Halts.columns(), &plain).unwrap();
    // This table does not have such a column.
    let other = packed("halt_ns", Compression::LZ4_RAW);
    check_codecs(Table::Lost.columns(), &other).unwrap();
}

#[test]
fn columns_that_are_not_ours_are_not_decoded() {
    let halts = halts(3);
    let list = ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(
        [1, 2, 3].map(|value| Some(vec![Some(value); 5])),
    );
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    columns.push(("other".to_owned(), Arc::new(list.clone())));
    for (field, column) in halts.schema().fields().iter().zip(halts.columns()) {
        columns.push((field.name().clone(), Arc::clone(column)));
    }
    columns.push(("x.y".to_owned(), Arc::new(Int64Array::from(vec![1, 2, 3]))));
    let edited = RecordBatch::try_from_iter(columns.clone()).unwrap();
    let batches = read(Table::Halts, written(Table::Halts, &edited)).unwrap();
    let names = |table: Table| table.columns().iter().map(|c| c.name);
    let schema = batches[0].schema();
    let found = schema.fields().iter().map(|field| field.name().as_str());
    assert!(found.eq(names(Table::Halts)));
    assert_eq!(
        batches[0].column_by_name("start_ns").unwrap().as_ref(),
        halts.column_by_name("start_ns").unwrap().as_ref() as &dyn arrow_array::Array,
    );

    columns[1].1 = Arc::new(list);
    let edited = RecordBatch::try_from_iter(columns).unwrap();
    let error = read(Table::Halts, written(Table::Halts, &edited)).unwrap_err();
    assert!(error.contains("column start_ns is List"), "{error}");
    // None of ours: rows without columns.
    let other = halts.project(&[0]).unwrap();
    let batches = read(Table::Lost, written(Table::Lost, &other)).unwrap();
    assert_eq!((rows(&batches), batches[0].num_columns()), (3, 0));
}
