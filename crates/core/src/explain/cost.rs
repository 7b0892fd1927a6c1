//! Cost of a finding: CPU time and wake-up latency, in one unit.
//!
//! The unit is `tune`'s: nanoseconds of CPU time, in which a nanosecond of wake-up latency is worth what
//! the goal says (`density` 0, `balanced` 1, `latency` 10). Both are taken in each second of the recording,
//! so that findings of any kind, and recordings of any length, can be ordered by one number.

use serde::Serialize;

use super::STORM_PER_S;
use crate::account::Account;
use crate::replay::cost::Assumed;

/// CPU time that an exit and the work around it take at the least: about 2000 cycles for the way out and in
/// alone (`SplitX`, 2011), and some more for what KVM does meanwhile.
pub(super) const EXIT_NS: f64 = 2_000.0;

/// Findings of a rule that together cost less are counted and not shown: 0.2 % of one CPU. That is what the
/// slowest storm costs at the least (`STORM_PER_S` exits of `EXIT_NS`), or the 1000 Hz tick of one idle
/// guest: no rule calls anything smaller worth a look.
pub const SHOWN_FROM_NS_PER_S: f64 = STORM_PER_S * EXIT_NS;

/// CPU time and wake-up latency in each second of the recording, of all vCPUs concerned together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    pub cpu_ns_per_s: f64,
    /// Time that woken vCPUs wait until they run, in nanoseconds.
    pub latency_ns_per_s: f64,
}

impl Cost {
    pub(super) const NONE: Self = Self {
        cpu_ns_per_s: 0.0,
        latency_ns_per_s: 0.0,
    };

    pub fn cpu(ns_per_s: f64) -> Self {
        Self {
            cpu_ns_per_s: ns_per_s,
            ..Self::NONE
        }
    }

    pub fn latency(ns_per_s: f64) -> Self {
        Self {
            latency_ns_per_s: ns_per_s,
            ..Self::NONE
        }
    }

    pub fn sum(costs: impl Iterator<Item = Self>) -> Self {
        costs.fold(Self::NONE, |sum, cost| Self {
            cpu_ns_per_s: sum.cpu_ns_per_s + cost.cpu_ns_per_s,
            latency_ns_per_s: sum.latency_ns_per_s + cost.latency_ns_per_s,
        })
    }

    /// In nanoseconds of CPU time, where one of latency is worth `weight`.
    pub fn weighed(&self, weight: f64) -> f64 {
        self.cpu_ns_per_s + weight * self.latency_ns_per_s
    }

    /// The larger of the two by that weight, as the one number that schema 1 has for a gain.
    pub fn gain(&self, weight: f64) -> Gain {
        if weight * self.latency_ns_per_s > self.cpu_ns_per_s || self.cpu_ns_per_s <= 0.0 {
            Gain {
                of: Of::Latency,
                ns_per_s: self.latency_ns_per_s,
            }
        } else {
            Gain {
                of: Of::Cpu,
                ns_per_s: self.cpu_ns_per_s,
            }
        }
    }
}

/// Upper bound on the gain of a remedy: the cost of the cause in the recording, of which a remedy seldom saves all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    pub of: Of,
    /// Nanoseconds of it in each second of the recording.
    pub ns_per_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    Cpu,
    Latency,
}

/// CPU time that the sleeps of an account took to go to sleep and wake. A capture does not hold it: what
/// `tune` assumes where nothing was measured.
pub(super) fn switches_ns(account: &Account) -> u64 {
    let shortest_ns = account.wake_latency_ns.percentile(0.1).unwrap_or(0);
    let assumed = Assumed::of_shortest_sleeps(shortest_ns);
    account.waits.saturating_mul(assumed.switch_cpu_ns)
}
