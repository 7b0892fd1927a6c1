//! The gaps fit under the ceiling, the whole halts do not: the window never grows from 0.
//!
//! KVM grows a window if the whole halt, wake-up latency included, was shorter than the ceiling
//! (`kvm_vcpu_halt` in `virt/kvm/kvm_main.c`). The thresholds are those of [`Worth`].

use super::prelude::*;
use crate::account::worth::{Worth, highest_ceiling};

pub(super) const RULE: Rule = Rule {
    id: "lock-out",
    title: "polling locked out by the wake-up latency",
    source: "kvm_vcpu_halt in virt/kvm/kvm_main.c: it compares whole halts with the ceiling",
    look: |evidence| {
        let ceilings = |account: &Account| account.unknown.ceiling_ns;
        evidence.each_halting(ceilings, "ceilings of halts were not recorded", of_guest)
    },
};

fn is_locked_out(account: &Account) -> bool {
    let limit = highest_ceiling(account).map_or(0, |ceiling| u64::from(ceiling.ns));
    Worth::of(account).is_locked_out()
        && gaps_within(account, limit).is_some_and(|share| share.is_from(HABIT))
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    // Where growing is off no ceiling would help.
    if evidence.param(Parameter::Grow) == Some(0) {
        return None;
    }
    let (who, account) =
        guest.gather(|seat, account| !seat.is_vetoed() && is_locked_out(account))?;
    let ceiling_ns = u64::from(highest_ceiling(&account)?.ns);
    let within = gaps_within(&account, ceiling_ns)?.share;
    let latency = account.wake_latency_ns.percentile(0.5)?;
    let halts = guest.per_s(account.halts);
    // Time that these gaps would have polled: each gap within the ceiling, and nothing beyond.
    let beyond_ns = (1.0 - within) * account.gap_ns.count() as f64 * ceiling_ns as f64;
    let polled_ns = (account.gap_ns.sum_within(ceiling_ns) as f64 - beyond_ns).max(0.0);
    let takes = Cost::cpu(polled_ns * guest.per_s(1));
    let remedy = Remedy::host_polling(evidence, Does::HostPollsMore, Lever::of(&account));
    Some(Found {
        signature: format!(
            "{} of the gaps are within the ceiling of {} (median gap {}), but gap plus wake-up latency \
             ({} median) is not; {} of {} halts polled.",
            percent(within),
            nanos(ceiling_ns),
            nanos(account.gap_ns.percentile(0.5).unwrap_or(0)),
            nanos(latency),
            account.polled,
            account.halts,
        ),
        cause: format!(
            "KVM compares whole halts with the ceiling, {} of them. Each is too long, so the window \
             stays at 0 and polling never starts. With a ceiling above gap plus latency it would.",
            rate(halts)
        ),
        remedies: vec![remedy.taking(takes)],
        cost: Some(Cost::latency(halts * within * latency as f64)),
        // Where CPUs are wanted, latencies are long for another reason.
        sure: match Contention::of(evidence, &account) {
            Contention::Wanted(_) => Sure::Possible,
            _ => Sure::Certain,
        },
        who,
    })
}
