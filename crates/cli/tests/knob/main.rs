//! apply, undo and status as programs, over made-up hosts: what they print, return and leave behind.
//!
//! `UPDATE_GOLDEN=1 cargo test -p haltwise --test knob` writes the expected texts anew.
#![allow(clippy::unwrap_used, reason = "a test")]

mod document;
mod guest_plan;
mod races;
#[path = "../agree/tries.rs"]
mod tries;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haltwise_capture::info::rfc3339;
use haltwise_host::clock;
use haltwise_host::knob::BASELINE;

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

/// Runs the command lines of a committed text (`$ haltwise …`, `$ echo VALUE > FILE`) and compares everything that
/// they say with it.
fn transcript(name: &str, host: &Host) {
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/knob/expected");
    let file = expected.join(format!("{name}.txt"));
    let expected = fs::read_to_string(&file).unwrap();
    let mut said = String::new();
    for line in expected.lines().filter_map(|line| line.strip_prefix("$ ")) {
        if let Some((text, file)) = line
            .strip_prefix("echo ")
            .and_then(|it| it.split_once(" > "))
        {
            writeln!(said, "$ {line}").unwrap();
            host.set(file, text);
            continue;
        }
        let (code, out, err) = host.run(line.strip_prefix("haltwise ").unwrap());
        let code = code.map_or("killed".to_owned(), |code| code.to_string());
        writeln!(said, "$ {line}\n{out}{err}(exit code {code})\n").unwrap();
        let wide = out.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None);
    }
    assert!(!said.is_empty(), "{name} has no commands");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, &said).unwrap();
    } else {
        assert_eq!(said, expected, "{name}");
    }
}

/// A transcript, files that the host has before it, and parameters after it.
type Case = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
);

const CASES: [Case; 7] = [
    ("undo", &[], &[("halt_poll_ns", "200000")]),
    ("values", &[], &[("halt_poll_ns", "200000")]),
    (
        "others",
        &[],
        &[("halt_poll_ns", "70000"), ("halt_poll_ns_grow", "2")],
    ),
    // As after an undo that a full disk kept from recording: nothing is left to restore, and nothing was left alone.
    ("restored", &[], &[("halt_poll_ns", "200000")]),
    (
        "killed",
        &[(BASELINE, CUT_OFF)],
        &[("halt_poll_ns", "200000")],
    ),
    ("boot", &[], &[("halt_poll_ns_shrink", "2")]),
    (
        "damaged",
        &[(BASELINE, "{\"schema\": 1, \"step\": 1}")],
        &[("halt_poll_ns", "200000")],
    ),
];

#[test]
fn what_is_said_and_what_is_left_is_as_committed() {
    for (name, files, parameters) in CASES {
        let host = Host::new("6.12.8-golden");
        for (file, text) in files {
            host.set(file, text);
        }
        transcript(name, &host);
        for (parameter, value) in parameters {
            assert_eq!(host.parameter(parameter), *value, "{name}");
        }
        assert!(!host.path("etc/modprobe.d/haltwise.conf").exists());
        let is_refused = name == "values";
        assert!(
            !(is_refused && host.path("var").exists()),
            "it left a record"
        );
    }
}

#[test]
fn a_journal_that_is_a_fifo_or_a_link_is_refused() {
    let makes: [fn(&Path); 2] = [
        |path| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
        },
        |path| std::os::unix::fs::symlink("../../../victim", path).unwrap(),
    ];
    for make in makes {
        let host = Host::new("6.12.8-golden");
        host.set("victim", "mine");
        fs::create_dir_all(host.path("var/lib/haltwise")).unwrap();
        make(&host.path(BASELINE));
        for (line, ends) in [
            ("status", 5),
            ("apply --set halt_poll_ns=80us --yes", 1),
            ("undo", 1),
        ] {
            let (code, out, said) = host.run(line);
            assert_eq!(code, Some(ends), "{line}: {said}");
            let said = format!("{out}{said}");
            assert!(said.contains(BASELINE), "{line}: {said}");
        }
        assert_eq!(host.parameter("halt_poll_ns"), "200000");
        assert_eq!(fs::read_to_string(host.path("victim")).unwrap(), "mine\n");
    }
}

