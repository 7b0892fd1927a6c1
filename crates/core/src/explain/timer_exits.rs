//! A guest's timer that exits: once to be set and once to fire, where dedicated CPUs would spare both.
//!
//! Setting the TSC deadline is an MSR write that exits (0x6e0), and the expiry of VMX's preemption timer
//! another exit. Where vCPUs have CPUs of their own, the host's timer can run on a housekeeping CPU and post the
//! interrupt (`kvm_can_post_timer_interrupt`): `pi_inject_timer` (set by itself under `nohz_full`), `APICv` or
//! AVIC active, and halts or MWAIT that stay inside the guest (`-overcommit cpu-pm=on`).

use super::cost::Cost;
use super::evidence::{Evidence, Guest, exits_of, tally};
use super::remedy::{Does, Remedy};
use super::say::{rate, took};
use super::{Found, Judgement, Rule, STORM_PER_S, Sure};
use crate::event::Observable;
use crate::exit::account::Account as ExitAccount;
use crate::exit::{Isa, Kind};

pub(super) const RULE: Rule = Rule {
    id: "timer-exits",
    title: "a guest's timer that exits",
    source: "kvm_can_post_timer_interrupt in arch/x86/kvm/lapic.c",
    remedies: &[Does::HaltsInGuest],
    look,
};

/// `PREEMPTION_TIMER`.
const EXPIRED: [(Isa, u32); 1] = [(Isa::Vmx, 52)];

/// `MSR_IA32_TSC_DEADLINE`, and the x2APIC's initial count.
const SETS: [u64; 2] = [0x6e0, 0x838];

fn look(evidence: &Evidence<'_>) -> Judgement {
    evidence.each_exits(|guest, exits| of_guest(evidence, guest, exits))
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let mut timer = exits_of(exits, &EXPIRED);
    timer.fold(&tally(exits, |cause| {
        cause.kind == Kind::MsrWrite && cause.sub.is_some_and(|msr| SETS.contains(&msr))
    }));
    let per_s = guest.per_s(timer.count);
    let in_guest = guest.vm.machine.is_some_and(|machine| machine.cpu_pm);
    if per_s < STORM_PER_S || in_guest || guest.vm.observable != Observable::Yes {
        return None;
    }
    let told = |name: &str| evidence.setting(name).unwrap_or("not known").to_owned();
    let isolated = match evidence.setting("nohz_full") {
        None => "not known".to_owned(),
        Some("" | "(null)") => "none".to_owned(),
        Some(cpus) => cpus.to_owned(),
    };
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "{} exits to set a timer or for its expiry, {}; they {}. Host: nohz_full CPUs {isolated}, \
             pi_inject_timer {}, lapic_timer_advance {}.",
            timer.count,
            rate(per_s),
            took(&timer),
            told("kvm.pi_inject_timer"),
            told("kvm.lapic_timer_advance"),
        ),
        cause: "The guest arms a timer each time that it goes idle or sleeps for short, and KVM is entered \
                for that and for its expiry."
            .to_owned(),
        remedies: vec![Remedy::new(
            Does::HaltsInGuest,
            "For vCPUs that are pinned to CPUs of their own: `nohz_full=` for these CPUs on the host's command \
             line (kvm then sets pi_inject_timer by itself), APICv or AVIC, and QEMU `-overcommit \
             cpu-pm=on`: expiry no longer exits. The CPUs then look busy to the host all the time, and no \
             other task gets them.",
        )],
        cost: (timer.time_ns() > 0).then(|| Cost::cpu(guest.per_s(timer.time_ns()))),
        sure: Sure::Possible,
    })
}
