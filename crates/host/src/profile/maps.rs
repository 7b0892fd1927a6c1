//! `/proc/PID/maps`: which file's code lies where in a process. Pure.

use serde::{Deserialize, Serialize};

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
pub(super) fn parse(text: &str) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = text.lines().filter_map(line).collect();
    mappings.sort_by_key(|mapping| mapping.start);
    mappings
}

/// `55d0c8a00000-55d0c8a21000 r-xp 00002000 fd:00 1234   /usr/bin/vmm (deleted)`
fn line(text: &str) -> Option<Mapping> {
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

pub(super) fn find(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    let at = mappings.partition_point(|mapping| mapping.start <= address);
    let mapping = mappings.get(at.checked_sub(1)?)?;
    (address < mapping.end).then_some(mapping)
}

#[cfg(test)]
mod test;
