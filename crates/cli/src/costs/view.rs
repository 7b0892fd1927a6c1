//! Result of writing tables, and its text.

use haltwise_document::{Document, Rows, Untrusted, figures};

use crate::words::plural;

pub(crate) const ABOUT: &[&str] = &[
    "This says what was written; [the tables themselves](costs-format.md) are Parquet.",
    "Times are whole nanoseconds, and their names end in `_ns`.",
];

figures! {
    /// All tables that were written.
    pub(crate) struct CostsResult {
        /// Version of this layout: 1.
        pub(crate) schema: u32 = Number,
        /// The name of the grid of settings.
        pub(crate) grid: &'static str = Word,
        /// How many settings it has.
        pub(crate) settings: usize = Count,
        /// Each table, in the order in which they were written.
        pub(crate) tables: Vec<WrittenTable> = List(WrittenTable::FIGURES),
        /// Segments of a ring of which the lake has the table already.
        pub(crate) known: usize = Count,
        /// Segments of a ring that are still being recorded.
        pub(crate) recording: usize = Count,
        /// Segments of a ring of which no table can be made, each with the reason.
        pub(crate) failed: Vec<String> = Words,
    }

    pub(crate) struct WrittenTable {
        /// Its file.
        pub(crate) path: String = Name "table",
        /// The host's name.
        pub(crate) host: String = Name,
        /// The day on which the capture began.
        pub(crate) date: Option<String> = Word,
        /// How long the capture is.
        pub(crate) duration_ns: u64 = Nanos "capture",
        /// VMs in it.
        pub(crate) vms: usize = Count,
        /// Their halts.
        pub(crate) halts: u64 = Count,
        /// Rows.
        pub(crate) rows: u64 = Count,
        /// Bytes of the file.
        pub(crate) bytes: u64 = Count,
        /// CPU time of one sleep and wake-up.
        pub(crate) switch_cpu_ns: u64 = Nanos,
        /// Where that comes from: `calibrated`, `given`, `assumed` or `bounded`.
        pub(crate) switch_cpu_source: &'static str = Word,
        /// The capture is cut or damaged, or events were lost.
        pub(crate) partial: bool = Flag,
        /// Facts that must be known of the capture.
        pub(crate) notes: Vec<String> = Words,
    }
}

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
