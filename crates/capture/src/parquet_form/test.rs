//! The Parquet form, written and read back: its bounds hold for what is written.

use arrow_array::{ArrayRef, Int64Array, ListArray, UInt64Array};
use bytes::Bytes;
use haltwise_core::event::{Halt, Knob, KnobScope};
use haltwise_core::recording::Rung;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::*;
use crate::info::example;
use crate::tables::{Row, batch_of};

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
    for (codec, name) in [
        (
            Compression::BROTLI(parquet::basic::BrotliLevel::default()),
            "BROTLI",
        ),
        (Compression::LZ4_RAW, "LZ4_RAW"),
        (gzip, "GZIP"),
    ] {
        let error = check_codecs(Table::Halts.columns(), &packed("halt_ns", codec)).unwrap_err();
        let what = format!(
            "column halt_ns is compressed with {name}: ZSTD, SNAPPY and UNCOMPRESSED are read, so write the file \
             with one of these (Spark: spark.sql.parquet.compression.codec=zstd; pandas, DuckDB: compression zstd)"
        );
        assert!(error.to_string().contains(&what), "{error}");
    }
    let plain = packed("halt_ns", Compression::UNCOMPRESSED);
    check_codecs(Table::Halts.columns(), &plain).unwrap();
    // This table does not have such a column.
    let other = packed("halt_ns", Compression::LZ4_RAW);
    check_codecs(Table::Lost.columns(), &other).unwrap();
}

/// Spark and pandas compress with Snappy by default.
#[test]
fn snappy_is_read() {
    let halts = halts(1_000);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let mut bytes = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut bytes, halts.schema(), Some(properties.build())).unwrap();
    writer.write(&halts).unwrap();
    writer.close().unwrap();
    let by = |bytes: Vec<u8>| read(Table::Halts, bytes).unwrap();
    assert_eq!(by(bytes), by(written(Table::Halts, &halts)));
}

#[test]
fn a_list_of_booleans_in_a_page_header_is_refused() {
    let mut bytes = written(Table::Halts, &halts(10));
    // The first page comes after the magic number; its header ends with two stops.
    let stop = bytes.windows(2).position(|pair| pair == [0, 0]).unwrap();
    // An unknown field 15 of the header's last structure: a list of 2^31 - 1 booleans.
    let many = [0xa9, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
    bytes.splice(stop..stop, many);
    let error = read(Table::Halts, bytes).unwrap_err();
    let what = "the page header at 4 claims a list of 2147483647 elements";
    assert!(error.contains(what), "{error}");
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
}

#[test]
fn a_table_of_no_column_of_ours_has_its_rows_and_no_columns() {
    let column: ArrayRef = Arc::new(UInt64Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("other", column)]).unwrap();
    let batches = read(Table::Halts, written(Table::Halts, &batch)).unwrap();
    assert_eq!((rows(&batches), batches[0].num_columns()), (2, 0));
    assert_eq!(Halt::TABLE, Table::Halts);
}
