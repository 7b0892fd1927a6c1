//! Readings for the pilot: the host, its VMs and their ceilings, what KVM counted, and what the journal has.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use haltwise_core::event::{Facts, HaltCounts, HostSample, Vcpu, Vm};
use haltwise_core::ids::{VmIndex, VmKey};
use haltwise_core::kvm::Knobs;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::pilot::input::{Counts, Held, HostSeen, Pressure, Seen, VmSeen};
use haltwise_core::pilot::{Goal, Goals};
use haltwise_core::recording::{Mode, Rung};
use haltwise_host::collector::{CollectOptions, Collector};
use haltwise_host::knob::{Baseline, Held as Recorded, Snapshot, Target, is_writable};
use haltwise_host::root::Root;
use haltwise_host::{clock, host_sample, params};

use super::ceilings::Ceilings;
use super::collecting::keys;
use crate::collect::attach::{attach, explain};
use crate::exit::Failure;
use crate::knob::watching;
use crate::reading::select;
use crate::time::nanos;

pub(crate) const INTERVAL: Duration = Duration::from_secs(10);

/// KVM's own counters are read once an interval, when at least this has passed: the reading before may have come late.
const LEAST: Duration = Duration::from_secs(9);

/// VMs that ended before so long are forgotten, so that the pilot does not grow with every VM that ever ran.
const FORGET: Duration = Duration::from_mins(1);

/// So long after facts showed a veto, a guest is looked at again: as rarely as any VM.
const VETO: Duration = Duration::from_secs(320);

const WHO: &str = "haltwise pilot";

#[derive(Debug)]
pub(crate) struct Machine {
    root: Root,
    collector: Box<dyn Collector>,
    /// Its source hands over events, which are to be taken in before their buffers are full. KVM's own counters wait.
    pub(super) has_events: bool,
    counts: BTreeMap<VmKey, Counts>,
    /// Until when halts had been counted at the last reading.
    counted_to_ns: Option<u64>,
    before: Option<HostSample>,
    host: HostSeen,
    pub(super) ceilings: Ceilings,
    /// Guests whose facts showed that they keep their host from polling, and when: with counts from tracepoints.
    vetoes: BTreeMap<VmKey, Instant>,
    pub(super) lost: u64,
}

impl Machine {
    /// Attaches the cheapest source of counts that works here.
    pub(crate) fn attach(root: &Root) -> Result<Self, Failure> {
        let options = |mode, interval| CollectOptions {
            mode,
            interval,
            ..CollectOptions::default()
        };
        let of_stats = options(Mode::Stats, LEAST);
        let stats = haltwise_host::bpf::BpfCollector::start(of_stats, root.clone());
        let has_events = stats.is_err();
        let mut collector: Box<dyn Collector> = match stats {
            Ok(collector) => Box::new(collector),
            // KVM keeps no such counts, or BPF does not work here.
            Err(_) => attach(None, &options(Mode::Counts, INTERVAL), root)?,
        };
        collector.begin().map_err(explain)?;
        Ok(Self {
            root: root.clone(),
            collector,
            has_events,
            counts: BTreeMap::new(),
            counted_to_ns: None,
            before: None,
            host: HostSeen::default(),
            ceilings: Ceilings::default(),
            vetoes: BTreeMap::new(),
            lost: 0,
        })
    }

    /// Rights are about to be dropped; gives whether perf events will be opened.
    pub(crate) fn confine(&mut self) -> bool {
        self.collector.confine();
        self.rung().is_some()
    }

    /// Its source, where the better one does not work here.
    pub(crate) fn rung(&self) -> Option<Rung> {
        let rung = self.collector.rung();
        (rung == Rung::Tracepoints).then_some(rung)
    }

    pub(crate) fn drain(&mut self) -> Result<(), Failure> {
        let mut facts = Facts::default();
        self.collector.drain(&mut facts).map_err(explain)?;
        let keys = keys(self.collector.roster());
        for row in &facts.counts {
            if let Some(key) = row.vm.and_then(|vm| keys.get(&vm)) {
                add(self.counts.entry(*key).or_default(), row);
            }
        }
        self.lost += facts.lost.iter().map(|lost| lost.count).sum::<u64>();
        Ok(())
    }

    pub(crate) fn vm(&self, key: VmKey) -> Option<&Vm> {
        let mut vms = self.collector.roster().vms.iter();
        vms.find(|vm| vm.key == key)
    }

    pub(crate) fn kernel_cpu_ns(&self) -> Option<u64> {
        self.collector.kernel_cpu_ns()
    }

    /// Takes in whether facts show that a VM's guest keeps its host from polling.
    pub(crate) fn note_veto(&mut self, vm: VmKey, is_vetoed: bool) {
        if is_vetoed {
            self.vetoes.insert(vm, Instant::now());
        } else {
            self.vetoes.remove(&vm);
        }
    }

