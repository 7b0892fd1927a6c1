//! A second pass over the tables, VM by VM, when the settings are chosen: what each VM would have of them, and which
//! ceiling would be best for it.

use std::collections::{BTreeMap, BTreeSet};

use super::cell::{Cell, Costed, IN_FORCE, Places};
use super::choose::Chosen;
use super::cohort::{Cohort, cost};
use super::gather::{Asked, CaptureOf, Level, RowOf, Unit};
use crate::costs::Kind;
use crate::costs::grid::is_made_by_cap;
use crate::costs::table::{Host, VmOf};
use crate::kvm::{Arch, Knobs, Rule, Version};
use crate::stats::{Fold, folded};
use crate::tune::advice::LEAST_GAIN;

/// Slots of the sums that are kept for each VM.
const SLOT_IN_FORCE: usize = 0;
const SLOT_COHORT: usize = 1;
/// The setting that [`VmAnswer::then`] is of, where no cohort changes.
const SLOT_ONE: usize = 2;
const SLOT_CEILINGS: usize = 3;

/// The slots of a cohort: which places they hold, and the reverse.
#[derive(Debug, Clone)]
struct Slots {
    /// The places of what ceilings make of the cohort's setting, from off on.
    ceilings: Vec<usize>,
    of: Vec<Vec<usize>>,
    then: usize,
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
        of[chosen.one].push(SLOT_ONE);
        for (at, place) in ceilings.iter().enumerate() {
            of[*place].push(SLOT_CEILINGS + at);
        }
        let changes = chosen.changes();
        let then = if changes { SLOT_COHORT } else { SLOT_ONE };
        Self { ceilings, of, then }
    }

    fn count(&self) -> usize {
        SLOT_CEILINGS + self.ceilings.len()
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
    /// By slot in place of a setting's place.
    units: BTreeMap<Unit, Cell>,
}

/// The sums of VMs; of a file, or of all.
#[derive(Debug, Clone)]
pub struct VmSums {
    asked: Asked,
    level: Level,
    places: Places,
    chosen: Chosen,
    slots: BTreeMap<Cohort, Slots>,
    hosts: BTreeMap<String, OfHost>,
}

#[derive(Debug, Clone, Default)]
struct OfHost {
    /// When the captures began whose rows are here.
    captures: BTreeSet<u64>,
    /// By what tells VMs apart, and cohort.
    vms: BTreeMap<(String, Cohort), OfVm>,
}

impl VmSums {
    pub fn new(asked: &Asked, level: Level, chosen: &Chosen) -> Self {
        Self {
            asked: asked.clone(),
            level,
            places: Places::default(),
            chosen: chosen.clone(),
            slots: BTreeMap::new(),
            hosts: BTreeMap::new(),
        }
    }

