//! Entry points for fuzzing: any bytes in, no panic, no contradiction.

use std::io::Cursor;

use super::elf::{Functions, SYMBOL_MOST};
use super::files::{self, NAME_MOST, written_name};
use super::record::{self, Record};
use super::symbols::Kallsyms;

/// Reads bytes as a record of a sample's ring, as the two files of the kernel by which addresses become
/// functions, and as an ELF file; gives how many addresses and functions there were.
///
/// # Panics
/// If what was read contradicts itself.
pub fn sample(bytes: &[u8]) -> u64 {
    let mut read = 0;
    if let [kind, misc, tagged, body @ ..] = bytes {
        let kind = u32::from(*kind);
        let parsed = record::parse(kind, u16::from(*misc), body, tagged & 1 == 1);
        if let Some(Record::Sample(raw)) = parsed {
            assert_eq!(raw.tag.is_some(), tagged & 1 == 1, "{raw:?}");
            assert!(raw.kernel.len() + raw.user.len() <= 1024 + 1, "{raw:?}");
            read += (raw.kernel.len() + raw.user.len()) as u64;
        }
    }
    let text = String::from_utf8_lossy(bytes);
    let mappings = files::parse_maps(&text);
    for mapping in &mappings {
        assert!(mapping.start < mapping.end, "{mapping:?}");
    }
    let kernel = Kallsyms::parse(&text);
    for address in [0, 1, 0xffff_ffff_8100_0000, u64::MAX] {
        let found = kernel.find(address);
        read += u64::from(found.is_some_and(|function| !function.name.is_empty()));
        read += u64::from(files::find_mapping(&mappings, address).is_some());
    }
    read + functions(bytes)
}

/// Reads bytes as a program of another user, and all of them as a symbol.
fn functions(bytes: &[u8]) -> u64 {
    assert!(written_name(bytes).len() <= NAME_MOST);
    let file = Cursor::new(bytes);
    let Ok(functions) = Functions::read(&file) else {
        return 0;
    };
    for offset in 0..bytes.len() as u64 {
        let name = functions.find(&file, offset).unwrap_or_default();
        assert!(name.len() <= SYMBOL_MOST, "{name:?}");
    }
    functions.count() as u64
}
