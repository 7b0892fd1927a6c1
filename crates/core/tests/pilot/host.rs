//! A host with its VMs, the journal of what was set there, and a pilot. Each change is made, unless it is to be refused.

use std::collections::VecDeque;

use haltwise_core::ids::{Pid, VmKey};
use haltwise_core::pilot::decision::{Decision, Kind, Refusal, Wanted};
use haltwise_core::pilot::input::{Ceiling, Counts, Held, HostSeen, Pressure, Scope, Seen, VmSeen};
use haltwise_core::pilot::memory::Memory;
use haltwise_core::pilot::{Goal, Limits, Pilot};

use super::journal::Machine;
use super::model::{Chunk, Load, Modelled, knobs, setup};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const STEP: u64 = 10 * SECOND;

pub(crate) const FOUND_NS: u32 = 200_000;

pub(crate) const FOUND: Ceiling = Ceiling::Own(FOUND_NS);
pub(crate) const OFF: Ceiling = Ceiling::Own(0);

/// Others want the CPUs, and do not.
pub(crate) const PRESSED: Pressure = Pressure::Share(0.2);
pub(crate) const FREE: Pressure = Pressure::Share(0.19);

pub(crate) fn decided(vm: VmKey, kind: Kind) -> Event {
    Event::Decided(Scope::Vm(vm), kind)
}

/// Halts of one length, as many as of [`EACH_15_US`].
pub(crate) fn fixed(gap_ns: f64) -> Load {
    Load {
        gap_ns,
        ..EACH_15_US
    }
}

pub(crate) fn acts() -> Limits {
    Limits {
        may_act: true,
        ..Limits::default()
    }
}

/// A poll of that length costs more than a block: best without polling.
pub(crate) const EACH_150_US: Load = Load {
    halts_per_s: 4_500.0,
    gap_ns: 150_000.0,
    is_fixed: true,
};
pub(crate) const TICKING: Load = Load {
    halts_per_s: 250.0,
    gap_ns: 3_900_000.0,
    is_fixed: true,
};
/// A poll of that length costs less than a block: best polled.
pub(crate) const EACH_15_US: Load = Load {
    halts_per_s: 12_000.0,
    gap_ns: 15_000.0,
    is_fixed: true,
};

