//! One step of time: what every vCPU did in it, and what was in force at its end.
//!
//! Pure: facts go in one by one, in any order. Two steps side by side add up to the step that covers
//! both. What the figures mean is core's.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use haltwise_core::account::Account;
use haltwise_core::account::ledger::{HostUse, Ledger, Place};
use haltwise_core::account::seen::{Bounded, Span};
use haltwise_core::account::series::{Levels, Series};
use haltwise_core::account::within::Interval;
use haltwise_core::event::{Facts, Halt, HaltCounts, HostSample, Lost, Vcpu, Vm, WindowChange};
use haltwise_core::exit::Exits;
use haltwise_core::exit::account::{Account as ExitAccount, By, Counted};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{VcpuId, VmIndex};
use haltwise_core::recording::Roster;
use haltwise_core::stats::Fold;

use super::piloted::Piloted;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Host,
    Vm(VmIndex),
    Vcpu(VmIndex, VcpuId),
    /// Halts of an unknown VM, or of an unknown vCPU of this VM.
    Unplaced(Option<VmIndex>),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Cell {
    pub(crate) halts: Account,
    pub(crate) window: Levels,
    /// Exits, if there were any.
    pub(crate) exits: Option<Box<ExitAccount>>,
}

impl Cell {
    pub(crate) fn fold(&mut self, other: &Self) {
        self.halts.fold(&other.halts);
        self.window.fold(&other.window);
        if let Some(exits) = &other.exits {
            self.exits_mut().fold(exits);
        }
    }

    fn exits_mut(&mut self) -> &mut ExitAccount {
        let empty = || Box::new(ExitAccount::new(By::Reason, 0));
        self.exits.get_or_insert_with(empty)
    }

    /// Keeps what the screens show: of what happened over time within the step only the windows, and
    /// of histograms whose percentiles no screen shows only the sums. A history holds thousands of
    /// cells.
    fn settle(&mut self) {
        let halts = &mut self.halts;
        for hist in [
            &mut halts.halt_ns,
            &mut halts.gap_ns,
            &mut halts.poll_success_ns,
            &mut halts.poll_fail_ns,
        ] {
            *hist = LogHist::from_parts(Vec::new(), hist.sum(), hist.max()).unwrap_or_default();
        }

        for (_, slot) in self.halts.series.slots() {
            let of_halts = slot.window.count > 0;
            self.window
                .fold(if of_halts { &slot.window } else { &slot.change });
        }
        self.halts.series = Series::default();
    }
}

/// Events lost, by the stage that lost them; the count is that of the events.
pub(crate) type Losses = Bounded<String, Span, 16>;

/// How many events, and where they were lost; `elsewhere` for what found no row.
pub(crate) fn lost_by_place(losses: &Losses) -> Vec<(&str, u64)> {
    let rows = losses.rows().map(|(place, span)| (place.as_str(), span));
    let rest = losses.rest().map(|span| ("elsewhere", span));
    let all = rows.chain(rest).map(|(place, span)| (place, span.count));
    all.filter(|(_, count)| *count > 0).collect()
}

pub(crate) fn lost_count(losses: &Losses) -> u64 {
    let counts = lost_by_place(losses).into_iter().map(|(_, count)| count);
    counts.fold(0, u64::saturating_add)
}

/// VMs at the end of a step, and the settings in force.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Around {
    /// VMs that were there, or did something.
    pub(crate) vms: Rc<Vec<Vm>>,
    pub(crate) vcpus: Rc<Vec<Vcpu>>,
    pub(crate) knobs: Rc<BTreeMap<String, String>>,
    /// Events lost since the beginning, by place.
    pub(crate) lost: Rc<Losses>,
    /// Time that the recorder's programs add to a halt.
    pub(crate) added_ns_per_halt: Option<f64>,
    pub(crate) pilot: Rc<Piloted>,
}

/// CPU time of threads between two looks at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Used {
    pub(crate) cpu_ns: u64,
    pub(crate) over_ns: u64,
}

