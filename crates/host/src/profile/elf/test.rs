//! Small ELF files of every form, whole and hostile.

use std::io::Cursor;

use object::elf::{ProgramFlags, STB_GLOBAL, SymbolInfo, SymbolOther};
use object::write::elf::{FileHeader, ProgramHeader, Sym, Writer};

use super::*;

/// Where code begins in the made-up files, and at which address.
const CODE: u64 = 0x1000;
const ADDRESS: u64 = 0x40_0000;

/// A function: name, start, size, whether it is local.
type Made = (&'static str, u64, u64, bool);

/// A file with these functions: header, code segment, four sections, symbols, strings, names of sections.
pub(in super::super) fn file(wide: bool, endian: Endianness, functions: &[Made]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut to = Writer::new(endian, wide, &mut bytes);
    to.reserve_file_header();
    to.reserve_program_headers(1);
    to.reserve_symtab_section_index();
    to.reserve_strtab_section_index();
    to.reserve_shstrtab_section_index();
    to.reserve_section_headers();
    let mut names = Vec::new();
    for (name, ..) in functions {
        names.push(to.add_string(name.as_bytes()));
        to.reserve_symbol_index(None);
    }
    to.reserve_symtab();
    to.reserve_strtab().unwrap();
    to.reserve_shstrtab().unwrap();
    to.write_file_header(&FileHeader::default()).unwrap();
    to.write_align_program_headers();
    to.write_program_header(&ProgramHeader {
        p_type: PT_LOAD,
        p_flags: ProgramFlags::default(),
        p_offset: CODE,
        p_vaddr: ADDRESS,
        p_paddr: ADDRESS,
        p_filesz: 0x1000,
        p_memsz: 0x1000,
        p_align: 0,
    });
    to.write_null_section_header();
    to.write_symtab_section_header(1);
    to.write_strtab_section_header();
    to.write_shstrtab_section_header();
    to.write_null_symbol();
    for (name, (_, start, size, is_local)) in names.into_iter().zip(functions) {
        let bind = if *is_local { STB_LOCAL } else { STB_GLOBAL };
        to.write_symbol(&Sym {
            section: Some(1),
            st_name: to.string_offset(Some(name)),
            st_info: SymbolInfo::new(bind, STT_FUNC),
            st_other: SymbolOther::default(),
            st_shndx: SHN_UNDEF,
            st_value: *start,
            st_size: *size,
        });
    }
    to.write_strtab();
    to.write_shstrtab();
    bytes
}

fn name(bytes: &[u8], within: u64) -> Option<String> {
    let file = Cursor::new(bytes);
    let functions = Functions::read(&file).unwrap();
    let name = functions.find(&file, CODE + within)?;
    Some(String::from_utf8(name).unwrap())
}

fn read(bytes: &[u8]) -> Result<usize, Refusal> {
    Functions::read(&Cursor::new(bytes)).map(|it| it.count())
}

const FUNCTIONS: [Made; 5] = [
    ("outer", ADDRESS + 0x10, 0x40, false),
    ("inner", ADDRESS + 0x20, 0x8, true),
    ("inner_of_others", ADDRESS + 0x20, 0x8, false),
    ("assembly", ADDRESS + 0x80, 0, false),
    ("last", ADDRESS + 0x90, 0x10, false),
];

#[test]
fn functions_are_found_in_files_of_every_form() {
    for (wide, endian) in [
        (true, Endianness::Little),
        (true, Endianness::Big),
        (false, Endianness::Little),
        (false, Endianness::Big),
    ] {
        let file = file(wide, endian, &FUNCTIONS);
        for (within, expected) in [
            (0x0f, None),
            (0x10, Some("outer")),
            (0x1f, Some("outer")),
            (0x20, Some("inner_of_others")),
            (0x27, Some("inner_of_others")),
            (0x28, Some("outer")),
            (0x4f, Some("outer")),
            (0x50, None),
            (0x80, Some("assembly")),
            (0x8f, Some("assembly")),
            (0x90, Some("last")),
            (0x9f, Some("last")),
            (0xa0, None),
            (0x1000, None),
        ] {
            let found = name(&file, within);
            assert_eq!(
                found.as_deref(),
                expected,
                "{within:#x}, wide {wide}, {endian:?}"
            );
        }
    }
}

#[test]
fn other_files_have_no_functions() {
    let whole = file(true, Endianness::Little, &FUNCTIONS);
    assert_eq!(read(&[]), Ok(0));
    assert_eq!(read(b"\x7fELF"), Ok(0));
    assert_eq!(read(&[0; 4096]), Ok(0));
    let mut strange = whole.clone();
    strange[4] = 3;
    assert_eq!(read(&strange), Err(Refusal::Malformed));
    // Stripped: no sections at all.
    let mut stripped = whole;
    stripped[40..48].fill(0);
    assert_eq!(read(&stripped), Ok(0));
}

/// Sets a number of a file of 64 bits.
fn with(at: usize, size: usize, value: u64) -> Vec<u8> {
    let mut bytes = file(true, Endianness::Little, &FUNCTIONS);
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    bytes
}

/// Sizes and places that a header names, made absurd: an error, at once.
#[test]
fn absurd_headers_are_refused() {
    let sections = 64 + 56;
    let (symbols, strings) = (sections + 64, sections + 128);
    for (at, size, value) in [
        (32, 8, u64::MAX),
        (54, 2, 1),
        (56, 2, 0xfffe),
        (40, 8, u64::MAX),
        (58, 2, 0),
        (60, 2, 0xffff),
        (symbols + 24, 8, u64::MAX),
        (symbols + 32, 8, 1 << 20),
        (symbols + 40, 4, 4),
        (symbols + 40, 4, 1),
        (strings + 24, 8, u64::MAX),
    ] {
        let read = read(&with(at, size, value));
        assert_eq!(read, Err(Refusal::Malformed), "{value:#x} at {at}");
    }
    let large = with(symbols + 32, 8, TABLE_MOST + 24);
    assert_eq!(read(&large), Err(Refusal::TooLarge));
}

/// Bytes of a file that was cut after its size was asked for.
#[derive(Clone)]
struct Cut<'a> {
    bytes: Cursor<&'a [u8]>,
    size: u64,
}

impl Read for Cut<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.bytes.read(into)
    }
}

impl Seek for Cut<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        match to {
            SeekFrom::End(0) => Ok(self.size),
            to => self.bytes.seek(to),
        }
    }
}

#[test]
fn a_file_that_is_cut_after_it_was_opened_is_an_error() {
    let bytes = file(true, Endianness::Little, &FUNCTIONS);
    let functions = Functions::read(&Cursor::new(&bytes)).unwrap();
    let symbols_end = 64 + 56 + 4 * 64 + (FUNCTIONS.len() + 1) * 24;
    for length in (0..bytes.len()).step_by(7) {
        let cut = Cut {
            bytes: Cursor::new(&bytes[..length]),
            size: bytes.len() as u64,
        };
        let _names_or_none = functions.find(&cut, CODE + 0x10);
        let refusal = Functions::read(&cut).err();
        let expected = (length < symbols_end).then_some(Refusal::Malformed);
        assert_eq!(refusal, expected, "{length}");
    }
}
