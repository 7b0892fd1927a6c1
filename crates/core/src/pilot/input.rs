//! Input of the pilot: its configuration, and readings of the host and of its VMs.

use serde::{Deserialize, Serialize};

use crate::ids::VmKey;
use crate::kvm::Knobs;
use crate::replay::GoalName;

/// Target of a setting: the ceiling of one VM, or the host's parameters for all VMs that follow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    Vm(VmKey),
    #[default]
    Host,
}

/// A reading of the machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Seen {
    pub host: HostSeen,
    pub vms: Vec<VmSeen>,
    /// Whether these readings hold new counts; if so, a VM without counts could not be read.
    pub counted: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostSeen {
    /// Its parameters; `None` where they cannot be read.
    pub knobs: Option<Knobs>,
    pub is_writable: bool,
    /// Parameters that this program has set, and the parameters before, as the journal has them.
    pub held: Option<Held<Knobs>>,
    pub cpus: u32,
    /// CPUs that were busy, on average since the last reading; `None`: not known yet.
    pub busy_cpus: Option<f64>,
    /// How long tasks waited for a CPU (PSI).
    pub cpu_pressure: Pressure,
    pub sched_ext: bool,
    /// CPU time that this program has taken since it started, with its programs in the kernel.
    pub own_cpu_ns: u64,
}

/// CPU pressure (PSI), as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Pressure {
    /// Not yet, or not just now: it is the difference of two readings.
    #[default]
    NotYet,
    NotThere,
    /// Share of the time since the last reading for which some task waited for a CPU.
    Share(f64),
}

impl Pressure {
    pub fn share(self) -> Option<f64> {
        match self {
            Self::Share(share) => Some(share),
            Self::NotYet | Self::NotThere => None,
        }
    }
}

/// The journal's record of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held<S> {
    pub before: S,
    pub ours: S,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct VmSeen {
    pub key: VmKey,
    pub name: String,
    pub vcpus: u64,
    pub goal: Option<Goal>,
    pub ceiling: Ceiling,
    /// Its VMM has answered; if not, the ceiling is what it said, or was set, before.
    pub has_answered: bool,
    /// Ceiling that this program has set, and the ceiling before, as the journal has them.
    pub held: Option<Held<u32>>,
    /// Its guest polls by itself before it halts, or does not let its host poll: the host's ceiling decides little.
    pub polls_itself: bool,
    /// Events counted since the last counts.
    pub counts: Option<Counts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ceiling {
    /// It can be set, and follows `halt_poll_ns`.
    #[default]
    Follows,
    /// It can be set, and has this of its own, in nanoseconds.
    Own(u32),
    /// It cannot be set, and follows `halt_poll_ns`.
    Fixed,
}

impl Ceiling {
    /// The VM's own ceiling; `None`: the host's parameter decides it.
    pub fn own(self) -> Option<u32> {
        match self {
            Self::Own(ns) => Some(ns),
            Self::Follows | Self::Fixed => None,
        }
    }
}

/// KVM's counts of a VM over an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub interval_ns: u64,
    pub halts: u64,
    /// Those of them that slept.
    pub blocks: u64,
    pub poll_ns: u64,
    pub failed_poll_ns: u64,
    pub halt_ns: u64,
}

/// No vCPU halts oftener: an exit and an entry alone take longer (1.2 us on the fastest hardware of
/// `docs/cost.md`).
const SHORTEST_HALT_NS: u64 = 100;

/// No poll is longer: the longest ceiling that `tune` looks at.
const LONGEST_POLL_NS: u64 = 2_000_000;

impl Counts {
    /// Whether a VM of so many vCPUs can have counted that. What cannot be is no reading.
    pub fn is_possible(&self, vcpus: u64) -> bool {
        let time_ns = self.interval_ns.saturating_mul(vcpus.max(1));
        let most_poll_ns = time_ns.saturating_add(vcpus.saturating_mul(LONGEST_POLL_NS));
        self.interval_ns > 0
            && self.halts <= time_ns / SHORTEST_HALT_NS
            && self.blocks <= self.halts
            && self.poll_ns <= most_poll_ns
            && self.failed_poll_ns <= self.poll_ns
    }

    pub fn polled_cpus(&self) -> f64 {
        self.per_s(self.poll_ns) / 1e9
    }

    pub fn per_s(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.interval_ns.max(1) as f64
    }
}

/// Weight of latency for a VM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// `density`, `balanced`, `latency`, or `lambda` for a number of the user's own.
    pub name: String,
    /// Weight of a nanosecond of wake-up latency, in thousandths of a nanosecond of CPU.
    pub weight_milli: u64,
}

impl Default for Goal {
    fn default() -> Self {
        Self {
            name: GoalName::Balanced.as_str().to_owned(),
            weight_milli: GoalName::Balanced.weight_milli(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoalOfVms {
    /// A name of the VM, or a pattern with `*` and `?`.
    pub pattern: String,
    /// Their goal; `None`: the pilot leaves them alone.
    pub goal: Option<Goal>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Goals {
    pub of_all: Goal,
    /// By pattern; the first that fits counts.
    pub of_vms: Vec<GoalOfVms>,
}

impl Goals {
    /// The goal of a VM with these names; `None` where the pilot is to leave it alone. `fits` compares a name with
    /// a pattern.
    pub fn of(&self, names: &[&str], fits: impl Fn(&str, &str) -> bool) -> Option<&Goal> {
        let is_its = |it: &&GoalOfVms| names.iter().any(|name| fits(name, &it.pattern));
        match self.of_vms.iter().find(is_its) {
            Some(its) => its.goal.as_ref(),
            None => Some(&self.of_all),
        }
    }
}

/// Limits of the pilot. The defaults hold for a host whose configuration says no more than the goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// It may change settings; if not, it says what it would do.
    pub may_act: bool,
    pub ceilings: bool,
    pub parameters: Parameters,
    /// The most that polling may take, in % of one CPU for all VMs together.
    pub max_poll_cpu_percent: Option<f64>,
    /// The highest ceiling that it may set, in nanoseconds.
    pub max_ceiling_ns: u32,
}

/// Whether the host's parameters may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameters {
    Never,
    /// While no VM follows them that is to be left alone.
    Unshared,
    Shared,
}

/// The highest ceiling that `tune` looks at: a poll of 2 ms is longer than any wake-up that it could save
/// (`tune::candidates`).
const HIGHEST_NS: u32 = 2_000_000;

impl Default for Limits {
    fn default() -> Self {
        Self {
            may_act: false,
            ceilings: true,
            parameters: Parameters::Unshared,
            max_poll_cpu_percent: None,
            max_ceiling_ns: HIGHEST_NS,
        }
    }
}
