//! Law: a bit that flips anywhere in a capture is reported, or changes nothing that is read from it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use haltwise_capture::capture::Capture;
use haltwise_capture::check::{TableCheckup, Verdict, check};
use haltwise_capture::contain::silence_contained_panics;
use haltwise_capture::error::CaptureReadError;
use haltwise_capture::info::CaptureInfo;
use haltwise_capture::note::Note;
use haltwise_capture::recording::{Ending, Recording};
use haltwise_capture::repair::repair;
use haltwise_core::event::{Facts, Vcpu, Vm};
use haltwise_core::workload::SplitMix64;
use tempfile::TempDir;

use crate::common::{all, ending, facts_of, of_halts, read_all};

/// How many bits of each capture flip, one at a time; `HALTWISE_FLIPS=N` so many.
fn flips() -> u32 {
    std::env::var("HALTWISE_FLIPS").map_or(100, |text| text.parse().unwrap())
}

/// All that is read from a capture.
#[derive(Debug, PartialEq)]
struct Read {
    info: CaptureInfo,
    notes: Vec<Note>,
    facts: Facts,
    vms: Vec<Vm>,
    vcpus: Vec<Vcpu>,
}

fn read(dir: &Path) -> Result<Read, CaptureReadError> {
    let capture = Capture::open(dir)?;
    Ok(Read {
        info: capture.info().clone(),
        facts: facts_of(&capture)?,
        vms: all(capture.vms())?,
        vcpus: all(capture.vcpus())?,
        // Some come with reading.
        notes: capture.notes(),
    })
}

/// A golden capture, recorded once more.
fn recorded(golden: &str, is_ended: bool) -> TempDir {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/captures");
    let golden = Capture::open(&captures.join(golden)).unwrap();
    let facts = read_all(&golden);
    let mut info = golden.info().clone();
    info.tables.clear();
    info.ended = None;
    info.lost.clear();
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::create(dir.path(), info).unwrap();
    for halts in facts.halts.chunks(200) {
        recording.append(&of_halts(halts.to_vec())).unwrap();
    }
    let halts = Vec::new();
    recording.append(&Facts { halts, ..facts }).unwrap();
    if let Some(ended) = golden.info().ended.clone().filter(|_| is_ended) {
        let ending = ending();
        recording.finish(Ending { ended, ..ending }).unwrap();
    }
    dir
}

/// The files of a capture with their lengths, but for the room that is kept, which no reader opens.
fn files(dir: &Path) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let paths = entries.map(|entry| entry.path());
    let paths = paths.filter(|path| path.extension().is_none_or(|name| name != "spare"));
    let mut files: Vec<_> = paths
        .map(|path| (path.clone(), path.metadata().unwrap().len()))
        .collect();
    files.sort();
    files
}

fn flip(dir: &Path, seed: u64) {
    silence_contained_panics();
    let before = read(dir).unwrap();
    let files = files(dir);
    let bits = 8 * files.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let (mut random, mut reported, flips) = (SplitMix64(seed), 0, flips());
    for n in 0..flips {
        let mut place = random.next_u64() % bits;
        let (path, _) = files
            .iter()
            .find(|(_, bytes)| {
                let is_here = place < 8 * bytes;
                place -= if is_here { 0 } else { 8 * bytes };
                is_here
            })
            .unwrap();
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, place / 8).unwrap();
        let flipped = byte[0] ^ 1 << (place % 8);
        file.write_all_at(&[flipped], place / 8).unwrap();
        let is_reported = match read(dir) {
            Err(_) => true,
            Ok(after) if after.notes != before.notes => true,
            Ok(after) => {
                assert_eq!(after, before, "bit {place} of {}", path.display());
                false
            }
        };
        reported += u32::from(is_reported);
        if n % 10 == 0 {
            let is_whole = check(dir).is_ok_and(|found| found.is_whole());
            assert!(
                !(is_reported && is_whole),
                "bit {place} of {}",
                path.display()
            );
            // The result of a repair is whole itself, whatever the repair was made of.
            let new = tempfile::tempdir().unwrap();
            if repair(dir, new.path()).is_ok() {
                let found = check(new.path()).unwrap();
                let torn =
                    |it: &TableCheckup| !matches!(it.verdict, Verdict::Whole | Verdict::Missing);
                assert!(
                    !found.tables.iter().any(torn),
                    "bit {place} of {}: {found:?}",
                    path.display()
                );
            }
        }
        file.write_all_at(&byte, place / 8).unwrap();
    }
    assert_eq!(read(dir).unwrap(), before);
    // Hardly any flip is unreported; one that is changes nothing that is read.
    assert!(
        reported >= flips - flips.div_ceil(125),
        "only {reported} of {flips} are reported"
    );
}

#[test]
fn of_finished_captures() {
    flip(recorded("bursty", true).path(), 1);
    flip(recorded("counts", true).path(), 2);
}

#[test]
fn of_captures_that_were_cut() {
    flip(recorded("lossy", false).path(), 3);
    flip(recorded("fleet", false).path(), 4);
}
