//! Every reading verb on every capture, and the help of every verb, against committed texts.
//!
//! `UPDATE_GOLDEN=1 cargo test -p haltwise --test golden -- --test-threads=1` makes captures and texts
//! anew, one test at a time, since some write the captures that others read (it refuses
//! otherwise); review the difference. The captures come from `scenarios.rs`, which draws everything from seeds. Own
//! comparison and not insta: the texts are named by capture and verb, and thirty lines do it.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test"
)]

mod diff;
mod documented;
#[path = "../agree/documents.rs"]
mod documents;
mod errors;
mod every;
mod exits;
mod explain;
mod guest;
mod guest_tune;
mod hostile;
mod laws;
mod many;
mod mutants;
mod now;
#[path = "../agree/numbers.rs"]
mod numbers;
mod one_answer;
mod page;
mod profile;
mod prove;
mod reads;
mod scenarios;
mod schema;
mod top;
#[path = "../agree/transcript.rs"]
mod transcript;
mod transcripts;
#[path = "../agree/tries.rs"]
mod tries;
mod tune;
mod verify;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haltwise_capture::info::{CaptureInfo, Clock, Host, Tool};
use haltwise_capture::recording::{Ending, Recording};
use haltwise_core::event::{Facts, Knob, KnobScope};
use haltwise_core::recording::{Mode, Rung};
use scenarios::Scenario;
use unicode_width::UnicodeWidthStr;

/// Start of every recording on the host's clock.
const START_NS: u64 = 100_000_000_000;

const LENGTH_NS: u64 = 60_000_000;

fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Whether expected texts are written. Refuses beside other threads: they would read half-written texts.
fn updates() -> bool {
    let updates = std::env::var_os("UPDATE_GOLDEN").is_some();
    assert!(
        !updates || std::env::args().any(|word| word == "--test-threads=1"),
        "UPDATE_GOLDEN writes what other tests read: add `-- --test-threads=1`"
    );
    updates
}

fn knobs(time_ns: u64, ceiling: &str) -> Vec<Knob> {
    let rows = [
        ("halt_poll_ns", ceiling),
        ("halt_poll_ns_grow", "2"),
        ("halt_poll_ns_grow_start", "10000"),
        ("halt_poll_ns_shrink", "2"),
    ];
    rows.map(|(name, value)| Knob {
        time_ns,
        name: name.to_owned(),
        scope: KnobScope::Host,
        value: value.to_owned(),
    })
    .to_vec()
}

/// Information that a recorder has on a scenario at the start of a recording.
fn info_of(scenario: &Scenario) -> CaptureInfo {
    let mut info = info("6.12.0-golden", scenario.rung, scenario.mode);
    info.knobs = knobs(START_NS, "200000");
    info.roster = scenario.roster.clone();
    info
}

fn info(kernel: &str, rung: Rung, mode: Mode) -> CaptureInfo {
    let tool = Tool {
        name: "haltwise".into(),
        version: "0.1.0".into(),
    };
    let host = Host {
        kernel_release: kernel.into(),
        arch: "x86_64".into(),
        cpu_model: None,
        cpus: 4,
        hostname: Some("golden-1".into()),
    };
    let clock = Clock::new(START_NS, 1_767_225_600_000_000_000);
    CaptureInfo::new(tool, host, clock, rung, mode)
}

fn write(scenario: Scenario, dir: &Path) {
    let mut info = info_of(&scenario);
    info.missing = scenario.missing;
    record(dir, info, &scenario.facts, scenario.ending);
}

/// Puts rows of several vCPUs in the order of their times.
fn in_order(facts: &mut Facts) {
    facts.halts.sort_by_key(|halt| halt.start_ns);
    facts.windows.sort_by_key(|change| change.time_ns);
}

/// Writes a capture; without an ending, as a recorder that was killed leaves it.
fn record(dir: &Path, info: CaptureInfo, facts: &Facts, ending: Option<Ending>) {
    let mut recording = Recording::create(dir, info).unwrap();
    recording.append(facts).unwrap();
    if let Some(ending) = ending {
        recording.finish(ending).unwrap();
    }
}

/// A text of a tracer.
fn sample(name: &str) -> PathBuf {
    home()
        .join("../../../capture/tests/import/samples")
        .join(name)
}

