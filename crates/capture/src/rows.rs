//! The rows of a table as facts, batch by batch: memory does not grow with the capture.

mod ahead;

use std::collections::VecDeque;
use std::fmt;

use crate::batches::Batches;
use crate::columns::Columns;
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::tables::Row;

type Batch<T> = Result<Vec<T>, CaptureReadError>;

/// The rows of one table, in the order of the file. Stops after the first error.
pub struct Rows<T> {
    /// Source of the next rows; `None` after the last rows, and after an error.
    source: Option<Box<dyn FnMut() -> Option<Batch<T>> + Send>>,
    batch: std::vec::IntoIter<T>,
}

impl<T> fmt::Debug for Rows<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

/// The rows of these batches, whatever they say.
pub(crate) fn rows_of<T: Row>(mut batches: Batches) -> Rows<T> {
    Rows::new(move || {
        let first_row = batches.rows;
        let batch = batches.next()?;
        Some(batch.and_then(|batch| {
            let columns = Columns {
                batch: &batch,
                file: &batches.file,
                first_row,
            };
            T::read(&columns, T::TABLE.as_str())
        }))
    })
}

impl<T: Send + 'static> Rows<T> {
    pub(crate) fn lawful(mut self, mut laws: Laws) -> Self
    where
        T: Row,
    {
        Self::new(move || {
            let batch = self.next_batch()?;
            Some(batch.map(|rows| {
                let rows = T::lawful(rows, &mut laws);
                laws.tell(T::TABLE);
                rows
            }))
        })
    }

    pub(crate) fn then(self, others: Vec<Self>) -> Self {
        let mut parts = VecDeque::from(others);
        parts.push_front(self);
        Self::new(move || {
            while let Some(part) = parts.front_mut() {
                match part.next_batch() {
                    None => parts.pop_front(),
                    batch => return batch,
                };
            }
            None
        })
    }
}

impl<T> Rows<T> {
    fn new(source: impl FnMut() -> Option<Batch<T>> + Send + 'static) -> Self {
        Self {
            source: Some(Box::new(source)),
            batch: Vec::new().into_iter(),
        }
    }

    /// The next rows, as many as are stored together: a few ten thousand at most.
    ///
    /// For those who can take many at once; not to be mixed with the iterator.
    pub fn next_batch(&mut self) -> Option<Result<Vec<T>, CaptureReadError>> {
        let batch = (self.source.as_mut()?)();
        if !matches!(batch, Some(Ok(_))) {
            self.source = None;
        }
        batch
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
