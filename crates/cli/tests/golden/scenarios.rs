//! The captures of the golden tests, made from seeds: each shows what one kind of host looks like.

use haltwise_capture::info::Ended;
use haltwise_capture::recording::Ending;
use haltwise_core::event::{
    CeilingSource, Facts, Halt, HaltCounts, HostSample, Lost, Observable, Paused, Vcpu, Vm,
    WakeSource,
};
use haltwise_core::hist::{KvmHist, LogHist};
use haltwise_core::ids::{Pid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::recording::{Missing, Mode, Overhead, Roster, Rung};

use super::guest::{Guest, tid};
use super::{LENGTH_NS, START_NS, in_order};

/// All that a capture is made from.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) rung: Rung,
    pub(crate) mode: Mode,
    pub(crate) roster: Roster,
    pub(crate) missing: Vec<Missing>,
    pub(crate) facts: Facts,
    /// `None`: the recorder was killed.
    pub(crate) ending: Option<Ending>,
}

pub(crate) fn all() -> Vec<Scenario> {
    vec![
        idle(),
        transactional(),
        bursty(),
        over_committed(),
        locked_out(),
        fleet(),
        lossy(),
        counts(),
        kvm_stats(),
        tracepoints(),
        cut(),
        no_halts(),
        hostile_names(),
    ]
}

pub(crate) fn named(name: &str) -> Scenario {
    let mut all = all().into_iter();
    all.find(|scenario| scenario.name == name).unwrap()
}

fn scenario(name: &'static str, vms: &[(&str, u32)], guests: &[Guest]) -> Scenario {
    let mut facts = Facts::default();
    for guest in guests {
        guest.run(&mut facts);
    }
    in_order(&mut facts);
    facts.host = [0, LENGTH_NS].map(|at| sample(at, 0.4, 0.01)).to_vec();
    Scenario {
        name,
        rung: Rung::Bpf,
        mode: Mode::Full,
        roster: roster(vms, guests),
        missing: Vec::new(),
        facts,
        ending: Some(ending(LENGTH_NS)),
    }
}

fn roster(vms: &[(&str, u32)], guests: &[Guest]) -> Roster {
    let mut roster = Roster::default();
    for (index, (name, vcpus)) in (0..).zip(vms) {
        roster.vms.push(Vm {
            index: VmIndex(index),
            key: VmKey {
                pid: Pid(4_711 + index * 100),
                start_ticks: 4_000,
                ordinal: 0,
            },
            name: (*name).to_owned(),
            vmm: VmmKind::Qemu,
            observable: Observable::Yes,
            ..Vm::default()
        });
        for id in 0..*vcpus {
            let guest = guests.iter().find(|g| g.vm == index && g.vcpu == id);
            roster.vcpus.push(Vcpu {
                vm: VmIndex(index),
                id: VcpuId(id),
                tid: tid(index, id),
                window_ns: Some(0),
                ceiling_ns: guest.map(|guest| guest.ceiling_ns),
                ceiling_source: guest.map(|guest| guest.source).unwrap_or_default(),
                guest_veto: Some(guest.is_some_and(|guest| guest.veto)),
                time: None,
            });
        }
    }
    roster
}

fn sample(at_ns: u64, busy: f64, pressure: f64) -> HostSample {
    let part = |share: f64| (at_ns as f64 * share) as u64;
    HostSample {
        time_ns: START_NS + at_ns,
        cpus: 4,
        busy_ns: 70_000_000_000 + part(busy * 4.0),
        total_ns: 200_000_000_000 + 4 * at_ns,
        cpu_pressure_ns: Some(5_000_000_000 + part(pressure)),
        recorder_cpu_ns: 9_000_000 + part(0.004),
        bpf_cpu_ns: Some(part(0.002)),
        recorder_rss_bytes: 23 << 20,
        ..HostSample::default()
    }
}

/// A recording ends after its duration.
pub(crate) fn ending(length_ns: u64) -> Ending {
    Ending {
        ended: Ended {
            time_ns: START_NS + length_ns,
            by: "duration".into(),
        },
        lost: [].into(),
        overhead: Some(Overhead {
            recorder_cpu_ns: 1_200_000,
            bpf_cpu_ns: Some(600_000),
            recorder_rss_bytes: 23 << 20,
            added_ns_per_halt: Some(214.0),
            added_ns_per_exit: None,
            most_waiting_bytes: None,
        }),
    }
}

/// A guest with a 250 Hz tick: every halt is longer than the ceiling.
fn idle() -> Scenario {
    let guest = |vcpu| Guest {
        vcpu,
        seed: 10 + u64::from(vcpu),
        gaps: "uniform:3800us:4ms",
        wakes: &[WakeSource::Timer],
        ..Guest::default()
    };
    scenario("idle", &[("idle-desktop", 2)], &[guest(0), guest(1)])
}

