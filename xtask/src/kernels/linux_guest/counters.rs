//! KVM's own counters of a VM, as QEMU gives them (`query-stats`), against a recording of the same time.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::kernels::check::Found;
use crate::kernels::reported::{Account, Counts, Exits, ExitsGroup, Report, count, subtract, text};

/// By how much each counter of each vCPU grew, by the vCPU's thread.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) threads: BTreeMap<u32, Counts>,
}

impl Counters {
    pub(super) fn between(before: &Path, after: &Path) -> Result<Self> {
        let read = |path: &Path| {
            Self::parse(&text(path)?).with_context(|| format!("understand {}", path.display()))
        };
        Ok(read(after)?.since(&read(before)?))
    }

    fn parse(text: &str) -> Result<Self> {
        let answers = text.lines().map(serde_json::from_str::<Value>);
        let answers: Vec<Value> = answers.collect::<Result<_, _>>()?;
        let [cpus, stats] = &answers[..] else {
            bail!("{} answers of QEMU", answers.len());
        };
        let list = |of: &Value, name: &str| -> Result<Vec<Value>> {
            let list = of[name].as_array().cloned();
            list.with_context(|| format!("QEMU gives no {name}"))
        };
        let (cpus, vcpus) = (list(cpus, "return")?, list(stats, "return")?);
        let mut threads = BTreeMap::new();
        for cpu in cpus {
            let thread = cpu["thread-id"].as_u64().context("a CPU has no thread")?;
            let mut counters = Counts::new();
            for of in vcpus.iter().filter(|of| of["qom-path"] == cpu["qom-path"]) {
                for stat in list(of, "stats")? {
                    let name = stat["name"].as_str().context("a counter has no name")?;
                    let count = match &stat["value"] {
                        Value::Array(buckets) => buckets.iter().filter_map(Value::as_u64).sum(),
                        // A state is no counter.
                        value => value.as_u64().unwrap_or(0),
                    };
                    counters.insert(name.to_owned(), count);
                }
            }
            threads.insert(u32::try_from(thread)?, counters);
        }
        Ok(Self { threads })
    }

    fn since(mut self, before: &Self) -> Self {
        for (thread, counters) in &mut self.threads {
            if let Some(before) = before.threads.get(thread) {
                subtract(counters, before);
            }
        }
        self
    }

    pub(super) fn sum(&self, name: &str) -> u64 {
        self.threads.values().filter_map(|of| of.get(name)).sum()
    }
}

