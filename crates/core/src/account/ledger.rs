//! The accounts of every vCPU of a recording, and what the host and the recorder say of themselves.

use std::collections::BTreeMap;

use super::Account;
use super::idle::IdleStates;
use super::seen::{Bounded, Ends, Newest, Span};
use super::series::Series;
use super::sums::folds;
use crate::event::{Halt, HaltCounts, HostSample, IdleState, Knob, KnobScope, Lost, WindowChange};
use crate::ids::{VcpuId, VmIndex};
use crate::stats::{Fold, folded};

/// Settings told apart; a host has a dozen.
const KNOBS: usize = 1024;

const LOSSES: usize = 16;

/// VM and vCPU of the halts. `None`: the thread could not be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub vm: Option<VmIndex>,
    pub vcpu: Option<VcpuId>,
}

/// A setting over the time of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnobSeen {
    /// How often it was told: when first read, then at every change.
    pub told: Span,
    pub now: Newest<String>,
}

folds! {
    KnobSeen { told, now }
    OnCpu { halts, poll_ns }
}

const PAIRS: usize = 1 << 16;

/// Halts that ended on one CPU, and the time that they polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OnCpu {
    pub halts: u64,
    pub poll_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    /// Boxed, since a map keeps half of its room free.
    places: BTreeMap<Place, Box<Account>>,
    /// Where accounts of VMs are outlines: what happened over time in all of them together.
    over_time: Option<Series>,
    pub knobs: Bounded<(KnobScope, String), KnobSeen, KNOBS>,
    /// Events lost, by the stage that lost them; the count is that of the events.
    pub lost: Bounded<String, Span, LOSSES>,
    /// The host's state and the recorder's cost.
    pub host: HostUse,
    pub idle_states: IdleStates,
    /// Halts by the CPU on which they ended, and that of the waker.
    pub cpus: Bounded<(u32, Option<u32>), OnCpu, PAIRS>,
}

impl Ledger {
    /// Before the first fact, one that keeps what happened over time of all VMs together, and not of each.
    pub fn in_outline() -> Self {
        Self {
            over_time: Some(Series::default()),
            ..Self::default()
        }
    }

    pub fn halt(&mut self, halt: &Halt) {
        if let Some(series) = self.of_vms(halt.vm) {
            series.add(halt.end_ns(), |slot| slot.halt(halt));
        }
        if let Some(cpu) = halt.cpu {
            let (halts, poll_ns) = (1, halt.poll_ns.unwrap_or(0));
            let one = OnCpu { halts, poll_ns };
            self.cpus.add((cpu, halt.waker_cpu), &one);
        }
        self.place(halt.vm, halt.vcpu).halt(halt);
    }

    pub fn window(&mut self, change: &WindowChange) {
        if let Some(series) = self.of_vms(change.vm) {
            series.add(change.time_ns, |slot| slot.window(change));
        }
        self.place(change.vm, change.vcpu).window(change);
    }

    pub fn counts(&mut self, counts: &HaltCounts) {
        if let Some(series) = self.of_vms(counts.vm) {
            series.add(counts.time_ns, |slot| slot.counts(counts));
        }
        self.place(counts.vm, counts.vcpu).counts(counts);
    }

    /// The series that stands for those of all VMs, where there is one and this is a VM.
    fn of_vms(&mut self, vm: Option<VmIndex>) -> Option<&mut Series> {
        self.over_time.as_mut().filter(|_| vm.is_some())
    }

    pub fn knob(&mut self, knob: &Knob) {
        let mut seen = KnobSeen {
            told: Span::of_one(knob.time_ns),
            now: Newest::default(),
        };
        seen.now.see(knob.time_ns, knob.value.clone());
        self.knobs.add((knob.scope, knob.name.clone()), &seen);
    }

    pub fn host(&mut self, sample: &HostSample) {
        self.host.sample(sample);
    }

    pub fn idle_state(&mut self, state: &IdleState) {
        self.idle_states.see(state);
    }

    pub fn lost(&mut self, lost: &Lost) {
        let at = Span::of_one(lost.time_ns).times(lost.count);
        self.lost.add(lost.place.clone(), &at);
    }

    fn place(&mut self, vm: Option<VmIndex>, vcpu: Option<VcpuId>) -> &mut Account {
        let new = match vm {
            Some(_) if self.over_time.is_some() => Account::in_outline,
            _ => Account::default,
        };
        let place = self.places.entry(Place { vm, vcpu });
        place.or_insert_with(|| Box::new(new()))
    }

    /// Every account with its place, placed ones by VM and vCPU, the unplaced first.
    pub fn places(&self) -> impl Iterator<Item = (Place, &Account)> {
        let places = self.places.iter();
        places.map(|(place, account)| (*place, &**account))
    }

    pub fn account(&self, place: &Place) -> Option<&Account> {
        self.places.get(place).map(Box::as_ref)
    }

    pub fn vcpu(&self, vm: VmIndex, vcpu: VcpuId) -> Option<&Account> {
        self.account(&Place {
            vm: Some(vm),
            vcpu: Some(vcpu),
        })
    }

    /// The accounts of a VM, that of halts without a vCPU first.
    pub fn of_vm(&self, vm: VmIndex) -> impl Iterator<Item = (Option<VcpuId>, &Account)> {
        let place = |vcpu| Place { vm: Some(vm), vcpu };
        let own = self
            .places
            .range(place(None)..=place(Some(VcpuId(u32::MAX))));
        own.map(|(place, account)| (place.vcpu, &**account))
    }

    /// The account of a VM: the sum of its vCPUs.
    pub fn vm(&self, vm: VmIndex) -> Account {
        let mut sum = Account::default();
        self.of_vm(vm).for_each(|(_, account)| sum.fold(account));
        sum
    }