impl Used {
    /// Counts of the scheduler since the first look.
    pub(crate) fn so_far(roster: &Roster) -> BTreeMap<Place, Self> {
        let mut used = BTreeMap::new();
        for vm in &roster.vms {
            let Some(threads) = &vm.threads else { continue };
            let over_ns = threads.over_ns;
            let mut add = |vcpu, cpu_ns| {
                let vm = Some(vm.index);
                used.insert(Place { vm, vcpu }, Self { cpu_ns, over_ns });
            };
            if let Some(cpu_ns) = threads.cpu_ns() {
                add(None, cpu_ns);
            }
            let own = roster.vcpus.iter().filter(|vcpu| vcpu.vm == vm.index);
            for (vcpu, time) in own.filter_map(|vcpu| Some((vcpu.id, vcpu.time?))) {
                add(Some(vcpu), time.cpu_ns);
            }
        }
        used
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            over_ns: self.over_ns.saturating_sub(before.over_ns),
        }
    }

    fn cpus(self) -> Option<f64> {
        (self.over_ns > 0).then(|| self.cpu_ns as f64 / self.over_ns as f64)
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Step {
    /// From when, on the host's `CLOCK_MONOTONIC`.
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// Events that the step was told were lost, by place.
    pub(crate) lost: Losses,
    pub(crate) around: Around,
    /// CPU time of threads: of a VM's together, and of those of its vCPUs.
    pub(crate) used: BTreeMap<Place, Used>,
    cells: BTreeMap<Place, Cell>,
    exits_read: Counted,
    /// The host's first and last sample; the first may be the last of the step before.
    samples: Option<(HostSample, HostSample)>,
}

impl Step {
    /// A step in which nothing has happened yet.
    pub(crate) fn between(start_ns: u64, end_ns: u64) -> Self {
        Self {
            start_ns,
            end_ns,
            ..Self::default()
        }
    }

    /// Adds a batch, all of which belongs to this step.
    pub(crate) fn facts(&mut self, facts: &Facts) {
        facts.halts.iter().for_each(|halt| self.halt(halt));
        facts.windows.iter().for_each(|change| self.window(change));
        facts.counts.iter().for_each(|counts| self.counts(counts));
        facts.exits.iter().for_each(|row| self.exits(row));
        facts.host.iter().for_each(|sample| self.host(sample));
        facts.lost.iter().for_each(|lost| self.lost(lost));
    }

    pub(crate) fn lost(&mut self, lost: &Lost) {
        let at = Span::of_one(lost.time_ns).times(lost.count);
        self.lost.add(lost.place.clone(), &at);
    }

    pub(crate) fn halt(&mut self, halt: &Halt) {
        self.cell(halt.vm, halt.vcpu).halts.halt(halt);
    }

    pub(crate) fn window(&mut self, change: &WindowChange) {
        self.cell(change.vm, change.vcpu).halts.window(change);
    }

    pub(crate) fn counts(&mut self, counts: &HaltCounts) {
        self.cell(counts.vm, counts.vcpu).halts.counts(counts);
    }

    pub(crate) fn exits(&mut self, row: &Exits) {
        self.exits_read.row(row);
        self.cell(row.vm, row.vcpu).exits_mut().add(row);
    }

    pub(crate) fn host(&mut self, sample: &HostSample) {
        let (first, last) = self.samples.get_or_insert((*sample, *sample));
        if sample.time_ns < first.time_ns {
            *first = *sample;
        }
        if sample.time_ns > last.time_ns {
            *last = *sample;
        }
    }

    fn cell(&mut self, vm: Option<VmIndex>, vcpu: Option<VcpuId>) -> &mut Cell {
        self.cells.entry(Place { vm, vcpu }).or_default()
    }

    pub(crate) fn join(&mut self, next: Self) {
        self.end_ns = self.end_ns.max(next.end_ns);
        self.lost.fold(&next.lost);
        self.around = next.around;
        for (place, cell) in &next.cells {
            self.cells.entry(*place).or_default().fold(cell);
        }
        for (place, used) in next.used {
            let sum = self.used.entry(place).or_default();
            sum.cpu_ns = sum.cpu_ns.saturating_add(used.cpu_ns);
            sum.over_ns = sum.over_ns.saturating_add(used.over_ns);
        }
        self.exits_read.extend(next.exits_read);
        if let Some((first, last)) = next.samples {
            self.host(&first);
            self.host(&last);
        }
        self.settle();
    }

    /// Drops what only building needs.
    pub(crate) fn settle(&mut self) {
        self.cells.values_mut().for_each(Cell::settle);
    }

    pub(crate) fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Its interval, widened to hold all that it was told of halts.
    pub(crate) fn told(&self) -> Interval {
        let told = self.cells.values().map(|cell| cell.halts.told);
        told.fold(self.interval(), Interval::holding)
    }

    pub(crate) fn holds(&self, vm: &Vm) -> bool {
        self.interval().of_vm(vm).length_ns() > 0
    }

    /// How long a VM was there in it. One that did something after it was gone was there.
    pub(crate) fn there_ns(&self, vm: &Vm) -> u64 {
        match self.interval().of_vm(vm).length_ns() {
            0 => self.length_ns(),
            ns => ns,
        }
    }

    fn interval(&self) -> Interval {
        Interval {
            start_ns: self.start_ns,
            end_ns: self.end_ns,
        }
    }

    /// The time over which its exits were counted; its own length, if none were.
    pub(crate) fn exits_ns(&self) -> u64 {
        self.exits_read.length_ns().unwrap_or(self.length_ns())
    }

    pub(crate) fn cells(&self) -> usize {
        self.cells.len()
    }

    pub(crate) fn of(&self, key: Key) -> impl Iterator<Item = (Option<VcpuId>, &Cell)> {
        let last = Some(VcpuId(u32::MAX));
        let place = |vm, vcpu| Place { vm, vcpu };
        let range = match key {
            Key::Host => place(None, None)..=place(Some(VmIndex(u32::MAX)), last),
            Key::Vm(vm) => place(Some(vm), None)..=place(Some(vm), last),
            Key::Vcpu(vm, id) => place(Some(vm), Some(id))..=place(Some(vm), Some(id)),
            Key::Unplaced(None) => place(None, None)..=place(None, last),
            Key::Unplaced(vm) => place(vm, None)..=place(vm, None),
        };
        let cells = self.cells.range(range);
        cells.map(|(place, cell)| (place.vcpu, cell))
    }

    pub(crate) fn sum(&self, key: Key) -> Cell {
        let mut all = Cell::default();
        self.of(key).for_each(|(_, cell)| all.fold(cell));
        all
    }

    pub(crate) fn acted(&self, key: Key) -> bool {
        self.of(key).next().is_some()
    }

    /// The vCPUs of a subject that are known at its end. They are in order of VM.
    pub(crate) fn known(&self, key: Key) -> impl Iterator<Item = &Vcpu> {
        let all = self.around.vcpus.as_slice();
        let own = match key {
            Key::Host => all,
            Key::Unplaced(_) => &[],
            Key::Vm(vm) | Key::Vcpu(vm, _) => {
                let behind = all.partition_point(|vcpu| vcpu.vm <= vm);
                &all[all.partition_point(|vcpu| vcpu.vm < vm)..behind]
            }
        };
        let is_it = move |vcpu: &&Vcpu| !matches!(key, Key::Vcpu(_, id) if vcpu.id != id);
        own.iter().filter(is_it)
    }

    /// The vCPUs of a VM that are known or did something.
    pub(crate) fn vcpus(&self, vm: VmIndex) -> BTreeSet<VcpuId> {
        let acted = self.of(Key::Vm(vm)).filter_map(|(id, _)| id);
        let known = self.known(Key::Vm(vm)).map(|vcpu| vcpu.id);
        known.chain(acted).collect()
    }

    /// CPUs that the threads of a VM took, or the thread of a vCPU.
    pub(crate) fn cpus(&self, key: Key) -> Option<f64> {
        let (vm, vcpu) = match key {
            Key::Vm(vm) => (Some(vm), None),
            Key::Vcpu(vm, id) => (Some(vm), Some(id)),
            Key::Host | Key::Unplaced(_) => return None,
        };
        self.used.get(&Place { vm, vcpu })?.cpus()
    }

    pub(crate) fn last_sample(&self) -> Option<&HostSample> {
        self.samples.as_ref().map(|(_, last)| last)
    }

    pub(crate) fn host_use(&self) -> HostUse {
        let mut ledger = Ledger::default();
        if let Some((first, last)) = &self.samples {
            ledger.host(first);
            ledger.host(last);
        }
        ledger.host
    }

    /// CPUs that the recorder itself took, between its samples.
    pub(crate) fn recorder_cpus(&self) -> Option<f64> {
        let (first, last) = self.samples.as_ref()?;
        let time = last.time_ns.checked_sub(first.time_ns).filter(|t| *t > 0)?;
        let used = last.recorder_cpu_ns.checked_sub(first.recorder_cpu_ns)?;
        Some(used as f64 / time as f64)
    }
}
