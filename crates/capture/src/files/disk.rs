//! Effects of writing a capture, one by one: a disk can refuse each effect, and a crash can fall between two effects.
//!
//! The file system does them. Tests put a `Disk` before it that is asked first, and so can be full, fail, write
//! short, lie or end (`recording::simulation`); nothing else of the writer knows of it.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::thread;

/// An effect on the files of a capture, which have numbers.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests ask"))]
pub(crate) enum Effect<'a> {
    Look,
    Open,
    Create(&'a str),
    Write { file: u64, at: u64, bytes: usize },
    SetLen { file: u64, bytes: u64 },
    Sync(u64),
    SyncNamed(&'a str),
    Rename(&'a str, &'a str),
    Remove(&'a str),
    SyncNames,
}

/// Asked before each effect; an error is the effect's.
pub(crate) trait Disk: fmt::Debug + Send + Sync {
    /// Gives the number of a file that is created, and how many bytes are written.
    fn ask(&self, effect: Effect<'_>) -> io::Result<u64>;
}

/// A file of ours that is being written.
#[derive(Debug)]
pub struct Sink {
    file: File,
    /// Where [`Write`] goes on.
    at: u64,
    asked: Option<(Arc<dyn Disk>, u64)>,
}

impl Sink {
    /// Sink of a file that was created empty, under the number that the disk gave the file.
    pub(super) fn new(file: File, asked: Option<(Arc<dyn Disk>, u64)>) -> Self {
        Self { file, at: 0, asked }
    }

    /// Writes all of these bytes at this place.
    pub fn write_all_at(&self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    at += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let part = match &self.asked {
            Some((disk, file)) => {
                let (file, bytes) = (*file, bytes.len());
                disk.ask(Effect::Write { file, at, bytes })?
            }
            None => bytes.len() as u64,
        };
        let part = usize::try_from(part).unwrap_or(usize::MAX);
        self.file.write_at(&bytes[..part.min(bytes.len())], at)
    }

    /// Cuts or extends it.
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        if let Some((disk, file)) = &self.asked {
            disk.ask(Effect::SetLen { file: *file, bytes })?;
        }
        self.file.set_len(bytes)
    }

    /// Makes durable what was written.
    pub fn sync(&self) -> io::Result<()> {
        sync_all(&[self])
    }

    /// Its size and the like.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Takes the lock by which readers see that a process is writing.
    pub fn try_lock(&self) -> io::Result<()> {
        self.file.try_lock().map_err(io::Error::from)
    }
}

/// Makes durable what was written to all of these. All wait at once, each but the first in a thread, since each may wait long.
pub(super) fn sync_all(sinks: &[&Sink]) -> io::Result<()> {
    for (disk, number) in sinks.iter().filter_map(|sink| sink.asked.as_ref()) {
        disk.ask(Effect::Sync(*number))?;
    }
    let Some((first, rest)) = sinks.split_first() else {
        return Ok(());
    };
    thread::scope(|scope| {
        let mut waits = Vec::new();
        for &sink in rest {
            let thread = thread::Builder::new().spawn_scoped(scope, || sink.file.sync_all());
            waits.push((sink, thread));
        }
        let mut done = first.file.sync_all();
        for (sink, thread) in waits {
            // Where no thread can be had, here.
            let synced = thread.ok().and_then(|thread| thread.join().ok());
            done = done.and(synced.unwrap_or_else(|| sink.file.sync_all()));
        }
        done
    })
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.write_at(bytes, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