    /// A reading; with `counted`, the counts since the last that had them.
    pub(crate) fn read(&mut self, goals: &Goals, only: &[String], counted: bool) -> Seen {
        if counted || self.before.is_none() {
            self.host();
        }
        let roster = self.collector.roster();
        let living = roster.vms.iter().filter(|vm| vm.to_ns.is_none());
        self.ceilings
            .read(&self.root, &living.clone().map(|vm| vm.key).collect());
        // After the ceilings: what a VMM has made late is then in both.
        let baseline = self.baseline();
        self.host.knobs = watching::knobs(&self.root);
        self.host.is_writable = is_writable(&self.root, Parameter::HaltPollNs).is_ok();
        self.host.held = self
            .host
            .knobs
            .and_then(|knobs| held_parameters(&baseline, knobs));
        let mut counts = if counted {
            std::mem::take(&mut self.counts)
        } else {
            BTreeMap::new()
        };
        // A vCPU that did not halt has no row.
        let to_ns = self.collector.counted_to_ns();
        let from_ns = std::mem::replace(&mut self.counted_to_ns, to_ns);
        let both = from_ns.zip(to_ns);
        let new_ns = both.map_or(0, |(from_ns, to_ns)| to_ns.saturating_sub(from_ns));
        let none = (counted && new_ns > 0).then(|| Counts {
            interval_ns: new_ns,
            ..Counts::default()
        });
        let ceilings = &self.ceilings;
        let vcpus = |vm: VmIndex| roster.vcpus.iter().filter(move |vcpu| vcpu.vm == vm);
        let vms = living.map(|vm| VmSeen {
            key: vm.key,
            name: vm.name.clone(),
            vcpus: vcpus(vm.index).count() as u64,
            goal: goal(goals, only, vm),
            ceiling: ceilings.of(vm.key),
            has_answered: ceilings.has_answered(vm.key),
            held: held_ceiling(&baseline, vm.key, self.host.knobs),
            polls_itself: is_vetoed(vcpus(vm.index))
                .unwrap_or_else(|| self.vetoes.contains_key(&vm.key)),
            counts: counts.remove(&vm.key).or(none),
        });
        let vms: Vec<VmSeen> = vms.filter(|vm| vm.vcpus > 0).collect();
        let is_here = |key: &VmKey| vms.iter().any(|vm| vm.key == *key);
        self.vetoes
            .retain(|vm, noted| noted.elapsed() < VETO && is_here(vm));
        let before_ns = clock::monotonic_ns().saturating_sub(nanos(FORGET));
        self.collector.forget_ended(before_ns);
        Seen {
            host: self.host.clone(),
            vms,
            counted,
        }
    }

    /// Baseline of the journal; empty where the journal cannot be read just now.
    fn baseline(&self) -> Baseline {
        let snapshot = Snapshot::read(&self.root);
        snapshot.map_or_else(|_| Baseline::default(), |it| it.baseline)
    }

    fn host(&mut self) {
        self.host.sched_ext = params::read(&self.root, 0).is_ok_and(|knobs| {
            knobs
                .iter()
                .any(|it| it.name == "sched_ext.state" && it.value == "enabled")
        });
        let Ok(now) = host_sample::read(&self.root, None) else {
            (self.host.busy_cpus, self.host.cpu_pressure) = (None, Pressure::NotYet);
            return;
        };
        self.host.cpus = now.cpus;
        self.host.cpu_pressure = pressure(self.before.as_ref(), &now);
        if let Some(before) = self.before.replace(now) {
            let total_ns = now.total_ns.saturating_sub(before.total_ns).max(1) as f64;
            let busy_ns = now.busy_ns.saturating_sub(before.busy_ns) as f64;
            self.host.busy_cpus = Some(f64::from(now.cpus) * (busy_ns / total_ns).min(1.0));
        }
    }
}

/// Whether a VM's guest lets its host poll on none of its vCPUs, as BPF reads it with each count (`MSR_KVM_POLL_CONTROL`);
/// `None` where it was not read. A vCPU that has not run yet has no thread, and nothing to say.
fn is_vetoed<'a>(vcpus: impl Iterator<Item = &'a Vcpu>) -> Option<bool> {
    let ran = vcpus.filter(|vcpu| vcpu.tid.0 != 0);
    let read = ran.filter_map(|vcpu| vcpu.guest_veto);
    read.reduce(|all, is_vetoed| all && is_vetoed)
}

fn pressure(before: Option<&HostSample>, now: &HostSample) -> Pressure {
    let Some(now_ns) = now.cpu_pressure_ns else {
        return Pressure::NotThere;
    };
    let Some((before, before_ns)) = before.and_then(|it| Some((it, it.cpu_pressure_ns?))) else {
        return Pressure::NotYet;
    };
    let wall_ns = now.time_ns.saturating_sub(before.time_ns).max(1) as f64;
    Pressure::Share(now_ns.saturating_sub(before_ns) as f64 / wall_ns)
}

