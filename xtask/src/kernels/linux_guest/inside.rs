//! What was recorded inside the Linux guest, against the kernel's own counters of cpuidle and KVM's of HLT exits.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::counters::Counters;
use super::{Binaries, Depth, ask};
use crate::kernels::witness::Found;

/// How large each load is: round trips between the guest's two CPUs, and a third as many timers.
pub(super) fn load(depth: Depth) -> u64 {
    match depth {
        Depth::Quick => 150,
        Depth::Thorough => 3_000,
    }
}

/// A CPU's entries into a state, and the microseconds there, by CPU and the state's name.
type States = BTreeMap<(u32, String), (u64, u64)>;

/// What we read of `haltwise report --json`.
#[derive(Debug, Deserialize)]
struct Report {
    recording: Recording,
    vms: Vec<Vm>,
}

#[derive(Debug, Deserialize)]
struct Recording {
    lost: u64,
}

#[derive(Debug, Deserialize)]
struct Vm {
    vcpus: Vec<Vcpu>,
}

#[derive(Debug, Deserialize)]
struct Vcpu {
    id: u32,
    account: Account,
}

#[derive(Debug, Deserialize)]
struct Account {
    waits: u64,
    halted_ns: u64,
    poll: Poll,
}

#[derive(Debug, Deserialize)]
struct Poll {
    polled: u64,
    ns: u64,
}

/// What we read of `haltwise verify --json`.
#[derive(Debug, Deserialize)]
struct Verified {
    halts: u64,
    checked: u64,
    differences: u64,
}

/// Parts of the recording around the reading of the counters: the shell that reads them and what starts it.
const EDGES: u64 = 60;

/// Judges what the guest left in a folder.
pub(super) fn judge(dir: &Path, binaries: &Binaries) -> Found {
    let mut found = Found::default();
    if let Err(error) = judge_all(dir, binaries, &mut found) {
        found.disagreements.push(format!("{error:#}"));
    }
    found
}

fn judge_all(dir: &Path, binaries: &Binaries, found: &mut Found) -> Result<()> {
    let capture = dir.join("capture");
    let governor = read(&dir.join("governor"))?;
    let governor = governor.trim();
    let report: Report = ask(binaries, &["report", "--json"], &capture)?;
    if report.recording.lost > 0 {
        let lost = report.recording.lost;
        found.disagreements.push(format!("{lost} events were lost"));
    }
    let kept = between(&dir.join("before"), &dir.join("after"))?;
    for cpu in report.vms.iter().flat_map(|vm| &vm.vcpus) {
        judge_cpu(cpu, &kept, found);
    }
    let verified = if governor == "haltpoll" {
        judge_rule(&capture, binaries, found)?
    } else {
        "nothing to verify".to_owned()
    };
    let whole = between(&dir.join("first"), &dir.join("last"))?;
    let halted = whole.iter().filter(|((_, state), _)| state != "POLL");
    let halted: u64 = halted.map(|(_, (entered, _))| entered).sum();
    let kvm = Counters::between(&dir.join("kvm.before"), &dir.join("kvm.after"))?;
    let exits = kvm.sum("halt_exits");
    if exits.abs_diff(halted) > halted / 1_000 + EDGES {
        found.disagreements.push(format!(
            "the guest entered HLT {halted} times, KVM counted {exits} exits"
        ));
    }
    found.summary =
        format!("governor {governor}, {halted} times HLT in the guest, {exits} in KVM; {verified}");
    Ok(())
}

