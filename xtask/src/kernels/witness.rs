//! Three cross-checks of one experiment: the guest that counts its own HLTs, KVM's statistics, and
//! the recorder. They must agree.
//!
//! What can be equal must be: scheduled-out halts, polls and successful polls, per vCPU. A HLT
//! whose interrupt is pending already is an exit but no halt of KVM's, so the guest may count
//! more; how many more is bounded and said.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) wake: Option<Wake>,
    pub(crate) polls: bool,
    /// The ceiling that each VM was given.
    pub(crate) ceiling_ns: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    Timer,
    Ipi,
    Device,
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    /// One line with the counts.
    pub(crate) summary: String,
    /// Each a sentence; none if all is well.
    pub(crate) disagreements: Vec<String>,
}

/// What we read of `haltwise-lab run --json`.
#[derive(Debug, Deserialize)]
struct Lab {
    vms: Vec<LabVm>,
}

#[derive(Debug, Deserialize)]
struct LabVm {
    vcpus: Vec<LabVcpu>,
}

#[derive(Debug, Deserialize)]
struct LabVcpu {
    tid: u32,
    halts: u64,
    stats: BTreeMap<String, u64>,
    hist: BTreeMap<String, Vec<u64>>,
}

impl LabVcpu {
    fn stat(&self, name: &str) -> u64 {
        self.stats.get(name).copied().unwrap_or(0)
    }

    fn waits(&self) -> u64 {
        self.hist
            .get("halt_wait_hist")
            .map_or(0, |counts| counts.iter().sum())
    }
}

/// What we read of `haltwise report --json`.
#[derive(Debug, Deserialize)]
struct Report {
    recording: Recording,
    vms: Vec<ReportVm>,
    unplaced: Option<Account>,
}

#[derive(Debug, Deserialize)]
struct Recording {
    lost: u64,
    cut: bool,
}

#[derive(Debug, Deserialize)]
struct ReportVm {
    vcpus: Vec<ReportVcpu>,
}

#[derive(Debug, Deserialize)]
struct ReportVcpu {
    tid: Option<u32>,
    ceiling_ns: Option<u32>,
    account: Account,
}

#[derive(Debug, Deserialize)]
struct Account {
    halts: u64,
    waits: u64,
    poll: Poll,
    wakes: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize)]
struct Poll {
    polled: u64,
    successful: u64,
}

pub(crate) fn compare(dir: &Path, check: &str, expected: &Expected) -> Result<Found> {
    let lab: Lab = read(&dir.join(check).with_extension("json"))?;
    let report: Report = read(&dir.join("report.json"))?;
    Ok(judge(&lab, &report, expected))
}

pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("understand {}", path.display()))
}

