//! What a ceiling for each VM of its own (`KVM_CAP_HALT_POLL`) would add over one for all.
//!
//! `grow`, `grow_start` and `shrink` stay the host's: there are no others. A few sets of them are
//! tried, each with the best ceiling for every VM, chosen on the part that fits.

use std::collections::BTreeMap;

use super::candidates::{self, CEILINGS_NS};
use super::crew::Crew;
use super::interval::{Interval, bootstrap};
use super::late;
use super::material::{Material, Seated};
use super::stage::{self, CeilingsOf, Entry, Part};
use super::sums::Sums;
use crate::ids::VmIndex;
use crate::kvm::Knobs;
use crate::kvm::ceiling::CeilingRule;
use crate::replay::Cost;

/// What a VM would get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// The VM.
    pub vm: VmIndex,
    /// Its ceiling in nanoseconds.
    pub ceiling_ns: u32,
}

/// The best ceiling for each VM.
#[derive(Debug, Clone, PartialEq)]
pub struct Caps {
    /// The host's parameters that go with them.
    pub knobs: Knobs,
    /// VM by VM.
    pub vms: Vec<Cap>,
    /// What they change against the one setting, as a share of its cost, on the validation half.
    pub cost_share: Interval,
}

/// Seeks them, against the one setting `base`. `None` where there are fewer than two VMs, or the kernel
/// has no ceilings of VMs, or where what they gain hangs on a calibration ([`super::late`]).
pub fn seek(material: &Material, base: &Knobs, cost: &Cost, crew: &impl Crew) -> Option<Caps> {
    let mut vms: BTreeMap<VmIndex, Vec<&Seated>> = BTreeMap::new();
    for seated in &material.seats {
        if let Some(vm) = seated.seat.vm {
            vms.entry(vm).or_default().push(seated);
        }
    }
    let rule = material.terms.rule();
    if vms.len() < 2 || rule.ceiling == CeilingRule::Param {
        return None;
    }
    let in_force = &material.terms.in_force;
    let mut sets = vec![*base, *in_force, material.terms.default_knobs()];
    // A first window above every ceiling: all or nothing, whatever the VM's ceiling.
    sets.push(candidates::toggle(candidates::LONGEST_NS, in_force));
    let entries: Vec<Entry> = std::iter::once(Entry::new(*base))
        .chain(sets.iter().flat_map(|knobs| {
            CEILINGS_NS.map(|ns| Entry {
                ceilings: CeilingsOf::Caps(ns),
                ..Entry::new(*knobs)
            })
        }))
        .collect();
    let mut common: Vec<Sums> = Vec::new();
    let mut of_set = vec![(0_u128, Vec::new(), Vec::<Sums>::new()); sets.len()];
    let played = played(material, &vms, &entries, crew);
    for (vm, parts) in played {
        Sums::add_parts(&mut common, &parts[0]);
        for (set, (milli, caps, sums)) in of_set.iter_mut().enumerate() {
            let from = 1 + set * CEILINGS_NS.len();
            let fits = |index: &usize| (parts[*index][0].milli(cost), *index);
            let Some(best) = (from..from + CEILINGS_NS.len()).min_by_key(fits) else {
                continue;
            };
            *milli += parts[best][0].milli(cost);
            caps.push(Cap {
                vm,
                ceiling_ns: CEILINGS_NS[best - from],
            });
            Sums::add_parts(sums, &parts[best]);
        }
    }
    let best = (0..sets.len()).min_by_key(|&set| of_set[set].0)?;
    let (_, chosen, sums) = of_set.swap_remove(best);
    let seed = material.terms.seed;
    let caps = Caps {
        knobs: sets[best],
        vms: chosen,
        cost_share: bootstrap(&sums[1..], &common[1..], seed, |own, other| {
            -own.gain_on(other, cost)
        }),
    };
    let hangs = caps.cost_share.value < 0.0
        && late::is_asked(material)
        && late_gain(material, &caps, base, &vms, cost, crew) <= 0.0;
    (!hangs).then_some(caps)
}

/// VMs whose parts lie in memory at once: those of each take some 150 kB.
const BATCH: usize = if cfg!(test) { 1 } else { 256 };

/// VM by VM, the sums of each part under each entry.
fn played<'a>(
    material: &'a Material,
    vms: &'a BTreeMap<VmIndex, Vec<&Seated>>,
    entries: &'a [Entry],
    crew: &'a impl Crew,
) -> impl Iterator<Item = (VmIndex, Vec<Vec<Sums>>)> + 'a {
    let all: Vec<(VmIndex, Vec<&Seated>)> = vms.iter().map(|(vm, of)| (*vm, of.clone())).collect();
    let mut rest = all.into_iter();
    std::iter::from_fn(move || {
        let (vms, groups): (Vec<_>, Vec<_>) = rest.by_ref().take(BATCH).unzip();
        let parts = stage::play_each(material, &groups, entries, Part::Whole, "caps", crew);
        (!vms.is_empty()).then(|| vms.into_iter().zip(parts))
    })
    .flatten()
}

/// What they gain were what was calibrated as late as [`late`] asks.
fn late_gain(
    material: &Material,
    caps: &Caps,
    base: &Knobs,
    vms: &BTreeMap<VmIndex, Vec<&Seated>>,
    cost: &Cost,
    crew: &impl Crew,
) -> f64 {
    let (mut own, mut common) = (Vec::new(), Vec::new());
    for (seats, cap) in vms.values().zip(&caps.vms) {
        let capped = Entry {
            ceilings: CeilingsOf::Caps(cap.ceiling_ns),
            ..Entry::new(caps.knobs)
        };
        let entries = [capped, Entry::new(*base)];
        let parts = stage::play(material, seats, &entries, Part::WholeIfLate, "doubt", crew);
        Sums::add_parts(&mut own, &parts[0]);
        Sums::add_parts(&mut common, &parts[1]);
    }
    Sums::total(&own[1..]).gain_on(&Sums::total(&common[1..]), cost)
}
