//! A host on which each change is made, for single cases.

use std::collections::VecDeque;

use haltwise_core::ids::{Pid, VmKey};
use haltwise_core::pilot::decision::{Decision, Kind, Refusal};
use haltwise_core::pilot::evidence::Evidence;
use haltwise_core::pilot::input::{Ceiling, Held, HostSeen, Pressure, Scope, Seen, VmSeen};
use haltwise_core::pilot::memory::Memory;
use haltwise_core::pilot::{Goal, Limits, Pilot};

use super::model::{Chunk, Load, Modelled, knobs, setup};
use super::world::{STEP, counts};

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
    pub(crate) ceiling: Ceiling,
    pub(crate) held: Option<Held<u32>>,
    /// The pilot is to leave it alone.
    pub(crate) is_left_alone: bool,
    pub(crate) goal: Goal,
    /// Its VMM does not answer.
    pub(crate) is_silent: bool,
    /// It does not halt any more.
    pub(crate) stands_still: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Event {
    Look(VmKey),
    Decided(Scope, Kind),
}

/// A host on which each change is made.
pub(crate) struct Host<E: Evidence = Modelled> {
    pub(crate) now: u64,
    pub(crate) vms: Vec<Vm>,
    /// VMs that ever came.
    came: u32,
    /// Looks hold as many halts as were wanted, not one.
    pub(crate) is_full: bool,
    /// Its parameter, and what the journal has of it.
    pub(crate) param_ns: u32,
    held: Option<Held<u32>>,
    pub(crate) cpu_pressure: Pressure,
    pub(crate) busy_cpus: Option<f64>,
    /// CPU time that a look takes, and all so far.
    pub(crate) look_ns: u64,
    own_cpu_ns: u64,
    /// What comes of a change in place of making it.
    pub(crate) refuses: fn(&Decision) -> Option<Refusal>,
    pub(crate) pilot: Pilot<E>,
    pub(crate) events: Vec<(u64, Event)>,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::with(Modelled::right(1))
    }

    /// The pilot ends, and begins again with what it knew.
    pub(crate) fn restarts(&mut self) {
        self.restarts_within(acts());
    }

    pub(crate) fn restarts_within(&mut self, limits: Limits) {
        let mut setup = setup(Modelled::right(2), self.pilot.memory(), 2);
        setup.limits = limits;
        self.pilot = Pilot::new(setup);
    }
}

impl<E: Evidence<Chunk = Chunk>> Host<E> {
    pub(crate) fn with(evidence: E) -> Self {
        Self {
            now: 0,
            vms: Vec::new(),
            came: 0,
            is_full: false,
            param_ns: FOUND_NS,
            held: None,
            cpu_pressure: Pressure::Share(0.01),
            busy_cpus: Some(2.0),
            look_ns: 0,
            own_cpu_ns: 0,
            refuses: |_| None,
            pilot: Pilot::new(setup(evidence, Memory::default(), 1)),
            events: Vec::new(),
        }
    }

    pub(crate) fn comes(&mut self, load: Load, ceiling: Ceiling) -> VmKey {
        let pid = 100 + self.came;
        self.came += 1;
        let key = VmKey {
            pid: Pid(pid),
            start_ticks: u64::from(pid),
            ordinal: 0,
        };
        self.vms.push(Vm {
            key,
            load,
            ceiling,
            is_left_alone: false,
            goal: Goal::default(),
            is_silent: false,
            stands_still: false,
            held: None,
        });
        key
    }

    pub(crate) fn goes(&mut self, key: VmKey) {
        self.vms.retain(|vm| vm.key != key);
    }

    pub(crate) fn vm(&mut self, key: VmKey) -> &mut Vm {
        self.vms.iter_mut().find(|vm| vm.key == key).unwrap()
    }

    fn in_force(&self, vm: &Vm) -> u32 {
        vm.ceiling.in_force(Some(self.param_ns)).unwrap()
    }

