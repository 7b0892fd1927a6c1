//! The rows of a table as facts, batch by batch: memory does not grow with the capture.

mod ahead;

pub use ahead::Ahead;

use crate::batches::Batches;
use crate::columns::Columns;
use crate::error::CaptureReadError;
use crate::tables::Row;

/// The rows of one table, in the order of the file. Stops after the first error.
#[derive(Debug)]
pub struct Rows<T> {
    batches: Batches,
    decode: fn(&Columns<'_>) -> Result<Vec<T>, CaptureReadError>,
    batch: std::vec::IntoIter<T>,
    ended: bool,
}

/// The rows of these batches.
pub(crate) fn rows_of<T: Row>(batches: Batches) -> Rows<T> {
    Rows {
        batches,
        decode: T::decode,
        batch: Vec::new().into_iter(),
        ended: false,
    }
}

impl<T> Rows<T> {
    /// The next rows, as many as are stored together: a few ten thousand at most.
    ///
    /// For those who can take many at once; not to be mixed with the iterator.
    pub fn next_batch(&mut self) -> Option<Result<Vec<T>, CaptureReadError>> {
        if self.ended {
            return None;
        }
        let first_row = self.batches.rows();
        let decoded = self.batches.next()?.and_then(|batch| {
            (self.decode)(&Columns {
                batch: &batch,
                table: self.batches.table(),
                path: self.batches.path(),
                first_row,
            })
        });
        self.ended = decoded.is_err();
        Some(decoded)
    }
}

impl<T> Iterator for Rows<T> {
    type Item = Result<T, CaptureReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.batch.next() {
                return Some(Ok(row));
            }
            match self.next_batch()? {
                Ok(rows) => self.batch = rows.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
