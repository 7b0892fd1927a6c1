//! A second pass over the tables, VM by VM, when the settings are chosen: what each VM would have of them, and which
//! ceiling would be best for it.

use std::collections::BTreeMap;

use super::cell::{Costed, IN_FORCE, Places, Terms};
use super::choose::Chosen;
use super::cohort::{Cohort, weight_milli};
use super::gather::{Asked, CaptureOf, Level, Unit};
use crate::costs::grid::is_made_by_cap;
use crate::costs::table::{Host, VmOf};
use crate::costs::{Half, Kind};
use crate::kvm::{Arch, Knobs, Rule, Version};
use crate::replay::Sums;
use crate::tune::advice::LEAST_GAIN;

/// What is kept of each VM: sums of these, slot by slot.
const SLOT_IN_FORCE: usize = 0;
const SLOT_COHORT: usize = 1;
const SLOT_CEILINGS: usize = 2;

/// The slots of a cohort: which places they hold, and the reverse.
#[derive(Debug, Clone)]
struct Slots {
    /// The places of what ceilings make of the cohort's setting, from off on.
    ceilings: Vec<usize>,
    of: Vec<Vec<usize>>,
}

impl Slots {
    fn new(places: &Places, chosen: &Chosen, cohort: &Cohort) -> Self {
        let own = chosen.cohorts.get(cohort);
        let own = own.map_or(IN_FORCE, |choice| choice.place);
        let host = places.knobs(own);
        let is_made = |wanted: &Knobs| host.is_some_and(|host| is_made_by_cap(&host, wanted));
        let settings = places.settings().filter(|(_, knobs)| is_made(knobs));
        let ceilings: Vec<usize> = settings.map(|(place, _)| place).collect();
        let mut of = vec![Vec::new(); places.count()];
        of[IN_FORCE].push(SLOT_IN_FORCE);
        of[own].push(SLOT_COHORT);
        for (at, place) in ceilings.iter().enumerate() {
            of[*place].push(SLOT_CEILINGS + at);
        }
        Self { ceilings, of }
    }

    fn count(&self) -> usize {
        SLOT_CEILINGS + self.ceilings.len()
    }
}

/// Sums of a slot, in little room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Small {
    /// What it costs, in thousandths of a nanosecond of CPU.
    pub milli: u128,
    /// CPU time of polling and switching, in nanoseconds.
    pub cpu_ns: u64,
    /// Wake-up latency in all, in nanoseconds.
    pub latency_ns: u64,
}

impl Small {
    pub fn add(&mut self, other: &Self) {
        self.milli = self.milli.saturating_add(other.milli);
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.latency_ns = self.latency_ns.saturating_add(other.latency_ns);
    }
}

#[derive(Debug, Clone)]
struct OfVm {
    name: Option<String>,
    cohort: Cohort,
    /// It has a ceiling, which no parameter reaches.
    has_ceiling: bool,
    /// A ceiling does in its kernel what the parameter of that value does.
    takes_ceiling: bool,
    units: BTreeMap<Unit, OfUnit>,
}

#[derive(Debug, Clone)]
struct OfUnit {
    halts: u64,
    slots: Box<[[Small; 2]]>,
}

/// The sums of VMs; of a file, or of all.
#[derive(Debug, Clone)]
pub struct VmSums {
    asked: Asked,
    level: Level,
    places: Places,
    chosen: Chosen,
    slots: BTreeMap<Cohort, Slots>,
    vms: BTreeMap<(String, String, Cohort), OfVm>,
}

/// Whose rows follow.
#[derive(Debug)]
pub struct VmRun<'a> {
    places: &'a Places,
    slots: &'a Slots,
    of: &'a mut OfUnit,
    terms: Terms,
    last: usize,
}

impl VmSums {
    /// Before the first row.
    pub fn new(asked: &Asked, level: Level, chosen: &Chosen) -> Self {
        Self {
            asked: asked.clone(),
            level,
            places: Places::default(),
            chosen: chosen.clone(),
            slots: BTreeMap::new(),
            vms: BTreeMap::new(),
        }
    }

