//! The pilot: readings and facts in, decisions out.
//!
//! | file | holds |
//! |---|---|
//! | `observe` | readings in: VMs that are there, the settings in force, and whether another program has set them |
//! | `decide` | what was observed and is remembered in: a decision on each target, and what keeps from it |
//! | `act` | the periods of a trial; what comes of a change, and which facts no longer count |
//!
//! It has a clock of its own, which goes on by what the caller's does and by no more than a minute at a time: no step
//! of a clock is time in which nothing was seen.

mod act;
mod decide;
mod observe;

use std::collections::BTreeMap;

use super::budget::Budget;
use super::decision::{Decision, Refusal, Wanted};
use super::evidence::{EXCERPT, Evidence, OfVm, Question};
use super::guards::{self, Guarded};
use super::input::{Limits, Scope, Seen};
use super::member::{CHUNKS, Member, TRIED};
use super::memory::{Errors, Memory};
use super::standing::Decisions;
use super::target::Target;
use crate::ids::VmKey;
use crate::kvm::Rule;

/// The clock goes on by this at most between two readings.
const LONGEST_STEP_NS: u64 = 60_000_000_000;

/// Its own clock begins here, so that what was before has a time.
const BEGIN_NS: u64 = 86_400_000_000_000;

/// Length of a look at a VM: some seconds, as often as every ten.
const LOOK_NS: u64 = 3_000_000_000;

/// Halts that are held in all, some 20 MB; each VM has its part of them, and [`OF_VM`] at least.
const HALTS: usize = 131_072;

/// Halts that are held of a VM at least, some 250 KB: looks of 256, and excerpts of a trial.
const OF_VM: usize = CHUNKS * 256 + TRIED * EXCERPT;

/// A look takes so many halts at most: with more, an interval does not get narrower than predictions are good.
const OF_LOOK: usize = 16_384;

/// Inputs of the pilot, which keeps them: `limits` and `memory` change while it runs.
#[derive(Debug)]
pub struct Setup<E> {
    pub evidence: E,
    pub rule: Rule,
    pub limits: Limits,
    pub memory: Memory,
    /// How far predictions were off in earlier proofs on this host.
    pub proofs: Errors,
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Purpose {
    Look,
    Period(Scope),
}

#[derive(Debug)]
pub struct Pilot<E: Evidence> {
    /// Its memory holds the errors of its own trials too, and of an earlier run those targets that no reading had so far.
    pub(super) setup: Setup<E>,
    trials: u64,
    last_ns: Option<u64>,
    pub(super) now_ns: u64,
    pub(super) seen: Seen,
    pub(super) members: BTreeMap<VmKey, Member<E::Chunk>>,
    pub(super) targets: BTreeMap<Scope, Target>,
    pub(super) guards: Vec<Guarded>,
    /// When the last two readings with counts were taken: they are of the time between.
    counted_ns: [u64; 2],
    /// CPU pressure of the last three readings with counts, where it is known.
    pressures: [Option<f64>; 3],
    changed_ns: u64,
    budget: Budget,
    collecting: Option<(Purpose, Wanted)>,
    wanted: u64,
    pub(super) decided: Decisions,
    pub(super) dropped: u64,
    /// It was allowed to act at some time since it started: then it also restores.
    pub(super) may_restore: bool,
    takes_over: bool,
}

impl<E: Evidence> Pilot<E> {
    pub fn new(setup: Setup<E>) -> Self {
        Self {
            may_restore: setup.limits.may_act,
            takes_over: false,
            setup,
            trials: 0,
            last_ns: None,
            now_ns: BEGIN_NS,
            seen: Seen::default(),
            members: BTreeMap::new(),
            targets: BTreeMap::new(),
            guards: Vec::new(),
            counted_ns: [0; 2],
            pressures: [None; 3],
            changed_ns: 0,
            budget: Budget::default(),
            collecting: None,
            wanted: 0,
            decided: Decisions::default(),
            dropped: 0,
        }
    }