fn names(vm: &Vm) -> Vec<&str> {
    let others = vm.identity.names().into_iter().filter_map(|(_, name)| name);
    std::iter::once(&*vm.name).chain(others).collect()
}

/// The goal of a VM; `None` where it is left alone.
fn goal(goals: &Goals, only: &[String], vm: &Vm) -> Option<Goal> {
    let names = names(vm);
    let is_like = |it: &String| {
        *it == vm.key.pid.to_string() || names.iter().any(|name| select::fits(name, it))
    };
    let is_meant = only.is_empty() || only.iter().any(is_like);
    goals.of(&names, select::fits).filter(|_| is_meant).cloned()
}

fn add(sum: &mut Counts, row: &HaltCounts) {
    sum.interval_ns = sum.interval_ns.max(row.interval_ns);
    sum.halts += row.halts;
    sum.blocks += row.waited;
    let failed_ns = row.poll_fail_ns.sum();
    sum.failed_poll_ns = sum.failed_poll_ns.saturating_add(failed_ns);
    sum.poll_ns = sum
        .poll_ns
        .saturating_add(failed_ns)
        .saturating_add(row.poll_success_ns.sum());
    sum.halt_ns = sum.halt_ns.saturating_add(row.halt_ns.sum());
}

/// Ceiling that the pilot has set for a VM, by the journal. A VM that followed `halt_poll_ns` would follow it again
/// without the pilot, with the value that `halt_poll_ns` had before haltwise set it.
fn held_ceiling(baseline: &Baseline, vm: VmKey, now: Option<Knobs>) -> Option<Held<u32>> {
    let held = baseline
        .get(Target::Ceiling(vm))
        .filter(|held| held.who.starts_with(WHO))?;
    let before = |held: &Recorded| held.before.as_ref()?.parse().ok();
    let parameter = baseline.get(Target::Parameter(Parameter::HaltPollNs));
    let followed = || parameter.map_or_else(|| Some(now?.halt_poll_ns), before);
    Some(Held {
        before: if held.followed {
            followed()
        } else {
            before(held)
        }?,
        ours: held.ours.as_ref()?.parse().ok()?,
    })
}

/// The same of the host's parameters: what it has not set is as it is now.
fn held_parameters(baseline: &Baseline, now: Knobs) -> Option<Held<Knobs>> {
    let mut held = Held {
        before: Values::from(now),
        ours: now.into(),
    };
    let mut is_any = false;
    for parameter in Parameter::HOST {
        let of = baseline.get(Target::Parameter(parameter));
        let Some(of) = of.filter(|of| of.who.starts_with(WHO)) else {
            continue;
        };
        is_any = true;
        for (values, text) in [(&mut held.before, &of.before), (&mut held.ours, &of.ours)] {
            if let Some(value) = text.as_ref().and_then(|text| text.parse().ok()) {
                values.set(parameter, Some(value));
            }
        }
    }
    is_any.then(|| Held {
        before: held.before.into(),
        ours: held.ours.into(),
    })
}

#[cfg(test)]
mod test {
    use haltwise_core::event::CeilingSource;
    use haltwise_core::ids::{Tid, VcpuId};

    use super::*;

    /// Pressure is not there where the kernel does not account it, and not known before there are two readings.
    #[test]
    fn pressure_is_a_difference_of_two_readings() {
        let at = |time_ns, cpu_pressure_ns| HostSample {
            time_ns,
            cpu_pressure_ns,
            ..HostSample::default()
        };
        let (first, then) = (at(100, Some(10)), at(200, Some(30)));
        assert_eq!(pressure(None, &first), Pressure::NotYet);
        assert_eq!(pressure(Some(&first), &then), Pressure::Share(0.2));
        let without = at(100, None);
        assert_eq!(pressure(None, &without), Pressure::NotThere);
        assert_eq!(pressure(Some(&without), &then), Pressure::NotYet);
    }

    #[test]
    fn one_vcpu_that_may_be_polled_for_is_no_veto() {
        let vcpu = |guest_veto| Vcpu {
            vm: VmIndex(0),
            id: VcpuId(0),
            tid: Tid(8),
            window_ns: None,
            ceiling_ns: None,
            ceiling_source: CeilingSource::Unknown,
            guest_veto,
            time: None,
        };
        let [yes, no, unread] = [Some(true), Some(false), None].map(vcpu);
        let has_not_run = Vcpu {
            tid: Tid(0),
            ..no.clone()
        };
        assert_eq!(
            is_vetoed([&yes, &unread, &has_not_run].into_iter()),
            Some(true)
        );
        assert_eq!(is_vetoed([&yes, &no].into_iter()), Some(false));
        assert_eq!(is_vetoed([&unread].into_iter()), None);
    }
}
