//! Wake-ups that take as long as the host's deep idle states take to leave.
//!
//! A vCPU that sleeps leaves its CPU idle, and cpuidle chooses a state for it. The deepest state of Skylake and
//! Ice Lake servers takes 133 and 170 us to leave (`drivers/idle/intel_idle.c`), which every wake-up then pays. No
//! profiler shows it, and KVM's parameters do not shorten it: only a poll that ends in time avoids the sleep.
//!
//! The signature: half of the wake-ups take [`DEEP_NS`] or more, no other task wants the CPUs, and the host's
//! idle time lies in state 2 or deeper. Which CPU a vCPU woke on is not recorded: so the finding is likely, not
//! certain.

use super::prelude::*;
use crate::account::idle::StateUse;

pub(super) const RULE: Rule = Rule {
    id: "deep-idle-states",
    title: "wake-ups from deep idle states of the host",
    source: "drivers/idle/intel_idle.c; Documentation/admin-guide/pm/cpuidle.rst",
    look,
};

/// Median wake-up latency that shows deep states: a wake-up from a shallow one takes some 10 to 50 us.
const DEEP_NS: u64 = 80_000;

/// Latency of a wake-up from a shallow state.
const SHALLOW_NS: u64 = 30_000;

/// The first deep state: 0 polls or is C1, 1 is C1 or C1E.
const DEEP_STATE: u32 = 2;

const SHALLOW: Remedy = Remedy::new(
    Does::SparesVmm,
    "`cpupower idle-set -D 20` on the host (no states that take 20 us or more to leave), or PM QoS: a program \
     that holds /dev/cpu_dma_latency open with 20.",
    "Power: idle CPUs stay in shallow states, and busy ones beside them reach lower turbo frequencies.",
    "Where power or heat counts more than these wake-ups.",
);

fn look(evidence: &Evidence<'_>) -> Judgement {
    let latency = |account: &Account| account.unknown.wake_latency_ns;
    if let Some(unfit) = evidence.unfit(latency, "wake-up latencies were not recorded") {
        return unfit;
    }
    let states: Vec<_> = evidence.ledger.idle_states.used().collect();
    if states.is_empty() {
        return Judgement::blind("the idle states of the host's CPUs were not recorded");
    }
    let idle: f64 = states.iter().map(|it| it.share).sum();
    let deep = states.iter().filter(|it| it.state >= DEEP_STATE);
    let Some(most) = deep.max_by(|a, b| a.share.total_cmp(&b.share)) else {
        return Judgement::default();
    };
    let part = most.share / idle.max(f64::MIN_POSITIVE);
    if part < HABIT {
        return Judgement::default();
    }
    let found = evidence.each(|_, guest| of_guest(evidence, guest, most, part));
    found.into()
}

fn of_guest(
    evidence: &Evidence<'_>,
    guest: &Guest<'_>,
    most: &StateUse,
    part: f64,
) -> Option<Found> {
    let (who, account) = guest.gather(|_, account| {
        let half = account.wake_latency_ns.percentile(0.5);
        half.is_some_and(|ns| ns >= DEEP_NS) && !Contention::of(evidence, account).is_wanted()
    })?;
    let latencies = &account.wake_latency_ns;
    let shallow_ns = latencies.count().saturating_mul(SHALLOW_NS);
    let late_ns = latencies.sum().saturating_sub(shallow_ns);
    let half = nanos(latencies.percentile(0.5)?);
    Some(Found {
        who,
        signature: format!(
            "{half} from the wake event until the vCPU runs (median); the host's CPUs spend {} of their idle time in \
             state {} ({}).",
            percent(part),
            most.state,
            most.name,
        ),
        cause: "The CPU that a vCPU sleeps on goes into a deep idle state, and each wake-up waits until it has left \
                it. KVM's parameters do not shorten that; a ceiling above the gaps avoids the sleep."
            .to_owned(),
        remedies: vec![SHALLOW],
        cost: Some(Cost::latency(guest.per_s(late_ns))),
        sure: match Contention::of(evidence, &account) {
            Contention::Free => Sure::Likely,
            _ => Sure::Possible,
        },
    })
}
