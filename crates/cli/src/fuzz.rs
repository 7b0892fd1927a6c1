//! Entry point for the fuzz target and its smoke run: a capture in, every verb's page out, no panic.

use std::path::Path;
use std::sync::Once;

use clap::Parser as _;
use haltwise_capture::files::output::{self, Readers};
use haltwise_capture::table::Table;

use crate::Cli;
use crate::exit::Exit;
use crate::verb::Verb;

/// Every verb that reads captures, in every form that it prints. `OUT` is for what is written.
const LINES: [&str; 18] = [
    "check DIR --json",
    "report DIR --vcpus",
    "report DIR --json",
    "report DIR --html OUT",
    "report DIR --exits --json",
    "report DIR --exits",
    "report DIR --profile",
    "report DIR --profile --json",
    "report DIR --findings",
    "report DIR --findings --json",
    "tune DIR",
    "tune DIR --json",
    "tune DIR --policy usual --json",
    "verify DIR --json",
    "top DIR --once",
    "top DIR --json",
    "diff DIR DIR --json",
    "--capture DIR",
];

static QUIET: Once = Once::new();

/// The files of a capture, in the order of their numbers in what [`unpack`] takes.
fn names() -> Vec<String> {
    let tables = Table::ALL.into_iter();
    let tables = tables.flat_map(|table| [table.stream_file(), table.parquet_file()]);
    std::iter::once("capture.json".to_owned())
        .chain(tables)
        .collect()
}

/// Files of a capture as one text of bytes: of each its number, its length, what is in it.
pub fn pack(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let names = names();
    let mut packed = Vec::new();
    for (name, bytes) in files {
        let number = names.iter().position(|known| known == name);
        let number = number.and_then(|number| u8::try_from(number).ok());
        if let (Some(number), Ok(length)) = (number, u32::try_from(bytes.len())) {
            packed.push(number);
            packed.extend(length.to_le_bytes());
            packed.extend(bytes);
        }
    }
    packed
}

/// Makes these files in a directory of their own, as far as the bytes say of any.
fn unpack(mut packed: &[u8], capture: &Path) {
    let names = names();
    while let Some((&[number, a, b, c, d], rest)) = packed.split_first_chunk() {
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        let (bytes, rest) = rest.split_at(length.min(rest.len()));
        let name = &names[usize::from(number) % names.len()];
        // A file that cannot be made is missing.
        drop(output::write(&capture.join(name), bytes, Readers::Owner));
        packed = rest;
    }
}

/// Has every verb read a capture of these bytes, made in an empty directory, and gives how many of them could.
pub fn every_verb(packed: &[u8], capture: &Path) -> u64 {
    QUIET.call_once(haltwise_capture::contain::silence_contained_panics);
    unpack(packed, capture);
    let out = capture.join("page.html");
    let could = LINES.iter().filter(|line| {
        let words = line.split(' ').map(|word| match word {
            "DIR" => capture.as_os_str().to_owned(),
            "OUT" => out.as_os_str().to_owned(),
            word => word.into(),
        });
        let cli = Cli::try_parse_from(std::iter::once("haltwise".into()).chain(words));
        let verb = cli.ok().and_then(|cli| cli.verb);
        let outcome = verb.map(Verb::run);
        matches!(outcome, Some(Ok(Exit::Done | Exit::Partial)))
    });
    could.count() as u64
}
