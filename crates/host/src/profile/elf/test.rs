//! Small ELF files of every form, whole and hostile.

use proptest::prelude::*;

use super::*;

/// Where code begins in the made-up files, and at which address.
const CODE: u64 = 0x1000;
const ADDRESS: u64 = 0x40_0000;

const NARROW_BIG: Form = Form {
    is_little: false,
    is_wide: false,
};
const WIDE: Form = Form {
    is_little: true,
    is_wide: true,
};

struct Writer {
    form: Form,
    bytes: Vec<u8>,
}

impl Writer {
    fn number(&mut self, value: u64, size: usize) -> &mut Self {
        let little = value.to_le_bytes();
        let part = &little[..size];
        if self.form.is_little {
            self.bytes.extend(part);
        } else {
            self.bytes.extend(part.iter().rev());
        }
        self
    }

    /// A number as wide as addresses are.
    fn address(&mut self, value: u64) -> &mut Self {
        let size = if self.form.is_wide { 8 } else { 4 };
        self.number(value, size)
    }

    fn section(&mut self, kind: u64, offset: u64, size: u64, link: u64, entry: u64) {
        self.number(0, 4).number(kind, 4).address(0).address(0);
        self.address(offset).address(size).number(link, 4);
        self.number(0, 4).address(0).address(entry);
    }
}

/// A function: name, start, size, whether it is local.
type Made = (&'static str, u64, u64, bool);

/// A file with these functions: header, code segment, three sections, symbols, strings.
pub(in super::super) fn file(wide: bool, little: bool, functions: &[Made]) -> Vec<u8> {
    let form = Form {
        is_little: little,
        is_wide: wide,
    };
    let (header, segment, section, symbol) = if wide {
        (64, 56, 64, 24)
    } else {
        (52, 32, 40, 16)
    };
    let sections_at = header + segment;
    let symbols_at = sections_at + 3 * section;
    let symbols_size = (functions.len() as u64) * symbol;
    let mut strings = vec![0];
    let mut bytes = b"\x7fELF".to_vec();
    bytes.extend([1 + u8::from(wide), 2 - u8::from(little), 1]);
    bytes.resize(16, 0);
    let mut to = Writer { form, bytes };
    to.number(3, 2).number(62, 2).number(1, 4).address(0);
    to.address(header).address(sections_at).number(0, 4);
    to.number(header, 2).number(segment, 2).number(1, 2);
    to.number(section, 2).number(3, 2).number(0, 2);
    to.number(PT_LOAD, 4);
    if wide {
        to.number(5, 4);
    }
    to.address(CODE).address(ADDRESS).address(ADDRESS);
    to.address(0x1000).address(0x1000);
    if !wide {
        to.number(5, 4);
    }
    to.address(0);
    let mut symbols = Writer {
        form,
        bytes: Vec::new(),
    };
    for (name, start, size, is_local) in functions {
        let info = u64::from(STT_FUNC) | (u64::from(!is_local) << 4);
        symbols.number(strings.len() as u64, 4);
        if wide {
            symbols.number(info, 1).number(0, 1).number(1, 2);
            symbols.address(*start).address(*size);
        } else {
            symbols.address(*start).address(*size);
            symbols.number(info, 1).number(0, 1).number(1, 2);
        }
        strings.extend(name.bytes().chain([0]));
    }
    let strings_at = symbols_at + symbols_size;
    to.section(0, 0, 0, 0, 0);
    to.section(SHT_SYMTAB, symbols_at, symbols_size, 2, symbol);
    to.section(SHT_STRTAB, strings_at, strings.len() as u64, 0, 0);
    to.bytes.extend(symbols.bytes);
    to.bytes.extend(strings);
    to.bytes
}

fn name(bytes: &Vec<u8>, within: u64) -> Option<String> {
    let functions = Functions::read(bytes).unwrap();
    let name = functions.find(bytes, CODE + within)?;
    Some(String::from_utf8(name).unwrap())
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
    for (wide, little) in [(true, true), (true, false), (false, true), (false, false)] {
        let file = file(wide, little, &FUNCTIONS);
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
                "{within:#x}, wide {wide}, little {little}"
            );
        }
    }
}

#[test]
fn other_files_have_no_functions() {
    let whole = file(true, true, &FUNCTIONS);
    let read = |bytes: &[u8]| Functions::read(&bytes.to_vec()).map(|it| it.count());
    assert_eq!(read(&[]), Err(ElfError::NotElf));
    assert_eq!(read(b"\x7fELF"), Err(ElfError::NotElf));
    assert_eq!(read(&[0; 4096]), Err(ElfError::NotElf));
    let mut strange = whole.clone();
    strange[4] = 3;
    assert_eq!(read(&strange), Err(ElfError::Malformed));
    // Stripped: no sections at all.
    let mut stripped = whole;
    stripped[40..48].fill(0);
    assert_eq!(read(&stripped), Ok(0));
}

