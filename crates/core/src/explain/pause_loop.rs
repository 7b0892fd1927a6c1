//! vCPUs that spin on locks until the CPU calls it a pause loop.
//!
//! Hardware exits when a guest runs PAUSE so often in a short time that it must be spinning (`ple_gap`,
//! `ple_window`); KVM then yields to another vCPU (`kvm_vcpu_on_spin`). Who spins waits for a holder
//! that does not run, or for a long critical section.

use super::prelude::*;
use super::terms::{FEWER_VCPUS, MODULE_RELOADED};

pub(super) const RULE: Rule = Rule {
    id: "pause-loop",
    title: "vCPUs that spin on locks (pause-loop exits)",
    source: "kvm_vcpu_on_spin in virt/kvm/kvm_main.c, ple_gap in arch/x86/kvm/vmx/vmx.c",
    look: |evidence| evidence.each_exits(of_guest),
};

/// `PAUSE_INSTRUCTION`, `pause`.
const PAUSE: [(Isa, u32); 2] = [(Isa::Vmx, 40), (Isa::Svm, 0x77)];

const LOOK_FOR_LOCK: Remedy = Remedy::new(
    Does::SparesExits,
    "In the guest, look for the lock (`perf lock`).",
    "The guest's own CPU time while it is traced.",
    "A guest that is near its limit: events of a contended lock are many, and tracing each slows it down.",
);

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let pauses = exits_of(exits, &PAUSE);
    let per_s = guest.storm(pauses.count)?;
    let pressure = evidence.ledger.host.cpu_pressure();
    let contention = Contention::of(evidence, &guest.account);
    let pressed = contention.is_wanted();
    let time_ns = pauses.time_ns();
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "{} pause-loop exits, {}, {} of the time of all exits but halts; CPU \
             pressure {} (PSI).",
            pauses.count,
            rate(per_s),
            percent(part_of_time(exits, time_ns)),
            pressure.map_or_else(|| "unknown".to_owned(), percent),
        ),
        cause: if pressed {
            "The host has too few CPUs: a lock holder is preempted while other vCPUs spin for its lock."
        } else {
            "Threads of the guest contend for a lock; the host has idle CPUs, so the lock holder \
             mostly runs."
        }
        .to_owned(),
        remedies: if pressed {
            vec![Remedy::under(
                Does::SparesCpus,
                "Fewer vCPUs, or pin them to CPUs of their own; leave `kvm-pv-unhalt` on, so that waiters \
                 halt instead of spinning.",
                FEWER_VCPUS,
            )]
        } else {
            vec![
                Remedy::under(
                    Does::NoPauseExits,
                    "Load kvm_intel with `ple_gap=0`, or kvm_amd with `pause_filter_count=0`: this host \
                     has CPUs to spare for vCPUs that spin.",
                    MODULE_RELOADED,
                ),
                LOOK_FOR_LOCK,
            ]
        },
        cost: Some(Cost::cpu(guest.per_s(time_ns))),
        sure: Sure::likely_if(pressed),
    })
}
