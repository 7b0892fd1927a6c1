//! The baseline and the journal on disk, in `/var/lib/haltwise`.
//!
//! `baseline.json` is replaced as a whole, and is what undo believes. `journal` is a line for each act, for
//! people; nothing is read back from it, but where an earlier version of haltwise wrote it and there is no
//! baseline yet.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::baseline::{Baseline, Outcome};
use super::disk;
use super::earlier;
use super::error::KnobError;
use super::own::{self, Lock, Shared};
use super::target::{Change, Target};
use crate::clock;
use crate::root::{Root, RootError};

/// Where the baseline lies, below a [`Root`].
pub const BASELINE: &str = "var/lib/haltwise/baseline.json";
/// Where the journal lies, below a [`Root`].
pub const JOURNAL: &str = "var/lib/haltwise/journal";

/// Neither file is read further than this, in bytes: some three million lines of the journal.
const LONGEST: u64 = 1 << 30;

/// What is stored.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) baseline: Baseline,
    /// Whether the baseline is on disk as it is here.
    pub(super) is_on_disk: bool,
    pub(super) journal: JournalSize,
}

/// How much the journal holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalSize {
    /// Lines.
    pub entries: usize,
    /// Length of a last line that was cut, in bytes.
    pub torn_bytes: u64,
}

/// A line of the journal.
#[derive(Debug, Serialize)]
pub(super) struct Entry<'a> {
    pub(super) unix_ns: u64,
    pub(super) boot: &'a str,
    pub(super) who: &'a str,
    pub(super) act: Act<'a>,
}

/// What a line tells.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Act<'a> {
    /// About to be set.
    Apply { step: u64, changes: &'a [Change] },
    /// About to be restored.
    Undo { changes: &'a [Change] },
    /// What became of a change that was cut off.
    CutOff {
        step: u64,
        results: &'a [(Target, Outcome)],
    },
}

impl Stored {
    /// Reads both, without the lock.
    pub(super) fn read(root: &Root) -> Result<Self, KnobError> {
        let journal = bytes(&root.path(JOURNAL))?.unwrap_or_default();
        let size = JournalSize::of(&journal);
        let path = root.path(BASELINE);
        let damaged = |path: &Path, what: String| KnobError::Damaged {
            path: path.to_owned(),
            what,
        };
        let Some(text) = bytes(&path)? else {
            let path = root.path(JOURNAL);
            let baseline = earlier::baseline(&journal).map_err(|what| damaged(&path, what))?;
            return Ok(Self {
                is_on_disk: baseline == Baseline::default(),
                baseline,
                journal: size,
            });
        };
        let baseline: Baseline =
            serde_json::from_slice(&text).map_err(|error| damaged(&path, error.to_string()))?;
        baseline.check().map_err(|what| damaged(&path, what))?;
        Ok(Self {
            baseline,
            is_on_disk: true,
            journal: size,
        })
    }

    /// Reads both while nobody writes. `None`: another haltwise is writing.
    pub(super) fn look(root: &Root) -> Result<Option<Self>, KnobError> {
        let held = Lock::share(root)?;
        if matches!(held, Shared::Writing) {
            return Ok(None);
        }
        Self::read(root).map(Some)
    }
}

impl JournalSize {
    fn of(bytes: &[u8]) -> Self {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        let torn = &bytes[whole.map_or(0, |last| last + 1)..];
        Self {
            entries: bytes
                .split_inclusive(|byte| *byte == b'\n')
                .filter(|line| line.ends_with(b"\n"))
                .count(),
            torn_bytes: torn.len() as u64,
        }
    }
}

/// The files, held for writing until this is dropped.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    journal_path: PathBuf,
    journal: File,
    torn: bool,
    _lock: Lock,
}

impl Store {
    /// Takes the lock, makes the journal if it is not there, and reads both.
    pub(super) fn open(root: &Root) -> Result<(Self, Stored), KnobError> {
        let lock = Lock::take(root)?;
        let journal_path = root.path(JOURNAL);
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true);
        let journal = own::open(&journal_path, options)?;
        own::close_to_others(&journal_path, &journal)?;
        let stored = Stored::read(root)?;
        // Not only when it was made just now: whoever made it may not have come that far.
        if stored.journal == JournalSize::default() {
            disk::flush_directory_of(&journal_path)?;
            if let Some(directory) = journal_path.parent() {
                disk::flush_directory_of(directory)?;
            }
        }
        let store = Self {
            path: root.path(BASELINE),
            journal_path,
            journal,
            torn: stored.journal.torn_bytes > 0,
            _lock: lock,
        };
        Ok((store, stored))
    }

    /// Writes the baseline: it is on the disk when this returns.
    pub(super) fn write(&self, baseline: &Baseline) -> Result<(), KnobError> {
        let text = serde_json::to_string_pretty(baseline).map_err(KnobError::Encode)?;
        Ok(disk::replace(
            &self.path,
            &format!("{text}\n"),
            0o600,
            None,
        )?)
    }

    /// Adds a line to the journal: it is on the disk when this returns.
    pub(super) fn log(&mut self, by: &By, act: Act<'_>) -> Result<(), KnobError> {
        let entry = Entry {
            unix_ns: clock::wall_ns(),
            boot: &by.boot,
            who: &by.who,
            act,
        };
        let text = serde_json::to_string(&entry).map_err(KnobError::Encode)?;
        let end_of_torn = if self.torn { "\n" } else { "" };
        let line = format!("{end_of_torn}{text}\n");
        disk::append(&mut self.journal, &self.journal_path, line.as_bytes())?;
        self.torn = false;
        Ok(())
    }
}

/// Who writes, and in which boot.
#[derive(Debug, Clone)]
pub(super) struct By {
    pub(super) who: String,
    pub(super) boot: String,
}

/// A file of ours; `None` if it is not there. One whose directory is closed to us is not absent.
fn bytes(path: &Path) -> Result<Option<Vec<u8>>, KnobError> {
    let unreadable = |source: io::Error| -> KnobError {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied => RootError::Denied { path }.into(),
            _ => RootError::Failed { path, source }.into(),
        }
    };
    match path.symlink_metadata() {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    }
    let file = own::open(path, OpenOptions::new().read(true))?;
    let mut bytes = Vec::new();
    file.take(LONGEST)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    Ok(Some(bytes))
}