    pub fn add_rows<'a>(
        &mut self,
        host: &Host,
        vm: &VmOf,
        rows: impl IntoIterator<Item = RowOf<'a>>,
    ) {
        let cohort = Cohort::of(&self.asked.by, host, vm);
        let slots = self.slots.entry(cohort.clone());
        let slots = slots.or_insert_with(|| Slots::new(&self.places, &self.chosen, &cohort));
        let of_host = self.hosts.entry(host.name.clone()).or_default();
        of_host.captures.insert(host.start_unix_ns);
        let key = (vm.key().to_owned(), cohort.clone());
        let of = of_host.vms.entry(key).or_insert_with(|| OfVm {
            name: vm.name.clone(),
            cohort,
            has_ceiling: false,
            takes_ceiling: true,
            units: BTreeMap::new(),
        });
        of.has_ceiling |= vm.own_ceiling_ns.is_some();
        of.takes_ceiling &= takes_caps(host);
        let unit = of.units.entry(CaptureOf::of(host).at(self.level));
        let of_unit = unit.or_insert_with(|| Cell::new(slots.count()));
        let cost = cost(host, vm, self.asked.weight_milli);
        let mut last = 0;
        for (kind, knobs, half, sums) in rows {
            if !matches!(kind, Kind::InForce | Kind::Grid) {
                continue;
            }
            let Some(place) = self.places.of(kind, knobs, last) else {
                continue;
            };
            last = place;
            let slots = &slots.of[place];
            if !slots.is_empty() {
                let costed = Costed::of(sums, &cost);
                for &slot in slots {
                    of_unit.add(slot, half, &costed);
                }
            }
        }
    }

    /// Adds the sums of another file. Gives what each VM would have of hosts that are complete with it, by their names and
    /// numbers of captures: their sums go, so that few hosts lie in memory.
    pub fn add(&mut self, other: Self, is_complete: impl Fn(&str, usize) -> bool) -> Vec<VmAnswer> {
        for (cohort, slots) in other.slots {
            self.slots.entry(cohort).or_insert(slots);
        }
        let mut answers = Vec::new();
        for (host, more) in other.hosts {
            let mut own = self.hosts.remove(&host).unwrap_or_default();
            own.add(more);
            if is_complete(&host, own.captures.len()) {
                answers.extend(self.answers(&host, own));
            } else {
                self.hosts.insert(host, own);
            }
        }
        answers
    }

    /// Gives the answers for the VMs of the hosts that [`Self::add`] did not find complete.
    pub fn finish(mut self) -> Vec<VmAnswer> {
        let hosts = std::mem::take(&mut self.hosts).into_iter();
        hosts
            .flat_map(|(host, of)| self.answers(&host, of).collect::<Vec<_>>())
            .collect()
    }

    fn answers(&self, host: &str, of: OfHost) -> impl Iterator<Item = VmAnswer> {
        of.vms.into_values().filter_map(move |vm| {
            let slots = self.slots.get(&vm.cohort)?;
            Some(answer(host.to_owned(), vm, slots, &self.places))
        })
    }
}

impl OfHost {
    fn add(&mut self, other: Self) {
        self.captures.extend(other.captures);
        for (key, vm) in other.vms {
            match self.vms.get_mut(&key) {
                None => drop(self.vms.insert(key, vm)),
                Some(own) => own.add(&vm),
            }
        }
    }
}

impl OfVm {
    fn add(&mut self, other: &Self) {
        self.has_ceiling |= other.has_ceiling;
        self.takes_ceiling &= other.takes_ceiling;
        self.units.fold(&other.units);
    }
}

/// A VM under what was chosen, on the half that validates.
#[derive(Debug, Clone)]
pub struct VmAnswer {
    pub host: String,
    pub name: Option<String>,
    pub cohort: Cohort,
    pub halts: u64,
    /// It has a ceiling, which no parameter reaches.
    pub has_ceiling: bool,
    pub in_force: Costed,
    /// Under what its cohort takes; where no cohort changes, under the one setting.
    pub then: Costed,
    /// The ceiling of its own that is best, if one is by [`LEAST_GAIN`].
    pub ceiling_ns: Option<u32>,
    /// Under its ceiling, else what its cohort takes; unit by unit.
    pub with_ceiling: Vec<(Unit, Costed)>,
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
    let fit = |slot| folded::<Costed>(vm.units.values().map(|of| of.fit(slot)));
    let judged = |slot| folded::<Costed>(vm.units.values().map(|of| of.judged(slot)));
    let own = fit(SLOT_COHORT).milli as f64;
    let ceilings = 0..slots.ceilings.len();
    let best = ceilings.min_by_key(|at| fit(SLOT_CEILINGS + at).milli);
    let best = best.filter(|at| {
        let least = fit(SLOT_CEILINGS + at).milli as f64;
        let may = vm.takes_ceiling && !vm.has_ceiling && vm.name.is_some();
        may && least < own * (1.0 - LEAST_GAIN)
    });
    let slot = best.map_or(SLOT_COHORT, |at| SLOT_CEILINGS + at);
    let knobs = best.and_then(|at| places.knobs(slots.ceilings[at]));
    VmAnswer {
        host,
        halts: judged(SLOT_IN_FORCE).halts,
        has_ceiling: vm.has_ceiling,
        in_force: judged(SLOT_IN_FORCE),
        then: judged(slots.then),
        ceiling_ns: knobs.map(|knobs| knobs.halt_poll_ns),
        with_ceiling: (vm.units.iter())
            .map(|(unit, of)| (unit.clone(), *of.judged(slot)))
            .collect(),
        name: vm.name,
        cohort: vm.cohort,
    }
}