    /// Takes a reading in, at a time of a clock that goes on while the machine runs.
    pub fn step(&mut self, clock_ns: u64, seen: Seen) -> Vec<Decision> {
        let stood_ns = self.advance(clock_ns);
        let is_on_trial = self.on_trial().is_some();
        let own_cpu_ns = seen.host.own_cpu_ns;
        self.budget
            .take(self.now_ns, own_cpu_ns, self.gained_ns(), is_on_trial);
        self.seen = seen;
        if self.seen.counted {
            let [_, before, last] = self.pressures;
            self.pressures = [before, last, self.seen.host.cpu_pressure.share()];
            self.judge_trials();
        }
        let mut decisions = self.take_readings();
        if stood_ns > LONGEST_STEP_NS {
            // Whatever was collected across such a step holds no known time, nor do periods of a trial.
            self.collecting = None;
            decisions.extend(self.end_trials("the pilot stood still for more than a minute"));
        }
        self.guard();
        if self.seen.counted {
            self.counted_ns = [self.counted_ns[1], self.now_ns];
            self.account();
        }
        decisions.extend(self.each(&decisions, Self::consider));
        // The look that a trial has waited for may have been dropped.
        decisions.extend(self.go_on(&decisions));
        self.plan();
        self.counted(decisions)
    }

    /// The facts that were wanted, VM by VM; nothing of a VM where they could not be had.
    pub fn facts(&mut self, clock_ns: u64, facts: Vec<(VmKey, Option<E::Chunk>)>) -> Vec<Decision> {
        self.advance(clock_ns);
        let Some((purpose, _)) = self.collecting.take() else {
            return Vec::new();
        };
        let mut decisions = match purpose {
            Purpose::Look => {
                let looked = facts.into_iter();
                looked
                    .flat_map(|(vm, chunk)| self.look(vm, chunk))
                    .collect()
            }
            Purpose::Period(scope) => {
                let take =
                    |pilot: &mut Self, target: &mut Target| pilot.take_period(target, &facts);
                Vec::from_iter(self.with_target(scope, take))
            }
        };
        decisions.extend(self.go_on(&decisions));
        self.plan();
        self.counted(decisions)
    }

    pub fn made(
        &mut self,
        clock_ns: u64,
        decision: &Decision,
        made: Result<(), Refusal>,
    ) -> Vec<Decision> {
        self.advance(clock_ns);
        let more = self.with_target(decision.scope, |pilot, target| match made {
            Ok(()) => {
                pilot.is_made(target, decision);
                None
            }
            Err(refusal) => pilot.is_refused(target, refusal),
        });
        let decisions = Vec::from_iter(more);
        self.plan();
        self.counted(decisions)
    }

    pub fn wanted(&self) -> Option<&Wanted> {
        self.collecting.as_ref().map(|(_, wanted)| wanted)
    }

    /// Other limits hold from now on. Where it may no longer act, trials end; what is on trial, or was set, and is no longer
    /// within the limits goes.
    pub fn limit(&mut self, limits: Limits) -> Vec<Decision> {
        let must_end = self.setup.limits.may_act && !limits.may_act;
        self.setup.limits = limits;
        self.may_restore |= self.setup.limits.may_act;
        if self.seen.host.knobs.is_some() {
            self.guard();
        }
        let mut decisions = Vec::new();
        if must_end {
            decisions = self.end_trials("the pilot may no longer act");
        }
        decisions.extend(self.each(&decisions, Self::watch));
        self.counted(decisions)
    }

    /// Takes over what another program has set: that is the setting found from now on.
    pub fn take_over(&mut self) {
        self.takes_over = true;
        for of in &mut self.setup.memory.targets {
            of.hands_off = false;
        }
    }

    pub fn memory(&self) -> Memory {
        Memory {
            targets: (self.targets.values())
                .map(|target| target.memory(self.now_ns))
                .chain(self.setup.memory.targets.iter().cloned())
                .collect(),
            errors: self.setup.memory.errors.clone(),
        }
    }

