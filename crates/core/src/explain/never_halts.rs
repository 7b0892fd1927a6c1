//! A vCPU that never halts and wants a CPU all the time: it computes, polls for itself, waits for an interrupt
//! that was lost, or spends the time in exits.
//!
//! `idle=poll`, a polling driver (DPDK), or `guest_halt_poll_ns` longer than any gap keep a vCPU running
//! through its idle time; so does a restored microVM whose vCPU waits for an IPI that never comes. The host sees a
//! load like any other. A recorder cannot look into the guest, so that this is possible only. A guest that polls and
//! still halts at times is `guest-veto`'s.

use super::prelude::*;
use super::terms::HOST_POLLS_FOR_GUEST;
use crate::vmm::VcpuTime;

pub(super) const RULE: Rule = Rule {
    id: super::NEVER_HALTS,
    title: "a vCPU that never halts",
    source: "Documentation/virt/guest-halt-polling.rst; idle= in kernel-parameters.txt",
    look: |evidence| {
        let lacks = "the CPU time of vCPUs was not recorded";
        evidence.each_threads(|threads| threads.vcpu_cpu_ns, lacks, of_guest)
    },
};

/// A vCPU ran, or waited for a CPU, for this share of the time.
const BUSY: f64 = 0.9;

/// A vCPU that is at work halts less than once in so long.
const LONG_NS: u64 = 1_000_000_000;

const NAMED: usize = 8;

const LOOK: Remedy = Remedy::new(
    Does::Nothing,
    "No setting of KVM helps: look in the guest, or for a lost interrupt.",
    "Nothing: no setting is changed.",
    "Nowhere: a guest that computes all the time is left as it is.",
);

const EXITS: Remedy = Remedy::new(
    Does::SparesExits,
    "See which exits these are: `haltwise record --exits`, then `haltwise report --exits`.",
    "Nothing: no setting is changed.",
    "Nowhere: the exits are counted, and nothing else.",
);

/// A vCPU that wanted a CPU all the time.
struct Spinning {
    id: VcpuId,
    ran: f64,
    queued: f64,
    halts: u64,
    /// Share of the time that it spent in exits; `None` where guest time is not known.
    exits: Option<f64>,
}

impl Spinning {
    fn of(guest: &Guest<'_>, seat: &VcpuEvidence<'_>) -> Option<Self> {
        let threads = guest.vm.threads.as_ref()?;
        let share = |ns: u64| threads.per_s(ns) / 1e9;
        let time = seat.listed.and_then(|vcpu| vcpu.time);
        let (ran, queued) = match time {
            // The scheduler counts at its ticks, which may put a little more between two looks.
            Some(VcpuTime {
                cpu_ns, queued_ns, ..
            }) => {
                let ran = share(cpu_ns).min(1.0);
                (ran, share(queued_ns).min(1.0 - ran))
            }
            // Older captures have the sum of all vCPUs.
            None => (share(threads.vcpu_cpu_ns?) / guest.seats.len() as f64, 0.0),
        };
        let halts = seat.account.map_or(0, |account| account.halts);
        let all = guest.seats.iter().map(|it| it.listed?.time);
        let exits = threads.guest_ns(all).zip(time).map(|(_, time)| {
            let parts = seat.account.map(|it| it.parts).unwrap_or_default();
            let rest_ns = time.cpu_ns.saturating_sub(time.guest_ns);
            let polled_ns = parts.poll_success_ns + parts.poll_fail_ns;
            share(rest_ns.saturating_sub(polled_ns))
        });
        let is_it = ran + queued >= BUSY && guest.per_s(halts) < 1.0;
        is_it.then_some(Self {
            id: seat.id,
            ran,
            queued,
            halts,
            exits,
        })
    }
}

fn mean(all: &[Spinning], of: fn(&Spinning) -> f64) -> f64 {
    let sum: f64 = all.iter().map(of).sum();
    (sum / all.len() as f64).min(1.0)
}

/// The part of these vCPUs' CPU time that exits took, if it is most of that time.
fn mostly_exits(all: &[Spinning]) -> Option<f64> {
    let exits: Option<f64> = all.iter().map(|it| it.exits).sum();
    let ran: f64 = all.iter().map(|it| it.ran).sum();
    exits.map(|exits| exits / ran).filter(|part| *part > 0.5)
}

/// `vCPU 1 ran 96 % of the time and never halted.`
fn signature(all: &[Spinning]) -> String {
    let (ran, queued) = (mean(all, |it| it.ran), mean(all, |it| it.queued));
    let halted = match total(all.iter().map(|it| it.halts)) {
        0 => "never halted".to_owned(),
        1 => "halted once".to_owned(),
        halts => format!("halted {halts} times"),
    };
    let ids: Vec<String> = all.iter().map(|it| it.id.to_string()).collect();
    let who = match (all.len(), all.len().saturating_sub(NAMED)) {
        (1, _) => format!("vCPU {}", ids[0]),
        (_, 0) => format!("vCPUs {} each", ids.join(", ")),
        (_, more) => format!("vCPUs {} and {more} more each", ids[..NAMED].join(", ")),
    };
    let ran_text = format!("{who} ran {} of the time", percent(ran));
    let exits = mostly_exits(all).map_or_else(String::new, |part| {
        let part = percent(part.min(1.0));
        format!(" Exits took {part} of the CPU time, not the guest.")
    });
    if ran >= BUSY {
        format!("{ran_text} and {halted}.{exits}")
    } else {
        let waited = percent(queued);
        format!("{ran_text}, waited {waited} for a CPU that others used, and {halted}.{exits}")
    }
}

fn of_guest(_: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    // A halt whose vCPU is not known may be of any.
    let unplaced = guest.per_s(guest.unplaced_halts());
    let is_long = guest.interval.length_ns() >= LONG_NS;
    if !is_long || unplaced >= 1.0 || guest.vm.observable != Observable::Yes {
        return None;
    }
    let seats = guest.seats.iter();
    let spinning: Vec<Spinning> = seats.filter_map(|it| Spinning::of(guest, it)).collect();
    if spinning.is_empty() {
        return None;
    }
    let (cause, remedies) = if mostly_exits(&spinning).is_some() {
        let cause = "The guest polls an emulated device or port, or does something else that exits each time.";
        (cause, vec![EXITS])
    } else {
        let polls = Remedy::under(
            Does::GuestPollsLess,
            "Where `top` in the guest shows it idle, it polls: boot it without `idle=poll`, or lower \
             guest_halt_poll_ns.",
            HOST_POLLS_FOR_GUEST,
        );
        let cause = "The guest computes all the time, waits in a loop for an interrupt that was lost, or polls for \
                     itself where it would halt: `idle=poll`, a driver that polls, or cpuidle_haltpoll with a long \
                     guest_halt_poll_ns. From outside these look the same.";
        (cause, vec![LOOK, polls])
    };
    Some(Found {
        who: Who {
            vm: Some(guest.vm.index),
            vcpus: spinning.iter().map(|it| it.id).collect(),
        },
        signature: signature(&spinning),
        cause: cause.to_owned(),
        remedies,
        cost: None,
        sure: Sure::Possible,
    })
}
