//! A checked or repaired capture on a screen.

use haltwise_capture::info::State;

use super::view::{Check, Place, Repair};
use crate::number::count;
use crate::page::{Page, Stands, harmless};
use crate::words::plural;

/// What `haltwise check` says.
pub(crate) fn check(check: &Check, width: usize) -> String {
    let mut page = Page::new(width);
    let capture = harmless(&check.capture);
    let state = match (check.whole, check.live, check.state) {
        (true, true, _) => "intact so far: it is still being recorded",
        (true, ..) => "whole",
        (false, false, State::Recording) => "incomplete: its recording was not finished",
        (false, ..) => "not whole",
    };
    page.heading(&format!("{capture}: {state}"));
    let mut rows = vec![["file", "rows", "bytes", ""].map(str::to_owned).to_vec()];
    rows.push(vec![
        "capture.json".to_owned(),
        String::new(),
        String::new(),
        said(check.capture_json).to_owned(),
    ]);
    rows.extend(check.tables.iter().map(|table| {
        let of = table.rows_written.filter(|&written| written != table.rows);
        let of = of.map(|written| format!(" of {}", count(written)));
        vec![
            table.file.clone(),
            count(table.rows) + &of.unwrap_or_default(),
            count(table.bytes),
            said(table.verdict).to_owned(),
        ]
    }));
    let stands = [Stands::Left, Stands::Right, Stands::Right, Stands::Left];
    page.table(2, &stands, &rows);
    let damage = check.tables.iter().flat_map(|table| &table.damage);
    places(&mut page, "Not readable", damage);
    if !check.unlawful.is_empty() {
        page.heading("Invalid rows, which are left out");
    }
    for it in &check.unlawful {
        let rows = plural(it.rows, "row");
        page.wrapped("  ", &format!("{}: {rows}: {}", it.table, it.law), 4);
    }
    notes(&mut page, check, &capture);
    page.finish()
}

/// What `haltwise repair` says.
pub(crate) fn repair(repair: &Repair, width: usize) -> String {
    let mut page = Page::new(width);
    let (old, new) = (harmless(&repair.capture), harmless(&repair.output));
    page.heading(&if old == new {
        format!("{new}: finished")
    } else {
        format!("{new}: repaired copy of {old}")
    });
    let mut rows = vec![["table", "rows"].map(str::to_owned).to_vec()];
    let kept = repair.tables.iter();
    rows.extend(kept.map(|kept| vec![kept.table.clone(), count(kept.rows)]));
    page.table(2, &[Stands::Left, Stands::Right], &rows);
    places(&mut page, "Left out", &repair.left_out);
    page.finish()
}

fn said(verdict: &str) -> &'static str {
    match verdict {
        "whole" => "whole",
        "no-checksums" => "readable, no checksums",
        "rewritten" => "readable, rewritten by another program",
        "torn" => "torn tail",
        "damaged" => "DAMAGED",
        _ => "MISSING",
    }
}

fn places<'a>(page: &mut Page, heading: &str, places: impl IntoIterator<Item = &'a Place>) {
    let mut places = places.into_iter().peekable();
    if places.peek().is_some() {
        page.heading(heading);
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
        let at = format!("{}{}{size}: ", place.file, offset.unwrap_or_default());
        page.wrapped("  ", &(at + &harmless(&place.what)), 4);
    }
}

fn notes(page: &mut Page, check: &Check, capture: &str) {
    page.gap();
    let mut verdicts = check.tables.iter().map(|table| table.verdict);
    if check.capture_json == "damaged" {
        let text = "capture.json does not match its checksum: it was damaged, or edited without removing its last \
                    field, `crc32`.";
        page.wrapped("  ", text, 2);
    }
    if check.capture_json == "no-checksums" || verdicts.any(|verdict| verdict == "no-checksums") {
        let text = "Without checksums (recorded by an older haltwise, or written by another program), damage that can \
                    still be decoded is not found.";
        page.wrapped("  ", text, 2);
    }
    if check.cut && check.state == State::Complete {
        page.wrapped(
            "  ",
            "Its recording was not finished by the recorder but later, by repair.",
            2,
        );
    }
    let unended = check.state == State::Recording && !check.live;
    let repairs = unended || check.tables.iter().any(|table| !table.damage.is_empty());
    if repairs {
        let text = format!(
            "`haltwise repair {capture} -o NEW` writes a finished capture with everything that can be \
             read."
        );
        page.wrapped("  ", &text, 2);
    }
}
