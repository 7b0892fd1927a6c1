//! The plan file: a setting of KVM's module parameters, or of a guest's governor, that `tune` recommends and `apply`
//! writes.
//!
//! `docs/plan-json.md` describes it. A plan is data: nothing here reads or writes a parameter. The
//! reader is strict, because what it lets through is written to a kernel: a field that is missing,
//! unknown or out of range is an error that says which.

mod file;

use haltwise_core::parameter::Values;
use haltwise_core::recording::Side;
use haltwise_document::figures;
use serde::{Deserialize, Serialize};

pub(crate) const SCHEMA: &str = "haltwise-plan";

/// The version of a plan for a host.
pub(crate) const VERSION: u32 = 1;

/// That of a plan for a guest: readers of before refuse it.
pub(crate) const VERSION_OF_GUEST: u32 = 2;

/// A plan. A field that may be `null` must be there all the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) schema: String,
    pub(crate) version: u32,
    pub(crate) tool: Tool,
    pub(crate) capture: Basis,
    pub(crate) goal: TuneGoal,
    pub(crate) scope: Scope,
    pub(crate) before: Values,
    /// The parameters as they shall be; none to leave everything as it is.
    pub(crate) settings: Values,
    /// Ceilings of VMs; the field is there where `scope` is [`Scope::HostAndVms`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ceilings: Vec<PlannedCeiling>,
    /// Expected changes against [`Plan::before`]; `None` where nothing changes.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) expected: Option<Expected>,
    pub(crate) reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// Properties that distinguish a recording: where and when it was made, not where its files lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Basis {
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) hostname: Option<String>,
    pub(crate) kernel_release: String,
    pub(crate) arch: String,
    /// When the recording began, in nanoseconds since 1970 (UTC); 0 where that is not known.
    pub(crate) started_unix_ns: u64,
    /// When it ended, by the same count; `None` where it was cut.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) ended_unix_ns: Option<u64>,
    pub(crate) halts: u64,
}

figures! {
    /// Goal that was asked for, and that a plan is to meet.
    #[derive(Clone, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct TuneGoal {
        /// Its name.
        pub(crate) name: String = Name,
        /// Nanoseconds of CPU for one of latency.
        pub(crate) lambda: f64 = Real,
        /// The most that polling may take.
        #[serde(deserialize_with = "Option::deserialize")]
        pub(crate) max_poll_cpu_percent: Option<f64> = CpuPercent,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scope {
    /// KVM's module parameters: every VM of the host.
    Host,
    HostAndVms,
    /// The guest that was recorded: parameters of its governor haltpoll.
    Guest,
}

impl Scope {
    pub(crate) fn version(self) -> u32 {
        match self {
            Self::Host | Self::HostAndVms => VERSION,
            Self::Guest => VERSION_OF_GUEST,
        }
    }

    pub(crate) fn side(self) -> Side {
        match self {
            Self::Host | Self::HostAndVms => Side::Host,
            Self::Guest => Side::Guest,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlannedCeiling {
    pub(crate) vm: String,
    pub(crate) halt_poll_ns: u32,
    pub(crate) goal: String,
    /// Worth of a nanosecond of wake-up latency to the VM, in nanoseconds of CPU.
    pub(crate) lambda: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    pub(crate) interval: Interval,
    pub(crate) halts: u64,
    /// Cost by the goal, in nanoseconds of CPU per halt.
    pub(crate) cost_ns_per_halt: Effect,
    /// Polling, in % of one CPU for all vCPUs together.
    pub(crate) poll_cpu_percent: Effect,
    pub(crate) wake_latency_mean_ns: Effect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Interval {
    /// It holds the true change in 95 of 100 repetitions (bootstrap over blocks of time).
    #[serde(rename = "confidence-95")]
    Confidence95,
    /// The change lies in it whatever the histogram hides.
    #[serde(rename = "bounds")]
    Bounds,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Effect {
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// Lower end of the interval of `after - before`.
    pub(crate) change_low: f64,
    pub(crate) change_high: f64,
}

impl Plan {
    pub(crate) fn leaves_it(&self) -> bool {
        self.settings.is_empty() && self.ceilings.is_empty()
    }
}

#[cfg(test)]
mod test;
