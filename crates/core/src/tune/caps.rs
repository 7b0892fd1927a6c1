//! Ceilings of VMs (`KVM_CAP_HALT_POLL`) and the host's parameters, chosen together.
//!
//! `grow`, `grow_start` and `shrink` stay the host's: there are no others. A few sets of them are tried. Under
//! each, every VM that can have a ceiling has the best for itself, and the others follow the one
//! `halt_poll_ns` that is best for them together. A VM may have a goal of its own.
//!
//! A window that adapts can lock itself in or out, so a setting counts as it does from the worse of both starts.
//! Ceilings are chosen on the part that fits, and all figures are those of the validation half.

use std::collections::{BTreeMap, BTreeSet};

use super::advice::{self, Comparison, Final};
use super::crew::Crew;
use super::figures;
use super::interval::{Interval, bootstrap};
use super::late;
use super::material::Material;
use super::search::Aim;
use super::stage::{CeilingsOf, Entry, Part};
use super::sums::Sums;
use crate::ids::VmIndex;
use crate::kvm::Knobs;
use crate::kvm::ceiling::CeilingRule;
use crate::policy::SpecError;
use crate::replay::Cost;

use self::crowd::{BATCH, Crowd, PRICED, Tally, crowds, price};

mod choose;
mod crowd;

/// What is wanted of whom.
#[derive(Debug, Clone)]
pub struct Aims<'a> {
    /// For VMs without a goal of their own.
    pub aim: &'a Aim,
    /// What halts cost VMs with one.
    pub costs: &'a BTreeMap<VmIndex, Cost>,
    /// VMs that can be given a ceiling.
    pub settable: &'a BTreeSet<VmIndex>,
}

/// What a VM would get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// The VM.
    pub vm: VmIndex,
    /// Its ceiling in nanoseconds.
    pub ceiling_ns: u32,
}

/// What halts cost on average, in nanoseconds of CPU, each VM by its own goal.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Costs {
    /// As recorded.
    pub current: f64,
    /// Under one setting for all.
    pub one: f64,
    /// Under ceilings of their own.
    pub own: f64,
    /// Under the best that is possible, halt by halt.
    pub oracle: f64,
}

/// One VM, or all that follow the host's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// The VM; `None` for those that get no ceiling.
    pub vm: Option<VmIndex>,
    /// Halts of the validation half, as recorded.
    pub halts: u64,
    /// What they cost.
    pub costs: Costs,
}

/// What ceilings of VMs would come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Caps {
    /// The one setting for all: that of the advice, unless VMs have goals of their own.
    pub one: Knobs,
    /// The host's parameters that go with the ceilings.
    pub knobs: Knobs,
    /// VM by VM.
    pub vms: Vec<Cap>,
    /// What they change against the one setting, as a share of its cost.
    pub cost_share: Interval,
    /// They and their parameters against what is in force.
    pub against_in_force: Comparison,
    /// What came of all halts of the validation half.
    pub judged: Sums,
    /// VM by VM, then those without a ceiling, if there are any.
    pub groups: Vec<Group>,
    /// All together.
    pub costs: Costs,
}

/// The best ceilings. `None` where there are fewer than two VMs, or none of them can have a ceiling, or the kernel has no
/// ceilings of VMs, or where what they gain hangs on a calibration ([`super::late`]) or takes more polling than
/// is allowed.
pub fn seek(
    material: &Material,
    of: &Final,
    base: &Entry,
    aims: &Aims<'_>,
    crew: &impl Crew,
) -> Result<Option<Caps>, SpecError> {
    let crowds = crowds(material, aims);
    let vms: BTreeSet<Option<VmIndex>> = material.seats.iter().map(|it| it.seat.vm).collect();
    let is_moot = vms.len() < 2 || crowds.iter().all(|crowd| crowd.vm.is_none());
    if is_moot || material.terms.rule().ceiling == CeilingRule::Param {
        return Ok(None);
    }
    let others: Vec<Knobs> = of.others.iter().map(|finalist| finalist.knobs).collect();
    let in_force = Entry {
        ceilings: CeilingsOf::Recorded,
        start: of.in_force.start,
        ..Entry::new(of.in_force.knobs)
    };
    let mut entries = vec![*base];
    if !aims.costs.is_empty() {
        entries.push(in_force);
        entries.extend(others.iter().copied().map(Entry::new));
    }
    let (_, current) = one(material, &crowds, &[in_force], crew);
    let (one, common) = one(material, &crowds, &entries, crew);
    let Some(own) = choose::own(material, &crowds, &one.knobs, &others, crew) else {
        return Ok(None);
    };
    let judged = Sums::total(&own.raw[1..]);
    if material.judged_wall.poll_cpu_percent(&judged) > aims.aim.limit_percent() {
        return Ok(None);
    }
    let groups = groups(material, &crowds, [&current, &common, &own.priced], crew)?;
    let seed = material.terms.seed;
    let (own_parts, current) = (&own.priced.all[1..], &current.all[1..]);
    let share = |than: &[Sums]| bootstrap(own_parts, than, seed, |a, b| -a.gain_on(b, &PRICED));
    let caps = Caps {
        one: one.knobs,
        knobs: own.knobs,
        cost_share: share(&common.all[1..]),
        against_in_force: Comparison {
            cost_ns_per_halt: bootstrap(own_parts, current, seed, |a, b| {
                a.cost_per_halt_ns(&PRICED) - b.cost_per_halt_ns(&PRICED)
            }),
            cost_share: share(current),
            ..advice::compare(material, &own.raw[1..], of.in_force.blocks(), aims.aim)
        },
        judged,
        costs: total(&groups),
        groups,
        vms: own.caps,
    };
    let hangs = caps.cost_share.value < 0.0
        && late::is_asked(material)
        && late_gain(material, &crowds, &caps, &one, crew) <= 0.0;
    Ok((!hangs).then_some(caps))
}

