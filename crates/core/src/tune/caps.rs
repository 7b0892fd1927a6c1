//! Ceilings of VMs (`KVM_CAP_HALT_POLL`) and the host's parameters, chosen together.
//!
//! `grow`, `grow_start` and `shrink` stay the host's: there are no others. A few sets of them are tried. Under
//! each, every VM that can have a ceiling has the best for itself, and the others follow the one
//! `halt_poll_ns` that is best for them together. A VM may have a goal of its own.
//!
//! A window that adapts can lock itself in or out, so a setting counts as it does from the worse of both starts.
//! Ceilings are chosen on the part that fits, and all figures are those of the validation half. VMs are played batch by
//! batch, so that the results of all VMs under all settings are not in memory at once.

use std::collections::{BTreeMap, BTreeSet};

use super::advice::{self, Comparison};
use super::doubt::Doubt;
use super::figures;
use super::final_round::FinalRound;
use super::inputs::{Inputs, VcpuInput};
use super::pool::Pool;
use super::search::Aim;
use super::stage::{self, CeilingsOf, Entry, Part};
use crate::ids::VmIndex;
use crate::kvm::Knobs;
use crate::kvm::ceiling::CeilingRule;
use crate::policy::SpecError;
use crate::replay::Cost;
use crate::replay::Sums;
use crate::stats::Interval;

mod choose;

/// Mean cost of halts, in nanoseconds of CPU, each VM by its own goal.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct Costs {
    /// As recorded.
    pub current_ns: f64,
    /// Under one setting for all.
    pub one_ns: f64,
    /// Under ceilings of their own.
    pub own_ns: f64,
    /// Under the best that is possible, halt by halt.
    pub oracle_ns: f64,
}

/// One VM, or all that follow the host's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// The VM; `None` for those that get no ceiling.
    pub vm: Option<VmIndex>,
    /// Its ceiling, in nanoseconds; `halt_poll_ns` of those that get none.
    pub ceiling_ns: u32,
    /// Halts of the validation half, as recorded.
    pub halts: u64,
    pub costs: Costs,
}

/// Expected result of VMs' own ceilings.
#[derive(Debug, Clone, PartialEq)]
pub struct Caps {
    /// The one setting for all: that of the advice.
    pub one: Knobs,
    /// The host's parameters that go with the ceilings.
    pub knobs: Knobs,
    /// Cost of the ceilings less that of the one setting, as a share of the latter.
    pub cost_share: Interval,
    /// They and their parameters against what is in force.
    pub against_in_force: Comparison,
    /// Totals of all halts of the validation half.
    pub judged: Sums,
    /// They poll for more than is allowed, and no others that were tried poll for less.
    pub is_over_limit: bool,
    /// VM by VM, then those without a ceiling, if there are any.
    pub groups: Vec<Group>,
    pub costs: Costs,
}

