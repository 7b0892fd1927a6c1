//! The tables of a capture as Arrow record batches, for other programs: the rows that every verb reads, with the
//! meaning of each column in the schema. Costs tables likewise.

use std::fmt;
use std::path::Path;

use arrow_array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use haltwise_core::event::{
    Halt, HaltCounts, HostSample, IdleState, Knob, Lost, Vcpu, Vm, WindowChange,
};
use haltwise_core::exit::Exits;
use haltwise_core::profile::{Frame, Sample, Stack, Thread};

use crate::capture::Capture;
use crate::costs::read::Wants;
use crate::costs::{CostsError, Reader};
use crate::error::{CaptureReadError, with_sources};
use crate::rows::Rows;
use crate::table::Table;
use crate::tables::Row;

type Next = Box<dyn FnMut() -> Option<Result<RecordBatch, ArrowError>> + Send>;

/// The record batches of one table, in the order of the file. Stops after the first error.
pub struct RecordBatches {
    schema: SchemaRef,
    next: Next,
}

impl fmt::Debug for RecordBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordBatches")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl RecordBatches {
    /// Those of a costs table; its texts are dictionaries.
    ///
    /// # Errors
    /// If it cannot be opened, or is of a later schema.
    pub fn of_costs(path: &Path) -> Result<Self, CostsError> {
        let mut reader = Reader::open(path, Wants::All)?;
        let schema = reader.schema();
        let next = move || Some(reader.next()?.map_err(|error| in_words(&error)));
        Ok(Self {
            schema,
            next: Box::new(next),
        })
    }
}

impl Table {
    /// The Arrow schema of its columns, with the meaning, the unit and what NULL means as metadata of each.
    pub fn arrow_schema(self) -> SchemaRef {
        self.documented_schema()
    }
}

impl Capture {
    /// A table as record batches, without the rows that break a law: [`Capture::notes`] counts those when the table
    /// has been read.
    ///
    /// # Errors
    /// If the table cannot be opened.
    pub fn record_batches(&self, table: Table) -> Result<RecordBatches, CaptureReadError> {
        Ok(match table {
            Table::Halts => of_rows::<Halt>(self.halts()?),
            Table::WindowChanges => of_rows::<WindowChange>(self.window_changes()?),
            Table::HaltCounts => of_rows::<HaltCounts>(self.halt_counts()?),
            Table::Knobs => of_rows::<Knob>(self.knobs()?),
            Table::HostSamples => of_rows::<HostSample>(self.host_samples()?),
            Table::IdleStates => of_rows::<IdleState>(self.idle_states()?),
            Table::Lost => of_rows::<Lost>(self.lost()?),
            Table::Vms => of_rows::<Vm>(self.vms()?),
            Table::Vcpus => of_rows::<Vcpu>(self.vcpus()?),
            Table::Exits => of_rows::<Exits>(self.exits()?),
            Table::SampleFrames => of_rows::<Frame>(self.sample_frames()?),
            Table::SampleStacks => of_rows::<Stack>(self.sample_stacks()?),
            Table::SampleThreads => of_rows::<Thread>(self.sample_threads()?),
            Table::Samples => of_rows::<Sample>(self.samples()?),
        })
    }
}

fn of_rows<R: Row + Send + 'static>(mut rows: Rows<R>) -> RecordBatches {
    let schema = R::TABLE.arrow_schema();
    let of = schema.clone();
    let next = move || {
        let rows = match rows.next_batch()? {
            Ok(rows) => rows,
            Err(error) => return Some(Err(in_words(&error))),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let columns = R::encode(&rows);
        Some(RecordBatch::try_new_with_options(
            of.clone(),
            columns,
            &options,
        ))
    };
    RecordBatches {
        schema,
        next: Box::new(next),
    }
}

/// An error for who reads Arrow streams: they see its text alone.
fn in_words(error: &dyn std::error::Error) -> ArrowError {
    let error = std::io::Error::other(with_sources(error));
    ArrowError::ExternalError(Box::new(error))
}

impl Iterator for RecordBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.next)()
    }
}

impl RecordBatchReader for RecordBatches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
