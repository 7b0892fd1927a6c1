//! Captures that no recorder made: each verb ends with a code of its own, without a panic, and no document has a share
//! above 1.
//!
//! Numbers in rows and in `capture.json` of the committed captures are changed by a seeded draw. `tests/fuzz_smoke`
//! changes the bytes of their files in one process, `tests/fuzz_smoke.rs` of the crate capture those of texts to import.
//! `HALTWISE_TRIES=5000` does more of each than the gate has time for, and compares all documents of each.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use haltwise_capture::capture::Capture;
use haltwise_capture::recording::Ending;
use haltwise_core::event::Facts;
use haltwise_core::workload::SplitMix64;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{exits, home, record};
use crate::documents::{DOCUMENTS, contradictions};
use crate::numbers::numbers;
use crate::tries::{judge, tries};

/// Captures of each kind, unless more are requested.
const IN_THE_GATE: u64 = 8;

/// Verbs beside those that print documents which are compared. Pages take the longest.
const OTHERS: [&[&str]; 6] = [
    &["report"],
    &["report", "--exits"],
    &["report", "--profile", "--json"],
    &["verify", "--json"],
    &["top", "--once"],
    &["report", "--html", "page.html"],
];

fn any<'a, T>(of: &'a [T], random: &mut SplitMix64) -> &'a T {
    let place = random.below(of.len().max(1) as u64);
    &of[usize::try_from(place).unwrap()]
}

/// The committed captures: a list, so that a new one does not change what the others become.
fn captures() -> Vec<PathBuf> {
    let captures = "bursty counts cut fleet hostile-names idle kvm-stats locked-out lossy no-halts \
                    over-committed tracepoints transactional";
    let recorded = ["answers", "polled", "signals", "windows"];
    let captures = captures
        .split(' ')
        .map(|name| home().join("captures").join(name));
    let recorded = recorded.map(|name| home().join("recorded").join(name));
    captures.into_iter().chain(recorded).collect()
}

/// A copy of a committed capture, which may be changed.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

fn haltwise(dir: &Path, words: &[&str]) -> Output {
    let haltwise = env!("CARGO_BIN_EXE_haltwise");
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "120", haltwise]).args(words);
    command.current_dir(dir).output().unwrap()
}

/// Faults of one run: an unexpected exit code or a panic.
fn judge_run(words: &[&str], output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let mut wrong = Vec::new();
    if !matches!(output.status.code(), Some(0 | 1 | 2 | 5)) {
        wrong.push(format!("{words:?}: {}: {said}", output.status));
    }
    if said.contains("panicked") {
        wrong.push(format!("{words:?}: {said}"));
    }
    wrong
}

/// Everything that is wrong with what is said of the capture `cap`.
fn wrong_with(dir: &Path, random: &mut SplitMix64) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, words) in DOCUMENTS {
        let words: Vec<&str> = [words, &["--json", "cap"]].concat();
        let output = haltwise(dir, &words);
        wrong.extend(judge_run(&words, &output));
        // 5 without a document: damaged beyond reading.
        if matches!(output.status.code(), Some(0 | 5)) && !output.stdout.is_empty() {
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            let shares = numbers(&document).into_iter();
            let large =
                shares.filter(|(_, field, it)| field.ends_with("share") && *it > 1.0 + 1e-9);
            wrong.extend(large.map(|(place, _, it)| format!("{name}{place}: {it}")));
        }
    }
    if tries(IN_THE_GATE) > IN_THE_GATE {
        let haltwise = Path::new(env!("CARGO_BIN_EXE_haltwise"));
        let found = contradictions(haltwise, &dir.join("cap")).into_iter();
        wrong.extend(found.filter(|text| !text.ends_with("has no document")));
    }
    let words = [*any(&OTHERS, random), &["cap"]].concat();
    wrong.extend(judge_run(&words, &haltwise(dir, &words)));
    let whole = any::<PathBuf>(&captures(), random).display().to_string();
    let words = ["diff", "--json", &whole, "cap"];
    wrong.extend(judge_run(&words, &haltwise(dir, &words)));
    wrong
}

/// Makes captures of a kind and judges them; what is wrong is kept and printed with its number.
fn run(kind: &str, seed: u64, make: fn(&Path, &mut SplitMix64)) {
    let mut wrong = Vec::new();
    let (tries, mut written) = (tries(IN_THE_GATE), 0);
    for number in 0..tries {
        let mut random = SplitMix64(seed.wrapping_add(number));
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), &mut random);
        if !dir.path().join("cap").exists() {
            continue;
        }
        written += 1;
        let found = wrong_with(dir.path(), &mut random);
        if !found.is_empty() {
            let kept = std::env::temp_dir().join(format!("haltwise-mutant-{kind}-{number}"));
            drop(fs::remove_dir_all(&kept));
            copy(&dir.path().join("cap"), &kept);
            wrong.push(format!("{kind} {number}, kept in {}:", kept.display()));
            wrong.extend(found);
        }
    }
    judge(&format!("captures with false {kind}"), written, &wrong);
}

