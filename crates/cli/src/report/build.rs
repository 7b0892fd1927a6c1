//! From the accounts of a recording to what the report says.

use std::collections::BTreeMap;

use haltwise_core::account::ledger::{KnobSeen, Ledger};
use haltwise_core::account::parts::Parts;
use haltwise_core::account::seen::Span;
use haltwise_core::account::series::{Series, Slot};
use haltwise_core::account::within::Interval;
use haltwise_core::account::worth::Worth;
use haltwise_core::account::{Account, Ceiling, Spread};
use haltwise_core::event::{KnobScope, Observable, Vcpu, Vm};
use haltwise_core::hist::{Octave, together};
use haltwise_core::ids::{VcpuId, VmIndex};
use haltwise_core::topology::Distance;
use haltwise_core::vmm::VcpuTime;

use super::SCHEMA;
use super::view::{
    AccountFigures, CeilingFigures, PollBar, PollFigures, Report, ReportedHost, ReportedSetting,
    ReportedVcpu, ReportedVm, UnknownFigures, WindowFigures, WindowSlot,
};
use crate::reading::recording::Recording;

use crate::figures::CpuFigures;
use crate::recommend::recommendation::Summary;

/// Makes the report of a recording, about all VMs or only those that `wanted` picks.
pub(crate) fn report(
    recording: &Recording,
    wanted: impl Fn(&Vm) -> bool,
    recommendation: Summary,
) -> Report {
    let ledger = &recording.ledger;
    let span_ns = recording.interval().length_ns();
    let mut listed = Listed::new();
    for vcpu in &recording.info.roster.vcpus {
        listed.entry(vcpu.vm).or_default().push(vcpu);
    }
    let unplaced = ledger.unplaced();
    let vms = recording.info.roster.vms.iter().filter(|vm| wanted(vm));
    Report {
        schema: SCHEMA,
        recording: recording.reported.clone(),
        host: ReportedHost {
            name: recording.hostname(),
            kernel: recording.kernel(),
            cpus: Some(ledger.host.cpus).filter(|cpus| *cpus > 0),
            busy_cpus: ledger.host.busy_cpus(),
            cpu_pressure: ledger.host.cpu_pressure(),
            steal: ledger.host.steal(),
            awake_cpus: ledger.host.awake_cpus(),
            package_watts: ledger.host.package_watts(),
            cycles_per_s: ledger.host.cycles_per_s(),
            instructions_per_cycle: ledger.host.instructions_per_cycle(),
            idle_states: ledger.idle_states.used().collect(),
            wakers: (!ledger.cpus.is_empty())
                .then(|| Distance::of_wakers(&recording.info.roster.cpus, ledger)),
            knobs: knobs(ledger),
            vms: recording.info.roster.vms.len(),
            account: account_view(&ledger.total(), &host_time(recording, &listed)),
        },
        recommendation,
        vms: vms
            .map(|vm| Box::new(vm_view(recording, &listed, vm)))
            .collect(),
        unplaced: (!unplaced.is_empty()).then(|| {
            let within = recording.within(|place| place.vm.is_none());
            account_view(&unplaced, &Time::of(within, span_ns, 1))
        }),
    }
}

/// Rows of the roster's vCPUs, by VM.
type Listed<'a> = BTreeMap<VmIndex, Vec<&'a Vcpu>>;

fn of_vm<'a, 'b>(listed: &'b Listed<'a>, vm: &Vm) -> &'b [&'a Vcpu] {
    listed.get(&vm.index).map_or(&[], Vec::as_slice)
}

/// The host's time is that of its VMs' vCPUs while they were there.
fn host_time(recording: &Recording, listed: &Listed<'_>) -> Time {
    let (mut vcpus, mut known) = (0, 0_u64);
    for vm in &recording.info.roster.vms {
        let ids = vcpu_ids(recording, listed, vm).len();
        vcpus += ids;
        let length_ns = recording.interval_of(vm).length_ns();
        known = known.saturating_add(length_ns.saturating_mul(many(ids)));
    }
    let span_ns = recording.interval().length_ns();
    let time = Time::of(recording.within(|_| true), span_ns, vcpus);
    let available_ns = if known > 0 { known } else { time.available_ns };
    Time {
        available_ns,
        ..time
    }
}

fn many(vcpus: usize) -> u64 {
    u64::try_from(vcpus.max(1)).unwrap_or(u64::MAX)
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    pub(crate) span_ns: u64,
    pub(crate) vcpus: usize,
    pub(crate) available_ns: u64,
    pub(crate) halted: Parts,
}

impl Time {
    /// Time of `vcpus` vCPUs, all of them there for `span_ns`.
    pub(crate) fn of(halted: Parts, span_ns: u64, vcpus: usize) -> Self {
        Self {
            span_ns,
            vcpus,
            available_ns: span_ns.saturating_mul(many(vcpus)),
            halted,
        }
    }

