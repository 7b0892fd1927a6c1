//! The pages of a Parquet file, read and unpacked: the decoder gets no header of a page to read.
//!
//! A header names the sizes of buffers to allocate, so these are bounded. The bounds are per page: a file of many pages
//! takes the decoder its time, batch by batch. No offset index is used (`footer` loads none).
//!
//! One decompressor serves all columns of a file. The reader of parquet 60.1 makes two contexts of zstd for each column
//! of each row group, and each asks for the features of the CPU. In a virtual machine CPUID exits: that took a third of
//! the CPU time of `haltwise fleet show`.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::{Compression, Encoding, PageType};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::ChunkReader;

use crate::thrift::shapes::{DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, PAGE_HEADER};
use crate::thrift::{self, Shape};

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
pub(crate) const MAX_PAGE: u32 = 16 << 20;

/// Most values of one page. The writer ends a page at 20,000 rows and looks at least every 20,000
/// (`DEFAULT_DATA_PAGE_ROW_COUNT_LIMIT` in parquet 60.1); a row of buckets has some thousand values.
pub(crate) const MAX_VALUES: u32 = 1 << 26;

/// zstd cannot pack better than this: four bytes, a block of one repeated byte, give at most 128 KiB
/// (RFC 8878, 3.1.1.2). What is not packed has the same size before and after.
const MAX_RATIO: u32 = (128 << 10) / 4;

type Zstd = zstd::bulk::Decompressor<'static>;

/// Row groups of a file, column by column.
#[derive(Clone)]
pub(crate) struct Chunks<R> {
    file: R,
    metadata: Arc<ParquetMetaData>,
    groups: Range<usize>,
    zstd: Arc<Mutex<Zstd>>,
}

impl<R: ChunkReader> Chunks<R> {
    /// The row groups from this one on.
    pub(crate) fn new(
        file: R,
        metadata: Arc<ParquetMetaData>,
        from: usize,
    ) -> Result<Self, ParquetError> {
        Ok(Self {
            file,
            groups: from..metadata.num_row_groups(),
            metadata,
            zstd: Arc::new(Mutex::new(Zstd::new()?)),
        })
    }
}

