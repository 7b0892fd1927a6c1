//! One step of time: the accounts of every vCPU in it, and the VMs and settings at its end.
//!
//! Pure: facts go in one by one, in any order, live and from a capture.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use haltwise_core::account::Account;
use haltwise_core::account::ledger::{HostUse, Place};
use haltwise_core::account::seen::{Bounded, Span};
use haltwise_core::account::series::{Levels, Series};
use haltwise_core::account::within::Interval;
use haltwise_core::event::{Facts, Halt, HaltCounts, Knob, Lost, Vcpu, Vm, WindowChange};
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
    pub(crate) lost: Rc<Losses>,
    pub(crate) added_ns_per_halt: Option<f64>,
    pub(crate) pilot: Rc<Piloted>,
}

impl Around {
    /// Goes on to the end of a step.
    pub(crate) fn advance(
        &mut self,
        step: &Step,
        roster: &Roster,
        is_wanted: impl Fn(&Vm) -> bool,
    ) {
        let is_there = |vm: &&Vm| {
            let there = step.interval().of_vm(vm).length_ns() > 0;
            is_wanted(vm) && (there || step.acted(Key::Vm(vm.index)))
        };
        let vms: Vec<&Vm> = roster.vms.iter().filter(is_there).collect();
        let is_among = |vcpu: &&Vcpu| vms.binary_search_by_key(&vcpu.vm, |vm| vm.index).is_ok();
        let vcpus = roster.vcpus.iter().filter(is_among);
        // A history holds thousands of steps: an unchanged roster is held once.
        if !self.vcpus.iter().eq(vcpus.clone()) {
            self.vcpus = Rc::new(vcpus.cloned().collect());
        }
        if !self.vms.iter().eq(vms.iter().copied()) {
            self.vms = Rc::new(vms.into_iter().cloned().collect());
        }
        if lost_count(&step.lost) > 0 {
            Rc::make_mut(&mut self.lost).fold(&step.lost);
        }
    }

    pub(crate) fn set(&mut self, knob: &Knob) {
        Rc::make_mut(&mut self.knobs).insert(knob.name.clone(), knob.value.clone());
    }
}

/// CPU time of the threads of VMs and vCPUs since the first look at them, and how long ago that was.
pub(crate) type Used = BTreeMap<Place, (u64, u64)>;

pub(crate) fn used_so_far(roster: &Roster) -> Used {
    let mut used = Used::new();
    let mut over = BTreeMap::new();
    for vm in &roster.vms {
        let Some(threads) = &vm.threads else { continue };
        over.insert(vm.index, threads.over_ns);
        if let Some(cpu_ns) = threads.cpu_ns() {
            let all = Place {
                vm: Some(vm.index),
                vcpu: None,
            };
            used.insert(all, (cpu_ns, threads.over_ns));
        }
    }
    for vcpu in &roster.vcpus {
        if let (Some(over_ns), Some(time)) = (over.get(&vcpu.vm), vcpu.time) {
            let place = Place {
                vm: Some(vcpu.vm),
                vcpu: Some(vcpu.id),
            };
            used.insert(place, (time.cpu_ns, *over_ns));
        }
    }
    used
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Step {
    /// From when, on the host's `CLOCK_MONOTONIC`.
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// Events that the step was told were lost, by place.
    pub(crate) lost: Losses,
    pub(crate) around: Around,
    /// CPUs that the threads of VMs and vCPUs used.
    pub(crate) cpus: BTreeMap<Place, f64>,
    /// From the last sample before the step to the last in it.
    pub(crate) host: HostUse,
    cells: BTreeMap<Place, Cell>,
    exits_read: Counted,
}

impl Step {
    pub(crate) fn between(start_ns: u64, end_ns: u64) -> Self {
        Self {
            start_ns,
            end_ns,
            ..Self::default()
        }
    }

    pub(crate) fn facts(&mut self, facts: &Facts) {
        facts.halts.iter().for_each(|halt| self.halt(halt));
        facts.windows.iter().for_each(|change| self.window(change));
        facts.counts.iter().for_each(|counts| self.counts(counts));
        facts.exits.iter().for_each(|row| self.exits(row));
        (facts.host.iter()).for_each(|sample| self.host.sample(sample));
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

    fn cell(&mut self, vm: Option<VmIndex>, vcpu: Option<VcpuId>) -> &mut Cell {
        self.cells.entry(Place { vm, vcpu }).or_default()
    }

    pub(crate) fn use_cpus(&mut self, before: &Used, now: &Used) {
        for (place, (cpu_ns, over_ns)) in now {
            let (cpu_before, over_before) = before.get(place).copied().unwrap_or_default();
            let over_ns = over_ns.saturating_sub(over_before);
            if over_ns > 0 {
                let cpus = cpu_ns.saturating_sub(cpu_before) as f64 / over_ns as f64;
                self.cpus.insert(*place, cpus);
            }
        }
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

    pub(crate) fn vcpus(&self, vm: VmIndex) -> BTreeSet<VcpuId> {
        let acted = self.of(Key::Vm(vm)).filter_map(|(id, _)| id);
        let known = self.known(Key::Vm(vm)).map(|vcpu| vcpu.id);
        known.chain(acted).collect()
    }

    /// CPUs that the threads of a VM used, or the thread of a vCPU.
    pub(crate) fn cpus_of(&self, key: Key) -> Option<f64> {
        let (vm, vcpu) = match key {
            Key::Vm(vm) => (Some(vm), None),
            Key::Vcpu(vm, id) => (Some(vm), Some(id)),
            Key::Host | Key::Unplaced(_) => return None,
        };
        self.cpus.get(&Place { vm, vcpu }).copied()
    }
}
