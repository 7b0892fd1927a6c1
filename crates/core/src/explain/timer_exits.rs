//! A guest's timer that exits: once to be set and once to fire, where dedicated CPUs would spare both.
//!
//! Setting the TSC deadline is an MSR write that exits (0x6e0), and the expiry of VMX's preemption timer
//! another exit. Where vCPUs have CPUs of their own, the host's timer can run on a housekeeping CPU and post the
//! interrupt (`kvm_can_post_timer_interrupt`): `pi_inject_timer` (set by itself under `nohz_full`), `APICv` or
//! AVIC active, and halts or MWAIT that stay inside the guest (`-overcommit cpu-pm=on`).
//!
//! `lapic_timer_advance` spares no exit. It has KVM's own timer expire early, by what an exit and an entry take, and
//! wait for the rest before it enters the guest, so that a TSC deadline is met more closely. It is on by default: by a
//! number of nanoseconds until Linux 6.10 (`lapic_timer_advance_ns`, -1: found by KVM itself, since 5.1), a switch
//! that is read-only from then on. So it is a remedy only where it was switched off.

use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "timer-exits",
    title: "a guest's timer that exits",
    source: "kvm_can_post_timer_interrupt in arch/x86/kvm/lapic.c",
    look: |evidence| evidence.each_exits(of_guest),
};

/// `PREEMPTION_TIMER`.
const EXPIRED: [(Isa, u32); 1] = [(Isa::Vmx, 52)];

/// `MSR_IA32_TSC_DEADLINE`, and the x2APIC's initial count.
const SETS: [u64; 2] = [0x6e0, 0x838];

const IN_GUEST: Remedy = Remedy::new(
    Does::HaltsInGuest,
    "For vCPUs that are pinned to CPUs of their own: `nohz_full=` for these CPUs on the host's command \
     line (kvm then sets pi_inject_timer by itself), APICv or AVIC, and QEMU `-overcommit \
     cpu-pm=on`: expiry no longer exits.",
    "A boot of the host and a start of the VM; these CPUs look busy to the host all the time, and no other task gets \
     them.",
    "Where vCPUs share CPUs: one that halts inside the guest keeps its CPU from the others.",
);

/// `MSR_IA32_TSC_DEADLINE`: timers of other modes are not advanced.
const DEADLINE: u64 = 0x6e0;

/// Price and harm of timers that expire early (`LAPIC_TIMER_ADVANCE_NS_MAX`, `LAPIC_TIMER_ADVANCE_NS_INIT`).
const ADVANCED: Terms = Terms::new(
    "KVM waits busily, for up to 5 us, before it enters a guest whose timer expired early; it holds for VMs that start \
     afterwards, and from Linux 6.11 on all VMs have to stop while kvm is loaded again.",
    "Where tasks wait for these CPUs, or where this host is a VM itself: what an exit takes then varies too much to \
     be found, and KVM falls back to 1 us.",
);

/// Where it is off: a guest's deadlines are met later than they need be.
fn advance(evidence: &Evidence<'_>, exits: &ExitAccount) -> Option<Remedy> {
    let deadlines = about(exits, &[Kind::MsrWrite], |msr| msr == DEADLINE);
    let how = match evidence.setting("kvm.lapic_timer_advance")? {
        "0" => "`echo -1 > /sys/module/kvm/parameters/lapic_timer_advance_ns`",
        "N" => "load kvm with `lapic_timer_advance=1` (the parameter is read-only)",
        _ => return None,
    };
    let text = format!(
        "For timers that are met more closely, without an exit less: {how}, which is KVM's default."
    );
    (deadlines.count > 0).then(|| Remedy::with_text(Does::WaitsForTimers, text, ADVANCED))
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let mut timer = exits_of(exits, &EXPIRED);
    timer.fold(&about(exits, &[Kind::MsrWrite], |msr| SETS.contains(&msr)));
    let per_s = guest.storm(timer.count)?;
    let in_guest = guest.vm.machine.is_some_and(|machine| machine.cpu_pm);
    if in_guest || guest.vm.observable != Observable::Yes {
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
            took(timer.time_ns()),
            told("kvm.pi_inject_timer"),
            told("kvm.lapic_timer_advance"),
        ),
        cause: "The guest arms a timer each time that it goes idle or sleeps for short, and KVM is entered \
                for that and for its expiry."
            .to_owned(),
        remedies: [IN_GUEST]
            .into_iter()
            .chain(advance(evidence, exits))
            .collect(),
        cost: (timer.time_ns() > 0).then(|| Cost::cpu(guest.per_s(timer.time_ns()))),
        sure: Sure::Possible,
    })
}
