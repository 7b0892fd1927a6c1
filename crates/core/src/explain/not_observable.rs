//! Halts that KVM never sees.
//!
//! No halt in a recording may mean that exits on HLT are disabled (`KVM_X86_DISABLE_EXITS_HLT`, QEMU's
//! `-overcommit cpu-pm=on`), that WFI is not trapped, or that the guest never rests. The recorder tells
//! the first where it can. A guest without a single halt in a second or more is told as possible only:
//! one that never rests looks the same. One that has its host handle exits for much of the time is seen
//! not to rest.

use super::evidence::{Evidence, Guest};
use super::say::nanos;
use super::{Found, Judgement, Rule, Sure};
use crate::event::Observable;

pub(super) const RULE: Rule = Rule {
    id: "halts-not-observable",
    title: "halts that cannot be seen",
    source: "KVM_CAP_X86_DISABLE_EXITS in Documentation/virt/kvm/api.rst",
    look,
};

/// No shorter recording is judged by the absence of halts.
const LONG_NS: u64 = 1_000_000_000;

/// Share of its time that a vCPU at rest inside the guest does not spend in exits: a tick of 1 ms whose
/// handling takes 50 us is half of that.
const BUSY: f64 = 0.1;

fn look(evidence: &Evidence<'_>) -> Judgement {
    let found = evidence.each(|guest| of_guest(evidence, guest));
    let silent = |guest: &Guest<'_>| {
        guest.vm.observable == Observable::Yes && guest.seats.iter().all(|it| it.account.is_none())
    };
    let short = evidence.span_ns < LONG_NS && evidence.guests.iter().any(silent);
    let blind = short.then(|| {
        format!(
            "{} without a halt say nothing: that takes {}",
            nanos(evidence.span_ns),
            nanos(LONG_NS)
        )
    });
    Judgement { found, blind }
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let found = |signature: String, sure: Sure| Found {
        who: guest.whole(),
        signature,
        cause:
            "Halts that stay inside the guest are not idle time that the host sees: its CPU looks \
                busy, and no halt-polling setting reaches it."
                .to_owned(),
        remedy:
            "QEMU: `-overcommit cpu-pm=off`, unless each vCPU is meant to own its CPU; libvirt: \
                 no `<cpu-pm/>`."
                .to_owned(),
        gain: None,
        sure,
    };
    if let Observable::No(reason) = &guest.vm.observable {
        return Some(found(format!("Not observable: {reason}."), Sure::Certain));
    }
    let none = guest.seats.iter().all(|seat| seat.account.is_none());
    // Its exits tell of halts that were seen though not recorded.
    let exits = guest
        .exits
        .is_some_and(|exits| exits.total().halts.count > 0);
    let long = evidence.span_ns >= LONG_NS && !guest.seats.is_empty();
    (none && long && !exits && !is_busy(evidence, guest)).then(|| {
        let vcpus = match guest.seats.len() {
            1 => "1 vCPU".to_owned(),
            many => format!("{many} vCPUs"),
        };
        let seen = format!("{vcpus} and not one halt in {}.", nanos(evidence.span_ns));
        found(seen, Sure::Possible)
    })
}

/// Whether its exits, or where those are not told its returns to the VMM, keep the host busy.
fn is_busy(evidence: &Evidence<'_>, guest: &Guest<'_>) -> bool {
    let busy_ns = guest.exits.map_or(0, |exits| {
        let total = exits.total();
        total.exits.time_ns().max(total.userspace.time_ns())
    });
    busy_ns as f64 > BUSY * evidence.span_ns as f64 * guest.seats.len() as f64
}
