//! `poll-sweep`: the ceiling of halt polling, from off to 500 us, under request and response.
//!
//! The source is IBM's study of network settings: `halt_poll_ns` swept under uperf, small payloads. Here
//! a request is an interrupt and a response the guest's next `out`; between a response and the next
//! request lies the client's think time, which is what a vCPU is halted for. Several clients for each CPU, with a
//! host thread each, are the over-committed host that the study warns of.

use anyhow::Context as _;
use haltwise_core::units::{HaltPollNs, Nanos};
use haltwise_core::workload::GapSpec;

use super::account::{self, Account};
use super::rows::{cell, cells};
use super::{
    Block, Conclusion, Effect, Expected, Experiment, Results, Scaled, Source, Table, Trial,
    Variant, tuned,
};
use haltwise_lab::clock::HostWait;
use haltwise_lab::load::Load;

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
    // The source gives none. A transaction whose halt 80 us just catch lasts about as long, and one that spares its wake-up
    // is done in 1/1.35 of the time at best: 0.35 of 80 us, at most.
    scaled: Some(Scaled {
        wake_latency: Nanos(28_000),
        times: &[
            (LOADS[0].name, LOADS[0].think),
            (LOADS[1].name, LOADS[1].think),
            (LOADS[2].name, LOADS[2].think),
            (CEILINGS[1].0, CEILINGS[1].1),
            (CEILINGS[2].0, CEILINGS[2].1),
            (CEILINGS[3].0, CEILINGS[3].1),
            (CEILINGS[4].0, CEILINGS[4].1),
        ],
    }),
    figures: FIGURES,
    variants,
    effects,
    integrity: Vec::new,
    limits: &[
        "\"little or no loss\" is taken for at most 10 % more CPU for a transaction; less CPU meets it",
        "\"highly over-committed\" is four clients for each CPU, each a vCPU and a thread of the host: KVM ends a poll \
         as soon as another task wants the CPU, so hardly any CPU is polled away there, and what harm is left is small",
        "only vCPU threads are counted: what a transaction costs a host in network stack and device model, of which \
         polling is a share, is not there, so that a poll longer than the CPU of a wake-up shows whole",
        "at 150 us most halts outlast the 80 us: the source says \"up to\", and claims no gain for them",
    ],
    on_your_host: "`haltwise tune` finds the ceiling for the loads recorded there, at the host's own cost of a sleep; \
                   the finding `over-committed-polling` says where polling takes CPUs from other tasks",
    differs: "a transaction is an interrupt and a port write, without a network stack: what a wake-up costs \
              weighs more, and so does polling",
    run: run_one,
    conclude,
};

figures! { of: Account;
    "transactions", "1/s", More, "requests answered", of.per_second(of.rounds);
    "latency-p50", "us", Less, "request to response, median", of.latency_ns[0] / 1e3;
    "latency-p99", "us", Less, "request to response, 99th percentile", of.latency_ns[1] / 1e3;
    "cpu", "us", Less, "CPU of the vCPU threads for each transaction", of.each(of.cpu_ns) / 1e3;
    "polled", "us", Neither, "of that, polling", of.each(of.polled_ns) / 1e3;
    "cost", "us", Less, "that CPU, and latency (mean) at a weight of 1, as tune's goal `balanced` has it",
        of.each(of.cpu_ns) / 1e3 + of.each(of.waited_ns) / 1e3;
    "hlt-exits", "", Neither, "HLT exits for each transaction", of.each(of.hlts);
    "switches", "", Less, "voluntary context switches of the vCPU threads for each transaction",
        of.each(of.switches);
}

struct Clients {
    name: &'static str,
    think: Nanos,
    /// vCPUs: one, or so many for each CPU.
    over_committed: Option<u32>,
}

const fn clients(name: &'static str, think_us: u64, over_committed: Option<u32>) -> Clients {
    Clients {
        name,
        think: Nanos(think_us * 1_000),
        over_committed,
    }
}

/// Short, middle and long think times of one client, and clients whose vCPUs and host threads are always more than the
/// CPUs.
const LOADS: [Clients; 4] = [
    clients("think 15us", 15, None),
    clients("think 50us", 50, None),
    clients("think 150us", 150, None),
    clients("over-committed", 15, Some(4)),
];

const CEILINGS: [(&str, Nanos); 5] = [
    ("off", Nanos(0)),
    ("20us", Nanos(20_000)),
    ("80us", Nanos(80_000)),
    ("200us", Nanos(200_000)),
    ("500us", Nanos(500_000)),
];

