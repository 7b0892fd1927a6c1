//! Which files are ours to believe and to lock: what lies in `/var/lib/haltwise`.
//!
//! A user who can write the baseline decides what undo sets, and a user who can lock it prevents undo. So both files belong
//! to root (below another [`Root`], to the user of this process), only the owner may write them, and only the owner can
//! open the file that is locked.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::error::{KnobError, failed};
use crate::root::{Root, RootError};

/// Flags to open files that should be ours: nothing that another user put in their place is waited for or followed.
const WARY: i32 = OFlags::NONBLOCK
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NOCTTY)
    .bits()
    .cast_signed();

/// File that is locked while the baseline is written, below a [`Root`].
pub(super) const LOCK: &str = "var/lib/haltwise/lock";
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// Whether only root and our user can have written this.
pub(super) fn is_ours(metadata: &Metadata) -> Result<(), &'static str> {
    let us = rustix::process::geteuid().as_raw();
    if ![0, us].contains(&metadata.uid()) {
        return Err("it is owned by another user");
    }
    if metadata.permissions().mode() & 0o022 != 0 {
        return Err("others may write it");
    }
    Ok(())
}

fn untrusted(path: &Path, why: &'static str) -> KnobError {
    KnobError::Untrusted {
        path: path.to_owned(),
        why,
    }
}

/// Makes the directory of a path, for us alone.
pub(super) fn make_directory_of(path: &Path) -> Result<(), KnobError> {
    let Some(directory) = path.parent() else {
        return Ok(());
    };
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(directory);
    made.map_err(failed("make", directory))?;
    must_be_our_directory(directory)
}

fn must_be_our_directory(directory: &Path) -> Result<(), KnobError> {
    let metadata = directory.symlink_metadata();
    let metadata = metadata.map_err(failed("look at", directory))?;
    if !metadata.is_dir() {
        return Err(untrusted(directory, "it is no directory"));
    }
    is_ours(&metadata).map_err(|why| untrusted(directory, why))
}

/// Opens a regular file of ours: never through a link, and without waiting for the process that holds the other
/// end of a pipe.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> Result<File, KnobError> {
    let file = match options.mode(0o600).custom_flags(WARY).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(untrusted(path, "it is a link"));
        }
        opened => opened.map_err(failed("open", path))?,
    };
    let metadata = file.metadata().map_err(failed("open", path))?;
    if !metadata.is_file() {
        return Err(untrusted(path, "it is no regular file"));
    }
    is_ours(&metadata).map_err(|why| untrusted(path, why))?;
    Ok(file)
}

/// The first `most` bytes of a file of ours; `None` if it is not there. One whose directory is closed to us is not
/// absent.
pub(super) fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>, KnobError> {
    let unreadable = |error| RootError::new(path.to_owned(), error);
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        looked => looked.map_err(unreadable)?,
    };
    let file = open(path, OpenOptions::new().read(true))?;
    let mut bytes = Vec::new();
    let read = file.take(most).read_to_end(&mut bytes);
    read.map_err(unreadable)?;
    Ok(Some(bytes))
}

#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

/// Given back at once, also where a child that was started meanwhile still has a copy of the descriptor.
impl Drop for Lock {
    fn drop(&mut self) {
        let _released = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Lock {
    /// Takes it for writing. Waits for another process's change to end, but not for long.
    pub(super) fn take(root: &Root) -> Result<Self, KnobError> {
        let path = root.path(LOCK);
        make_directory_of(&path)?;
        let mut options = OpenOptions::new();
        let file = open(&path, options.read(true).write(true).create(true))?;
        if file
            .metadata()
            .is_ok_and(|it| it.permissions().mode() & 0o077 != 0)
        {
            return Err(untrusted(&path, "others may open it, and so lock it"));
        }
        let until = Instant::now() + PATIENCE;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() >= until {
                return Err(KnobError::Busy { path });
            }
            std::thread::sleep(PAUSE);
        }
        Ok(Self { file })
    }

    /// Takes it for reading: no process writes until it is dropped. `None` if no process ever wrote.
    pub(super) fn share(root: &Root) -> Result<Option<Self>, KnobError> {
        let path = root.path(LOCK);
        if !path.exists() {
            return Ok(None);
        }
        path.parent().map_or(Ok(()), must_be_our_directory)?;
        let file = open(&path, OpenOptions::new().read(true))?;
        if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
            return Err(KnobError::Busy { path });
        }
        Ok(Some(Self { file }))
    }
}
