//! The smoke run of the fuzz target `cli_capture`: its seeds, and seeded changes of every file in them, on a stable
//! compiler.
//!
//! The real run is `cargo +nightly fuzz run cli_capture`; see `fuzz/README.md`. Seeds are written by
//! `cargo test -p haltwise --test fuzz_smoke -- --ignored`, which nothing but a change of the format needs.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

#[path = "../../../../fuzz/smoke.rs"]
#[allow(dead_code, reason = "only its changes of bytes, and where seeds are")]
mod smoke;
#[path = "../agree/tries.rs"]
mod tries;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use haltwise::fuzz::{every_verb, pack};
use haltwise_core::workload::SplitMix64;
use serde_json::Value;

/// Golden captures that become seeds: small ones with everything in them, finished and cut.
const GOLDEN: [&str; 4] = ["transactional", "counts", "cut", "lossy"];

fn files_of(golden: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/captures")
        .join(golden);
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path: PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    for (name, bytes) in &mut files {
        if name == "capture.json" {
            *bytes = without_checksums(bytes);
        }
    }
    files
}

/// Damage that a checksum finds goes no further.
fn without_checksums(json: &[u8]) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(json).unwrap();
    let fields = value.as_object_mut().unwrap();
    for field in ["checksums", "crc32"] {
        fields.remove(field);
    }
    value.to_string().into_bytes()
}

/// Keeps the output of the verbs out of the output of the tests.
struct Silence([std::os::fd::OwnedFd; 2]);

impl Silence {
    fn begin() -> Self {
        let before = [
            rustix::io::dup(rustix::stdio::stdout()).unwrap(),
            rustix::io::dup(rustix::stdio::stderr()).unwrap(),
        ];
        let nothing = File::options().write(true).open("/dev/null").unwrap();
        rustix::stdio::dup2_stdout(&nothing).unwrap();
        rustix::stdio::dup2_stderr(&nothing).unwrap();
        Self(before)
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        rustix::stdio::dup2_stdout(&self.0[0]).unwrap();
        rustix::stdio::dup2_stderr(&self.0[1]).unwrap();
    }
}

#[test]
fn captures_with_false_bytes_are_read_by_every_verb_or_refused() {
    let mut random = SplitMix64(0x4a17_2000);
    let tries = tries::tries(8);
    let mut failures = Vec::new();
    let silence = Silence::begin();
    for golden in GOLDEN {
        let dir = tempfile::tempdir().unwrap();
        let could = every_verb(&pack(&files_of(golden)), dir.path());
        // Some have nothing to say of captures without exits, samples or halts.
        if could < 8 {
            failures.push(format!("{golden}: {could} verbs"));
        }
    }
    for nth in 0..tries {
        let golden = GOLDEN[usize::try_from(random.below(GOLDEN.len() as u64)).unwrap()];
        let mut files = files_of(golden);
        for _ in 0..=random.below(2) {
            let at = usize::try_from(random.below(files.len() as u64)).unwrap();
            smoke::mutate(&mut files[at].1, &mut random);
        }
        let packed = pack(&files);
        let dir = tempfile::tempdir().unwrap();
        let ran = std::panic::catch_unwind(|| every_verb(&packed, dir.path()));
        if ran.is_err() {
            let kept = std::env::temp_dir().join(format!("cli_capture-{nth}"));
            fs::write(&kept, &packed).unwrap();
            failures.push(format!("{golden}, try {nth}: see {}", kept.display()));
        }
    }
    drop(silence);
    tries::judge("captures with false bytes", tries, &failures);
}

#[test]
#[ignore = "writes the committed seeds anew"]
fn write_seeds() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/cli_capture");
    fs::create_dir_all(&seeds).unwrap();
    for golden in GOLDEN {
        fs::write(seeds.join(golden), pack(&files_of(golden))).unwrap();
    }
}