/// Runs haltwise in a directory; gives the exit code, stdout and stderr.
fn ran(dir: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_haltwise"))
        .args(arguments)
        .current_dir(dir)
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

/// Runs haltwise where the captures are; gives stdout and the exit code.
fn haltwise(home: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let (code, out, err) = ran(home, arguments);
    assert_eq!(err, "", "{arguments:?}");
    (out, Some(code))
}

/// JSON in few lines: what holds no other list or object, or fits into 200 columns, is one line, and
/// of a long list of objects the first and the last items are enough.
fn flat(json: &serde_json::Value, indent: usize) -> String {
    use serde_json::Value;
    let nests = |value: &Value| value.is_array() || value.is_object();
    let line = json.to_string();
    let is_short = line.len() + indent <= 200;
    let pad = " ".repeat(indent + 1);
    let (ends, items): (_, Vec<String>) = match json {
        Value::Array(items) if !is_short && items.iter().any(nests) => {
            let item = |item| pad.clone() + &flat(item, indent + 1);
            let left_out = items.len().saturating_sub(4);
            let lines = if left_out > 4 {
                let some = items[..3].iter().map(item);
                let count = std::iter::once(format!("{pad}and {left_out} more"));
                let last = items[items.len() - 1..].iter().map(item);
                some.chain(count).chain(last).collect()
            } else {
                items.iter().map(item).collect()
            };
            ("[]", lines)
        }
        Value::Object(fields) if !is_short && fields.values().any(nests) => {
            let item = |(key, value)| format!("{pad}\"{key}\": {}", flat(value, indent + 1));
            ("{}", fields.iter().map(item).collect())
        }
        _ => return line,
    };
    let (open, close) = ends.split_at(1);
    format!(
        "{open}\n{}\n{}{close}",
        items.join(",\n"),
        " ".repeat(indent)
    )
}

fn compare(file: &str, got: &str) -> Result<(), String> {
    updates();
    transcript::same(&home().join("expected").join(file), got)
}

fn fits(file: &str, text: &str) -> Result<(), String> {
    match text.lines().find(|line| line.width() > 80) {
        Some(line) => Err(format!("{file}: more than 80 columns:\n  {line}\n")),
        None => Ok(()),
    }
}

/// The captures committed are those that the seeds make: what is written today reads the same.
#[test]
fn captures_made_anew_give_the_same_reports() {
    let dir = tempfile::tempdir().unwrap();
    for scenario in scenarios::all() {
        let capture = format!("captures/{}", scenario.name);
        if updates() {
            drop(fs::remove_dir_all(home().join(&capture)));
            write(scenario, &home().join(&capture));
            continue;
        }
        write(scenario, &dir.path().join(&capture));
        let report = |home: &Path| haltwise(home, &["report", &capture, "--json", "--vcpus"]);
        assert_eq!(report(dir.path()), report(&home()), "{capture}");
    }
}

#[test]
fn help_is_as_committed_and_ends_with_examples() {
    let (mut wrong, mut options) = (String::new(), 0);
    let verbs = ",record,top,import,check,report,diff,verify,tune,fleet add,fleet show,\
                 prove,apply,undo,status,calibrate,metrics,pilot";
    for verb in verbs.split(',') {
        let words = verb.split_terminator(' ');
        let arguments: Vec<&str> = words.chain(["--help"]).collect();
        let (text, code) = haltwise(&home(), &arguments);
        assert_eq!(code, Some(0));
        assert!(text.contains("EXAMPLES"), "{verb}");
        let (short, _) = haltwise(
            &home(),
            &[&arguments[..arguments.len() - 1], &["-h"]].concat(),
        );
        assert!(short.lines().count() <= 40, "fits on one screen: {short}");
        let is_option = |line: &&str| line.trim_start().starts_with('-');
        options += short.lines().filter(is_option).count();
        let verb = if verb.is_empty() { "haltwise" } else { verb };
        let file = format!("help/{}.txt", verb.replace(' ', "-"));
        wrong.extend(compare(&file, &text).err());
        wrong.extend(fits(&file, &text).err());
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(
        options <= 140,
        "lines of options in all short helps: {options}"
    );
}
