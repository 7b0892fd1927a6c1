//! Running totals of every VM of this host, and the metrics of them.
//!
//! Facts go in at each drain. A VM that has ended is shown a while longer, so that the last of its counts is scraped,
//! and stays in the totals of the host, which never shrink.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::account::Account;
use haltwise_core::account::seen::Span;
use haltwise_core::account::series::Series;
use haltwise_core::event::{
    CeilingSource, Facts, HostSample, Knob, KnobScope, Observable, Vcpu, Vm, WakeSource,
};
use haltwise_core::exit::Kind as ExitKind;
use haltwise_core::exit::account::{Account as ExitAccount, By};
use haltwise_core::exit::names::Names;
use haltwise_core::hist::{LogHist, bucket_high};
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::{Missing, Roster};
use haltwise_core::vmm::Threads;
use haltwise_document::openmetrics::{Buckets, Kind, Labels, Metrics};
use haltwise_host::clock;

use crate::exporter::figures::{
    BuildNames, CostState, CostTotals, CpuTotals, ExitTotals, HaltTotals, HostState, HostTotals,
    LostTotals, MissingNames, Parameter, VmLabels, VmNames, VmState, WakeTotals,
};
use crate::exporter::serving::PREFIX;
use crate::top::step::{Losses, lost_by_place};

/// How long a VM that has ended is still shown: two scrapes at an interval of a minute.
pub(crate) const KEPT_NS: u64 = 120_000_000_000;

const VM: &str = "haltwise_vm";
const HOST: &str = "haltwise_host";

#[derive(Debug, Default)]
pub(crate) struct Watched {
    build: BuildNames,
    missing: Vec<Missing>,
    names: Option<Names>,
    vms: BTreeMap<VmIndex, Seen>,
    /// All halts: of VMs that are gone, and of those that no VM could be found for, too.
    all: Account,
    parameters: BTreeMap<String, u64>,
    lost: Losses,
    host: Option<HostSample>,
    package_uj: Option<u64>,
    added_ns_per_halt: Option<f64>,
    newest_ns: u64,
}

#[derive(Debug)]
struct Seen {
    vm: Vm,
    labels: VmLabels,
    vcpus: Vec<Vcpu>,
    halts: Account,
    exits: Option<Box<ExitAccount>>,
}

fn labels(vm: &Vm, taken: &mut BTreeSet<VmLabels>) -> VmLabels {
    let uuid = vm.identity.uuid.as_ref();
    VmLabels::among(taken, &vm.name, uuid, || match vm.key.ordinal {
        0 => vm.key.pid.to_string(),
        ordinal => format!("{}-{ordinal}", vm.key.pid),
    })
}

impl Watched {
    /// Before the first fact. `names` are those of exits, where they are counted.
    pub(crate) fn new(build: BuildNames, missing: Vec<Missing>, names: Option<Names>) -> Self {
        Self {
            build,
            missing,
            names,
            newest_ns: clock::monotonic_ns(),
            ..Self::default()
        }
    }

    pub(crate) fn facts(&mut self, facts: &Facts, roster: &Roster, now_ns: u64) {
        self.newest_ns = now_ns;
        self.roster(roster, now_ns);
        for counts in &facts.counts {
            self.account(counts.vm, |account| account.counts(counts));
        }
        for halt in &facts.halts {
            self.account(halt.vm, |account| account.halt(halt));
        }
        for row in &facts.exits {
            if let Some(seen) = row.vm.and_then(|vm| self.vms.get_mut(&vm)) {
                let empty = || Box::new(ExitAccount::new(By::Reason, 0));
                seen.exits.get_or_insert_with(empty).add(row);
            }
        }
        for lost in &facts.lost {
            let at = Span::of_one(lost.time_ns).times(lost.count);
            self.lost.add(lost.place.clone(), &at);
        }
        // Prometheus keeps the history.
        self.all.series = Series::default();
        for seen in self.vms.values_mut() {
            seen.halts.series = Series::default();
        }
    }