/// Requests over a network: short gaps, and polling catches most of them.
fn transactional() -> Scenario {
    let guest = Guest {
        wakes: &[
            WakeSource::Device,
            WakeSource::Device,
            WakeSource::Device,
            WakeSource::Ipi,
        ],
        ..Guest::default()
    };
    scenario("transactional", &[("web-1", 1)], &[guest])
}

/// Bursts with long pauses, and a shrink of 0 that forgets all at each pause.
fn bursty() -> Scenario {
    let guest = Guest {
        gaps: "phases:30us*60:3ms*6",
        shrink: 0,
        ..Guest::default()
    };
    scenario("bursty", &[("batch", 1)], &[guest])
}

/// More vCPUs than CPUs: polls are cut, and a vCPU that is awake waits for its CPU.
fn over_committed() -> Scenario {
    let guests: Vec<Guest> = (0..4)
        .map(|vcpu| Guest {
            vcpu,
            seed: 30 + u64::from(vcpu),
            gaps: "exp:90us",
            latency_ns: (60_000, 900_000),
            cut: 0.7,
            ..Guest::default()
        })
        .collect();
    let mut scenario = scenario("over-committed", &[("dense-17", 4)], &guests);
    scenario.facts.host = [0, LENGTH_NS].map(|at| sample(at, 0.98, 0.63)).to_vec();
    scenario
}

/// Gaps of 20 us under a ceiling of 50 us, and a wake-up latency that keeps the window at 0.
fn locked_out() -> Scenario {
    let guest = Guest {
        gaps: "uniform:19us:23us",
        ceiling_ns: 50_000,
        source: CeilingSource::Cap,
        latency_ns: (34_000, 45_000),
        ..Guest::default()
    };
    scenario("locked-out", &[("pingpong", 1)], &[guest])
}

/// Several VMs: one with its own cap, one that came late, one whose guest polls for itself, one that
/// cannot be seen. The parameter changes in the middle.
fn fleet() -> Scenario {
    let late_ns = START_NS + LENGTH_NS / 2;
    let web = Guest {
        until_ns: late_ns,
        ..Guest::default()
    };
    let guests = [
        Guest {
            ceiling_ns: 80_000,
            from_ns: late_ns,
            ..Guest::default()
        },
        web.clone(),
        Guest {
            vm: 1,
            gaps: "exp:120us",
            ceiling_ns: 50_000,
            source: CeilingSource::Cap,
            ..Guest::default()
        },
        Guest {
            vm: 2,
            from_ns: late_ns,
            gaps: "bimodal:0.8:15us:2ms",
            ..Guest::default()
        },
        Guest {
            vm: 3,
            veto: true,
            gaps: "exp:300us",
            wakes: &[WakeSource::Timer, WakeSource::Ipi],
            ..Guest::default()
        },
    ];
    let vms = [
        ("web-1", 1),
        ("db", 1),
        ("late", 1),
        ("haltpoll", 1),
        ("pinned", 2),
    ];
    let mut scenario = scenario("fleet", &vms, &guests);
    scenario.roster.vms[2].key.start_ticks = late_ns / 10_000_000;
    scenario.roster.vms[4].observable =
        Observable::No("exits on HLT are disabled, its halts stay inside the guest".into());
    scenario.facts.knobs = super::knobs(START_NS + LENGTH_NS / 2, "80000");
    scenario.facts.knobs.truncate(1);
    scenario
}

/// Events lost, and some halts that no VM could be found for.
fn lossy() -> Scenario {
    let mut scenario = scenario("lossy", &[("web-1", 1)], &[Guest::default()]);
    for halt in scenario.facts.halts.iter_mut().step_by(20) {
        (halt.vm, halt.vcpu) = (None, None);
    }
    scenario.facts.lost = vec![Lost {
        time_ns: START_NS + 1_000_000,
        count: 120,
        place: "ring buffer full".into(),
    }];
    let ending = scenario.ending.as_mut().unwrap();
    ending.lost = [("ring buffer full".to_owned(), 120)].into();
    scenario
}

fn counts() -> Scenario {
    let guests = [
        Guest::default(),
        Guest {
            vcpu: 1,
            seed: 2,
            gaps: "exp:150us",
            ..Guest::default()
        },
    ];
    let mut scenario = scenario("counts", &[("web-1", 2)], &guests);
    scenario.mode = Mode::Counts;
    for id in [0, 1] {
        let halts = scenario.facts.halts.iter();
        let of_vcpu: Vec<&Halt> = halts.filter(|halt| halt.vcpu == Some(VcpuId(id))).collect();
        for half in of_vcpu.chunks(of_vcpu.len().div_ceil(2)) {
            scenario.facts.counts.push(counted(half));
        }
    }
    scenario.facts.halts.clear();
    scenario.facts.windows.clear();
    scenario
}

