//! vCPUs that wake each other soon after they halted: polling in the guest would need neither the halt
//! nor the interrupt.
//!
//! A guest that polls in its idle loop sees the other's flag in shared memory, without an IPI and
//! without an exit (`Documentation/virt/guest-halt-polling.rst`). Its default reach is 200 us
//! (`guest_halt_poll_ns` in `drivers/cpuidle/governors/haltpoll.c`), so half of the gaps must be
//! shorter. Half of the wakes must be IPIs, and they must come at a storm's rate.

use super::cost::{EXIT_NS, switches_ns};
use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "ipi-storm",
    title: "vCPUs that wake each other by interrupts",
    source: "Documentation/virt/guest-halt-polling.rst; KVM Forum 2017, smart idle poll",
    look: |evidence| {
        let wakes = |account: &Account| account.unknown.wake;
        evidence.each_halting(wakes, "wake sources were not recorded", of_guest)
    },
};

/// `guest_halt_poll_ns`.
const REACH_NS: u64 = 200_000;

/// Exits that each such wake takes: of the vCPU that halts and of the one that writes to its ICR.
const EXITS: f64 = 2.0;

/// Share of the wakes.
const MOSTLY: f64 = 0.5;

const GUEST_POLLS: Remedy = Remedy::new(
    Does::GuestPolls,
    "In a Linux guest on x86 (5.4 or later): `modprobe cpuidle-haltpoll force=Y`, or QEMU \
     `-cpu host,kvm-hint-dedicated=on`; `haltwise tune DIR --policy guest-haltpoll` \
     shows what it would have cost.",
    "CPU time: the guest polls up to guest_halt_poll_ns for each halt, which its host sees as work.",
    "Where other tasks want the CPUs: KVM does not preempt a poll of the guest for them as it does its own.",
);

fn is_woken_by_others(seat: &VcpuEvidence<'_>, account: &Account) -> bool {
    let is_half = |share: Option<Share>| share.is_some_and(|share| share.is_from(MOSTLY));
    !seat.is_vetoed()
        && is_half(wake_share(account, WakeSource::Ipi))
        && is_half(gaps_within(account, REACH_NS))
}

fn of_guest(_: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let (who, account) = guest.gather(is_woken_by_others)?;
    let ipis = account.wakes[usize::from(WakeSource::Ipi.code())];
    let per_s = guest.storm(ipis)?;
    let within = gaps_within(&account, REACH_NS)?.share;
    let share = wake_share(&account, WakeSource::Ipi)?.share;
    // Time that the guest would poll in place of the host.
    let polls_ns = account.gap_ns.sum_within(REACH_NS);
    let polls_ns = polls_ns.saturating_sub(account.poll_ns().unwrap_or(0));
    let latency = account.parts.wake_latency_ns;
    let part = share * within;
    Some(Found {
        who,
        signature: format!(
            "{} of the wakes are IPIs, {}; the median gap is {}, and {} of the gaps are within \
             {}, the reach of guest polling.",
            percent(share),
            rate(per_s),
            nanos(account.gap_ns.percentile(0.5).unwrap_or(0)),
            percent(within),
            nanos(REACH_NS),
        ),
        cause:
            "Threads of the guest hand work to each other: each halt is an exit, and each wake-up by \
             another vCPU is two more."
                .to_owned(),
        remedies: vec![GUEST_POLLS.taking(Cost::cpu(guest.per_s(polls_ns)))],
        cost: Some(Cost {
            cpu_ns_per_s: (guest.per_s(switches_ns(&account)) + EXITS * per_s * EXIT_NS) * part,
            latency_ns_per_s: guest.per_s(latency) * part,
        }),
        sure: Sure::Likely,
    })
}
