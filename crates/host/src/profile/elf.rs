//! Functions of an ELF file that somebody else may write: read in bounded pieces, never mapped.
//!
//! Every size and offset is checked against the size that the file had when it was opened. A file that
//! becomes shorter meanwhile gives an error, no signal. Names are read when they are asked for, so that a
//! table of strings takes no memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A table of symbols is read up to here; QEMU with all of its symbols has some 3 MiB.
pub(super) const TABLE_MOST: u64 = 192 << 20;

/// Functions of one file that are kept.
pub(super) const FUNCTIONS_MOST: usize = 4 << 20;

/// Sections and segments that are looked at, each.
const HEADERS_MOST: u64 = 1 << 16;

/// Bytes of a table that are read at once.
const PIECE: usize = 1 << 18;

/// A symbol's name is read up to here.
pub(super) const SYMBOL_MOST: usize = 4096;

/// Functions before an address that are looked at: one may lie within another.
const NESTED_MOST: usize = 16;

const PT_LOAD: u64 = 1;
const SHT_SYMTAB: u64 = 2;
const SHT_STRTAB: u64 = 3;
const SHT_DYNSYM: u64 = 11;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const STB_LOCAL: u8 = 0;

/// Bytes with an end.
pub(super) trait Bytes {
    /// How many there are, as was known when they were opened.
    fn size(&self) -> u64;
    /// Fills `into` from `offset` on.
    fn read(&self, into: &mut [u8], offset: u64) -> std::io::Result<()>;
}

/// A file and the size that it had.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) size: u64,
}

impl Bytes for Opened {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, into: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.file.read_exact_at(into, offset)
    }
}

impl Bytes for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, into: &mut [u8], offset: u64) -> std::io::Result<()> {
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = begin
            .checked_add(into.len())
            .and_then(|end| self.get(begin..end));
        let part = part.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(part);
        Ok(())
    }
}

/// Why a file gives no functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElfError {
    /// Not a loss: other files hold code too.
    NotElf,
    /// A part of it lies beyond its end.
    BeyondEnd,
    /// It ended, or could not be read, after it was opened.
    Failed,
    TooLarge,
    Malformed,
}

/// Code of the file, and the address that its symbols give it.
#[derive(Debug, Clone, Copy)]
struct Segment {
    offset: u64,
    size: u64,
    address: u64,
}

#[derive(Debug, Clone, Copy)]
struct Function {
    start: u64,
    /// 0 where it is not told.
    size: u64,
    /// Where its name begins in the file, and whether the symbol is seen only within it.
    name: u64,
    /// How many bytes the table of strings has from there on.
    room: u32,
    is_local: bool,
}

#[derive(Debug, Default)]
pub(super) struct Functions {
    segments: Vec<Segment>,
    functions: Vec<Function>,
}

#[derive(Debug, Clone, Copy)]
struct Form {
    is_little: bool,
    is_wide: bool,
}

impl Form {
    /// A number of `size` bytes; 0 where the bytes end before.
    fn number(self, bytes: &[u8], at: usize, size: usize) -> u64 {
        let Some(part) = at.checked_add(size).and_then(|end| bytes.get(at..end)) else {
            return 0;
        };
        let fold = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
        if self.is_little {
            part.iter().rev().fold(0, fold)
        } else {
            part.iter().fold(0, fold)
        }
    }

    /// A field that lies elsewhere, and is wider, in files of 64 bits: where, and of how many bytes.
    fn field(self, bytes: &[u8], wide: (usize, usize), narrow: (usize, usize)) -> u64 {
        let (at, size) = if self.is_wide { wide } else { narrow };
        self.number(bytes, at, size)
    }
}

#[derive(Debug, Clone, Copy)]
struct Section {
    kind: u64,
    offset: u64,
    size: u64,
    link: u64,
    entry: u64,
}

