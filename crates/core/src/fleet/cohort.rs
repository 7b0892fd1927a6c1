//! By what VMs are put together: what is known of their hosts, and of themselves.

use std::fmt;
use std::str::FromStr;

use crate::costs::table::{Host, VmOf};
use crate::replay::{Cost, GoalName};

/// Property that the VMs of a cohort have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    Kernel,
    Cpu,
    Arch,
    Host,
    Vmm,
    Class,
    Goal,
    Label(String),
}

/// A text that names nothing to put VMs together by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is none of kernel, cpu, arch, host, vmm, class, goal and label:KEY")]
pub struct UnknownBy;

/// Each but labels, by its name.
const NAMES: [(&str, By); 7] = [
    ("kernel", By::Kernel),
    ("cpu", By::Cpu),
    ("arch", By::Arch),
    ("host", By::Host),
    ("vmm", By::Vmm),
    ("class", By::Class),
    ("goal", By::Goal),
];

impl FromStr for By {
    type Err = UnknownBy;

    fn from_str(text: &str) -> Result<Self, UnknownBy> {
        if let Some((_, by)) = NAMES.into_iter().find(|(name, _)| *name == text) {
            return Ok(by);
        }
        let key = text.strip_prefix("label:").filter(|key| !key.is_empty());
        key.map(|key| Self::Label(key.to_owned())).ok_or(UnknownBy)
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(key) => write!(f, "label:{key}"),
            _ => (NAMES.iter().find(|(_, by)| by == self)).map_or(Ok(()), |(name, _)| f.pad(name)),
        }
    }
}

/// Properties that the VMs of a cohort have in common, in the order asked for; `None` where one is not known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cohort(pub Vec<Option<String>>);

impl Cohort {
    pub fn of(by: &[By], host: &Host, vm: &VmOf) -> Self {
        let one = |by: &By| match by {
            By::Kernel => Some(host.kernel.clone()),
            By::Cpu => host.cpu_model.clone(),
            By::Arch => Some(host.arch.clone()),
            By::Host => Some(host.name.clone()),
            By::Vmm => vm.vmm.clone(),
            By::Class => vm.class.clone(),
            By::Goal => vm.goal.clone(),
            By::Label(key) => host.labels.get(key).cloned(),
        };
        Self(by.iter().map(one).collect())
    }

    /// Its name: the values with a blank and a slash between them; `all` where nothing was asked for.
    pub fn name(&self) -> String {
        let values = self.0.iter();
        let values = values.map(|value| value.as_deref().unwrap_or("(none)"));
        let name = values.collect::<Vec<_>>().join(" / ");
        if name.is_empty() {
            "all".to_owned()
        } else {
            name
        }
    }
}

/// Costs for a VM on a host: latency counts by the VM's goal, or as much as for all VMs.
pub(super) fn cost(host: &Host, vm: &VmOf, of_all_milli: u64) -> Cost {
    let goal = vm.goal.as_deref().and_then(GoalName::from_name);
    Cost {
        switch_cpu_ns: host.switch_cpu_ns,
        latency_weight_milli: goal.map_or(of_all_milli, GoalName::weight_milli),
        ..Cost::FREE
    }
}
