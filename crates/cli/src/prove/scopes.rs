//! The VMs that a plan gives ceilings: each is a scope of its own, and the VMs that follow the host's parameters are
//! the last.
//!
//! Under A such a VM has the ceiling that it would have by A's `halt_poll_ns`, as a cap: KVM cannot take one away.

use std::collections::BTreeMap;

use anyhow::anyhow;
use haltwise_core::event::{Halt, Vm};
use haltwise_core::ids::{VmIndex, VmKey};
use haltwise_core::prove::tally::Tally;
use haltwise_core::replay::Cost;
use haltwise_host::discovery;
use haltwise_host::knob::Target;
use haltwise_host::root::Root;

use crate::exit::{Exit, Failure};
use crate::knob::ceilings::{self, Wanted};
use crate::plan::Plan;
use crate::recommend::goal;

#[derive(Debug, Clone)]
struct Scope {
    name: String,
    keys: Vec<VmKey>,
    /// Its ceiling under A and B.
    ceilings_ns: [u32; 2],
    weight_milli: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Scopes {
    vms: Vec<Scope>,
    /// `halt_poll_ns` under A and B, which the other VMs follow.
    follow_ns: [u32; 2],
    /// Every VM that runs is one of them.
    pub(crate) are_all_vms: bool,
}

/// Totals of the halts of each scope, by the scope's place; the last is that of all other VMs.
pub(crate) type Tallies = BTreeMap<usize, Tally>;

impl Scopes {
    /// The VMs of a plan. All must run, and be such that their ceilings can be set.
    pub(crate) fn of(plan: &Plan, root: &Root, follow_ns: [u32; 2]) -> Result<Self, Failure> {
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
                ceilings_ns: [follow_ns[0], planned.halt_poll_ns],
                weight_milli: goal::milli(planned.lambda),
            });
        }
        let running = discovery::scan(root)?.vms;
        let is_in = |pid| vms.iter().flat_map(|it| &it.keys).any(|key| key.pid == pid);
        Ok(Self {
            are_all_vms: !vms.is_empty() && running.iter().all(|vm| is_in(vm.pid())),
            vms,
            follow_ns,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.vms.is_empty()
    }

    pub(crate) fn wanted(&self, is_b: bool) -> Wanted {
        let of_vms = self.vms.iter().flat_map(|scope| {
            let targets = scope.keys.iter().map(|key| Target::Ceiling(*key));
            targets.map(|target| (target, scope.ceilings_ns[usize::from(is_b)]))
        });
        of_vms.collect()
    }

    pub(crate) fn alternate(&self) -> String {
        let one = |scope: &Scope| {
            let (name, [a, b]) = (crate::page::harmless(&scope.name), scope.ceilings_ns);
            format!("the ceiling of {name} to {a} and {b} alternately")
        };
        self.vms.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn place(&self, roster: &[Vm], vm: Option<VmIndex>) -> usize {
        let key = vm.and_then(|vm| roster.get(usize::try_from(vm.0).ok()?).map(|vm| vm.key));
        let is_it = |scope: &Scope| key.is_some_and(|key| scope.keys.contains(&key));
        self.vms.iter().position(is_it).unwrap_or(self.vms.len())
    }

    /// The ceiling that a side gives the VM at a place, if that is one of these.
    pub(crate) fn given(&self, place: usize, is_b: bool) -> Option<u32> {
        let scope = self.vms.get(place)?;
        Some(scope.ceilings_ns[usize::from(is_b)])
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

    pub(super) fn cost(&self, place: usize, of_all: &Cost) -> Cost {
        let weight = self.vms.get(place).map(|scope| scope.weight_milli);
        Cost {
            latency_weight_milli: weight.unwrap_or(of_all.latency_weight_milli),
            ..*of_all
        }
    }

    /// The places of all scopes; none without a plan that has ceilings.
    pub(super) fn places(&self) -> std::ops::Range<usize> {
        if self.is_empty() {
            return 0..0;
        }
        0..self.vms.len() + 1
    }

    /// Name and ceilings of a scope; of the last, the ceilings that the other VMs follow.
    pub(super) fn ceilings(&self, place: usize) -> (Option<String>, [u32; 2]) {
        let scope = self.vms.get(place);
        let ceilings_ns = scope.map_or(self.follow_ns, |it| it.ceilings_ns);
        (scope.map(|it| it.name.clone()), ceilings_ns)
    }
}
