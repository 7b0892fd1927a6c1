//! The tables of a capture as Arrow record batches, for other programs: the rows that every verb reads, with the
//! meaning of each column in the schema. Costs tables likewise.

use std::path::Path;

use arrow_array::{RecordBatchIterator, RecordBatchReader};
use arrow_schema::ArrowError;

use crate::capture::Capture;
use crate::costs::read::Wants;
use crate::costs::{CostsError, Reader};
use crate::error::{CaptureReadError, with_sources};
use crate::table::Table;
use crate::tables::{Row, batch_of, of_table};

/// The record batches of one table, in the order of the file. Stops after the first error.
pub type RecordBatches = Box<dyn RecordBatchReader + Send>;

/// The record batches of a costs table, whose texts are dictionaries.
///
/// # Errors
/// If it cannot be opened, or is of a later schema.
pub fn costs_table(path: &Path) -> Result<RecordBatches, CostsError> {
    let reader = Reader::open(path, Wants::All)?;
    let schema = reader.schema();
    let batches = reader.map(|batch| batch.map_err(|error| in_words(&error)));
    Ok(Box::new(RecordBatchIterator::new(batches, schema)))
}

impl Capture {
    /// A table as record batches, without the rows that break a law: [`Capture::notes`] counts those when the table
    /// has been read.
    ///
    /// # Errors
    /// If the table cannot be opened.
    pub fn record_batches(&self, table: Table) -> Result<RecordBatches, CaptureReadError> {
        of_table!(table, of_file(self))
    }
}

fn of_file<R: Row>(capture: &Capture) -> Result<RecordBatches, CaptureReadError> {
    let mut rows = capture.table::<R>()?;
    let schema = R::TABLE.arrow_schema();
    let documented = schema.clone();
    let batches = std::iter::from_fn(move || {
        let batch = match rows.next_batch()? {
            Ok(rows) => batch_of(&rows),
            Err(error) => Err(in_words(&error)),
        };
        Some(batch.and_then(|batch| batch.with_schema(documented.clone())))
    });
    Ok(Box::new(RecordBatchIterator::new(batches, schema)))
}

/// An error for readers of Arrow streams, who see its text alone.
fn in_words(error: &dyn std::error::Error) -> ArrowError {
    let error = std::io::Error::other(with_sources(error));
    ArrowError::ExternalError(Box::new(error))
}
