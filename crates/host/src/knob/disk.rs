//! Every write to the machine, one small effect after the other, and the ways in which they can end.
//!
//! An effect is what a crash can fall between: a write, a flush, a rename. Tests can stop before any of them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::error::{KnobError, failed};
#[cfg(test)]
use super::test::fault::effect;

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

/// Puts a small file of ours in the place of another, or where none was: a reader sees one or the
/// other, whole.
pub(super) fn replace(path: &Path, text: &str, mode: u32) -> Result<(), KnobError> {
    let temporary = temporary(path);
    let written = effect().and_then(|()| make(&temporary, text, mode));
    written.map_err(failed("write", path))?;
    let renamed = effect().and_then(|()| fs::rename(&temporary, path));
    renamed.map_err(failed("rename to", path))?;
    flush_directory_of(path)
}

/// Removes what a crash left of [`replace`].
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

/// Makes a file that is not there yet; what lies there from an earlier crash goes first, and a link is
/// never followed.
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
