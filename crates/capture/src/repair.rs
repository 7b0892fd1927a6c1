//! Making a capture of all that can be read of one that was cut or damaged: [`repair`].

use std::collections::BTreeMap;
use std::path::Path;

use crate::capture::{Capture, file_of};
use crate::convert::{self, Written};
use crate::error::CaptureWriteError;
use crate::files::Directory;
use crate::info::{CaptureInfo, Cut, State, Summary};
use crate::note::Note;
use crate::recording::must_be_empty;
use crate::salvage::Salvage;
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
