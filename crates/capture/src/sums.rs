//! Checksums of a finished file: the CRC-32 of each of its blocks.
//!
//! `Summing` makes them while a file is written, `Checked` holds a file against them while it is read: each
//! block once, before its first byte is used.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use crc32fast::Hasher;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use serde::{Deserialize, Serialize};

use crate::files;

/// How long a block is, in bytes. The last of a file may be shorter. Less than a row group of halts, so that
/// damage seldom costs two.
pub const BLOCK_BYTES: u64 = 32 << 10;

/// Where the checksums do not say how long a block is: captures of older versions.
const OLD_BLOCK_BYTES: u64 = 256 << 10;

const DIGITS: usize = 8;

/// The checksums of a file's blocks, in their order. In JSON a string: how long a block is, a colon, and eight
/// hexadecimal digits each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sums {
    block_bytes: u64,
    sums: Vec<u32>,
}

impl From<Sums> for String {
    fn from(Sums { block_bytes, sums }: Sums) -> Self {
        let mut text = match block_bytes {
            OLD_BLOCK_BYTES => String::new(),
            bytes => format!("{bytes}:"),
        };
        for sum in sums {
            // Text grows as it must: no error.
            let _ = write!(text, "{sum:08x}");
        }
        text
    }
}

impl TryFrom<String> for Sums {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let of = |digits: &[u8]| {
            let text = std::str::from_utf8(digits)
                .ok()
                .filter(|_| digits.len() == DIGITS)?;
            let plain = text.bytes().all(|digit| digit.is_ascii_hexdigit());
            u32::from_str_radix(text, 16).ok().filter(|_| plain)
        };
        // A block is read whole, so that a file may not ask for any length.
        let is_block = |bytes: &u64| (1..=OLD_BLOCK_BYTES).contains(bytes);
        let (block_bytes, text) = match text.split_once(':') {
            Some((bytes, sums)) => (bytes.parse().ok().filter(is_block), sums),
            None => (Some(OLD_BLOCK_BYTES), &*text),
        };
        let sums = text.as_bytes().chunks(DIGITS).map(of);
        let sums: Option<Vec<_>> = sums.collect();
        let sums = block_bytes.zip(sums);
        sums.map(|(block_bytes, sums)| Self { block_bytes, sums })
            .ok_or("checksums are hexadecimal numbers of eight digits each")
    }
}

#[derive(Debug)]
pub(crate) struct Summing<W> {
    inner: W,
    block: Hasher,
    /// Bytes of the block that is being filled.
    filled: u64,
    sums: Vec<u32>,
}

