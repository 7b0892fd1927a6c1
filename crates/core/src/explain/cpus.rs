//! Rules about the CPUs of the host: too few of them, shared cores, deep idle states, schedulers.

use super::cost::SHOWN_FROM_NS_PER_S;
use super::prelude::*;
use super::terms::{FEWER_VCPUS, NOTHING_DONE};
use crate::account::idle::StateUse;

/// Wake-up latency (95th percentile) from which woken vCPUs wait for a CPU: a switch takes some 10 us, a slice of the
/// scheduler 700 us and more (`base_slice_ns`).
const WAITS_NS: u64 = 100_000;

/// [`Contention`] tells whether other tasks want the CPUs. The cost is the CPU time polled, which another task waited for,
/// and the wake-up latency beyond that of a wake-up that waits for no other task, for which the tenth percentile stands.
pub(super) const OVER_COMMITMENT: Rule = Rule {
    id: "over-committed-polling",
    title: "vCPUs on overcommitted CPUs",
    source: "kvm_vcpu_can_poll in include/linux/kvm_host.h; IBM, KVM network study",
    look: |evidence| {
        if Contention::of(evidence, &evidence.total) == Contention::Unknown {
            return Judgement::blind("neither CPU pressure nor enough poll outcomes were recorded");
        }
        evidence.each(over_commitment).into()
    },
};

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

