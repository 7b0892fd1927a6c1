//! The command line, and what it becomes.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueEnum};
use haltwise_core::policy::Spec;
use haltwise_core::units::{HaltPollNs, Nanos};
use haltwise_core::workload::{GapSpec, parse_trace};
use haltwise_lab::calibrate::Plan;
use haltwise_lab::clock::{self, HostWait};
use haltwise_lab::guest::Guest;
use haltwise_lab::guest_poll::GuestPoll;
use haltwise_lab::halt_loop::HaltPolicy;
use haltwise_lab::load::{Length, Load};

const RUN_EXAMPLES: &str = "\
EXAMPLES:
  haltwise-lab run pingpong --gap exp:60us --cap 50us
  haltwise-lab run pingpong --vms 2 --vcpus 2 --duration 5s --name web
  haltwise-lab run tick --gap bimodal:0.8:100us:2ms --rounds 5000 --json
  haltwise-lab run exits --rounds 3
  haltwise-lab run pingpong --halt-loop kvm:max=4ms";

/// Boots guests of a few instructions on real KVM and counts what they do
#[derive(Debug, Parser)]
#[command(version, help_expected = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Runs a guest and prints what it did
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Measures what halting costs on this host: wake-up latency, CPU of a wait, a HLT round trip
    Calibrate(CalibrateArgs),
    /// Lists the guests
    List {
        /// Print each guest's disassembly too
        #[arg(short, long)]
        verbose: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// A rough idea in less than ten seconds, instead of a good one in less than sixty
    #[arg(long)]
    quick: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// CPU of the vCPU [default: the last that we may use]
    #[arg(long, value_name = "CPU")]
    pin: Option<u32>,
    /// CPU of the host's thread [default: the first that we may use]
    #[arg(long, value_name = "CPU")]
    host_pin: Option<u32>,
}

impl CalibrateArgs {
    /// The plan for this host: vCPU and host as far apart as we are allowed.
    pub(crate) fn plan(&self) -> anyhow::Result<Plan> {
        let cpus = clock::allowed_cpus().context("read our CPU affinity")?;
        let vcpu_cpu = self.pin.or(cpus.last().copied()).unwrap_or(0);
        let host_cpu = self.host_pin.or(cpus.first().copied()).unwrap_or(0);
        Ok(Plan::new(self.quick, vcpu_cpu, host_cpu))
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The guest: pingpong, tick, ipi, idle, exits and others (see list)
    pub(crate) guest: Guest,
    /// VMs at once
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) vms: u32,
    /// vCPUs of each VM [default: 2 for ipi, else 1]
    #[arg(long, value_name = "N")]
    pub(crate) vcpus: Option<u32>,
    /// End after so many rounds on each vCPU [default: by guest]
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    pub(crate) rounds: Option<u32>,
    /// End after this time instead (10s, 1m)
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,
    /// Time between wake-ups: fixed:50us, uniform:5us:400us, exp:60us, bimodal:0.8:15us:2ms,
    /// phases:20us*200:3ms*50, trace:FILE [default: by guest]
    #[arg(long, value_name = "SPEC")]
    pub(crate) gap: Option<GapSpec>,
    /// Change the time between wake-ups of each VM while it runs: to these, in turn and again and again
    /// (fixed:20ms,exp:60us); tick and timed guests only
    #[arg(
        long,
        value_name = "SPEC",
        value_delimiter = ',',
        conflicts_with = "gap"
    )]
    pub(crate) gaps: Vec<GapSpec>,
    /// How long each of --gaps lasts
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "gaps")]
    pub(crate) gaps_every: Nanos,
    /// Seed of the gaps; each further vCPU (timer guests: VM) takes the next seed
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Ceiling of halt polling of each VM (`KVM_CAP_HALT_POLL`): 50us, 50000 (nanoseconds), 0 or
    /// off [default: the module parameter in force]
    #[arg(long, value_name = "TIME|off", value_parser = cap)]
    pub(crate) cap: Option<HaltPollNs>,
    /// Change the ceiling of each VM while it runs: to these, in turn and again and again (0,50us)
    #[arg(long, value_name = "TIME|off", value_parser = cap, value_delimiter = ',')]
    pub(crate) caps: Vec<HaltPollNs>,
    /// How long each of --caps lasts
    #[arg(long, value_name = "TIME", default_value = "100ms", requires = "caps")]
    pub(crate) caps_every: Nanos,
    /// Handle halts in the VMM, by this policy (off, fixed:50us, kvm:max=200us, leader, …; `haltwise
    /// tune --policies` lists them); pingpong only
    #[arg(long, value_name = "POLICY", conflicts_with_all = ["cap", "caps"])]
    pub(crate) halt_loop: Option<Spec>,
    /// How `poller` polls: off, fixed:always, guest-haltpoll or smart-idle-poll, with arguments as
    /// `haltwise tune --policies` lists them [default: guest-haltpoll]
    #[arg(long, value_name = "POLICY")]
    pub(crate) guest_poll: Option<GuestPoll>,
    /// Let the host poll too for a `poller`, which else forbids it as a Linux guest does
    #[arg(long)]
    pub(crate) host_polls_too: bool,
    /// Pin vCPU threads to these CPUs in turn [default: not pinned]
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    pub(crate) pin: Vec<u32>,
    /// Pin the host's threads that wake the guests to this CPU [default: not pinned]
    #[arg(long, value_name = "CPU")]
    pub(crate) host_pin: Option<u32>,
    /// How the host waits for instants and answers; spin is exact and takes a CPU; auto spins
    /// for one vCPU on a host of two CPUs or more
    #[arg(long, default_value = "auto", value_name = "HOW")]
    pub(crate) host_wait: HostWaitArg,
    /// Take interrupts through KVM's IOAPIC, as ordinary devices do, instead of as MSIs; at most ten vCPUs
    #[arg(long, conflicts_with = "halt_loop")]
    pub(crate) ioapic: bool,
    /// Name of the VM; several are NAME-0, NAME-1 … in order of creation
    #[arg(long, default_value = "lab", value_name = "NAME")]
    pub(crate) name: String,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Write every round as CSV: vm, vcpu, round, and nanoseconds of `CLOCK_MONOTONIC`
    /// (pingpong only)
    #[arg(long, value_name = "FILE")]
    pub(crate) rounds_out: Option<PathBuf>,
    /// Fail if a vCPU makes no progress for so long
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub(crate) timeout: Nanos,
    /// Keep the VMs, halted for good, for so long after their load has ended
    #[arg(long, default_value = "0s", value_name = "TIME")]
    pub(crate) linger: Nanos,
}

