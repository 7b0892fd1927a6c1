//! The files that hold the code of VMMs: opened without trust in their owner, and their functions
//! kept as long as there is room.
//!
//! Nothing here waits for a writer of a pipe, follows a path to another file than the one that is mapped, or
//! takes more memory than is said here.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use cpp_demangle::{DemangleOptions, Symbol};
use rustix::fs::{CWD, FileType, Mode, OFlags, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::elf::Functions;
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

/// Which file it is, by device and number: one of the host, or one known of this mapping of a process alone.
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

/// Why a file gives no names.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error,
)]
pub(super) enum Refusal {
    #[error("it cannot be opened or read with the rights at hand")]
    Denied,
    #[error("it is not a regular file")]
    NotRegular,
    #[error(
        "another file has its name, or its file system shows another device number (to open mapped files \
         themselves takes CAP_CHECKPOINT_RESTORE)"
    )]
    OtherFile,
    #[error("its symbol tables are too large")]
    TooLarge,
    #[error("it is not a valid ELF file, or was cut or failed while it was read")]
    Malformed,
    #[error("reading it took too long")]
    Late,
    #[error("the process that read it died")]
    Died,
    #[error("the process that read it gave an invalid answer")]
    Nonsense,
    #[error("no process could be started to read it")]
    NoReader,
    #[error("the processes that read such files died too often")]
    Exhausted,
    #[error("the time for reading the files of all VMs was used up")]
    OverTime,
}

/// A name is kept up to so many bytes: templates grow without end.
pub(super) const NAME_MOST: usize = 400;

/// Takes no more than a name may have.
#[derive(Debug, Default)]
struct Bounded {
    text: String,
    is_cut: bool,
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = NAME_MOST - self.text.len();
        let fits = text.floor_char_boundary(room);
        self.text.push_str(&text[..fits]);
        // It ends the demangler too, however much it would go on to say.
        self.is_cut = fits < text.len();
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
}

pub(super) fn written_name(symbol: &[u8]) -> String {
    let symbol = String::from_utf8_lossy(symbol);
    let mut name = Bounded::default();
    if let Ok(rust) = rustc_demangle::try_demangle(&symbol) {
        let _cut = write!(name, "{rust:#}");
        return name.text;
    }
    if symbol.starts_with("_Z") {
        // Its limits on depth are the library's own.
        if let Ok(cpp) = Symbol::new(symbol.as_bytes()) {
            let written = cpp.structured_demangle(&mut name, &DemangleOptions::new());
            if written.is_ok() || name.is_cut {
                return name.text;
            }
            name.text.clear();
        }
    }
    let _cut = name.write_str(&symbol);
    name.text
}

/// Code of one file, or of none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mapping {
    pub(super) start: u64,
    /// The first address that is no longer part of it.
    pub(super) end: u64,
    pub(super) offset: u64,
    /// The file's number on its device; 0 where there is no file.
    pub(super) inode: u64,
    pub(super) device: (u32, u32),
    pub(super) path: String,
}

impl Mapping {
    pub(super) fn is_file(&self) -> bool {
        self.inode != 0 && self.path.starts_with('/')
    }
}

/// The mappings that hold code, in order of their addresses.
pub(super) fn parse_maps(text: &str) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = text.lines().filter_map(mapping).collect();
    mappings.sort_by_key(|mapping| mapping.start);
    mappings
}

/// `55d0c8a00000-55d0c8a21000 r-xp 00002000 fd:00 1234   /usr/bin/vmm (deleted)`
fn mapping(text: &str) -> Option<Mapping> {
    let mut rest = text;
    let mut word = || {
        let trimmed = rest.trim_start_matches(' ');
        let (word, after) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
        rest = after;
        word
    };
    let (start, end) = word().split_once('-')?;
    let permissions = word();
    let offset = word();
    let (major, minor) = word().split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let inode = word().parse().ok()?;
    let mapping = Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode,
        device: (number(major)?, number(minor)?),
        path: rest.trim_start_matches(' ').to_owned(),
    };
    (permissions.as_bytes().get(2) == Some(&b'x') && mapping.start < mapping.end).then_some(mapping)
}

pub(super) fn find_mapping(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    let at = mappings.partition_point(|mapping| mapping.start <= address);
    let mapping = mappings.get(at.checked_sub(1)?)?;
    (address < mapping.end).then_some(mapping)
}

#[cfg(test)]
mod test;
