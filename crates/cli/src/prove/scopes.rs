//! The VMs that a plan gives ceilings: each is a scope of its own, and the VMs that follow the host's parameters are
//! the last.
//!
//! Under A such a VM has the ceiling that it would have by A's `halt_poll_ns`, as a cap: KVM cannot take one away.

use std::collections::BTreeMap;

use anyhow::anyhow;
use haltwise_core::event::{Halt, Vm};
use haltwise_core::ids::{VmIndex, VmKey};
use haltwise_core::prove::compare::Comparison;
use haltwise_core::prove::figure::{Figure, Figures};
use haltwise_core::prove::predict::Prediction;
use haltwise_core::prove::tally::Tally;
use haltwise_core::replay::Cost;
use haltwise_host::discovery;
use haltwise_host::knob::Target;
use haltwise_host::root::Root;

use super::experiment::Measured;
use crate::exit::{Exit, Failure};
use crate::knob::ceilings::{self, Wanted};
use crate::plan::Plan;
use crate::proof::ProvenScope;
use crate::recommend::goal;

#[derive(Debug, Clone)]
struct Scope {
    name: String,
    keys: Vec<VmKey>,
    ceiling_ns: u32,
    weight_milli: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Scopes {
    vms: Vec<Scope>,
    /// Every VM that runs is one of them.
    pub(crate) are_all_vms: bool,
}

/// Totals of the halts of each scope, by the scope's place; the last is that of all other VMs.
pub(crate) type Tallies = BTreeMap<usize, Tally>;

impl Scopes {
    /// The VMs of a plan. All must run, and be such that their ceilings can be set.
    pub(crate) fn of(plan: &Plan, root: &Root) -> Result<Self, Failure> {
        let mut vms = Vec::new();
        for planned in &plan.ceilings {
            let one = std::slice::from_ref(planned);
            let (found, unset) = ceilings::of_plan(root, one)?;
            if let Some(unset) = unset.first() {
                let error = anyhow!("set the ceiling of {}: {}", unset.vm, unset.why);
                return Err(Failure::new(Exit::Unsupported, error)
                    .hint("a plan is proved where all its VMs run; take it out of the plan"));
            }
            vms.push(Scope {
                name: planned.vm.clone(),
                keys: found.iter().filter_map(|(it, _)| it.vm()).collect(),
                ceiling_ns: planned.halt_poll_ns,
                weight_milli: goal::milli(planned.lambda),
            });
        }
        let running = discovery::scan(root)?.vms;
        let is_in = |pid| vms.iter().flat_map(|it| &it.keys).any(|key| key.pid == pid);
        Ok(Self {
            are_all_vms: !vms.is_empty() && running.iter().all(|vm| is_in(vm.pid())),
            vms,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.vms.is_empty()
    }

    pub(crate) fn wanted(&self, under_a: u32, is_b: bool) -> Wanted {
        let of_vms = self.vms.iter().flat_map(|scope| {
            let ns = if is_b { scope.ceiling_ns } else { under_a };
            let targets = scope.keys.iter().map(|key| Target::Ceiling(*key));
            targets.map(move |target| (target, ns))
        });
        of_vms.collect()
    }

    pub(crate) fn alternate(&self, under_a: u32) -> String {
        let one = |scope: &Scope| {
            let (name, ns) = (crate::page::harmless(&scope.name), scope.ceiling_ns);
            format!("the ceiling of {name} to {under_a} and {ns} alternately")
        };
        self.vms.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn place(&self, roster: &[Vm], vm: Option<VmIndex>) -> usize {
        let key = vm.and_then(|vm| roster.get(usize::try_from(vm.0).ok()?).map(|vm| vm.key));
        let is_it = |scope: &Scope| key.is_some_and(|key| scope.keys.contains(&key));
        self.vms.iter().position(is_it).unwrap_or(self.vms.len())
    }

    /// The ceiling that a side gives the VM at a place, if that is one of these.
    pub(crate) fn given(&self, place: usize, under_a: u32, is_b: bool) -> Option<u32> {
        let scope = self.vms.get(place)?;
        Some(if is_b { scope.ceiling_ns } else { under_a })
    }

    pub(crate) fn split(&self, roster: &[Vm], halts: &[Halt]) -> BTreeMap<usize, Vec<Halt>> {
        let mut split: BTreeMap<usize, Vec<Halt>> = BTreeMap::new();
        if !self.is_empty() {
            for halt in halts {
                let place = self.place(roster, halt.vm);
                split.entry(place).or_default().push(*halt);
            }
        }
        split
    }

    fn cost(&self, place: usize, of_all: &Cost) -> Cost {
        let weight = self.vms.get(place).map(|scope| scope.weight_milli);
        Cost {
            latency_weight_milli: weight.unwrap_or(of_all.latency_weight_milli),
            ..*of_all
        }
    }

    /// The mean cost of a halt, each scope's by its own goal. `None` where something of it is not known.
    pub(crate) fn mixed(&self, tallies: &Tallies, predicted: bool, cost: &Cost) -> Option<f64> {
        let (mut sum, mut halts) = (0.0, 0.0);
        for (place, tally) in tallies {
            let cost = self.cost(*place, cost);
            let count = of(tally, predicted).map(|outcome| outcome.halts)? as f64;
            sum += figures(tally, predicted, &cost).get(Figure::Cost)? * count;
            halts += count;
        }
        (halts > 0.0).then(|| sum / halts)
    }

    pub(crate) fn proven(
        &self,
        rounds: &[[&Measured; 3]],
        cost: &Cost,
        ceilings: (u32, u32),
    ) -> Vec<ProvenScope> {
        if self.is_empty() {
            return Vec::new();
        }
        let places = 0..=self.vms.len();
        places
            .filter_map(|place| self.one(place, rounds, cost, ceilings))
            .collect()
    }

    fn one(
        &self,
        place: usize,
        rounds: &[[&Measured; 3]],
        of_all: &Cost,
        (under_a, under_b): (u32, u32),
    ) -> Option<ProvenScope> {
        let cost = self.cost(place, of_all);
        let (mut table, mut pairs) = (Vec::new(), Vec::new());
        let mut halts = 0;
        for round in rounds {
            let [a, b, control] = round.map(|measured| measured.scopes.get(&place));
            let (Some(a), Some(b), Some(control)) = (a, b, control) else {
                continue;
            };
            halts += a.recorded.halts + b.recorded.halts + control.recorded.halts;
            let measured = [a, b, control].map(|tally| figures(tally, false, &cost));
            table.push(measured);
            pairs.push([measured[0], figures(a, true, &cost), measured[1]]);
        }
        let comparison = Comparison::of(Figure::Cost, &table)?;
        let predicted = Prediction::of(&comparison, &pairs);
        let scope = self.vms.get(place);
        Some(ProvenScope {
            vm: scope.map(|scope| scope.name.clone()),
            a_halt_poll_ns: under_a,
            b_halt_poll_ns: scope.map_or(under_b, |scope| scope.ceiling_ns),
            latency_weight: cost.latency_weight_milli as f64 / 1e3,
            halts,
            a: comparison.a,
            b: comparison.b,
            effect: comparison.effect,
            noise: comparison.noise,
            predicted: predicted.map(|it| it.predicted),
            within: predicted.map(|it| it.within),
        })
    }
}

fn of(tally: &Tally, predicted: bool) -> Option<&haltwise_core::replay::Outcome> {
    if predicted {
        tally.predicted.as_ref().map(|played| &played.from_zero)
    } else {
        Some(&tally.recorded)
    }
}

fn figures(tally: &Tally, predicted: bool, cost: &Cost) -> Figures {
    let outcome = of(tally, predicted);
    outcome.map_or_else(Figures::default, |it| Figures::of(it, tally.vcpus, cost))
}
