//! Edited tables: errors name the column and the row, harmless edits are read.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use haltwise_capture::capture::Capture;
use haltwise_capture::note::Note;
use haltwise_capture::table::Table;
use parquet::arrow::ArrowWriter;

use crate::damage::{complete, halts_error};

/// Puts an array in the place of a column.
fn with(batch: &RecordBatch, name: &str, array: &ArrayRef) -> RecordBatch {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns.map(|(field, column)| {
        let here = field.name() == name;
        let column = if here { array } else { column };
        (field.name().clone(), Arc::clone(column), true)
    });
    RecordBatch::try_from_iter_with_nullable(columns.collect::<Vec<_>>()).unwrap()
}

fn edit(dir: &Path, change: impl Fn(&RecordBatch) -> RecordBatch) {
    let path = dir.join("halts.parquet");
    let file = File::open(&path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file);
    let batches: Vec<_> = reader
        .unwrap()
        .build()
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let edited = change(&batches[0]);
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, edited.schema(), None).unwrap();
    writer.write(&edited).unwrap();
    writer.close().unwrap();
}

/// The error after an edit of the 100 halts.
fn error_after(change: impl Fn(&RecordBatch) -> RecordBatch) -> String {
    let dir = complete();
    edit(dir.path(), change);
    let error = halts_error(dir.path());
    assert!(
        error.starts_with("read table halts: ") && error.contains("halts.parquet"),
        "{error}"
    );
    error
}

fn without(batch: &RecordBatch, name: &str) -> RecordBatch {
    let columns = batch.schema().fields().len();
    let left = (0..columns).filter(|&at| batch.schema().field(at).name() != name);
    batch.project(&left.collect::<Vec<_>>()).unwrap()
}

#[test]
fn what_older_recorders_did_not_tell_is_not_known() {
    let dir = complete();
    edit(dir.path(), |b| without(b, "polled"));
    let halts = Capture::open(dir.path()).unwrap().halts().unwrap();
    let halts: Vec<_> = halts.map(Result::unwrap).collect();
    assert_eq!(halts.len(), 100);
    assert!(halts.iter().all(|halt| halt.polled.is_none()));
}

#[test]
fn a_wrong_column_is_named_with_its_row() {
    let texts = |texts: Vec<Option<&str>>| -> ArrayRef { Arc::new(StringArray::from(texts)) };
    let but = |row: usize, text: &'static str, other: Option<&'static str>| {
        let mut all = vec![Some(text); 100];
        all[row] = other;
        texts(all)
    };
    let moons = (0..100).map(|n| Some(format!("moon {n}")));
    let waited = (0..100).map(|row| (row < 99).then_some(true));
    let tables: [(&str, ArrayRef, &str); 8] = [
        (
            "halt_ns",
            Arc::new(Int64Array::from(vec![-1; 100])),
            " is Int64, not uint64",
        ),
        (
            "start_ns",
            texts(vec![Some("x"); 100]),
            " is Utf8, not uint64",
        ),
        (
            "tid",
            Arc::new(UInt64Array::from(vec![1; 100])),
            " is UInt64, not uint32",
        ),
        (
            "change",
            Arc::new(UInt32Array::from(vec![1; 100])),
            " is UInt32, not dictionary of string",
        ),
        (
            "wake",
            but(42, "timer", Some("moon")),
            ", row 42: the unknown name `moon`",
        ),
        (
            "wake",
            Arc::new(moons.collect::<StringArray>()),
            ", row 0: the unknown name `moon 0`",
        ),
        (
            "waited",
            Arc::new(waited.collect::<BooleanArray>()),
            ", row 99: NULL where a value must be",
        ),
        (
            "change",
            but(7, "grow", None),
            ", row 7: NULL where a value must be",
        ),
    ];
    for (column, array, what) in tables {
        let error = error_after(|batch| with(batch, column, &array));
        let what = format!("column `{column}`{what}");
        assert!(error.contains(&what), "{error}");
    }
    let dropped = error_after(|b| without(b, "poll_cut"));
    assert!(dropped.contains("has no column `poll_cut`"), "{dropped}");
}

#[test]
fn harmless_edits_are_read() {
    let dir = complete();
    // As pandas writes it: names as plain strings, columns nullable, one more column in front.
    edit(dir.path(), |batch| {
        let ipis: ArrayRef = Arc::new(StringArray::from(vec!["ipi"; batch.num_rows()]));
        let batch = with(batch, "wake", &ipis);
        let index: ArrayRef = Arc::new(UInt64Array::from(vec![1; batch.num_rows()]));
        let mut columns = vec![("index".to_owned(), index)];
        let fields = batch.schema();
        let names = fields.fields().iter().map(|field| field.name().clone());
        columns.extend(names.zip(batch.columns().iter().cloned()));
        RecordBatch::try_from_iter(columns).unwrap()
    });
    let capture = Capture::open(dir.path()).unwrap();
    let (table, path) = (Table::Halts, dir.path().join("halts.parquet"));
    assert_eq!(
        capture.notes(),
        [Note::Cut, Note::Rewritten { table, path }]
    );
    let halts: Vec<_> = capture.halts().unwrap().map(Result::unwrap).collect();
    assert_eq!(halts.len(), 100);
    assert!(
        halts
            .iter()
            .all(|halt| halt.wake.as_str() == "ipi" && halt.vm.is_some())
    );
}
