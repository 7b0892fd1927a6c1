//! The baseline on disk, in `/var/lib/haltwise`: replaced as a whole, and what undo believes.

use std::path::{Path, PathBuf};

use super::baseline::Baseline;
use super::disk;
use super::error::KnobError;
use super::own::{self, Lock, Shared};
use crate::root::Root;

/// Where the baseline lies, below a [`Root`].
pub const BASELINE: &str = "var/lib/haltwise/baseline.json";

/// It is not read further than this, in bytes.
const LONGEST: u64 = 1 << 30;

fn read(path: &Path) -> Result<Option<Baseline>, KnobError> {
    let Some(text) = own::read(path, LONGEST)? else {
        return Ok(None);
    };
    let damaged = |what: String| KnobError::Damaged {
        path: path.to_owned(),
        what,
    };
    let baseline: Baseline =
        serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    baseline.check().map_err(damaged)?;
    Ok(Some(baseline))
}

/// Reads it while no process writes. `None`: another haltwise is writing.
pub(super) fn look(root: &Root) -> Result<Option<Baseline>, KnobError> {
    let held = Lock::share(root)?;
    if matches!(held, Shared::Writing) {
        return Ok(None);
    }
    Ok(Some(read(&root.path(BASELINE))?.unwrap_or_default()))
}

/// The file, held for writing until this is dropped.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    _lock: Lock,
}

impl Store {
    pub(super) fn open(root: &Root) -> Result<(Self, Baseline), KnobError> {
        let lock = Lock::take(root)?;
        let path = root.path(BASELINE);
        let baseline = read(&path)?;
        // Not only when the directory was made just now: the process that made it may not have come that far.
        if let (None, Some(directory)) = (&baseline, path.parent()) {
            disk::flush_directory_of(directory)?;
        }
        let store = Self { path, _lock: lock };
        Ok((store, baseline.unwrap_or_default()))
    }

    /// Writes the baseline: it is on the disk when this returns.
    pub(super) fn write(&self, baseline: &Baseline) -> Result<(), KnobError> {
        let text = serde_json::to_string_pretty(baseline).map_err(KnobError::Encode)?;
        disk::replace(&self.path, &format!("{text}\n"), 0o600)
    }
}
