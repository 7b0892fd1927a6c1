//! All that can still be read of one table, whatever is damaged in it.
//!
//! Readers of a capture stop at the first damage. Here what comes after it is read too: of a stream the frames from the
//! next whole one on, of a Parquet file the row groups behind the damaged one.

use std::marker::PhantomData;

use crate::batches::{Batches, Damage};
use crate::error::TableFile;
use crate::sums::Sums;
use crate::tables::Row;

/// The rows of a table that can be read, batch by batch.
pub(crate) struct Salvage<R> {
    batches: Batches,
    pub(crate) rows: u64,
    /// Bytes at the end of a stream that are no whole batch, once it has been read.
    pub(crate) torn_bytes: u64,
    /// Whether the file has checksums, as far as it was read.
    pub(crate) is_summed: bool,
    pub(crate) damage: Vec<Damage>,
    row: PhantomData<R>,
}

impl<R: Row> Salvage<R> {
    pub(crate) fn open(file: TableFile, sums: Option<Sums>) -> Self {
        let (is_summed, mut damage) = (sums.is_some(), Vec::new());
        let batches = Batches::open(file.clone(), sums).unwrap_or_else(|error| {
            damage.push(Damage::of(&error));
            Batches::none(file)
        });
        Self {
            batches,
            rows: 0,
            torn_bytes: 0,
            is_summed,
            damage,
            row: PhantomData,
        }
    }

    /// The next rows; what is damaged before them is noted.
    pub(crate) fn next_rows(&mut self) -> Option<Vec<R>> {
        loop {
            let before = self.batches.rows;
            let next = self.batches.next_rows();
            self.is_summed |= self.batches.is_sealed();
            match next {
                Some(Ok(rows)) => {
                    self.rows = self.rows.saturating_add(rows.len() as u64);
                    return Some(rows);
                }
                Some(Err(error)) => self.damage.push(match self.batches.rows - before {
                    0 => self.batches.skip_damage(&error),
                    rows => Damage {
                        rows: Some(rows),
                        ..Damage::of(&error)
                    },
                }),
                None => {
                    self.torn_bytes = self.batches.torn_bytes();
                    return None;
                }
            }
        }
    }
}
