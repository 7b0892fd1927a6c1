//! A VM whose owner cuts a library that it has mapped, while the VM is sampled: it costs names, and no
//! recording.
//!
//! The C library is what a VMM is in whenever it enters its guest, so that its functions are asked for. The VMM
//! gets a copy of its own. What is cut of it is no part of what is loaded: the VMM runs on. What a file with false
//! headers does to the process that reads it is held in `tests/reader`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::Signal;

use crate::bench::{Bench, has_recorded, until};

const LIBRARY: &str = "libc.so.6";

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

fn cut(file: &File) {
    let segments = (0..number(file, 56, 2)).map(|nth| number(file, 32, 8) + 56 * nth);
    let ends = segments.map(|at| number(file, at + 8, 8) + number(file, at + 32, 8));
    file.set_len(ends.max().unwrap()).unwrap();
}

#[test]
fn a_library_that_is_cut_costs_names() {
    let Some(bench) = Bench::set_up() else { return };
    let name = "cut-library";
    let mine = bench.path(LIBRARY);
    fs::copy(library(), &mine).unwrap();
    let lab = Bench::vm(
        name,
        bench
            .lab()
            .args("run pingpong --duration 600s --gap fixed:100us".split(' '))
            .args(["--host-wait", "block", "--name", name])
            .env("LD_LIBRARY_PATH", bench.dir.path())
            .stdout(Stdio::null()),
    );
    let maps = fs::read_to_string(format!("/proc/{}/maps", lab.id())).unwrap();
    assert!(maps.contains(mine.to_str().unwrap()), "{maps}");
    cut(&File::options().read(true).write(true).open(&mine).unwrap());
    let mut tries = 0;
    let capture = until("a sample", || {
        tries += 1;
        let out = format!("capture-{tries}");
        let line = format!("record --profile 997hz --vm {name} --duration 2s -o {out}");
        has_recorded(&bench.ran(&line));
        let capture = bench.capture(&out);
        (capture.samples().unwrap().count() > 0).then_some(capture)
    });
    lab.end(Signal::TERM);
    assert!(capture.info().ended.is_some());
    let notes = &capture.info().missing;
    let mut names = notes.iter().filter(|it| it.field == "sample_frames.symbol");
    let is_said = names.any(|note| note.reason.contains(LIBRARY));
    assert!(is_said, "{notes:?}");
}