const REASONS: [(&str, &str); 6] = [
    ("hlt", "halt_exits"),
    ("interrupt", "irq_exits"),
    ("vintr", "irq_window_exits"),
    ("nmi", "nmi_window_exits"),
    ("io", "io_exits"),
    ("hypercall", "hypercalls"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knows {
    Halts,
    Sums,
    /// Every halt, through tracepoints, which do not tell how long KVM books a poll, and which a slow
    /// machine may deliver too late: then the recording says so.
    Tracepoints,
}

pub(super) fn judge_halts(kvm: &Counters, report: &Report, knows: Knows) -> Found {
    let mut found = Found::default();
    let lost = report.recording.lost;
    let may_lose = knows == Knows::Tracepoints;
    found.require(lost == 0 || may_lose, format!("{lost} events were lost"));
    let (mut halts, mut waited_ns) = (0, 0);
    for (thread, counters) in &kvm.threads {
        let Some((_, vcpu)) = report.of_thread(*thread) else {
            found.disagree(format!("thread {thread} was not recorded"));
            continue;
        };
        let Account {
            poll, parts, waits, ..
        } = &vcpu.account;
        halts += vcpu.account.halts;
        let part = |name: &str| count(parts, name);
        let wait_ns = part("sleep_ns") + part("wake_latency_ns") + part("unknown_ns");
        waited_ns += wait_ns;
        let waited = ("halt_wait_hist", *waits);
        if knows == Knows::Tracepoints {
            if count(counters, waited.0).abs_diff(*waits) > lost {
                differences(*thread, counters, &[waited], &mut found);
            }
            continue;
        }
        let pairs = [
            waited,
            ("halt_attempted_poll", poll.polled),
            ("halt_successful_poll", poll.successful),
            ("halt_poll_success_ns", part("poll_success_ns")),
            ("halt_poll_fail_ns", part("poll_fail_ns")),
            ("halt_wait_ns", wait_ns),
        ];
        differences(*thread, counters, &pairs, &mut found);
    }
    found.summary = format!(
        "{halts} halts, {} waits of {waited_ns} ns, {} polls",
        kvm.sum("halt_wait_hist"),
        kvm.sum("halt_attempted_poll"),
    );
    found
}

pub(super) fn judge_exits(kvm: &Counters, report: &Report, exits: &Exits, found: &mut Found) {
    for (thread, counters) in &kvm.threads {
        let place = report.of_thread(*thread);
        let place = place.map(|(vm, vcpu)| (vm.index, vcpu.id));
        let is_it = |of: &&ExitsGroup| of.vm.zip(of.vcpu) == place;
        let Some(of) = exits.groups.iter().find(is_it) else {
            found.disagree(format!("thread {thread} made no exits"));
            continue;
        };
        let pairs = [
            ("exits", of.exits + of.halt_exits),
            ("halt_exits", of.halt_exits),
            ("irq_injections", of.injections),
            ("insn_emulation", of.emulations),
        ];
        differences(*thread, counters, &pairs, found);
    }
    for (reason, counter) in REASONS {
        found.equal(counter, kvm.sum(counter), exits.of_reason(reason));
    }
    let unexplained = exits.total.other + exits.total.lone_entries;
    found.require(
        unexplained == 0,
        format!("{unexplained} exits without a reason, or entries without an exit"),
    );
    let (all, injections) = (kvm.sum("exits"), kvm.sum("irq_injections"));
    found.say(format_args!("{all} exits, {injections} injections"));
}

/// Where a recording has another count than KVM. A counter that this kernel lacks is none of these.
fn differences(thread: u32, counters: &Counts, pairs: &[(&str, u64)], found: &mut Found) {
    for (name, recorded) in pairs {
        if let Some(counted) = counters.get(*name) {
            found.equal(format_args!("thread {thread}: {name}"), *counted, *recorded);
        }
    }
}

#[cfg(test)]
mod test {
    use serde_json::json;

    use super::*;

    fn counters(waits: u64, exits: u64) -> Counters {
        let cpus = json!({"return": [{"cpu-index": 0, "qom-path": "/a", "thread-id": 7}]});
        let stats = json!({"return": [{"provider": "kvm", "qom-path": "/a", "stats": [
            {"name": "guest_mode", "value": false},
            {"name": "halt_wait_hist", "value": [0, waits]},
            {"name": "halt_attempted_poll", "value": 3},
            {"name": "halt_poll_fail_ns", "value": 20},
            {"name": "halt_wait_ns", "value": 600},
            {"name": "exits", "value": exits},
            {"name": "halt_exits", "value": 4},
            {"name": "irq_exits", "value": 1},
            {"name": "irq_injections", "value": 2}]}]});
        Counters::parse(&format!("{cpus}\n{stats}\n")).unwrap()
    }

    fn report() -> Report {
        let parts =
            json!({"poll_fail_ns": 20, "sleep_ns": 500, "wake_latency_ns": 90, "unknown_ns": 10});
        let account = json!({"halts": 4, "waits": 4, "poll": {"polled": 3}, "parts": parts});
        let vcpus = json!([{"tid": 7, "account": account}]);
        serde_json::from_value(json!({"vms": [{"index": 5, "vcpus": vcpus}]})).unwrap()
    }

    fn exits(injections: u64, interrupts: u64) -> Exits {
        let group =
            json!({"vm": 5, "vcpu": 0, "exits": 5, "halt_exits": 4, "injections": injections});
        let hlt = json!({"name": "hlt", "count": 4});
        let interrupts = json!({"name": "interrupt", "count": interrupts});
        let exits = json!({"reasons": [hlt, interrupts], "groups": [group]});
        serde_json::from_value(exits).unwrap()
    }

    #[test]
    fn only_what_was_counted_between_counts() {
        let grown = counters(9, 20).since(&counters(4, 8));
        let sums = ["halt_wait_hist", "exits", "halt_exits", "guest_mode"];
        assert_eq!(sums.map(|name| grown.sum(name)), [5, 12, 0, 0]);
    }

    #[test]
    fn agreement_is_silent_and_one_off_is_not() {
        for (waits, all, injections, interrupts, expected) in [
            (4, 9, 2, 1, ""),
            (5, 9, 2, 1, "thread 7: halt_wait_hist: KVM 5, recorder 4"),
            (4, 10, 2, 1, "thread 7: exits: KVM 10, recorder 9"),
            (4, 9, 3, 1, "thread 7: irq_injections: KVM 2, recorder 3"),
            (4, 9, 2, 0, "irq_exits: KVM 1, recorder 0"),
        ] {
            let kvm = counters(waits, all);
            let mut found = judge_halts(&kvm, &report(), Knows::Halts);
            let exits = exits(injections, interrupts);
            judge_exits(&kvm, &report(), &exits, &mut found);
            assert_eq!(found.disagreements.concat(), expected);
        }
    }
}
