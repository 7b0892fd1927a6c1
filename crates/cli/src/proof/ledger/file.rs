//! The file: a line of JSON for each proof, added to and never rewritten.
//!
//! A line goes to the file in one write and to the disk before the result is reported. Where a crash cut the
//! last line short, the next one begins on a line of its own, and a reader counts the torn one.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use haltwise_capture::files::{self, output};
use rustix::fs::FlockOperation;

use super::entry::Entry;
use crate::exit::{Exit, Failure};
use crate::proof;

#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(crate) entries: Vec<Entry>,
    /// Lines that are no entry of a schema that we know.
    pub(crate) unread: usize,
}

/// How long another haltwise is waited for that adds its own.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// Adds a proof. Two at once wait for each other, but not for ever: any user who may read the file may lock it.
pub(crate) fn append(path: &Path, entry: &Entry) -> anyhow::Result<()> {
    append_within(path, entry, PATIENCE)
}

fn append_within(path: &Path, entry: &Entry, patience: Duration) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    let context = || format!("write {}", path.display());
    let mut file = output::append(path).with_context(context)?;
    // Released when the file is closed.
    let until = Instant::now() + patience;
    while rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() >= until {
            bail!("lock {}: another process holds it", path.display());
        }
        std::thread::sleep(PAUSE);
    }
    if is_torn(&mut file).with_context(context)? {
        line.insert(0, b'\n');
    }
    file.write_all(&line).with_context(context)?;
    file.sync_all().with_context(context)
}

fn is_torn(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// Reads all. A ledger that is not there yet is empty.
pub(crate) fn read(path: &Path) -> Result<Lines, Failure> {
    match files::read(path) {
        Ok(bytes) => Ok(parse(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Lines::default()),
        Err(error) => {
            let denied = error.kind() == io::ErrorKind::PermissionDenied;
            let exit = if denied { Exit::Denied } else { Exit::Failed };
            let error = anyhow::Error::new(error).context(format!("read {}", path.display()));
            Err(Failure::new(exit, error))
        }
    }
}

/// Line by line; what is no proof is counted.
pub(crate) fn parse(bytes: &[u8]) -> Lines {
    let mut lines = Lines::default();
    let written = bytes.split(|byte| *byte == b'\n');
    for line in written.filter(|line| !line.trim_ascii().is_empty()) {
        match serde_json::from_slice::<Entry>(line) {
            Ok(entry) if proof::is_read(entry.schema.into()) => lines.entries.push(entry),
            _ => lines.unread += 1,
        }
    }
    lines
}

#[cfg(test)]
pub(crate) mod test;
