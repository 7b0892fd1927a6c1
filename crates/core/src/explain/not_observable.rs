//! Halts that KVM never sees.
//!
//! No halt in a recording may mean that exits on HLT are disabled (`KVM_X86_DISABLE_EXITS_HLT`, QEMU's
//! `-overcommit cpu-pm=on`), that WFI is not trapped, or that the guest never rests. The recorder tells
//! the first where it can. Elsewhere a guest without a single halt in a second or more is reported as possible
//! only: one that never rests looks the same (`guest-never-halts`). One that has its host handle exits for much of the time is seen
//! not to rest. Time in which it is known to have been paused does not count.

use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "halts-not-observable",
    title: "halts that cannot be observed",
    source: "KVM_CAP_X86_DISABLE_EXITS in Documentation/virt/kvm/api.rst",
    look,
};

/// No shorter recording is judged by the absence of halts.
const LONG_NS: u64 = 1_000_000_000;

/// Share of its time that a vCPU at rest inside the guest does not spend in exits: a tick of 1 ms whose
/// handling takes 50 us is half of that.
const BUSY: f64 = 0.1;

const TRAPPED: Remedy = Remedy::new(
    Does::TrapsHalts,
    "QEMU: `-overcommit cpu-pm=off`; libvirt: no `<cpu-pm/>`.",
    "Each halt exits, and its wake-up takes an interrupt of the host and a switch; it holds from the VM's next start.",
    "A VM on CPUs of its own that is bought for its latency.",
);

const IN_KERNEL: Remedy = Remedy::new(
    Does::SparesExits,
    "Have KVM emulate the interrupt controllers: QEMU `-machine kernel-irqchip=on`.",
    "It holds from the VM's next start, and the VM no longer migrates to where QEMU emulates them.",
    "A VM whose virtual IOMMU remaps interrupts: it needs `kernel-irqchip=split`.",
);

fn look(evidence: &Evidence<'_>) -> Judgement {
    let found = evidence.each(of_guest);
    let silent = |guest: &Guest<'_>| {
        let silent = guest.seats.iter().all(|it| it.account.is_none());
        let can_be_seen = guest.vm.observable == Observable::Yes;
        can_be_seen && silent && !is_known_to_exit(guest) && !is_paused(guest)
    };
    let guests = evidence.guests.iter().filter(|guest| silent(guest));
    let spans = guests.map(ran_ns);
    let short = spans.filter(|span_ns| *span_ns < LONG_NS).max();
    let blind = short.map(|span_ns| {
        format!(
            "{} without a halt is too short to judge; {} is needed",
            nanos(span_ns),
            nanos(LONG_NS)
        )
    });
    Judgement { found, blind }
}

fn of_guest(_: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let span_ns = ran_ns(guest);
    let found = |signature: String, sure: Sure| Found {
        who: guest.whole(),
        signature,
        cause:
            "Halts that stay inside the guest are not idle time that the host sees: its CPU looks \
                busy, and no halt-polling setting reaches it."
                .to_owned(),
        remedies: vec![TRAPPED],
        cost: None,
        sure,
    };
    if let Observable::No(reason) = &guest.vm.observable {
        let signature = format!("Not observable: {reason}.");
        let found = found(signature, Sure::Certain);
        if !reason.contains("LAPIC") {
            return Some(found);
        }
        return Some(Found {
            cause: "The VMM handles halts itself, and KVM neither polls nor reports them."
                .to_owned(),
            remedies: vec![IN_KERNEL],
            ..found
        });
    }
    let none = guest.seats.iter().all(|seat| seat.account.is_none());
    // Its exits tell of halts that were seen though not recorded.
    let exits = guest
        .exits
        .is_some_and(|exits| exits.total().halts.count > 0);
    let long = span_ns >= LONG_NS && !guest.seats.is_empty();
    (none && long && !exits && !is_known_to_exit(guest) && !is_busy(guest)).then(|| {
        let vcpus = match guest.seats.len() {
            1 => "1 vCPU".to_owned(),
            many => format!("{many} vCPUs"),
        };
        let seen = format!("{vcpus} and no halt in {}.", nanos(span_ns));
        found(seen, Sure::Possible)
    })
}

/// Whether the recorder read each vCPU's structures, where it would have found exits on HLT disabled: what the
/// guest says of host polling lies beside that.
fn is_known_to_exit(guest: &Guest<'_>) -> bool {
    let mut seats = guest.seats.iter();
    seats.all(|seat| seat.listed.is_some_and(|vcpu| vcpu.guest_veto.is_some()))
}

/// How long it may have run: for all that it is known to have been paused.
fn ran_ns(guest: &Guest<'_>) -> u64 {
    let paused_ns = guest.interval.paused_of(guest.vm).unwrap_or(0);
    guest.interval.length_ns().saturating_sub(paused_ns)
}

/// Whether it is known to have been paused for nearly all of its time: such a one has nothing to tell.
fn is_paused(guest: &Guest<'_>) -> bool {
    guest.vm.paused.is_some() && ran_ns(guest) <= guest.interval.length_ns() / 100
}

/// Whether its exits, or where those are not told its returns to the VMM, keep the host busy.
fn is_busy(guest: &Guest<'_>) -> bool {
    let busy_ns = guest.exits.map_or(0, |exits| {
        let total = exits.total();
        total.exits.time_ns().max(total.userspace.time_ns())
    });
    busy_ns as f64 > BUSY * guest.interval.length_ns() as f64 * guest.seats.len() as f64
}
