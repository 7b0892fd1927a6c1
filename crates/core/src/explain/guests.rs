//! Rules about guests that halt, poll or wake themselves in a way that KVM does not see or decide.

use super::ceilings::{TooSoon, slept_too_soon};
use super::cost::{EXIT_NS, switches_ns};
use super::prelude::*;
use super::remedy::WITHOUT_HALTPOLL;
use super::terms::HOST_POLLS_FOR_GUEST;
use crate::vmm::VcpuTime;

/// `kvm_arch_no_poll` forbids polling where bit 0 of `MSR_KVM_POLL_CONTROL` is clear. Linux clears it when the cpuidle
/// driver haltpoll starts; that the guest polls itself is the governor haltpoll's doing. With the driver and another
/// governor (Debian 6.1 has only menu, by `cpuidle_haltpoll.force=1`), or with `guest_halt_poll_ns=0`, nothing polls: the
/// guest halts for gaps shorter than a wake-up takes, which a guest that polls up to 200 us does not.
pub(super) const GUEST_VETO: Rule = Rule {
    id: "guest-veto",
    title: "the guest disabled host polling",
    source: "kvm_arch_no_poll in arch/x86/kvm/x86.c; Documentation/virt/kvm/x86/msr.rst",
    look: look_for_vetoes,
};

const LEFT_TO_GUEST: Remedy = Remedy::new(
    Does::Nothing,
    "Nothing, where the guest's polling is wanted: its parameter guest_halt_poll_ns says how \
     long it polls.",
    "None beyond what the guest's polling takes, up to guest_halt_poll_ns for each halt.",
    "Where other tasks want the CPUs: a guest that polls does not give its CPU up, and the host cannot see that it \
     is idle.",
);

fn look_for_vetoes(evidence: &Evidence<'_>) -> Judgement {
    let listed = evidence.guests.iter().flat_map(|guest| &guest.seats);
    let mut known = listed.filter_map(|seat| Some(seat.listed?.guest_veto.is_some()));
    if known.clone().next().is_some() && !known.any(|known| known) {
        return Judgement::blind("not recorded whether a guest disabled host polling");
    }
    evidence.each(guest_veto).into()
}

fn guest_veto(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let vetoed = guest.seats.iter().filter(|seat| seat.is_vetoed());
    let vcpus: Vec<_> = vetoed.map(|seat| seat.id).collect();
    if vcpus.is_empty() {
        return None;
    }
    let gathered = guest.gather(|seat, _| seat.is_vetoed());
    let account = gathered.map(|(_, account)| account).unwrap_or_default();
    let signature = format!(
        "MSR_KVM_POLL_CONTROL is 0 on {} of {} vCPUs, which halted {}",
        vcpus.len(),
        guest.seats.len(),
        rate(guest.per_s(account.halts)),
    );
    let mut found = Found {
        who: Who {
            vm: Some(guest.vm.index),
            vcpus,
        },
        signature: format!("{signature}."),
        cause:
            "A Linux guest does that when its cpuidle driver is haltpoll, and polls itself if its \
             governor is haltpoll too. No setting of the host affects these vCPUs."
                .to_owned(),
        remedies: Vec::new(),
        cost: None,
        sure: Sure::Certain,
    };
    let too_soon = slept_too_soon(&account).filter(TooSoon::is_habit);
    if let Contention::Wanted(why) = Contention::of(evidence, &account) {
        found.signature = format!("{signature}; {why}.");
        found.cause.push_str(
            " Where it polls, it keeps its CPU from others: KVM cannot preempt a poll of the guest.",
        );
        found.sure = Sure::Possible;
        found.remedies = vec![Remedy::under(
            Does::GuestPollsLess,
            WITHOUT_HALTPOLL,
            HOST_POLLS_FOR_GUEST,
        )];
    } else if let Some(too_soon) = too_soon {
        found.signature = format!(
            "{signature}; {} of these halts slept although the wake came within {}, the median wake-up \
             latency.",
            percent(too_soon.share.map_or(0.0, |share| share.share)),
            nanos(too_soon.break_even_ns),
        );
        "Neither host nor guest polls for these vCPUs: the guest disabled host polling, and halts \
         during gaps short enough for guest polling. Linux: the cpuidle driver is haltpoll and the \
         governor is not (/sys/devices/system/cpu/cpuidle in the guest), or guest_halt_poll_ns is 0."
            .clone_into(&mut found.cause);
        found.sure = Sure::Likely;
        found.cost = Some(too_soon.cost(guest));
        let remedy = Remedy::host_polling(evidence, Does::HostPollsMore, Lever::Guest);
        found.remedies = vec![remedy.taking(too_soon.takes(guest))];
    } else {
        found.remedies = vec![LEFT_TO_GUEST];
    }
    Some(found)
}

