//! The one home of opening files: what is read is a regular file, what is written is ours.
//!
//! haltwise runs as root beside people who own directories of their own, so a name proves nothing. A FIFO
//! would wait for ever, a link would lead anywhere.
//!
//! Outputs are for their owner alone: captures hold command lines, and names of files and functions. The owner is the
//! user who has run haltwise by `sudo`, if that is so: given by descriptor, never by name. That needs `CAP_CHOWN`, and
//! `CAP_DAC_OVERRIDE` for as long as files are made in a directory that was given away.
//!
//! A name below a descriptor is a single component, so `O_NOFOLLOW` keeps every link out of it. Links on the way
//! to a directory or to a file that is read are the caller's own words and are followed.

pub mod directory;
pub mod disk;
pub mod output;
mod writer;

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};

pub use directory::Directory;

/// Why a file or directory is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    #[error("it is {0}, not a regular file")]
    Kind(&'static str),
    #[error("it is {0}, not a directory")]
    NoDirectory(&'static str),
    #[error("the directory belongs to user {owner}, who could change what user {us} writes there")]
    Foreign { owner: u32, us: u32 },
    #[error("others may write to the directory (mode {mode:o})")]
    Open { mode: u32 },
    #[error("it names no file")]
    Nameless,
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        Self::new(io::ErrorKind::InvalidInput, refused)
    }
}

/// Opens a file that the user named, for reading: a regular one, by way of links if need be.
pub fn open(path: &Path) -> io::Result<File> {
    open_if(path, OFlags::empty(), Metadata::is_file)
}

/// Opens a file of a capture, for reading: a regular one, and no link.
pub fn open_member(path: &Path) -> io::Result<File> {
    open_if(path, OFlags::NOFOLLOW, Metadata::is_file)
}

/// Opens a text that is read from its beginning to its end: a regular file or a pipe.
///
/// It does not wait for the pipe's other end; reading may say [`io::ErrorKind::WouldBlock`].
pub fn open_text(path: &Path) -> io::Result<File> {
    let is_text = |metadata: &Metadata| metadata.is_file() || metadata.file_type().is_fifo();
    open_if(path, OFlags::empty(), is_text)
}

/// Entries of a directory that are no links or devices: paths, and whether the entries are directories.
pub fn entries(directory: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() || kind.is_file() {
            found.push((entry.path(), kind.is_dir()));
        }
    }
    Ok(found)
}

/// Reads a regular file that the user named.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open_if(path: &Path, flags: OFlags, wanted: fn(&Metadata) -> bool) -> io::Result<File> {
    let found = if flags.contains(OFlags::NOFOLLOW) {
        fs::symlink_metadata(path)?
    } else {
        fs::metadata(path)?
    };
    // Before it is opened: that alone makes some devices act.
    must_be(&found, wanted)?;
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?);
    // And after: it may be another by now.
    must_be(&file.metadata()?, wanted)?;
    Ok(file)
}

fn must_be(found: &Metadata, wanted: fn(&Metadata) -> bool) -> io::Result<()> {
    if wanted(found) {
        return Ok(());
    }
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Err(Refused::Kind(kind(found)).into())
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => "a file",
        () if kind.is_dir() => "a directory",
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

/// Device and inode: what a descriptor and a name have in common as long as the name is not given away.
fn identity(file: impl AsFd) -> io::Result<(u64, u64)> {
    let found = rustix::fs::fstat(file)?;
    Ok((found.st_dev, found.st_ino))
}

#[cfg(test)]
mod test;
