//! A guest that never halts, on vCPUs that are busy all the time: it polls for itself, or it computes.
//!
//! `idle=poll`, a polling driver (DPDK), or `guest_halt_poll_ns` longer than any gap keep a vCPU running
//! through its idle time; the host sees a load like any other. A recorder cannot look into the guest, so that
//! this is possible only. A guest that polls and still halts at times is `guest-veto`'s.

use super::evidence::{Evidence, Guest};
use super::remedy::{Does, Remedy};
use super::say::{nanos, percent};
use super::terms::HOST_POLLS_FOR_GUEST;
use super::{Found, Judgement, Rule, Sure};
use crate::event::Observable;

pub(super) const RULE: Rule = Rule {
    id: "guest-never-halts",
    title: "a guest that never halts and takes all of its CPUs",
    source: "Documentation/virt/guest-halt-polling.rst; idle= in kernel-parameters.txt",
    remedies: &[Does::GuestPollsLess],
    look,
};

/// The vCPUs took this share of their time on CPUs.
const BUSY: f64 = 0.9;

/// A vCPU that is at work halts less than once in so long.
const LONG_NS: u64 = 1_000_000_000;

fn look(evidence: &Evidence<'_>) -> Judgement {
    let unknown = evidence.guests.is_empty()
        || evidence.guests.iter().any(|guest| {
            let threads = guest.vm.threads.as_ref();
            threads.and_then(|it| it.vcpu_cpu_ns).is_none()
        });
    Judgement {
        found: evidence.each(of_guest),
        blind: unknown.then(|| "the CPU time of vCPUs was not recorded".to_owned()),
    }
}

fn of_guest(guest: &Guest<'_>) -> Option<Found> {
    let threads = guest.vm.threads.as_ref()?;
    let vcpus = guest.seats.len() as f64;
    let busy = threads.per_s(threads.vcpu_cpu_ns?) / 1e9;
    let span_ns = guest.interval.length_ns();
    let rare = guest.per_s(guest.account.halts) < vcpus;
    let is_it = busy >= BUSY * vcpus && rare && span_ns >= LONG_NS;
    if !is_it || guest.seats.is_empty() || guest.vm.observable != Observable::Yes {
        return None;
    }
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "{} halts in {}, and the vCPUs took {} of a CPU.",
            guest.account.halts,
            nanos(span_ns),
            percent(busy)
        ),
        cause: "The guest computes all the time, or polls for itself where it would halt: `idle=poll`, a \
                driver that polls, or cpuidle_haltpoll with a long guest_halt_poll_ns. From outside these \
                look the same."
            .to_owned(),
        remedies: vec![Remedy::new(
            Does::GuestPollsLess,
            "Look in the guest: where `top` shows it idle, it polls. Boot it without `idle=poll`, or lower \
             guest_halt_poll_ns.",
            HOST_POLLS_FOR_GUEST,
        )],
        cost: None,
        sure: Sure::Possible,
    })
}