fn over_commitment(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
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

/// `PAUSE` leaves the sibling most of the core, not all of it. What is left of its speed is measurable on hardware with
/// SMT only, so that the cost is not computed.
pub(super) const BUSY_SIBLING: Rule = Rule {
    id: "polling-beside-busy-sibling",
    title: "polling on a core whose sibling has work",
    source: "kvm_vcpu_halt in virt/kvm/kvm_main.c; Documentation/virt/kvm/halt-polling.rst, Further Notes",
    look: busy_sibling,
};

fn busy_sibling(evidence: &Evidence<'_>) -> Judgement {
    let length_ns = evidence.interval.length_ns().max(1) as f64;
    let busy = |ns: Option<u64>| ns.map_or(0.0, |ns| ns as f64 / length_ns);
    let cpus = evidence.cpus;
    if cpus.iter().all(|cpu| cpu.busy_ns.is_none()) || evidence.ledger.cpus.is_empty() {
        return Judgement::blind("the CPUs on which vCPUs polled were not recorded");
    }
    let (mut polled_ns, mut busiest, mut on) = (0_u64, 0.0_f64, Vec::new());
    for cpu in cpus {
        let siblings = cpus.iter().filter(|other| cpu.is_sibling(other));
        let share = siblings.map(|it| busy(it.busy_ns)).fold(0.0, f64::max);
        let rows = evidence.ledger.cpus.rows();
        let polls = rows.filter(|((on, _), _)| *on == cpu.id);
        let polled = total(polls.map(|(_, of)| of.poll_ns));
        if share >= HABIT && polled > 0 {
            polled_ns.fold(&polled);
            busiest = busiest.max(share);
            on.push(cpu.id.to_string());
        }
    }
    let lever = Lever::of(&evidence.total);
    let less = Remedy::host_polling(evidence, Does::HostPollsLess, lever);
    let polled_per_s = evidence.interval.per_s(polled_ns);
    let found = (polled_per_s >= SHOWN_FROM_NS_PER_S).then(|| Found {
        who: Who::HOST,
        signature: format!(
            "Polling took {} of a CPU where the sibling was busy, for up to {} of the time: on CPU {}.",
            percent(polled_per_s / 1e9),
            percent(busiest.min(1.0)),
            on.join(", "),
        ),
        cause: "A poll takes execution resources of the core from the thread beside it. The price is measurable on \
                hardware with SMT only, and is not in a recording."
            .to_owned(),
        remedies: vec![less],
        cost: None,
        sure: Sure::Possible,
    });
    found.into()
}

/// The deepest state of Skylake and Ice Lake servers takes 133 and 170 us to leave, which every wake-up then pays; only a
/// poll that ends in time avoids the sleep. The signature: half of the wake-ups take [`DEEP_NS`] or more, no other task
/// wants the CPUs, and the idle time lies in state 2 or deeper. On which CPU a vCPU woke is not recorded.
pub(super) const DEEP_IDLE: Rule = Rule {
    id: "deep-idle-states",
    title: "wake-ups from deep idle states of the host",
    source: "drivers/idle/intel_idle.c; Documentation/admin-guide/pm/cpuidle.rst",
    look: look_for_deep_idle,
};

/// Median wake-up latency that shows deep states: a wake-up from a shallow one takes some 10 to 50 us.
const DEEP_NS: u64 = 80_000;

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

fn look_for_deep_idle(evidence: &Evidence<'_>) -> Judgement {
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
    let found = evidence.each(|_, guest| deep_idle(evidence, guest, most, part));
    found.into()
}

fn deep_idle(
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

/// A `sched_ext` scheduler with a queue of its own hands tasks to a CPU one by one: the CPU's run queue is empty while
/// tasks wait, polls go on, and few count as preempted. [`Contention`] then asks CPU pressure alone.
pub(super) const SCHED_EXT: Rule = Rule {
    id: "sched-ext",
    title: "a sched_ext scheduler decides who runs",
    source: "Documentation/scheduler/sched-ext.rst; kvm_vcpu_can_poll in include/linux/kvm_host.h",
    look: sched_ext,
};

const BY_PRESSURE: Remedy = Remedy::new(
    Does::Nothing,
    "Nothing, if CPU pressure (PSI) is low. Where tasks wait, judge by that and not by preempted \
     polls; a lower halt_poll_ns gives CPUs back sooner.",
    "None, where nothing is done; with a lower halt_poll_ns wake-ups that polls met take a sleep and its wake-up.",
    "Leaving it as it is does harm where CPU pressure is high: tasks then wait for as long as vCPUs poll.",
);

/// The setting that says so, as `/sys/kernel/sched_ext/state` has it.
const SCHED_EXT_STATE: &str = "sched_ext.state";

pub(super) fn is_sched_ext_active(evidence: &Evidence<'_>) -> bool {
    evidence.setting(SCHED_EXT_STATE) == Some("enabled")
}

fn sched_ext(evidence: &Evidence<'_>) -> Judgement {
    if !is_sched_ext_active(evidence) || evidence.guests.is_empty() {
        return Judgement::default();
    }
    let preempted = match evidence.total.preempted() {
        Some(share) => format!("{} of the polls were preempted", percent(share.share)),
        None => "too few polls have a known outcome".to_owned(),
    };
    let name = evidence.setting("sched_ext.ops").unwrap_or("not known");
    Judgement::from(vec![Found {
        who: Who::HOST,
        signature: format!("sched_ext is enabled, scheduler: {name}; {preempted}."),
        cause: "KVM stops a poll when its CPU's run queue has another task. A scheduler with queues of its \
                own fills that queue late, so that vCPUs poll on while tasks wait."
            .to_owned(),
        remedies: vec![BY_PRESSURE],
        cost: None,
        sure: Sure::Certain,
    }])
}

/// From Linux 6.15 on, KVM intercepts `IDLE_HLT` in place of HLT on processors that have it (Zen 5). Halts that would have
/// ended at once are in no recording; that is no loss of the recorder, and nothing that could be tuned.
pub(super) const IDLE_HLT_RULE: Rule = Rule {
    id: "amd-idle-hlt",
    title: "halts that would end at once stay inside the guest (Idle HLT)",
    source: "SVM: Idle HLT intercept, Linux 6.15, arch/x86/kvm/svm/svm.c",
    look: idle_hlt,
};

const NO_IDLE_HLT: Remedy = Remedy::new(
    Does::SparesVmm,
    "Where guests stall for seconds (reported of Zen 5 under Linux 6.17 and 6.18): boot the host with \
     `clearcpuid=510`, which switches Idle HLT off. `halt_poll_ns=0` cures stalls of idle guests alone.",
    "The host boots again, and halts that would end at once exit again.",
    "Where no guest stalls: then it costs exits and cures nothing.",
);

const IDLE_HLT: u32 = 0xa6;

fn idle_hlt(evidence: &Evidence<'_>) -> Judgement {
    let told = evidence.exits.iter().flat_map(|seen| seen.vms.values());
    let mut causes = told.flat_map(|account| account.causes.keys());
    let exits = causes.any(|cause| {
        (cause.kind, cause.isa, cause.reason) == (Kind::Exit, Isa::Svm, Some(IDLE_HLT))
    });
    let has = exits || evidence.setting("cpu.idle_hlt") == Some("Y");
    let found = has && evidence.total.halts > 0;
    Judgement::from(found.then(|| Found {
        who: Who::HOST,
        signature: format!(
            "The processor has Idle HLT; {} halts reached KVM.",
            evidence.total.halts
        ),
        cause: "A HLT with an interrupt pending does not exit: the guests halted more often than was recorded, \
                and the shortest gaps are not in this recording."
            .to_owned(),
        remedies: vec![
            Remedy::under(
                Does::Nothing,
                "Nothing. Compare with recordings of processors without it by time halted, not by halts.",
                NOTHING_DONE,
            ),
            NO_IDLE_HLT,
        ],
        cost: None,
        sure: Sure::Certain,
    }))
}
