//! Findings about a capture, and data left out of a repaired capture: each figure with its name, unit and
//! meaning.

use std::path::Path;

use haltwise_capture::check::{Checkup, TableCheckup, Verdict};
use haltwise_capture::info::State;
use haltwise_capture::info::Summary;
use haltwise_capture::laws::Law;
use haltwise_capture::table::Table;
use haltwise_document::figures;

use super::SCHEMA;

pub(crate) const CHECK: &[&str] = &[
    "Every file is read from end to end and compared with its checksums ([the capture format](capture-format.md)). \
     The exit code is 0 if `whole` is true, else 5. Where `capture.json` itself is damaged beyond reading there is an error \
     instead of a document, with the same exit code.",
    "`null` means not known. It never means zero.",
    "Verdicts: `whole`, as it was written, by its checksums; `no-checksums`, readable from end to end, but damage \
     that can still be decoded would not be found; `rewritten` by another program: likewise; `torn`, its last bytes \
     are no whole batch, as after a recorder was killed; `damaged`, not as it was written, or not readable; `missing`.",
];

pub(crate) const REPAIR: &[&str] = &["The exit code is 0 if nothing was left out, else 5."];

figures! {
    pub(crate) struct CheckedCapture {
        /// Version of this layout: 1.
        pub(crate) schema: u32 = Number,
        /// The directory.
        pub(crate) capture: String = Name,
        /// Everything that was recorded is there, as far as can be known.
        pub(crate) whole: bool = Flag,
        /// `complete`, or `recording` where the recording was not ended.
        pub(crate) state: State = Word,
        /// A recorder is writing to it: what is there up to now was checked.
        pub(crate) live: bool = Flag,
        /// Its recorder did not end it, also where it was finished later.
        pub(crate) cut: bool = Flag,
        /// The verdict on `capture.json`.
        pub(crate) capture_json: Verdict = Word,
        /// The tables that are there, and those that should be.
        pub(crate) tables: Vec<CheckedTable> = List(CheckedTable::FIGURES),
        /// Rows that no recording can hold, which readers leave out.
        pub(crate) unlawful: Vec<InvalidRows> = List(InvalidRows::FIGURES),
    }

    pub(crate) struct InvalidRows {
        /// Their table.
        pub(crate) table: &'static str = Word,
        /// Law that the rows break.
        pub(crate) law: &'static str = Word,
        /// How many.
        pub(crate) rows: u64 = Count,
    }

    pub(crate) struct CheckedTable {
        /// Its name.
        pub(crate) table: &'static str = Word,
        /// Its file.
        pub(crate) file: String = Name,
        /// Verdict on the table.
        pub(crate) verdict: Verdict = Word,
        /// Length of the file.
        pub(crate) bytes: u64 = Count,
        /// Rows that can be read, those behind damage too.
        pub(crate) rows: u64 = Count,
        /// Rows that were written; `null` where the recording was not ended.
        pub(crate) rows_written: Option<u64> = Count,
        /// The places that cannot be read.
        pub(crate) damage: Vec<DamagedPlace> = List(DamagedPlace::FIGURES),
    }

    /// A place that cannot be read.
    pub(crate) struct DamagedPlace {
        /// The file.
        pub(crate) file: String = Name,
        /// Bytes from its start; `null` where only the whole is known to be wrong.
        pub(crate) offset: Option<u64> = Number,
        /// Bytes that are left out.
        pub(crate) bytes: Option<u64> = Count,
        /// Rows that are left out.
        pub(crate) rows: Option<u64> = Count,
        /// Description of the damage.
        pub(crate) what: String = Name,
    }

    pub(crate) struct RepairedCapture {
        /// Version of this layout: 1.
        pub(crate) schema: u32 = Number,
        /// The directory.
        pub(crate) capture: String = Name,
        /// The new capture; the same directory with `--finish`.
        pub(crate) output: String = Name,
        /// The tables of the new capture.
        pub(crate) tables: Vec<KeptTable> = List(KeptTable::FIGURES),
        /// The places of the old one that could not be read.
        pub(crate) left_out: Vec<DamagedPlace> = List(DamagedPlace::FIGURES),
    }

    pub(crate) struct KeptTable {
        /// Its name.
        pub(crate) table: String = Name,
        /// Its rows.
        pub(crate) rows: u64 = Count,
        /// Length of its file.
        pub(crate) bytes: u64 = Count,
    }
}

impl CheckedCapture {
    pub(crate) fn new(dir: &Path, found: &Checkup) -> Self {
        Self {
            schema: SCHEMA,
            capture: dir.display().to_string(),
            whole: found.is_whole(),
            state: found.state,
            live: found.is_live,
            cut: found.is_cut,
            capture_json: found.info,
            tables: found.tables.iter().map(table).collect(),
            unlawful: found.unlawful.iter().map(unlawful).collect(),
        }
    }
}

impl RepairedCapture {
    pub(crate) fn new(dir: &Path, found: &Checkup, made: &Summary) -> Self {
        let kept = made.tables.iter().map(|(table, size)| KeptTable {
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

fn unlawful(&(table, law, rows): &(Table, Law, u64)) -> InvalidRows {
    InvalidRows {
        table: table.as_str(),
        law: law.as_str(),
        rows,
    }
}

fn table(found: &TableCheckup) -> CheckedTable {
    CheckedTable {
        table: found.table.as_str(),
        file: file(found),
        verdict: found.verdict,
        bytes: found.bytes,
        rows: found.rows,
        rows_written: found.written,
        damage: places(found),
    }
}

/// The places of a table that cannot be read, a torn tail among them.
fn places(found: &TableCheckup) -> Vec<DamagedPlace> {
    let damage = found.damage.iter().map(|damage| DamagedPlace {
        file: file(found),
        offset: damage.offset,
        bytes: damage.bytes,
        rows: damage.rows,
        what: damage.what.clone(),
    });
    let torn = (found.torn_bytes > 0).then(|| DamagedPlace {
        file: file(found),
        offset: Some(found.bytes.saturating_sub(found.torn_bytes)),
        bytes: Some(found.torn_bytes),
        rows: None,
        what: "torn tail: incomplete batch".to_owned(),
    });
    let missing = (found.verdict == Verdict::Missing).then(|| DamagedPlace {
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
