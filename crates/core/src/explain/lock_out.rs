//! The gaps fit under the ceiling, the whole halts do not: the window never grows from 0.
//!
//! KVM grows a window if the whole halt, wake-up latency included, was shorter than the ceiling
//! (`kvm_vcpu_halt` in `virt/kvm/kvm_main.c`). The thresholds are those of [`Worth`].

use super::evidence::{Evidence, Guest};
use super::say::{nanos, percent, rate, round_up};
use super::{ENOUGH_HALTS, Found, Gain, HABIT, Judgement, Of, Rule, Sure};
use crate::account::Account;
use crate::account::worth::{NotPolling, Worth, highest_ceiling};
use crate::event::CeilingSource;

pub(super) const RULE: Rule = Rule {
    id: "lock-out",
    title: "polling locked out by the wake-up latency",
    source: "kvm_vcpu_halt in virt/kvm/kvm_main.c: it judges whole halts",
    look,
};

fn look(evidence: &Evidence<'_>) -> Judgement {
    let ceilings = |account: &Account| account.unknown.ceiling_ns;
    if let Some(unfit) = evidence.unfit(ceilings, "the recording does not tell each halt's ceiling")
    {
        return unfit;
    }
    // Where growing is off no ceiling would help.
    if evidence.param("halt_poll_ns_grow") == Some(0) {
        return Judgement::default();
    }
    evidence.each(|guest| of_guest(evidence, guest)).into()
}

fn is_locked_out(account: &Account) -> bool {
    let worth = Worth::of(account);
    account.halts >= ENOUGH_HALTS
        && matches!(
            worth,
            Worth::NotPolling {
                why: NotPolling::LockedOut,
                ..
            }
        )
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let (who, account) =
        guest.gather(|seat, account| !seat.is_vetoed() && is_locked_out(account))?;
    let ceiling = highest_ceiling(&account)?;
    let within = account.gap_ns.share_up_to(u64::from(ceiling.ns))?;
    let latency = account.wake_latency_ns.percentile(0.5)?;
    // What fits under the ceiling now must still fit with its latency; no halt needs more.
    let with_latency =
        u64::from(ceiling.ns).saturating_add(account.wake_latency_ns.percentile(0.9)?);
    let wanted = round_up(account.halt_ns.percentile(0.95)?.min(with_latency));
    let remedy = match ceiling.source {
        CeilingSource::Cap => format!(
            "Have the VMM set KVM_CAP_HALT_POLL to {wanted} for this VM: gap and latency together then \
             fit."
        ),
        _ => format!(
            "`haltwise apply --set halt_poll_ns={wanted}ns`: gap and latency together then fit."
        ),
    };
    let pressure = evidence.ledger.host.cpu_pressure();
    Some(Found {
        signature: format!(
            "{} of the gaps are within the ceiling of {} (median gap {}), and with a wake-up latency \
             of {} (median) the halts are not; {} of {} halts polled.",
            percent(within),
            nanos(u64::from(ceiling.ns)),
            nanos(account.gap_ns.percentile(0.5).unwrap_or(0)),
            nanos(latency),
            account.polled,
            account.halts,
        ),
        cause: format!(
            "KVM judges whole halts, {} of them. Each seems too long, so the window stays at 0 and \
             polling never starts.",
            rate(evidence.per_s(account.halts))
        ),
        remedy,
        gain: Some(Gain {
            of: Of::Latency,
            ns_per_s: evidence.per_s(account.halts) * within * latency as f64,
        }),
        // Where CPUs are wanted, latencies are long for another reason, and polling takes CPUs away.
        sure: match pressure {
            Some(share) if share >= HABIT => Sure::Possible,
            _ => Sure::Certain,
        },
        who,
    })
}