fn kvm_stats() -> Scenario {
    let mut scenario = counts();
    scenario.name = "kvm-stats";
    scenario.mode = Mode::Stats;
    for counts in &mut scenario.facts.counts {
        let as_kvm = |hist: &LogHist| KvmHist::folded(hist).spread(hist.sum());
        let (success, fail) = (&counts.poll_success_ns, &counts.poll_fail_ns);
        let (success, fail) = (as_kvm(success), as_kvm(fail));
        // Whole halts less those that a poll met: those that waited, but for their polls.
        let (halts, met) = (KvmHist::folded(&counts.halt_ns), KvmHist::folded(&success));
        let mut waits = KvmHist::default();
        for (wait, (all, met)) in waits.0.iter_mut().zip(halts.0.iter().zip(met.0)) {
            *wait = all - met;
        }
        let mut halt_ns = waits.spread(counts.halt_ns.sum() - success.sum());
        halt_ns.merge(&success);
        (counts.halts, counts.waited) = (halt_ns.count(), waits.count());
        counts.poll_cuts = None;
        counts.wakes = [0, 0, 0, 0, counts.halts];
        counts.halt_ns = halt_ns;
        counts.gap_ns = LogHist::default();
        (counts.poll_success_ns, counts.poll_fail_ns) = (success, fail);
        counts.wake_latency_ns = LogHist::default();
    }
    scenario.missing = ["wake_latency_ns", "wake", "poll_cut"]
        .map(|field| Missing::new(field, "not in KVM's statistics"))
        .to_vec();
    scenario
}

fn counted(halts: &[&Halt]) -> HaltCounts {
    let (first, last) = (halts[0], halts[halts.len() - 1]);
    let mut counts = HaltCounts {
        time_ns: last.end_ns(),
        interval_ns: last.end_ns() - first.start_ns,
        vm: first.vm,
        vcpu: first.vcpu,
        tid: first.tid,
        polled: Some(0),
        successful_polls: Some(0),
        poll_cuts: Some(0),
        ..HaltCounts::default()
    };
    let bump = |sum: &mut Option<u64>, yes: bool| *sum.as_mut().unwrap() += u64::from(yes);
    for halt in halts {
        let poll_ns = halt.poll_ns.unwrap();
        let polled = poll_ns > 0 || (!halt.waited && halt.window_ns > Some(0));
        counts.halts += 1;
        counts.waited += u64::from(halt.waited);
        bump(&mut counts.polled, polled);
        bump(&mut counts.successful_polls, polled && !halt.waited);
        bump(&mut counts.poll_cuts, halt.is_preempted());
        counts.wakes[usize::from(halt.wake.code())] += 1;
        counts.halt_ns.record(halt.halt_ns);
        counts.gap_ns.record(halt.gap_ns().unwrap());
        if halt.waited {
            counts.wake_latency_ns.record(halt.wake_latency_ns.unwrap());
        }
        match (polled, halt.waited) {
            (true, true) => counts.poll_fail_ns.record(poll_ns),
            (true, false) => counts.poll_success_ns.record(poll_ns),
            (false, _) => {}
        }
    }
    counts
}

/// The tracepoint source on a kernel that tells it little.
fn tracepoints() -> Scenario {
    let mut scenario = scenario("tracepoints", &[("web-1", 1)], &[Guest::default()]);
    scenario.rung = Rung::Tracepoints;
    let missing = [
        ("window_ns", "not reported by tracepoints"),
        ("ceiling_ns", "not reported by tracepoints"),
        ("poll_ns", "not reported by tracepoints"),
    ];
    scenario.missing = missing
        .map(|(field, reason)| Missing::new(field, reason))
        .to_vec();
    for (n, halt) in scenario.facts.halts.iter_mut().enumerate() {
        halt.window_ns = None;
        halt.window_next_ns = None;
        halt.ceiling_ns = None;
        halt.ceiling_source = CeilingSource::Unknown;
        halt.poll_ns = None;
        if n % 10 == 0 && halt.waited {
            halt.wake_latency_ns = None;
            halt.wake = WakeSource::Unknown;
        }
    }
    scenario
}

fn cut() -> Scenario {
    let mut scenario = scenario("cut", &[("web-1", 1)], &[Guest::default()]);
    scenario.ending = None;
    scenario
}

/// A VM that never halts, and nothing else.
fn no_halts() -> Scenario {
    let mut scenario = scenario("no-halts", &[("busy", 2), ("stopped", 1)], &[]);
    scenario.roster.vms[1].paused = Some(Paused {
        over_ns: 0,
        from_ns: Some(START_NS),
    });
    scenario
}

fn hostile_names() -> Scenario {
    let long = "a-name-that-goes-on-and-on-".repeat(5);
    let names = [
        "\u{1b}[2J\u{1b}]0;owned\u{7}",
        "a\nb\u{202e}gpj.exe",
        "数据库-主",
        &long,
    ];
    let vms = names.map(|name| (name, 1));
    let guests: Vec<Guest> = (0..4)
        .map(|vm| Guest {
            vm,
            seed: u64::from(vm),
            gaps: "exp:400us",
            ..Guest::default()
        })
        .collect();
    let mut scenario = scenario("hostile-names", &vms, &guests);
    scenario.missing = vec![Missing {
        field: "poll\u{1b}[31m".into(),
        reason: "because\r\n\u{202e}of that".into(),
    }];
    scenario
}
