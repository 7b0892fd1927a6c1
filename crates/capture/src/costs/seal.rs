//! The checksum of a costs table: the CRC-32 of its file, in whose metadata the digits of the checksum count as zeros.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crc32fast::Hasher;
use parquet::file::metadata::KeyValue;

pub(super) const KEY: &str = "haltwise.crc32";

const BLANK: &str = "crc32:00000000";

/// The end of a file that holds the entry: other entries and the order of columns follow it.
const TAIL_BYTES: u64 = 256 * 1024;

const PIECE_BYTES: usize = 64 * 1024;

pub(super) fn blank() -> KeyValue {
    KeyValue::new(KEY.to_owned(), BLANK.to_owned())
}

pub(super) fn seal(mut table: Vec<u8>) -> Vec<u8> {
    let sum = format!("crc32:{:08x}", crc32fast::hash(&table));
    if let Some(at) = last(&table, BLANK.as_bytes()) {
        table[at..at + sum.len()].copy_from_slice(sum.as_bytes());
    }
    table
}

pub(super) fn holds(file: &File, sum: &str) -> io::Result<bool> {
    let length = file.metadata()?.len();
    let tail_at = length.saturating_sub(TAIL_BYTES);
    let mut hasher = Hasher::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < tail_at {
        let rest = usize::try_from(tail_at - at).unwrap_or(PIECE_BYTES);
        let read = rest.min(PIECE_BYTES);
        file.read_exact_at(&mut piece[..read], at)?;
        hasher.update(&piece[..read]);
        at += read as u64;
    }
    let mut tail = vec![0; usize::try_from(length - tail_at).unwrap_or(0)];
    file.read_exact_at(&mut tail, tail_at)?;
    let Some(entry) = last(&tail, sum.as_bytes()).filter(|_| sum.len() == BLANK.len()) else {
        return Ok(false);
    };
    tail[entry..entry + sum.len()].copy_from_slice(BLANK.as_bytes());
    hasher.update(&tail);
    Ok(sum == format!("crc32:{:08x}", hasher.finalize()))
}

/// Where a text begins that is there, the last one.
fn last(bytes: &[u8], text: &[u8]) -> Option<usize> {
    let first = text.first()?;
    let mut places = (0..bytes.len()).rev().filter(|&at| bytes[at] == *first);
    places.find(|&at| bytes[at..].starts_with(text))
}