fn variants() -> Vec<Variant> {
    cells(&LOADS, &CEILINGS, |load, (name, _)| {
        let clients = load.over_committed.map_or("1 vCPU".to_owned(), |vcpus| {
            format!("{vcpus} vCPUs for each CPU")
        });
        let think = load.think;
        let what = format!("{clients}, think time exponential, mean {think}; ceiling {name}");
        Variant::new(load.name, *name, what)
    })
}

fn effects() -> Vec<Effect> {
    let to_best = ["off", "80us"];
    let gain = |load: &Clients| {
        let what = "transactions at 80 us against off";
        effects! { Claim what, "transactions", load.name, to_best, More, "up to +35 %"; }
    };
    let cost = |load: &Clients| {
        let what = "CPU for each, at 80 us against off";
        effects! { Claim what, "cpu", load.name, to_best, NoMoreThan(0.1), "little or no loss"; }
    };
    let mut effects: Vec<Effect> = LOADS[..2].iter().flat_map(gain).collect();
    effects.extend(LOADS[..3].iter().flat_map(cost));
    effects.extend(effects! {
        Claim "transactions at 500 us against off", "transactions", LOADS[3].name, ["off", "500us"], Less,
            "counterproductive";
    });
    effects
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    let (clients, (_, ceiling)) = cell(&LOADS, &CEILINGS, trial.variant);
    let mut load = load_of(clients, trial);
    let ceiling = trial.here(*ceiling).0;
    load.vm_max_halt_poll_ns = Some(HaltPollNs(u32::try_from(ceiling)?));
    account::measure(trial, &load, figures)
}

fn load_of(clients: &Clients, trial: &Trial<'_>) -> Load {
    let vcpus = clients.over_committed.unwrap_or(1);
    let mut load = account::load(trial, "poll-sweep", vcpus, HostWait::Spin);
    if clients.over_committed.is_some() {
        load.vms = u32::try_from(trial.cpus.len()).unwrap_or(1);
    }
    load.rhythm.spec = GapSpec::Exp(trial.here(clients.think));
    load
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let mut notes = Vec::new();
    let best = LOADS
        .iter()
        .map(|load| best_row(results, load, &mut notes))
        .collect();
    let columns = [
        "load",
        "most answers",
        "least cost",
        "tune: density",
        "balanced",
        "latency",
    ];
    Conclusion {
        tables: vec![Table {
            title: "Best ceilings as measured (those that are not told from the best by an interval), and \
                    what `haltwise tune` says from a second's recording under the ceiling in force"
                .to_owned(),
            columns: columns.map(str::to_owned).to_vec(),
            rows: best,
        }],
        notes,
        ..Conclusion::default()
    }
}

fn best_row(results: &Results<'_>, load: &Clients, notes: &mut Vec<String>) -> Vec<String> {
    let further = results.further.context("nothing is run any more");
    let tuned =
        further.and_then(|further| tuned::ceilings(&further, &load_of(load, &further.trial)));
    let tuned = match tuned {
        Ok(ceilings) => ceilings,
        Err(reason) => {
            notes.push(format!("{}: tune says nothing: {reason:#}", load.name));
            Vec::new()
        }
    };
    let goal = |name: &str| {
        let ceiling = tuned.iter().find(|(goal, _)| goal == name);
        ceiling.map_or("-".to_owned(), |(_, ns)| match ns {
            0 => "off".to_owned(),
            ns => Nanos(*ns).to_string(),
        })
    };
    vec![
        load.name.to_owned(),
        region(results, load, "transactions", Expected::More),
        region(results, load, "cost", Expected::Less),
        goal("density"),
        goal("balanced"),
        goal("latency"),
    ]
}

/// From the lowest to the highest ceiling that the interval does not tell from the best.
fn region(results: &Results<'_>, load: &Clients, figure: &'static str, good: Expected) -> String {
    let sign = if good == Expected::More { 1.0 } else { -1.0 };
    let medians = CEILINGS
        .iter()
        .filter_map(|(name, _)| Some((*name, sign * results.median(load.name, name, figure)?)));
    let Some((best, _)) = medians.max_by(|one, other| one.1.total_cmp(&other.1)) else {
        return "-".to_owned();
    };
    let as_good = |name: &&str| {
        let change = results.between(figure, load.name, best, name);
        change.is_none_or(|change| !change.excludes_none())
    };
    let mut good = CEILINGS.iter().map(|(name, _)| *name).filter(as_good);
    match (good.next(), good.next_back()) {
        (Some(first), Some(last)) => format!("{first}..{last}"),
        (Some(only), None) => only.to_owned(),
        _ => "-".to_owned(),
    }
}
