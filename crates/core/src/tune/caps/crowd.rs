//! VMs that get a ceiling each, and those that follow: played batch by batch, so that what is known of each VM
//! under each setting does not lie in memory at once.

use std::collections::BTreeMap;

use super::super::crew::Crew;
use super::super::material::{Material, Seated};
use super::super::stage::{self, Entry, Part};
use super::super::sums::Sums;
use super::Aims;
use crate::ids::VmIndex;
use crate::replay::Cost;

/// Crowds that are played at once. Under all ceilings each takes some 150 kB.
pub(super) const BATCH: usize = if cfg!(test) { 1 } else { 256 };

/// The vCPUs of a VM, or of all that follow and have one goal.
pub(super) struct Crowd<'a> {
    pub(super) vm: Option<VmIndex>,
    pub(super) cost: Cost,
    pub(super) seats: Vec<&'a Seated>,
}

/// The part that fits, then the blocks that judge.
pub(super) type Parts = Vec<Sums>;

/// Priced sums of crowds.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// Part by part, all crowds together.
    pub(super) all: Parts,
    /// Crowd by crowd, of the parts that judge.
    pub(super) each: Vec<Sums>,
}

impl Tally {
    /// The next crowd's.
    pub(super) fn add(&mut self, priced: &[Sums]) {
        Sums::add_parts(&mut self.all, priced);
        self.each.push(Sums::total(&priced[1..]));
    }
}

/// Each VM that can have a ceiling, then all others by their goals.
pub(super) fn crowds<'a>(material: &'a Material, aims: &Aims<'_>) -> Vec<Crowd<'a>> {
    let mut by_vm: BTreeMap<(bool, Option<VmIndex>, u64), Crowd<'a>> = BTreeMap::new();
    for seated in &material.seats {
        let named = seated.seat.vm;
        let cost = named
            .and_then(|vm| aims.costs.get(&vm))
            .unwrap_or(&aims.aim.cost);
        let vm = named.filter(|vm| aims.settable.contains(vm));
        let key = (vm.is_none(), vm, cost.latency_weight_milli);
        let crowd = by_vm.entry(key).or_insert_with(|| Crowd {
            vm,
            cost: *cost,
            seats: Vec::new(),
        });
        crowd.seats.push(seated);
    }
    by_vm.into_values().collect()
}

/// Crowd by crowd and entry by entry, not priced.
pub(super) fn play(
    material: &Material,
    crowds: &[Crowd<'_>],
    entries: &[Entry],
    part: Part,
    crew: &impl Crew,
) -> Vec<Vec<Parts>> {
    let seats: Vec<Vec<&Seated>> = crowds.iter().map(|crowd| crowd.seats.clone()).collect();
    stage::play_each(material, &seats, entries, part, "caps", crew)
}

/// The cost of sums that are priced.
pub(super) const PRICED: Cost = Cost::FREE;

/// Sums as what they cost, in nanoseconds of CPU that polls: so that VMs with different goals add up.
fn priced(sums: &Sums, cost: &Cost) -> Sums {
    let ns = sums.milli(cost) / 1_000;
    Sums {
        halts: sums.halts,
        blocks: 0,
        poll_ns: u64::try_from(ns).unwrap_or(u64::MAX),
        latency_ns: 0,
        halt_ns: sums.halt_ns,
    }
}

pub(super) fn price(parts: &[Sums], cost: &Cost) -> Parts {
    parts.iter().map(|part| priced(part, cost)).collect()
}
