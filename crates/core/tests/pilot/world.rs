//! A host with its VMs, the journal, and a pilot whose decisions are held to the laws. Nothing befalls it but what a
//! test does.

use std::collections::VecDeque;

use haltwise_core::ids::{Pid, VmKey};
use haltwise_core::kvm::{Arch, Rule, Version};
use haltwise_core::pilot::decision::{Decision, Kind, Refusal, Wanted};
use haltwise_core::pilot::errors::Errors;
use haltwise_core::pilot::input::{Ceiling, Held, HostSeen, Pressure, Scope, Seen, VmSeen};
use haltwise_core::pilot::memory::Memory;
use haltwise_core::pilot::standing::OfVm;
use haltwise_core::pilot::{Goal, Limits, Pilot, Setup};
use haltwise_core::workload::SplitMix64;

use super::journal::Machine;
use super::law::{Costs, Laws};
use super::model::{Chunk, Load, Modelled, knobs};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const STEP: u64 = 10 * SECOND;

pub(crate) const FOUND_NS: u32 = 200_000;
pub(crate) const FOUND: Ceiling = Ceiling::Own(FOUND_NS);
pub(crate) const OFF: Ceiling = Ceiling::Own(0);

/// Others want the CPUs, and do not.
pub(crate) const PRESSED: Pressure = Pressure::Share(0.2);
pub(crate) const FREE: Pressure = Pressure::Share(0.19);

pub(crate) fn acts() -> Limits {
    Limits {
        may_act: true,
        ..Limits::default()
    }
}

