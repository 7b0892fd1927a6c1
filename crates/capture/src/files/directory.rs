//! A directory that is ours alone, by a descriptor.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::disk::{self, Disk, Effect, Sink};
use super::writer::{Account, Writer, give};
use super::{Refused, identity, kind};

const OURS: Mode = Mode::RWXU;
const FILE: Mode = Mode::RUSR.union(Mode::WUSR);
/// How a directory is opened: never through a link.
const WARY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Which directory it is, whatever its name: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryId(u64, u64);

/// A directory of ours, below which no other user makes names.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    descriptor: OwnedFd,
    identity: (u64, u64),
    /// Owner of files created in it, if not us.
    files_of: Option<Account>,
    made: bool,
    /// Test hook that is called before the file system.
    asked: Option<Arc<dyn Disk>>,
}

/// A file that is to take the place of another, and goes where it does not.
#[derive(Debug)]
pub struct Temporary<'a> {
    sink: Sink,
    directory: &'a Directory,
    name: String,
    has_place: bool,
}

impl Temporary<'_> {
    fn take_place(mut self) -> io::Result<()> {
        self.directory.rename(&temporary(&self.name), &self.name)?;
        self.has_place = true;
        Ok(())
    }

    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.sink.metadata()?.len())
    }
}

impl io::Write for Temporary<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.has_place {
            // Best effort: the error that led here is the one that matters.
            drop(self.directory.remove(&temporary(&self.name)));
        }
    }
}

impl Directory {
    /// Opens a directory that is there.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Ok(found) = fs::symlink_metadata(path)
            && !found.is_dir()
        {
            return Err(Refused::NoDirectory(kind(&found)).into());
        }
        let descriptor = rustix::fs::openat(CWD, without_slash(path), WARY, Mode::empty())?;
        Self::opened(descriptor, path.to_owned())
    }

    /// Makes a directory below it that is not there.
    pub fn make_in(&self, name: &str) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.descriptor, name, OURS)?;
        let made = rustix::fs::openat(&self.descriptor, name, WARY, Mode::empty())?;
        give(&made, self.files_of);
        Ok(Self {
            made: true,
            ..Self::opened(made, self.path.join(name))?
        })
    }

    /// Opens a directory below it, which is made if it is not there.
    pub fn enter(&self, name: &str) -> io::Result<Self> {
        match self.make_in(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let there = rustix::fs::openat(&self.descriptor, name, WARY, Mode::empty())?;
                Self::opened(there, self.path.join(name))
            }
            made => made,
        }
    }

    fn opened(descriptor: OwnedFd, path: PathBuf) -> io::Result<Self> {
        let found = rustix::fs::fstat(&descriptor)?;
        let writer = Writer::us();
        writer.must_own(found.st_uid, found.st_mode)?;
        let owner = Account {
            uid: found.st_uid,
            gid: found.st_gid,
        };
        Ok(Self {
            path,
            identity: identity(&descriptor)?,
            descriptor,
            files_of: writer.is_for(owner.uid).then_some(owner),
            made: false,
            asked: None,
        })
    }

    #[cfg(test)]
    pub(crate) fn asking(mut self, disk: Arc<dyn Disk>) -> Self {
        self.asked = Some(disk);
        self
    }

    /// Opens a directory, which is made if it is not there, with those above it: for its owner alone.
    pub fn make(path: &Path) -> io::Result<Self> {
        make_above(path)?;
        let made = fs::symlink_metadata(path).is_err();
        make_one(path)?;
        Ok(Self {
            made,
            ..Self::open(path)?
        })
    }

    /// Removes it if it was made here, is still there, and holds nothing.
    pub fn unmake(&self) -> io::Result<()> {
        if !self.made || !self.is_there()? || !self.is_empty()? {
            return Ok(());
        }
        let path = without_slash(&self.path);
        Ok(rustix::fs::unlinkat(CWD, &path, AtFlags::REMOVEDIR)?)
    }

    /// Which it is, whatever becomes of its name.
    pub fn id(&self) -> DirectoryId {
        DirectoryId(self.identity.0, self.identity.1)
    }

    /// Its path, for people.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_empty(&self) -> io::Result<bool> {
        holds_nothing(&self.descriptor)
    }

    /// Whether its path still leads to it; an error where that cannot be said.
    pub fn is_there(&self) -> io::Result<bool> {
        self.ask(Effect::Look)?;
        let found = rustix::fs::statat(CWD, &self.path, AtFlags::empty());
        Ok(if_found(found)? == Some(self.identity))
    }

    /// Whether a name below it still leads to a file; an error where that cannot be said.
    pub fn holds(&self, name: &str, file: impl AsFd) -> io::Result<bool> {
        self.ask(Effect::Look)?;
        let found = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW);
        Ok(if_found(found)? == Some(identity(file)?))
    }

    /// Whether there is a name below it.
    pub fn has(&self, name: &str) -> io::Result<bool> {
        let found = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW);
        Ok(if_found(found)?.is_some())
    }

    /// Creates a file that is not there, for writing.
    pub fn create(&self, name: &str) -> io::Result<Sink> {
        let number = self.ask(Effect::Create(name))?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.descriptor, name, flags, FILE)?;
        give(&file, self.files_of);
        let asked = self.asked.clone().map(|disk| (disk, number));
        Ok(Sink::new(File::from(file), asked))
    }

    /// Opens a regular file for reading.
    pub fn read(&self, name: &str) -> io::Result<File> {
        self.ask(Effect::Open)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?;
        let file = File::from(file);
        super::must_be(&file.metadata()?, fs::Metadata::is_file)?;
        Ok(file)
    }

    /// Creates the file that is to take the place of `name`; what a crash left of an earlier one goes.
    pub fn create_temporary(&self, name: &str) -> io::Result<Temporary<'_>> {
        self.remove(&temporary(name))?;
        Ok(Temporary {
            sink: self.create(&temporary(name))?,
            directory: self,
            name: name.to_owned(),
            has_place: false,
        })
    }

    /// Lets a file that has another name take the place of `name`, durably.
    pub fn replace_by(&self, file: &Sink, from: &str, name: &str) -> io::Result<()> {
        file.sync()?;
        self.rename(from, name)?;
        self.sync()
    }

    /// Gives files their places, and `last` its own when those are durable: with three waits for the disk, however many files
    /// there are. Where that fails, each file that has no place yet goes.
    pub fn settle<'a>(&self, mut files: Vec<Temporary<'a>>, last: Temporary<'a>) -> io::Result<()> {
        files.push(last);
        disk::sync_all(&files.iter().map(|file| &file.sink).collect::<Vec<_>>())?;
        let last = files.split_off(files.len() - 1);
        for part in [files, last].into_iter().filter(|part| !part.is_empty()) {
            part.into_iter().try_for_each(Temporary::take_place)?;
            self.sync()?;
        }
        Ok(())
    }

    fn rename(&self, from: &str, name: &str) -> io::Result<()> {
        self.ask(Effect::Rename(from, name))?;
        let renamed = rustix::fs::renameat(&self.descriptor, from, &self.descriptor, name);
        Ok(renamed?)
    }

    /// Makes its names durable.
    pub fn sync(&self) -> io::Result<()> {
        self.ask(Effect::SyncNames)?;
        Ok(rustix::fs::fsync(&self.descriptor)?)
    }

    /// Makes durable what was written to the file of this name.
    pub fn sync_file(&self, name: &str) -> io::Result<()> {
        self.ask(Effect::SyncNamed(name))?;
        self.read(name)?.sync_all()
    }

    fn ask(&self, effect: Effect<'_>) -> io::Result<u64> {
        match &self.asked {
            Some(disk) => disk.ask(effect),
            None => Ok(0),
        }
    }

    /// Replaces a small file in one step, durably: a reader sees the old or the new, never a part.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.settle(Vec::new(), self.written(name, bytes)?)
    }

    /// The same without a wait for the disk: after a loss of power the file may be damaged.
    pub fn replace_at_once(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.written(name, bytes)?.take_place()
    }

    /// A small file that is to take the place of `name`.
    pub fn written(&self, name: &str, bytes: &[u8]) -> io::Result<Temporary<'_>> {
        let mut file = self.create_temporary(name)?;
        file.write_all(bytes)?;
        Ok(file)
    }

    /// Removes a name, if it is there.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.ask(Effect::Remove(name))?;
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a directory below it with the files in it, if it is there. One that holds directories stays.
    pub fn remove_directory(&self, name: &str) -> io::Result<()> {
        let below = match rustix::fs::openat(&self.descriptor, name, WARY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            opened => opened?,
        };
        for entry in rustix::fs::Dir::read_from(&below)? {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                rustix::fs::unlinkat(&below, name, AtFlags::empty())?;
            }
        }
        Ok(rustix::fs::unlinkat(
            &self.descriptor,
            name,
            AtFlags::REMOVEDIR,
        )?)
    }
}

