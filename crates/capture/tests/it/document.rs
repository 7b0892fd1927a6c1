//! The pages of formats and the code describe the same files, fields and rules.

use std::collections::BTreeMap;
use std::fs::File;

use haltwise_capture::costs;
use haltwise_capture::info::{CaptureInfo, Repaired, SCHEMA};
use haltwise_capture::table::Table;
use haltwise_core::costs::{GRID, Kind, grid, play};
use haltwise_core::hist::{BUCKETS, KERNEL_BUCKETS, bucket_low};
use haltwise_core::recording::Side;
use haltwise_core::verify::carried::Carried;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::common::info;
use crate::damage::complete;

const DOCUMENT: &str = include_str!("../../../../docs/capture-format.md");

fn tables(document: &'static str) -> BTreeMap<&'static str, Vec<Vec<&'static str>>> {
    let mut tables = BTreeMap::<_, Vec<_>>::new();
    let mut heading = "";
    for line in document.lines() {
        if let Some(text) = line
            .trim_start_matches('#')
            .strip_prefix(' ')
            .filter(|_| line.starts_with('#'))
        {
            heading = text;
        }
        if let Some(row) = line
            .strip_prefix("| ")
            .and_then(|row| row.strip_suffix(" |"))
        {
            tables
                .entry(heading)
                .or_default()
                .push(row.split(" | ").collect());
        }
    }
    tables
}

#[test]
fn a_table_explains_itself_without_the_rest_of_its_capture() {
    let dir = complete();
    for table in [Table::Halts, Table::Vms] {
        let file = File::open(dir.path().join(table.parquet_file())).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let about = reader.metadata().file_metadata().key_value_metadata();
        let about: BTreeMap<_, _> = about
            .unwrap()
            .iter()
            .filter_map(|entry| Some((entry.key.as_str(), entry.value.as_deref()?)))
            .collect();
        let CaptureInfo { host, clock, .. } = info();
        for (key, text) in [
            ("schema", SCHEMA.to_string()),
            ("table", table.to_string()),
            ("clock", "CLOCK_MONOTONIC".to_owned()),
            ("kernel_release", host.kernel_release),
            ("start_monotonic_ns", clock.start_monotonic_ns.to_string()),
            ("start_unix_ns", clock.start_unix_ns.to_string()),
        ] {
            assert_eq!(about[&*format!("haltwise.{key}")], text);
        }
        let hostname = about.get("haltwise.hostname").copied();
        assert_eq!(hostname, host.hostname.as_deref());
        for (field, column) in reader.schema().fields().iter().zip(table.columns()) {
            let said = |key: &str| field.metadata().get(key).map(String::as_str);
            assert_eq!(said("meaning"), Some(column.meaning), "{}", column.name);
            assert_eq!(said("unit"), column.unit(), "{}", column.name);
            assert_eq!(said("null"), column.null, "{}", column.name);
            assert!(!column.meaning.is_empty() && column.null != Some(""));
        }
    }
    let has_unit = |name: &str| {
        let mut columns = Table::HaltCounts.columns().iter();
        columns.find(|it| it.name == name).unwrap().unit().is_some()
    };
    assert!(has_unit("interval_ns") && !has_unit("halt_ns_hist"));
}

#[test]
fn the_document_and_the_code_have_the_same_files_and_fields() {
    for table in Table::ALL {
        assert!(
            DOCUMENT.contains(&format!("      {}", table.parquet_file())),
            "{table}"
        );
    }
    let mut info = info();
    // Fields that are only there if they hold something.
    info.side = Side::Guest;
    info.price = Some(Box::new(
        haltwise_core::replay::calibration::written::Written::default(),
    ));
    info.carried = Some(Carried::default());
    info.repaired
        .insert("halts".to_owned(), Repaired::default());
    let fields = serde_json::to_value(info).unwrap();
    let mut in_code: Vec<_> = fields.as_object().unwrap().keys().cloned().collect();
    // The last field is of the text, not of what it holds.
    in_code.push("crc32".to_owned());
    let mut in_document: Vec<_> = tables(DOCUMENT)["capture.json"][1..]
        .iter()
        .map(|row| row[0].trim_matches('`').to_owned())
        .collect();
    in_code.sort();
    in_document.sort();
    assert_eq!(in_document, in_code);
    assert!(DOCUMENT.starts_with(&format!("# The capture format, schema {SCHEMA}\n")));
    assert_eq!(
        tables(DOCUMENT)["Versions"].last().unwrap()[0],
        SCHEMA.to_string()
    );
}

#[test]
fn the_rule_of_the_buckets_is_the_documented_one() {
    let low = |b: u64| if b < 8 { b } else { (8 + b % 8) << (b / 8 - 1) };
    for bucket in 0..BUCKETS {
        assert_eq!(low(bucket as u64), bucket_low(bucket));
    }
    for text in [
        "return b if b < 8 else (8 + b % 8) << (b // 8 - 1)".to_owned(),
        format!(
            "`low(63) = {}` and `low(64) = {}`",
            bucket_low(63),
            bucket_low(64)
        ),
        format!("No list is longer than {BUCKETS}"),
        format!("end at bucket {}", KERNEL_BUCKETS - 1),
    ] {
        assert!(DOCUMENT.contains(&text), "{text}");
    }
}

const COSTS: &str = include_str!("../../../../docs/costs-format.md");

#[test]
fn the_document_of_costs_tables_and_the_code_have_the_same_kinds_and_grid() {
    let documented = tables(COSTS);
    let kinds: Vec<_> = documented["Rows"][1..]
        .iter()
        .map(|row| row[0].trim_matches('`'))
        .collect();
    assert_eq!(kinds, Kind::ALL.map(Kind::as_str));
    let schema = costs::SCHEMA;
    assert!(COSTS.starts_with(&format!("# Costs tables, schema {schema}\n")));
    assert_eq!(
        documented["Versions"].last().unwrap()[0],
        schema.to_string()
    );
    let settings = grid::settings().len();
    assert!(COSTS.contains(&format!("The grid `{GRID}` has {settings} settings")));
    let every = format!("every {}th halt", play::EVERY);
    assert!(COSTS.contains(&every));
}
