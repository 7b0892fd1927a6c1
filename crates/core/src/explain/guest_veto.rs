//! The guest switched host polling off for its vCPUs.
//!
//! Bit 0 of `MSR_KVM_POLL_CONTROL` (0x4b564d05) clear: `kvm_arch_no_poll` then forbids polling
//! (`arch/x86/kvm/x86.c`). Linux guests clear it when the cpuidle driver haltpoll starts
//! (`arch_haltpoll_enable`); that the guest polls itself is the governor haltpoll's doing. A guest with the
//! driver and another governor (Debian 6.1 has no other choice than menu, by `cpuidle_haltpoll.force=1`), or
//! with `guest_halt_poll_ns=0`, has no polling at all. Then it halts for gaps shorter than a wake-up takes:
//! a guest that polls up to 200 us does not, once its limit has grown.

use super::break_even::{TooSoon, slept_too_soon};
use super::prelude::*;
use super::remedy::WITHOUT_HALTPOLL;
use super::terms::HOST_POLLS_FOR_GUEST;

pub(super) const RULE: Rule = Rule {
    id: "guest-veto",
    title: "the guest disabled host polling",
    source: "kvm_arch_no_poll in arch/x86/kvm/x86.c; Documentation/virt/kvm/x86/msr.rst",
    look,
};

const LEFT_TO_GUEST: Remedy = Remedy::new(
    Does::Nothing,
    "Nothing, where the guest's polling is wanted: its parameter guest_halt_poll_ns says how \
     long it polls.",
    "None beyond what the guest's polling takes, up to guest_halt_poll_ns for each halt.",
    "Where other tasks want the CPUs: a guest that polls does not give its CPU up, and the host cannot see that it \
     is idle.",
);

fn look(evidence: &Evidence<'_>) -> Judgement {
    let listed = evidence.guests.iter().flat_map(|guest| &guest.seats);
    let mut known = listed.filter_map(|seat| Some(seat.listed?.guest_veto.is_some()));
    if known.clone().next().is_some() && !known.any(|known| known) {
        return Judgement::blind("not recorded whether a guest disabled host polling");
    }
    evidence.each(of_guest).into()
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let vetoed = guest.seats.iter().filter(|seat| seat.is_vetoed());
    let vcpus: Vec<_> = vetoed.map(|seat| seat.id).collect();
    if vcpus.is_empty() {
        return None;
    }
    let gathered = guest.gather(|seat, _| seat.is_vetoed());
    let account = gathered.map(|(_, account)| account).unwrap_or_default();
    let signature = format!(
        "MSR_KVM_POLL_CONTROL is 0 on {} of {} vCPUs, which halted {}",
        vcpus.len(),
        guest.seats.len(),
        rate(guest.per_s(account.halts)),
    );
    let mut found = Found {
        who: Who {
            vm: Some(guest.vm.index),
            vcpus,
        },
        signature: format!("{signature}."),
        cause:
            "A Linux guest does that when its cpuidle driver is haltpoll, and polls itself if its \
             governor is haltpoll too. No setting of the host affects these vCPUs."
                .to_owned(),
        remedies: Vec::new(),
        cost: None,
        sure: Sure::Certain,
    };
    let too_soon = slept_too_soon(&account).filter(TooSoon::is_habit);
    if let Contention::Wanted(why) = Contention::of(evidence, &account) {
        found.signature = format!("{signature}; {why}.");
        found.cause.push_str(
            " Where it polls, it keeps its CPU from others: KVM cannot preempt a poll of the guest.",
        );
        found.sure = Sure::Possible;
        found.remedies = vec![Remedy::under(
            Does::GuestPollsLess,
            WITHOUT_HALTPOLL,
            HOST_POLLS_FOR_GUEST,
        )];
    } else if let Some(too_soon) = too_soon {
        found.signature = format!(
            "{signature}; {} of these halts slept although the wake came within {}, the median wake-up \
             latency.",
            percent(too_soon.share.map_or(0.0, |share| share.share)),
            nanos(too_soon.break_even_ns),
        );
        "Neither host nor guest polls for these vCPUs: the guest disabled host polling, and halts \
         during gaps short enough for guest polling. Linux: the cpuidle driver is haltpoll and the \
         governor is not (/sys/devices/system/cpu/cpuidle in the guest), or guest_halt_poll_ns is 0."
            .clone_into(&mut found.cause);
        found.sure = Sure::Likely;
        found.cost = Some(too_soon.cost(guest));
        let remedy = Remedy::host_polling(evidence, Does::HostPollsMore, Lever::Guest);
        found.remedies = vec![remedy.taking(too_soon.takes(guest))];
    } else {
        found.remedies = vec![LEFT_TO_GUEST];
    }
    Some(found)
}
