//! The rows of a table as facts, batch by batch: memory does not grow with the capture.

mod ahead;

use std::collections::VecDeque;

pub use ahead::Ahead;

use crate::batches::Batches;
use crate::columns::Columns;
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::tables::Row;

/// The rows of one table, in the order of the file. Stops after the first error.
#[derive(Debug)]
pub struct Rows<T> {
    batches: Batches,
    decode: fn(&Columns<'_>) -> Result<Vec<T>, CaptureReadError>,
    /// What rows must obey, and what picks those that do; `None` where all are wanted.
    laws: Option<Box<(Laws, Pick<T>)>>,
    batch: std::vec::IntoIter<T>,
    /// Rows that follow those of the file.
    more: Vec<T>,
    others: VecDeque<Self>,
    ended: bool,
}

type Pick<T> = fn(Vec<T>, &mut Laws) -> Vec<T>;

/// The rows of these batches, whatever they say.
pub(crate) fn rows_of<T: Row>(batches: Batches) -> Rows<T> {
    Rows {
        batches,
        decode: T::decode,
        laws: None,
        batch: Vec::new().into_iter(),
        more: Vec::new(),
        others: VecDeque::new(),
        ended: false,
    }
}

/// The rows of these batches that obey the laws.
pub(crate) fn lawful<T: Row>(batches: Batches, laws: Laws) -> Rows<T> {
    Rows {
        laws: Some(Box::new((laws, T::lawful))),
        ..rows_of(batches)
    }
}

impl<T> Rows<T> {
    /// The same, and these behind them, if the file can be read to its end.
    pub(crate) fn and(mut self, more: Vec<T>) -> Self {
        self.more = more;
        self
    }

    pub(crate) fn then(mut self, others: Vec<Self>) -> Self {
        self.others = others.into();
        self
    }

    /// The next rows, as many as are stored together: a few ten thousand at most.
    ///
    /// For those who can take many at once; not to be mixed with the iterator.
    pub fn next_batch(&mut self) -> Option<Result<Vec<T>, CaptureReadError>> {
        if self.ended {
            return None;
        }
        let first_row = self.batches.rows();
        let decoded = match self.batches.next() {
            Some(batch) => batch.and_then(|batch| {
                (self.decode)(&Columns {
                    batch: &batch,
                    table: self.batches.table(),
                    path: self.batches.path(),
                    first_row,
                })
            }),
            None if self.more.is_empty() => {
                let mut next = self.others.pop_front()?;
                std::mem::swap(&mut next.others, &mut self.others);
                *self = next;
                return self.next_batch();
            }
            None => Ok(std::mem::take(&mut self.more)),
        };
        self.ended = decoded.is_err();
        let Some((laws, pick)) = self.laws.as_deref_mut() else {
            return Some(decoded);
        };
        let table = self.batches.table();
        Some(decoded.map(|rows| {
            let rows = pick(rows, laws);
            laws.tell(table);
            rows
        }))
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
