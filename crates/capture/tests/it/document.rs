//! `docs/capture-format.md` and the code describe the same tables.

use std::collections::BTreeMap;

use haltwise_capture::info::{Repaired, SCHEMA};
use haltwise_capture::table::Table;
use haltwise_core::event::HaltCounts;
use haltwise_core::hist::{BUCKETS, KERNEL_BUCKETS, bucket_low};
use haltwise_core::verify::carried::Carried;

use crate::common::info;

const DOCUMENT: &str = include_str!("../../../../docs/capture-format.md");

/// The rows of each Markdown table, by the heading above it.
fn tables() -> BTreeMap<&'static str, Vec<Vec<&'static str>>> {
    let mut tables = BTreeMap::<_, Vec<_>>::new();
    let mut heading = "";
    for line in DOCUMENT.lines() {
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
fn the_document_and_the_code_have_the_same_columns() {
    let documented = tables();
    for table in Table::ALL {
        let rows = &documented[table.as_str()];
        assert_eq!(rows[0], ["column", "type", "NULL", "meaning"], "{table}");
        let in_document: Vec<_> = rows[1..]
            .iter()
            .map(|row| {
                (
                    row[0].trim_matches('`').to_owned(),
                    row[1],
                    row[2] != "never",
                )
            })
            .collect();
        let in_code: Vec<_> = table
            .columns()
            .iter()
            .map(|column| {
                (
                    column.name.to_owned(),
                    column.kind.as_str(),
                    column.nullable,
                )
            })
            .collect();
        assert_eq!(in_document, in_code, "{table}");
        assert!(
            rows.iter()
                .all(|row| row.len() == 4 && row.iter().all(|cell| !cell.is_empty()))
        );
    }
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
    info.unwritten.push(HaltCounts::default());
    info.carried = Some(Carried::default());
    info.repaired
        .insert("halts".to_owned(), Repaired::default());
    let fields = serde_json::to_value(info).unwrap();
    let mut in_code: Vec<_> = fields.as_object().unwrap().keys().cloned().collect();
    // The last field is of the text, not of what it holds.
    in_code.push("crc32".to_owned());
    let mut in_document: Vec<_> = tables()["capture.json"][1..]
        .iter()
        .map(|row| row[0].trim_matches('`').to_owned())
        .collect();
    in_code.sort();
    in_document.sort();
    assert_eq!(in_document, in_code);
    assert!(DOCUMENT.starts_with(&format!("# The capture format, schema {SCHEMA}\n")));
    assert_eq!(tables()["Versions"].last().unwrap()[0], SCHEMA.to_string());
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