    /// The account of halts that could not be given to a VM.
    pub fn unplaced(&self) -> Account {
        self.sum(|place| place.vm.is_none())
    }

    /// The account of the host: the sum of everything.
    pub fn total(&self) -> Account {
        let mut sum = self.sum(|_| true);
        if let Some(series) = &self.over_time {
            sum.series.fold(series);
        }
        sum
    }

    fn sum(&self, wanted: impl Fn(&Place) -> bool) -> Account {
        let places = self.places.iter().filter(|(place, _)| wanted(place));
        folded(places.map(|(_, account)| &**account))
    }

    /// The value of a setting in force at last.
    pub fn knob_value(&self, scope: KnobScope, name: &str) -> Option<&str> {
        let seen = self.knobs.get(&(scope, name.to_owned()))?;
        seen.now.value().map(String::as_str)
    }
}

impl Fold for Ledger {
    fn fold(&mut self, other: &Self) {
        for (place, account) in &other.places {
            self.place(place.vm, place.vcpu).fold(account);
        }
        if let (Some(own), Some(other)) = (&mut self.over_time, &other.over_time) {
            own.fold(other);
        }
        self.knobs.fold(&other.knobs);
        self.lost.fold(&other.lost);
        self.host.fold(&other.host);
        self.idle_states.fold(&other.idle_states);
        self.cpus.fold(&other.cpus);
    }
}

/// The host between the first sample and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostUse {
    samples: Ends<HostSample>,
    /// CPUs online, at most.
    pub cpus: u32,
    /// Resident memory of the recorder, at most, in bytes.
    pub recorder_rss_bytes: u64,
    /// Counters that are read less often, at the first and the last reading of each.
    idle: Ends,
    energy: Ends,
    cycles: Ends,
    instructions: Ends,
}

impl HostUse {
    pub fn sample(&mut self, sample: &HostSample) {
        self.fold(&Self {
            samples: Ends::of(Some(*sample)),
            cpus: sample.cpus,
            recorder_rss_bytes: sample.recorder_rss_bytes,
            idle: Ends::at(sample.time_ns, sample.idle_ns),
            energy: Ends::at(sample.time_ns, sample.package_uj),
            cycles: Ends::at(sample.time_ns, sample.cycles),
            instructions: Ends::at(sample.time_ns, sample.instructions),
        });
    }

    /// CPUs that did not stand still, polling ones included (C0), on average.
    pub fn awake_cpus(&self) -> Option<f64> {
        let (idle_ns, time_ns) = self.idle.grown()?;
        let cpus = f64::from(self.cpus);
        Some((cpus - idle_ns as f64 / time_ns as f64).clamp(0.0, cpus))
    }

    /// Power of the CPU packages, in watts.
    pub fn package_watts(&self) -> Option<f64> {
        let (used_uj, time_ns) = self.energy.grown()?;
        Some(used_uj as f64 * 1e3 / time_ns as f64)
    }

    /// Cycles that CPUs ran per second, all of them together.
    pub fn cycles_per_s(&self) -> Option<f64> {
        let (cycles, time_ns) = self.cycles.grown()?;
        Some(cycles as f64 * 1e9 / time_ns as f64)
    }

    /// Instructions for each of these cycles.
    pub fn instructions_per_cycle(&self) -> Option<f64> {
        let (cycles, _) = self.cycles.grown().filter(|(cycles, _)| *cycles > 0)?;
        let (instructions, _) = self.instructions.grown()?;
        Some(instructions as f64 / cycles as f64)
    }

    /// How much it grew from the first sample to the last.
    fn grown(&self, counter: impl Fn(HostSample) -> Option<u64>) -> Option<u64> {
        let (first, last) = self.samples.ends()?;
        counter(last)?.checked_sub(counter(first)?)
    }

    /// How much one counter grew, as a share of what the other grew.
    fn share(
        &self,
        part: impl Fn(HostSample) -> Option<u64>,
        whole: impl Fn(HostSample) -> u64,
    ) -> Option<f64> {
        let whole = self.grown(|at| Some(whole(at))).filter(|ns| *ns > 0)?;
        Some(self.grown(part)? as f64 / whole as f64)
    }

    /// CPUs busy on average, of all CPUs; `None` of fewer than two samples.
    pub fn busy_cpus(&self) -> Option<f64> {
        let share = self.share(|at| Some(at.busy_ns), |at| at.total_ns)?;
        Some(share * f64::from(self.cpus))
    }

    /// Share of the time in which some task waited for a CPU.
    pub fn cpu_pressure(&self) -> Option<f64> {
        self.share(|at| at.cpu_pressure_ns, |at| at.time_ns)
    }

    /// Share of all CPU time in which a hypervisor ran something else while there was work, as `top` shows it (`st`);
    /// `None` where that is not accounted.
    pub fn steal(&self) -> Option<f64> {
        self.share(|at| at.steal_ns, |at| at.total_ns)
    }

    pub fn last_sample(&self) -> Option<HostSample> {
        Some(self.samples.ends()?.1)
    }

    pub fn recorder_cpus(&self) -> Option<f64> {
        self.share(|at| Some(at.recorder_cpu_ns), |at| at.time_ns)
    }
}

impl Fold for HostUse {
    fn fold(&mut self, other: &Self) {
        self.samples.fold(&other.samples);
        self.cpus = self.cpus.max(other.cpus);
        self.recorder_rss_bytes = self.recorder_rss_bytes.max(other.recorder_rss_bytes);
        self.idle.fold(&other.idle);
        self.energy.fold(&other.energy);
        self.cycles.fold(&other.cycles);
        self.instructions.fold(&other.instructions);
    }
}
