//! The process that names functions of VMMs, as a program: what it may do, and what files of other owners do to it.
//!
//! It needs no KVM and no root. Files stand for those that a VM's owner has mapped; it finds them by their names.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../agree/tries.rs"]
mod tries;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use haltwise_core::workload::SplitMix64;
use serde_json::{Value, json};
use tries::{judge, tries};

/// The child, asked as the recorder asks it, and its answers.
struct Reader(Child, BufReader<ChildStdout>);

impl Reader {
    fn start() -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_haltwise"))
            .args(["--name-functions", "/"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self(child, answers)
    }

    /// Answer to a request for the function at an offset of a file.
    fn ask(&mut self, path: &Path, offset: u64) -> Value {
        let stat = fs::metadata(path).unwrap();
        let device = stat.dev();
        let ask = json!({
            "pid": u32::MAX,
            "offset": offset,
            "mapping": {
                "start": 0x1000,
                "end": 0x2000,
                "offset": 0,
                "device": [rustix::fs::major(device), rustix::fs::minor(device)],
                "inode": stat.ino(),
                "path": path,
            },
        });
        writeln!(self.0.stdin.as_mut().unwrap(), "{ask}").unwrap();
        let mut answer = String::new();
        self.1.read_line(&mut answer).unwrap();
        let known: Value = serde_json::from_str(&answer).unwrap_or_default();
        let forms = ["Name", "Refused"].map(|form| known[form].is_string());
        let is_known = forms.contains(&true) || known == "Nameless";
        assert!(is_known, "{} {offset:#x}: {answer:?}", path.display());
        known
    }

    fn status(&self, field: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.unwrap().trim_start_matches(':').trim().to_owned()
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

/// A library that any program here has, with names that no `strip` takes away.
fn library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.split_once('/'));
    let mut paths = paths.map(|(_, path)| PathBuf::from(format!("/{path}")));
    paths
        .find(|path| path.to_string_lossy().contains("/libc.so"))
        .unwrap()
}

fn offsets(path: &Path) -> impl Iterator<Item = u64> {
    let size = fs::metadata(path).unwrap().len();
    (0..size).step_by(usize::try_from(size / 400).unwrap() + 1)
}

#[test]
fn it_names_functions_and_has_no_rights_but_to_read() {
    let mut reader = Reader::start();
    let program = &library();
    let names: Vec<String> = offsets(program)
        .filter_map(|offset| Some(reader.ask(program, offset)["Name"].as_str()?.to_owned()))
        .collect();
    assert!(names.len() > 20, "{names:?}");
    assert_eq!(reader.status("NoNewPrivs"), "1");
    assert_eq!(reader.status("Seccomp"), "2");
    assert_eq!(reader.status("Threads"), "1");
    // SYS_PTRACE, DAC_READ_SEARCH, CHECKPOINT_RESTORE (or SYS_ADMIN, of which that was a part).
    let allowed = 1_u64 << 19 | 1 << 2 | 1 << 40 | 1 << 21;
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        let held = u64::from_str_radix(&reader.status(set), 16).unwrap();
        assert_eq!(held & !allowed, 0, "{set}: {held:x}");
        assert!(held.count_ones() <= 3, "{set}: {held:x}");
    }
    let limits = fs::read_to_string(format!("/proc/{}/limits", reader.0.id())).unwrap();
    for limit in [
        "Max core file size        0 ",
        "Max file size             0 ",
        "Max cpu time              60 ",
        "Max address space         1073741824 ",
    ] {
        assert!(limits.contains(limit), "{limit}\n{limits}");
    }
    reader.end();
}

/// A program whose table of symbols ends far beyond it, at 100 GB that take no room on the disk, or anywhere.
/// A reader that mapped it, or made room for it, would die.
#[test]
fn tables_larger_than_memory_cost_names_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("library");
    let program = &library();
    let mut reader = Reader::start();
    for size in [4_800_000_000, 100 << 30, 1 << 40] {
        fs::copy(program, &path).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let begin = file.metadata().unwrap().len();
        for section in tables(&file) {
            file.write_all_at(&begin.to_le_bytes(), section + 24)
                .unwrap();
            file.write_all_at(&(size / 24 * 24_u64).to_le_bytes(), section + 32)
                .unwrap();
        }
        // Where a file system has no such files, the table ends beyond the file.
        drop(file.set_len(begin + size));
        let answer = reader.ask(&path, 0x1000);
        assert!(answer["Refused"].is_string(), "{answer}");
        fs::remove_file(&path).unwrap();
    }
    let held = reader.status("VmHWM");
    let held: u64 = held.trim_end_matches(" kB").parse().unwrap();
    assert!(held < 512 << 10, "{held} kB");
    // It is there still.
    let named = |offset| reader.ask(program, offset)["Name"].is_string();
    assert!(offsets(program).any(named));
    reader.end();
}