impl<W> Summing<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            block: Hasher::new(),
            filled: 0,
            sums: Vec::new(),
        }
    }

    pub(crate) fn finish(mut self) -> (W, Sums) {
        if self.filled > 0 {
            self.sums.push(self.block.finalize());
        }
        let sums = Sums {
            block_bytes: BLOCK_BYTES,
            sums: self.sums,
        };
        (self.inner, sums)
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = usize::try_from(BLOCK_BYTES - self.filled).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.update(now);
            self.filled += now.len() as u64;
            if self.filled == BLOCK_BYTES {
                self.sums.push(std::mem::take(&mut self.block).finalize());
                self.filled = 0;
            }
            bytes = later;
        }
    }
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.take(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A block that is not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes do not match their checksum")]
pub(crate) struct Mismatch {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// The blocks of a file that are not what was written. A file that cannot be read has none: readers say why.
pub(crate) fn damaged_blocks(path: &Path, sums: Option<Sums>) -> Vec<Mismatch> {
    let checked = files::open_member(path).and_then(|file| Checked::new(file, sums)?.damaged());
    checked.unwrap_or_default()
}

/// As long as the header of a page is.
const HEADER_BYTES: usize = 128;

/// A file whose blocks are checked before they are used.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    file: Arc<File>,
    bytes: u64,
    sums: Option<Arc<Sums>>,
    /// By block: whether it was checked, and is what was written.
    whole: Arc<[AtomicBool]>,
    /// The first block that was found damaged.
    found: Arc<Mutex<Option<Mismatch>>>,
}

impl Checked {
    /// A file with its checksums, if there are any.
    pub(crate) fn new(file: File, sums: Option<Sums>) -> io::Result<Self> {
        let blocks = sums.as_ref().map_or(0, |of| of.sums.len());
        Ok(Self {
            bytes: file.metadata()?.len(),
            file: Arc::new(file),
            sums: sums.map(Arc::new),
            whole: (0..blocks).map(|_| AtomicBool::new(false)).collect(),
            found: Arc::default(),
        })
    }

    /// The first damaged block that was come upon since this was called before.
    pub(crate) fn take_damage(&self) -> Option<Mismatch> {
        self.found().take()
    }

    fn found(&self) -> MutexGuard<'_, Option<Mismatch>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds every block against its checksum; gives those that differ.
    pub(crate) fn damaged(&self) -> io::Result<Vec<Mismatch>> {
        let mut damaged = Vec::new();
        if let Some(sums) = &self.sums {
            for block in 0..self.bytes.div_ceil(sums.block_bytes) {
                damaged.extend(self.differs(sums, block)?);
            }
        }
        Ok(damaged)
    }

    /// Checks the blocks of a range that were not checked before.
    fn check(&self, start: u64, length: u64) -> Result<(), ParquetError> {
        let Some(sums) = &self.sums else {
            return Ok(());
        };
        let end = start.saturating_add(length).min(self.bytes);
        for block in start / sums.block_bytes..end.div_ceil(sums.block_bytes) {
            let whole = usize::try_from(block)
                .ok()
                .and_then(|block| self.whole.get(block));
            if whole.is_some_and(|whole| whole.load(Ordering::Relaxed)) {
                continue;
            }
            if let Some(mismatch) = self.differs(sums, block)? {
                let Mismatch { offset, .. } = *self.found().get_or_insert(mismatch);
                return Err(ParquetError::General(format!("damaged at offset {offset}")));
            }
            if let Some(whole) = whole {
                whole.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn differs(&self, of: &Sums, block: u64) -> io::Result<Option<Mismatch>> {
        let offset = block * of.block_bytes;
        let bytes = of.block_bytes.min(self.bytes.saturating_sub(offset));
        let mut content = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.file.read_exact_at(&mut content, offset)?;
        let sum = usize::try_from(block)
            .ok()
            .and_then(|block| of.sums.get(block));
        let is_whole = sum == Some(&crc32fast::hash(&content));
        Ok((!is_whole).then_some(Mismatch { offset, bytes }))
    }
}

impl Length for Checked {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Checked {
    type T = BufReader<Onward>;

    /// For the header of a page, which is all that is read from here.
    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let onward = Onward {
            file: self.clone(),
            offset: start,
        };
        Ok(BufReader::with_capacity(HEADER_BYTES, onward))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.check(start, length as u64)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

#[derive(Debug)]
pub(crate) struct Onward {
    file: Checked,
    offset: u64,
}

impl Read for Onward {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // To the end of the block: what begins there may be damaged, and not be needed.
        let block = self
            .file
            .sums
            .as_ref()
            .map_or(u64::MAX, |of| of.block_bytes);
        let room = usize::try_from(block - self.offset % block).unwrap_or(usize::MAX);
        let wanted = bytes.len().min(room);
        let checked = self.file.check(self.offset, wanted as u64);
        checked.map_err(io::Error::other)?;
        let read = self.file.file.read_at(&mut bytes[..wanted], self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        io::Seek::rewind(&mut file).unwrap();
        file
    }

    fn sums_of(bytes: &[u8]) -> Sums {
        let mut summing = Summing::new(io::sink());
        summing.write_all(bytes).unwrap();
        summing.finish().1
    }

    fn content() -> Vec<u8> {
        (0..BLOCK_BYTES * 5 / 2).map(|n| (n % 251) as u8).collect()
    }

    #[test]
    fn a_file_has_the_same_checksums_however_it_is_written() {
        let content = content();
        let at_once = sums_of(&content);
        assert_eq!(at_once.sums.len(), 3);
        for piece in [1000, 32_768, 40_001] {
            let mut summing = Summing::new(Vec::new());
            for bytes in content.chunks(piece) {
                summing.write_all(bytes).unwrap();
            }
            let (written, sums) = summing.finish();
            assert!(written == content && sums == at_once, "{piece}");
        }
        assert!(Summing::new(io::sink()).finish().1.sums.is_empty());
        let text = serde_json::to_string(&at_once).unwrap();
        assert!(text.starts_with("\"32768:") && text.len() == 32, "{text}");
        assert_eq!(serde_json::from_str::<Sums>(&text).unwrap(), at_once);
        for wrong in [
            "\"1234567\"",
            "\"123456789\"",
            "\"+1234567\"",
            "\"1234567g\"",
            "7",
            "\"0:12345678\"",
            "\"262145:12345678\"",
            "\"x:12345678\"",
        ] {
            assert!(serde_json::from_str::<Sums>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_what_is_read_is_checked_and_damage_has_its_place() {
        let mut content = content();
        let sums = sums_of(&content);
        content[40_000] ^= 4;
        let checked = Checked::new(file_of(&content), Some(sums)).unwrap();
        assert_eq!(checked.get_bytes(0, 32_768).unwrap(), content[..32_768]);
        assert_eq!(
            checked.get_bytes(65_536, 9).unwrap(),
            content[65_536..65_545]
        );
        assert_eq!(checked.take_damage(), None);
        let damage = Mismatch {
            offset: 32_768,
            bytes: 32_768,
        };
        assert!(checked.get_bytes(32_767, 2).is_err());
        assert_eq!(checked.take_damage(), Some(damage));
        assert_eq!(checked.damaged().unwrap(), [damage]);
        // Pages before the damage are read, however near their headers are to it.
        let mut near = Vec::new();
        let header = checked.get_read(32_700).unwrap();
        header.take(60).read_to_end(&mut near).unwrap();
        assert_eq!(near, content[32_700..32_760]);
        assert!(
            checked
                .get_read(32_760)
                .unwrap()
                .read_exact(&mut [0; 9])
                .is_err()
        );
        let old = format!("\"{:08x}\"", crc32fast::hash(&content));
        let old: Sums = serde_json::from_str(&old).unwrap();
        let of_old = Checked::new(file_of(&content), Some(old)).unwrap();
        assert_eq!(
            of_old.get_bytes(32_767, 2).unwrap(),
            content[32_767..32_769]
        );
        let none = Summing::new(io::sink()).finish().1;
        let too_few = Checked::new(file_of(&content), Some(none)).unwrap();
        assert!(too_few.get_bytes(0, 1).is_err());
    }
}