/// Bytes of an ELF file with what is needed to understand them.
struct Reader<'a> {
    bytes: &'a dyn Bytes,
    form: Form,
    header: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a dyn Bytes) -> Result<Self, ElfError> {
        let mut header = vec![0; 64];
        let there = usize::try_from(bytes.size()).unwrap_or(64).min(64);
        if there < 52 {
            return Err(ElfError::NotElf);
        }
        let read = bytes.read(&mut header[..there], 0);
        read.map_err(|_| ElfError::Failed)?;
        let (class, data) = (header[4], header[5]);
        if !header.starts_with(b"\x7fELF") {
            return Err(ElfError::NotElf);
        }
        if !matches!((class, data), (1 | 2, 1 | 2)) {
            return Err(ElfError::Malformed);
        }
        let form = Form {
            is_little: data == 1,
            is_wide: class == 2,
        };
        Ok(Self {
            bytes,
            form,
            header,
        })
    }

    /// Bytes of the file, which must lie within it.
    fn part(&self, offset: u64, size: u64) -> Result<Vec<u8>, ElfError> {
        self.within(offset, size)?;
        let size = usize::try_from(size).map_err(|_| ElfError::TooLarge)?;
        let mut part = vec![0; size];
        let read = self.bytes.read(&mut part, offset);
        read.map_err(|_| ElfError::Failed)?;
        Ok(part)
    }

    fn within(&self, offset: u64, size: u64) -> Result<(), ElfError> {
        let end = offset.checked_add(size).ok_or(ElfError::BeyondEnd)?;
        if end > self.bytes.size() {
            return Err(ElfError::BeyondEnd);
        }
        Ok(())
    }

    fn headers(&self, offset: u64, count: u64, size: u64) -> Result<Vec<u8>, ElfError> {
        if count > HEADERS_MOST {
            return Err(ElfError::TooLarge);
        }
        self.part(offset, count * size)
    }

    fn segments(&self) -> Result<Vec<Segment>, ElfError> {
        let form = self.form;
        let size = if form.is_wide { 56 } else { 32 };
        let offset = form.field(&self.header, (32, 8), (28, 4));
        let count = form.field(&self.header, (56, 2), (44, 2));
        if count > 0 && form.field(&self.header, (54, 2), (42, 2)) != size {
            return Err(ElfError::Malformed);
        }
        let headers = self.headers(offset, count, size)?;
        let headers = headers.chunks_exact(usize::try_from(size).unwrap_or(usize::MAX));
        let loaded = headers.filter(|header| form.number(header, 0, 4) == PT_LOAD);
        let segment = |header: &[u8]| Segment {
            offset: form.field(header, (8, 8), (4, 4)),
            address: form.field(header, (16, 8), (8, 4)),
            size: form.field(header, (32, 8), (16, 4)),
        };
        Ok(loaded.map(segment).collect())
    }

    fn sections(&self) -> Result<Vec<Section>, ElfError> {
        let form = self.form;
        let size = if form.is_wide { 64 } else { 40 };
        let offset = form.field(&self.header, (40, 8), (32, 4));
        if offset == 0 {
            return Ok(Vec::new());
        }
        if form.field(&self.header, (58, 2), (46, 2)) != size {
            return Err(ElfError::Malformed);
        }
        let section = |header: &[u8]| Section {
            kind: form.number(header, 4, 4),
            offset: form.field(header, (24, 8), (16, 4)),
            size: form.field(header, (32, 8), (20, 4)),
            link: form.field(header, (40, 4), (24, 4)),
            entry: form.field(header, (56, 8), (36, 4)),
        };
        let mut count = form.field(&self.header, (60, 2), (48, 2));
        if count == 0 {
            // More than the field holds: the first section's size says how many.
            count = section(&self.part(offset, size)?).size;
        }
        let headers = self.headers(offset, count, size)?;
        let headers = headers.chunks_exact(usize::try_from(size).unwrap_or(usize::MAX));
        Ok(headers.map(section).collect())
    }

    fn table(
        &self,
        table: Section,
        strings: Section,
        into: &mut Vec<Function>,
    ) -> Result<(), ElfError> {
        let form = self.form;
        let size: usize = if form.is_wide { 24 } else { 16 };
        if table.entry != size as u64 {
            return Err(ElfError::Malformed);
        }
        self.within(table.offset, table.size)?;
        self.within(strings.offset, strings.size)?;
        if table.size > TABLE_MOST {
            return Err(ElfError::TooLarge);
        }
        let piece = (PIECE / size * size) as u64;
        let mut done = 0;
        while done < table.size {
            let next = piece.min(table.size - done);
            let symbols = self.part(table.offset + done, next)?;
            done += next;
            let symbols = symbols.chunks_exact(size);
            for function in symbols.filter_map(|symbol| function(form, symbol, strings)) {
                if into.len() == FUNCTIONS_MOST {
                    return Err(ElfError::TooLarge);
                }
                into.push(function);
            }
        }
        Ok(())
    }
}