/// Sets a number of a file of 64 bits.
fn with(at: usize, size: usize, value: u64) -> Vec<u8> {
    let mut bytes = file(true, true, &FUNCTIONS);
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    bytes
}

/// Every size and place that a header names, made absurd: an error, at once.
#[test]
fn absurd_headers_are_refused() {
    let sections = 64 + 56;
    let (symbols, strings) = (sections + 64, sections + 128);
    for (at, size, value, expected) in [
        (32, 8, u64::MAX, ElfError::BeyondEnd),
        (32, 8, 1 << 40, ElfError::BeyondEnd),
        (54, 2, 1, ElfError::Malformed),
        (56, 2, 0xffff, ElfError::BeyondEnd),
        (40, 8, u64::MAX, ElfError::BeyondEnd),
        (58, 2, 0, ElfError::Malformed),
        (60, 2, 0xffff, ElfError::BeyondEnd),
        (symbols + 24, 8, u64::MAX, ElfError::BeyondEnd),
        (symbols + 32, 8, u64::MAX, ElfError::BeyondEnd),
        (symbols + 32, 8, 100 << 30, ElfError::BeyondEnd),
        (symbols + 40, 4, 3, ElfError::Malformed),
        (symbols + 40, 4, 1, ElfError::Malformed),
        (symbols + 56, 8, 0, ElfError::Malformed),
        (symbols + 56, 8, 1, ElfError::Malformed),
        (strings + 24, 8, u64::MAX, ElfError::BeyondEnd),
        (strings + 32, 8, 100 << 30, ElfError::BeyondEnd),
    ] {
        let read = Functions::read(&with(at, size, value));
        assert_eq!(read.err(), Some(expected), "{value:#x} at {at}");
    }
    // More sections than the field holds, by the size of the first.
    let mut many = with(60, 2, 0);
    many[sections + 32..sections + 40].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    assert_eq!(Functions::read(&many).err(), Some(ElfError::TooLarge));
}

/// A table of 100 GB that takes no room on the disk, and one of 4.8 GB.
#[test]
fn a_table_larger_than_memory_is_not_read() {
    for size in [100_u64 << 30, 4_800_000_000, TABLE_MOST + 24] {
        let symbols = 64 + 56 + 64;
        let mut bytes = with(symbols + 24, 8, 1 << 20);
        bytes[symbols + 32..symbols + 40].copy_from_slice(&size.to_le_bytes());
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let whole = (1 << 20) + size;
        // Where a file system has no such files, the table ends beyond the file.
        let refused = match file.set_len(whole) {
            Ok(()) => ElfError::TooLarge,
            Err(_) => ElfError::BeyondEnd,
        };
        let whole = file.metadata().unwrap().len();
        let opened = Opened { file, size: whole };
        assert_eq!(Functions::read(&opened).err(), Some(refused));
    }
}

#[test]
fn a_file_that_is_cut_after_it_was_opened_is_an_error() {
    let bytes = file(true, true, &FUNCTIONS);
    let whole = tempfile::tempfile().unwrap();
    whole.write_all_at(&bytes, 0).unwrap();
    let opened = Opened {
        file: whole.try_clone().unwrap(),
        size: bytes.len() as u64,
    };
    let functions = Functions::read(&opened).unwrap();
    assert!(functions.find(&opened, CODE + 0x10).is_some());
    for length in (0..bytes.len() as u64).rev().step_by(7) {
        whole.set_len(length).unwrap();
        let _names_or_none = functions.find(&opened, CODE + 0x10);
        let names: usize = FUNCTIONS.iter().map(|it| it.0.len() + 1).sum();
        let strings = (bytes.len() - names - 1) as u64;
        let read = Functions::read(&opened);
        assert!(
            length >= strings || read.err() == Some(ElfError::Failed),
            "{length}"
        );
    }
}

proptest! {
    /// Whatever is written into a file, reading it ends without a panic and a name is no longer than it may be.
    #[test]
    fn no_bytes_make_it_panic(
        wide in any::<bool>(),
        little in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        at in any::<u64>(),
    ) {
        let mut bytes = file(wide, little, &FUNCTIONS);
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Ok(functions) = Functions::read(&bytes) {
            for offset in [CODE + at % 0x100, at] {
                let name = functions.find(&bytes, offset).unwrap_or_default();
                prop_assert!(name.len() <= SYMBOL_MOST);
            }
        }
    }

    #[test]
    fn numbers_are_read_in_either_order(value in any::<u32>()) {
        let big = value.to_be_bytes();
        let little = value.to_le_bytes();
        prop_assert_eq!(NARROW_BIG.number(&big, 0, 4), u64::from(value));
        prop_assert_eq!(WIDE.number(&little, 0, 4), u64::from(value));
        prop_assert_eq!(WIDE.number(&little, 1, 4), 0);
    }
}
