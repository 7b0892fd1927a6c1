//! `poll-sweep`: the ceiling of halt polling, from off to 500 us, under request and response.
//!
//! The source is IBM's study of network settings: `halt_poll_ns` swept under uperf, small payloads. Here
//! a request is an interrupt and a response the guest's next `out`; between a response and the next
//! request lies the client's think time, which is what a vCPU is halted for. Several clients at once are
//! vCPUs of one VM with a host thread each: more of them than CPUs is the over-committed host that
//! the study warns of.

use haltwise_core::units::{HaltPollNs, Nanos};
use haltwise_core::workload::GapSpec;

use super::account::{self, Account};
use super::{
    Better, Block, Conclusion, Effect, Expected, Experiment, Figure, Results, Source, Table, Trial,
    Variant,
};
use crate::clock::HostWait;
use crate::outcome::Outcome;
use crate::run::{RunError, run};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "poll-sweep",
    title: "the ceiling of halt polling against request/response loads",
    source: Source {
        document: "IBM, KVM settings of a network study",
        reports: &[
            "80,000 ns is best: up to +35 % transactions with small payloads",
            "most of that with little or no loss of CPU efficiency",
            "0 switches polling off",
            "counterproductive where CPUs are highly over-committed",
        ],
    },
    figures: &[
        Figure::new("transactions", "1/s", Better::More, "requests answered"),
        Figure::new(
            "latency-p50",
            "us",
            Better::Less,
            "request to response, median",
        ),
        Figure::new(
            "latency-p99",
            "us",
            Better::Less,
            "request to response, 99th percentile",
        ),
        Figure::new(
            "cpu",
            "us",
            Better::Less,
            "CPU of the vCPU threads for each transaction",
        ),
        Figure::new("polled", "us", Better::Neither, "of that, polling"),
        Figure::new(
            "hlt-exits",
            "",
            Better::Neither,
            "HLT exits for each transaction",
        ),
        Figure::new(
            "switches",
            "",
            Better::Less,
            "voluntary context switches of the vCPU threads for each transaction",
        ),
    ],
    variants,
    effects,
    run: run_one,
    conclude,
};

/// A load: its name, mean think time, and how many clients.
struct Clients {
    name: &'static str,
    think: Nanos,
    vcpus: u32,
}

/// Short, middle and long think times of one client, and more clients than this project's hosts have CPUs.
const LOADS: [Clients; 4] = [
    Clients {
        name: "think 15us",
        think: Nanos(15_000),
        vcpus: 1,
    },
    Clients {
        name: "think 50us",
        think: Nanos(50_000),
        vcpus: 1,
    },
    Clients {
        name: "think 150us",
        think: Nanos(150_000),
        vcpus: 1,
    },
    Clients {
        name: "think 50us, 4 clients",
        think: Nanos(50_000),
        vcpus: 4,
    },
];

/// The study's range, with its best.
const CEILINGS: [(&str, u32); 7] = [
    ("off", 0),
    ("20us", 20_000),
    ("50us", 50_000),
    ("80us", 80_000),
    ("120us", 120_000),
    ("200us", 200_000),
    ("500us", 500_000),
];

fn variants() -> Vec<Variant> {
    let cells = LOADS.iter().flat_map(|load| {
        CEILINGS.iter().map(|(name, _)| {
            let what = format!(
                "{} vCPU, think time exponential, mean {}; ceiling {name}",
                load.vcpus, load.think
            );
            Variant::new(load.name, *name, what)
        })
    });
    cells.collect()
}

fn effects() -> Vec<Effect> {
    let mut effects = Vec::new();
    for load in LOADS.iter().filter(|load| load.vcpus == 1) {
        let effect = |what: &str, figure, expected, reported: &str| Effect {
            what: what.to_owned(),
            figure,
            group: load.name.to_owned(),
            from: "off".to_owned(),
            to: "80us".to_owned(),
            expected,
            reported: reported.to_owned(),
        };
        effects.push(effect(
            "transactions at 80 us against off",
            "transactions",
            Expected::More,
            "up to +35 %",
        ));
        effects.push(effect(
            "CPU for each, at 80 us against off",
            "cpu",
            Expected::AboutSame(0.1),
            "little or no loss",
        ));
    }
    effects.push(Effect {
        what: "transactions at 500 us against off, over-committed".to_owned(),
        figure: "transactions",
        group: LOADS[3].name.to_owned(),
        from: "off".to_owned(),
        to: "500us".to_owned(),
        expected: Expected::Less,
        reported: "counterproductive".to_owned(),
    });
    effects
}

fn run_one(trial: &Trial<'_>) -> Result<Block, RunError> {
    let clients = &LOADS[trial.variant / CEILINGS.len()];
    let (_, ceiling) = CEILINGS[trial.variant % CEILINGS.len()];
    let mut load = account::load(trial, "poll-sweep", clients.vcpus, HostWait::Spin);
    load.rhythm.spec = GapSpec::Exp(clients.think);
    load.vm_max_halt_poll_ns = Some(HaltPollNs(ceiling));
    Ok(block_of(&run(&load, &trial.interrupt)?.outcome))
}

/// The figures of a run of `pingpong`.
fn block_of(outcome: &Outcome) -> Block {
    let account = Account::of(outcome);
    let each = |total: f64| total / account.rounds;
    let [p50, p99] = account.latency_ns;
    Block::of(outcome)
        .with("transactions", account.per_second(account.rounds))
        .with("latency-p50", p50 / 1e3)
        .with("latency-p99", p99 / 1e3)
        .with("cpu", each(account.cpu_ns) / 1e3)
        .with("polled", each(account.polled_ns) / 1e3)
        .with("hlt-exits", each(account.hlts))
        .with("switches", each(account.switches))
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let best = LOADS.iter().map(|load| best_row(results, load)).collect();
    Conclusion {
        differs: "a transaction is an interrupt and a port write, without a network stack: what a wake-up \
                  costs weighs more, and so does polling"
            .to_owned(),
        tables: vec![Table {
            title: "Best ceilings by what was measured".to_owned(),
            columns: ["load", "most transactions", "least CPU each"].map(str::to_owned).to_vec(),
            rows: best,
        }],
        ..Conclusion::default()
    }
}

fn best_row(results: &Results<'_>, load: &Clients) -> Vec<String> {
    let by = |figure: &str, sign: f64| {
        let medians = CEILINGS
            .iter()
            .filter_map(|(name, _)| Some((name, sign * results.median(load.name, name, figure)?)));
        let best = medians.max_by(|one, other| one.1.total_cmp(&other.1));
        best.map_or("-".to_owned(), |(name, _)| (*name).to_owned())
    };
    vec![
        load.name.to_owned(),
        by("transactions", 1.0),
        by("cpu", -1.0),
    ]
}