    /// An ordinary stop: what is kept stays, and what is only tried goes.
    pub fn stop(&mut self) -> Vec<Decision> {
        let mut decisions = self.end_trials("the pilot stops");
        for target in self.targets.values().filter(|_| self.may_restore) {
            let is_decided = decisions.iter().any(|it| it.scope == target.scope);
            if let Some(owed) = target.owed.filter(|_| !is_decided) {
                decisions.push(target.restore(owed.to, "the pilot stops"));
            }
        }
        self.collecting = None;
        self.counted(decisions)
    }

    fn end_trials(&mut self, why: &str) -> Vec<Decision> {
        self.each(&[], |pilot, target| pilot.end_trial(target, why))
    }

    /// Does something with each target of which nothing has just been decided: one change of a target is made at a time.
    fn each<D: IntoIterator<Item = Decision> + Default>(
        &mut self,
        decided: &[Decision],
        act: impl Fn(&mut Self, &mut Target) -> D,
    ) -> Vec<Decision> {
        let is_free = |scope: &Scope| decided.iter().all(|it| it.scope != *scope);
        let scopes: Vec<Scope> = self.targets.keys().copied().filter(is_free).collect();
        let decide = |scope| self.with_target(scope, &act);
        scopes.into_iter().flat_map(decide).collect()
    }

    /// Does something with a target, which is not among the others meanwhile.
    fn with_target<T: Default>(
        &mut self,
        scope: Scope,
        act: impl FnOnce(&mut Self, &mut Target) -> T,
    ) -> T {
        let Some(mut target) = self.targets.remove(&scope) else {
            return T::default();
        };
        let result = act(self, &mut target);
        self.targets.insert(scope, target);
        result
    }

    /// Goes on with the caller's clock; gives by how much that went on.
    fn advance(&mut self, clock_ns: u64) -> u64 {
        let stood_ns = clock_ns.saturating_sub(self.last_ns.unwrap_or(clock_ns));
        self.last_ns = Some(clock_ns);
        self.now_ns += stood_ns.min(LONGEST_STEP_NS);
        stood_ns
    }

    fn counted(&mut self, decisions: Vec<Decision>) -> Vec<Decision> {
        for decision in &decisions {
            self.decided.count(decision.kind);
            let target = self.targets.get_mut(&decision.scope);
            if let Some(target) = target.filter(|_| !decision.kind.is_period()) {
                target.decided = Some((decision.kind, self.now_ns));
            }
        }
        decisions
    }

    /// Plans the look that is due; a trial has its own periods.
    fn plan(&mut self) {
        if self.on_trial().is_none() {
            self.plan_look(false);
        }
    }

    /// Plans the look that is due and may be taken, if there is one; of all VMs, or of those for which something was set.
    fn plan_look(&mut self, only_held: bool) {
        if self.collecting.is_some() || !self.budget.allows(self.now_ns) {
            return;
        }
        let (members, now_ns) = (&self.members, self.now_ns);
        let targets = self.targets.values().filter(|it| !it.is_left());
        let due = targets.flat_map(|target| {
            let is_held = target.set.is_some();
            let vms = target.observed.members.iter().copied();
            vms.filter_map(move |vm| {
                let due_ns = members.get(&vm)?.due_ns(is_held);
                (due_ns <= now_ns && (is_held || !only_held)).then_some((due_ns, vm))
            })
        });
        let Some((_, vm)) = due.min() else {
            return;
        };
        let most_halts = self.most_halts();
        self.want(Purpose::Look, vec![vm], [0, LOOK_NS], most_halts);
        self.budget.look(self.now_ns);
    }

    /// Facts of these VMs are to be collected, after one time and for another.
    fn want(
        &mut self,
        purpose: Purpose,
        vms: Vec<VmKey>,
        [skip_ns, length_ns]: [u64; 2],
        most_halts: usize,
    ) {
        self.wanted += 1;
        let wanted = Wanted {
            number: self.wanted,
            vms,
            skip_ns,
            length_ns,
            most_halts,
        };
        self.collecting = Some((purpose, wanted));
    }

