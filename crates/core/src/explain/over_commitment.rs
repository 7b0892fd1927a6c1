//! More tasks want the CPUs than there are.
//!
//! Whether they do is [`Contention`]'s: a fifth of the polls preempted, or some task waiting for a CPU for a
//! fifth of the time, is a habit and no accident. The cost is the CPU time polled, which another task
//! waited for, and the wake-up latency beyond that of a wake-up that waits for no other task, for which the tenth
//! percentile stands. IBM's network study found polling to do harm where CPUs are highly overcommitted.

use super::cost::SHOWN_FROM_NS_PER_S;
use super::prelude::*;
use super::terms::FEWER_VCPUS;

/// Wake-up latency (95th percentile) from which woken vCPUs wait for a CPU: a switch takes some 10 us, a slice of the
/// scheduler 700 us and more (`base_slice_ns`).
const WAITS_NS: u64 = 100_000;

pub(super) const RULE: Rule = Rule {
    id: "over-committed-polling",
    title: "vCPUs on overcommitted CPUs",
    source: "kvm_vcpu_can_poll in include/linux/kvm_host.h; IBM, KVM network study",
    look,
};

fn look(evidence: &Evidence<'_>) -> Judgement {
    if Contention::of(evidence, &evidence.total) == Contention::Unknown {
        return Judgement::blind("neither CPU pressure nor enough poll outcomes were recorded");
    }
    evidence.each(of_guest).into()
}

/// Wake-up latency beyond that of a wake-up that waits for no other task.
fn waited_ns(account: &Account) -> u64 {
    let latencies = &account.wake_latency_ns;
    let alone = latencies.percentile(0.1).unwrap_or(0);
    latencies.sum().saturating_sub(latencies.sum_within(alone))
}

/// Whether all these vCPUs run before every task without a real-time policy.
fn are_real_time(guest: &Guest<'_>, who: &Who) -> Option<bool> {
    let seats = guest.seats.iter();
    let them = seats.filter(|seat| who.vcpus.is_empty() || who.vcpus.contains(&seat.id));
    let each: Option<Vec<bool>> = them.map(|seat| seat.listed?.time?.real_time).collect();
    each.map(|each| each.into_iter().all(|is_it| is_it))
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let contended = |account: &Account| Contention::of(evidence, account).is_wanted();
    let (who, account) = guest.gather(|_, account| account.halts > 0 && contended(account))?;
    let polled_ns = guest.per_s(account.poll_ns().unwrap_or(0));
    let latencies = &account.wake_latency_ns;
    let preempted = account.preempted();
    let polls = match preempted {
        Some(share) => format!(
            "{} of the polls were preempted by another task",
            percent(share.share)
        ),
        None => "too few polls with a known outcome".to_owned(),
    };
    let pressure = evidence.ledger.host.cpu_pressure();
    let waited = match pressure {
        Some(share) => format!("CPU pressure {} (PSI)", percent(share)),
        None => "CPU pressure is unknown".to_owned(),
    };
    let wakes = match (latencies.percentile(0.5), latencies.percentile(0.95)) {
        (Some(half), Some(most)) => format!(
            "; wake-up latency {} median, {} p95",
            nanos(half),
            nanos(most)
        ),
        _ => String::new(),
    };
    let mut remedies = vec![Remedy::under(
        Does::SparesCpus,
        "Fewer vCPUs on these CPUs, or more CPUs for them.",
        FEWER_VCPUS,
    )];
    if polled_ns >= SHOWN_FROM_NS_PER_S {
        let less = Remedy::host_polling(evidence, Does::HostPollsLess, Lever::of(&account));
        remedies.push(less.taking(guest.spared(&account)));
    }
    let by_polls = preempted.is_some_and(|share| share.is_from(HABIT));
    let by_pressure = pressure.is_some_and(|share| share >= HABIT);
    let cause = format!(
        "The host is overcommitted: other tasks wait while a vCPU polls{}",
        match (are_real_time(guest, &who), latencies.percentile(0.95)) {
            (Some(true), _) =>
                ". A woken vCPU waits for none of them: these have a real-time scheduling policy."
                    .to_owned(),
            (_, Some(ns)) if ns < WAITS_NS => format!(
                ". Woken vCPUs hardly wait for a CPU: 95 % of them run within {}.",
                nanos(ns)
            ),
            _ => ", and a woken vCPU waits for a CPU.".to_owned(),
        }
    );
    Some(Found {
        who,
        signature: format!(
            "{polls}; {waited}; polling took {} of a CPU{wakes}.",
            percent(polled_ns / 1e9)
        ),
        cause,
        remedies,
        cost: Some(Cost {
            cpu_ns_per_s: polled_ns,
            latency_ns_per_s: guest.per_s(waited_ns(&account)),
        }),
        sure: match (by_polls, by_pressure) {
            (true, true) => Sure::Certain,
            _ => Sure::Likely,
        },
    })
}
