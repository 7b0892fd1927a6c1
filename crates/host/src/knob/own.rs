//! Which files are ours to believe and to lock: what lies in `/var/lib/haltwise`.
//!
//! Whoever could write the baseline could have undo write their text to a boot file, and whoever could lock
//! it could keep everybody from undoing. So both belong to root (or to whoever runs us, below another
//! [`Root`]), nobody else may write them, and the file that is locked can be opened by nobody else.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::disk::{DiskError, WARY};
use super::error::KnobError;
use crate::root::Root;

/// What is locked while the baseline is written, below a [`Root`].
pub(super) const LOCK: &str = "var/lib/haltwise/lock";
/// How long somebody else's change is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// Whether nobody but root and us can have written this.
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
    made.map_err(|source| DiskError {
        what: "make",
        path: directory.to_owned(),
        source,
    })?;
    must_be_our_directory(directory)
}

fn must_be_our_directory(directory: &Path) -> Result<(), KnobError> {
    let metadata = directory.symlink_metadata().map_err(|source| DiskError {
        what: "look at",
        path: directory.to_owned(),
        source,
    })?;
    if !metadata.is_dir() {
        return Err(untrusted(directory, "it is no directory"));
    }
    is_ours(&metadata).map_err(|why| untrusted(directory, why))
}

/// Opens a regular file of ours: never through a link, and without waiting for whoever holds the other
/// end of a pipe.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> Result<File, KnobError> {
    let failed = |source| DiskError {
        what: "open",
        path: path.to_owned(),
        source,
    };
    let file = match options.mode(0o600).custom_flags(WARY).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(untrusted(path, "it is a link"));
        }
        opened => opened.map_err(failed)?,
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(untrusted(path, "it is no regular file"));
    }
    is_ours(&metadata).map_err(|why| untrusted(path, why))?;
    Ok(file)
}

pub(super) fn open_to_read(path: &Path) -> Result<File, KnobError> {
    open(path, OpenOptions::new().read(true))
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
    /// Takes it for writing. Waits for somebody else's change to end, but not for long.
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

    /// Whether nobody writes just now; what this gives is to be kept while the baseline is read.
    pub(super) fn share(root: &Root) -> Result<Shared, KnobError> {
        let path = root.path(LOCK);
        if !path.exists() {
            return Ok(Shared::NeverLocked);
        }
        path.parent().map_or(Ok(()), must_be_our_directory)?;
        let file = open(&path, OpenOptions::new().read(true))?;
        if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
            return Ok(Shared::Writing);
        }
        Ok(Shared::Held(Self { file }))
    }
}

#[derive(Debug)]
pub(super) enum Shared {
    NeverLocked,
    Writing,
    Held(#[expect(dead_code, reason = "held, not read")] Lock),
}
