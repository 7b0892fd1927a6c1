//! No command reads a table more than twice.
//!
//! The kernel counts: it says (inotify) each time that a file of a capture is opened. A capture is opened once, and
//! looks at each of its tables from outside; what is opened beyond that is read.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::Command;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::{exits, profile, scenarios, write};

/// One look from outside, and two passes.
const MOST: u32 = 3;

/// The table that says by its lock whether a recorder still writes it.
const LOCKED: &str = "halts.arrows";

/// How often each file of `watched` was opened by a command.
fn opened(home: &Path, watched: &str, arguments: &[&str]) -> BTreeMap<String, u32> {
    let events = inotify::init(CreateFlags::NONBLOCK).unwrap();
    // With its closing between, no opening is taken for the one before.
    let flags = WatchFlags::OPEN | WatchFlags::CLOSE;
    inotify::add_watch(&events, home.join(watched), flags).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_haltwise"))
        .args(arguments)
        .current_dir(home)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code().is_some_and(|code| code <= 5),
        "{arguments:?}: {said}"
    );
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&events, &mut buffer);
    let mut opened = BTreeMap::new();
    loop {
        match reader.next() {
            Ok(event) if event.events().contains(ReadFlags::OPEN) => {
                if let Some(name) = event.file_name() {
                    let name = name.to_string_lossy().into_owned();
                    *opened.entry(name).or_default() += 1;
                }
            }
            Ok(event) => assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW)),
            Err(Errno::AGAIN) => return opened,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Every command that reads captures; `a` is the one that is watched.
const COMMANDS: [&str; 14] = [
    "report a",
    "report a --html page.html",
    "report a --html page.html --against b",
    "report b --html page.html --against a",
    "report a --findings",
    "tune a",
    "tune a --policy off --policy kvm",
    "verify a",
    "diff a b",
    "diff b a",
    "report a --exits",
    "report a --profile",
    "top a --once",
    "top a --json",
];

fn every_command(home: &Path, kind: &str) {
    for command in COMMANDS {
        let arguments: Vec<&str> = command.split(' ').collect();
        let opened = opened(home, "a", &arguments);
        assert!(opened.contains_key("capture.json"), "{kind}: {command}");
        for (file, times) in opened {
            let more = u32::from(file == LOCKED);
            assert!(
                times <= MOST + more,
                "{command}, of {kind}, opens {file} {times} times"
            );
        }
    }
}

#[test]
fn no_command_reads_a_table_more_than_twice() {
    for name in ["bursty", "cut", "counts", "kvm-stats", "lossy"] {
        let home = tempfile::tempdir().unwrap();
        for place in ["a", "b"] {
            write(scenarios::named(name), &home.path().join(place));
        }
        every_command(home.path(), name);
    }
}

#[test]
fn nor_where_exits_and_samples_were_recorded_too() {
    let home = tempfile::tempdir().unwrap();
    for place in ["a", "b"] {
        exits::write(&home.path().join(place), "vmx");
    }
    every_command(home.path(), "exits");
    for place in ["a", "b"] {
        fs::remove_dir_all(home.path().join(place)).unwrap();
        profile::write(&home.path().join(place), "fleet", true, false);
    }
    every_command(home.path(), "samples");
}

#[test]
fn nor_where_a_table_breaks_off() {
    let home = tempfile::tempdir().unwrap();
    for place in ["a", "b"] {
        write(scenarios::named("bursty"), &home.path().join(place));
    }
    let halts = home.path().join("a/halts.parquet");
    let mut bytes = fs::read(&halts).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xff);
    fs::write(&halts, bytes).unwrap();
    every_command(home.path(), "damage");
}
