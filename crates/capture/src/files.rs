//! The few file operations that must not go wrong half-way.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The name under which a file is written before it takes its place.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}

/// Gives a file that was written under its temporary name its place, durably.
pub(crate) fn settle(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(temporary(path), path)?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}

/// Replaces a small file in one step: a reader sees the old or the new, never a part.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let written = (|| {
        let mut file = File::create(temporary(path))?;
        file.write_all(bytes)?;
        settle(&file, path)
    })();
    if written.is_err() {
        // Best effort: the first error is the one that matters.
        let _ = fs::remove_file(temporary(path));
    }
    written
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    File::open(path)?.sync_all()
}
