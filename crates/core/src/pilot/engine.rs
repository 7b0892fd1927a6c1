//! The pilot: readings and facts in, decisions out.
//!
//! | file | holds |
//! |---|---|
//! | `readings` | who is there, what is in force, and whether somebody else has set it |
//! | `consider` | what to do about each target, and what keeps from it |
//! | `periods` | trials, period by period |
//!
//! It has a clock of its own, which goes on by what the caller's does and by no more than a minute at a time: no step
//! of a clock is time in which nothing was seen.

mod consider;
mod periods;
mod readings;

use std::collections::{BTreeMap, BTreeSet};

use super::budget::Budget;
use super::decision::{Change, Decision, Kind, Refusal, Wanted};
use super::errors::Errors;
use super::evidence::{EXCERPT, Evidence, OfVm, Question};
use super::goals::Limits;
use super::guards::{self, Standing};
use super::input::{Scope, Seen};
use super::member::{CHUNKS, Member, TRIED};
use super::memory::{Memory, OfTarget};
use super::unit::Unit;
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

/// What is specified once.
#[derive(Debug)]
pub struct Setup<E> {
    /// Whoever answers from facts.
    pub evidence: E,
    /// The kernel's rule.
    pub rule: Rule,
    /// What it may do.
    pub limits: Limits,
    /// What it knew when it last ran.
    pub memory: Memory,
    /// How far predictions were off in earlier proofs on this host.
    pub proofs: Errors,
    /// CPU time that recording adds to a halt, in nanoseconds.
    pub recording_ns_per_halt: f64,
    /// Draws the order of periods.
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Purpose {
    Look,
    Period(Scope),
}

#[derive(Debug)]
pub struct Pilot<E: Evidence> {
    evidence: E,
    rule: Rule,
    limits: Limits,
    /// What earlier runs knew of targets that have no unit so far.
    earlier: Vec<OfTarget>,
    /// Of proofs, and of trials of its own.
    proofs: Errors,
    errors: Errors,
    recording_ns_per_halt: f64,
    seed: u64,
    trials: u64,
    last_ns: Option<u64>,
    now_ns: u64,
    seen: Seen,
    members: BTreeMap<VmKey, Member<E::Chunk>>,
    units: BTreeMap<Scope, Unit>,
    guards: Vec<Standing>,
    /// When the last two readings with counts were taken: they are of the time between.
    counted_ns: [u64; 2],
    /// CPU pressure of the last three readings with counts, where it is known.
    pressures: [Option<f64>; 3],
    /// When anything was set last.
    changed_ns: u64,
    budget: Budget,
    collecting: Option<(Purpose, Wanted)>,
    wanted: u64,
    decided: BTreeMap<Kind, u64>,
    failed: u64,
    dropped: u64,
    /// It was allowed to act at some time since it started: then it also restores.
    may_restore: bool,
    takes_over: bool,
}

impl<E: Evidence> Pilot<E> {
    /// Before the first reading.
    pub fn new(setup: Setup<E>) -> Self {
        Self {
            evidence: setup.evidence,
            rule: setup.rule,
            may_restore: setup.limits.may_act,
            takes_over: false,
            limits: setup.limits,
            proofs: setup.proofs,
            errors: setup.memory.errors,
            earlier: setup.memory.targets,
            recording_ns_per_halt: setup.recording_ns_per_halt,
            seed: setup.seed,
            trials: 0,
            last_ns: None,
            now_ns: BEGIN_NS,
            seen: Seen::default(),
            members: BTreeMap::new(),
            units: BTreeMap::new(),
            guards: Vec::new(),
            counted_ns: [0; 2],
            pressures: [None; 3],
            changed_ns: 0,
            budget: Budget::default(),
            collecting: None,
            wanted: 0,
            decided: BTreeMap::new(),
            failed: 0,
            dropped: 0,
        }
    }

    /// Takes a reading in, at a time of a clock that goes on while the machine runs.
    pub fn step(&mut self, clock_ns: u64, seen: Seen) -> Vec<Decision> {
        let stood_ns = self.advance(clock_ns);
        let is_on_trial = self.is_on_trial();
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
        let scopes: Vec<Scope> = self.units.keys().copied().collect();
        for scope in scopes {
            // One change of a target at a time: what has just been decided is not made yet.
            if !decisions.iter().any(|decision| decision.scope == scope) {
                decisions.extend(self.consider(scope));
            }
        }
        // The look that a trial has waited for may have been dropped.
        decisions.extend(self.go_on(&decisions));
        self.plan();
        self.count(&decisions);
        decisions
    }

    /// The facts that were wanted, VM by VM; nothing of a VM where they could not be had.
    pub fn facts(&mut self, clock_ns: u64, facts: Vec<(VmKey, Option<E::Chunk>)>) -> Vec<Decision> {
        self.advance(clock_ns);
        let Some((purpose, _)) = self.collecting.take() else {
            return Vec::new();
        };
        let decisions = match purpose {
            Purpose::Look => self.look(facts),
            Purpose::Period(scope) => self.period_is_over(scope, facts),
        };
        self.plan();
        self.count(&decisions);
        decisions
    }