    /// Rows of a VM follow.
    pub fn run(&mut self, host: &Host, vm: &VmOf) -> VmRun<'_> {
        let cohort = Cohort::of(&self.asked.by, host, vm);
        let slots = self.slots.entry(cohort.clone());
        let slots = slots.or_insert_with(|| Slots::new(&self.places, &self.chosen, &cohort));
        let capture = CaptureOf {
            host: host.name.clone(),
            date: host.date.clone().unwrap_or_default(),
            start_unix_ns: host.start_unix_ns,
            end_unix_ns: host.end_unix_ns,
        };
        let key = (host.name.clone(), vm.key().to_owned(), cohort.clone());
        let of = self.vms.entry(key).or_insert_with(|| OfVm {
            name: vm.name.clone(),
            cohort,
            has_ceiling: false,
            takes_ceiling: true,
            units: BTreeMap::new(),
        });
        of.has_ceiling |= vm.own_ceiling_ns.is_some();
        of.takes_ceiling &= takes_caps(host);
        let unit = of.units.entry(Unit::of(self.level, &capture));
        VmRun {
            places: &self.places,
            of: unit.or_insert_with(|| OfUnit {
                halts: 0,
                slots: vec![[Small::default(); 2]; slots.count()].into(),
            }),
            slots,
            terms: Terms {
                switch_cpu_ns: host.switch_cpu_ns,
                weight_milli: weight_milli(vm.goal.as_deref(), self.asked.weight_milli),
            },
            last: 0,
        }
    }

    /// Adds the sums of another file.
    pub fn add(&mut self, other: Self) {
        for (cohort, slots) in other.slots {
            self.slots.entry(cohort).or_insert(slots);
        }
        for (key, vm) in other.vms {
            let Some(own) = self.vms.get_mut(&key) else {
                self.vms.insert(key, vm);
                continue;
            };
            own.has_ceiling |= vm.has_ceiling;
            own.takes_ceiling &= vm.takes_ceiling;
            for (unit, more) in vm.units {
                match own.units.get_mut(&unit) {
                    None => drop(own.units.insert(unit, more)),
                    Some(of) => {
                        of.halts = of.halts.saturating_add(more.halts);
                        for (own, more) in of.slots.iter_mut().zip(&more.slots) {
                            own[0].add(&more[0]);
                            own[1].add(&more[1]);
                        }
                    }
                }
            }
        }
    }

    /// What each VM would have.
    pub fn finish(self) -> impl Iterator<Item = VmAnswer> {
        let Self {
            slots, places, vms, ..
        } = self;
        vms.into_iter().filter_map(move |((host, ..), vm)| {
            let slots = slots.get(&vm.cohort)?;
            Some(answer(host, vm, slots, &places))
        })
    }
}

impl VmRun<'_> {
    /// Adds a row.
    #[inline]
    pub fn add(&mut self, kind: Kind, knobs: Option<&Knobs>, half: Half, sums: &Sums) {
        if !matches!(kind, Kind::InForce | Kind::Grid) {
            return;
        }
        let Some(place) = self.places.of(kind, knobs, self.last) else {
            return;
        };
        self.last = place;
        let slots = &self.slots.of[place];
        if slots.is_empty() {
            return;
        }
        let costed = Costed::of(sums, self.terms);
        let small = Small {
            milli: costed.milli,
            cpu_ns: costed.cpu_ns,
            latency_ns: costed.latency_ns,
        };
        for slot in slots {
            self.of.slots[*slot][half as usize].add(&small);
        }
        if place == IN_FORCE && half == Half::Validate {
            self.of.halts = self.of.halts.saturating_add(sums.halts);
        }
    }
}

/// A VM under what was chosen, on the half that validates.
#[derive(Debug, Clone)]
pub struct VmAnswer {
    pub host: String,
    /// Its name; `None` of halts whose VM is not known.
    pub name: Option<String>,
    pub cohort: Cohort,
    pub halts: u64,
    /// It has a ceiling, which no parameter reaches.
    pub has_ceiling: bool,
    /// Under the setting in force.
    pub in_force: Small,
    /// Under what its cohort takes.
    pub of_cohort: Small,
    /// The ceiling of its own that is best, if one is by [`LEAST_GAIN`].
    pub ceiling_ns: Option<u32>,
    /// Under its ceiling, else what its cohort takes; unit by unit.
    pub with_ceiling: Vec<(Unit, Small)>,
}

/// Whether a VM's own ceiling does on that host what the parameter of the same value does.
fn takes_caps(host: &Host) -> bool {
    let rule = || {
        let version: Version = host.kernel.parse().ok()?;
        let arch: Arch = host.arch.parse().ok()?;
        Some(Rule::of(version, arch))
    };
    rule().is_some_and(|rule| rule.takes_caps())
}

fn answer(host: String, vm: OfVm, slots: &Slots, places: &Places) -> VmAnswer {
    let sum = |slot: usize, half: usize| {
        let mut sum = Small::default();
        let units = vm.units.values();
        units.for_each(|of| sum.add(&of.slots[slot][half]));
        sum
    };
    let own = sum(SLOT_COHORT, 0).milli as f64;
    let ceilings = 0..slots.ceilings.len();
    let best = ceilings.min_by_key(|at| sum(SLOT_CEILINGS + at, 0).milli);
    let best = best.filter(|at| {
        let least = sum(SLOT_CEILINGS + at, 0).milli as f64;
        let may = vm.takes_ceiling && !vm.has_ceiling && vm.name.is_some();
        may && least < own * (1.0 - LEAST_GAIN)
    });
    let slot = best.map_or(SLOT_COHORT, |at| SLOT_CEILINGS + at);
    let knobs = best.and_then(|at| places.knobs(slots.ceilings[at]));
    VmAnswer {
        host,
        halts: crate::stats::total(vm.units.values().map(|of| of.halts)),
        has_ceiling: vm.has_ceiling,
        in_force: sum(SLOT_IN_FORCE, 1),
        of_cohort: sum(SLOT_COHORT, 1),
        ceiling_ns: knobs.map(|knobs| knobs.halt_poll_ns),
        with_ceiling: (vm.units.iter())
            .map(|(unit, of)| (unit.clone(), of.slots[slot][1]))
            .collect(),
        name: vm.name,
        cohort: vm.cohort,
    }
}
