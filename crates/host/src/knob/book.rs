//! The journal on disk: one for the host, held by one writer at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::entry::{Act, Entry};
use super::error::KnobError;
use super::line::{self, Reading};
use super::own::{self, Lock, Shared};
use super::state::State;
use crate::clock;
use crate::root::{Root, RootError};

/// Where the journal lies, below a [`Root`].
pub const JOURNAL: &str = "var/lib/haltwise/journal";

/// A journal that was read.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) entries: Vec<Entry>,
    pub(super) state: State,
    pub(super) torn_bytes: u64,
    sum: u32,
    whole_bytes: u64,
}

impl Pages {
    fn of(path: &Path, bytes: &[u8]) -> Result<Self, KnobError> {
        let path = || path.to_owned();
        let Reading {
            entries,
            sum,
            whole_bytes,
            torn_bytes,
        } = line::read(bytes).map_err(|source| KnobError::Damaged {
            path: path(),
            source,
        })?;
        let state = State::of(&entries).map_err(|source| KnobError::Contradicts {
            path: path(),
            source,
        })?;
        Ok(Self {
            entries,
            state,
            torn_bytes,
            sum,
            whole_bytes,
        })
    }

    /// Reads the journal without holding it. `None`: another haltwise is writing it.
    pub(super) fn look(root: &Root) -> Result<Option<Self>, KnobError> {
        let path = root.path(JOURNAL);
        let held = Lock::share(root)?;
        if matches!(held, Shared::Writing) {
            return Ok(None);
        }
        // Also where we may not look into its directory: that is no empty journal.
        match path.symlink_metadata() {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Self::of(&path, &[]).map(Some);
            }
            Err(error) => return Err(unreadable(path, error)),
        }
        let mut file = own::open(&path, OpenOptions::new().read(true))?;
        let bytes = all(&mut file, &path)?;
        Self::of(&path, &bytes).map(Some)
    }
}

/// The journal, held for writing until this is dropped.
#[derive(Debug)]
pub(super) struct Book {
    path: PathBuf,
    file: File,
    _lock: Lock,
    pub(super) pages: Pages,
}

impl Book {
    /// Takes hold of the journal, which is made if it is not there; mends a last line without end.
    pub(super) fn open(root: &Root, disk: &mut Disk, by: &By) -> Result<Self, KnobError> {
        let path = root.path(JOURNAL);
        let lock = Lock::take(root)?;
        let mut options = OpenOptions::new();
        let mut file = own::open(&path, options.read(true).append(true).create(true))?;
        own::close_to_others(&path, &file)?;
        let bytes = all(&mut file, &path)?;
        // Not only when it was made just now: whoever made it may not have come that far.
        if bytes.is_empty() {
            disk.flush_directory_of(&path)?;
            if let Some(directory) = path.parent() {
                disk.flush_directory_of(directory)?;
            }
        }
        let pages = Pages::of(&path, &bytes)?;
        let mut book = Self {
            path,
            file,
            _lock: lock,
            pages,
        };
        book.mend(disk, by)?;
        Ok(book)
    }

    fn mend(&mut self, disk: &mut Disk, by: &By) -> Result<(), KnobError> {
        let bytes = self.pages.torn_bytes;
        if bytes == 0 {
            return Ok(());
        }
        disk.cut(&self.file, &self.path, self.pages.whole_bytes)?;
        self.pages.torn_bytes = 0;
        self.append(disk, by, Act::Mended { bytes })
    }

    /// Adds an entry: it is on the disk when this returns.
    pub(super) fn append(&mut self, disk: &mut Disk, by: &By, act: Act) -> Result<(), KnobError> {
        let entry = Entry {
            seq: self.pages.state.last_seq + 1,
            unix_ns: clock::wall_ns(),
            boot: by.boot.clone(),
            who: by.who.clone(),
            act,
        };
        let (line, sum) = line::write(&entry, self.pages.sum).map_err(KnobError::Entry)?;
        // What cannot be read back must not be written.
        let mut state = self.pages.state.clone();
        state
            .take(&entry)
            .map_err(|source| KnobError::Contradicts {
                path: self.path.clone(),
                source,
            })?;
        disk.append(&mut self.file, &self.path, line.as_bytes())?;
        self.pages.state = state;
        self.pages.sum = sum;
        self.pages.whole_bytes += line.len() as u64;
        self.pages.entries.push(entry);
        Ok(())
    }
}

/// Who writes, and in which boot.
#[derive(Debug, Clone)]
pub(super) struct By {
    pub(super) who: String,
    pub(super) boot: String,
}

fn all(file: &mut File, path: &Path) -> Result<Vec<u8>, KnobError> {
    let mut bytes = Vec::new();
    match file.read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(unreadable(path.to_owned(), error)),
    }
}

fn unreadable(path: PathBuf, source: io::Error) -> KnobError {
    if source.kind() == io::ErrorKind::PermissionDenied {
        return RootError::Denied { path }.into();
    }
    RootError::Failed { path, source }.into()
}