    /// What came of a change.
    pub fn made(
        &mut self,
        clock_ns: u64,
        decision: &Decision,
        made: Result<(), Refusal>,
    ) -> Vec<Decision> {
        self.advance(clock_ns);
        let decisions = match made {
            Ok(()) => self.is_made(decision),
            Err(refusal) => self.is_refused(decision, refusal),
        };
        self.plan();
        self.count(&decisions);
        decisions
    }

    /// The facts that are to be collected now.
    pub fn wanted(&self) -> Option<&Wanted> {
        self.collecting.as_ref().map(|(_, wanted)| wanted)
    }

    /// Other limits hold from now on. Where it may no longer act, trials end; what is on trial, or was set, and is no longer
    /// within the limits goes.
    pub fn limit(&mut self, limits: Limits) -> Vec<Decision> {
        let must_end = self.limits.may_act && !limits.may_act;
        self.limits = limits;
        self.may_restore |= self.limits.may_act;
        if self.seen.host.knobs.is_some() {
            self.guard();
        }
        let mut decisions = Vec::new();
        if must_end {
            decisions = self.end_trials("the pilot may no longer act");
        }
        for scope in self.units.keys().copied().collect::<Vec<_>>() {
            if !decisions.iter().any(|decision| decision.scope == scope) {
                decisions.extend(self.watch(scope));
            }
        }
        self.count(&decisions);
        decisions
    }

    /// Takes over what somebody else has set: that is what is found from now on.
    pub fn take_over(&mut self) {
        self.takes_over = true;
        for of in &mut self.earlier {
            of.hands_off = false;
        }
    }

    /// What is to be known after a restart.
    pub fn memory(&self) -> Memory {
        Memory {
            targets: (self.units.values())
                .map(|unit| unit.memory(self.now_ns))
                .chain(self.earlier.iter().cloned())
                .collect(),
            errors: self.errors.clone(),
        }
    }

    /// An ordinary stop: what is kept stays, and what is only tried goes.
    pub fn stop(&mut self) -> Vec<Decision> {
        let mut decisions = self.end_trials("the pilot stops");
        let owed = self.units.values();
        let owed = owed.filter_map(|unit| Some((unit.scope, unit.owed?)));
        for (scope, to) in owed.collect::<Vec<_>>() {
            let is_decided = decisions.iter().any(|decision| decision.scope == scope);
            if self.may_restore && !is_decided {
                let why = "the pilot stops".to_owned();
                decisions.push(self.restore(scope, to, Kind::Restore, why));
            }
        }
        self.collecting = None;
        self.count(&decisions);
        decisions
    }

    fn end_trials(&mut self, why: &str) -> Vec<Decision> {
        let scopes: Vec<Scope> = self.units.keys().copied().collect();
        let end = |scope| self.end_trial(scope, why);
        scopes.into_iter().flat_map(end).collect()
    }

    /// Goes on with the caller's clock; gives by how much that went on.
    fn advance(&mut self, clock_ns: u64) -> u64 {
        let stood_ns = clock_ns.saturating_sub(self.last_ns.unwrap_or(clock_ns));
        self.last_ns = Some(clock_ns);
        self.now_ns += stood_ns.min(LONGEST_STEP_NS);
        stood_ns
    }

    fn count(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            *self.decided.entry(decision.kind).or_default() += 1;
            let unit = self.units.get_mut(&decision.scope);
            if let Some(unit) = unit.filter(|_| !decision.kind.is_period()) {
                unit.decided = Some((decision.kind, self.now_ns));
            }
        }
    }

    /// Plans the look that is due; a trial has its own periods.
    fn plan(&mut self) {
        if !self.is_on_trial() {
            self.plan_look(false);
        }
    }