    fn account(&mut self, vm: Option<VmIndex>, add: impl Fn(&mut Account)) {
        add(&mut self.all);
        if let Some(seen) = vm.and_then(|vm| self.vms.get_mut(&vm)) {
            add(&mut seen.halts);
        }
    }

    pub(crate) fn knobs(&mut self, knobs: &[Knob]) {
        for knob in knobs
            .iter()
            .filter(|knob| matches!(knob.scope, KnobScope::Host | KnobScope::GuestOfOther))
        {
            let value = match &*knob.value {
                "Y" => Some(1),
                "N" => Some(0),
                number => number.parse().ok(),
            };
            if let Some(value) = value {
                self.parameters.insert(knob.name.clone(), value);
            }
        }
    }

    /// Stores the resources that the host and this process have used, and the time that counting adds to a halt.
    pub(crate) fn host(&mut self, sample: HostSample, added_ns_per_halt: Option<f64>) {
        self.package_uj = sample.package_uj.or(self.package_uj);
        self.host = Some(sample);
        self.added_ns_per_halt = added_ns_per_halt.or(self.added_ns_per_halt);
    }

    fn roster(&mut self, roster: &Roster, now_ns: u64) {
        let is_recent = |to_ns| now_ns.saturating_sub(to_ns) < KEPT_NS;
        let is_kept = |vm: &&Vm| vm.to_ns.is_none_or(is_recent);
        let kept: Vec<&Vm> = roster.vms.iter().filter(is_kept).collect();
        self.vms
            .retain(|index, _| kept.binary_search_by_key(index, |vm| vm.index).is_ok());
        let has_new = kept.iter().any(|vm| !self.vms.contains_key(&vm.index));
        let known = self.vms.values().filter(|_| has_new);
        let mut taken = known.map(|seen| seen.labels.clone()).collect();
        for vm in kept {
            let first = roster.vcpus.partition_point(|vcpu| vcpu.vm < vm.index);
            let own = roster.vcpus[first..].iter();
            let own = own.take_while(|vcpu| vcpu.vm == vm.index).cloned();
            let seen = self.vms.entry(vm.index).or_insert_with(|| Seen {
                labels: labels(vm, &mut taken),
                vm: vm.clone(),
                vcpus: Vec::new(),
                halts: Account::default(),
                exits: None,
            });
            if seen.vm != *vm {
                seen.vm = vm.clone();
            }
            seen.vcpus.clear();
            seen.vcpus.extend(own);
        }
    }

    /// Adds all metrics: those of the host first, then VM by VM, the longest known first.
    pub(crate) fn add_to(&self, metrics: &mut Metrics) {
        let none = Labels::none();
        let build = Labels::of(&self.build);
        metrics.info(
            "haltwise_build",
            "This program and its source of facts.",
            &build,
        );
        for missing in &self.missing {
            let labels = Labels::of(&MissingNames {
                field: missing.field.clone(),
                reason: missing.reason.clone(),
            });
            let help = "What cannot be observed on this host, and why.";
            metrics.info("haltwise_missing", help, &labels);
        }
        metrics.add(Kind::Counter, HOST, &none, &totals(&self.all));
        wakes(metrics, HOST, &none, &self.all);
        metrics.add(Kind::Counter, HOST, &none, &self.host_totals());
        metrics.add(Kind::Gauge, HOST, &none, &self.host_state());
        for (name, value) in &self.parameters {
            let labels = none.and("parameter", name);
            metrics.add(
                Kind::Gauge,
                "haltwise_kvm",
                &labels,
                &Parameter { parameter: *value },
            );
        }
        for (place, lost_events) in lost_by_place(&self.lost) {
            let labels = none.and("place", place);
            let lost = LostTotals { lost_events };
            metrics.add(Kind::Counter, "haltwise", &labels, &lost);
        }
        metrics.add(Kind::Counter, PREFIX, &none, &self.cost_totals());
        metrics.add(Kind::Gauge, PREFIX, &none, &self.cost_state());
        for seen in self.vms.values() {
            metrics.subject(|metrics| seen.add_to(metrics, self.names.as_ref()));
        }
    }