    fn seen(&self) -> Seen {
        let vms = self.vms.iter().map(|vm| VmSeen {
            key: vm.key,
            name: format!("vm-{}", vm.key.pid),
            vcpus: 1,
            goal: (!vm.is_left_alone).then(|| vm.goal.clone()),
            ceiling: vm.ceiling,
            held: vm.held,
            has_answered: !vm.is_silent,
            polls_itself: false,
            counts: Some(counts(&vm.load, self.in_force(vm), 1.0, false)),
        });
        let host = HostSeen {
            knobs: Some(knobs(self.param_ns)),
            is_writable: true,
            held: self.held.map(|held| Held {
                before: knobs(held.before),
                ours: knobs(held.ours),
            }),
            cpus: 64,
            busy_cpus: self.busy_cpus,
            cpu_pressure: self.cpu_pressure,
            own_cpu_ns: self.own_cpu_ns,
            ..HostSeen::default()
        };
        Seen {
            host,
            vms: vms.collect(),
            counted: true,
        }
    }

    fn make(&mut self, decisions: Vec<Decision>) {
        let mut decisions = VecDeque::from(decisions);
        while let Some(decision) = decisions.pop_front() {
            let scope = decision.scope;
            self.events
                .push((self.now, Event::Decided(scope, decision.kind)));
            if !decision.is_made {
                continue;
            }
            let refusal = match scope {
                Scope::Vm(key) if self.vms.iter().all(|vm| vm.key != key) => Some(Refusal::Ended),
                _ => (self.refuses)(&decision),
            };
            if let Some(refusal) = refusal {
                let is_ended = |vm: &&mut Vm| scope == Scope::Vm(vm.key);
                let ended = self.vms.iter_mut().find(is_ended);
                if let (Some(vm), Refusal::Ended) = (ended, &refusal) {
                    // Nobody can set it any more.
                    vm.ceiling = Ceiling::Fixed(None);
                }
                decisions.extend(self.pilot.made(self.now, &decision, Err(refusal)));
                continue;
            }
            let ours = decision.change.unwrap().to.halt_poll_ns;
            match scope {
                Scope::Vm(key) => {
                    let param = Some(self.param_ns);
                    let vm = self.vm(key);
                    assert!(vm.ceiling.is_settable(), "{decision:?}");
                    let now = vm.ceiling.in_force(param).unwrap();
                    let before = vm.held.map_or(now, |held| held.before);
                    vm.held = Some(Held { before, ours });
                    vm.ceiling = Ceiling::Own(ours);
                }
                Scope::Host => {
                    let before = self.held.map_or(self.param_ns, |held| held.before);
                    self.held = (ours != before).then_some(Held { before, ours });
                    self.param_ns = ours;
                }
            }
            decisions.extend(self.pilot.made(self.now, &decision, Ok(())));
        }
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

    /// What all VMs poll, in % of a CPU.
    pub(crate) fn polled_percent(&self) -> f64 {
        let vms = self.vms.iter();
        vms.map(|vm| 100.0 * vm.load.polled_cpus(self.in_force(vm)))
            .sum()
    }

    pub(crate) fn pass(&mut self, steps: u64) {
        for _ in 0..steps {
            let until = self.now + STEP;
            while self.records(until) {}
            self.now = until;
            self.reads();
        }
    }

    /// Records what is wanted, where that is over by then.
    pub(crate) fn records(&mut self, until: u64) -> bool {
        let Some(wanted) = self.pilot.wanted().cloned() else {
            return false;
        };
        let took = wanted.skip_ns + wanted.length_ns;
        if self.now + took > until {
            return false;
        }
        self.now += took;
        self.own_cpu_ns += self.look_ns;
        let of = |key: &VmKey| {
            let mut vms = self.vms.iter();
            let vm = vms.find(|vm| vm.key == *key && !vm.stands_still);
            let chunk = vm.map(|vm| Chunk {
                load: vm.load,
                ceiling_ns: self.in_force(vm),
                span_ns: wanted.length_ns,
                noise: 1.0,
                halts: if self.is_full { wanted.most_halts } else { 1 },
            });
            (*key, chunk)
        };
        let facts: Vec<_> = wanted.vms.iter().map(of).collect();
        if wanted.skip_ns == 0 {
            self.events.push((self.now, Event::Look(wanted.vms[0])));
        }
        let decisions = self.pilot.facts(self.now, facts);
        self.make(decisions);
        true
    }

    /// The pilot reads what is there now.
    pub(crate) fn reads(&mut self) {
        let decisions = self.pilot.step(self.now, self.seen());
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
