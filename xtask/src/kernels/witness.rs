//! Three cross-checks of one experiment: the guest that counts its own HLTs, KVM's statistics, and
//! the recorder. They must agree.
//!
//! Counts that can be equal must be equal: scheduled-out halts, polls and successful polls, per vCPU. A HLT with
//! an interrupt pending already is an exit but no halt of KVM's, so the guest may count
//! more; how many more is bounded and said.

use std::path::Path;

use anyhow::Result;

use super::check::Found;
use super::reported::{Lab, LabVcpu, Report, Vcpu, count, read};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Source of most wake-ups, as haltwise names it.
    pub(crate) wake: Option<&'static str>,
    pub(crate) polls: bool,
    pub(crate) ceiling_ns: Option<u32>,
}

pub(crate) fn compare(dir: &Path, check: &str, expected: &Expected) -> Result<Found> {
    let lab: Lab = read(&dir.join(check).with_extension("json"))?;
    Ok(judge(&lab, &read(&dir.join("report.json"))?, expected))
}

fn judge(lab: &Lab, report: &Report, expected: &Expected) -> Found {
    let mut found = Found::default();
    let lost = report.recording.lost;
    found.require(lost == 0, format!("{lost} events were lost"));
    found.require(!report.recording.cut, "the recording was cut");
    let unplaced = report.unplaced.as_ref().map_or(0, |account| account.halts);
    found.require(unplaced == 0, format!("{unplaced} halts belong to no VM"));
    let mut sum = [0; 5];
    for vcpu in lab.vcpus() {
        let Some((_, seen)) = report.of_thread(vcpu.tid) else {
            found.disagree(format!("thread {} was not recorded", vcpu.tid));
            continue;
        };
        judge_vcpu(vcpu, seen, expected, &mut found);
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

fn judge_vcpu(lab: &LabVcpu, seen: &Vcpu, expected: &Expected, found: &mut Found) {
    let (account, thread) = (&seen.account, format!("thread {}", lab.tid));
    let mut equal = |what: &str, kvm, recorded| {
        found.equal(format_args!("{thread}: {what}"), kvm, recorded);
    };
    let waits = lab.hist.get("halt_wait_hist");
    let waits = waits.map_or(0, |counts| counts.iter().sum());
    equal("waits", waits, account.waits);
    let successful = lab.stat("halt_successful_poll");
    if expected.polls {
        let attempted = lab.stat("halt_attempted_poll");
        equal("polls", attempted, account.poll.polled);
        equal("successful polls", successful, account.poll.successful);
    }
    if let Some(ceiling) = expected.ceiling_ns {
        let recorded = seen.ceiling_ns.unwrap_or(0);
        equal("ceiling", ceiling.into(), recorded.into());
    }
    // Each halt ended either scheduled out or in a successful poll, or was woken before schedule() on the way
    // to sleep; and each is a HLT.
    let (least, most, recorded) = (waits + successful, lab.halts, account.halts);
    found.require(
        (least..=most).contains(&recorded),
        format!("{thread}: {recorded} halts are not in {least} to {most}"),
    );
    // Emulation now and then delivers an interrupt between STI and HLT, where real CPUs do not.
    let exits = lab.stat("halt_exits");
    let text = format!("{thread}: {} HLTs made {exits} exits", lab.halts);
    found.require(exits <= lab.halts, text);
    if let Some(name) = expected.wake {
        let wakes = &account.wakes;
        let count = |name: &str| count(wakes, name);
        let known = recorded - count("unknown").min(recorded);
        // The recorder reports unknown wake-ups as unknown; known wake-ups must be right.
        found.require(
            count(name) * 20 >= known * 19 && known * 2 >= recorded,
            format!("{thread}: woken by {wakes:?}, not by {name}"),
        );
    }
}

#[cfg(test)]
mod test {
    use serde_json::{Value, json};

    use super::super::reported::changed;
    use super::*;

    const EXPECTED: Expected = Expected {
        wake: Some("timer"),
        polls: true,
        ceiling_ns: Some(50_000),
    };

    fn lab() -> Lab {
        let stats =
            json!({"halt_exits": 100, "halt_attempted_poll": 90, "halt_successful_poll": 40});
        let vcpu = json!({"tid": 7, "halts": 100, "stats": stats, "hist": {"halt_wait_hist": [0, 50, 10]}});
        serde_json::from_value(json!({"vms": [{"vcpus": [vcpu]}]})).unwrap()
    }

    fn report() -> Value {
        let account = json!({"halts": 100, "waits": 60, "poll": {"polled": 90, "successful": 40},
            "wakes": {"timer": 100, "ipi": 0}});
        let vcpu = json!({"tid": 7, "ceiling_ns": 50_000, "account": account});
        json!({"recording": {"lost": 0, "cut": false}, "vms": [{"vcpus": [vcpu]}], "unplaced": null})
    }

    #[test]
    fn agreement_is_silent() {
        let found = judge(&lab(), &changed(&report(), &[]), &EXPECTED);
        assert_eq!(found.disagreements, [""; 0]);
        let summary = "100 HLTs, 100 halts, 60 waits, 90 polls, 40 successful";
        assert_eq!(found.summary, summary);
    }

    #[test]
    fn every_difference_disagrees() {
        const VCPU: &str = "/vms/0/vcpus/0";
        let of_vcpu = |field: &str| format!("{VCPU}/{field}");
        let wakes = json!({"timer": 94, "unknown": 1});
        for (pointer, value, text) in [
            ("/recording/lost".to_owned(), json!(3), "3 events were lost"),
            (
                "/recording/cut".to_owned(),
                json!(true),
                "the recording was cut",
            ),
            (
                "/unplaced".to_owned(),
                json!({"halts": 9}),
                "9 halts belong to no VM",
            ),
            (of_vcpu("tid"), json!(8), "thread 7 was not recorded"),
            (
                of_vcpu("account/waits"),
                json!(59),
                "thread 7: waits: KVM 60, recorder 59",
            ),
            (
                of_vcpu("account/poll/polled"),
                json!(91),
                "thread 7: polls: KVM 90, recorder 91",
            ),
            (
                of_vcpu("account/poll/successful"),
                json!(41),
                "thread 7: successful polls: KVM 40, recorder 41",
            ),
            (
                of_vcpu("account/halts"),
                json!(101),
                "thread 7: 101 halts are not in 100 to 100",
            ),
            (
                of_vcpu("ceiling_ns"),
                Value::Null,
                "thread 7: ceiling: KVM 50000, recorder 0",
            ),
            (
                of_vcpu("account/wakes"),
                wakes,
                "thread 7: woken by {\"timer\": 94, \"unknown\": 1}, not by timer",
            ),
        ] {
            let report = changed(&report(), &[(&pointer, value)]);
            assert_eq!(judge(&lab(), &report, &EXPECTED).disagreements, [text]);
        }
    }
}
