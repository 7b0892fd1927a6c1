//! apply, undo and status as programs, over made-up hosts: what they print, return and leave behind.
//!
//! `UPDATE_GOLDEN=1 cargo test -p haltwise --test knob` writes the expected texts anew.
#![allow(clippy::unwrap_used, reason = "a test")]

mod document;
mod guest_plan;
mod races;
#[path = "../agree/transcript.rs"]
mod transcript;
#[path = "../agree/tries.rs"]
mod tries;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haltwise_capture::info::rfc3339;
use haltwise_host::clock;
use transcript::Shell;

/// A host below `root` in a directory of its own.
struct Host(tempfile::TempDir);

impl Host {
    fn new(kernel: &str) -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        for (file, text) in [
            ("proc/sys/kernel/random/boot_id", "boot-1"),
            ("proc/sys/kernel/osrelease", kernel),
            ("sys/module/kvm/parameters/halt_poll_ns", "200000"),
            ("sys/module/kvm/parameters/halt_poll_ns_grow", "2"),
            ("sys/module/kvm/parameters/halt_poll_ns_grow_start", "10000"),
            ("sys/module/kvm/parameters/halt_poll_ns_shrink", "2"),
            ("etc/modprobe.d/other.conf", ""),
            ("etc/tmpfiles.d/other.conf", ""),
        ] {
            host.set(file, text);
        }
        host
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join("root").join(file)
    }

    fn set(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn parameter(&self, name: &str) -> String {
        let path = self.path("sys/module/kvm/parameters").join(name);
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    /// The exit code, stdout and stderr of a command line; times are taken out.
    fn run(&self, line: &str) -> (Option<i32>, String, String) {
        let mut words = line.split(' ').collect::<Vec<_>>();
        words.extend(["--root", "root"]);
        let output = Command::new(env!("CARGO_BIN_EXE_haltwise"))
            .args(words)
            .current_dir(self.0.path())
            .env_remove("COLUMNS")
            .output()
            .unwrap();
        let text = |bytes| timeless(&String::from_utf8(bytes).unwrap());
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    }
}

fn timeless(text: &str) -> String {
    const TIME: &str = "2026-01-01T00:00:00.000Z";
    let is_time = |at: usize| {
        let text = text.as_bytes().get(at..at + TIME.len());
        text.is_some_and(|text| {
            text.iter().zip(TIME.bytes()).all(|(found, like)| {
                *found == like || (like.is_ascii_digit() && found.is_ascii_digit())
            })
        })
    };
    let mut out = text.to_owned();
    for at in (0..text.len()).filter(|at| is_time(*at)) {
        out.replace_range(at..at + TIME.len(), TIME);
    }
    out
}

fn transcript(name: &str, host: &Host) {
    let make = |dir: &Path, words: &[&str]| {
        let ["cut-off", file] = words else {
            panic!("{words:?}");
        };
        let file = dir.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, CUT_OFF).unwrap();
    };
    let kept = |line: &str, out: String| {
        let wide = out.lines().find(|line| line.chars().count() > 80);
        assert!(wide.is_none() || !line.starts_with("haltwise"), "{wide:?}");
        timeless(&out)
    };
    let shell = Shell {
        dir: host.0.path(),
        before: "haltwise() { command haltwise \"$@\" --root root; }; ",
        make,
        kept,
    };
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/knob/expected");
    let wrong = shell.run(&expected.join(name).with_extension("txt"));
    wrong.unwrap_or_else(|wrong| panic!("{wrong}"));
}

const TRANSCRIPTS: &str = "undo values others restored killed boot damaged journal no-effect units plan guest-undo unsupported";

#[test]
fn what_is_said_and_what_is_left_is_as_committed() {
    for name in TRANSCRIPTS.split(' ') {
        transcript(name, &Host::new("6.12.8-golden"));
    }
}

#[test]
fn what_the_pilot_said_last() {
    let host = Host::new("6.12.8-golden");
    host.set("var/lib/haltwise/pilot.json", include_str!("pilot.json"));
    host.set("proc/900/comm", "haltwise\n");
    transcript("pilot", &host);
    std::fs::remove_dir_all(host.path("proc/900")).unwrap();
    assert!(host.run("status").1.contains("mode ended"));
}

/// In the off periods of a trial nothing is in force, and the trial goes on: undo names the process to stop.
#[test]
fn undo_names_a_pilot_that_acts() {
    let host = Host::new("6.12.8-golden");
    let now = clock::wall_ns();
    let kept = |mode: &str, written_ns: u64| {
        let text = include_str!("pilot.json").replace("\"observe\"", &format!("\"{mode}\""));
        let text = text.replace("2026-01-01T00:00:00.000Z", &rfc3339(written_ns));
        host.set("var/lib/haltwise/pilot.json", &text);
    };
    host.set("proc/900/comm", "haltwise\n");
    let hour_ago = now - 3_600_000_000_000;
    for (mode, written_ns, is_named) in [
        ("act", now, true),
        ("act", hour_ago, false),
        ("observe", now, false),
    ] {
        kept(mode, written_ns);
        let (code, _, said) = host.run("undo");
        assert_eq!(code, Some(1), "{said}");
        assert_eq!(said.contains("process 900"), is_named, "{mode}: {said}");
        assert_eq!(said.contains("haltwise status"), !is_named, "{said}");
        host.run("apply --set halt_poll_ns=80us --yes");
        let (_, told, _) = host.run("undo --dry-run --json");
        let pid = if is_named { "900" } else { "null" };
        assert!(told.contains(&format!("\"pilot_pid\": {pid}")), "{told}");
        let (_, told, _) = host.run("undo");
        assert_eq!(told.contains("process 900"), is_named, "{mode}: {told}");
        host.run("undo");
    }
    assert_eq!(host.parameter("halt_poll_ns"), "200000");
}

/// State that an apply leaves if it is killed between record and parameter.
const CUT_OFF: &str = r#"{"schema": 1, "step": 1, "held": [{
    "target": {"parameter": "halt_poll_ns"}, "before": "200000", "ours": null, "intent": {"set": "80000"},
    "boot": "boot-1", "step": 1, "who": "haltwise apply --set halt_poll_ns=80us --yes", "unix_ns": 1767225600000000000}]}"#;
