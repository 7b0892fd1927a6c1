//! Whether a capture is whole, and making a whole one of it: what `check` and `repair` say, as figures and as shown.

use std::path::Path;

use haltwise_capture::check::{Checkup, TableCheckup, Verdict};
use haltwise_capture::info::{State, Summary};
use haltwise_capture::laws::Law;
use haltwise_capture::table::Table;
use haltwise_document::{Document, Rows, Unit, Untrusted, figures, prose};

use crate::number::count;
use crate::words::plural;

/// Version of the JSON of both; documented in `docs/check-json.md` and `docs/repair-json.md`.
const SCHEMA: u32 = 1;

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
            left_out: found.tables.iter().flat_map(places_of).collect(),
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
        damage: places_of(found),
    }
}

/// The places of a table that cannot be read, a torn tail among them.
fn places_of(found: &TableCheckup) -> Vec<DamagedPlace> {
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

pub(crate) fn check(check: &CheckedCapture, top: usize) -> Document {
    let mut document = Document::new();
    let state = match (check.whole, check.live, check.state) {
        (true, true, _) => ": intact so far: it is still being recorded",
        (true, ..) => ": whole",
        (false, false, State::Recording) => ": incomplete: its recording was not finished",
        (false, ..) => ": not whole",
    };
    document.heading(prose![Untrusted::from(&check.capture), state]);
    document.fact("capture.json", said(check.capture_json));
    let tables = Rows::new("Tables", &check.tables, top)
        .show(&["file"])
        .with("rows", Unit::Shown, rows)
        .show(&["bytes"])
        .with("", Unit::Word, |table| said(table.verdict));
    document.table(tables.finish());
    let damage = check.tables.iter().flat_map(|table| &table.damage);
    places(&mut document, "Not readable", damage);
    if !check.unlawful.is_empty() {
        document.heading("Invalid rows, which are left out");
    }
    for it in &check.unlawful {
        document.fact(it.table, format!("{}: {}", plural(it.rows, "row"), it.law));
    }
    notes(&mut document, check);
    document
}

pub(crate) fn repair(repair: &RepairedCapture, top: usize) -> Document {
    let mut document = Document::new();
    let (old, new) = (&repair.capture, &repair.output);
    document.heading(if old == new {
        prose![Untrusted::from(new), ": finished"]
    } else {
        let (old, new) = (Untrusted::from(old), Untrusted::from(new));
        prose![new, ": repaired copy of ", old]
    });
    let tables = Rows::new("Tables", &repair.tables, top).show(&["table", "rows"]);
    document.table(tables.finish());
    places(&mut document, "Left out", &repair.left_out);
    document
}

fn said(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Whole => "whole",
        Verdict::Unsummed => "readable, no checksums",
        Verdict::Rewritten => "readable, rewritten by another program",
        Verdict::Torn => "torn tail",
        Verdict::Damaged => "DAMAGED",
        Verdict::Missing => "MISSING",
    }
}

fn rows(table: &CheckedTable) -> String {
    let of = table.rows_written.filter(|&written| written != table.rows);
    let of = of.map(|written| format!(" of {}", count(written)));
    count(table.rows) + &of.unwrap_or_default()
}

fn places<'a>(
    document: &mut Document,
    heading: &'static str,
    places: impl IntoIterator<Item = &'a DamagedPlace>,
) {
    let mut places = places.into_iter().peekable();
    if places.peek().is_some() {
        document.heading(heading);
    }
    for place in places {
        let offset = place.offset.map(|offset| format!(", offset {offset}"));
        let size = [
            place.bytes.map(|bytes| plural(bytes, "byte")),
            place.rows.map(|rows| plural(rows, "row")),
        ];
        let size: Vec<_> = size.into_iter().flatten().collect();
        let size = if size.is_empty() {
            String::new()
        } else {
            format!(" ({})", size.join(", "))
        };
        let at = offset.unwrap_or_default() + &size;
        let file = Untrusted::from(&place.file);
        document.fact(prose![file, at], Untrusted::from(&place.what));
    }
}

fn notes(document: &mut Document, check: &CheckedCapture) {
    let is = |verdict| move |table: &CheckedTable| table.verdict == verdict;
    if check.capture_json == Verdict::Damaged {
        document.note(
            "capture.json does not match its checksum: it was damaged, or edited without removing its last field, \
             `crc32`.",
        );
    }
    let unsummed = Verdict::Unsummed;
    if check.capture_json == unsummed || check.tables.iter().any(is(unsummed)) {
        document.note(
            "without checksums (recorded by an older haltwise, or written by another program), damage that can still \
             be decoded is not found",
        );
    }
    if check.cut && check.state == State::Complete {
        document.note("its recording was not finished by the recorder but later, by repair");
    }
    let unended = check.state == State::Recording && !check.live;
    if unended || check.tables.iter().any(|table| !table.damage.is_empty()) {
        document.remark(prose![
            "`haltwise check ",
            Untrusted::from(&check.capture),
            " --repair NEW` writes a finished capture with everything that can be read."
        ]);
    }
}
