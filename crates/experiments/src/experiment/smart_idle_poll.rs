//! `smart-idle-poll`: polling in the guest's idle loop, for a time that follows a prediction.
//!
//! The source is Alibaba's talk: fio with 4 KiB requests, a device whose completions are injected after
//! 1, 20 and 50 us, and a table of four columns whose labels are lost. They are taken for: no polling, the
//! host polls, smart poll, and a guest that is never idle. Here the device is a thread of the host that
//! sleeps until the guest's `out` kicks it, and completes that many microseconds after it woke, by an
//! interrupt, or by a word in memory where the guest polls. Latency goes from one submission to the next.
//!
//! Where a wake-up takes so long that an idle time with one in it exceeds the threshold, smart poll never begins: so
//! the source's times are scaled.

use haltwise_core::units::{HaltPollNs, Nanos};
use haltwise_core::workload::GapSpec;

use super::account::{self, Account};
use super::rows::{cell, cells};
use super::{
    Block, Conclusion, Effect, Expected, Experiment, Results, Scaled, Source, Trial, Variant,
};
use haltwise_lab::clock::HostWait;
use haltwise_lab::guest::{Guest, Peer};
use haltwise_lab::guest_poll::GuestPoll;
use haltwise_lab::load::LoadError;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "smart-idle-poll",
    title: "a predicted time of polling in the guest, against completions after 1, 20, 50 us",
    source: Source {
        document: "Alibaba Cloud, KVM Forum 2017, KVM at the scale of millions of VMs",
        reports: &[
            "fio 4k latency in us, poll=100000, by time of injection; labels lost, presumed: no \
             polling, host polls, smart poll, never idle",
            "1 us: 42.31, 31.98, 25.98, 25.95",
            "20 us: 69.01, 53.74, 52.02, 46.94",
            "50 us: 98.85, 84.25, 82.06, 77.41",
        ],
    },
    // The rows of the source's table give it: without polling a request takes 10.33, 15.27 and 14.60 us more than with a
    // host that polls.
    scaled: Some(Scaled {
        wake_latency: Nanos(14_600),
        times: &[
            ("after 1us", Nanos(1_000)),
            ("after 20us", Nanos(20_000)),
            ("after 50us", Nanos(50_000)),
            ("host polls", POLL),
            (SMART, POLL),
        ],
    }),
    figures: FIGURES,
    variants,
    effects,
    integrity: Vec::new,
    limits: &[
        "the source's columns have no labels left: which of them is which is a guess, and the fourth may be \
         bare metal instead of a guest that is never idle",
        "25.98 and 25.95 us are taken for a difference of at most 10 %; where a guest that is never idle is faster than that \
         after 1 us, no HLT exit explains it, since smart poll has one in a hundred requests; a third of it may be smart \
         poll's judgement after each poll (6.7 us, measured), without which a guest that polls by haltpoll answers as \
         soon as one that is never idle",
    ],
    on_your_host: "`haltwise tune` on a capture of the guest plays `smart-idle-poll` by `--policy`, beside haltpoll and \
                   `idle=poll`",
    differs: "no block layer and no file system lie above the device here, so what is left of a request is \
              its wake-up, and polling takes more of it away",
    run: run_one,
    conclude,
};

figures! { of: Account;
    "latency", "us", Less, "submission to submission, median", of.period_ns[0] / 1e3;
    "latency-p99", "us", Less, "the same, 99th percentile", of.period_ns[1] / 1e3;
    "requests", "1/s", More, "requests completed", of.per_second(of.rounds);
    "hlt-exits", "", Less, "HLT exits for each request", of.each(of.hlts);
    "interrupts", "", Less, "interrupts for each request", of.each(of.interrupts);
    "cpu", "us", Less, "CPU of the vCPU thread for each request", of.each(of.cpu_ns) / 1e3;
    "switches", "", Less, "voluntary context switches for each request", of.each(of.switches);
}

/// When completions are injected, and the source's four columns in microseconds.
const ROWS: [(&str, Nanos, [f64; 4]); 3] = [
    ("after 1us", Nanos(1_000), [42.31, 31.98, 25.98, 25.95]),
    ("after 20us", Nanos(20_000), [69.01, 53.74, 52.02, 46.94]),
    ("after 50us", Nanos(50_000), [98.85, 84.25, 82.06, 77.41]),
];

/// The source's `poll=100000`: how long the host polls, and the idle time above which smart poll does not.
const POLL: Nanos = Nanos(100_000);

const SMART: &str = "smart poll";
const SMART_RULE: &str = "smart-idle-poll:paravirt_poll_threshold_ns";

/// The source's columns: name, how the guest polls, whether the host does.
const COLUMNS: [(&str, &str, bool); 4] = [
    ("no polling", "off", false),
    ("host polls", "off", true),
    (SMART, SMART_RULE, false),
    ("never idle", "fixed:always", false),
];

fn variants() -> Vec<Variant> {
    cells(&ROWS, &COLUMNS, |(group, ..), (name, guest, host)| {
        let what = format!("completion {group}; guest: {guest}; the host polls: {host}");
        Variant::new(*group, *name, what)
    })
}

fn effects() -> Vec<Effect> {
    let of_row = |(group, after, reported): (&'static str, Nanos, [f64; 4])| {
        let name = |column: usize| COLUMNS[column].0;
        let what = |from: usize, to: usize| format!("latency, {} against {}", name(to), name(from));
        let said = |from: usize, to: usize| format!("{} -> {} us", reported[from], reported[to]);
        let mut effects = effects! {
            Claim what(0, 1), "latency", group, [name(0), name(1)], Less, said(0, 1);
            Claim what(0, 2), "latency", group, [name(0), name(2)], Less, said(0, 2);
            Claim what(1, 2), "latency", group, [name(1), name(2)], Less, said(1, 2);
            Claim what(2, 3), "latency", group, [name(2), name(3)], Less, said(2, 3);
        };
        if after == Nanos(1_000) {
            effects[3].expected = Expected::NoLessThan(0.1);
        }
        effects
    };
    ROWS.into_iter().flat_map(of_row).collect()
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    let ((_, after, _), (_, guest, host_polls)) = cell(&ROWS, &COLUMNS, trial.variant);
    let mut load = account::load(trial, "smart-idle-poll", 1, HostWait::Device);
    load.guest = Guest::Poller(Peer::Host);
    load.rhythm.spec = GapSpec::Fixed(trial.here(*after));
    let poll = trial.here(POLL);
    let guest = match *guest {
        SMART_RULE => format!("{SMART_RULE}={}", poll.to_exact()),
        other => other.to_owned(),
    };
    load.guest_poll = guest.parse::<GuestPoll>().map_err(LoadError::from)?;
    load.guest_poll.host_polls = true;
    let ceiling = if *host_polls { poll.0 } else { 0 };
    load.vm_max_halt_poll_ns = Some(HaltPollNs(u32::try_from(ceiling)?));
    account::measure(trial, &load, figures)
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let locked_out = |(group, ..): &(&str, Nanos, [f64; 4])| {
        let exits = results.median(group, SMART, "hlt-exits")?;
        (exits > 0.5).then(|| {
            format!(
                "completion {group}: smart poll is locked out: an idle time that ends in a wake-up is longer than its \
                 threshold, so that its polling time falls to 0 and stays there"
            )
        })
    };
    ROWS.iter().filter_map(locked_out).collect()
}
