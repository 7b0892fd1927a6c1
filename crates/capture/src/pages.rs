//! The pages of a Parquet file, none of which reaches the decoder before its header is checked.
//!
//! The decoder asks a [`ChunkReader`] for a reader where it expects the header of a page, and for
//! bytes where that header puts the page. [`Pages`] stands between: a reader that it gives out holds
//! one header, checked, and nothing else. This holds for data pages of both versions, dictionaries and
//! pages that the decoder skips, as long as no offset index is loaded (`footer` loads none).
//!
//! A header names the sizes of buffers to allocate, so these are bounded too. The bounds are per page:
//! a file of many pages takes the decoder its time, batch by batch.

use std::io::Cursor;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::thrift::shapes::{
    DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, PAGE_HEADER, PAGE_PACKED, PAGE_UNPACKED,
    V2_DEFINITION_BYTES, V2_REPETITION_BYTES, VALUES,
};
use crate::thrift::{self, Refused, Shape};

/// Longest header of a page, in bytes. Ours have less than 100; another writer's may hold the least
/// and the greatest value of the page.
pub(crate) const MAX_HEADER: u64 = 64 << 10;

/// Largest page when unpacked, in bytes.
///
/// The writer ends a page, or a dictionary, at the first look that finds [`PAGE_BYTES`] in it, and
/// looks after at most so many bytes more or after two values, whichever is more
/// (`ByteBudgetChunker` in parquet 60.1). With the longest texts that are written ([`MAX_TEXT`]) and
/// 1 MiB for levels this is 10 MiB. A row that is a list is not parted, but our lists, the buckets of
/// a histogram and the frames of a stack, have 8 KiB at most.
///
/// [`PAGE_BYTES`]: crate::parquet_form::PAGE_BYTES
/// [`MAX_TEXT`]: crate::parquet_form::MAX_TEXT
pub(crate) const MAX_PAGE: i64 = 16 << 20;

/// Most values of one page. The writer ends a page at 20,000 rows and looks at least every 20,000
/// (`DEFAULT_DATA_PAGE_ROW_COUNT_LIMIT` in parquet 60.1); a row of buckets has some thousand values.
pub(crate) const MAX_VALUES: i64 = 1 << 26;

/// zstd cannot pack better than this: four bytes, a block of one repeated byte, give at most 128 KiB
/// (RFC 8878, 3.1.1.2). What is not packed has the same size before and after.
const MAX_RATIO: i64 = (128 << 10) / 4;

/// A file whose pages may be decoded.
pub(crate) struct Pages<R> {
    file: R,
    bytes: u64,
}

impl<R: ChunkReader> Pages<R> {
    pub(crate) fn new(file: R) -> Self {
        let bytes = file.len();
        Self { file, bytes }
    }
}

impl<R: ChunkReader> Length for Pages<R> {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl<R: ChunkReader> ChunkReader for Pages<R> {
    type T = Cursor<Vec<u8>>;

    /// The header of the page that starts here.
    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let left = self.bytes.saturating_sub(start);
        let mut header = Header::default();
        let reader = self.file.get_read(start)?;
        let mut see = |shape: &Shape, field, value| header.note(shape, field, value);
        let bytes = thrift::read(reader, left.min(MAX_HEADER), &PAGE_HEADER, &mut see);
        let refused = |what| ParquetError::General(format!("the page header at {start} {what}"));
        match bytes {
            Ok(bytes) => match header.lie() {
                None => Ok(Cursor::new(bytes)),
                Some(what) => Err(refused(what)),
            },
            Err(Refused::Because(what)) => Err(refused(what)),
            Err(Refused::Io(error)) => Err(error.into()),
        }
    }

    /// A page. Its length is what a header or the footer says, so nothing is allocated before it is
    /// known to be there.
    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.bytes) {
            let what = format!("{length} bytes at {start} are not in the file");
            return Err(ParquetError::EOF(what));
        }
        self.file.get_bytes(start, length)
    }
}

/// Claims of a header. If a field comes twice, the decoder takes the last.
#[derive(Default)]
struct Header {
    unpacked: i64,
    packed: i64,
    /// Values of data pages, and in `dictionary_values` those of dictionaries; the most if there are several.
    values: i64,
    dictionary_values: i64,
    /// Bytes of levels, in version 2: the larger of the two kinds.
    level_bytes: i64,
    /// A size that no page has.
    impossible: Option<i64>,
}

impl Header {
    fn note(&mut self, shape: &Shape, field: i16, value: i64) {
        let is = |other: &Shape| shape.name == other.name;
        let place = match field {
            PAGE_UNPACKED if is(&PAGE_HEADER) => &mut self.unpacked,
            PAGE_PACKED if is(&PAGE_HEADER) => &mut self.packed,
            VALUES if is(&DATA_PAGE) || is(&DATA_PAGE_V2) => &mut self.values,
            VALUES if is(&DICTIONARY_PAGE) => &mut self.dictionary_values,
            V2_DEFINITION_BYTES | V2_REPETITION_BYTES if is(&DATA_PAGE_V2) => &mut self.level_bytes,
            _ => return,
        };
        // All of these have 32 bits; the decoder would drop the rest.
        if !(0..=i64::from(i32::MAX)).contains(&value) {
            self.impossible = Some(value);
        }
        *place = if is(&PAGE_HEADER) {
            value
        } else {
            value.max(*place)
        };
    }

    fn lie(&self) -> Option<String> {
        let (unpacked, packed) = (self.unpacked, self.packed);
        let most = |claimed: i64, what: &str, most: i64| {
            (claimed > most).then(|| format!("claims {claimed} {what}, more than {most}"))
        };
        self.impossible
            .map(|size| format!("claims a size of {size}"))
            .or_else(|| most(unpacked, "bytes", MAX_PAGE))
            .or_else(|| most(unpacked, "bytes", packed.saturating_mul(MAX_RATIO)))
            .or_else(|| most(self.values, "values", MAX_VALUES))
            // An entry of a dictionary takes a byte at least.
            .or_else(|| most(self.dictionary_values, "values", unpacked))
            .or_else(|| most(self.level_bytes, "bytes of levels", unpacked))
    }
}

#[cfg(test)]
mod test;