/// No halt may mean that exits on HLT are disabled (`KVM_X86_DISABLE_EXITS_HLT`, QEMU's `-overcommit cpu-pm=on`), that WFI
/// is not trapped, or that the guest never rests. The recorder tells the first where it can; elsewhere a guest without a
/// halt in a second or more is reported as possible only. One that has its host handle exits for much of the time is seen
/// not to rest. Time in which it is known to have been paused does not count.
pub(super) const NOT_OBSERVABLE: Rule = Rule {
    id: "halts-not-observable",
    title: "halts that cannot be observed",
    source: "KVM_CAP_X86_DISABLE_EXITS in Documentation/virt/kvm/api.rst",
    look: look_for_unobservable,
};

/// No shorter recording is judged by the absence of halts.
const LONG_ENOUGH_NS: u64 = 1_000_000_000;

/// Share of its time that a vCPU at rest inside the guest does not spend in exits: a tick of 1 ms whose
/// handling takes 50 us is half of that.
const BUSY_WITH_EXITS: f64 = 0.1;

const TRAPPED: Remedy = Remedy::new(
    Does::TrapsHalts,
    "QEMU: `-overcommit cpu-pm=off`; libvirt: no `<cpu-pm/>`.",
    "Each halt exits, and its wake-up takes an interrupt of the host and a switch; it holds from the VM's next start.",
    "A VM on CPUs of its own that is bought for its latency.",
);

const IN_KERNEL: Remedy = Remedy::new(
    Does::SparesExits,
    "Have KVM emulate the interrupt controllers: QEMU `-machine kernel-irqchip=on`.",
    "It holds from the VM's next start, and the VM no longer migrates to where QEMU emulates them.",
    "A VM whose virtual IOMMU remaps interrupts: it needs `kernel-irqchip=split`.",
);

fn look_for_unobservable(evidence: &Evidence<'_>) -> Judgement {
    let found = evidence.each(not_observable);
    let silent = |guest: &Guest<'_>| {
        let silent = guest.seats.iter().all(|it| it.account.is_none());
        let can_be_seen = guest.vm.observable == Observable::Yes;
        can_be_seen && silent && !is_known_to_exit(guest) && !is_paused(guest)
    };
    let guests = evidence.guests.iter().filter(|guest| silent(guest));
    let spans = guests.map(ran_ns);
    let short = spans.filter(|span_ns| *span_ns < LONG_ENOUGH_NS).max();
    let blind = short.map(|span_ns| {
        format!(
            "{} without a halt is too short to judge; {} is needed",
            nanos(span_ns),
            nanos(LONG_ENOUGH_NS)
        )
    });
    Judgement { found, blind }
}

fn not_observable(_: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let span_ns = ran_ns(guest);
    let found = |signature: String, sure: Sure| Found {
        who: guest.whole(),
        signature,
        cause:
            "Halts that stay inside the guest are not idle time that the host sees: its CPU looks \
                busy, and no halt-polling setting reaches it."
                .to_owned(),
        remedies: vec![TRAPPED],
        cost: None,
        sure,
    };
    if let Observable::No(reason) = &guest.vm.observable {
        let signature = format!("Not observable: {reason}.");
        let found = found(signature, Sure::Certain);
        if !reason.contains("LAPIC") {
            return Some(found);
        }
        return Some(Found {
            cause: "The VMM handles halts itself, and KVM neither polls nor reports them."
                .to_owned(),
            remedies: vec![IN_KERNEL],
            ..found
        });
    }
    let none = guest.seats.iter().all(|seat| seat.account.is_none());
    // Its exits tell of halts that were seen though not recorded.
    let exits = guest
        .exits
        .is_some_and(|exits| exits.total().halts.count > 0);
    let long = span_ns >= LONG_ENOUGH_NS && !guest.seats.is_empty();
    (none && long && !exits && !is_known_to_exit(guest) && !is_busy(guest)).then(|| {
        let vcpus = match guest.seats.len() {
            1 => "1 vCPU".to_owned(),
            many => format!("{many} vCPUs"),
        };
        let seen = format!("{vcpus} and no halt in {}.", nanos(span_ns));
        found(seen, Sure::Possible)
    })
}

/// Whether the recorder read each vCPU's structures, where it would have found exits on HLT disabled: what the
/// guest says of host polling lies beside that.
fn is_known_to_exit(guest: &Guest<'_>) -> bool {
    let mut seats = guest.seats.iter();
    seats.all(|seat| seat.listed.is_some_and(|vcpu| vcpu.guest_veto.is_some()))
}

