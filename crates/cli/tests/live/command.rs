//! The command of `record -- COMMAND`: its exit status is ours, and nothing of it outlives us.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::bench::{Bench, Running, haltwise, told, until, until_so};

/// A recorder of a shell script, which is told a file of its own.
fn record(capture: &Path, script: &str, file: &Path) -> Command {
    let mut command = Command::new(haltwise());
    command
        .args(["record", "-o"])
        .arg(capture)
        .args(["--", "sh", "-c", script, "sh"])
        .arg(file)
        .stdout(Stdio::null());
    command
}

/// Waits until a file has a line, which is a number.
fn number_in(file: &Path) -> String {
    until("a number", || {
        let text = std::fs::read_to_string(file).ok()?;
        Some(text.strip_suffix('\n')?.trim().to_owned())
    })
}

/// Whether a process of this group runs; one that its parent has not waited for yet has ended.
fn lives(group: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap();
    let stat = |process: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(process.unwrap().path().join("stat")).ok()
    };
    processes.filter_map(stat).any(|stat| {
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        !matches!(fields.first(), Some(&("Z" | "X"))) && fields.get(2) == Some(&group)
    })
}

fn assert_ends(group: &str) {
    until_so("the end of a group", || !lives(group));
}

/// Says which group it is, with a child that no process waits for.
const STAYS: &str = "sleep 1000 & echo $$ > \"$1\"; sleep 1000";

#[test]
fn a_recording_ends_with_the_exit_status_of_its_command() {
    let Some(bench) = Bench::set_up() else { return };
    for (script, codes) in [
        ("exit 7", [7, 7]),
        ("kill -TERM $$", [143, 143]),
        // 5: something was lost, of this VM or another one.
        ("exit 0", [0, 5]),
    ] {
        let capture = bench.path(&script.replace(' ', "-"));
        let output = record(&capture, script, Path::new("none"))
            .output()
            .unwrap();
        let code = output.status.code().unwrap();
        assert!(codes.contains(&code), "{script}: {}", told(&output));
        assert!(capture.join("halts.parquet").exists(), "{script}");
    }
}

#[test]
fn a_command_that_cannot_start_leaves_no_capture() {
    let Some(bench) = Bench::set_up() else { return };
    let empty = bench.path("empty");
    std::fs::create_dir(&empty).unwrap();
    for name in ["new", "empty"] {
        let output = bench.ran(&format!("record -o {name} -- /there/is/no/such/program"));
        let said = told(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("no/such/program"), "{said}");
    }
    assert!(!bench.path("new").exists());
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn nothing_of_the_command_outlives_a_recorder_that_is_killed() {
    let Some(bench) = Bench::set_up() else { return };
    for (name, signal) in [("killed", Signal::KILL), ("ended", Signal::INT)] {
        let file = bench.path(&format!("{name}.group"));
        let mut recorder = record(&bench.path(name), STAYS, &file);
        let recorder = Running::start(recorder.stderr(Stdio::null()));
        let group = number_in(&file);
        assert!(lives(&group));
        drop(recorder.end(signal));
        assert_ends(&group);
    }
}

#[test]
fn a_user_that_nobody_is_runs_nothing() {
    let Some(bench) = Bench::set_up() else { return };
    let output = bench.ran("record --user there-is-no-such-user -o capture -- touch file");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(!bench.path("capture").exists() && !bench.path("file").exists());
}
