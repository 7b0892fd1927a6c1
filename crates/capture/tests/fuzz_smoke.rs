//! The fuzz targets' smoke run: their seeds, and seeded mutations of them, on a stable compiler.
//!
//! The real runs are `cargo +nightly fuzz run TARGET`; see `fuzz/README.md`. Seeds are written by
//! `cargo test -p haltwise-capture --test fuzz_smoke -- --ignored`, which nothing but a change of
//! the format needs.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::fs;
use std::path::PathBuf;

use haltwise_capture::fuzz;
use haltwise_core::workload::SplitMix64;

#[path = "seeds/write.rs"]
mod write;

/// Mutations of each seed.
const MUTATIONS: u64 = 400;

/// The seeds of a target, by name.
fn seeds_of(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = write::directory().join(target);
    let mut seeds: Vec<_> = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "no seeds of {target}");
    seeds
}

/// Changes a few bytes as files get damaged: bits, numbers, ends, pieces.
fn mutate(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
    const NUMBERS: [u64; 8] = [0, 1, 0x7f, 0x80, 0xff, 0x7fff_ffff, 1 << 40, u64::MAX];
    for _ in 0..=random.below(4) {
        let length = bytes.len() as u64;
        let mut place = |end: u64| usize::try_from(random.below(end.max(1))).unwrap();
        let at = place(length);
        match place(6) {
            0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << place(8),
            2 => {
                let number = NUMBERS[place(8)].to_le_bytes();
                let width = [1, 4, 8][place(3)].min(bytes.len() - at.min(bytes.len()));
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            3 => bytes.truncate(at),
            4 => {
                let to = at + place(length - at as u64);
                let piece = bytes[at..to].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let to = at + place((length - at as u64).min(64));
                bytes.drain(at..to);
            }
        }
    }
}

/// Feeds seeds and mutations to a reader. At least one seed must be read whole.
fn smoke(target: &str, read: fn(&[u8]) -> u64) {
    let mut random = SplitMix64(0x4a17);
    let mut read_rows = 0;
    for (path, seed) in seeds_of(target) {
        read_rows += read(&seed);
        for round in 0..MUTATIONS {
            let mut bytes = seed.clone();
            mutate(&mut bytes, &mut random);
            let outcome = std::panic::catch_unwind(|| read(&bytes));
            if outcome.is_err() {
                let kept = std::env::temp_dir().join(format!("{target}-{round}"));
                fs::write(&kept, &bytes).unwrap();
                panic!(
                    "{}, mutation {round}: see {}",
                    path.display(),
                    kept.display()
                );
            }
        }
    }
    assert!(read_rows > 0, "no seed of {target} can be read");
}

#[test]
fn capture_json_smoke() {
    smoke("capture_json", fuzz::capture_json);
}

#[test]
fn capture_stream_smoke() {
    smoke("capture_stream", fuzz::stream);
}

#[test]
fn capture_parquet_smoke() {
    smoke("capture_parquet", fuzz::parquet);
}

#[test]
#[ignore = "writes the committed seeds anew"]
fn write_seeds() {
    write::all();
}