/// A symbol as a function, if it is one.
fn function(form: Form, symbol: &[u8], strings: Section) -> Option<Function> {
    let info = *symbol.get(if form.is_wide { 4 } else { 12 })?;
    let section = form.field(symbol, (6, 2), (14, 2));
    let start = form.field(symbol, (8, 8), (4, 4));
    let name = form.number(symbol, 0, 4);
    let is_function = matches!(info & 15, STT_FUNC | STT_GNU_IFUNC);
    if !is_function || section == 0 || start == 0 || name == 0 || name >= strings.size {
        return None;
    }
    Some(Function {
        start,
        size: form.field(symbol, (16, 8), (8, 4)),
        name: strings.offset + name,
        room: u32::try_from(strings.size - name).unwrap_or(u32::MAX),
        is_local: info >> 4 == STB_LOCAL,
    })
}

impl Functions {
    /// Reads which functions lie where.
    pub(super) fn read(bytes: &dyn Bytes) -> Result<Self, ElfError> {
        let reader = Reader::new(bytes)?;
        let segments = reader.segments()?;
        let sections = reader.sections()?;
        let mut functions = Vec::new();
        for table in &sections {
            if !matches!(table.kind, SHT_SYMTAB | SHT_DYNSYM) || table.size == 0 {
                continue;
            }
            let strings = usize::try_from(table.link).ok();
            let strings = strings.and_then(|link| sections.get(link));
            let strings = strings.filter(|section| section.kind == SHT_STRTAB);
            reader.table(*table, *strings.ok_or(ElfError::Malformed)?, &mut functions)?;
        }
        // Of several names of one place the one that others see, and which says how long it is.
        functions.sort_by_key(|it| (it.start, it.size == 0, it.is_local, it.name));
        functions.dedup_by_key(|it| it.start);
        functions.shrink_to_fit();
        Ok(Self {
            segments,
            functions,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.functions.len()
    }

    /// The name, as the file has it, of the function at an offset into the file.
    pub(super) fn find(&self, bytes: &dyn Bytes, offset: u64) -> Option<Vec<u8>> {
        let inside = |segment: &&Segment| {
            offset
                .checked_sub(segment.offset)
                .is_some_and(|within| within < segment.size)
        };
        let segment = self.segments.iter().find(inside)?;
        let address = segment.address.wrapping_add(offset - segment.offset);
        let function = self.at(address)?;
        let room = usize::try_from(function.room).unwrap_or(SYMBOL_MOST);
        let mut name = vec![0; room.min(SYMBOL_MOST)];
        bytes.read(&mut name, function.name).ok()?;
        let end = name.iter().position(|byte| *byte == 0);
        name.truncate(end.unwrap_or(name.len()));
        (!name.is_empty()).then_some(name)
    }

    fn at(&self, address: u64) -> Option<&Function> {
        let behind = self.functions.partition_point(|it| it.start <= address);
        let before = self.functions.get(..behind)?;
        let holds = |it: &&Function| address - it.start < it.size;
        let found = before.iter().rev().take(NESTED_MOST).find(holds);
        // One without a size reaches to the next.
        found.or_else(|| before.last().filter(|it| it.size == 0))
    }
}

#[cfg(test)]
pub(super) mod test;
