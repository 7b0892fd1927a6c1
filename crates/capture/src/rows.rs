//! The rows of a table as facts, batch by batch: memory does not grow with the capture.

use std::collections::VecDeque;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use crate::batches::Batches;
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
    Rows::new(move || batches.next_rows())
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

/// Batches that are decoded before they are taken, at most: a few megabytes each.
const AHEAD: usize = 3;

impl<T: Send + 'static> Rows<T> {
    /// The same rows, decoded by a thread of their own while the caller is busy with earlier ones.
    ///
    /// Where no thread can be made they are decoded here, as the caller asks.
    #[must_use]
    pub fn ahead(self) -> Self {
        let (sender, batches) = sync_channel(AHEAD);
        let (hand, own) = sync_channel::<Self>(1);
        let decode = move || {
            let Ok(mut rows) = own.recv() else { return };
            while let Some(batch) = rows.next_batch() {
                if sender.send(batch).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("decode".to_owned());
        let Ok(thread) = thread.spawn(decode) else {
            return self;
        };
        if let Err(unsent) = hand.send(self) {
            return unsent.0;
        }
        let mut thread = Some(thread);
        Self::new(move || {
            batches.recv().ok().or_else(|| {
                // The end; a panic of the decoding thread is not the end of the table.
                if let Some(Err(panic)) = thread.take().map(JoinHandle::join) {
                    resume_unwind(panic);
                }
                None
            })
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
