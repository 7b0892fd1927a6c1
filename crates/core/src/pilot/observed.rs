//! Targets of a reading: the setting in force of each, and the journal's record of it.

use std::collections::BTreeMap;

use super::input::{Ceiling, Held, Limits, Parameters, Scope, Seen};
use crate::ids::VmKey;
use crate::kvm::Knobs;

/// A target as the last reading that had it.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) members: Vec<VmKey>,
    pub(super) now: Knobs,
    pub(super) ceiling: Ceiling,
    /// The host's parameters as they would be without the pilot: a VM without a ceiling of its own follows them.
    pub(super) without: Knobs,
    pub(super) held: Option<Held<Knobs>>,
    /// The last reading had it, and its VMM has answered.
    pub(super) has_answered: bool,
    /// It is not to be set: its VMs are left alone, or the configuration forbids it.
    pub(super) is_excluded: bool,
}

impl Observed {
    pub(super) fn members_of<'a, M>(
        &'a self,
        all: &'a BTreeMap<VmKey, M>,
    ) -> impl Iterator<Item = &'a M> + Clone {
        self.members.iter().filter_map(|vm| all.get(vm))
    }
}

/// The targets of a reading, each with its VMs. `None` where the host's parameters were not read: then the setting in force
/// is not known.
pub(super) fn targets(seen: &Seen, limits: &Limits) -> Option<Vec<(Scope, Observed)>> {
    let knobs = seen.host.knobs?;
    let with = |halt_poll_ns| Knobs {
        halt_poll_ns,
        ..knobs
    };
    let host_held = seen.host.held;
    let without = host_held.filter(|held| held.ours == knobs);
    let without = without.map_or(knobs, |held| held.before);
    let (mut targets, mut follow) = (Vec::new(), Vec::new());
    let mut is_needed = false;
    for vm in &seen.vms {
        let is_excluded = vm.goal.is_none() || vm.polls_itself;
        let own = vm.ceiling.own();
        let is_settable = vm.ceiling != Ceiling::Fixed;
        if !is_excluded && own.is_none() {
            follow.push(vm.key);
            is_needed |= !(is_settable && limits.ceilings);
        }
        // Also of one that is excluded: an earlier run may have set it.
        if is_settable && (limits.ceilings || vm.held.is_some()) {
            let observed = Observed {
                members: vec![vm.key],
                now: own.map_or(knobs, with),
                ceiling: vm.ceiling,
                without,
                held: vm.held.map(|held| Held {
                    before: with(held.before),
                    ours: with(held.ours),
                }),
                has_answered: vm.has_answered,
                is_excluded: is_excluded || !limits.ceilings,
            };
            targets.push((Scope::Vm(vm.key), observed));
        }
    }
    // Where each VM can be given a ceiling, that is the smaller change. Where not, all that follow them change with them.
    let is_excluded = limits.parameters == Parameters::Never || !is_needed;
    // Also where they are not to be set: an earlier run may have set them.
    if !is_excluded || host_held.is_some() {
        let observed = Observed {
            members: follow,
            now: knobs,
            ceiling: Ceiling::Own(knobs.halt_poll_ns),
            without,
            held: host_held,
            has_answered: true,
            is_excluded,
        };
        targets.push((Scope::Host, observed));
    }
    Some(targets)
}
