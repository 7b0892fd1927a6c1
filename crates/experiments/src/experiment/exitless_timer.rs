//! `exitless-timer`: deadlines written into a page, against the PIT and the local APIC's TSC deadline.
//!
//! The source is Alibaba's talk: a guest leaves its next deadline in a page, an agent on a CPU of its own
//! scans the pages of all guests and interrupts in time. [`crate::exitless_timer`] is that; the guests of
//! [`haltwise_lab::guest::timed`] note how late each timer was, by their own TSC. What a deadline costs is
//! counted by the guest: a write to the deadline's MSR has to be handled by KVM wherever the
//! guest runs, a store to memory is not. The agent runs in two ways: it looks all the time, or it sleeps until the
//! next deadline and at most 250 us, and says so in the page.
//!
//! A deadline that was lost would leave its guest in HLT for ever: the run would fail, as one that hung.

use anyhow::Context as _;
use haltwise_core::units::Nanos;
use haltwise_core::workload::GapSpec;

use super::{Block, Conclusion, Effect, Experiment, Integrity, Results, Source, Trial, Variant};
use crate::exitless_timer::{AgentReport, Pace, thread};
use crate::host_thread::HostThread;
use haltwise_lab::guest::{Clock, Guest};
use haltwise_lab::load::{Length, Load};
use haltwise_lab::outcome::{Outcome, Quantiles};
use haltwise_lab::run::run_beside;
use haltwise_lab::vm::Vm;

mod lateness;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "exitless-timer",
    title: "deadlines in a shared page and an agent, against PIT and TSC deadline",
    source: Source {
        document: "Alibaba Cloud, KVM Forum 2017, KVM at the scale of millions of VMs",
        reports: &[
            "each vCPU writes its next deadline into a page shared with the host, without an exit",
            "an agent on a dedicated CPU scans the pages, and injects the interrupt without an exit",
            "the page carries back the next synchronisation time",
        ],
    },
    scaled: None,
    figures: FIGURES,
    variants,
    effects,
    integrity,
    limits: &[
        "the source gives no figures; that its agent takes the cost off the vCPU's CPU is the direction of its \
         design",
        "an agent that sleeps may still fire for a deadline that its guest has just given to its own timer: such \
         an interrupt comes before the next deadline, and the guest waits on",
    ],
    on_your_host: "the finding `timer-exits` says what setting and firing timers costs, and which exits a host can \
                   spare",
    differs: "the source gives no figures; what a write saves is an exit where the CPU runs the guest, \
              and where KVM emulates every instruction of it, the stores to the page cost as much",
    run: run_one,
    conclude,
};

figures! { of: Ran;
    "timer-writes", "", Less, "writes to a timer that KVM handled, for each timer", of.each(of.guest.hardware as f64);
    "late-p50", "us", Less, "from the deadline to the handler, median", of.late_us(|late| late.p50);
    "late-p99", "us", Less, "the same, 99th percentile", of.late_us(|late| late.p99);
    "timers", "1/s", Neither, "timers that came", of.guest.came as f64 / (of.outcome.elapsed_ns as f64 / 1e9);
    "exits", "", Less, "KVM's exits for each timer", of.each(of.outcome.stat("exits"));
    "emulated", "", Less, "instructions that KVM emulated, for each timer",
        of.each(of.outcome.stat("insn_emulation"));
    "cpu", "us", Less, "CPU of the vCPU threads for each timer", of.each(of.outcome.cpu_us());
    "agent-cpu", "%", Less, "CPU of the agent, in % of one CPU", of.agent_percent();
    "early", "", Less, "interrupts before the deadline, for each timer", of.each(of.guest.early as f64);
}

const ONE: &str = "one vCPU";
const EIGHT: &str = "eight vCPUs, one agent";

const GROUPS: [(&str, u32, &str); 2] = [(ONE, 1, "fixed:1ms"), (EIGHT, 8, "exp:2ms")];

/// An agent with less of its CPU does not look all the time.
const ENOUGH_PERCENT: u64 = 90;

const SPINS: Option<Pace> = Some(Pace::Spin);
/// A quarter of the shortest period in use (1 ms): most deadlines are further ahead.
const SLEEPS: Option<Pace> = Some(Pace::Sync(Nanos(250_000)));

const PIT: &str = "PIT";
const DEADLINE: &str = "TSC deadline";
const AGENT_SPINS: &str = "agent spins";
const AGENT_SLEEPS: &str = "agent sleeps";

/// Compared variants: group, name, the guest's clock, the agent.
const VARIANTS: [(usize, &str, Clock, Option<Pace>); 6] = [
    (0, PIT, Clock::Pit, None),
    (0, DEADLINE, Clock::TscDeadline, None),
    (0, AGENT_SPINS, Clock::Exitless, SPINS),
    (0, AGENT_SLEEPS, Clock::Exitless, SLEEPS),
    (1, DEADLINE, Clock::TscDeadline, None),
    (1, AGENT_SPINS, Clock::Exitless, SPINS),
];

/// Those where no interrupt may come before its deadline: an agent that sleeps may send one, see `limits`.
const ORDERLY: &[&str] = &[PIT, DEADLINE, AGENT_SPINS];

fn integrity() -> Vec<Integrity> {
    let of_group = |(group, ..): &(&'static str, u32, &str)| Integrity {
        variants: ORDERLY,
        ..Integrity::of(
            "no interrupt comes before its deadline",
            "early",
            group,
            0.0,
        )
    };
    GROUPS.iter().map(of_group).collect()
}