pub(crate) struct Vm {
    pub(crate) key: VmKey,
    pub(crate) load: Load,
    /// `None`: the pilot is to leave it alone.
    pub(crate) goal: Option<Goal>,
    pub(crate) polls_itself: bool,
    /// Its VMM does not answer.
    pub(crate) is_silent: bool,
    /// None of its halts are recorded.
    pub(crate) stands_still: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Event {
    Look(VmKey),
    Decided(Scope, Kind),
}

pub(crate) struct Host {
    pub(crate) now: u64,
    /// The clock that the pilot is given.
    pub(crate) clock: u64,
    pub(crate) vms: Vec<Vm>,
    /// VMs that ever came.
    came: u32,
    pub(crate) machine: Machine,
    /// The rest of what is read of the host.
    pub(crate) state: HostSeen,
    /// Looks hold as many halts as were wanted, not one.
    pub(crate) is_full: bool,
    /// CPU time that a look takes.
    pub(crate) look_ns: u64,
    /// Refusal with which a change is answered; `None` if the change is made.
    pub(crate) refuses: fn(&Decision) -> Option<Refusal>,
    pub(crate) pilot: Pilot<Modelled>,
    /// Recording in progress, and the time at which the recording ends.
    recording: Option<(Wanted, u64)>,
    pub(crate) events: Vec<(u64, Event)>,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::with(Modelled::right(1))
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
            is_full: false,
            look_ns: 0,
            refuses: |_| None,
            pilot: Pilot::new(setup(evidence, Memory::default(), acts(), 1)),
            recording: None,
            events: Vec::new(),
        }
    }

    /// The pilot ends, and begins again with what it knew.
    pub(crate) fn restarts(&mut self) {
        self.restarts_within(acts());
    }

    pub(crate) fn restarts_within(&mut self, limits: Limits) {
        let memory = self.pilot.memory();
        self.starts(Pilot::new(setup(Modelled::right(2), memory, limits, 2)));
    }

    pub(crate) fn starts(&mut self, pilot: Pilot<Modelled>) {
        (self.pilot, self.recording) = (pilot, None);
    }

    pub(crate) fn comes(&mut self, load: Load, ceiling: Ceiling) -> VmKey {
        let pid = 100 + self.came;
        self.came += 1;
        let key = VmKey::first(Pid(pid), u64::from(pid));
        self.machine.comes(key, ceiling);
        self.vms.push(Vm {
            key,
            load,
            goal: Some(Goal::default()),
            polls_itself: false,
            is_silent: false,
            stands_still: false,
        });
        key
    }

    pub(crate) fn goes(&mut self, key: VmKey) {
        self.vms.retain(|vm| vm.key != key);
        self.machine.goes(key);
    }

    pub(crate) fn has(&self, key: VmKey) -> bool {
        self.vms.iter().any(|vm| vm.key == key)
    }

    pub(crate) fn vm(&mut self, key: VmKey) -> &mut Vm {
        self.vms.iter_mut().find(|vm| vm.key == key).unwrap()
    }

    pub(crate) fn ceiling(&self, key: VmKey) -> Ceiling {
        self.machine.ceilings[&key]
    }

    /// Current reading; `counts` of a VM are the counts under a ceiling.
    pub(crate) fn seen(
        &self,
        counted: bool,
        mut counts: impl FnMut(&Vm, u32) -> Option<Counts>,
    ) -> Seen {
        let vms = self.vms.iter().map(|vm| VmSeen {
            key: vm.key,
            name: format!("vm-{}", vm.key.pid),
            vcpus: 1,
            goal: vm.goal.clone(),
            ceiling: self.ceiling(vm.key),
            held: self.machine.held(Scope::Vm(vm.key)),
            has_answered: !vm.is_silent,
            polls_itself: vm.polls_itself,
            counts: counts(vm, self.machine.in_force(vm.key)),
        });
        let vms = vms.collect();
        let host = HostSeen {
            knobs: Some(knobs(self.machine.param_ns)),
            held: self.machine.held(Scope::Host).map(|held| Held {
                before: knobs(held.before),
                ours: knobs(held.ours),
            }),
            ..self.state.clone()
        };
        Seen { host, vms, counted }
    }

    fn make(&mut self, decisions: Vec<Decision>) {
        let mut decisions = VecDeque::from(decisions);
        while let Some(decision) = decisions.pop_front() {
            let event = Event::Decided(decision.scope, decision.kind);
            self.events.push((self.now, event));
            if decision.is_made {
                let made = self.set(&decision);
                decisions.extend(self.pilot.made(self.clock, &decision, made));
            }
        }
        self.collect();
    }

    fn set(&mut self, decision: &Decision) -> Result<(), Refusal> {
        let refusal = (self.refuses)(decision);
        if let Scope::Vm(key) = decision.scope {
            if !self.has(key) {
                return Err(Refusal::Ended);
            }
            if refusal == Some(Refusal::Ended) {
                // It can no longer be set.
                self.machine.ceilings.insert(key, Ceiling::Fixed);
            }
        }
        let change = decision.change.unwrap();
        refusal.map_or_else(|| self.machine.set(decision.scope, &change), Err)
    }

    pub(crate) fn limit(&mut self, limits: Limits) {
        let decisions = self.pilot.limit(limits);
        self.make(decisions);
    }

    /// Whether anything was decided of that kind.
    pub(crate) fn is_decided(&self, kind: Kind) -> bool {
        let is_it = |event: Event| matches!(event, Event::Decided(_, of) if of == kind);
        self.count(is_it) > 0
    }

    /// Whether one of these kinds was decided of that VM.
    pub(crate) fn is_any(&self, vm: VmKey, kinds: &[Kind]) -> bool {
        self.count(|event| kinds.iter().any(|kind| event == decided(vm, *kind))) > 0
    }

    pub(crate) fn count(&self, is_it: impl Fn(Event) -> bool) -> usize {
        let events = self.events.iter();
        events.filter(|(_, event)| is_it(*event)).count()
    }

    /// Polling of all VMs, in % of a CPU.
    pub(crate) fn polled_percent(&self) -> f64 {
        let in_force = |vm: &Vm| self.machine.in_force(vm.key);
        let vms = self.vms.iter();
        vms.map(|vm| 100.0 * vm.load.polled_cpus(in_force(vm)))
            .sum()
    }

    pub(crate) fn pass(&mut self, steps: u64) {
        let end = self.now + steps * STEP;
        while self.now < end {
            self.turn();
        }
    }

    /// Lets time pass until a recording or an interval is over.
    pub(crate) fn turn(&mut self) {
        self.advance(self.next());
        if let Some(facts) = self.recorded(|| 1.0) {
            let decisions = self.pilot.facts(self.clock, facts);
            self.make(decisions);
        }
        if self.now.is_multiple_of(STEP) {
            self.reads();
        }
    }

    /// When a recording or an interval is over next.
    pub(crate) fn next(&self) -> u64 {
        let step = (self.now / STEP + 1) * STEP;
        let recording = self.recording.as_ref();
        recording.map_or(step, |(_, until)| step.min(*until))
    }

    pub(crate) fn advance(&mut self, until: u64) {
        self.clock += until - self.now;
        self.now = until;
    }

    /// Begins to record what is wanted, unless that is being recorded.
    pub(crate) fn collect(&mut self) {
        let wanted = self.pilot.wanted();
        if self.recording.as_ref().map(|(of, _)| of) != wanted {
            let until = |of: &Wanted| self.now + of.skip_ns + of.length_ns;
            self.recording = wanted.map(|of| (of.clone(), until(of)));
        }
    }

    /// Recorded chunks with this noise; `None` unless the recording ends now.
    pub(crate) fn recorded(
        &mut self,
        noise: impl FnOnce() -> f64,
    ) -> Option<Vec<(VmKey, Option<Chunk>)>> {
        let now = self.now;
        let (wanted, _) = self.recording.take_if(|(_, until)| *until == now)?;
        self.state.own_cpu_ns += self.look_ns;
        if wanted.skip_ns == 0 {
            self.events.push((now, Event::Look(wanted.vms[0])));
        }
        let noise = noise();
        let of = |key: &VmKey| {
            let mut vms = self.vms.iter();
            let vm = vms.find(|vm| vm.key == *key && !vm.stands_still);
            let chunk = vm.map(|vm| Chunk {
                load: vm.load,
                ceiling_ns: self.machine.in_force(*key),
                span_ns: wanted.length_ns,
                noise,
                halts: if self.is_full { wanted.most_halts } else { 1 },
            });
            (*key, chunk)
        };
        Some(wanted.vms.iter().map(of).collect())
    }

    /// The pilot reads what is there now.
    pub(crate) fn reads(&mut self) {
        let seen = self.seen(true, |vm, ns| Some(counts(&vm.load, ns, 1.0, false)));
        let decisions = self.pilot.step(self.clock, seen);
        self.make(decisions);
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

    pub(crate) fn looks(&self) -> usize {
        self.count(|event| matches!(event, Event::Look(_)))
    }
}

/// Counts of an interval under a ceiling.
pub(crate) fn counts(load: &Load, ceiling_ns: u32, noise: f64, lies: bool) -> Counts {
    let (poll_ns, _) = load.cost_ns(ceiling_ns);
    let halts = load.halts_per_s * noise * 10.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts"
    )]
    let whole = |of: f64| of as u64;
    Counts {
        interval_ns: STEP,
        halts: if lies { u64::MAX / 2 } else { whole(halts) },
        blocks: whole(halts / 2.0),
        poll_ns: whole(halts * poll_ns),
        failed_poll_ns: 0,
        halt_ns: whole(halts * (load.gap_ns + 10_000.0)),
    }
}
