//! The tables of a capture: their names, their files and their columns.
//!
//! The columns of each table stand beside its rows, in `tables/`. Here is what they have in
//! common. `haltwise pages` writes `capture-columns.md` from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

haltwise_core::names! {
    /// One table of a capture.
    ///
    /// In the order in which they are written.
    pub enum Table {
        /// One row for each halt.
        Halts = "halts",
        /// Calls of grow and shrink.
        WindowChanges = "window_changes",
        /// Halts counted per vCPU and interval.
        HaltCounts = "halt_counts",
        Knobs = "knobs",
        /// The host's own state.
        HostSamples = "host_samples",
        /// The states of its CPUs' idle time.
        IdleStates = "idle_states",
        /// Events that never reached the recorder.
        Lost = "lost",
        Vms = "vms",
        /// vCPUs that were seen.
        Vcpus = "vcpus",
        /// Exits counted per vCPU, cause and interval.
        Exits = "exits",
        /// Functions that samples hit.
        SampleFrames = "sample_frames",
        /// Chains of them.
        SampleStacks = "sample_stacks",
        /// Names of threads that were sampled.
        SampleThreads = "sample_threads",
        /// Samples of the threads of VMMs.
        Samples = "samples",
    }
}

impl Table {
    /// The tables that grow while recording, each as a stream. The others come from the roster.
    pub const STREAMED: [Self; 12] = [
        Self::Halts,
        Self::WindowChanges,
        Self::HaltCounts,
        Self::Knobs,
        Self::HostSamples,
        Self::IdleStates,
        Self::Lost,
        Self::Exits,
        Self::SampleFrames,
        Self::SampleStacks,
        Self::SampleThreads,
        Self::Samples,
    ];

    /// Whether a capture has it only if something was recorded for it.
    pub fn is_optional(self) -> bool {
        matches!(
            self,
            Self::IdleStates
                | Self::Exits
                | Self::SampleFrames
                | Self::SampleStacks
                | Self::SampleThreads
                | Self::Samples
        )
    }

    /// The file that it grows in while recording.
    pub fn stream_file(self) -> String {
        format!("{self}.arrows")
    }

    /// The file that it ends in.
    pub fn parquet_file(self) -> String {
        format!("{self}.parquet")
    }

    /// How many rows one batch of a stream may hold, so that a batch stays a few megabytes.
    pub(crate) fn batch_rows(self) -> usize {
        match self {
            Self::HaltCounts => 512,
            Self::Exits => 2048,
            Self::SampleStacks => 4096,
            _ => 32 * 1024,
        }
    }
}

pub(crate) fn documented(columns: &[Column]) -> SchemaRef {
    let documented = |column: &Column| {
        let unit = column.unit().map(|unit| ("unit", unit));
        let null = column.null.map(|when| ("null", when));
        let texts = [("meaning", column.meaning)]
            .into_iter()
            .chain(unit)
            .chain(null);
        let texts = texts.map(|(key, text)| (key.to_owned(), text.to_owned()));
        column
            .field()
            .with_metadata(texts.collect::<BTreeMap<String, String>>())
    };
    let fields: Vec<Field> = columns.iter().map(documented).collect();
    Arc::new(Schema::new(fields))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    U64,
    U32,
    Bool,
    /// One of a few names, stored as a dictionary.
    Name,
    Text,
    /// A list of numbers: counts by bucket of [`haltwise_core::hist::LogHist`], frames of a stack.
    Numbers,
}

impl Kind {
    /// How the documentation calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::U64 => "uint64",
            Self::U32 => "uint32",
            Self::Bool => "bool",
            Self::Name => "dictionary of string",
            Self::Text => "string",
            Self::Numbers => "list of uint64",
        }
    }

    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::U64 => DataType::UInt64,
            Self::U32 => DataType::UInt32,
            Self::Bool => DataType::Boolean,
            // Signed keys: pandas takes no others.
            Self::Name => DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
            Self::Text => DataType::Utf8,
            Self::Numbers => DataType::List(number_field()),
        }
    }
}

pub(crate) fn number_field() -> Arc<Field> {
    Arc::new(Field::new("element", DataType::UInt64, false))
}

/// One column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name, unit included.
    pub name: &'static str,
    pub kind: Kind,
    /// When it is NULL: not known, which is not zero. `None`: never.
    pub null: Option<&'static str>,
    /// Meaning of the column's values, in Markdown.
    pub meaning: &'static str,
}

impl Column {
    /// The unit of its values, which its name ends with. Counts, numbers of things and names have none.
    pub fn unit(&self) -> Option<&'static str> {
        let units = [("_ns", "nanoseconds"), ("_bytes", "bytes")];
        // A time's sum and maximum are times; of its histogram, the buckets are.
        let name = ["_sum", "_max"]
            .into_iter()
            .find_map(|end| self.name.strip_suffix(end));
        let name = name.unwrap_or(self.name);
        let mut found = units.into_iter().filter(|(end, _)| name.ends_with(end));
        found.next().map(|(_, unit)| unit)
    }

    pub(crate) fn field(&self) -> Field {
        Field::new(self.name, self.kind.data_type(), self.null.is_some())
    }
}
