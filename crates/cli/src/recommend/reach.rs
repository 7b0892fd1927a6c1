//! Whether a recommendation for KVM's parameters reaches any VM of a capture.
//!
//! `halt_poll_ns` is the ceiling of VMs without one of their own (`KVM_CAP_HALT_POLL`). What only such VMs
//! would follow is no plan for the host: a plan for ceilings of VMs would be another [`crate::plan::Scope`].

use std::collections::BTreeSet;

use haltwise_capture::info::CaptureInfo;
use haltwise_core::event::{CeilingSource, Vcpu};
use haltwise_core::ids::{VcpuId, VmIndex};
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::tune::advice::Verdict;

/// Why there is nothing to set.
const REASON: &str = "halt_poll_ns applies to no vCPU that halted: their VMs have ceilings of their own \
                      (KVM_CAP_HALT_POLL). Where single halts were recorded, `tune` plans a ceiling for each VM, and \
                      `tune --vm` tunes that of one.";

/// Verdict and reason of a search, where any VM would follow.
pub(crate) fn judged(
    follows: bool,
    search: impl FnOnce() -> (Verdict, String),
) -> (Verdict, String) {
    if follows {
        search()
    } else {
        (Verdict::NothingFollows, REASON.to_owned())
    }
}

/// vCPUs for which KVM does not poll, because their guests disabled it.
pub(crate) fn disabled(info: &CaptureInfo) -> BTreeSet<(VmIndex, VcpuId)> {
    of(info, |vcpu| vcpu.guest_veto == Some(true))
}

pub(crate) fn own(info: &CaptureInfo) -> BTreeSet<(VmIndex, VcpuId)> {
    of(info, |vcpu| vcpu.ceiling_source == CeilingSource::Cap)
}

/// Whether a vCPU that is known is one of these.
pub(crate) fn is_of(
    these: &BTreeSet<(VmIndex, VcpuId)>,
    vm: Option<VmIndex>,
    vcpu: Option<VcpuId>,
) -> bool {
    vm.zip(vcpu).is_some_and(|seat| these.contains(&seat))
}

/// Whether these VMs' vCPUs have the same ceiling, of their VMs' own: then that is what can be tuned.
pub(crate) fn have_own(info: &CaptureInfo, vms: Option<&[VmIndex]>) -> bool {
    let of_these = |vcpu: &&Vcpu| vms.is_none_or(|vms| vms.contains(&vcpu.vm));
    let vcpus = info.roster.vcpus.iter().filter(of_these);
    let mut seen = vcpus
        .filter(|vcpu| vcpu.guest_veto != Some(true))
        .peekable();
    let first_ns = seen.peek().map(|vcpu| vcpu.ceiling_ns);
    let is_own = |vcpu: &Vcpu| vcpu.ceiling_source == CeilingSource::Cap;
    first_ns.is_some() && seen.all(|vcpu| is_own(vcpu) && Some(vcpu.ceiling_ns) == first_ns)
}

fn of(info: &CaptureInfo, is_it: impl Fn(&Vcpu) -> bool) -> BTreeSet<(VmIndex, VcpuId)> {
    let vcpus = info.roster.vcpus.iter().filter(|vcpu| is_it(vcpu));
    vcpus.map(|vcpu| (vcpu.vm, vcpu.id)).collect()
}

/// Part of a recommendation that a host can set where no VM follows `halt_poll_ns`: the parameters that hold for
/// VMs with a ceiling of their own too.
pub(crate) fn without_ceiling(recommended: Values, in_force: &Values) -> Option<Values> {
    let mut rest = recommended;
    rest.set(Parameter::HaltPollNs, in_force.get(Parameter::HaltPollNs));
    (!rest.beyond(in_force).is_empty()).then_some(rest)
}
