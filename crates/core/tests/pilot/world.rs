//! A host with its VMs and a pilot at work. Nothing happens to them but by a test, and each decision has to keep the
//! laws.

use std::collections::VecDeque;

use haltwise_core::ids::{Pid, VmKey};
use haltwise_core::kvm::{Arch, Knobs, Rule, Version};
use haltwise_core::pilot::decision::{Decision, Kind, Refusal, Wanted};
use haltwise_core::pilot::input::{Ceiling, Held, HostSeen, Pressure, Scope, Seen, VmSeen};
use haltwise_core::pilot::memory::{Errors, Memory};
use haltwise_core::pilot::standing::PilotVm;
use haltwise_core::pilot::{Goal, Limits, Pilot, Setup};
use haltwise_core::workload::SplitMix64;

use super::laws::{Costs, Laws};
use super::load::{Chunk, Load, READINGS, Replays};
use super::settings::{FOUND, Settings};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const STEP: u64 = 10 * SECOND;
pub(crate) const HOUR: u64 = 3_600 * SECOND;

pub(crate) const OWN: Ceiling = Ceiling::Own(FOUND);
pub(crate) const OFF: Ceiling = Ceiling::Own(0);

/// Other tasks want the CPUs, and do not.
pub(crate) const PRESSED: Pressure = Pressure::Share(0.2);
pub(crate) const FREE: Pressure = Pressure::Share(0.19);

pub(crate) fn acts() -> Limits {
    let may_act = true;
    Limits {
        may_act,
        ..Limits::default()
    }
}

pub(crate) fn density() -> Goal {
    let name = "density".to_owned();
    Goal {
        name,
        weight_milli: 0,
    }
}

/// Whether a change is made, and its result: an error also where the journal cannot record it. `None`: the daemon dies over it.
pub(crate) type Answer = (bool, Option<Result<(), Refusal>>);

type Answers = Box<dyn FnMut(&Decision) -> Answer>;

pub(crate) fn full(_: &Decision) -> Answer {
    let why = "no space left on device".to_owned();
    (false, Some(Err(Refusal::Failed(why))))
}

pub(crate) fn restores_nothing(decision: &Decision) -> Answer {
    if decision.kind.restores() {
        full(decision)
    } else {
        (true, Some(Ok(())))
    }
}

pub(crate) struct Vm {
    /// Its readings, less its ceiling and its counts.
    pub(crate) seen: VmSeen,
    pub(crate) load: Load,
    /// None of its halts are counted or recorded.
    pub(crate) is_blind: bool,
    pub(crate) came_ns: u64,
    /// The ceiling that counts as found.
    pub(crate) found_ns: u32,
    /// While it has a ceiling of its own.
    pub(crate) costs: Costs,
}