/// Where the headers of the tables of symbols lie in a file of 64 bits.
fn tables(file: &File) -> Vec<u64> {
    let number = |at: u64, size: usize| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes[..size], at).unwrap();
        u64::from_ne_bytes(bytes)
    };
    let (first, count) = (number(40, 8), number(60, 2));
    let sections = (0..count).map(|nth| first + 64 * nth);
    let tables: Vec<u64> = sections
        .filter(|at| matches!(number(at + 4, 4), 2 | 11))
        .collect();
    assert!(!tables.is_empty());
    tables
}

/// A file that becomes shorter, longer and other while it is read: never a signal, and the next is read.
#[test]
fn a_file_that_changes_while_it_is_read_does_not_end_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = &library();
    let whole = fs::read(program).unwrap();
    let mut reader = Reader::start();
    for nth in 0..12_usize {
        let path = folder.path().join(nth.to_string());
        fs::write(&path, &whole).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let cut = whole.len() / 13 * (nth + 1);
        let changes = std::thread::spawn(move || {
            file.set_len(cut as u64).unwrap();
            file.set_len(1 << 36).unwrap();
            file.set_len(0).unwrap();
        });
        for offset in [0x1000, 0x10_0000, cut as u64] {
            reader.ask(&path, offset);
        }
        changes.join().unwrap();
        fs::remove_file(&path).unwrap();
    }
    reader.end();
}

/// Whatever stands in the headers of a file and of its sections, and however long it says that it is.
#[test]
fn files_with_false_headers_cost_names_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("library");
    let program = &library();
    let tries = tries(40);
    let (mut failures, mut reader) = (Vec::new(), Reader::start());
    for seed in 0..tries {
        fs::copy(program, &path).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        falsify(&file, &mut SplitMix64(seed));
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for offset in [0x1000, 0x10_0000, u64::MAX] {
                reader.ask(&path, offset);
            }
            let held = reader.status("VmHWM");
            let held: u64 = held.trim_end_matches(" kB").parse().unwrap();
            assert!(held < 640 << 10, "{held} kB");
        }));
        if asked.is_err() {
            failures.push(format!("seed {seed}"));
            reader = Reader::start();
        }
        // Some have become larger than what is left of the disk is thought to be: they take no room.
        fs::remove_file(&path).unwrap();
    }
    drop(reader);
    judge("files with false headers", tries, &failures);
}

/// Changes numbers of the file's header, of sections and of symbols, and now and then the file's length.
fn falsify(file: &File, random: &mut SplitMix64) {
    let tables = tables(file);
    let length = file.metadata().unwrap().len();
    let first = tables.iter().min().unwrap() / 64 * 64;
    for _ in 0..=random.below(6) {
        let at = match random.below(4) {
            0 => 16 + random.below(48),
            1 => first + random.below(length.saturating_sub(first).max(1)),
            2 => random.below(length),
            _ => {
                let table = tables[usize::try_from(random.below(tables.len() as u64)).unwrap()];
                table + 4 * random.below(16)
            }
        };
        let value = match random.below(4) {
            0 => random.below(u64::MAX),
            1 => u64::MAX,
            2 => 100 << 30,
            _ => random.below(length),
        };
        let size = 1 << random.below(4);
        file.write_all_at(&value.to_le_bytes()[..size], at).unwrap();
    }
    match random.below(4) {
        0 => file.set_len(random.below(length)).unwrap(),
        // Where a file system has no such files, it stays as long as it is.
        1 => drop(file.set_len(length + (100 << 30))),
        _ => {}
    }
}

/// The other helper: times BPF programs when it is told to, without dying of its list of system calls.
#[test]
fn the_timer_ends_with_whoever_asks_it() {
    let mut timer = Command::new(env!("CARGO_BIN_EXE_haltwise"))
        .args(["--time-programs", "/"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut asks = timer.stdin.take().unwrap();
    asks.write_all(&[1, 1, 0, 0, 1, 0, 1]).unwrap();
    drop(asks);
    assert!(timer.wait().unwrap().success());
}

/// It does not answer input outside its protocol, and ends.
#[test]
fn nonsense_ends_it() {
    for said in [&b"\xff\n"[..], b"{"] {
        let mut reader = Reader::start();
        let mut asks = reader.0.stdin.take().unwrap();
        asks.write_all(said).unwrap();
        // The second ends in the middle of an ask.
        drop(asks);
        assert!(!reader.0.wait().unwrap().success());
    }
}
