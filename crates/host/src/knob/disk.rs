//! Every write to the machine, one small effect after the other, and the ways in which they can end.
//!
//! An effect is what a crash can fall between: a write, a flush, a rename. Tests can stop before any of them.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::error::{KnobError, failed};
#[cfg(test)]
use super::test::fault::effect;
use crate::root::{Root, RootError};

/// Opens a regular file to read it, by way of links, and refuses what would be waited for: a FIFO, a device.
pub(super) fn read_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let why = "it is not a regular file";
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "tests stop here")]
fn effect() -> io::Result<()> {
    Ok(())
}

/// Writes a value into a file of the kernel, in one call.
pub(super) fn set(path: &Path, value: &str) -> Result<(), KnobError> {
    let set = || {
        effect()?;
        // Not created: a parameter that went away with its module stays away.
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        file.write_all(format!("{value}\n").as_bytes())
    };
    set().map_err(failed("write", path))
}

pub(super) fn set_outside(path: &Path) -> Result<(), KnobError> {
    effect().map_err(failed("ask", path))
}

/// Puts a small file of ours in the place of another, or where none was: a reader sees one of them, whole.
pub(super) fn replace(path: &Path, text: &str, mode: u32) -> Result<(), KnobError> {
    let temporary = temporary(path);
    let written = effect().and_then(|()| make(&temporary, text, mode));
    written.map_err(failed("write", path))?;
    let renamed = effect().and_then(|()| fs::rename(&temporary, path));
    renamed.map_err(failed("rename to", path))?;
    flush_directory_of(path)
}

pub(super) fn clear(path: &Path) -> Result<(), KnobError> {
    let temporary = temporary(path);
    if temporary.symlink_metadata().is_ok() {
        remove(&temporary)?;
    }
    Ok(())
}

pub(super) fn remove(path: &Path) -> Result<(), KnobError> {
    let removed = effect().and_then(|()| fs::remove_file(path));
    removed.map_err(failed("remove", path))?;
    flush_directory_of(path)
}

pub(super) fn flush_directory_of(path: &Path) -> Result<(), KnobError> {
    let Some(directory) = path.parent() else {
        return Ok(());
    };
    let flushed = effect().and_then(|()| File::open(directory)?.sync_all());
    flushed.map_err(failed("flush", directory))
}

/// Where a file is written before it takes its place; nothing that reads such directories minds it,
/// because it does not end in `.conf`.
fn temporary(path: &Path) -> PathBuf {
    path.with_extension("haltwise-new")
}

/// Makes a file that is not there yet; what an earlier crash left goes first, and a link is never followed.
fn make(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

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

/// Whether only root and our user can have written this. A user who can write the baseline decides what undo sets, and
/// one who can lock it prevents undo: both files belong to root (below another [`Root`], to the user of this process),
/// only the owner may write them, and only the owner can open the file that is locked.
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
pub(super) fn open_ours(path: &Path, options: &mut OpenOptions) -> Result<File, KnobError> {
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
pub(super) fn read_ours(path: &Path, most: u64) -> Result<Option<Vec<u8>>, KnobError> {
    let unreadable = |error| RootError::new(path.to_owned(), error);
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        looked => looked.map_err(unreadable)?,
    };
    let file = open_ours(path, OpenOptions::new().read(true))?;
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
        let file = open_ours(&path, options.read(true).write(true).create(true))?;
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
        let file = open_ours(&path, OpenOptions::new().read(true))?;
        if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
            return Err(KnobError::Busy { path });
        }
        Ok(Some(Self { file }))
    }
}

/// State that the pilot keeps, below a [`Root`]. Nothing is undone from it; settings stand in the baseline.
pub const PILOT: &str = "var/lib/haltwise/pilot.json";

/// It is not read further than this, in bytes: some ten thousand VMs.
const LONGEST: u64 = 16 << 20;

/// State that was kept last; `None` if there is none.
///
/// # Errors
/// If it cannot be read, or others than root and us may have written it.
pub fn kept(root: &Root) -> Result<Option<String>, KnobError> {
    let path = root.path(PILOT);
    let Some(bytes) = read_ours(&path, LONGEST)? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes)
        .map_err(|error| failed("read", &path)(io::Error::new(io::ErrorKind::InvalidData, error)));
    text.map(Some)
}

/// Makes the directory of this and of the baseline, where it is not there yet.
///
/// # Errors
/// If it cannot be made, or others than root and us may write in it.
pub fn make_place(root: &Root) -> Result<(), KnobError> {
    make_directory_of(&root.path(PILOT))
}

/// Keeps this instead: it is on the disk when this returns.
///
/// # Errors
/// If it cannot be written.
pub fn keep(root: &Root, text: &str) -> Result<(), KnobError> {
    make_place(root)?;
    replace(&root.path(PILOT), text, 0o600)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_kept_is_read_and_a_link_is_not_followed() {
        let (directory, root) = crate::root::made_up(&[]);
        assert_eq!(kept(&root).unwrap(), None);
        for text in ["one", "another"] {
            keep(&root, text).unwrap();
            assert_eq!(kept(&root).unwrap().as_deref(), Some(text));
        }
        let elsewhere = directory.path().join("elsewhere");
        std::fs::write(&elsewhere, "theirs").unwrap();
        let path = root.path(PILOT);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(matches!(kept(&root), Err(KnobError::Untrusted { .. })));
        keep(&root, "ours").unwrap();
        assert_eq!(kept(&root).unwrap().as_deref(), Some("ours"));
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "theirs");
    }
}