/// Times and counts within a hundredth of the kernel's own.
fn judge_cpu(cpu: &Vcpu, kept: &States, found: &mut Found) {
    let of = |polls: bool| {
        let of_cpu = kept.iter().filter(|((id, _), _)| *id == cpu.id);
        let states = of_cpu.filter(|((_, state), _)| (state == "POLL") == polls);
        states.fold((0, 0), |(entered, us), (_, more)| {
            (entered + more.0, us + more.1)
        })
    };
    let polled_ns = cpu.account.poll.ns;
    let halted_ns = cpu.account.halted_ns.saturating_sub(polled_ns);
    for (what, ours, theirs) in [
        ("polled", (cpu.account.poll.polled, polled_ns), of(true)),
        ("halted", (cpu.account.waits, halted_ns), of(false)),
    ] {
        let us = ours.1 / 1_000;
        let count = ours.0.abs_diff(theirs.0) <= theirs.0 / 100 + EDGES;
        // An idle CPU may halt for some milliseconds while the counters are read.
        let time = us.abs_diff(theirs.1) <= theirs.1 / 100 + 200_000;
        if !count || !time {
            found.disagreements.push(format!(
                "CPU {} {what} {} times for {us} us; cpuidle: {} times for {} us",
                cpu.id, ours.0, theirs.0, theirs.1
            ));
        }
    }
}

/// Every period but the first of each CPU can be checked, and is as the governor's rule has it.
fn judge_rule(capture: &Path, binaries: &Binaries, found: &mut Found) -> Result<String> {
    let output = Command::new(&binaries.haltwise)
        .args(["verify", "--json"])
        .arg(capture)
        .output()
        .context("start haltwise")?;
    let verified: Verified =
        serde_json::from_slice(&output.stdout).context("understand haltwise verify")?;
    let text = format!(
        "{} of {} periods verified, {} differ",
        verified.checked, verified.halts, verified.differences
    );
    if verified.differences > 0 || verified.checked < verified.halts / 100 * 99 {
        found.disagreements.push(format!("verify: {text}"));
    }
    Ok(text)
}

fn between(before: &Path, after: &Path) -> Result<States> {
    let (was, mut is) = (states(before)?, states(after)?);
    for (state, (entered, us)) in &mut is {
        let (entered_was, us_was) = was.get(state).copied().unwrap_or_default();
        *entered = entered.saturating_sub(entered_was);
        *us = us.saturating_sub(us_was);
    }
    Ok(is)
}

fn states(path: &Path) -> Result<States> {
    parse(&read(path)?).with_context(|| format!("understand {}", path.display()))
}

fn parse(text: &str) -> Result<States> {
    let mut states = States::new();
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().context("a line is short");
        let (path, entered, us, name) = (word()?, word()?, word()?, word()?);
        let cpu = path.split('/').find_map(|part| {
            let number = part.strip_prefix("cpu")?;
            number.parse().ok()
        });
        let cpu = cpu.context("a path without a CPU")?;
        states.insert((cpu, name.to_owned()), (entered.parse()?, us.parse()?));
    }
    Ok(states)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn states_are_read_by_cpu_and_name() {
        let text = "/sys/devices/system/cpu/cpu1/cpuidle/state1 7 3000 haltpoll idle\n";
        let states = parse(text).unwrap();
        assert_eq!(states[&(1, "haltpoll idle".to_owned())], (7, 3_000));
        assert!(parse("/sys/x 1 2 POLL").is_err());
    }

    #[test]
    fn what_cpuidle_did_not_count_is_told() {
        let kept = States::from([
            ((0, "POLL".to_owned()), (1_000, 5_000_000)),
            ((0, "haltpoll idle".to_owned()), (2_000, 90_000_000)),
        ]);
        let cpu = |polled, waits, halted_ns| Vcpu {
            id: 0,
            account: Account {
                waits,
                halted_ns,
                poll: Poll {
                    polled,
                    ns: 5_000_000_000,
                },
            },
        };
        for (cpu, wrong) in [
            (cpu(1_000, 2_000, 95_000_000_000), 0),
            (cpu(1_071, 2_000, 95_000_000_000), 1),
            (cpu(1_000, 2_100, 95_000_000_000), 1),
            (cpu(1_000, 2_000, 99_000_000_000), 1),
        ] {
            let mut found = Found::default();
            judge_cpu(&cpu, &kept, &mut found);
            assert_eq!(found.disagreements.len(), wrong, "{cpu:?}");
        }
    }
}
