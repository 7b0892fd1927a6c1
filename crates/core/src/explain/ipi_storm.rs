//! vCPUs that wake each other soon after they halted: polling in the guest would need neither the halt
//! nor the interrupt.
//!
//! A guest that polls in its idle loop sees the other's flag in shared memory, without an IPI and
//! without an exit (`Documentation/virt/guest-halt-polling.rst`). Its default reach is 200 us
//! (`guest_halt_poll_ns` in `drivers/cpuidle/governors/haltpoll.c`), so half of the gaps must be
//! shorter. Half of the wakes must be IPIs, and they must come at a storm's rate.

use super::evidence::{Evidence, Guest, Seat, wake_share};
use super::say::{nanos, percent, rate};
use super::{ENOUGH_HALTS, Found, Gain, Judgement, Of, Rule, STORM_PER_S, Sure};
use crate::account::Account;
use crate::event::WakeSource;

pub(super) const RULE: Rule = Rule {
    id: "ipi-storm",
    title: "vCPUs that wake each other by interrupts",
    source: "Documentation/virt/guest-halt-polling.rst; KVM Forum 2017, smart idle poll",
    look,
};

/// `guest_halt_poll_ns`.
const REACH_NS: u64 = 200_000;

/// Share of the wakes.
const MOSTLY: f64 = 0.5;

fn look(evidence: &Evidence<'_>) -> Judgement {
    let wakes = |account: &Account| account.unknown.wake;
    if let Some(unfit) = evidence.unfit(wakes, "the recording does not tell what ended the halts") {
        return unfit;
    }
    evidence.each(|guest| of_guest(evidence, guest)).into()
}

fn is_woken_by_others(seat: &Seat<'_>, account: &Account) -> bool {
    account.halts >= ENOUGH_HALTS
        && !seat.is_vetoed()
        && wake_share(account, WakeSource::Ipi).is_some_and(|share| share >= MOSTLY)
        && account
            .gap_ns
            .percentile(0.5)
            .is_some_and(|gap| gap <= REACH_NS)
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let (who, account) = guest.gather(is_woken_by_others)?;
    let ipis = account.wakes[usize::from(WakeSource::Ipi.code())];
    let per_s = evidence.per_s(ipis);
    if per_s < STORM_PER_S {
        return None;
    }
    let within = account.gap_ns.share_up_to(REACH_NS)?;
    let share = wake_share(&account, WakeSource::Ipi)?;
    let latency = account.parts.wake_latency_ns;
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
            "Threads of the guest hand work to each other: each time a vCPU halts, an exit, and \
                another wakes it, two more."
                .to_owned(),
        remedy: "In a Linux guest on x86 (5.4 or later) that has its CPUs to itself: `modprobe \
                 cpuidle-haltpoll force=Y`, or QEMU `-cpu host,kvm-hint-dedicated=on`."
            .to_owned(),
        gain: Some(Gain {
            of: Of::Latency,
            ns_per_s: evidence.per_s(latency) * share * within,
        }),
        sure: Sure::Likely,
    })
}
