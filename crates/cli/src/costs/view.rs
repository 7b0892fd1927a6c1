//! Result of writing tables.

use haltwise_document::figures;

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
