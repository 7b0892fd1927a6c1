//! Content of a configuration: goals, and the limits of the pilot. Nothing else is asked of a user.

use serde::{Deserialize, Serialize};

use crate::replay::GoalName;

/// Weight of latency for a VM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// `density`, `balanced`, `latency`, or `lambda` for a number of the user's own.
    pub name: String,
    /// Weight of a nanosecond of wake-up latency, in thousandths of a nanosecond of CPU.
    pub weight_milli: u64,
}

impl Default for Goal {
    /// Both count the same.
    fn default() -> Self {
        Self {
            name: GoalName::Balanced.as_str().to_owned(),
            weight_milli: GoalName::Balanced.weight_milli(),
        }
    }
}

/// The goal of VMs whose name is like a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoalOfVms {
    /// A name of the VM, or a pattern with `*` and `?`.
    pub pattern: String,
    /// Their goal; `None`: the pilot leaves them alone.
    pub goal: Option<Goal>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Goals {
    /// Goal of VMs that no pattern fits.
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
    /// It may set ceilings of VMs.
    pub ceilings: bool,
    /// Whether it may set the host's parameters.
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
    /// Always.
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
