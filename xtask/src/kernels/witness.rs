//! Three cross-checks of one experiment: the guest that counts its own HLTs, KVM's statistics, and
//! the recorder. They must agree.
//!
//! Counts that can be equal must be equal: scheduled-out halts, polls and successful polls, per vCPU. A HLT with
//! an interrupt pending already is an exit but no halt of KVM's, so the guest may count
//! more; how many more is bounded and said.

use std::fmt::{Display, Write as _};
use std::path::Path;

use anyhow::Result;

use super::reported::{Lab, LabVcpu, Report, Vcpu, count, read};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Source of most wake-ups, as haltwise names it.
    pub(crate) wake: Option<&'static str>,
    pub(crate) polls: bool,
    pub(crate) ceiling_ns: Option<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) summary: String,
    /// Each a sentence; none if all is well.
    pub(crate) disagreements: Vec<String>,
}

impl Found {
    /// Adds to the summary.
    pub(crate) fn say(&mut self, text: impl Display) {
        let separator = if self.summary.is_empty() { "" } else { "; " };
        // Formatting into a String cannot fail.
        let _ = write!(self.summary, "{separator}{text}");
    }

    pub(crate) fn disagree(&mut self, text: impl Into<String>) {
        self.disagreements.push(text.into());
    }

    pub(crate) fn equal(&mut self, what: impl Display, kvm: u64, recorded: u64) {
        if kvm != recorded {
            self.disagree(format!("{what}: KVM {kvm}, recorder {recorded}"));
        }
    }
}

pub(crate) fn compare(dir: &Path, check: &str, expected: &Expected) -> Result<Found> {
    let lab: Lab = read(&dir.join(check).with_extension("json"))?;
    Ok(judge(&lab, &read(&dir.join("report.json"))?, expected))
}

fn judge(lab: &Lab, report: &Report, expected: &Expected) -> Found {
    let mut found = Found::default();
    if report.recording.lost > 0 {
        found.disagree(format!("{} events were lost", report.recording.lost));
    }
    if report.recording.cut {
        found.disagree("the recording was cut");
    }
    let unplaced = report.unplaced.as_ref().map_or(0, |account| account.halts);
    if unplaced > 0 {
        found.disagree(format!("{unplaced} halts belong to no VM"));
    }
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
    if !(least..=most).contains(&recorded) {
        found.disagree(format!(
            "{thread}: {recorded} halts are not in {least} to {most}"
        ));
    }
    // Emulation now and then delivers an interrupt between STI and HLT, where real CPUs do not.
    let exits = lab.stat("halt_exits");
    if exits > lab.halts {
        found.disagree(format!("{thread}: {} HLTs made {exits} exits", lab.halts));
    }
    if let Some(name) = expected.wake {
        let wakes = &account.wakes;
        let count = |name: &str| count(wakes, name);
        let known = recorded - count("unknown").min(recorded);
        // The recorder reports unknown wake-ups as unknown; known wake-ups must be right.
        if count(name) * 20 < known * 19 || known * 2 < recorded {
            found.disagree(format!("{thread}: woken by {wakes:?}, not by {name}"));
        }
    }
}

#[cfg(test)]
mod test {
    use super::super::reported::counts;
    use super::*;

    const EXPECTED: Expected = Expected {
        wake: Some("timer"),
        polls: true,
        ceiling_ns: Some(50_000),
    };

    fn lab() -> Lab {
        let stats = [
            ("halt_exits", 100),
            ("halt_attempted_poll", 90),
            ("halt_successful_poll", 40),
        ];
        Lab::of(LabVcpu {
            tid: 7,
            halts: 100,
            stats: counts(stats),
            hist: [("halt_wait_hist".to_owned(), vec![0, 50, 10])].into(),
            ..LabVcpu::default()
        })
    }

    fn report(tid: u32, halts: u64, waits: u64, successful: u64) -> Report {
        let mut vcpu = Vcpu {
            tid: Some(tid),
            ceiling_ns: Some(50_000),
            ..Vcpu::default()
        };
        (vcpu.account.halts, vcpu.account.waits) = (halts, waits);
        vcpu.account.poll.polled = 90;
        vcpu.account.poll.successful = successful;
        vcpu.account.wakes = counts([("timer", halts), ("ipi", 0)]);
        Report::of(0, vcpu)
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
    fn every_difference_disagrees() {
        for (tid, halts, waits, successful, text) in [
            (7, 100, 59, 40, ": waits: KVM 60, recorder 59"),
            (7, 100, 60, 41, ": successful polls: KVM 40, recorder 41"),
            (7, 101, 60, 40, ": 101 halts are not in 100 to 100"),
            (8, 100, 60, 40, " was not recorded"),
        ] {
            let report = report(tid, halts, waits, successful);
            let found = judge(&lab(), &report, &EXPECTED);
            assert_eq!(found.disagreements, [format!("thread 7{text}")]);
        }
    }

    #[test]
    fn loss_halts_of_no_vm_wrong_wakes_and_wrong_ceilings_disagree() {
        let mut seen = report(7, 100, 60, 40);
        seen.recording.lost = 3;
        seen.recording.cut = true;
        seen.unplaced = Some(seen.vms[0].vcpus[0].account.clone());
        seen.vms[0].vcpus[0].ceiling_ns = None;
        seen.vms[0].vcpus[0].account.wakes = counts([("timer", 94), ("unknown", 1)]);
        assert_eq!(
            judge(&lab(), &seen, &EXPECTED).disagreements,
            [
                "3 events were lost",
                "the recording was cut",
                "100 halts belong to no VM",
                "thread 7: ceiling: KVM 50000, recorder 0",
                "thread 7: woken by {\"timer\": 94, \"unknown\": 1}, not by timer"
            ]
        );
    }
}
