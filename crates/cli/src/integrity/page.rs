//! A checked or repaired capture, as it is shown.

use haltwise_capture::check::Verdict;
use haltwise_capture::info::State;
use haltwise_document::{Document, Rows, Unit, Untrusted, prose};

use super::view::{CheckedCapture, CheckedTable, DamagedPlace, RepairedCapture};
use crate::number::count;
use crate::words::plural;

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
