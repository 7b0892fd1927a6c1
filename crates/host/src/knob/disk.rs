//! Every write to the machine, one small effect after the other, and the ways in which they can end.
//!
//! An effect is what a crash can fall between: a write, a flush, a rename. Tests can stop before any of them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::target::Form;
#[cfg(test)]
use super::test::fault::effect;

/// Flags with which files are opened that should be ours: what another put in their place is neither waited
/// for nor followed.
pub(super) const WARY: i32 = OFlags::NONBLOCK
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NOCTTY)
    .bits()
    .cast_signed();

/// Refuses what is no regular file: a FIFO, a device.
pub(super) fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let why = "it is not a regular file";
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Opens a regular file to read it, by way of links where `flags` does not forbid that.
pub(super) fn read_regular(path: &Path, flags: i32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    regular(options.read(true).custom_flags(flags).open(path)?)
}

#[derive(Debug)]
pub(super) struct DiskError {
    /// What was tried: `write`, `rename`.
    pub(super) what: &'static str,
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
}

#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "tests stop here")]
fn effect() -> io::Result<()> {
    Ok(())
}

/// Writes a value into a file of the kernel, in one call.
pub(super) fn set(path: &Path, value: &str) -> Result<(), DiskError> {
    let told = |source| failed("write", path, source);
    effect().map_err(told)?;
    let set = || {
        // Not created: a parameter that went away with its module stays away.
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        file.write_all(format!("{value}\n").as_bytes())
    };
    set().map_err(told)
}

pub(super) fn set_outside(path: &Path) -> Result<(), DiskError> {
    let told = |source| failed("ask", path, source);
    effect().map_err(told)
}

/// Puts a small file in the place of another, or where none was: whoever looks sees one or the
/// other, whole. Ours, with this mode, unless it is to lie there in another form.
pub(super) fn replace(
    path: &Path,
    text: &str,
    mode: u32,
    form: Option<&Form>,
) -> Result<(), DiskError> {
    let temporary = temporary(path);
    let told = |what| move |source| failed(what, path, source);
    effect().map_err(told("write"))?;
    make(&temporary, text, mode, form).map_err(told("write"))?;
    effect().map_err(told("rename to"))?;
    fs::rename(&temporary, path).map_err(told("rename to"))?;
    flush_directory_of(path)
}

/// Removes what a crash left of [`replace`].
pub(super) fn clear(path: &Path) -> Result<(), DiskError> {
    let temporary = temporary(path);
    if temporary.symlink_metadata().is_ok() {
        remove(&temporary)?;
    }
    Ok(())
}

pub(super) fn remove(path: &Path) -> Result<(), DiskError> {
    let told = |source| failed("remove", path, source);
    effect().map_err(told)?;
    fs::remove_file(path).map_err(told)?;
    flush_directory_of(path)
}

pub(super) fn flush_directory_of(path: &Path) -> Result<(), DiskError> {
    let Some(directory) = path.parent() else {
        return Ok(());
    };
    let told = |source| failed("flush", directory, source);
    effect().map_err(told)?;
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(told)
}

/// Where a file is written before it takes its place; nothing that reads such directories minds it,
/// because it does not end in `.conf`.
fn temporary(path: &Path) -> PathBuf {
    path.with_extension("haltwise-new")
}

/// Makes a file that is not there yet; what lies there from an earlier crash goes first, and a link is
/// never followed.
fn make(path: &Path, text: &str, mode: u32, form: Option<&Form>) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if let Some(to) = form.and_then(|form| form.link.as_ref()) {
        return std::os::unix::fs::symlink(to, path);
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    if let Some(form) = form {
        std::os::unix::fs::fchown(&file, Some(form.uid), Some(form.gid))?;
    }
    let mode = form.map_or(mode, |form| form.mode);
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

fn failed(what: &'static str, path: &Path, source: io::Error) -> DiskError {
    DiskError {
        what,
        path: path.to_owned(),
        source,
    }
}
