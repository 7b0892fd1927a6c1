//! Result of writing tables, as text.

use haltwise_document::{Document, Rows, Untrusted};

use super::view::CostsResult;
use crate::words::plural;

pub(crate) fn document(result: &CostsResult, top: usize) -> Document {
    let mut document = Document::new();
    document.heading(format!(
        "Costs of {} settings (grid {})",
        result.settings, result.grid
    ));
    if !result.tables.is_empty() {
        let tables = Rows::new("Tables", &result.tables, top)
            .show(&["path", "duration_ns", "vms", "halts", "rows", "bytes"])
            .spare(&["duration_ns", "rows"]);
        document.table(tables.finish());
    }
    if result.known > 0 {
        let known = plural(result.known as u64, "segment");
        document.prose(format!("{known} of the ring had their table already."));
    }
    if result.recording > 0 {
        let recording = plural(result.recording as u64, "segment");
        document.prose(format!(
            "{recording} still being recorded, for the next run."
        ));
    }
    for reason in &result.failed {
        document.note(Untrusted::from(reason));
    }
    for table in &result.tables {
        for note in &table.notes {
            document.note(Untrusted::from(note));
        }
    }
    if result
        .tables
        .iter()
        .any(|it| matches!(it.switch_cpu_source, "assumed" | "bounded"))
    {
        document.note(
            "The cost of a sleep is assumed from the recorded wake-ups; `haltwise calibrate --json` measures it, \
             for --calibration.",
        );
    }
    document
}
