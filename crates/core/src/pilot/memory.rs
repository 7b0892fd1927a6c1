//! State that the pilot has to know after a restart.

use serde::{Deserialize, Serialize};

use super::errors::Errors;
use super::input::Scope;
use super::regret::Regret;
use crate::ids::VmKey;
use crate::kvm::Knobs;
use crate::stats::Interval;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Memory {
    pub targets: Vec<OfTarget>,
    /// How far predictions were off.
    pub errors: Errors,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfTarget {
    pub scope: Scope,
    pub found: Knobs,
    /// The setting that the pilot has set, or was about to set.
    pub set: Option<Knobs>,
    /// A trial was under way, or a setting was not restored yet: what was in force before.
    pub trial_from: Option<Knobs>,
    #[serde(flatten)]
    pub known: Known,
    /// How long ago it was changed, within the last hour, in nanoseconds.
    pub changed_ago_ns: Vec<u64>,
    /// For how long nothing is tried.
    pub waits_ns: u64,
    /// Another program has set it since: it is left alone until asked again.
    pub hands_off: bool,
    /// Weight of latency for each of its VMs, in thousandths of CPU: what is known is by these weights.
    #[serde(default)]
    pub goals: Vec<(VmKey, u64)>,
}

/// Measurements of a target, which count for the goals of its VMs alone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Known {
    /// Measured effect of the setting kept.
    pub measured: Option<Interval>,
    /// Loss and gain so far.
    pub regret: Regret,
    /// How often in a row a trial has failed.
    pub failed: u32,
    /// Settings proven in earlier phases.
    pub proven: Vec<Proven>,
}

/// A setting that was proven, and for which load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Proven {
    /// Logarithms of the mean gap, and of halts in a second.
    pub load: [f64; 2],
    pub knobs: Knobs,
    /// Measured effect of the setting, as a share.
    pub measured: Interval,
}

/// Settings that are kept of one target.
const PROVEN: usize = 16;

/// Loads that differ by less than this factor, as a logarithm, are alike: a quarter, as much as lies between two
/// ceilings that are looked at.
const ALIKE: f64 = 0.25;

impl Proven {
    /// Whether it was proven for such a load.
    pub fn is_for(&self, load: [f64; 2]) -> bool {
        self.load
            .iter()
            .zip(load)
            .all(|(own, load)| (own - load).abs() <= ALIKE)
    }

    /// Adds it; what was known of such a load goes, and the oldest where there are too many.
    pub fn keep(self, proven: &mut Vec<Self>) {
        proven.retain(|other| !other.is_for(self.load));
        proven.push(self);
        if proven.len() > PROVEN {
            proven.remove(0);
        }
    }
}
