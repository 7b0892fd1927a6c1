//! All that can still be read of tables, whatever is damaged in them, and a capture made of that: [`repair`].
//!
//! Readers of a capture stop at the first damage. Here what comes after it is read too: of a stream the frames from the
//! next whole one on, of a Parquet file the row groups behind the damaged one.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::Path;

use crate::batches::{Batches, Damage};
use crate::capture::{Capture, file_of};
use crate::convert::{self, Written};
use crate::error::{CaptureWriteError, TableFile};
use crate::files::Directory;
use crate::info::{CaptureInfo, Cut, State, Summary};
use crate::note::Note;
use crate::recording::must_be_empty;
use crate::sums::Sums;
use crate::table::Table;
use crate::tables::{Row, of_table};

/// Data left out of a table.
#[derive(Debug, Default)]
struct Lost {
    torn_bytes: u64,
    bytes: u64,
    rows: u64,
    is_damaged: bool,
}

/// Writes a new capture of all that can be read of an old one, which is not changed. `capture.json` of the new one
/// says what was left out.
pub fn repair(old: &Path, new: &Path) -> Result<Summary, CaptureWriteError> {
    let capture = Capture::open_one(old)?;
    if capture.notes().contains(&Note::StillRecording) {
        let path = old.to_owned();
        return Err(CaptureWriteError::StillRecording { path });
    }
    let directory = Directory::make(new).map_err(CaptureWriteError::io("create", new))?;
    must_be_empty(&directory)?;
    let mut info = capture.info().clone();
    let (mut written, mut losses) = (BTreeMap::new(), BTreeMap::new());
    for table in Table::STREAMED {
        let rescued = of_table!(table, rescue(&capture, &directory))?;
        if let Some((file, lost)) = rescued {
            written.insert(table.to_string(), file);
            losses.insert(table.to_string(), lost);
        }
    }
    note_losses(&mut info, &losses);
    convert::settle(&directory, &mut info, written)
}

/// Copies the rows of a table that can be read. `None` where the table is not there.
fn rescue<'a, R: Row>(
    capture: &Capture,
    directory: &'a Directory,
) -> Result<Option<(Written<'a>, Lost)>, CaptureWriteError> {
    let table = R::TABLE;
    let Some(file) = file_of(capture.directory(), table, capture.info().state) else {
        return Ok(None);
    };
    let sums = capture.sums(&file);
    let mut salvage = Salvage::<R>::open(file, sums);
    let batches = std::iter::from_fn(|| {
        let rows = salvage.next_rows()?;
        Some(convert::encoded(&rows))
    });
    let file = convert::write_parquet(directory, capture.info(), table, batches)?;
    let damage = salvage.damage.iter();
    let written = capture.info().tables.get(table.as_str());
    let lost = Lost {
        torn_bytes: salvage.torn_bytes,
        bytes: damage.clone().filter_map(|damage| damage.bytes).sum(),
        rows: match written {
            Some(written) => written.rows.saturating_sub(salvage.rows),
            None => damage.clone().filter_map(|damage| damage.rows).sum(),
        },
        is_damaged: damage.len() > 0,
    };
    Ok(Some((file, lost)))
}

/// Puts what was left out into `capture.json`.
fn note_losses(info: &mut CaptureInfo, losses: &BTreeMap<String, Lost>) {
    if info.state == State::Recording {
        let torn = losses.iter().filter(|(_, lost)| lost.torn_bytes > 0);
        info.cut = Some(Cut {
            torn_bytes: torn
                .map(|(table, lost)| (table.clone(), lost.torn_bytes))
                .collect(),
        });
    }
    for (table, lost) in losses.iter().filter(|(_, lost)| lost.is_damaged) {
        let before = info.repaired.entry(table.clone()).or_default();
        before.rows = before.rows.saturating_add(lost.rows);
        before.bytes = before.bytes.saturating_add(lost.bytes);
    }
}

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
