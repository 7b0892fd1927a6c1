//! What was found of a capture, and what was left out of a repaired one, as data.

use std::path::Path;

use haltwise_capture::check::{Checkup, TableCheckup, Verdict};
use haltwise_capture::info::State;
use haltwise_capture::laws::Law;
use haltwise_capture::recording::Summary;
use haltwise_capture::table::Table;
use serde::Serialize;

use super::SCHEMA;

/// What `haltwise check` prints.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) schema: u32,
    pub(crate) capture: String,
    pub(crate) whole: bool,
    pub(crate) state: State,
    pub(crate) live: bool,
    pub(crate) cut: bool,
    pub(crate) capture_json: &'static str,
    pub(crate) tables: Vec<TableView>,
    pub(crate) unlawful: Vec<Unlawful>,
}

/// Rows that break a law.
#[derive(Debug, Serialize)]
pub(crate) struct Unlawful {
    pub(crate) table: &'static str,
    pub(crate) law: &'static str,
    pub(crate) rows: u64,
}

/// A table.
#[derive(Debug, Serialize)]
pub(crate) struct TableView {
    pub(crate) table: &'static str,
    pub(crate) file: String,
    pub(crate) verdict: &'static str,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    pub(crate) rows_written: Option<u64>,
    pub(crate) damage: Vec<Place>,
}

/// A place that cannot be read.
#[derive(Debug, Serialize)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) offset: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) rows: Option<u64>,
    pub(crate) what: String,
}

/// What `haltwise repair` prints.
#[derive(Debug, Serialize)]
pub(crate) struct Repair {
    pub(crate) schema: u32,
    pub(crate) capture: String,
    pub(crate) output: String,
    pub(crate) tables: Vec<Kept>,
    pub(crate) left_out: Vec<Place>,
}

/// A table of the new capture.
#[derive(Debug, Serialize)]
pub(crate) struct Kept {
    pub(crate) table: String,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

impl Check {
    /// Of a capture.
    pub(crate) fn new(dir: &Path, found: &Checkup) -> Self {
        Self {
            schema: SCHEMA,
            capture: dir.display().to_string(),
            whole: found.is_whole(),
            state: found.state,
            live: found.is_live,
            cut: found.is_cut,
            capture_json: word(found.info),
            tables: found.tables.iter().map(table).collect(),
            unlawful: found.unlawful.iter().map(unlawful).collect(),
        }
    }
}

impl Repair {
    /// Of a capture in which `found` was found.
    pub(crate) fn new(dir: &Path, found: &Checkup, made: &Summary) -> Self {
        let kept = made.tables.iter().map(|(table, size)| Kept {
            table: table.clone(),
            rows: size.rows,
            bytes: size.bytes,
        });
        Self {
            schema: SCHEMA,
            capture: dir.display().to_string(),
            output: made.directory.display().to_string(),
            tables: kept.collect(),
            left_out: found.tables.iter().flat_map(places).collect(),
        }
    }
}

fn unlawful(&(table, law, rows): &(Table, Law, u64)) -> Unlawful {
    Unlawful {
        table: table.as_str(),
        law: law.as_str(),
        rows,
    }
}

fn table(found: &TableCheckup) -> TableView {
    TableView {
        table: found.table.as_str(),
        file: file(found),
        verdict: word(found.verdict),
        bytes: found.bytes,
        rows: found.rows,
        rows_written: found.written,
        damage: places(found),
    }
}

/// The places of a table that cannot be read, a torn tail among them.
fn places(found: &TableCheckup) -> Vec<Place> {
    let damage = found.damage.iter().map(|damage| Place {
        file: file(found),
        offset: damage.offset,
        bytes: damage.bytes,
        rows: damage.rows,
        what: damage.what.clone(),
    });
    let torn = (found.torn_bytes > 0).then(|| Place {
        file: file(found),
        offset: Some(found.bytes.saturating_sub(found.torn_bytes)),
        bytes: Some(found.torn_bytes),
        rows: None,
        what: "torn tail: incomplete batch".to_owned(),
    });
    let missing = (found.verdict == Verdict::Missing).then(|| Place {
        file: file(found),
        offset: None,
        bytes: None,
        rows: found.written,
        what: "the file is missing".to_owned(),
    });
    damage.chain(torn).chain(missing).collect()
}

fn file(found: &TableCheckup) -> String {
    let name = found.path.file_name().unwrap_or(found.path.as_os_str());
    name.to_string_lossy().into_owned()
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Whole => "whole",
        Verdict::Unsummed => "no-checksums",
        Verdict::Rewritten => "rewritten",
        Verdict::Torn => "torn",
        Verdict::Damaged => "damaged",
        Verdict::Missing => "missing",
    }
}