/// Files and command lines as people have them: what stands where, what has no effect, now and at the next boot.
#[test]
fn settings_without_effect() {
    let host = Host::new("6.12.30-golden");
    for (file, text) in [
        ("sys/module/kvm/parameters/halt_poll_ns", "500000"),
        ("etc/modprobe.d/kvm.conf", "options kvm halt_poll_ns=0"),
        (
            "etc/modprobe.d/zz-perf.conf",
            "options kvm halt_poll_ns=500000",
        ),
        ("etc/sysctl.d/99-kvm.conf", "kvm.halt_poll_ns = 0"),
        (
            "etc/modprobe.d/kvm-intel.conf",
            "options kvm_intel halt_poll_ns=0",
        ),
        ("proc/cmdline", "ro kvm.halt_poll_ns_grow=0"),
    ] {
        host.set(file, text);
    }
    transcript("no-effect", &host);
}

/// Nanoseconds in the place of factors, and a guest whose governor has no driver.
#[test]
fn values_of_another_unit_and_a_guest_without_a_driver() {
    let host = Host::new("6.8.0-45-golden");
    for (name, value) in [("", "5000"), ("_grow", "20000"), ("_shrink", "1000")] {
        let file = format!("sys/module/kvm/parameters/halt_poll_ns{name}");
        host.set(&file, value);
    }
    for (name, value) in [
        ("ns", "4000000"),
        ("grow_start", "4000000"),
        ("allow_shrink", "N"),
    ] {
        let file = format!("sys/module/haltpoll/parameters/guest_halt_poll_{name}");
        host.set(&file, value);
    }
    let cpuidle = "sys/devices/system/cpu/cpuidle";
    host.set(&format!("{cpuidle}/current_driver"), "none");
    host.set(&format!("{cpuidle}/current_governor_ro"), "haltpoll");
    transcript("units", &host);
}

#[test]
fn a_plan_of_tune() {
    let host = Host::new("6.12.8-golden");
    let plan = |settings: &str, reason: &str| {
        format!(
            r#"{{"schema": "haltwise-plan", "version": 1,
                "tool": {{"name": "haltwise", "version": "0.1.0"}},
                "capture": {{"hostname": null, "kernel_release": "6.1.0-recorded", "arch": "x86_64",
                    "started_unix_ns": 0, "ended_unix_ns": null, "halts": 1000}},
                "goal": {{"name": "balanced", "lambda": 1.0, "max_poll_cpu_percent": null}},
                "scope": "host", "before": {{"halt_poll_ns": 100000}}, "settings": {settings},
                "expected": null, "reason": "{reason}"}}"#
        )
    };
    let whole = r#"{"halt_poll_ns": 50000, "halt_poll_ns_grow": 2, "halt_poll_ns_shrink": 0}"#;
    host.set("../plan.json", &plan(whole, "most wakes come within 40 us"));
    host.set("../leave.json", &plan("{}", "nothing better is sure"));
    host.set("../bad.json", &plan(r#"{"halt_poll_us": 50}"#, "a slip"));
    transcript("plan", &host);
    assert_eq!(host.parameter("halt_poll_ns"), "200000");
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

#[test]
fn hosts_on_which_it_cannot_be() {
    use std::os::unix::fs::PermissionsExt;
    let host = Host::new("4.19.0-golden");
    let parameters = host.path("sys/module/kvm/parameters");
    fs::remove_file(parameters.join("halt_poll_ns_grow_start")).unwrap();
    let read_only = fs::Permissions::from_mode(0o444);
    fs::set_permissions(parameters.join("halt_poll_ns_grow"), read_only).unwrap();
    fs::remove_dir_all(host.path("etc")).unwrap();
    transcript("unsupported", &host);
    assert!(!host.path("var").exists());
    fs::remove_dir_all(host.path("sys")).unwrap();
    transcript("without-kvm", &host);
}
