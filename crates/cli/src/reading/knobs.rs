//! The parameters in force when a recording began.

use haltwise_core::event::Knob;
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::parameter::{Parameter, Values};

/// The module parameters in force when a recording began; what it does not tell is as that kernel has
/// it by itself, and named.
pub(crate) fn knobs_of(told: &[Knob], version: Version, arch: Arch) -> (Knobs, Vec<&'static str>) {
    let recorded = Values::recorded(told);
    let lacks = |it: &Parameter| recorded.get(*it).is_none();
    let assumed = Parameter::HOST.into_iter().filter(lacks);
    let knobs = recorded.over(Knobs::defaults(version, arch));
    (knobs.into(), assumed.map(Parameter::name).collect())
}