    /// Total gain of the settings that were put in force, by replay of the settings found.
    fn gained_ns(&self) -> f64 {
        let known = self.targets.values().map(|target| &target.known);
        known.map(|known| known.regret.saved_ns().value).sum()
    }

    pub fn on_trial(&self) -> Option<Scope> {
        let mut targets = self.targets.values();
        Some(targets.find(|it| it.trial().is_some())?.scope)
    }

    fn most_halts(&self) -> usize {
        let of_vm = (HALTS / self.members.len().max(1)).max(OF_VM);
        ((of_vm - TRIED * EXCERPT) / CHUNKS).min(OF_LOOK)
    }

    fn question(&self, target: &Target) -> Question {
        let host = &self.seen.host;
        // CPUs that have to stay free are not available for polling.
        let cpus = f64::from(host.cpus) - guards::free_cpus(host.cpus);
        let idle = host.busy_cpus.map(|busy| 100.0 * (cpus - busy).max(0.0));
        let mut members = target.observed.members_of(&self.members);
        Question {
            scope: target.scope,
            in_force: target.in_force(),
            found: target.found,
            // For several VMs, the goal of the first.
            weight_milli: members.find_map(Member::weight_milli).unwrap_or(0),
            max_poll_cpu_percent: self.may_poll_percent(target),
            idle_cpu_percent: idle,
            max_ceiling_ns: self.setup.limits.max_ceiling_ns,
        }
    }

    /// Polling that a target may do: the limit, less the polling of all others now.
    fn may_poll_percent(&self, target: &Target) -> Option<f64> {
        let is_other = |vm: &VmKey| !target.observed.members.contains(vm);
        let others = self.members.iter().filter(|(vm, _)| is_other(vm));
        let counts = others.filter_map(|(_, member)| member.counts.as_ref());
        let polled: f64 = counts.map(|counts| 100.0 * counts.polled_cpus()).sum();
        let limit = self.setup.limits.max_poll_cpu_percent?;
        Some((limit - polled).max(0.0))
    }

    fn look(&mut self, vm: VmKey, chunk: Option<E::Chunk>) -> Vec<Decision> {
        if let Some(chunk) = &chunk {
            self.setup.evidence.learn(chunk);
        }
        let Some(member) = self.members.get_mut(&vm) else {
            return Vec::new();
        };
        member.looked(chunk, self.now_ns);
        self.each(&[], |pilot, target| {
            let is_its = target.observed.members.contains(&vm);
            // Facts about a target that is to be restored may be of both settings.
            let is_left = target.is_left() || target.owed.is_some();
            if is_left || !is_its || !target.looked() {
                return Vec::new();
            }
            pilot.weigh(target);
            pilot.consider(target)
        })
    }

    fn weigh(&mut self, target: &mut Target) {
        let question = self.question(target);
        let facts = facts_of(&self.members, target);
        target.answer = self.setup.evidence.weigh(&facts, &question);
        target.is_new = true;
        if target.answer.is_none() {
            "its halts do not say what a wake-up costs: no sleep was recorded, and no calibration was given"
                .clone_into(&mut target.why);
        }
    }

    pub(super) fn errors(&self) -> Errors {
        self.setup.proofs.and(&self.setup.memory.errors)
    }
}

fn facts_of<'a, C>(
    members: &'a BTreeMap<VmKey, Member<C>>,
    target: &'a Target,
) -> Vec<OfVm<'a, C>> {
    let members = target.observed.members_of(members);
    let members = members.filter(|member| !member.chunks.is_empty());
    // Each VM is there for as long as the others, so that none counts for more than it halts.
    let fewest = members.clone().map(|it| it.chunks.len()).min().unwrap_or(0);
    members
        .map(|member| {
            let earlier = member.chunks.len() - fewest;
            member.facts(member.chunks.iter().skip(earlier).collect())
        })
        .collect()
}