/// A number in the place of another: the ends of its range, its neighbours, one bit of it turned.
fn another(number: u64, random: &mut SplitMix64) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX / 1000,
        3 => number.wrapping_add(1),
        4 => number.wrapping_mul(1000),
        5 => u64::from(u32::MAX),
        _ => number ^ 1 << random.below(64),
    }
}

/// Where the numbers of a value lie.
fn places(value: &Value) -> Vec<String> {
    numbers(value).into_iter().map(|it| it.0).collect()
}

fn change(value: &mut Value, place: &str, random: &mut SplitMix64) {
    if let Some(value) = value.pointer_mut(place)
        && let Some(number) = value.as_u64()
    {
        *value = another(number, random).into();
    }
}

fn change_rows<T: Serialize + DeserializeOwned>(rows: &mut [T], random: &mut SplitMix64) {
    if rows.is_empty() || random.below(3) == 0 {
        return;
    }
    let at = usize::try_from(random.below(rows.len() as u64)).unwrap();
    let places = places(&serde_json::to_value(&rows[at]).unwrap());
    let place = any(&places, random).clone();
    let one = random.below(4) > 0;
    let turn = random.0;
    for (n, row) in rows.iter_mut().enumerate() {
        if one && n != at {
            continue;
        }
        let mut value = serde_json::to_value(&*row).unwrap();
        change(&mut value, &place, &mut SplitMix64(turn));
        // A value that no column can hold leaves the row unchanged.
        if let Ok(changed) = serde_json::from_value(value) {
            *row = changed;
        }
    }
}

fn rows_of(capture: &Capture) -> Facts {
    Facts {
        halts: capture.halts().unwrap().map(Result::unwrap).collect(),
        windows: (capture.window_changes().unwrap().map(Result::unwrap)).collect(),
        counts: capture.halt_counts().unwrap().map(Result::unwrap).collect(),
        knobs: capture.knobs().unwrap().map(Result::unwrap).collect(),
        host: (capture.host_samples().unwrap().map(Result::unwrap)).collect(),
        lost: capture.lost().unwrap().map(Result::unwrap).collect(),
        exits: capture.exits().unwrap().map(Result::unwrap).collect(),
        ..Facts::default()
    }
}

fn rows(dir: &Path, random: &mut SplitMix64) {
    let all = captures();
    let path = if random.below(4) == 0 {
        let path = dir.join("exits");
        exits::write(
            &path,
            if random.below(2) == 0 {
                "returns"
            } else {
                "vmx"
            },
        );
        path
    } else {
        any(&all, random).clone()
    };
    let capture = Capture::open(&path).unwrap().as_stored();
    let mut facts = rows_of(&capture);
    for _ in 0..=random.below(3) {
        match random.below(8) {
            0..=2 => change_rows(&mut facts.halts, random),
            3 => change_rows(&mut facts.windows, random),
            4 => change_rows(&mut facts.host, random),
            // Where a recording ended, capture.json has the losses once more.
            5 if capture.info().ended.is_none() => change_rows(&mut facts.lost, random),
            5 | 6 => change_rows(&mut facts.counts, random),
            _ => change_rows(&mut facts.exits, random),
        }
    }
    let info = capture.info().clone();
    let ending = info.ended.clone().map(|ended| Ending {
        ended,
        lost: info.lost.clone(),
        overhead: info.overhead,
    });
    record(&dir.join("cap"), info, &facts, ending);
}

fn json(dir: &Path, random: &mut SplitMix64) {
    copy(any::<PathBuf>(&captures(), random), &dir.join("cap"));
    let path = dir.join("cap/capture.json");
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    // Each once in a while, however many VMs there are.
    let mut fields = BTreeMap::<String, Vec<String>>::new();
    for place in places(&value) {
        let field = place.rsplit('/').next().unwrap_or_default().to_owned();
        fields.entry(field).or_default().push(place);
    }
    let fields: Vec<Vec<String>> = fields.into_values().collect();
    for _ in 0..=random.below(3) {
        let place = any(any::<Vec<String>>(&fields, random), random).clone();
        change(&mut value, &place, random);
    }
    fs::write(path, value.to_string()).unwrap();
}

#[test]
fn false_numbers_in_rows() {
    run("rows", 0x4a17_0000, rows);
}

#[test]
fn false_numbers_of_the_capture() {
    run("json", 0x4a17_1000, json);
}
