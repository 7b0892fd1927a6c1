//! Findings of a run: the shape of `haltwise-lab run --json`.
//!
//! Other tools and tests read this. Fields are added, never renamed or removed, within one [`SCHEMA`].

use std::collections::BTreeMap;

use haltwise_core::hist::KvmHist;
use haltwise_core::stats::percentile_of_sorted;
use serde::{Deserialize, Serialize};

use crate::guest_poll::GuestPollCounts;
use crate::halt_loop::UserHalt;

pub const SCHEMA: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndedBy {
    Rounds,
    Duration,
    Signal,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub schema: u32,
    pub guest: String,
    /// The seed that the gaps were drawn with.
    pub seed: u64,
    /// The gap process, as it can be given again.
    pub gap: String,
    /// `spin`, `block` or `device`, where the host wakes the guest.
    pub host_wait: Option<String>,
    /// The policy by which the VMM handled halts, if it did.
    #[serde(default)]
    pub halt_loop: Option<String>,
    /// How the guest polled, if it did.
    #[serde(default)]
    pub guest_poll: Option<String>,
    pub ended_by: EndedBy,
    /// From the start of the first vCPU to the end of the last.
    pub elapsed_ns: u64,
    pub vms: Vec<VmOutcome>,
}

impl Outcome {
    pub fn vcpus(&self) -> impl Iterator<Item = &VcpuOutcome> {
        self.vms.iter().flat_map(|vm| &vm.vcpus)
    }

    /// A count over all vCPUs; `None` where one does not have it.
    pub fn sum(&self, of: impl Fn(&VcpuOutcome) -> Option<u64>) -> Option<f64> {
        let sum = self.vcpus().map(of).sum::<Option<u64>>();
        sum.map(|sum| sum as f64)
    }

    /// A statistic of KVM's over all vCPUs.
    pub fn stat(&self, name: &str) -> Option<f64> {
        self.sum(|vcpu| vcpu.stat(name))
    }

    /// CPU of the vCPU threads, in microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.vcpus().map(|vcpu| vcpu.cpu_ns).sum::<u64>() as f64 / 1e3
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VmOutcome {
    pub name: String,
    /// The process that ran it: the same for all VMs of a run.
    pub pid: u32,
    /// The ceiling it was given; the module parameter was in force if `None`.
    pub vm_max_halt_poll_ns: Option<u32>,
    pub vcpus: Vec<VcpuOutcome>,
    /// From signal to answer, over all vCPUs, where the host wakes the guest.
    pub round_trip_ns: Option<Quantiles>,
    pub gap_ns: Option<Quantiles>,
    /// From signal to the guest's first instruction, where it stamps that.
    pub wake_latency_ns: Option<Quantiles>,
    /// The VM's own statistics, by KVM's names; empty if the kernel keeps none.
    pub stats: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct VcpuOutcome {
    pub id: u32,
    pub tid: u32,
    pub halts: u64,
    /// Interrupts taken, as the guest counted them.
    pub interrupts: u64,
    /// Rounds played, where the host wakes the guest.
    pub rounds: Option<u64>,
    /// CPU time of its thread in `KVM_RUN` and the run loop.
    pub cpu_ns: u64,
    /// Context switches because it waited.
    pub voluntary_switches: Option<u64>,
    /// Context switches because another thread was given the CPU.
    pub involuntary_switches: Option<u64>,
    /// Exits by kind: those to the VMM as it counted them, the others as the guest counted them.
    pub exits: BTreeMap<String, u64>,
    /// Growth of each single statistic (states: the value at the end), by KVM's names.
    pub stats: BTreeMap<String, u64>,
    pub hist: BTreeMap<String, KvmHist>,
    /// Halts that the VMM handled, if it did.
    #[serde(default)]
    pub user_halts: Option<UserHaltCounts>,
    /// Counts by the guest of its own polling, if the guest polls.
    #[serde(default)]
    pub guest_poll: Option<GuestPollCounts>,
}

/// Sums over the halts of one vCPU that the VMM handled; names as in KVM's statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UserHaltCounts {
    pub halts: u64,
    pub waits: u64,
    /// Those that polled: their window was not 0.
    pub halt_attempted_poll: u64,
    /// Those that polled and did not sleep.
    pub halt_successful_poll: u64,
    pub halt_poll_success_ns: u64,
    pub halt_poll_fail_ns: u64,
}

impl UserHaltCounts {
    pub fn of(halts: &[UserHalt]) -> Self {
        let mut sum = Self::default();
        for UserHalt {
            window_ns, seen, ..
        } in halts
        {
            let polled = *window_ns > 0;
            sum.halts += 1;
            sum.waits += u64::from(seen.waited);
            sum.halt_attempted_poll += u64::from(polled);
            sum.halt_successful_poll += u64::from(polled && !seen.waited);
            if seen.waited {
                sum.halt_poll_fail_ns += seen.poll_ns;
            } else {
                sum.halt_poll_success_ns += seen.poll_ns;
            }
        }
        sum
    }
}

impl VcpuOutcome {
    /// Halts that were scheduled out, by the stats fd's histogram; `None` before 5.15.
    pub fn waits(&self) -> Option<u64> {
        self.hist.get("halt_wait_hist").map(KvmHist::count)
    }

    /// A statistic of KVM's; `None` if the kernel does not keep it.
    pub fn stat(&self, name: &str) -> Option<u64> {
        self.stats.get(name).copied()
    }
}

/// Order statistics of some times, and their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    pub count: u64,
    #[serde(default)]
    pub mean: u64,
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
    pub max: u64,
}

impl Quantiles {
    /// Quantiles of times in any order; `None` if there are no times.
    pub fn of(mut times: Vec<u64>) -> Option<Self> {
        times.sort_unstable();
        let at = |p| percentile_of_sorted(&times, p);
        let sum: u128 = times.iter().map(|&ns| u128::from(ns)).sum();
        let mean = sum.checked_div(times.len() as u128).unwrap_or(0);
        Some(Self {
            count: times.len() as u64,
            mean: u64::try_from(mean).unwrap_or(u64::MAX),
            p50: at(0.5)?,
            p95: at(0.95)?,
            p99: at(0.99)?,
            max: at(1.0)?,
        })
    }
}