pub(crate) fn density() -> Goal {
    Goal {
        name: "density".to_owned(),
        weight_milli: 0,
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Event {
    Look(VmKey),
    Decided(Scope, Kind),
}

pub(crate) fn decided(vm: VmKey, kind: Kind) -> Event {
    Event::Decided(Scope::Vm(vm), kind)
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Made,
    Refused(Refusal),
    /// It is made, and that cannot be recorded.
    MadeAndRefused(Refusal),
    /// The daemon dies over it, before or after it is made.
    Dies {
        is_made: bool,
    },
}

pub(crate) fn full() -> Answer {
    Answer::Refused(Refusal::Failed("no space left on device".to_owned()))
}

pub(crate) struct Vm {
    pub(crate) key: VmKey,
    pub(crate) load: Load,
    /// `None`: the pilot is to leave it alone.
    pub(crate) goal: Option<Goal>,
    pub(crate) polls_itself: bool,
    /// Its VMM does not answer.
    pub(crate) is_silent: bool,
    /// None of its halts are counted or recorded.
    pub(crate) stands_still: bool,
    pub(crate) came_ns: u64,
    /// The ceiling that counts as found: while it follows the parameter, what that would be without the pilot.
    pub(crate) found_ns: u32,
    /// While it has a ceiling of its own.
    pub(crate) costs: Costs,
}

pub(crate) struct World {
    pub(crate) now: u64,
    /// The clock that the pilot is given.
    pub(crate) clock: u64,
    pub(crate) vms: Vec<Vm>,
    came: u32,
    pub(crate) machine: Machine,
    /// The rest of what is read of the host.
    pub(crate) state: HostSeen,
    pub(crate) pilot: Pilot<Modelled>,
    pub(crate) is_dead: bool,
    /// The pilot's memory as it was saved last.
    pub(crate) disk: Memory,
    pub(crate) laws: Laws,
    /// Result of each change that is to be made.
    pub(crate) answers: Box<dyn FnMut(&Decision) -> Answer>,
    /// Varies counts and costs, where they vary.
    pub(crate) noise: Option<SplitMix64>,
    /// One reading of a thousand is not true.
    pub(crate) lies: bool,
    /// Looks hold as many halts as were wanted, not one.
    pub(crate) is_full: bool,
    /// CPU time that a look takes.
    pub(crate) look_ns: u64,
    /// Recording in progress, and the time at which the recording ends.
    recording: Option<(Wanted, u64)>,
    pub(crate) events: Vec<(u64, Event)>,
}

fn pilot(evidence: Modelled, limits: Limits, memory: Memory, seed: u64) -> Pilot<Modelled> {
    Pilot::new(Setup {
        evidence,
        rule: Rule::of(Version::new(6, 12), Arch::X86),
        limits,
        memory,
        proofs: Errors::default(),
        seed,
    })
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Modelled::wrong_by(0.0, 1))
    }

    pub(crate) fn with(evidence: Modelled) -> Self {
        Self {
            now: 0,
            clock: 0,
            vms: Vec::new(),
            came: 0,
            machine: Machine::new(),
            state: HostSeen {
                is_writable: true,
                cpus: 64,
                busy_cpus: Some(2.0),
                cpu_pressure: Pressure::Share(0.01),
                ..HostSeen::default()
            },
            pilot: pilot(evidence, acts(), Memory::default(), 1),
            is_dead: false,
            disk: Memory::default(),
            laws: Laws::of(acts()),
            answers: Box::new(|_| Answer::Made),
            noise: None,
            lies: false,
            is_full: false,
            look_ns: 0,
            recording: None,
            events: Vec::new(),
        }
    }

    /// The pilot begins again with what it knew.
    pub(crate) fn restarts(&mut self) {
        self.disk = self.pilot.memory();
        self.starts(Modelled::wrong_by(0.0, 2), acts(), 2);
    }

    pub(crate) fn starts(&mut self, evidence: Modelled, limits: Limits, seed: u64) {
        self.laws.limits = limits.clone();
        self.pilot = pilot(evidence, limits, self.disk.clone(), seed);
        (self.recording, self.is_dead) = (None, false);
        self.state.own_cpu_ns = 0;
    }

    pub(crate) fn comes(&mut self, load: Load, ceiling: Ceiling) -> VmKey {
        let pid = 100 + self.came;
        self.came += 1;
        let key = VmKey::first(Pid(pid), u64::from(pid));
        self.machine.comes(Scope::Vm(key), ceiling);
        self.vms.push(Vm {
            key,
            load,
            goal: Some(Goal::default()),
            polls_itself: false,
            is_silent: false,
            stands_still: false,
            came_ns: self.now,
            found_ns: self.machine.without(Scope::Vm(key)),
            costs: Costs::default(),
        });
        key
    }

    pub(crate) fn goes(&mut self, key: VmKey) {
        let at = self.vms.iter().position(|vm| vm.key == key).unwrap();
        let vm = self.vms.remove(at);
        self.laws.ended(&vm, self.now);
        self.machine.goes(Scope::Vm(key));
    }

    pub(crate) fn vm(&mut self, key: VmKey) -> &mut Vm {
        self.vms.iter_mut().find(|vm| vm.key == key).unwrap()
    }

    pub(crate) fn ceiling(&self, key: VmKey) -> Ceiling {
        self.machine.ceiling(Scope::Vm(key))
    }

    /// A number near 1, where anything varies.
    fn about_one(&mut self, reach: f64) -> f64 {
        let draw = self.noise.as_mut();
        draw.map_or(1.0, |draw| 1.0 + reach * (2.0 * draw.unit() - 1.0))
    }

    fn seen(&mut self, counted: bool) -> Seen {
        let count = self.vms.len();
        let seen = |at: usize| {
            let (times, vm) = (self.about_one(0.05), &self.vms[at]);
            let (scope, key) = (Scope::Vm(vm.key), vm.key);
            let mut counts = vm.load.counts(self.machine.in_force(scope), STEP, times);
            if self.lies
                && self
                    .noise
                    .as_mut()
                    .is_some_and(|draw| draw.below(1_000) == 0)
            {
                counts.halts = u64::MAX / 2;
            }
            VmSeen {
                key,
                name: format!("vm-{}", key.pid),
                vcpus: 1,
                goal: vm.goal.clone(),
                ceiling: self.machine.ceiling(scope),
                held: self.machine.held(scope),
                has_answered: !vm.is_silent,
                polls_itself: vm.polls_itself,
                counts: (counted && !vm.stands_still).then_some(counts),
            }
        };
        let vms = (0..count).map(seen).collect();
        let held = self.machine.held(Scope::Host).map(|held| Held {
            before: knobs(held.before),
            ours: knobs(held.ours),
        });
        let host = HostSeen {
            knobs: Some(knobs(self.machine.param_ns())),
            held,
            ..self.state.clone()
        };
        let seen = Seen { host, vms, counted };
        self.laws.seen = seen.clone();
        seen
    }

    /// The pilot reads what is there now.
    pub(crate) fn reads(&mut self) {
        self.reads_with(true);
    }

    pub(crate) fn reads_with(&mut self, counted: bool) {
        if self.is_dead {
            return;
        }
        let seen = self.seen(counted);
        let decisions = self.pilot.step(self.clock, seen);
        self.carry_out(decisions);
        if !self.is_dead {
            self.laws.after_a_reading(&self.vms, &self.machine);
        }
    }

    pub(crate) fn limit(&mut self, limits: Limits) {
        self.laws.limits = limits.clone();
        if !self.is_dead {
            let decisions = self.pilot.limit(limits);
            self.carry_out(decisions);
        }
    }

    /// Makes the changes that were decided, one after the other, for as long as the daemon lives.
    pub(crate) fn carry_out(&mut self, decisions: Vec<Decision>) {
        let mut decisions = VecDeque::from(decisions);
        while let Some(decision) = decisions.pop_front() {
            let event = Event::Decided(decision.scope, decision.kind);
            self.events.push((self.now, event));
            self.save_with(&decision);
            self.laws.decided(&decision, &self.machine);
            if !decision.is_made {
                continue;
            }
            let Some(made) = self.make(&decision) else {
                return self.dies();
            };
            decisions.extend(self.pilot.made(self.clock, &decision, made));
            self.save_with(&decision);
        }
        self.machine.is_known();
        self.collect();
    }

    /// The daemon is killed; an undo after that finds everything as it was.
    pub(crate) fn dies(&mut self) {
        self.is_dead = true;
        self.laws.dies();
        self.machine.can_be_undone();
    }

    fn save_with(&mut self, decision: &Decision) {
        if !decision.kind.is_period() {
            self.disk = self.pilot.memory();
        }
    }

    /// `None`: the daemon died over it.
    fn make(&mut self, decision: &Decision) -> Option<Result<(), Refusal>> {
        let scope = decision.scope;
        if matches!(scope, Scope::Vm(key) if self.vms.iter().all(|vm| vm.key != key)) {
            return Some(Err(Refusal::Ended));
        }
        let answer = (self.answers)(decision);
        if answer == (Answer::Dies { is_made: false }) {
            return None;
        }
        if let Answer::Refused(refusal) = answer {
            if refusal == Refusal::Ended {
                // It can no longer be set.
                self.machine.comes(scope, Ceiling::Fixed);
            }
            self.laws.refused(scope);
            return Some(Err(refusal));
        }
        let change = decision.change.expect("what is made has a change");
        if let Err(refusal) = self.machine.set(scope, &change) {
            return Some(Err(refusal));
        }
        self.laws.made(decision, self.now);
        match answer {
            Answer::Dies { .. } => None,
            Answer::MadeAndRefused(refusal) => {
                self.laws.refused(scope);
                Some(Err(refusal))
            }
            _ => Some(Ok(())),
        }
    }

    /// Begins to record what is wanted, unless that is being recorded.
    fn collect(&mut self) {
        let wanted = self.pilot.wanted();
        if self.recording.as_ref().map(|(of, _)| of) != wanted {
            let until = |of: &Wanted| self.now + of.skip_ns + of.length_ns;
            self.recording = wanted.map(|of| (of.clone(), until(of)));
        }
    }

    fn recorded(&mut self, wanted: &Wanted) -> Vec<(VmKey, Option<Chunk>)> {
        let noise = self.about_one(0.03);
        let chunk = |key: &VmKey| {
            let vm = self
                .vms
                .iter()
                .find(|vm| vm.key == *key && !vm.stands_still);
            let chunk = vm.map(|vm| Chunk {
                load: vm.load,
                ceiling_ns: self.machine.in_force(Scope::Vm(*key)),
                span_ns: wanted.length_ns,
                noise,
                halts: if self.is_full { wanted.most_halts } else { 1 },
            });
            (*key, chunk)
        };
        wanted.vms.iter().map(chunk).collect()
    }

    /// Lets time pass until a recording or an interval is over; gives whether an interval is.
    pub(crate) fn turn(&mut self) -> bool {
        let step = (self.now / STEP + 1) * STEP;
        let recording = self.recording.as_ref().filter(|_| !self.is_dead);
        let until = recording.map_or(step, |(_, until)| step.min(*until));
        let ns = until - self.now;
        (self.now, self.clock) = (until, self.clock + ns);
        self.laws.pass(ns, &mut self.vms, &self.machine);
        let is_over = |(_, until): &mut (Wanted, u64)| *until == self.now;
        if let Some((wanted, _)) = self.recording.take_if(is_over).filter(|_| !self.is_dead) {
            self.state.own_cpu_ns += self.look_ns;
            if wanted.skip_ns == 0 {
                self.events.push((self.now, Event::Look(wanted.vms[0])));
            }
            let facts = self.recorded(&wanted);
            let decisions = self.pilot.facts(self.clock, facts);
            self.carry_out(decisions);
        }
        self.now.is_multiple_of(STEP)
    }

    pub(crate) fn pass(&mut self, steps: u64) {
        let end = self.now + steps * STEP;
        while self.now < end {
            if self.turn() {
                self.reads();
            }
        }
    }

    /// Lets time pass until this happens; gives when it did.
    pub(crate) fn until(&mut self, event: Event) -> u64 {
        let from = self.events.len();
        for _ in 0..1_000 {
            self.pass(1);
            let since = &self.events[from..];
            if let Some((at, _)) = since.iter().find(|(_, it)| *it == event) {
                return *at;
            }
        }
        panic!("{event:?} does not happen: {:?}", &self.events[from..]);
    }

    /// Lets time pass until that was decided of a VM, if it was not before.
    pub(crate) fn comes_to(&mut self, vm: VmKey, kind: Kind) {
        if !self.is_any(vm, &[kind]) {
            self.until(decided(vm, kind));
        }
    }

    pub(crate) fn count(&self, is_it: impl Fn(Event) -> bool) -> usize {
        self.events
            .iter()
            .filter(|(_, event)| is_it(*event))
            .count()
    }

    pub(crate) fn decisions(&self, kind: Kind) -> usize {
        self.count(|event| matches!(event, Event::Decided(_, of) if of == kind))
    }

    /// Whether one of these kinds was decided of that VM.
    pub(crate) fn is_any(&self, vm: VmKey, kinds: &[Kind]) -> bool {
        self.count(|event| kinds.iter().any(|kind| event == decided(vm, *kind))) > 0
    }

    /// The pilot's report on a VM.
    pub(crate) fn standing(&self, vm: VmKey) -> OfVm {
        let mut vms = self.pilot.standing().vms.into_iter();
        vms.find(|of| of.seen.key == vm).unwrap()
    }

    /// Polling of all VMs, in % of a CPU.
    pub(crate) fn polled_percent(&self) -> f64 {
        let polled = |vm: &Vm| {
            let in_force = self.machine.in_force(Scope::Vm(vm.key));
            100.0 * vm.load.polled_cpus(in_force)
        };
        self.vms.iter().map(polled).sum()
    }
}