/// How long it may have run: for all that it is known to have been paused.
fn ran_ns(guest: &Guest<'_>) -> u64 {
    let paused_ns = guest.interval.paused_of(guest.vm).unwrap_or(0);
    guest.interval.length_ns().saturating_sub(paused_ns)
}

/// Whether it is known to have been paused for nearly all of its time: such a one has nothing to tell.
fn is_paused(guest: &Guest<'_>) -> bool {
    guest.vm.paused.is_some() && ran_ns(guest) <= guest.interval.length_ns() / 100
}

/// Whether its exits, or where those are not told its returns to the VMM, keep the host busy.
fn is_busy(guest: &Guest<'_>) -> bool {
    let busy_ns = guest.exits.map_or(0, |exits| {
        let total = exits.total();
        total.exits.time_ns().max(total.userspace.time_ns())
    });
    busy_ns as f64 > BUSY_WITH_EXITS * guest.interval.length_ns() as f64 * guest.seats.len() as f64
}

/// `idle=poll`, a polling driver (DPDK), or a long `guest_halt_poll_ns` keep a vCPU running through its idle time; so does
/// a restored microVM whose vCPU waits for an IPI that never comes. A recorder cannot look into the guest, so that this is
/// possible only.
pub(super) const NEVER_HALTS_RULE: Rule = Rule {
    id: super::NEVER_HALTS,
    title: "a vCPU that never halts",
    source: "Documentation/virt/guest-halt-polling.rst; idle= in kernel-parameters.txt",
    look: |evidence| {
        let lacks = "the CPU time of vCPUs was not recorded";
        evidence.each_threads(|threads| threads.vcpu_cpu_ns, lacks, never_halts)
    },
};

/// A vCPU ran, or waited for a CPU, for this share of the time.
const BUSY: f64 = 0.9;

const NAMED: usize = 8;

const LOOK_IN_GUEST: Remedy = Remedy::new(
    Does::Nothing,
    "No setting of KVM helps: look in the guest, or for a lost interrupt.",
    "Nothing: no setting is changed.",
    "Nowhere: a guest that computes all the time is left as it is.",
);

const LOOK_AT_EXITS: Remedy = Remedy::new(
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

fn never_halts(_: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    // A halt whose vCPU is not known may be of any.
    let unplaced = guest.per_s(guest.unplaced_halts());
    let is_long = guest.interval.length_ns() >= LONG_ENOUGH_NS;
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
        (cause, vec![LOOK_AT_EXITS])
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
        (cause, vec![LOOK_IN_GUEST, polls])
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

/// A guest that polls in its idle loop sees the other vCPU's flag in shared memory, without an IPI and without an exit.
/// Its default reach is 200 us, so that half of the gaps must be shorter. Half of the wakes must be IPIs, and they must
/// come at a storm's rate.
pub(super) const IPI_STORM: Rule = Rule {
    id: "ipi-storm",
    title: "vCPUs that wake each other by interrupts",
    source: "Documentation/virt/guest-halt-polling.rst; KVM Forum 2017, smart idle poll",
    look: |evidence| {
        let wakes = |account: &Account| account.unknown.wake;
        evidence.each_halting(wakes, "wake sources were not recorded", ipi_storm)
    },
};

/// `guest_halt_poll_ns`.
const REACH_NS: u64 = 200_000;

/// Exits that each such wake takes: of the vCPU that halts and of the one that writes to its ICR.
const EXITS_EACH: f64 = 2.0;

/// Share of the wakes.
const HALF: f64 = 0.5;

const GUEST_POLLS: Remedy = Remedy::new(
    Does::GuestPolls,
    "In a Linux guest on x86 (5.4 or later): `modprobe cpuidle-haltpoll force=Y`, or QEMU \
     `-cpu host,kvm-hint-dedicated=on`; `haltwise tune DIR --policy guest-haltpoll` \
     shows what it would have cost.",
    "CPU time: the guest polls up to guest_halt_poll_ns for each halt, which its host sees as work.",
    "Where other tasks want the CPUs: KVM does not preempt a poll of the guest for them as it does its own.",
);

fn is_woken_by_others(seat: &VcpuEvidence<'_>, account: &Account) -> bool {
    let is_half = |share: Option<Share>| share.is_some_and(|share| share.is_from(HALF));
    !seat.is_vetoed()
        && is_half(wake_share(account, WakeSource::Ipi))
        && is_half(gaps_within(account, REACH_NS))
}

fn ipi_storm(_: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
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
            cpu_ns_per_s: (guest.per_s(switches_ns(&account)) + EXITS_EACH * per_s * EXIT_NS) * part,
            latency_ns_per_s: guest.per_s(latency) * part,
        }),
        sure: Sure::Likely,
    })
}
