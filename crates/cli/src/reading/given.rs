//! KVM's parameters as a command line gives them, where a recording does not have them.

use haltwise_core::event::Knob;
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::parameter::{Parameter, Values};

use crate::time;

#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct GivenParameters {
    /// Module parameter `halt_poll_ns`: 200us or 200000 [default: recorded, else unknown]
    #[arg(long, value_name = "TIME", value_parser = time::parameter)]
    pub(crate) max: Option<u32>,
    /// Module parameter `halt_poll_ns_grow` [default: recorded, else unknown]
    #[arg(long, value_name = "N")]
    pub(crate) grow: Option<u32>,
    /// Module parameter `halt_poll_ns_grow_start` [default: recorded, else unknown]
    #[arg(long, value_name = "TIME", value_parser = time::parameter)]
    pub(crate) grow_start: Option<u32>,
    /// Module parameter `halt_poll_ns_shrink` [default: recorded, else unknown]
    #[arg(long, value_name = "N")]
    pub(crate) shrink: Option<u32>,
    /// Ceiling of every VM (`KVM_CAP_HALT_POLL`) [default: recorded, else unknown]
    #[arg(long, value_name = "TIME", value_parser = time::parameter)]
    pub(crate) cap: Option<u32>,
}

impl GivenParameters {
    pub(crate) fn values(self) -> Values {
        let given = [self.max, self.grow, self.grow_start, self.shrink];
        let known = Parameter::HOST.into_iter().zip(given);
        known.filter_map(|(it, value)| Some((it, value?))).collect()
    }
}

/// The module parameters in force when a recording began; what it does not tell is as that kernel has
/// it by itself, and named.
pub(crate) fn knobs_of(told: &[Knob], version: Version, arch: Arch) -> (Knobs, Vec<&'static str>) {
    let recorded = Values::recorded(told);
    let lacks = |it: &Parameter| recorded.get(*it).is_none();
    let assumed = Parameter::HOST.into_iter().filter(lacks);
    let knobs = recorded.over(Knobs::defaults(version, arch));
    (knobs.into(), assumed.map(Parameter::name).collect())
}
