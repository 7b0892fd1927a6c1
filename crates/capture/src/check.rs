//! Reading a capture through, to say what is whole and what is damaged: [`check`].

use std::path::{Path, PathBuf};

pub use crate::batches::Damage;
use crate::capture::{Capture, file_of};
use crate::error::CaptureReadError;
use crate::info::{Intact, State};
use crate::laws::Law;
use crate::note::Note;
use crate::repair::Salvage;
use crate::sums::{Mismatch, damaged_blocks};
use crate::table::Table;
use crate::tables::{Row, of_table};

#[derive(Debug, Clone, PartialEq)]
pub struct Checkup {
    /// Whether the recording has ended.
    pub state: State,
    /// A recorder is writing to it right now.
    pub is_live: bool,
    /// Its recorder did not end it.
    pub is_cut: bool,
    /// `capture.json` itself.
    pub info: Verdict,
    /// The tables that are there, and those that should be.
    pub tables: Vec<TableCheckup>,
    /// Rows that no recording can hold, by table and law: readers leave them out.
    pub unlawful: Vec<(Table, Law, u64)>,
}

haltwise_core::names! {
    pub enum Verdict {
        /// As it was written, by its checksums.
        Whole = "whole",
        /// It can be read from end to end, and has no checksums that would tell more.
        Unsummed = "no-checksums",
        /// Another program rewrote it, so that its checksums are of no use.
        Rewritten = "rewritten",
        /// Its last bytes are no whole batch: a recorder that was killed leaves that.
        Torn = "torn",
        /// It is not as it was written.
        Damaged = "damaged",
        Missing = "missing",
    }
}

/// Findings on one table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableCheckup {
    pub table: Table,
    pub path: PathBuf,
    pub verdict: Verdict,
    pub bytes: u64,
    /// Rows that can be read, those behind damage too.
    pub rows: u64,
    /// Rows that its recorder wrote, where that is known.
    pub written: Option<u64>,
    /// Bytes at its end that are no whole batch.
    pub torn_bytes: u64,
    /// Parts that cannot be read.
    pub damage: Vec<Damage>,
}

impl Checkup {
    /// Whether everything that was recorded is there, as far as can be known.
    pub fn is_whole(&self) -> bool {
        let is_good = |verdict| matches!(verdict, Verdict::Whole | Verdict::Unsummed);
        let unended = self.state == State::Recording && !self.is_live;
        !unended
            && self.unlawful.is_empty()
            && is_good(self.info)
            && self.tables.iter().all(|table| is_good(table.verdict))
    }

    /// Whether nothing is damaged that a recorder would not leave when it is killed.
    pub fn is_undamaged(&self) -> bool {
        let is_bad = |verdict| matches!(verdict, Verdict::Damaged | Verdict::Missing);
        !is_bad(self.info) && !self.tables.iter().any(|table| is_bad(table.verdict))
    }
}

/// Reads every file of a capture from end to end.
pub fn check(directory: &Path) -> Result<Checkup, CaptureReadError> {
    let capture = Capture::open_one(directory)?;
    let tables = Table::ALL.into_iter();
    let tables: Vec<_> = tables
        .filter_map(|table| of_table!(table, examine(&capture)))
        .collect();
    let unlawful = capture.notes().into_iter().filter_map(|note| match note {
        Note::LeftOut { table, law, rows } => Some((table, law, rows)),
        _ => None,
    });
    Ok(Checkup {
        tables,
        unlawful: unlawful.collect(),
        state: capture.info().state,
        is_live: capture.notes().contains(&Note::StillRecording),
        is_cut: capture.notes().contains(&Note::Cut),
        info: match capture.intact {
            Intact::Yes => Verdict::Whole,
            Intact::No => Verdict::Damaged,
            Intact::Unknown => Verdict::Unsummed,
        },
    })
}

/// Reads a table through. `None` where it need not be there.
fn examine<R: Row>(capture: &Capture) -> Option<TableCheckup> {
    let table = R::TABLE;
    let info = capture.info();
    let written = info.tables.get(table.as_str());
    let Some(file) = file_of(capture.directory(), table, info.state) else {
        let path = capture.notes().iter().find_map(|note| match note {
            Note::MissingTable { table: of, path } if *of == table => Some(path.clone()),
            _ => None,
        })?;
        return Some(TableCheckup {
            table,
            path,
            verdict: Verdict::Missing,
            bytes: 0,
            rows: 0,
            written: written.map(|size| size.rows),
            torn_bytes: 0,
            damage: Vec::new(),
        });
    };
    let (sums, path) = (capture.sums(&file), file.path.clone());
    let is_rewritten =
        file.is_parquet() && sums.is_none() && info.checksums.contains_key(table.as_str());
    let mut salvage = Salvage::<R>::open(file, sums.clone());
    let mut laws = capture.laws();
    while let Some(rows) = salvage.next_rows() {
        R::lawful(rows, &mut laws);
    }
    laws.tell(table);
    let (rows, torn_bytes) = (salvage.rows, salvage.torn_bytes);
    let missing = written.map(|written| written.rows.saturating_sub(rows));
    let damage = all_damage(salvage.damage, damaged_blocks(&path, sums), missing);
    let verdict = match () {
        () if !damage.is_empty() => Verdict::Damaged,
        () if torn_bytes > 0 => Verdict::Torn,
        () if is_rewritten => Verdict::Rewritten,
        () if written.is_some_and(|written| written.rows != rows) => Verdict::Damaged,
        () if salvage.is_summed => Verdict::Whole,
        () => Verdict::Unsummed,
    };
    Some(TableCheckup {
        table,
        verdict,
        bytes: std::fs::symlink_metadata(&path).map_or(0, |file| file.len()),
        path,
        rows,
        written: written.map(|size| size.rows),
        torn_bytes,
        damage,
    })
}

/// Damage that reading the rows came upon, with its extent where that is known, and damaged blocks that reading did
/// not need. `missing` rows are left out in all.
fn all_damage(mut damage: Vec<Damage>, blocks: Vec<Mismatch>, missing: Option<u64>) -> Vec<Damage> {
    if let [only] = &mut *damage {
        only.rows = missing.or(only.rows);
    }
    for block in blocks {
        let mut is_known = false;
        for known in &mut damage {
            if known.offset == Some(block.offset) {
                known.bytes = known.bytes.or(Some(block.bytes));
                is_known = true;
            }
        }
        if !is_known {
            damage.push(Damage {
                offset: Some(block.offset),
                bytes: Some(block.bytes),
                rows: None,
                what: block.to_string(),
            });
        }
    }
    damage.sort_by_key(|damage| damage.offset);
    damage
}
