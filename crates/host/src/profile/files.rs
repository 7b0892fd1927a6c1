//! The files that hold the code of VMMs: opened without trust in their owner, and their functions
//! kept as long as there is room.
//!
//! Nothing here waits for a writer of a pipe, follows a path to another file than the one that is mapped, or
//! takes more memory than is said here.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::elf::Functions;
use super::maps::Mapping;
use super::refusal::Refusal;
use super::written_name::written_name;
use crate::root::Root;

const FUNCTIONS_KEPT: usize = 8 << 20;
const FILES_KEPT: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ask {
    pub(super) pid: u32,
    pub(super) mapping: Mapping,
    /// Offset of the address in the file.
    pub(super) offset: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    Name(String),
    /// The file tells of no function there.
    Nameless,
    /// The file was not read, and why.
    Refused(Refusal),
}

/// Which file it is, by device and number: one of the host, or one that only this mapping of a process is known to
/// have.
type Key = ((u32, u32), u64, Option<(u32, u64)>);

#[derive(Debug)]
pub(super) struct Files {
    root: Root,
    known: BTreeMap<Key, Result<Known, Refusal>>,
    functions: usize,
}

#[derive(Debug, Default)]
struct Known {
    file: Option<File>,
    functions: Functions,
}

impl Known {
    fn name(&self, offset: u64) -> Option<String> {
        let symbol = self.functions.find(&self.file.as_ref()?, offset)?;
        Some(written_name(&symbol))
    }
}

impl Files {
    pub(super) fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            known: BTreeMap::new(),
            functions: 0,
        }
    }

    pub(super) fn answer(&mut self, ask: &Ask) -> Answer {
        let Mapping {
            device,
            inode,
            start,
            ..
        } = ask.mapping;
        let everybody = (device, inode, None);
        let mapping = (device, inode, Some((ask.pid, start)));
        let mut keys = [everybody, mapping].into_iter();
        let known = keys.find(|key| self.known.contains_key(key));
        let key = known.unwrap_or_else(|| self.open(ask, everybody, mapping));
        match self.known.get(&key) {
            Some(Ok(known)) => known
                .name(ask.offset)
                .map_or(Answer::Nameless, Answer::Name),
            Some(Err(refusal)) => Answer::Refused(*refusal),
            None => Answer::Nameless,
        }
    }

    fn open(&mut self, ask: &Ask, everybody: Key, mapping: Key) -> Key {
        if self.known.len() >= FILES_KEPT || self.functions >= FUNCTIONS_KEPT {
            self.known.clear();
            self.functions = 0;
        }
        let (key, known) = match open(&self.root, ask) {
            Ok((file, true)) => (everybody, read(file)),
            Ok((file, false)) => (mapping, read(file)),
            Err(None) => (mapping, Ok(Known::default())),
            Err(Some(refusal)) => (mapping, Err(refusal)),
        };
        if let Ok(known) = &known {
            self.functions += known.functions.count();
        }
        self.known.insert(key, known);
        key
    }
}

fn read(file: File) -> Result<Known, Refusal> {
    let functions = Functions::read(&&file)?;
    let file = Some(file);
    Ok(Known { file, functions })
}

/// Why a file is not open. `None` where it is gone with its process: a loss that cannot be prevented.
type Unopened = Option<Refusal>;

fn unopened(error: Errno) -> Unopened {
    match error {
        Errno::NOENT | Errno::SRCH | Errno::NOTDIR => None,
        _ => Some(Refusal::Denied),
    }
}

/// Opens the mapped file: as the mapping has it, which the kernel allows to few, else by its name. Tells
/// whether it is the file of that device and number.
fn open(root: &Root, ask: &Ask) -> Result<(File, bool), Unopened> {
    let (pid, mapping) = (ask.pid, &ask.mapping);
    let (start, end) = (mapping.start, mapping.end);
    let path = mapping.path.trim_start_matches('/');
    let candidates = [
        (format!("proc/{pid}/map_files/{start:x}-{end:x}"), true),
        (path.to_owned(), false),
        (format!("proc/{pid}/root/{path}"), false),
    ];
    let mut refusal = None;
    for (candidate, is_the_mapped) in candidates {
        match regular(&root.path(candidate)) {
            Ok((handle, device, inode)) => {
                let is_same = (device, inode) == (mapping.device, mapping.inode);
                if is_same || is_the_mapped {
                    return Ok((reopened(&handle)?, is_same));
                }
                refusal = Some(Refusal::OtherFile);
            }
            Err(other) => refusal = refusal.or(other),
        }
    }
    Err(refusal)
}

/// A handle of a regular file, its device and number. Nothing of it is opened yet: opening a pipe would wait
/// for a writer, and opening a device may do anything.
fn regular(path: &Path) -> Result<(OwnedFd, (u32, u32), u64), Unopened> {
    let handle = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let handle = handle.map_err(unopened)?;
    let stat = rustix::fs::fstat(&handle).map_err(unopened)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Some(Refusal::NotRegular));
    }
    let device = stat.st_dev;
    let device = (rustix::fs::major(device), rustix::fs::minor(device));
    Ok((handle, device, stat.st_ino))
}

fn reopened(handle: &OwnedFd) -> Result<File, Unopened> {
    // The descriptor of this process, wherever the folders of other processes lie.
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty()).map_err(unopened)?;
    Ok(File::from(file))
}

#[cfg(test)]
mod test;