/// What each crowd's halts cost: as recorded, under the one setting, with ceilings; and the oracle.
fn groups(
    material: &Material,
    crowds: &[Crowd<'_>],
    tallies: [&Tally; 3],
    crew: &impl Crew,
) -> Result<Vec<Group>, SpecError> {
    let group = |(at, crowd): (usize, &Crowd<'_>)| {
        let [current, one, own] = tallies.map(|tally| tally.each[at].cost_per_halt_ns(&PRICED));
        let oracle = figures::oracle(material, &crowd.seats, &crowd.cost, crew)?;
        Ok(Group {
            vm: crowd.vm,
            halts: tallies[0].each[at].halts,
            costs: Costs {
                current,
                one,
                own,
                oracle: oracle.cost_per_halt_ns(&crowd.cost),
            },
        })
    };
    crowds.iter().enumerate().map(group).collect()
}

/// What all cost together, by halts.
fn total(groups: &[Group]) -> Costs {
    let halts: u64 = groups.iter().map(|group| group.halts).sum();
    let mean = |of: fn(&Costs) -> f64| {
        let sum: f64 = (groups.iter())
            .map(|group| of(&group.costs) * group.halts as f64)
            .sum();
        sum / halts.max(1) as f64
    };
    Costs {
        current: mean(|costs| costs.current),
        one: mean(|costs| costs.one),
        own: mean(|costs| costs.own),
        oracle: mean(|costs| costs.oracle),
    }
}

/// The best of these for all by their own goals, and what comes of it.
fn one(
    material: &Material,
    crowds: &[Crowd<'_>],
    entries: &[Entry],
    crew: &impl Crew,
) -> (Entry, Tally) {
    let mut tallies = vec![Tally::default(); entries.len()];
    for batch in crowds.chunks(BATCH) {
        for (crowd, played) in
            batch
                .iter()
                .zip(crowd::play(material, batch, entries, Part::Whole, crew))
        {
            for (tally, parts) in tallies.iter_mut().zip(&played) {
                tally.add(&price(parts, &crowd.cost));
            }
        }
    }
    let fit = |at: usize| tallies[at].all.first().map_or(0, |fit| fit.poll_ns);
    let best = (0..entries.len())
        .min_by_key(|&at| (fit(at), at))
        .unwrap_or(0);
    (entries[best], tallies.swap_remove(best))
}

/// What they gain were what was calibrated as late as [`late`] asks.
fn late_gain(
    material: &Material,
    crowds: &[Crowd<'_>],
    caps: &Caps,
    one: &Entry,
    crew: &impl Crew,
) -> f64 {
    let ceilings: BTreeMap<VmIndex, u32> = caps
        .vms
        .iter()
        .map(|cap| (cap.vm, cap.ceiling_ns))
        .collect();
    let (mut own, mut common) = (Tally::default(), Tally::default());
    for crowd in crowds {
        let cap = crowd.vm.and_then(|vm| ceilings.get(&vm));
        let capped = Entry {
            ceilings: cap.map_or(CeilingsOf::Param, |ns| CeilingsOf::Caps(*ns)),
            ..Entry::new(caps.knobs)
        };
        let alone = std::slice::from_ref(crowd);
        for parts in crowd::play(material, alone, &[capped, *one], Part::WholeIfLate, crew) {
            own.add(&price(&parts[0], &crowd.cost));
            common.add(&price(&parts[1], &crowd.cost));
        }
    }
    Sums::total(&own.all[1..]).gain_on(&Sums::total(&common.all[1..]), &PRICED)
}