impl<R: ChunkReader + Clone + 'static> RowGroups for Chunks<R> {
    fn num_rows(&self) -> usize {
        let rows = self.row_groups().map(RowGroupMetaData::num_rows);
        let rows = rows.filter_map(|rows| usize::try_from(rows).ok());
        rows.fold(0, usize::saturating_add)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let of = self.clone();
        Ok(Box::new(ColumnChunks { of, column }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        let groups = self.groups.clone();
        Box::new(groups.map(|group| self.metadata.row_group(group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The chunks of one column, one for each row group.
struct ColumnChunks<R> {
    of: Chunks<R>,
    column: usize,
}

impl<R: ChunkReader + Clone + 'static> Iterator for ColumnChunks<R> {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.of.groups.next()?;
        let column = self.of.metadata.row_group(group).column(self.column);
        let (start, length) = column.byte_range();
        let codec = match column.compression() {
            Compression::ZSTD(_) => Some(Codec::Zstd(Arc::clone(&self.of.zstd))),
            Compression::SNAPPY => Some(Codec::Snappy),
            // Columns with other codecs were refused.
            _ => None,
        };
        let chunk = Chunk::new(self.of.file.clone(), start, length, codec);
        Some(chunk.map(|chunk| Box::new(chunk) as Box<dyn PageReader>))
    }
}

impl<R: ChunkReader + Clone + 'static> PageIterator for ColumnChunks<R> {}

enum Codec {
    Snappy,
    Zstd(Arc<Mutex<Zstd>>),
}

impl Codec {
    fn unpack(&self, packed: &[u8], bytes: usize) -> Result<Vec<u8>, ParquetError> {
        match self {
            Self::Snappy => {
                let mut unpacked = vec![0; bytes];
                let length = snap::raw::Decoder::new().decompress(packed, &mut unpacked);
                unpacked.truncate(length.map_err(|error| ParquetError::External(error.into()))?);
                Ok(unpacked)
            }
            Self::Zstd(zstd) => {
                let mut zstd = zstd.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(zstd.decompress(packed, bytes)?)
            }
        }
    }
}

/// The pages of a column in a row group.
struct Chunk<R> {
    file: R,
    at: u64,
    end: u64,
    codec: Option<Codec>,
}

impl<R: ChunkReader> Chunk<R> {
    /// Fails where the chunk is not in the file: nothing is allocated by a length that a footer claims.
    fn new(file: R, start: u64, length: u64, codec: Option<Codec>) -> Result<Self, ParquetError> {
        let end = start.checked_add(length).filter(|end| *end <= file.len());
        let end = end.ok_or_else(|| {
            ParquetError::EOF(format!("{length} bytes at {start} are not in the file"))
        })?;
        Ok(Self {
            file,
            at: start,
            end,
            codec,
        })
    }

    /// The header of the next page that holds values.
    fn next_header(&mut self) -> Result<Option<Header>, ParquetError> {
        while self.at < self.end {
            let (header, bytes) = Header::read(&self.file, self.at, self.end - self.at)?;
            self.at += bytes;
            if header.kind() != Some(PageType::INDEX_PAGE) {
                return Ok(Some(header));
            }
            self.at += u64::from(header.packed());
        }
        Ok(None)
    }

    fn page(&self, header: &Header) -> Result<Page, ParquetError> {
        let (unpacked, levels) = (header.unpacked() as usize, header.level_bytes() as usize);
        let bytes = self.file.get_bytes(self.at, header.packed() as usize)?;
        let Some(codec) = self.codec.as_ref().filter(|_| header.is_packed()) else {
            return header.page(bytes);
        };
        let refused = |what| ParquetError::General(format!("the page at {} has {what}", self.at));
        let parts = bytes.split_at_checked(levels);
        let (levels, values) = parts.ok_or_else(|| refused("no values".to_owned()))?;
        // A page of NULLs has no values, and nothing to unpack.
        let mut all = match unpacked.checked_sub(levels.len()) {
            Some(0) | None => Vec::new(),
            Some(bytes) => codec.unpack(values, bytes)?,
        };
        all.splice(..0, levels.iter().copied());
        if all.len() != unpacked {
            return Err(refused(format!("{} bytes, not {unpacked}", all.len())));
        }
        header.page(all.into())
    }
}

impl<R: ChunkReader> PageReader for Chunk<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let Some(header) = self.next_header()? else {
            return Ok(None);
        };
        let page = self.page(&header)?;
        self.at += u64::from(header.packed());
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        let at = self.at;
        let header = self.next_header()?;
        self.at = at;
        Ok(header.map(|header| PageMetadata {
            num_rows: header.rows().map(|rows| rows as usize),
            num_levels: Some(header.values() as usize),
            is_dict: header.kind() == Some(PageType::DICTIONARY_PAGE),
        }))
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        if let Some(header) = self.next_header()? {
            self.at += u64::from(header.packed());
        }
        Ok(())
    }
}

impl<R: ChunkReader> Iterator for Chunk<R> {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// Numbers of a header, by their fields in parquet.thrift; of a field that comes twice, the last.
#[derive(Debug, Default)]
struct Header {
    page: [u32; 4],
    /// The structure of a kind of page, and its numbers.
    of_kind: Option<PageType>,
    numbers: [u32; 8],
    /// A size that no page has.
    impossible: Option<i64>,
}

impl Header {
    /// The header of the page that starts here, and its length. `left` bytes are in the chunk.
    fn read(file: &impl ChunkReader, start: u64, left: u64) -> Result<(Self, u64), ParquetError> {
        let mut header = Self::default();
        // Values of version 2 are packed unless the header says that they are not.
        header.numbers[7] = 1;
        let reader = file.get_read(start)?;
        let mut see = |shape: &Shape, field, value| header.note(shape, field, value);
        let whole = format!("the page header at {start}");
        let of = (&*whole, &PAGE_HEADER);
        let bytes = thrift::read(reader, left.min(MAX_HEADER), of, &mut see)?.len() as u64;
        match header.lie(left - bytes) {
            None => Ok((header, bytes)),
            Some(what) => Err(ParquetError::General(format!("{whole} {what}"))),
        }
    }

    fn note(&mut self, shape: &Shape, field: i16, value: i64) {
        let of_kind = [
            (&DATA_PAGE, PageType::DATA_PAGE),
            (&DICTIONARY_PAGE, PageType::DICTIONARY_PAGE),
            (&DATA_PAGE_V2, PageType::DATA_PAGE_V2),
        ];
        let of_kind = of_kind.iter().find(|(other, _)| other.name == shape.name);
        let numbers = match of_kind {
            Some((_, kind)) => {
                self.of_kind = Some(*kind);
                self.numbers.as_mut_slice()
            }
            None if shape.name == PAGE_HEADER.name => &mut self.page,
            None => return,
        };
        let field = usize::try_from(field).ok();
        if let Some(place) = field.and_then(|field| numbers.get_mut(field)) {
            match u32::try_from(value) {
                Ok(value) if value <= i32::MAX.unsigned_abs() => *place = value,
                _ => self.impossible = Some(value),
            }
        }
    }

    /// Kind of the page, if its numbers are there.
    fn kind(&self) -> Option<PageType> {
        let kind = match self.page[1] {
            0 => PageType::DATA_PAGE,
            1 => return Some(PageType::INDEX_PAGE),
            2 => PageType::DICTIONARY_PAGE,
            3 => PageType::DATA_PAGE_V2,
            _ => return None,
        };
        self.of_kind.filter(|of_kind| *of_kind == kind)
    }

    fn unpacked(&self) -> u32 {
        self.page[2]
    }

    fn packed(&self) -> u32 {
        self.page[3]
    }

    fn values(&self) -> u32 {
        self.numbers[1]
    }

    /// Rows of the page, which those of version 1 do not say.
    fn rows(&self) -> Option<u32> {
        (self.kind() == Some(PageType::DATA_PAGE_V2)).then_some(self.numbers[3])
    }

    fn is_packed(&self) -> bool {
        self.numbers[7] != 0
    }

    /// Bytes of levels before the values, which are never packed.
    fn level_bytes(&self) -> u32 {
        match self.kind() {
            Some(PageType::DATA_PAGE_V2) => self.numbers[5].saturating_add(self.numbers[6]),
            _ => 0,
        }
    }

    /// Why no page has this header, with so many bytes left in its chunk.
    fn lie(&self, left: u64) -> Option<String> {
        let (unpacked, packed) = (self.unpacked(), self.packed());
        let most = |claimed: u32, what: &str, most: u64| {
            (u64::from(claimed) > most)
                .then(|| format!("claims {claimed} {what}, more than {most}"))
        };
        let values = match self.kind() {
            // An entry of a dictionary takes a byte at least.
            Some(PageType::DICTIONARY_PAGE) => unpacked,
            _ => MAX_VALUES,
        };
        self.impossible
            .map(|size| format!("claims a size of {size}"))
            .or_else(|| {
                self.kind()
                    .is_none()
                    .then(|| "is of no known kind".to_owned())
            })
            .or_else(|| most(packed, "bytes", left))
            .or_else(|| most(unpacked, "bytes", MAX_PAGE.into()))
            .or_else(|| most(unpacked, "bytes", u64::from(packed) * u64::from(MAX_RATIO)))
            .or_else(|| most(self.values(), "values", values.into()))
            .or_else(|| most(self.level_bytes(), "bytes of levels", unpacked.into()))
    }

    fn page(&self, buf: Bytes) -> Result<Page, ParquetError> {
        let num_values = self.values();
        let encoding = |field: usize| encoding(self.numbers[field]);
        Ok(match self.kind() {
            Some(PageType::DICTIONARY_PAGE) => Page::DictionaryPage {
                buf,
                num_values,
                encoding: encoding(2)?,
                is_sorted: false,
            },
            Some(PageType::DATA_PAGE_V2) => Page::DataPageV2 {
                buf,
                num_values,
                encoding: encoding(4)?,
                num_nulls: self.numbers[2],
                num_rows: self.numbers[3],
                def_levels_byte_len: self.numbers[5],
                rep_levels_byte_len: self.numbers[6],
                is_compressed: self.is_packed(),
                statistics: None,
            },
            _ => Page::DataPage {
                buf,
                num_values,
                encoding: encoding(2)?,
                def_level_encoding: encoding(3)?,
                rep_level_encoding: encoding(4)?,
                statistics: None,
            },
        })
    }
}

/// An encoding by its number in parquet.thrift. `BIT_PACKED` is that of levels in files of before 2013.
fn encoding(number: u32) -> Result<Encoding, ParquetError> {
    Ok(match number {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        _ => {
            let what = format!("a page has encoding {number}");
            return Err(ParquetError::NYI(what));
        }
    })
}

#[cfg(test)]
mod test;