    fn host_totals(&self) -> HostTotals {
        let host = self.host.as_ref();
        HostTotals {
            cpu_busy_ns: host.map(|host| host.busy_ns),
            cpu_ns: host.map(|host| host.total_ns),
            cpu_pressure_ns: host.and_then(|host| host.cpu_pressure_ns),
            cpu_steal_ns: host.and_then(|host| host.steal_ns),
            package_uj: self.package_uj,
        }
    }

    fn host_state(&self) -> HostState {
        let there = || self.vms.values().filter(|seen| seen.vm.to_ns.is_none());
        let is_hidden = |seen: &&Seen| !seen.is_observable();
        HostState {
            cpus: self.host.as_ref().map(|host| u64::from(host.cpus)),
            vms: there().count() as u64,
            vcpus: there().map(|seen| seen.vcpus.len() as u64).sum(),
            unobservable_vms: there().filter(is_hidden).count() as u64,
        }
    }

    fn cost_totals(&self) -> CostTotals {
        CostTotals {
            cpu_ns: Some(clock::process_cpu_ns()),
            bpf_cpu_ns: self.host.as_ref().and_then(|host| host.bpf_cpu_ns),
        }
    }

    fn cost_state(&self) -> CostState {
        CostState {
            resident_bytes: self.host.as_ref().map(|host| host.recorder_rss_bytes),
            added_per_halt_ns: self.added_ns_per_halt,
            age_ns: clock::monotonic_ns().saturating_sub(self.newest_ns),
        }
    }
}

impl Seen {
    fn is_observable(&self) -> bool {
        self.vm.observable == Observable::Yes
    }

    fn add_to(&self, metrics: &mut Metrics, names: Option<&Names>) {
        let labels = Labels::of(&self.labels);
        let help = "Other names of a VM; join it by vm, uuid and pid.";
        metrics.info(VM, help, &Labels::of(&self.names()));
        if self.vm.to_ns.is_none() {
            metrics.add(Kind::Gauge, VM, &labels, &self.state());
        }
        metrics.add(Kind::Counter, VM, &labels, &self.cpu());
        // A value that cannot be observed is not zero.
        if self.is_observable() || self.halts.halts > 0 {
            metrics.add(Kind::Counter, VM, &labels, &totals(&self.halts));
            wakes(metrics, VM, &labels, &self.halts);
        }
        let (Some(exits), Some(names)) = (&self.exits, names) else {
            return;
        };
        for (cause, tally) in &exits.causes {
            if cause.kind == ExitKind::Exit {
                let labels = labels.and("reason", &cause.name(names));
                let totals = ExitTotals {
                    exits: tally.count,
                    exit_ns: tally.time_ns(),
                };
                metrics.add(Kind::Counter, VM, &labels, &totals);
            }
        }
    }

    fn names(&self) -> VmNames {
        let identity = &self.vm.identity;
        let in_pod = identity.pod_uid.is_some();
        let namespace = (self.vm.name.split_once('/')).filter(|_| in_pod);
        VmNames {
            labels: self.labels.clone(),
            vmm: self.vm.vmm.as_str().to_owned(),
            vmm_pid: self.vm.key.pid.to_string(),
            domain: identity.domain.clone(),
            vmid: identity.vmid.clone(),
            namespace: namespace.map(|(namespace, _)| namespace.to_owned()),
            pod: identity.pod.clone(),
            pod_uid: identity.pod_uid.clone(),
            cgroup: identity.cgroup.clone(),
        }
    }

