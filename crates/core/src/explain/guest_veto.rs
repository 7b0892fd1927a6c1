//! The guest switched host polling off for its vCPUs.
//!
//! Bit 0 of `MSR_KVM_POLL_CONTROL` (0x4b564d05) clear: `kvm_arch_no_poll` then forbids polling
//! (`arch/x86/kvm/x86.c`). Linux guests clear it when cpuidle-haltpoll starts (`arch_haltpoll_enable`).

use super::evidence::{Evidence, Guest};
use super::say::rate;
use super::{Found, Judgement, Rule, Sure, Who};

pub(super) const RULE: Rule = Rule {
    id: "guest-veto",
    title: "the guest switched host polling off",
    source: "kvm_arch_no_poll in arch/x86/kvm/x86.c; Documentation/virt/kvm/x86/msr.rst",
    look,
};

fn look(evidence: &Evidence<'_>) -> Judgement {
    let listed = evidence.guests.iter().flat_map(|guest| &guest.seats);
    let mut known = listed.filter_map(|seat| Some(seat.listed?.guest_veto.is_some()));
    if known.clone().next().is_some() && !known.any(|known| known) {
        return Judgement::blind("whether a guest switched polling off was not recorded");
    }
    evidence.each(|guest| of_guest(evidence, guest)).into()
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let vetoed = guest.seats.iter().filter(|seat| seat.is_vetoed());
    let vcpus: Vec<_> = vetoed.clone().map(|seat| seat.id).collect();
    if vcpus.is_empty() {
        return None;
    }
    let halts = vetoed.filter_map(|seat| seat.account).map(|it| it.halts);
    let halts = halts.fold(0, u64::saturating_add);
    Some(Found {
        signature: format!(
            "MSR_KVM_POLL_CONTROL is 0 on {} of {} vCPUs, which halted {}.",
            vcpus.len(),
            guest.seats.len(),
            rate(evidence.per_s(halts)),
        ),
        cause: "The guest polls by itself (Linux: cpuidle-haltpoll) and told the host not to. No \
                parameter of the host reaches these vCPUs."
            .to_owned(),
        remedy: "Nothing if the guest's polling is wanted: tune guest_halt_poll_ns in the guest. \
                 Else, in the guest: `modprobe -r cpuidle-haltpoll`."
            .to_owned(),
        gain: None,
        sure: Sure::Certain,
        who: Who {
            vm: Some(guest.vm.index),
            vcpus,
        },
    })
}
