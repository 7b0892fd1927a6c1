//! Two hands on one host at once, each of which may be killed at any moment: what they leave is undone whole.

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use haltwise_core::workload::SplitMix64;

use super::Host;
use crate::tries::{judge, tries};

const IN_THE_GATE: u64 = 40;
/// Longer than a step takes: some are not killed.
const LATEST_US: u64 = 60_000;

/// Parameters that the lines set, with the values before.
const PARAMETERS: [(&str, &str); 2] = [("halt_poll_ns", "200000"), ("halt_poll_ns_shrink", "2")];

const LINES: [&str; 4] = [
    "apply --set halt_poll_ns=80us --yes",
    "apply --set halt_poll_ns=50us --set halt_poll_ns_shrink=0 --yes",
    "apply --set halt_poll_ns=40us --persist --yes",
    "undo",
];

fn start(host: &Host, line: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_haltwise"))
        .args(line.split(' '))
        .args(["--root", "root"])
        .current_dir(host.0.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Fault in the end of one run. Killed, refused because the other run was there, or nothing left to do: all fair.
fn unfair(line: &str, output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let fair = matches!(output.status.code(), None | Some(0 | 1)) && !said.contains("panicked");
    (!fair).then(|| format!("{line}: {} {said}", output.status))
}

/// Remains of haltwise on a host after an undo.
fn left(host: &Host) -> Vec<String> {
    let (code, out, err) = host.run("undo");
    let nothing = err.contains("nothing that is in force");
    let mut wrong = Vec::new();
    if !(code == Some(0) || code == Some(1) && nothing) {
        wrong.push(format!("undo: {code:?} {out}{err}"));
    }
    for (name, value) in PARAMETERS {
        let found = host.parameter(name);
        if found != value {
            wrong.push(format!("{name} is {found}"));
        }
    }
    for file in [
        "etc/modprobe.d/haltwise.conf",
        "etc/tmpfiles.d/haltwise.conf",
    ] {
        if host.path(file).exists() {
            wrong.push(format!("{file} is there"));
        }
    }
    let (code, out, err) = host.run("status");
    if code != Some(0) || !out.contains("None.") {
        wrong.push(format!("status: {code:?} {out}{err}"));
    }
    wrong
}

/// Two at once, of which some are killed; what is wrong with how they end, and how many were killed.
fn race(host: &Host, random: &mut SplitMix64) -> (Vec<String>, u64) {
    let mut pick = || LINES[usize::try_from(random.below(LINES.len() as u64)).unwrap()];
    let lines = [pick(), pick()];
    let mut both = lines.map(|line| start(host, line));
    for child in &mut both {
        let pause = random.below(LATEST_US / 2);
        std::thread::sleep(Duration::from_micros(pause));
        if random.below(3) > 0 {
            child.kill().unwrap();
        }
    }
    let ended = both.map(|child| child.wait_with_output().unwrap());
    let killed = ended.iter().filter(|it| it.status.code().is_none()).count();
    let wrong = lines.iter().zip(&ended);
    let wrong = wrong.filter_map(|(line, output)| unfair(line, output));
    (wrong.collect(), killed as u64)
}

/// Whether a writer was killed between emptying a made-up parameter and writing it: a file can be empty, what the
/// kernel has there cannot.
fn is_torn(host: &Host) -> bool {
    PARAMETERS
        .iter()
        .any(|(name, _)| host.parameter(name).is_empty())
}

#[test]
fn whoever_is_killed_when_two_set_at_once_all_is_undone() {
    let (mut failures, mut killed, mut torn) = (Vec::new(), 0, 0);
    let seeds = tries(IN_THE_GATE);
    for seed in 0..seeds {
        let random = &mut SplitMix64(seed);
        let host = Host::new("6.12.8-race");
        for _ in 0..=random.below(3) {
            let (wrong, ended) = race(&host, random);
            killed += ended;
            failures.extend(
                wrong
                    .into_iter()
                    .map(|wrong| format!("seed {seed}: {wrong}")),
            );
            if is_torn(&host) {
                break;
            }
        }
        if is_torn(&host) {
            torn += 1;
            continue;
        }
        let wrong = left(&host).into_iter();
        failures.extend(wrong.map(|wrong| format!("seed {seed}: {wrong}")));
    }
    let attack = format!("two set at once, {killed} of them killed");
    judge(&attack, seeds - torn, &failures);
    assert!(killed > 0 && torn < seeds / 2, "{torn}");
}