fn cap(text: &str) -> Result<HaltPollNs, String> {
    if text == "off" {
        return Ok(HaltPollNs(0));
    }
    // A bare number is KVM's own: nanoseconds.
    if let Ok(ns) = text.parse() {
        return Ok(HaltPollNs(ns));
    }
    let ns = text.parse::<Nanos>().map_err(|e| e.to_string())?.0;
    let ns = u32::try_from(ns).map_err(|_| format!("`{text}` is above KVM's 4.29 s"))?;
    Ok(HaltPollNs(ns))
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum HostWaitArg {
    /// Spin for one vCPU, else block
    Auto,
    /// Keep a CPU busy
    Spin,
    /// Sleep
    Block,
    /// Sleep for answers, spin for instants: a device's thread
    Device,
}

impl RunArgs {
    pub(crate) fn load(&self) -> anyhow::Result<Load> {
        let mut load = Load::new(self.guest);
        load.vms = self.vms;
        load.vcpus = self.vcpus.unwrap_or(load.vcpus);
        if let Some(rounds) = self.rounds {
            load.length = Length::Rounds(rounds);
        }
        if let Some(duration) = self.duration {
            load.length = Length::Duration(duration);
        }
        if let Some(spec) = &self.gap {
            if let GapSpec::Trace(file) = spec {
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("read the gaps of `{file}`"))?;
                load.rhythm.trace =
                    parse_trace(&text).with_context(|| format!("read the gaps of `{file}`"))?;
            }
            load.rhythm.spec = spec.clone();
        }
        load.rhythm.seed = self.seed;
        load.vm_max_halt_poll_ns = self.cap;
        load.caps.clone_from(&self.caps);
        load.caps_every = self.caps_every;
        load.gaps.clone_from(&self.gaps);
        load.gaps_every = self.gaps_every;
        load.halt_policy = self.halt_loop.clone().map(HaltPolicy::here);
        load.guest_poll = self.guest_poll.clone().unwrap_or_default();
        load.guest_poll.host_polls = self.host_polls_too;
        load.ioapic = self.ioapic;
        load.vcpu_cpus.clone_from(&self.pin);
        load.host_cpu = self.host_pin;
        load.name.clone_from(&self.name);
        load.timeout = self.timeout;
        load.linger = self.linger;
        load.host_wait = match self.host_wait {
            HostWaitArg::Spin => HostWait::Spin,
            HostWaitArg::Block => HostWait::Block,
            HostWaitArg::Device => HostWait::Device,
            HostWaitArg::Auto => HostWait::suited_to(load.vms * load.vcpus),
        };
        Ok(load)
    }
}
