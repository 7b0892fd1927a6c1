//! An idle guest that costs a CPU: its host polls for it, and the polls are met.
//!
//! Inside the guest all is idle, outside its VMM burns a core; the cause is not visible. The share of polls that are
//! met is what hides it from a look at failed polls: each is met by the next tick, timer or packet. Polling
//! buys the wake-up latency that was spared. From the issues of openmediavault-kvm (22), `macOS-Simple-KVM`
//! (214) and Firecracker (3043).

use super::cost::SHOWN_FROM_NS_PER_S;
use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "unseen-polling",
    title: "an idle guest whose halts the host polls through",
    source: "kvm_vcpu_halt in virt/kvm/kvm_main.c; firecracker#3043, openmediavault-kvm#22",
    look: |evidence| {
        let polls = |account: &Account| account.halts.saturating_sub(account.poll_known);
        evidence.each_halting(polls, "whether halts polled was not recorded", of_guest)
    },
};

/// At least this share of the polls is met, with certainty.
const MET: f64 = 0.9;

/// The guest runs for less of the time than this.
const IDLE: f64 = 0.2;

/// And polling takes at least this much of a vCPU's time: more than the guest itself.
const POLLED: f64 = 0.2;

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let span_ns = guest.interval.length_ns().max(1) as f64;
    let (who, account) = guest.gather(|_, account| {
        let runs = 1.0 - account.halted_ns() as f64 / span_ns;
        let polled = account.poll_ns().unwrap_or(0) as f64 / span_ns;
        let met = Share::of(account.successful_polls, account.polled);
        met.is_some_and(|met| met.is_from(MET)) && runs < IDLE && polled >= POLLED
    })?;
    let polled_ns = guest.per_s(account.poll_ns().unwrap_or(0));
    if polled_ns < SHOWN_FROM_NS_PER_S {
        return None;
    }
    let vcpus = who.vcpus.len() as f64;
    let ran = vcpus - guest.per_s(account.halted_ns()) / 1e9;
    let met = guest.per_s(account.successful_polls);
    // Without sleeps here, the wake-up latency is not known: the latency elsewhere on this host stands for it.
    let latencies = [&account.wake_latency_ns, &evidence.total.wake_latency_ns];
    let wakes = latencies.iter().find_map(|it| it.percentile(0.5));
    let spared = match wakes {
        Some(ns) => format!("each spared the guest some {}", nanos(ns)),
        None => "what each spared is not known, since no halt slept".to_owned(),
    };
    let less = Remedy::host_polling(evidence, Does::HostPollsLess, Lever::of(&account));
    Some(Found {
        who,
        signature: format!(
            "Polling took {} of a CPU, the guest's own work {}; {} of the polls were met, {}, and {spared}.",
            percent(polled_ns / 1e9),
            percent(ran.max(0.0)),
            percent(Share::of(account.successful_polls, account.polled).map_or(0.0, |it| it.share)),
            rate(met),
        ),
        cause: "The guest is nearly idle and wakes often; KVM polls through the gaps and shows the VMM as \
                busy. Inside the guest nothing of it can be seen."
            .to_owned(),
        remedies: vec![less.taking(Cost::latency(met * wakes.unwrap_or(0) as f64))],
        cost: Some(Cost::cpu(polled_ns)),
        sure: match Contention::of(evidence, &account) {
            Contention::Wanted(_) => Sure::Certain,
            _ => Sure::Likely,
        },
    })
}
