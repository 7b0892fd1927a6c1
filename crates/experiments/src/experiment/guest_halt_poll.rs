//! `guest-halt-poll`: the guest polls before it halts, in place of the host, or beside it.
//!
//! The sources are Intel's work on ChromeOS and the kernel's governor haltpoll, which it tunes. The guest
//! `poller` transcribes the governor with its five parameters, forbids the host to poll for it as the
//! governor's driver does, and tells senders that it polls, so that they spare the interrupt. Three loads:
//! requests of the host, the mix of [`super::poll_time`], and two vCPUs that hand work to each other.

use haltwise_core::units::HaltPollNs;
use haltwise_core::workload::GapSpec;

use super::account::{self, Account};
use super::rows::{cell, cells};
use super::{Block, Conclusion, Effect, Experiment, Results, Source, Trial, Variant, poll_time};
use haltwise_lab::clock::HostWait;
use haltwise_lab::guest::{Guest, Peer};
use haltwise_lab::guest_poll::GuestPoll;
use haltwise_lab::load::{Load, LoadError};
use haltwise_lab::run::run;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "guest-halt-poll",
    title: "polling in the guest before HLT, against polling in the host",
    source: Source {
        document: "Intel, \"Improving the Performance of VM Workloads by Optimizing Polling Time\", \
                   2022; Linux commit 2cffe9f6b96f \"cpuidle: add haltpoll governor\", Marcelo Tosatti, \
                   2019",
        reports: &[
            "Intel: guest halt polling, +7 to +10 % on storage and productivity loads",
            "Intel: 10 % fewer HLT exits",
            "Intel: 19 % fewer cycles per second, 10 % less power",
            "commit: ping-pong of small packets: 31.33 on the bare host, 33.40 in a guest with host polling \
             (93.8 % of the bare host), 32.73 with guest polling (95.7 %); none without polling is given",
            "commit: to a vCPU that polls, a sender may spare the IPI",
        ],
    },
    scaled: None,
    figures: FIGURES,
    variants,
    effects,
    integrity: Vec::new,
    limits: &[
        "cycles are taken for CPU time of the vCPU's thread, without the host's other work: a poll costs it the same \
         in the host and in the guest, but KVM ends only the host's poll when another task wants the CPU",
        "the guest's windows begin at 50 us and shrink by halves, the host's end below 10 us: of halts longer than any \
         window, three in ten of the mix, the guest has the longer failed polls",
    ],
    on_your_host: "`haltwise tune` on a capture of the guest (`record --guest`) says whether guest or host should \
                   poll; the findings `guest-veto` and `guest-hlt-below-break-even` say that the guest decides",
    differs: "the guest does nothing else, so each exit and interrupt spared is seen whole; and its \
              instructions are emulated one by one where KVM virtualises in software, which makes a turn \
              of its polling loop some microseconds long",
    run: run_one,
    conclude,
};

figures! { pub(super) of: Worked;
    "answers", "1/s", More, "pieces of work done", of.account.per_second(of.account.rounds);
    "latency", "us", Less, "work given to answer, median (between vCPUs: mean time of a hop)", of.latency_ns / 1e3;
    "hlt-exits", "", Less, "HLT exits for each piece of work", of.account.each(of.account.hlts);
    "interrupts", "", Less, "interrupts or IPIs sent for each piece of work", of.account.each(of.sent);
    "cpu", "us", Less, "CPU of the vCPU threads for each piece of work", of.account.each(of.account.cpu_ns) / 1e3;
    "host-polled", "us", Neither, "of that, polling by the host", of.account.each(of.account.polled_ns) / 1e3;
    "switches", "", Less, "voluntary context switches for each piece of work", of.account.each(of.account.switches);
}

/// Work that was done, and the interrupts that it took.
struct Worked {
    account: Account,
    latency_ns: f64,
    sent: f64,
}

const REQUESTS: &str = "requests";
const MIX: &str = "Android-like mix";
const RING: &str = "two vCPUs";
const GROUPS: [&str; 3] = [REQUESTS, MIX, RING];

/// Side that polls: name, the guest's rule, and the host's ceiling if the host may poll.
pub(super) type Who = (&'static str, &'static str, Option<u32>);

pub(super) const WHO: [Who; 3] = [
    ("no polling", "off", Some(0)),
    ("the host", "off", Some(200_000)),
    ("the guest", "guest-haltpoll", None),
];

const HOST_GUEST: [&str; 2] = ["the host", "the guest"];
const OFF_GUEST: [&str; 2] = ["no polling", "the guest"];

