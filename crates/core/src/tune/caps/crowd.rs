//! VMs that get a ceiling each, and those that follow: played batch by batch, so that what is known of each VM
//! under each setting does not lie in memory at once.

use std::collections::{BTreeMap, BTreeSet};

use super::super::inputs::{Inputs, VcpuInput};
use super::super::pool::Pool;
use super::super::stage::{self, Entry, Part};
use crate::ids::VmIndex;
use crate::replay::Sums;

/// Crowds that are played at once. In parts each takes some 3 kB, under all ceilings.
pub(super) const BATCH: usize = if cfg!(test) { 1 } else { 256 };

/// The vCPUs of a VM, or of all that follow.
pub(super) struct Crowd<'a> {
    pub(super) vm: Option<VmIndex>,
    pub(super) seats: Vec<&'a VcpuInput>,
}

/// The part that fits, then the blocks that judge.
pub(super) type Parts = Vec<Sums>;

#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) all: Parts,
    /// Crowd by crowd, of the parts that judge.
    pub(super) each: Vec<Sums>,
}

impl Tally {
    pub(super) fn blocks(&self) -> &[Sums] {
        self.all.get(1..).unwrap_or_default()
    }
}

/// Each VM that can have a ceiling, then all others.
pub(super) fn crowds<'a>(inputs: &'a Inputs, settable: &BTreeSet<VmIndex>) -> Vec<Crowd<'a>> {
    let mut by_vm: BTreeMap<(bool, Option<VmIndex>), Crowd<'a>> = BTreeMap::new();
    for seated in &inputs.seats {
        let vm = seated.seat.vm.filter(|vm| settable.contains(vm));
        let crowd = by_vm.entry((vm.is_none(), vm)).or_insert_with(|| Crowd {
            vm,
            seats: Vec::new(),
        });
        crowd.seats.push(seated);
    }
    by_vm.into_values().collect()
}

/// Tallies of several choices, which have an entry for each crowd: one pass over a crowd's halts plays all choices.
pub(super) fn tallies<const N: usize>(
    inputs: &Inputs,
    crowds: &[Crowd<'_>],
    choices: [&[Entry]; N],
    part: Part,
    pool: &impl Pool,
) -> [Tally; N] {
    let mut tallies: [Tally; N] = std::array::from_fn(|_| Tally::default());
    for first in (0..crowds.len()).step_by(BATCH) {
        let batch = first..crowds.len().min(first + BATCH);
        // Those with the same entries go side by side.
        let mut alike: Vec<([Entry; N], Vec<usize>)> = Vec::new();
        for at in batch.clone() {
            let entries = choices.map(|choice| choice[at]);
            match alike.iter_mut().find(|(other, _)| *other == entries) {
                Some((_, places)) => places.push(at),
                None => alike.push((entries, vec![at])),
            }
        }
        let mut played = vec![Vec::new(); batch.len()];
        for (entries, places) in alike {
            let seats: Vec<_> = places.iter().map(|&at| crowds[at].seats.clone()).collect();
            let parts = stage::play_each(inputs, &seats, &entries, part, "caps", pool);
            for (at, parts) in places.into_iter().zip(parts) {
                played[at - first] = parts;
            }
        }
        for of_crowd in &played {
            for (tally, parts) in tallies.iter_mut().zip(of_crowd) {
                Sums::add_parts(&mut tally.all, parts);
                let judging = parts.get(1..).unwrap_or_default();
                tally.each.push(Sums::total(judging));
            }
        }
    }
    tallies
}