fn judge(lab: &Lab, report: &Report, expected: &Expected) -> Found {
    let mut found = Found::default();
    if report.recording.lost > 0 {
        found
            .disagreements
            .push(format!("{} events were lost", report.recording.lost));
    }
    if report.recording.cut {
        found.disagreements.push("the recording was cut".into());
    }
    if let Some(unplaced) = &report.unplaced
        && unplaced.halts > 0
    {
        found
            .disagreements
            .push(format!("{} halts belong to no VM", unplaced.halts));
    }
    let mut sum = [0; 5];
    for vcpu in lab.vms.iter().flat_map(|vm| &vm.vcpus) {
        let seen = report.vms.iter().flat_map(|vm| &vm.vcpus);
        let Some(seen) = seen.into_iter().find(|seen| seen.tid == Some(vcpu.tid)) else {
            found
                .disagreements
                .push(format!("thread {} was not recorded", vcpu.tid));
            continue;
        };
        judge_vcpu(vcpu, seen, expected, &mut found.disagreements);
        let account = &seen.account;
        let counts = [
            vcpu.halts,
            account.halts,
            account.waits,
            account.poll.polled,
            account.poll.successful,
        ];
        for (sum, count) in sum.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    let [executed, halts, waits, polled, successful] = sum;
    let polls = if expected.polls {
        format!(", {polled} polls, {successful} successful")
    } else {
        String::new()
    };
    found.summary = format!("{executed} HLTs, {halts} halts, {waits} waits{polls}");
    found
}

fn judge_vcpu(lab: &LabVcpu, seen: &ReportVcpu, expected: &Expected, out: &mut Vec<String>) {
    let account = &seen.account;
    let mut equal = |what: &str, kvm: u64, recorded: u64| {
        if kvm != recorded {
            out.push(format!(
                "thread {}: {what}: KVM {kvm}, recorder {recorded}",
                lab.tid
            ));
        }
    };
    equal("waits", lab.waits(), account.waits);
    if expected.polls {
        equal(
            "polls",
            lab.stat("halt_attempted_poll"),
            account.poll.polled,
        );
        equal(
            "successful polls",
            lab.stat("halt_successful_poll"),
            account.poll.successful,
        );
    }
    if let Some(ceiling) = expected.ceiling_ns {
        equal(
            "ceiling",
            ceiling.into(),
            seen.ceiling_ns.unwrap_or(0).into(),
        );
    }
    // Each halt ended either scheduled out or in a successful poll, or was woken before schedule() on the way
    // to sleep; and each is a HLT.
    let least = lab.waits() + lab.stat("halt_successful_poll");
    if !(least..=lab.halts).contains(&account.halts) {
        let recorded = account.halts;
        let most = lab.halts;
        out.push(format!(
            "thread {}: {recorded} halts are not in {least} to {most}",
            lab.tid
        ));
    }
    // Emulation now and then delivers an interrupt between STI and HLT, where real CPUs do not.
    if lab.stat("halt_exits") > lab.halts {
        let exits = lab.stat("halt_exits");
        out.push(format!(
            "thread {}: {} HLTs made {exits} exits",
            lab.tid, lab.halts
        ));
    }
    if let Some(wake) = expected.wake {
        let name = match wake {
            Wake::Timer => "timer",
            Wake::Ipi => "ipi",
            Wake::Device => "device",
        };
        let count = |name: &str| account.wakes.get(name).copied().unwrap_or(0);
        let known = account.halts - count("unknown").min(account.halts);
        // What the recorder does not know it says; what it says must be right.
        if count(name) * 20 < known * 19 || known * 2 < account.halts {
            let wakes = &account.wakes;
            out.push(format!(
                "thread {}: woken by {wakes:?}, not by {name}",
                lab.tid
            ));
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const EXPECTED: Expected = Expected {
        wake: Some(Wake::Timer),
        polls: true,
        ceiling_ns: Some(50_000),
    };

    fn lab() -> Lab {
        serde_json::from_str(
            r#"{"vms": [{"vcpus": [{"tid": 7, "halts": 100,
                "stats": {"halt_exits": 100, "halt_attempted_poll": 90, "halt_successful_poll": 40},
                "hist": {"halt_wait_hist": [0, 50, 10]}}]}]}"#,
        )
        .unwrap()
    }

    fn report(tid: u32, halts: u64, waits: u64, successful: u64) -> Report {
        serde_json::from_value(serde_json::json!({
            "recording": {"lost": 0, "cut": false},
            "unplaced": null,
            "vms": [{"vcpus": [{"tid": tid, "ceiling_ns": 50_000, "account": {
                "halts": halts, "waits": waits,
                "poll": {"polled": 90, "successful": successful},
                "wakes": {"timer": halts, "ipi": 0}}}]}],
        }))
        .unwrap()
    }

    fn disagreements(report: &Report) -> Vec<String> {
        judge(&lab(), report, &EXPECTED).disagreements
    }

    #[test]
    fn agreement_is_silent() {
        let found = judge(&lab(), &report(7, 100, 60, 40), &EXPECTED);
        assert_eq!(found.disagreements, Vec::<String>::new());
        assert_eq!(
            found.summary,
            "100 HLTs, 100 halts, 60 waits, 90 polls, 40 successful"
        );
    }

    #[test]
    fn every_difference_is_told() {
        assert_eq!(
            disagreements(&report(7, 100, 59, 40)),
            ["thread 7: waits: KVM 60, recorder 59"]
        );
        assert_eq!(
            disagreements(&report(7, 100, 60, 41)),
            ["thread 7: successful polls: KVM 40, recorder 41"]
        );
        assert_eq!(
            disagreements(&report(7, 101, 60, 40)),
            ["thread 7: 101 halts are not in 100 to 100"]
        );
        assert_eq!(
            disagreements(&report(8, 100, 60, 40)),
            ["thread 7 was not recorded"]
        );
    }

    #[test]
    fn loss_wrong_wakes_and_wrong_ceilings_are_told() {
        let mut seen = report(7, 100, 60, 40);
        seen.recording.lost = 3;
        seen.recording.cut = true;
        seen.vms[0].vcpus[0].ceiling_ns = None;
        seen.vms[0].vcpus[0].account.wakes =
            BTreeMap::from([("timer".into(), 94), ("unknown".into(), 1)]);
        assert_eq!(
            disagreements(&seen),
            [
                "3 events were lost",
                "the recording was cut",
                "thread 7: ceiling: KVM 50000, recorder 0",
                "thread 7: woken by {\"timer\": 94, \"unknown\": 1}, not by timer"
            ]
        );
    }

    #[test]
    fn halts_without_a_vm_are_told() {
        let mut seen = report(7, 100, 60, 40);
        seen.unplaced = report(1, 5, 0, 0)
            .vms
            .remove(0)
            .vcpus
            .remove(0)
            .account
            .into();
        assert_eq!(disagreements(&seen), ["5 halts belong to no VM"]);
    }
}