/// The best ceilings, of VMs that can be given one. `None` where there are fewer than two VMs, or none of them can
/// have one, or the kernel has no ceilings of VMs, or where their gain hangs on facts not recorded ([`super::doubt`]).
pub fn search(
    inputs: &Inputs,
    of: &FinalRound,
    base: &Entry,
    (aim, settable): (&Aim, &BTreeSet<VmIndex>),
    pool: &impl Pool,
) -> Result<Option<Caps>, SpecError> {
    let crowds = crowds(inputs, settable);
    let vms: BTreeSet<Option<VmIndex>> = inputs.seats.iter().map(|it| it.seat.vm).collect();
    let is_moot = vms.len() < 2 || crowds.iter().all(|crowd| crowd.vm.is_none());
    if is_moot || inputs.terms.rule().ceiling == CeilingRule::Param {
        return Ok(None);
    }
    let others: Vec<Knobs> = of.others.iter().map(|finalist| finalist.knobs).collect();
    let in_force = of.in_force.entry().recorded();
    let Some(own) = choose::own(inputs, &crowds, (&base.knobs, &others), aim, pool) else {
        return Ok(None);
    };
    let [current, one] = [in_force, *base].map(|entry| vec![entry; crowds.len()]);
    let [current, one]: [&[Entry]; 2] = [&current, &one];
    let [of_current, of_one] = tallies(inputs, &crowds, [current, one], Part::Whole, pool);
    let taken = [own.tally, of_current, of_one];
    let doubted = |doubt: Doubt| {
        let choices = [&*own.entries, current, one];
        let played = || tallies(inputs, &crowds, choices, Part::Doubted(doubt), pool);
        doubt.is_asked(inputs).then(played)
    };
    let otherwise: Vec<[Tally; 3]> = Doubt::ALL.into_iter().filter_map(doubted).collect();
    // The ceilings against the setting in force, and against the one setting.
    let against = |than: usize| {
        let compared =
            |of: &[Tally; 3]| advice::compare(inputs, of[0].blocks(), of[than].blocks(), aim);
        let otherwise = otherwise.iter().map(compared);
        otherwise.fold(compared(&taken), |all, one| all.out_to(&one))
    };
    let judged = Sums::total(taken[0].blocks());
    let groups = groups(inputs, &crowds, (&own.entries, &taken), aim, pool)?;
    let caps = Caps {
        one: base.knobs,
        knobs: own.knobs,
        cost_share: against(2).cost_share,
        against_in_force: against(1),
        judged,
        is_over_limit: inputs.judged_wall.poll_cpu_percent(&judged) > aim.limit_percent(),
        costs: total(&groups),
        groups,
    };
    let gains_nothing = |[own, _, one]: &[Tally; 3]| {
        let [own, one] = [own, one].map(|tally| Sums::total(tally.blocks()));
        own.gain_on(&one, &aim.cost) <= 0.0
    };
    let hangs = caps.cost_share.value < 0.0 && otherwise.iter().any(gains_nothing);
    Ok((!hangs).then_some(caps))
}

/// Costs of each crowd's halts: with ceilings, as recorded, under the one setting; and the oracle's cost.
fn groups(
    inputs: &Inputs,
    crowds: &[Crowd<'_>],
    (entries, tallies): (&[Entry], &[Tally; 3]),
    aim: &Aim,
    pool: &impl Pool,
) -> Result<Vec<Group>, SpecError> {
    let cost: &Cost = &aim.cost;
    let group = |(at, crowd): (usize, &Crowd<'_>)| {
        let of = |tally: &Tally| tally.each[at].cost_per_halt_ns(cost);
        let [own_ns, current_ns, one_ns] = tallies.each_ref().map(of);
        let oracle = figures::oracle(inputs, &crowd.seats, cost, pool)?;
        Ok(Group {
            vm: crowd.vm,
            ceiling_ns: match entries[at].ceilings {
                CeilingsOf::Caps(ns) => ns,
                _ => entries[at].knobs.halt_poll_ns,
            },
            halts: tallies[1].each[at].halts,
            costs: Costs {
                current_ns,
                one_ns,
                own_ns,
                oracle_ns: oracle.cost_per_halt_ns(cost),
            },
        })
    };
    crowds.iter().enumerate().map(group).collect()
}

fn total(groups: &[Group]) -> Costs {
    let halts: u64 = groups.iter().map(|group| group.halts).sum();
    let mean = |of: fn(&Costs) -> f64| {
        let sum: f64 = (groups.iter())
            .map(|group| of(&group.costs) * group.halts as f64)
            .sum();
        sum / halts.max(1) as f64
    };
    Costs {
        current_ns: mean(|costs| costs.current_ns),
        one_ns: mean(|costs| costs.one_ns),
        own_ns: mean(|costs| costs.own_ns),
        oracle_ns: mean(|costs| costs.oracle_ns),
    }
}

/// Crowds that are played at once. In parts each takes some 3 kB, under all ceilings.
const BATCH: usize = if cfg!(test) { 1 } else { 256 };

/// The vCPUs of a VM, or of all that follow.
struct Crowd<'a> {
    vm: Option<VmIndex>,
    seats: Vec<&'a VcpuInput>,
}

#[derive(Debug, Clone, Default)]
struct Tally {
    /// The part that fits, then the blocks that judge.
    all: Vec<Sums>,
    /// Crowd by crowd, of the parts that judge.
    each: Vec<Sums>,
}

impl Tally {
    fn blocks(&self) -> &[Sums] {
        self.all.get(1..).unwrap_or_default()
    }
}

/// Each VM that can have a ceiling, then all others.
fn crowds<'a>(inputs: &'a Inputs, settable: &BTreeSet<VmIndex>) -> Vec<Crowd<'a>> {
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
fn tallies<const N: usize>(
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
