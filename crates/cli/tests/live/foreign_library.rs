//! A VM whose owner changes a library that it has mapped, while the VM is sampled: it costs names, and no
//! recording.
//!
//! The C library is what a VMM is in whenever it enters its guest, so that its functions are asked for. The VMM
//! gets a copy of its own. What is changed of it is no part of what is loaded: the VMM runs on.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use haltwise_capture::capture::Capture;
use rustix::process::Signal;

use crate::bench::{Bench, Running, haltwise, has_recorded, until};

fn library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.split_once('/'));
    let mut paths = paths.map(|(_, path)| PathBuf::from(format!("/{path}")));
    paths
        .find(|path| path.to_string_lossy().contains("/libc.so"))
        .unwrap()
}

fn number(file: &File, at: u64, size: usize) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes[..size], at).unwrap();
    u64::from_ne_bytes(bytes)
}

/// Where the headers of its sections lie, which the loader never reads.
fn sections(file: &File) -> Vec<u64> {
    let (first, count) = (number(file, 40, 8), number(file, 60, 2));
    (0..count).map(|nth| first + 64 * nth).collect()
}

/// A table of symbols of 100 GB, in a file that is long enough and takes no room.
fn absurd(file: &File) {
    let begin = file.metadata().unwrap().len();
    for section in sections(file) {
        if matches!(number(file, section + 4, 4), 2 | 11) {
            let size = 100_u64 << 30;
            file.write_all_at(&begin.to_le_bytes(), section + 24)
                .unwrap();
            file.write_all_at(&(size / 24 * 24).to_le_bytes(), section + 32)
                .unwrap();
        }
    }
    if file.set_len(begin + (100 << 30)).is_err() {
        println!("this file system has no files of 100 GB: the table ends beyond the file");
    }
}

fn cut(file: &File) {
    let segments = (0..number(file, 56, 2)).map(|nth| number(file, 32, 8) + 56 * nth);
    let ends = segments.map(|at| number(file, at + 8, 8) + number(file, at + 32, 8));
    file.set_len(ends.max().unwrap()).unwrap();
}

fn record_beside(name: &str, change: fn(&File)) {
    let Some(bench) = Bench::set_up() else { return };
    let mine = bench.path("libc.so.6");
    fs::copy(library(), &mine).unwrap();
    let lab = Running::start(
        bench
            .lab()
            .args("run pingpong --duration 600s --gap fixed:100us".split(' '))
            .args(["--host-wait", "block", "--name", name])
            .env("LD_LIBRARY_PATH", bench.dir.path())
            .stdout(Stdio::null()),
    );
    Bench::wait_for(name);
    let maps = fs::read_to_string(format!("/proc/{}/maps", lab.id())).unwrap();
    assert!(maps.contains(mine.to_str().unwrap()), "{maps}");
    change(&File::options().read(true).write(true).open(&mine).unwrap());
    let mut tries = 0;
    let capture = until("a sample", || {
        tries += 1;
        let path = bench.path(&format!("capture-{tries}"));
        let output = Command::new(haltwise())
            .args(["record", "--profile", "997hz", "--vm", name])
            .args(["--duration", "2s", "-o"])
            .arg(&path)
            .output()
            .unwrap();
        has_recorded(&output);
        let capture = Capture::open(&path).unwrap();
        (capture.samples().unwrap().count() > 0).then_some(capture)
    });
    lab.end(Signal::TERM);
    assert!(capture.info().ended.is_some());
    let notes = &capture.info().missing;
    let said = notes
        .iter()
        .any(|note| note.field == "sample_frames.symbol" && note.reason.contains(file_name(&mine)));
    assert!(said, "{notes:?}");
}

fn file_name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn a_table_of_symbols_larger_than_memory_costs_names() {
    record_beside("absurd-library", absurd);
}

#[test]
fn a_library_that_is_cut_costs_names() {
    record_beside("cut-library", cut);
}
