//! The smoke run of a fuzz target on a stable compiler: its seeds, and seeded mutations of them.
//!
//! Each crate's `tests/fuzz_smoke.rs` takes this file in by its path. The real runs are
//! `cargo +nightly fuzz run TARGET`; see `README.md`.

use std::fs;
use std::path::{Path, PathBuf};

use haltwise_core::workload::SplitMix64;

/// The seeds of a target, by name.
fn seeds_of(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(target);
    let mut seeds: Vec<_> = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "no seeds of {target}");
    seeds
}

/// Changes a few bytes as input gets damaged: bits, numbers, ends, pieces.
pub(crate) fn mutate(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
    const NUMBERS: [u64; 8] = [0, 1, 0x7f, 0x80, 0xff, 0x7fff_ffff, 1 << 40, u64::MAX];
    for _ in 0..=random.below(4) {
        let length = bytes.len();
        let mut place = |end: usize| usize::try_from(random.below(end.max(1) as u64)).unwrap();
        let at = place(length);
        match place(6) {
            0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << place(8),
            2 => {
                let number = NUMBERS[place(8)].to_le_bytes();
                let width = [1, 4, 8][place(3)].min(length - at);
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            3 => bytes.truncate(at),
            4 => {
                let to = at + place(length - at);
                let piece = bytes[at..to].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let to = at + place((length - at).min(64));
                bytes.drain(at..to);
            }
        }
    }
}

/// Feeds a target's seeds, and so many mutations of each, to its reader. At least one seed must be
/// read as what it is.
pub(crate) fn run(target: &str, read: fn(&[u8]) -> u64, mutations: u64) {
    let mut random = SplitMix64(0x4a17);
    let mut understood = 0;
    for (path, seed) in seeds_of(target) {
        understood += read(&seed);
        for round in 0..mutations {
            let mut bytes = seed.clone();
            mutate(&mut bytes, &mut random);
            if std::panic::catch_unwind(|| read(&bytes)).is_err() {
                let kept = std::env::temp_dir().join(format!("{target}-{round}"));
                fs::write(&kept, &bytes).unwrap();
                let (seed, kept) = (path.display(), kept.display());
                panic!("{seed}, mutation {round}: see {kept}");
            }
        }
    }
    assert!(understood > 0, "no seed of {target} can be read");
}