fn effects() -> Vec<Effect> {
    effects! {
        Claim "latency, guest against host", "latency", REQUESTS, HOST_GUEST, Less, "Intel: +7 to +10 % performance";
        Claim "HLT exits, guest against host", "hlt-exits", REQUESTS, HOST_GUEST, Less, "Intel: -10 %";
        Claim "HLT exits, guest against host", "hlt-exits", MIX, HOST_GUEST, Less, "Intel: -10 %";
        Claim "CPU, guest against host", "cpu", MIX, HOST_GUEST, Less, "Intel: -19 % cycles";
        Claim "time of a hop, guest against host", "latency", RING, HOST_GUEST, Less, "commit: 33.40 -> 32.73";
        Claim "IPIs, guest against no polling", "interrupts", RING, OFF_GUEST, Less, "commit: may be spared";
    }
}

fn variants() -> Vec<Variant> {
    cells(&GROUPS, &WHO, variant)
}

pub(super) fn variant(group: &&'static str, (name, guest, host): &Who) -> Variant {
    let host = match host {
        Some(0) => "host polling off".to_owned(),
        Some(ns) => format!("the host polls up to {} us", ns / 1_000),
        None => "host polling forbidden by the guest".to_owned(),
    };
    Variant::new(*group, *name, format!("guest: {guest}; {host}"))
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    let (group, who) = cell(&GROUPS, &WHO, trial.variant);
    let peer = if *group == RING {
        Peer::Ring
    } else {
        Peer::Host
    };
    let mut load = load(trial, "guest-halt-poll", peer, who)?;
    match *group {
        RING => load.vcpu_cpus = vec![trial.vcpu_cpu(), trial.host_cpu()],
        MIX => {
            load.rhythm.spec = GapSpec::Trace(MIX.to_owned());
            load.rhythm.trace = poll_time::mix(trial.seed);
        }
        _ => load.rhythm.spec = "exp:40us".parse().map_err(LoadError::from)?,
    }
    work(trial, &load)
}

/// The guest `poller` with work of this peer: its rule, and the host's ceiling if the host may poll for it.
pub(super) fn load(
    trial: &Trial<'_>,
    experiment: &'static str,
    peer: Peer,
    (_, guest, host): &Who,
) -> anyhow::Result<Load> {
    let vcpus = if peer == Peer::Ring { 2 } else { 1 };
    let mut load = account::load(trial, experiment, vcpus, HostWait::Spin);
    load.guest = Guest::Poller(peer);
    load.guest_poll = guest.parse::<GuestPoll>().map_err(LoadError::from)?;
    load.guest_poll.host_polls = host.is_some();
    load.vm_max_halt_poll_ns = Some(HaltPollNs(host.unwrap_or(200_000)));
    Ok(load)
}

pub(super) fn work(trial: &Trial<'_>, load: &Load) -> anyhow::Result<Block> {
    let finished = run(load, &trial.interrupt)?;
    let (account, outcome) = (Account::of(&finished), &finished.outcome);
    let polls = outcome.vcpus().filter_map(|vcpu| vcpu.guest_poll);
    let sent: u64 = polls
        .map(|polls| match outcome.host_wait {
            Some(_) => polls.rounds.saturating_sub(polls.interrupts_spared),
            None => polls.ipis_sent,
        })
        .sum();
    let worked = Worked {
        account,
        latency_ns: match outcome.host_wait {
            Some(_) => account.latency_ns[0],
            None => account.each(account.elapsed_ns),
        },
        sent: sent as f64,
    };
    Ok(figures(Block::of(outcome.vcpus()), &worked))
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let notes = GROUPS.iter().filter_map(|group| account_of(results, group));
    notes.collect()
}

fn account_of(results: &Results<'_>, group: &str) -> Option<String> {
    let of = |who: &str, figure: &str| results.median(group, who, figure);
    let spared = |figure: &str| Some(of("no polling", figure)? - of("the guest", figure)?);
    Some(format!(
        "{group}: for each piece of work the guest's polling spares {:.2} HLT exits, {:.2} interrupts and {:.2} \
         context switches; CPU is {:.1} us without polling, {:.1} with the host ({:.1} of it polling), {:.1} \
         with the guest, which polls also where the host would have slept",
        spared("hlt-exits")?,
        spared("interrupts")?,
        spared("switches")?,
        of("no polling", "cpu")?,
        of("the host", "cpu")?,
        of("the host", "host-polled")?,
        of("the guest", "cpu")?,
    ))
}
