//! `dynamic`: the window's rule, as it was proposed, reviewed and merged in 2015.
//!
//! The sources are the commit that brought the rule, with the figures of its message, and the review of its
//! drafts on the kernel list, with figures of one of these. Rules that no kernel has any
//! more, or ever had, run in the VMM's halt loop ([`haltwise_lab::halt_loop`]), and the kernel's own beside
//! them in both places, so that what the place costs is seen too. Three loads as there: an idle guest, one that
//! ticks 250 times a second, and request and response. What was measured there as %C0 of the host is
//! here the CPU of the vCPU's thread; neither counts the waker.

use haltwise_core::workload::GapSpec;

use super::account::{self, Account, Halts};
use super::rows::{cell, cells};
use super::{Block, Conclusion, Effect, Experiment, Results, Source, Trial, Variant};
use crate::proposal;
use haltwise_lab::clock::HostWait;
use haltwise_lab::load::LoadError;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dynamic",
    title: "off, always, the kernel's rule, and the rules proposed before it",
    source: Source {
        document: "Linux commit aca6ff29c406 \"KVM: dynamic halt-polling\", Wanpeng Li, 2015; review of \
                   its drafts on the kernel list, Wanpeng Li and David Matlack, 2015",
        reports: &[
            "commit: idle without ticks, %C0: off 0.15, always polling 0.3, dynamic 0.2",
            "commit: idle with a tick of 250 Hz, %C0: off 1.1, always 4.6 to 14, dynamic 1.2",
            "commit: TCP_RR: off 34 us, always 27 us, dynamic 26.7 us",
            "list, a draft: idle, %C0: off 0.9, always polling (500 us) 1.8, dynamic (2 ms) 1.2",
            "list: v3 grew on every long halt: an idle VM walked to 4 ms and back for nothing",
            "list: v4 grew on every interrupt: always at the ceiling",
            "list: on/off toggling is nearly as good",
        ],
    },
    scaled: None,
    figures: FIGURES,
    variants,
    effects,
    integrity: Vec::new,
    limits: &[
        "%C0 of a host's CPU is taken for CPU time of the vCPU's thread",
        "\"nearly as good\" is taken for at most 10 % more latency; less latency meets it",
    ],
    on_your_host: "`haltwise report` shows how much of an idle VM's polling failed; `haltwise tune` plays KVM's rule \
                   under other parameters, and the rule `leader` beside it",
    differs: "the guest does nothing but halt, so polling is nearly all of its CPU, and a wake-up under \
              this host's own hypervisor costs more than the source's",
    run: run_one,
    conclude,
};

figures! { of: Account;
    "cpu", "%", Less, "CPU of the vCPU thread, in % of one CPU", of.percent(of.cpu_ns);
    "polled", "%", Neither, "of that, polling", of.percent(of.polled_ns);
    "latency-p50", "us", Less, "signal to answer, median", of.latency_ns[0] / 1e3;
    "latency-p99", "us", Less, "signal to answer, 99th percentile", of.latency_ns[1] / 1e3;
    "answers", "1/s", More, "answers", of.per_second(of.rounds);
    "hlt-exits", "1/s", Neither, "HLT exits", of.per_second(of.hlts);
    "switches", "1/s", Less, "voluntary context switches of the vCPU thread", of.per_second(of.switches);
}

const IDLE: &str = "idle";
const TICKING: &str = "idle, 250 Hz";
const REQUESTS: &str = "request/response";

/// Loads: name, gaps, and whether the host spins to be exact.
const LOADS: [(&str, &str, HostWait); 3] = [
    (IDLE, "fixed:20ms", HostWait::Block),
    (TICKING, "fixed:4ms", HostWait::Block),
    (REQUESTS, "exp:15us", HostWait::Spin),
];

const RULES: [(&str, Halts); 8] = [
    ("off", Halts::User("off")),
    ("always", Halts::User("fixed:500us")),
    (
        "dynamic",
        Halts::User("kvm:max=2ms,grow=2,grow_start=10us,shrink=0"),
    ),
    (
        "toggle",
        Halts::Proposed("toggle:max=2ms", proposal::toggle),
    ),
    ("v3", Halts::Proposed("list-v3", proposal::v3)),
    ("v4", Halts::Proposed("list-v4", proposal::v4)),
    ("off, in the kernel", Halts::Kernel(0)),
    ("dynamic, in the kernel", Halts::Kernel(2_000_000)),
];

fn variants() -> Vec<Variant> {
    cells(&LOADS, &RULES, |(load, gaps, _), (name, halts)| {
        Variant::new(*load, *name, format!("gaps {gaps}; {halts}"))
    })
}

const OFF_ALWAYS: [&str; 2] = ["off", "always"];
const ALWAYS_DYNAMIC: [&str; 2] = ["always", "dynamic"];
const OFF_DYNAMIC: [&str; 2] = ["off", "dynamic"];
const KERNEL: [&str; 2] = ["off, in the kernel", "dynamic, in the kernel"];

fn effects() -> Vec<Effect> {
    effects! {
        Claim "CPU, always against off", "cpu", IDLE, OFF_ALWAYS, More, "list: 0.9 -> 1.8 %C0";
        Claim "CPU, dynamic against always", "cpu", IDLE, ALWAYS_DYNAMIC, Less, "list: 1.8 -> 1.2 %C0";
        Claim "CPU, v3 against dynamic", "cpu", IDLE, ["dynamic", "v3"], More, "list: polls for nothing";
        Claim "CPU, v4 against dynamic", "cpu", IDLE, ["dynamic", "v4"], More, "list: always at the ceiling";
        Claim "CPU, always against off", "cpu", TICKING, OFF_ALWAYS, More, "commit: 1.1 -> 4.6..14 %C0";
        Claim "CPU, dynamic against always", "cpu", TICKING, ALWAYS_DYNAMIC, Less, "commit: 4.6..14 -> 1.2 %C0";
        Claim "latency, always against off", "latency-p50", REQUESTS, OFF_ALWAYS, Less, "commit: 34 -> 27 us";
        Claim "latency, dynamic against off", "latency-p50", REQUESTS, OFF_DYNAMIC, Less, "commit: 34 -> 26.7 us";
        Claim "latency, toggle against dynamic", "latency-p50", REQUESTS, ["dynamic", "toggle"], NoMoreThan(0.1),
            "list: nearly as good";
        Claim "latency in the kernel, dynamic against off", "latency-p50", REQUESTS, KERNEL, Less,
            "commit: 34 -> 26.7 us";
    }
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    let ((_, gaps, how), (_, halts)) = cell(&LOADS, &RULES, trial.variant);
    let mut load = account::load(trial, "dynamic", 1, *how);
    load.rhythm.spec = gaps.parse::<GapSpec>().map_err(LoadError::from)?;
    halts.set(&mut load)?;
    account::measure(trial, &load, figures)
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let cpu = |rule: &str| results.median(IDLE, rule, "cpu");
    let note = || {
        let (off, always) = (cpu("off")?, cpu("always")?);
        let gone = 100.0 * (always - cpu("dynamic")?) / (always - off);
        (always > off).then(|| {
            format!(
                "of what always polling adds on the idle guest, dynamic spares {gone:.0} %; the \
                 list's draft says two thirds"
            )
        })
    };
    note().into_iter().collect()
}