    fn cpu(&self) -> CpuTotals {
        let threads = self.vm.threads.as_ref();
        let times = self.vcpus.iter().map(|vcpu| vcpu.time);
        CpuTotals {
            cpu_ns: threads.and_then(Threads::cpu_ns),
            guest_cpu_ns: threads.and_then(|threads| threads.guest_ns(times)),
            vmm_cpu_ns: threads.and_then(|threads| threads.others_cpu_ns),
        }
    }

    fn state(&self) -> VmState {
        let largest = |of: fn(&Vcpu) -> Option<u32>| {
            let known = self.vcpus.iter().filter_map(of);
            known.max().map(u64::from)
        };
        let ceilings = self.vcpus.iter().filter(|vcpu| vcpu.ceiling_ns.is_some());
        let own = ceilings.map(|vcpu| vcpu.ceiling_source == CeilingSource::Cap);
        let vetoes: Vec<bool> = (self.vcpus.iter())
            .filter_map(|vcpu| vcpu.guest_veto)
            .collect();
        let disabled = vetoes.iter().filter(|veto| **veto).count() as u64;
        VmState {
            vcpus: self.vcpus.len() as u64,
            observable: self.is_observable(),
            paused: self.vm.paused.map(|paused| paused.from_ns.is_some()),
            ceiling_ns: largest(|vcpu| vcpu.ceiling_ns),
            ceiling_own: own.reduce(|one, other| one || other),
            window_ns: largest(|vcpu| vcpu.window_ns),
            vcpus_polling_disabled: (!vetoes.is_empty()).then_some(disabled),
        }
    }
}

fn totals(account: &Account) -> HaltTotals {
    // Without a halt yet, a 0 is right.
    let polls_known = account.poll_known > 0 || account.halts == 0;
    let latency_known = account.wake_latency_ns.count() > 0 || account.waits == 0;
    let known = |value: u64| polls_known.then_some(value);
    HaltTotals {
        halts: account.halts,
        sleeps: account.waits,
        polls: known(account.polled),
        successful_polls: known(account.successful_polls),
        failed_polls: account.failed_polls().filter(|_| polls_known),
        preempted_polls: account.poll_cuts().filter(|_| polls_known),
        poll_success_ns: known(account.poll_success_ns.sum()),
        poll_fail_ns: known(account.poll_fail_ns.sum()),
        sleep_ns: latency_known.then_some(account.parts.sleep_ns),
        halt_ns: buckets(&account.halt_ns, HALTS),
        wake_latency_ns: latency_known.then(|| buckets(&account.wake_latency_ns, WAKE_UPS)),
    }
}

fn wakes(metrics: &mut Metrics, prefix: &str, labels: &Labels, account: &Account) {
    for source in WakeSource::ALL {
        let wakes = account.wakes[usize::from(source.code())];
        let labels = labels.and("source", source.as_str());
        metrics.add(Kind::Counter, prefix, &labels, &WakeTotals { wakes });
    }
}

/// Which powers of two are bounds: from, to, step.
type Bounds = (u32, u32, u32);

/// Wake-up latencies: 1 us to 16.8 ms, each twice the one before.
const WAKE_UPS: Bounds = (10, 24, 1);

/// Halts: 1 us to 17 s, each four times the one before.
const HALTS: Bounds = (10, 34, 2);

/// Bounds are powers of two of nanoseconds, where buckets of the core and those of KVM both end, so that nothing is
/// interpolated. A time that equals a bound to the nanosecond is counted above it.
fn buckets(hist: &LogHist, (from, to, step): Bounds) -> Buckets {
    let mut used = hist.used().peekable();
    let mut below = 0_u64;
    let bounds = (from..=to)
        .step_by(step as usize)
        .map(|power| 1_u64 << power);
    let counted = bounds.map(|bound| {
        while let Some((_, count)) = used.next_if(|(bucket, _)| bucket_high(*bucket) < bound) {
            below = below.saturating_add(count);
        }
        (bound, below)
    });
    Buckets {
        below: counted.collect(),
        count: hist.count(),
        sum_ns: hist.sum(),
    }
}