/// The name under which a file is written before it takes its place.
pub(crate) fn temporary(name: &str) -> String {
    format!("{name}.tmp")
}

/// Makes the directories above a path that are not there.
pub fn make_above(path: &Path) -> io::Result<()> {
    let is_missing = |above: &&Path| !above.as_os_str().is_empty() && !above.exists();
    let missing: Vec<_> = path.ancestors().skip(1).take_while(is_missing).collect();
    missing.into_iter().rev().try_for_each(make_one)
}

fn make_one(path: &Path) -> io::Result<()> {
    let path = without_slash(path);
    match rustix::fs::mkdirat(CWD, &path, OURS) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let writer = Writer::us();
    if writer.by.is_none() {
        return Ok(());
    }
    let made = rustix::fs::openat(CWD, &path, WARY, Mode::empty())?;
    // Where others may rename, it could be another by now: only an empty one of ours is given away.
    if rustix::fs::fstat(&made)?.st_uid == writer.us.uid && holds_nothing(&made)? {
        give(&made, writer.by);
    }
    Ok(())
}

/// Device and inode that a path leads to, if the path leads anywhere.
fn if_found(found: Result<rustix::fs::Stat, Errno>) -> io::Result<Option<(u64, u64)>> {
    match found {
        Ok(found) => Ok(Some((found.st_dev, found.st_ino))),
        // The last is what a network's file system says of a directory that is gone.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn holds_nothing(directory: &OwnedFd) -> io::Result<bool> {
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The path without a slash at its end, which would have a link followed.
fn without_slash(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Refuses a directory for a new capture: one that is not ours, or that holds something. `false`: it is used.
pub fn is_unused(path: &Path) -> io::Result<bool> {
    match Directory::open(path) {
        Ok(directory) => directory.is_empty(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Gives a directory another name.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Removes a directory and what lies in it, if it is there; links are not followed.
pub fn remove_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Names of what lies in a directory, and how large it is.
pub fn list(path: &Path) -> io::Result<Vec<(OsString, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // A file that is gone meanwhile has no size.
        let bytes = entry.metadata().map_or(0, |file| file.len());
        found.push((entry.file_name(), bytes));
    }
    Ok(found)
}