    /// Plans the look that is due and may be taken, if there is one; of all VMs, or of those for which something was set.
    fn plan_look(&mut self, only_held: bool) {
        if self.collecting.is_some() || !self.budget.allows(self.now_ns) {
            return;
        }
        let units = || self.units.values().filter(|unit| !unit.is_excluded);
        let held: BTreeSet<VmKey> = (units().filter(|unit| unit.set.is_some()))
            .flat_map(|unit| unit.members.iter().copied())
            .collect();
        let all = units().flat_map(|unit| unit.members.iter().copied());
        let due = all.filter_map(|vm| {
            let is_held = held.contains(&vm);
            let due_ns = self.members.get(&vm)?.due_ns(is_held);
            (due_ns <= self.now_ns && (is_held || !only_held)).then_some((due_ns, vm))
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

    /// What the settings that were put in force have gained in all, by replay of those found.
    fn gained_ns(&self) -> f64 {
        let units = self.units.values();
        units.map(|unit| unit.regret.saved_ns().value).sum()
    }

    fn is_on_trial(&self) -> bool {
        self.units.values().any(|unit| unit.trial().is_some())
    }

    fn most_halts(&self) -> usize {
        let of_vm = (HALTS / self.members.len().max(1)).max(OF_VM);
        ((of_vm - TRIED * EXCERPT) / CHUNKS).min(OF_LOOK)
    }

    fn question(&self, unit: &Unit) -> Question {
        let host = &self.seen.host;
        // What has to stay free is not there to be polled on.
        let cpus = f64::from(host.cpus) - guards::free_cpus(host.cpus);
        let idle = host.busy_cpus.map(|busy| 100.0 * (cpus - busy).max(0.0));
        Question {
            scope: unit.scope,
            in_force: unit.in_force(),
            found: unit.found,
            weight_milli: self.weight_milli(unit),
            max_poll_cpu_percent: self.may_poll_percent(unit),
            idle_cpu_percent: idle,
            max_ceiling_ns: self.limits.max_ceiling_ns,
        }
    }

    /// What a target may poll: the limit, less what all others poll now.
    fn may_poll_percent(&self, unit: &Unit) -> Option<f64> {
        let others = self
            .members
            .iter()
            .filter(|(vm, _)| !unit.members.contains(vm));
        let counts = others.filter_map(|(_, member)| member.counts.as_ref());
        let polled: f64 = counts.map(|counts| 100.0 * counts.polled_cpus()).sum();
        let limit = self.limits.max_poll_cpu_percent?;
        Some((limit - polled).max(0.0))
    }

    /// Of a VM its goal's, of several that of the first.
    fn weight_milli(&self, unit: &Unit) -> u64 {
        let mut goals = unit
            .members
            .iter()
            .filter_map(|vm| self.members.get(vm)?.seen.goal.as_ref());
        goals.next().map_or(0, |goal| goal.weight_milli)
    }

    fn look(&mut self, facts: Vec<(VmKey, Option<E::Chunk>)>) -> Vec<Decision> {
        let mut looked = BTreeSet::new();
        for (vm, chunk) in facts {
            if let Some(chunk) = &chunk {
                self.evidence.learn(chunk);
            }
            if let Some(member) = self.members.get_mut(&vm) {
                member.looked(chunk, self.now_ns);
                looked.insert(vm);
            }
        }
        let units = self.units.values_mut();
        let due = units.filter_map(|unit| {
            let is_looked = unit.members.iter().any(|vm| looked.contains(vm));
            (!unit.is_excluded && is_looked && unit.looked()).then_some(unit.scope)
        });
        let scopes: Vec<Scope> = due.collect();
        let mut decisions = Vec::new();
        for scope in scopes {
            self.weigh(scope);
            decisions.extend(self.consider(scope));
        }
        decisions.extend(self.go_on(&decisions));
        decisions
    }

    fn weigh(&mut self, scope: Scope) {
        let Some(unit) = self.units.remove(&scope) else {
            return;
        };
        let question = self.question(&unit);
        let answer = self
            .evidence
            .weigh(&facts_of(&self.members, &unit), &question);
        let mut unit = unit;
        unit.is_new = true;
        if answer.is_none() {
            "its halts do not say what a wake-up costs: no sleep was recorded, and no calibration was given"
                .clone_into(&mut unit.why);
        }
        if let Some(answer) = &answer {
            unit.more_poll_percent = answer.more_poll_than_found_percent;
        }
        unit.answer = answer;
        self.units.insert(scope, unit);
    }

    pub(super) fn members(&self) -> &BTreeMap<VmKey, Member<E::Chunk>> {
        &self.members
    }

    pub(super) fn units(&self) -> &BTreeMap<Scope, Unit> {
        &self.units
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(super) fn guards(&self) -> &[Standing] {
        &self.guards
    }

    pub(super) fn decided(&self) -> &BTreeMap<Kind, u64> {
        &self.decided
    }

    pub(super) fn errors(&self) -> Errors {
        self.proofs.and(&self.errors)
    }

    pub(super) fn proofs(&self) -> usize {
        self.proofs.count()
    }

    pub(super) fn trials(&self) -> usize {
        self.errors.count()
    }

    pub(super) fn may_act(&self) -> bool {
        self.limits.may_act
    }

    pub(super) fn may_restore(&self) -> bool {
        self.may_restore
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn change_to(unit: &Unit, to: crate::kvm::Knobs) -> Change {
        Change {
            from: unit.in_force(),
            to,
            is_unsure: unit.failing.is_unsure,
        }
    }
}

fn facts_of<'a, C>(members: &'a BTreeMap<VmKey, Member<C>>, unit: &Unit) -> Vec<OfVm<'a, C>> {
    let members = unit.members.iter().filter_map(|vm| members.get(vm));
    let members = members.filter(|member| !member.chunks.is_empty());
    // Each VM is there for as long as the others, so that none counts for more than it halts.
    let fewest = members.clone().map(|it| it.chunks.len()).min().unwrap_or(0);
    members
        .map(|member| OfVm {
            weight_milli: member
                .seen
                .goal
                .as_ref()
                .map_or(0, |goal| goal.weight_milli),
            vcpus: member.seen.vcpus,
            chunks: member.chunks.iter().rev().take(fewest).rev().collect(),
            tried: member.tried.iter().flatten().collect(),
        })
        .collect()
}