impl Vm {
    pub(crate) fn scope(&self) -> Scope {
        Scope::Vm(self.seen.key)
    }
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) now: u64,
    /// How far the pilot's clock is ahead.
    pub(crate) ahead: u64,
    pub(crate) vms: Vec<Vm>,
    came: u32,
    pub(crate) settings: Settings,
    /// Readings of the host; its ceiling is in `settings`.
    pub(crate) host: HostSeen,
    /// The last reading.
    pub(crate) read: Seen,
    pub(crate) limits: Limits,
    /// `None`: it is dead.
    pub(crate) pilot: Option<Pilot<Replays>>,
    /// The pilot was allowed to act at some time since it started.
    pub(crate) may_restore: bool,
    /// The memory as it was saved last.
    pub(crate) disk: Memory,
    pub(crate) laws: Laws,
    /// Whether a change is made, and its result; `None`: it is made.
    pub(crate) answers: Option<Answers>,
    /// Varies counts and costs, where they vary; one reading of a thousand is impossible then.
    pub(crate) noise: Option<SplitMix64>,
    /// CPU time that a look takes.
    pub(crate) look_ns: u64,
    recording: Option<(Wanted, u64)>,
    pub(crate) looks: Vec<Scope>,
    pub(crate) decisions: Vec<(u64, Scope, Kind)>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(FOUND, Replays::wrong_by(0.0, 1))
    }

    pub(crate) fn with(param: u32, evidence: Replays) -> Self {
        let host = HostSeen {
            knobs: Some(Knobs::defaults(Version::new(6, 12), Arch::X86)),
            is_writable: true,
            cpus: 64,
            busy_cpus: Some(2.0),
            cpu_pressure: Pressure::Share(0.01),
            ..HostSeen::default()
        };
        let mut world = Self {
            host,
            limits: acts(),
            ..Self::default()
        };
        world.settings.comes(Scope::Host, Ceiling::Own(param));
        world.starts(evidence, 1);
        world
    }

    /// The pilot stops without a word, and starts with its memory.
    pub(crate) fn restarts(&mut self) {
        self.disk = self.pilot().memory();
        self.starts(Replays::wrong_by(0.0, 2), 2);
    }

    pub(crate) fn starts(&mut self, evidence: Replays, seed: u64) {
        self.pilot = Some(Pilot::new(Setup {
            evidence,
            rule: Rule::of(Version::new(6, 12), Arch::X86),
            limits: self.limits.clone(),
            memory: self.disk.clone(),
            proofs: Errors::default(),
            seed,
        }));
        self.recording = None;
        self.may_restore = self.limits.may_act;
        self.host.own_cpu_ns = 0;
    }

    pub(crate) fn pilot(&mut self) -> &mut Pilot<Replays> {
        self.pilot.as_mut().unwrap()
    }

    pub(crate) fn comes(&mut self, load: Load, ceiling: Ceiling) -> Scope {
        let pid = 100 + self.came;
        self.came += 1;
        let key = VmKey::first(Pid(pid), u64::from(pid));
        let goal = Some(Goal::default());
        let seen = VmSeen {
            key,
            vcpus: 1,
            goal,
            has_answered: true,
            ..VmSeen::default()
        };
        self.settings.comes(Scope::Vm(key), ceiling);
        self.vms.push(Vm {
            seen,
            load,
            is_blind: false,
            came_ns: self.now,
            found_ns: self.settings.without(Scope::Vm(key)),
            costs: Costs::default(),
        });
        Scope::Vm(key)
    }

    pub(crate) fn goes(&mut self, vm: Scope) {
        let at = self.vms.iter().position(|it| it.scope() == vm).unwrap();
        let gone = self.vms.remove(at);
        self.ended(&gone);
        self.settings.0.remove(&vm);
    }

    pub(crate) fn vm(&mut self, vm: Scope) -> &mut Vm {
        self.vms.iter_mut().find(|it| it.scope() == vm).unwrap()
    }

    pub(crate) fn at(&self, scope: Scope) -> u32 {
        self.settings.in_force(scope)
    }

    fn knobs(&self, halt_poll_ns: u32) -> Knobs {
        Knobs {
            halt_poll_ns,
            ..self.host.knobs.unwrap()
        }
    }

    /// Another program sets a parameter beside `halt_poll_ns`.
    pub(crate) fn grow_is_set_by_another(&mut self) {
        self.host.knobs.as_mut().unwrap().grow += 1;
        self.settings.get(Scope::Host).is_theirs = true;
    }

    /// A number near 1, where anything varies.
    fn about_one(&mut self, reach: f64) -> f64 {
        let draw = self.noise.as_mut();
        draw.map_or(1.0, |draw| 1.0 + reach * (2.0 * draw.unit() - 1.0))
    }

    /// The pilot reads the machine now.
    pub(crate) fn reads(&mut self) {
        self.reads_with(true);
    }

    pub(crate) fn reads_with(&mut self, counted: bool) {
        READINGS.set(READINGS.get() + 1);
        let mut vms = Vec::new();
        for at in 0..self.vms.len() {
            let times = self.about_one(0.05);
            let is_impossible = self
                .noise
                .as_mut()
                .is_some_and(|draw| draw.below(1_000) == 0);
            let (vm, settings) = (&self.vms[at], &self.settings);
            let scope = vm.scope();
            let mut counts = vm.load.counts(settings.in_force(scope), STEP, times);
            if is_impossible {
                counts.halts = u64::MAX / 2;
            }
            vms.push(VmSeen {
                ceiling: settings.ceiling(scope),
                held: settings.held(scope),
                counts: (counted && !vm.is_blind).then_some(counts),
                ..vm.seen.clone()
            });
        }
        let held = self.settings.held(Scope::Host).map(|held| Held {
            before: self.knobs(held.before),
            ours: self.knobs(held.ours),
        });
        let knobs = Some(self.knobs(self.at(Scope::Host)));
        let host = HostSeen {
            knobs,
            held,
            ..self.host.clone()
        };
        self.read = Seen { host, vms, counted };
        if let Some(pilot) = &mut self.pilot {
            let decisions = pilot.step(self.now + self.ahead, self.read.clone());
            self.carry_out(decisions);
        }
        self.is_restored_in_time();
    }

    pub(crate) fn limit(&mut self, change: impl FnOnce(&mut Limits)) {
        change(&mut self.limits);
        self.may_restore |= self.limits.may_act;
        if let Some(pilot) = &mut self.pilot {
            let decisions = pilot.limit(self.limits.clone());
            self.carry_out(decisions);
        }
    }

    pub(crate) fn stops(&mut self) {
        let decisions = self.pilot().stop();
        self.carry_out(decisions);
    }

    /// Makes the changes that were decided, one after the other, for as long as the daemon lives.
    fn carry_out(&mut self, decisions: Vec<Decision>) {
        let mut decisions = VecDeque::from(decisions);
        while let Some(decision) = decisions.pop_front() {
            self.decisions
                .push((self.now, decision.scope, decision.kind));
            self.save_with(&decision);
            self.is_lawful(&decision);
            if decision.is_made {
                let Some(made) = self.make(&decision) else {
                    return self.dies();
                };
                let now = self.now + self.ahead;
                decisions.extend(self.pilot().made(now, &decision, made));
                self.save_with(&decision);
            }
        }
        // A recording of these facts may be under way.
        let wanted = self.pilot().wanted().cloned();
        if self.recording.as_ref().map(|(of, _)| of) != wanted.as_ref() {
            let until = |of: &Wanted| self.now + of.skip_ns + of.length_ns;
            self.recording = wanted.map(|of| (of.clone(), until(&of)));
        }
    }

    /// The daemon is killed; an undo after that finds everything as it was.
    pub(crate) fn dies(&mut self) {
        (self.pilot, self.recording) = (None, None);
        self.laws.stays.clear();
        self.settings.can_be_undone();
    }

    fn save_with(&mut self, decision: &Decision) {
        if !decision.kind.is_period() {
            self.disk = self.pilot().memory();
        }
    }

    /// `None`: the daemon died over it.
    fn make(&mut self, decision: &Decision) -> Option<Result<(), Refusal>> {
        let scope = decision.scope;
        if !self.settings.0.contains_key(&scope) {
            return Some(Err(Refusal::Ended));
        }
        let answers = self.answers.as_mut();
        let (is_made, answer) = answers.map_or((true, Some(Ok(()))), |answers| answers(decision));
        if let Some(Err(refusal)) = &answer {
            self.laws.stays.retain(|(of, _), _| *of != scope);
            self.laws.stuck.insert(scope);
            if *refusal == Refusal::Ended {
                self.settings.comes(scope, Ceiling::Fixed);
            }
        }
        if is_made {
            let change = decision.change.expect("a change to make");
            if let Err(refusal) = self.settings.set(scope, &change) {
                return Some(Err(refusal));
            }
            self.laws.made(decision, self.now);
            if answer == Some(Ok(())) {
                self.laws.stuck.remove(&scope);
            }
        }
        answer
    }

    fn recorded(&mut self, wanted: &Wanted) -> Vec<(VmKey, Option<Chunk>)> {
        let noise = self.about_one(0.03);
        let (span_ns, halts) = (wanted.length_ns, wanted.most_halts);
        let chunk = |key: &VmKey| {
            let mut vms = self.vms.iter().filter(|vm| !vm.is_blind);
            let vm = vms.find(|vm| vm.seen.key == *key)?;
            let under = (self.knobs(self.at(vm.scope())), READINGS.get());
            Some(Chunk {
                load: vm.load,
                under,
                span_ns,
                noise,
                halts,
            })
        };
        wanted.vms.iter().map(|key| (*key, chunk(key))).collect()
    }

    /// Lets time pass until a recording or an interval is over; gives whether an interval is.
    pub(crate) fn turn(&mut self) -> bool {
        let step = (self.now / STEP + 1) * STEP;
        let recording = self.recording.as_ref();
        let until = recording.map_or(step, |(_, until)| step.min(*until));
        self.cost(until - self.now);
        self.now = until;
        let is_over = |(_, until): &mut (Wanted, u64)| *until == self.now;
        if let Some((wanted, _)) = self.recording.take_if(is_over) {
            self.host.own_cpu_ns += self.look_ns;
            if wanted.skip_ns == 0 {
                self.looks.push(Scope::Vm(wanted.vms[0]));
            }
            let facts = self.recorded(&wanted);
            let now = self.now + self.ahead;
            let decisions = self.pilot().facts(now, facts);
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

    /// Lets time pass until this holds.
    pub(crate) fn turn_until(&mut self, holds: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if holds(self) {
                return;
            }
            if self.turn() {
                self.reads();
            }
        }
        panic!("it does not happen: {:?}", self.decisions);
    }

    /// Lets time pass until this is decided; gives when it was.
    pub(crate) fn until(&mut self, scope: Scope, kind: Kind) -> u64 {
        let from = self.decisions.len();
        for _ in 0..1_000 {
            self.pass(1);
            let mut since = self.decisions[from..].iter();
            if let Some((at, ..)) = since.find(|(_, of, it)| (*of, *it) == (scope, kind)) {
                return *at;
            }
        }
        panic!("no {kind:?} of {scope:?}: {:?}", &self.decisions[from..]);
    }

    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.decisions
            .iter()
            .filter(|(_, _, it)| *it == kind)
            .count()
    }

    /// Whether one of these kinds was decided of that target.
    pub(crate) fn has(&self, scope: Scope, kinds: &[Kind]) -> bool {
        let mut decisions = self.decisions.iter();
        decisions.any(|(_, of, kind)| *of == scope && kinds.contains(kind))
    }

    /// The pilot's report on a VM.
    pub(crate) fn standing(&self, vm: Scope) -> PilotVm {
        let mut standing = self.pilot.as_ref().unwrap().standing();
        let Scope::Vm(key) = vm else {
            panic!("the host is no VM")
        };
        standing.vms.remove(&key).unwrap()
    }

    /// Polling of all VMs, in % of a CPU.
    pub(crate) fn polled_percent(&self) -> f64 {
        let polled = |vm: &Vm| vm.load.polled_percent(self.at(vm.scope()));
        self.vms.iter().map(polled).sum()
    }
}
