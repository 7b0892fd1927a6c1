//! `smart-idle-poll`: polling in the guest's idle loop, for a time that follows a prediction.
//!
//! The source is Alibaba's talk: fio with 4 KiB requests, a device whose completions are injected after
//! 1, 20 and 50 us, and a table of four columns whose labels are lost. They are taken for: no polling, the
//! host polls, smart poll, and a guest that is never idle. Here the device is a thread of the host that
//! sleeps until the guest's `out` kicks it, and completes that many microseconds after it woke, by an
//! interrupt, or by a word in memory where the guest polls. Latency goes from one submission to the next.

use haltwise_core::units::{HaltPollNs, Nanos};
use haltwise_core::workload::GapSpec;

use super::account::{self, Account};
use super::rows::{cell, cells};
use super::{
    Block, Conclusion, Effect, Expected, Experiment, Results, Source, Table, Trial, Variant,
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
    figures: FIGURES,
    variants,
    effects,
    integrity: Vec::new,
    limits: &[
        "the source's columns have no labels left: which of them is which is a guess, and the fourth may be \
         bare metal instead of a guest that is never idle",
        "a threshold of 200 us is ours, where wake-ups are too slow for the source's 100 us",
        "25.98 and 25.95 us are taken for a difference of at most 10 %",
    ],
    on_your_host: "`haltwise tune` on a capture of the guest plays `smart-idle-poll` by `--policy`, beside haltpoll, \
                   menu, teo and `idle=poll`",
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
const ROWS: [(&str, u64, [f64; 4]); 3] = [
    ("after 1 us", 1, [42.31, 31.98, 25.98, 25.95]),
    ("after 20 us", 20, [69.01, 53.74, 52.02, 46.94]),
    ("after 50 us", 50, [98.85, 84.25, 82.06, 77.41]),
];

const SMART: &str = "smart poll";
const WIDER: &str = "smart poll, 200 us";

/// The source's columns, and one more: name, how the guest polls, the host's ceiling. Where a wake-up costs
/// so much that an idle time with one in it is longer than the threshold of 100 us, the rule never begins
/// to poll; twice the threshold shows that this, and nothing else, is the cause.
const COLUMNS: [(&str, &str, u32); 5] = [
    ("no polling", "off", 0),
    ("host polls", "off", 100_000),
    (SMART, "smart-idle-poll:paravirt_poll_threshold_ns=100us", 0),
    ("never idle", "fixed:always", 0),
    (WIDER, "smart-idle-poll:paravirt_poll_threshold_ns=200us", 0),
];

fn variants() -> Vec<Variant> {
    cells(&ROWS, &COLUMNS, |(group, us, _), (name, guest, host)| {
        let what = format!("completion after {us} us; guest: {guest}; host ceiling {host} ns");
        Variant::new(*group, *name, what)
    })
}

fn effects() -> Vec<Effect> {
    let of_row = |(group, us, reported): (&'static str, u64, [f64; 4])| {
        let name = |column: usize| COLUMNS[column].0;
        let what = |from: usize, to: usize| format!("latency, {} against {}", name(to), name(from));
        let said = |from: usize, to: usize| format!("{} -> {} us", reported[from], reported[to]);
        let mut effects = effects! {
            Claim what(0, 1), "latency", group, [name(0), name(1)], Less, said(0, 1);
            Claim what(0, 2), "latency", group, [name(0), name(2)], Less, said(0, 2);
            Claim what(1, 2), "latency", group, [name(1), name(2)], Less, said(1, 2);
            Claim what(2, 3), "latency", group, [name(2), name(3)], Less, said(2, 3);
            Claim "latency, smart poll of 200 us against host polls",
                "latency", group, [name(1), WIDER], Less, said(1, 2);
        };
        if us == 1 {
            effects[3].expected = Expected::NoLessThan(0.1);
        }
        effects
    };
    ROWS.into_iter().flat_map(of_row).collect()
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    let ((_, us, _), (_, guest, ceiling)) = cell(&ROWS, &COLUMNS, trial.variant);
    let mut load = account::load(trial, "smart-idle-poll", 1, HostWait::Device);
    load.guest = Guest::Poller(Peer::Host);
    load.rhythm.spec = GapSpec::Fixed(Nanos(us * 1_000));
    load.guest_poll = guest.parse::<GuestPoll>().map_err(LoadError::from)?;
    load.guest_poll.host_polls = true;
    load.vm_max_halt_poll_ns = Some(HaltPollNs(*ceiling));
    account::measure(trial, &load, figures)
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let names = [0, 1, 2, 3].map(|column: usize| COLUMNS[column].0);
    let both = |name: &str| [format!("{name}, source"), format!("{name}, here")];
    let rows = ROWS.iter().map(|(group, _, reported)| {
        let cells = names.iter().zip(reported).flat_map(|(name, reported)| {
            let here = results.median(group, name, "latency");
            [
                format!("{reported}"),
                here.map_or("-".to_owned(), |us| format!("{us:.2}")),
            ]
        });
        std::iter::once((*group).to_owned()).chain(cells).collect()
    });
    let notes = ROWS
        .iter()
        .filter_map(|(group, ..)| account_of(results, group));
    Conclusion {
        notes: notes.collect(),
        tables: vec![Table {
            title:
                "Latency in us, the source's table beside ours; its column labels are lost, and \
                    these are presumed"
                    .to_owned(),
            columns: std::iter::once("completion".to_owned())
                .chain(names.iter().flat_map(|name| both(name)))
                .collect(),
            rows: rows.collect(),
        }],
        ..Conclusion::default()
    }
}

/// Exits and CPU of each column: a column that does not halt has nothing to gain from polling.
fn account_of(results: &Results<'_>, group: &str) -> Option<String> {
    let each = |figure: &str, digits: usize| {
        let medians = COLUMNS
            .iter()
            .map(|(name, ..)| results.median(group, name, figure));
        let medians: Option<Vec<String>> = medians
            .map(|median| median.map(|median| format!("{median:.digits$}")))
            .collect();
        medians.map(|medians| medians.join(", "))
    };
    let smart = results.median(group, SMART, "hlt-exits")?;
    let latency = |name: &str| results.median(group, name, "latency");
    let locked_out = if smart > 0.5 {
        "; smart poll is locked out: an idle time that ends in a wake-up is longer than its threshold, so that \
         its polling time falls to 0 and stays there"
    } else {
        ""
    };
    let rule_us = latency(SMART)? - latency("never idle")?;
    let wider_us = latency(WIDER)?;
    Some(format!(
        "completion {group}: HLT exits for each request by column {}; CPU {} us{locked_out}; smart poll takes \
         {rule_us:.1} us more than never idling (where it does not halt, that is its rule, instruction by \
         instruction), and with a threshold of 200 us a request takes {wider_us:.1} us",
        each("hlt-exits", 2)?,
        each("cpu", 1)?
    ))
}