    fn share(&self, ns: u64) -> f64 {
        if self.available_ns > 0 {
            (ns as f64 / self.available_ns as f64).min(1.0)
        } else {
            0.0
        }
    }

    fn cpu_percent(&self, ns: u64) -> f64 {
        ns as f64 / self.span_ns.max(1) as f64 * 100.0
    }
}

fn knobs(ledger: &Ledger) -> Vec<ReportedSetting> {
    let rows = ledger.knobs.rows();
    let one = |((scope, name), seen): (&(KnobScope, String), &KnobSeen)| {
        let (scope, vm) = match scope {
            KnobScope::Host => ("host", None),
            KnobScope::GuestOfOther => ("guest-of-other", None),
            KnobScope::Vm(vm) => ("vm", Some(vm.0)),
        };
        ReportedSetting {
            name: name.clone(),
            scope,
            vm,
            value: seen.now.value().cloned().unwrap_or_default(),
            changes: seen.told.count.saturating_sub(1),
        }
    };
    rows.map(one).collect()
}

fn vcpu_ids(recording: &Recording, listed: &Listed<'_>, vm: &Vm) -> Vec<VcpuId> {
    let listed = of_vm(listed, vm).iter();
    let halted = recording.ledger.of_vm(vm.index);
    let mut ids: Vec<VcpuId> = listed.map(|vcpu| vcpu.id).collect();
    ids.extend(halted.filter_map(|(vcpu, _)| vcpu));
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn vm_view(recording: &Recording, listed: &Listed<'_>, vm: &Vm) -> ReportedVm {
    let ids = vcpu_ids(recording, listed, vm);
    let (whole, there) = (recording.interval(), recording.interval_of(vm));
    let span_ns = there.length_ns();
    let within = recording.within_vm(vm);
    let mut account = recording.ledger.vm(vm.index);
    if account.ceilings.is_empty() {
        for vcpu in of_vm(listed, vm) {
            add_ceiling(&mut account, vcpu);
        }
    }
    let figures = account_view(&account, &Time::of(within, span_ns, ids.len().max(1)));
    ReportedVm {
        index: vm.index.0,
        name: vm.name.clone(),
        identity: vm.identity.known(),
        vmm: vm.vmm,
        pid: vm.key.pid.0,
        start_ticks: vm.key.start_ticks,
        ordinal: vm.key.ordinal,
        not_observable: match &vm.observable {
            Observable::Yes => None,
            Observable::No(reason) => Some(reason.clone()),
        },
        from_ns: Some(there.start_ns).filter(|from_ns| *from_ns > whole.start_ns),
        to_ns: Some(there.end_ns).filter(|to_ns| *to_ns < whole.end_ns),
        paused_ns: whole.paused_of(vm),
        cpu: CpuFigures::of(
            vm,
            of_vm(listed, vm).iter().copied(),
            (figures.halts, figures.poll.cpu_percent),
        ),
        account: figures,
        vcpus: ids
            .into_iter()
            .map(|id| {
                let vcpu = of_vm(listed, vm).iter().rev().find(|vcpu| vcpu.id == id);
                vcpu_view(recording, vm, (id, vcpu.copied()), span_ns)
            })
            .collect(),
    }
}

/// Where no halt tells its ceiling, the vCPU does, as it was when last looked at: governing no halt.
fn add_ceiling(account: &mut Account, vcpu: &Vcpu) {
    if let Some(ns) = vcpu.ceiling_ns {
        let source = vcpu.ceiling_source;
        account
            .ceilings
            .add(Ceiling { ns, source }, &Span::default());
    }
}

fn vcpu_view(
    recording: &Recording,
    vm: &Vm,
    (id, listed): (VcpuId, Option<&Vcpu>),
    span_ns: u64,
) -> ReportedVcpu {
    let account = recording.ledger.vcpu(vm.index, id);
    let mut account = account.cloned().unwrap_or_default();
    if let (true, Some(vcpu)) = (account.ceilings.is_empty(), listed) {
        add_ceiling(&mut account, vcpu);
    }
    let within = account.within(recording.interval_of(vm));
    let newest = account.ceilings.rows().max_by_key(|(_, span)| span.last_ns);
    let newest = newest.map(|(ceiling, _)| *ceiling);
    let percent = |of: fn(VcpuTime) -> u64| {
        let threads = vm.threads.as_ref()?;
        Some(threads.per_s(of(listed?.time?)) / 1e7)
    };
    ReportedVcpu {
        id: id.0,
        tid: listed.map(|vcpu| vcpu.tid.0),
        window_ns: account
            .window_now
            .value()
            .copied()
            .or_else(|| listed?.window_ns),
        ceiling_ns: newest.map(|c| c.ns),
        ceiling_source: newest.map(|c| c.source).unwrap_or_default(),
        guest_veto: listed.and_then(|vcpu| vcpu.guest_veto),
        cpu_percent: percent(|time| time.cpu_ns),
        queued_percent: percent(|time| time.queued_ns),
        account: account_view(&account, &Time::of(within, span_ns, 1)),
    }
}

/// An account over the time in which its vCPUs were there.
pub(crate) fn account_view(account: &Account, time: &Time) -> AccountFigures {
    let span_ns = time.span_ns;
    let span = Interval {
        start_ns: 0,
        end_ns: span_ns,
    };
    let per_s = |n: u64| span.per_s(n);
    AccountFigures {
        span_ns,
        vcpus: time.vcpus,
        halts: account.halts,
        halts_per_s: per_s(account.halts),
        waits: account.waits,
        waits_per_s: per_s(account.waits),
        invalid: account.invalid,
        halted_ns: account.halted_ns(),
        halted_share: time.share(time.halted.total_ns()),
        parts: account.parts,
        poll: poll_view(account, time),
        wakes: account.wakes,
        halt_ns: Spread::of(&account.halt_ns),
        gap_ns: Spread::of(&account.gap_ns),
        wake_latency_ns: Spread::of(&account.wake_latency_ns),
        gap_histogram: account.gap_ns.octaves(),
        wake_latency_histogram: account.wake_latency_ns.octaves(),
        window: WindowFigures {
            grows: account.grows,
            shrinks: account.shrinks,
            now_ns: account.window_now.value().copied(),
            slot_ns: account.series.width_ns(),
            slots: slots(&account.series),
            histogram: account.window_ns.octaves(),
        },
        ceilings: ceilings(account),
        worth: Worth::of(account),
        unknown: unknown_view(account),
    }
}

fn poll_view(account: &Account, time: &Time) -> PollFigures {
    let ns = account.poll_ns();
    let failed = account.failed_polls().filter(|_| ns.is_some());
    let Parts {
        poll_success_ns: useful_ns,
        poll_fail_ns: wasted_ns,
        ..
    } = account.polled_of(time.available_ns);
    let rows = together([&account.poll_success_ns, &account.poll_fail_ns]);
    let bar = |(row, [successful, failed]): (Octave, [u64; 2])| PollBar {
        low_ns: row.low_ns,
        high_ns: row.high_ns,
        successful,
        failed,
    };
    let mut bars: Vec<PollBar> = rows.map(bar).collect();
    let has_zero = bars.first().is_some_and(|bar| bar.high_ns == 0);
    let zero = if has_zero {
        bars.remove(0)
    } else {
        PollBar::default()
    };
    PollFigures {
        known: account.poll_known,
        polled: account.polled,
        successful: account.successful_polls,
        failed,
        cut: account.poll_cuts().filter(|_| ns.is_some()),
        bound: account.poll_bound().as_str(),
        not_polled: account.not_polled(),
        ns,
        cpu_percent: ns.map(|_| time.cpu_percent(useful_ns.saturating_add(wasted_ns))),
        useful_cpu_percent: ns.map(|_| time.cpu_percent(useful_ns)),
        wasted_cpu_percent: failed.map(|_| time.cpu_percent(wasted_ns)),
        zero,
        time_against_count: bars,
    }
}

fn slots(series: &Series) -> Vec<WindowSlot> {
    let view = |(start_ns, slot): (u64, &Slot)| {
        let windows = if slot.window.count > 0 {
            slot.window
        } else {
            slot.change
        };
        WindowSlot {
            start_ns,
            halts: slot.halts,
            waits: slot.waits,
            poll_ns: slot.poll_ns,
            window_mean_ns: windows.mean(),
            window_max_ns: (windows.count > 0).then_some(windows.max),
        }
    };
    series.slots().map(view).collect()
}

fn ceilings(account: &Account) -> Vec<CeilingFigures> {
    let rows = account.ceilings.rows();
    rows.map(|(ceiling, span)| CeilingFigures {
        ns: ceiling.ns,
        source: ceiling.source,
        halts: span.count,
        first_ns: span.first_ns,
        last_ns: span.last_ns,
    })
    .collect()
}

fn unknown_view(account: &Account) -> UnknownFigures {
    let share = |n: u64| n as f64 / account.halts.max(1) as f64;
    UnknownFigures {
        window_ns: share(account.unknown.window_ns),
        ceiling_ns: share(account.unknown.ceiling_ns),
        poll_ns: share(account.unknown.poll_ns),
        wake_latency_ns: share(account.unknown.wake_latency_ns),
        wake: share(account.unknown.wake),
    }
}
