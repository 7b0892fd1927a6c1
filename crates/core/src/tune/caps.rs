//! Ceilings of VMs (`KVM_CAP_HALT_POLL`) and the host's parameters, chosen together.
//!
//! `grow`, `grow_start` and `shrink` stay the host's: there are no others. A few sets of them are tried. Under
//! each, every VM that can have a ceiling has the best for itself, and the others follow the one
//! `halt_poll_ns` that is best for them together. A VM may have a goal of its own.
//!
//! A window that adapts can lock itself in or out, so a setting counts as it does from the worse of both starts.
//! Ceilings are chosen on the part that fits, and all figures are those of the validation half.

use std::collections::BTreeSet;

use super::advice::{self, Comparison};
use super::doubt::Doubt;
use super::figures;
use super::final_round::FinalRound;
use super::inputs::Inputs;
use super::pool::Pool;
use super::search::Aim;
use super::stage::{CeilingsOf, Entry, Part};
use crate::ids::VmIndex;
use crate::kvm::Knobs;
use crate::kvm::ceiling::CeilingRule;
use crate::policy::SpecError;
use crate::replay::Cost;
use crate::replay::Sums;
use crate::stats::Interval;

use self::choose::Own;
use self::crowd::{Crowd, Tally, crowds};

mod choose;
mod crowd;

/// Proposed ceiling of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    pub vm: VmIndex,
    pub ceiling_ns: u32,
}

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
    pub vms: Vec<Cap>,
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
    let [of_current, of_one] = crowd::tallies(inputs, &crowds, [current, one], Part::Whole, pool);
    let taken = Three {
        own: own.tally.clone(),
        current: of_current,
        one: of_one,
    };
    let doubted = |doubt: Doubt| {
        let choices = [&*own.entries, current, one];
        doubt.is_asked(inputs).then(|| {
            let tallies = crowd::tallies(inputs, &crowds, choices, Part::Doubted(doubt), pool);
            let [own, current, one] = tallies;
            Three { own, current, one }
        })
    };
    let otherwise: Vec<Three> = Doubt::ALL.into_iter().filter_map(doubted).collect();
    let against = |than: fn(&Three) -> &Tally| {
        let compared =
            |of: &Three| advice::compare(inputs, of.own.blocks(), than(of).blocks(), aim);
        let otherwise = otherwise.iter().map(compared);
        otherwise.fold(compared(&taken), |all, one| all.out_to(&one))
    };
    let judged = Sums::total(own.tally.blocks());
    let tallies = [&taken.current, &taken.one, &taken.own];
    let groups = groups(inputs, &crowds, tallies, aim, pool)?;
    let caps = Caps {
        one: base.knobs,
        knobs: own.knobs,
        cost_share: against(|of| &of.one).cost_share,
        against_in_force: against(|of| &of.current),
        judged,
        is_over_limit: inputs.judged_wall.poll_cpu_percent(&judged) > aim.limit_percent(),
        costs: total(&groups),
        groups,
        vms: caps(&crowds, &own),
    };
    let gains_nothing = |of: &Three| of.gain(&aim.cost) <= 0.0;
    let hangs = caps.cost_share.value < 0.0 && otherwise.iter().any(gains_nothing);
    Ok((!hangs).then_some(caps))
}

/// Tallies of the ceilings, of the setting in force, and of the one setting.
struct Three {
    own: Tally,
    current: Tally,
    one: Tally,
}

impl Three {
    fn gain(&self, cost: &Cost) -> f64 {
        let [own, one] = [&self.own, &self.one].map(|tally| Sums::total(tally.blocks()));
        own.gain_on(&one, cost)
    }
}

fn caps(crowds: &[Crowd<'_>], own: &Own) -> Vec<Cap> {
    let cap = |(crowd, entry): (&Crowd<'_>, &Entry)| match (crowd.vm, entry.ceilings) {
        (Some(vm), CeilingsOf::Caps(ceiling_ns)) => Some(Cap { vm, ceiling_ns }),
        _ => None,
    };
    crowds.iter().zip(&own.entries).filter_map(cap).collect()
}

/// Costs of each crowd's halts: as recorded, under the one setting, with ceilings; and the oracle's cost.
fn groups(
    inputs: &Inputs,
    crowds: &[Crowd<'_>],
    tallies: [&Tally; 3],
    aim: &Aim,
    pool: &impl Pool,
) -> Result<Vec<Group>, SpecError> {
    let cost: &Cost = &aim.cost;
    let group = |(at, crowd): (usize, &Crowd<'_>)| {
        let of = |tally: &Tally| tally.each[at].cost_per_halt_ns(cost);
        let [current_ns, one_ns, own_ns] = tallies.map(of);
        let oracle = figures::oracle(inputs, &crowd.seats, cost, pool)?;
        Ok(Group {
            vm: crowd.vm,
            halts: tallies[0].each[at].halts,
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
