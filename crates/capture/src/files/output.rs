//! A single file that the user named, for writing: whole or not at all, and never through a link.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::directory::make_above;
use super::writer::{Account, Writer, give};
use super::{Refused, must_be};

/// Readers of a new file. An existing file keeps its permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone: what holds a capture's facts as they are.
    Owner,
    /// All that the umask allows: plans and pages, which are made to be handed on.
    Umask,
}

impl Readers {
    fn mode(self) -> Mode {
        match self {
            Self::Owner => Mode::RUSR | Mode::WUSR,
            Self::Umask => Mode::from_raw_mode(0o666),
        }
    }
}

/// Names that are tried for what is written before it takes its place.
const TRIES: u32 = 16;

/// The directory of a file, and its name there.
struct Place {
    directory: OwnedFd,
    name: String,
    writer: Writer,
    /// Owner of files created here, if not us.
    files_of: Option<Account>,
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(Refused::Nameless)?;
        let name = name.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, parent, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&directory)?;
        let writer = Writer::us();
        writer.may_use(found.st_uid, found.st_gid, found.st_mode)?;
        Ok(Self {
            directory,
            name: name.to_owned(),
            files_of: writer.files_in(found.st_uid, found.st_mode),
            writer,
        })
    }

    /// Creates a file beside the one that it is to replace.
    fn temporary(&self, mode: Mode) -> io::Result<(File, String)> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for attempt in 0..TRIES {
            let name = format!(".{}.{}-{attempt}.tmp", self.name, std::process::id());
            match rustix::fs::openat(&self.directory, &name, flags, mode) {
                Ok(file) => return Ok((File::from(file), name)),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::EXIST.into())
    }
}

/// Writes a file in one step: a reader sees the old one or the new, never a part.
///
/// A link, a FIFO or a device of that name is left alone, and refused.
pub fn write(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let old = match fs::symlink_metadata(path) {
        Ok(found) => {
            must_be(&found, fs::Metadata::is_file)?;
            Some(found)
        }
        Err(_) => None,
    };
    let place = Place::of(path)?;
    let (mut file, temporary) = place.temporary(readers.mode())?;
    let written = (|| {
        if let Some(old) = &old {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(old.mode() & 0o777))?;
        }
        let stays_ours = old.is_some_and(|old| old.uid() == place.writer.us.uid);
        give(&file, place.files_of.filter(|_| !stays_ours));
        file.write_all(bytes)?;
        file.sync_all()?;
        let directory = &place.directory;
        rustix::fs::renameat(directory, &temporary, directory, &place.name)?;
        io::Result::Ok(())
    })();
    if written.is_err() {
        // Best effort: the first error is the one that matters.
        let _ = rustix::fs::unlinkat(&place.directory, &temporary, AtFlags::empty());
    }
    written
}

/// Opens a file to which lines are added, and which can be read; it is made if it is not there, for us alone,
/// with the directories above it.
pub fn append(path: &Path) -> io::Result<File> {
    make_above(path)?;
    let place = Place::of(path)?;
    let flags =
        OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let anew = flags | OFlags::CREATE | OFlags::EXCL;
    let open = |flags| {
        let mode = Readers::Owner.mode();
        rustix::fs::openat(&place.directory, &place.name, flags, mode)
    };
    let file = match open(anew) {
        Ok(file) => {
            give(&file, place.files_of);
            file
        }
        Err(Errno::EXIST) => open(flags)?,
        Err(error) => return Err(error.into()),
    };
    let file = File::from(file);
    must_be(&file.metadata()?, fs::Metadata::is_file)?;
    Ok(file)
}
