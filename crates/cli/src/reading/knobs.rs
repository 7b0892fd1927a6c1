//! The parameters in force when a recording began.

use haltwise_core::event::{Knob, KnobScope};
use haltwise_core::kvm::{Arch, Knobs, Version};

/// The module parameters in force when a recording began; what it does not tell is as that kernel has
/// it by itself, and named.
pub(crate) fn knobs_of(told: &[Knob], version: Version, arch: Arch) -> (Knobs, Vec<&'static str>) {
    let mut knobs = Knobs::defaults(version, arch);
    let mut assumed = Vec::new();
    let fields: [(&'static str, &mut u32); 4] = [
        ("halt_poll_ns", &mut knobs.halt_poll_ns),
        ("halt_poll_ns_grow", &mut knobs.grow),
        ("halt_poll_ns_grow_start", &mut knobs.grow_start),
        ("halt_poll_ns_shrink", &mut knobs.shrink),
    ];
    for (name, field) in fields {
        let is_it = |knob: &&Knob| knob.scope == KnobScope::Host && knob.name == name;
        let value = told.iter().find(is_it);
        match value.and_then(|knob| knob.value.trim().parse().ok()) {
            Some(value) => *field = value,
            None => assumed.push(name),
        }
    }
    (knobs, assumed)
}
