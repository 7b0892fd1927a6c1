//! Functions of an ELF file that another user may write: read in bounded parts, never mapped.
//!
//! `object` knows the format, and reads through [`ReadCache`]: no part beyond the end of the file. The limits of the
//! process that reads bound the memory of a part. A file that becomes shorter meanwhile gives an error, no signal. Names
//! are read when they are asked for, so that a table of strings takes no memory.

use std::io::{Read, Seek, SeekFrom};

use object::Endianness;
use object::elf::{
    FileHeader32, FileHeader64, PT_LOAD, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STB_LOCAL, STT_FUNC,
    STT_GNU_IFUNC,
};
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _, Sym};
use object::read::{ReadCache, ReadRef as _};

use super::files::Refusal;

/// A table of symbols is read up to here; QEMU with all of its symbols has some 3 MiB.
const TABLE_MOST: u64 = 96 << 20;

const FUNCTIONS_MOST: usize = 4 << 20;

/// A symbol's name is read up to here.
pub(super) const SYMBOL_MOST: usize = 4096;

/// Functions before an address that are looked at: one may lie within another.
const NESTED_MOST: usize = 16;

/// A file, or bytes that were one: each clone reads from where it seeks.
pub(super) trait Source: Read + Seek + Clone {}

impl<T: Read + Seek + Clone> Source for T {}

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

fn functions<Elf: FileHeader<Endian = Endianness>>(
    source: &impl Source,
) -> Result<Functions, Refusal> {
    let parts = ReadCache::new(source.clone());
    let header = Elf::parse(&parts).map_err(malformed)?;
    let endian = header.endian().map_err(malformed)?;
    let segments = header.program_headers(endian, &parts).map_err(malformed)?;
    let loaded = segments.iter().filter(|it| it.p_type(endian) == PT_LOAD);
    let segments = loaded.map(|segment| Segment {
        offset: segment.p_offset(endian).into(),
        size: segment.p_filesz(endian).into(),
        address: segment.p_vaddr(endian).into(),
    });
    let sections = header.sections(endian, &parts).map_err(malformed)?;
    let mut functions = Vec::new();
    for kind in [SHT_SYMTAB, SHT_DYNSYM] {
        let mut of_kind = sections.iter().filter(|it| it.sh_type(endian) == kind);
        if of_kind.any(|table| table.sh_size(endian).into() > TABLE_MOST) {
            return Err(Refusal::TooLarge);
        }
        // Parts of its own, so that no more than one table is in memory.
        let parts = ReadCache::new(source.clone());
        let table = sections.symbols(endian, &parts, kind).map_err(malformed)?;
        if table.is_empty() {
            continue;
        }
        let strings = sections.section(table.string_section());
        let strings = strings.map_err(malformed)?;
        let strings = (
            strings.sh_offset(endian).into(),
            strings.sh_size(endian).into(),
        );
        functions.extend(table.iter().filter_map(|it| function(endian, it, strings)));
        if functions.len() > FUNCTIONS_MOST {
            return Err(Refusal::TooLarge);
        }
    }
    // If one address has several names, a name with a size takes precedence, then a global name.
    functions.sort_by_key(|it| (it.start, it.size == 0, it.is_local, it.name));
    functions.dedup_by_key(|it| it.start);
    functions.shrink_to_fit();
    Ok(Functions {
        segments: segments.collect(),
        functions,
    })
}

fn malformed<E>(_: E) -> Refusal {
    Refusal::Malformed
}

/// A symbol as a function, if it is one. Of its table of strings, where it begins and how long it is.
fn function<S: Sym<Endian = Endianness>>(
    endian: Endianness,
    symbol: &S,
    (strings, size): (u64, u64),
) -> Option<Function> {
    let name = u64::from(symbol.st_name(endian));
    let start: u64 = symbol.st_value(endian).into();
    let is_function = matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC);
    let is_undefined = symbol.st_shndx(endian) == SHN_UNDEF;
    if !is_function || is_undefined || start == 0 || name == 0 || name >= size {
        return None;
    }
    Some(Function {
        start,
        size: symbol.st_size(endian).into(),
        name: strings + name,
        room: u32::try_from(size - name).unwrap_or(u32::MAX),
        is_local: symbol.st_bind() == STB_LOCAL,
    })
}

impl Functions {
    /// Reads which functions lie where: none in a file that is no ELF file, as of code that a VMM made itself.
    pub(super) fn read(source: &impl Source) -> Result<Self, Refusal> {
        let parts = ReadCache::new(source.clone());
        let length = (&parts).len().map_err(malformed)?;
        let head = (&parts)
            .read_bytes_at(0, length.min(5))
            .map_err(malformed)?;
        match head {
            [0x7f, b'E', b'L', b'F', 1] => functions::<FileHeader32<Endianness>>(source),
            [0x7f, b'E', b'L', b'F', 2] => functions::<FileHeader64<Endianness>>(source),
            [0x7f, b'E', b'L', b'F', _] => Err(Refusal::Malformed),
            _ => Ok(Self::default()),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.functions.len()
    }

    /// The name, as the file has it, of the function at an offset into the file.
    pub(super) fn find(&self, source: &impl Source, offset: u64) -> Option<Vec<u8>> {
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
        let mut source = source.clone();
        source.seek(SeekFrom::Start(function.name)).ok()?;
        source.read_exact(&mut name).ok()?;
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