fn effects() -> Vec<Effect> {
    effects! {
        Claim "the vCPU's CPU for a timer, agent spins against TSC deadline", "cpu", ONE, [DEADLINE, AGENT_SPINS], Less,
            "the cost of timers goes from the vCPU's CPU to the agent's";
        // A guest with an agent writes its deadlines to a page.
        Construction "writes that KVM handled, agent spins against TSC deadline",
            "timer-writes", ONE, [DEADLINE, AGENT_SPINS],
            Less, NO_EXIT;
        Construction "writes that KVM handled, agent sleeps against TSC deadline", "timer-writes", ONE,
            [DEADLINE, AGENT_SLEEPS], Less, NO_EXIT;
        Construction "writes that KVM handled, eight vCPUs on one agent",
            "timer-writes", EIGHT, [DEADLINE, AGENT_SPINS], Less,
            "one agent scans the pages of all vCPUs";
    }
}

const NO_EXIT: &str = "a deadline is written without an exit";

fn variants() -> Vec<Variant> {
    let of = |(group, name, clock, pace): &(usize, &str, Clock, Option<Pace>)| {
        let (group, _, gaps) = GROUPS[*group];
        let agent = match pace {
            None => "no agent".to_owned(),
            Some(Pace::Spin) => "the agent looks all the time".to_owned(),
            Some(Pace::Sync(every)) => format!("the agent looks at deadlines and every {every}"),
        };
        let guest = Guest::Timed(*clock);
        Variant::new(group, *name, format!("{guest}, {gaps}; {agent}"))
    };
    VARIANTS.iter().map(of).collect()
}

fn load(trial: &Trial<'_>, clock: Clock, vcpus: u32, gaps: &str) -> anyhow::Result<Load> {
    let mut load = Load::new(Guest::Timed(clock));
    load.vcpus = vcpus;
    load.length = Length::Duration(trial.length);
    load.rhythm.spec = gaps.parse::<GapSpec>()?;
    load.rhythm.seed = trial.seed;
    "exitless-timer".clone_into(&mut load.name);
    if trial.cpus.len() > 1 {
        load.vcpu_cpus = vec![trial.vcpu_cpu()];
        load.host_cpu = Some(trial.host_cpu());
    }
    Ok(load)
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    let (group, _, clock, pace) = VARIANTS[trial.variant];
    let (_, vcpus, gaps) = GROUPS[group];
    let load = load(trial, clock, vcpus, gaps)?;
    let start = |vms: &[Vm]| {
        let tsc_khz = vms.first().context("there is no VM")?.vcpus[0].tsc_khz()?;
        let agent = pace.map(|pace| thread::start(vms, tsc_khz, pace, load.host_cpu));
        let memories: Vec<_> = vms.iter().map(|vm| vm.memory.clone()).collect();
        Ok((memories, agent.transpose()?, tsc_khz))
    };
    let (finished, (memories, agent, tsc_khz)) = run_beside(&load, &trial.interrupt, start)?;
    let report = agent.map(HostThread::end).transpose()?;
    let guest = lateness::read(&memories, &finished, clock, tsc_khz)?;
    let ran = Ran {
        outcome: finished.outcome,
        guest,
        report,
    };
    let report = ran.report.as_ref();
    let block = figures(Block::of(ran.outcome.vcpus()), &ran);
    Ok(Block {
        note: report.filter(|_| pace == SPINS).and_then(short_of_cpu),
        ..block
    })
}

struct Ran {
    outcome: Outcome,
    guest: lateness::Timers,
    report: Option<AgentReport>,
}

impl Ran {
    fn each(&self, total: impl Into<Option<f64>>) -> Option<f64> {
        Some(total.into()? / self.guest.came as f64)
    }

    fn late_us(&self, of: fn(&Quantiles) -> u64) -> Option<f64> {
        let late = Quantiles::of(self.guest.late_ns.clone())?;
        Some(of(&late) as f64 / 1e3)
    }

    fn agent_percent(&self) -> f64 {
        let percent = |it: &AgentReport| 100.0 * it.cpu_ns as f64 / it.elapsed_ns as f64;
        self.report.as_ref().map_or(0.0, percent)
    }
}

/// An agent that shall look all the time, and does not get the CPU for it, is late.
fn short_of_cpu(report: &AgentReport) -> Option<String> {
    let percent = report.cpu_ns.saturating_mul(100) / report.elapsed_ns.max(1);
    (percent < ENOUGH_PERCENT).then(|| {
        format!(
            "others wanted the agent's CPU, it had {percent} % of it in a round: lateness is theirs"
        )
    })
}

fn conclude(results: &Results<'_>) -> Conclusion {
    account(results).into_iter().collect()
}

/// Where a timer's cost lies.
fn account(results: &Results<'_>) -> Option<String> {
    let of = |name: &str, figure: &str| results.median(ONE, name, figure);
    Some(format!(
        "for each timer of one vCPU, TSC deadline against a spinning agent: {:.2} and {:.2} writes that KVM \
         handled, {:.2} and {:.2} exits, {:.1} and {:.1} emulated instructions, {:.1} and {:.1} us of the \
         vCPU's thread; a PIT that ticks by itself is written to {:.2} times",
        of(DEADLINE, "timer-writes")?,
        of(AGENT_SPINS, "timer-writes")?,
        of(DEADLINE, "exits")?,
        of(AGENT_SPINS, "exits")?,
        of(DEADLINE, "emulated")?,
        of(AGENT_SPINS, "emulated")?,
        of(DEADLINE, "cpu")?,
        of(AGENT_SPINS, "cpu")?,
        of(PIT, "timer-writes")?,
    ))
}
