//! Days of a fleet: phases, VMs that come and go, humans who write, clocks that step, readings that lie or stop, changes
//! that fail, and a daemon that dies anywhere.

use std::collections::BTreeMap;

use haltwise_core::ids::{Pid, VmKey};
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::pilot::decision::{Decision, Kind, Refusal, Wanted};
use haltwise_core::pilot::input::{Ceiling, Counts, Held, HostSeen, Scope, Seen, VmSeen};
use haltwise_core::pilot::memory::Memory;
use haltwise_core::pilot::{Goal, Limits, Pilot};
use haltwise_core::workload::SplitMix64;

use super::journal::{Death, Machine};
use super::law::Laws;
use super::model::{Chunk, Load, Modelled, setup};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const STEP: u64 = 10 * SECOND;
const HOUR: u64 = 3_600 * SECOND;

/// One VM.
#[derive(Debug)]
pub(crate) struct SimVm {
    pub(crate) load: Load,
    phase_until: u64,
    /// Its readings fail until then.
    blind_until: u64,
    /// Its guest polls by itself until then, and it has been left alone for so many steps of one life.
    own_until: u64,
    left_alone: u32,
    pub(crate) came_ns: u64,
    /// CPU cost so far, and what it would have been as found, in nanoseconds.
    pub(crate) actual: f64,
    pub(crate) found: f64,
    /// What a minute of each of its phases costs: what nobody can know sooner.
    pub(crate) unknown: f64,
    pub(crate) phases: u32,
}

pub(crate) struct World {
    pub(crate) draw: SplitMix64,
    pub(crate) now: u64,
    clock: u64,
    pub(crate) machine: Machine,
    pub(crate) vms: BTreeMap<VmKey, SimVm>,
    next_pid: u32,
    pressure_until: u64,
    sched_ext_until: u64,
    pilot: Option<Pilot<Modelled>>,
    disk: Memory,
    saved: u64,
    collecting: Option<(Wanted, u64, u64)>,
    pub(crate) laws: Laws,
    pub(crate) lives: u64,
    bias: f64,
    /// CPU time that a look takes, and that this life of the daemon has taken.
    look_ns: u64,
    own_cpu_ns: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut draw = SplitMix64(seed);
        // Most replays are right within a tenth; some are no better than a guess.
        let bias = [0.05, 0.1, 0.3, 1.5][usize::try_from(draw.below(4)).unwrap()];
        let machine = Machine {
            param_ns: 200_000,
            ..Machine::default()
        };
        let mut world = Self {
            draw,
            now: HOUR,
            clock: HOUR,
            machine,
            vms: BTreeMap::new(),
            next_pid: 100,
            pressure_until: 0,
            sched_ext_until: 0,
            pilot: None,
            disk: Memory::default(),
            saved: 0,
            collecting: None,
            laws: Laws::default(),
            lives: 0,
            bias,
            // Where it is dear, looks are seldom.
            look_ns: [0, 30_000_000, 300_000_000][usize::try_from(seed % 3).unwrap()],
            own_cpu_ns: 0,
        };
        for _ in 0..=world.draw.below(3) {
            world.comes();
        }
        world
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.draw.below(n) == 0
    }

    fn comes(&mut self) {
        let key = VmKey {
            pid: Pid(self.next_pid),
            start_ticks: self.now / SECOND,
            ordinal: 0,
        };
        self.next_pid += 1;
        let own = self.one_in(4).then_some(50_000);
        self.machine.ceilings.insert(key, own);
        let in_force = self.machine.in_force(key);
        self.machine.at_first.insert(key, in_force);
        let load = Load::draw(&mut self.draw);
        let phase_until = self.now + self.phase();
        let vm = SimVm {
            load,
            phase_until,
            blind_until: 0,
            own_until: 0,
            left_alone: 0,
            came_ns: self.now,
            actual: 0.0,
            found: 0.0,
            unknown: 60.0 * load.per_s(200_000),
            phases: 1,
        };
        self.vms.insert(key, vm);
    }

    /// How long a phase lasts: a minute to hours.
    fn phase(&mut self) -> u64 {
        let minutes = [1, 3, 10, 60, 600][usize::try_from(self.draw.below(5)).unwrap()];
        minutes * 60 * SECOND / 2 + self.draw.below(minutes * 60 * SECOND)
    }

    /// Lets a day pass, and checks the laws.
    pub(crate) fn day(&mut self) {
        let end = self.now + 24 * HOUR;
        while self.now < end {
            self.live();
            let next = self.collecting.as_ref().map(|(_, _, until)| *until);
            let step = (self.now / STEP + 1) * STEP;
            let until = next.map_or(step, |next| next.min(step));
            self.pass(until - self.now);
            if next == Some(until) {
                self.collected();
            }
            if until == step {
                self.fate();
                self.step();
            }
        }
    }

    /// The daemon starts where it does not run.
    fn live(&mut self) {
        if self.pilot.is_some() {
            return;
        }
        self.lives += 1;
        self.own_cpu_ns = 0;
        self.machine.settle();
        self.collecting = None;
        self.laws.may_act = true;
        let evidence = Modelled {
            bias: self.bias,
            seed: SplitMix64(self.draw.next_u64()),
        };
        let setup = setup(evidence, self.disk.clone(), self.draw.next_u64());
        self.pilot = Some(Pilot::new(setup));
        let seen = self.read(false);
        self.take(|pilot, clock| pilot.step(clock, seen));
    }

    /// Time passes.
    fn pass(&mut self, ns: u64) {
        self.now += ns;
        self.clock += ns;
        let seconds = ns as f64 / 1e9;
        for (key, vm) in &mut self.vms {
            if self.machine.theirs.contains_key(key) {
                continue;
            }
            vm.actual += seconds * vm.load.per_s(self.machine.in_force(*key));
            vm.found += seconds * vm.load.per_s(self.machine.at_first[key]);
        }
    }

    /// What befalls the fleet.
    fn fate(&mut self) {
        let keys: Vec<VmKey> = self.vms.keys().copied().collect();
        for key in keys {
            let is_over = self.vms[&key].phase_until <= self.now;
            if is_over {
                let (load, length) = (Load::draw(&mut self.draw), self.phase());
                let vm = self.vms.get_mut(&key).unwrap();
                (vm.load, vm.phase_until) = (load, self.now + length);
                vm.unknown += 60.0 * load.per_s(1_000_000).max(load.per_s(0));
                vm.phases += 1;
            }
            let fate = self.draw.below(20_000);
            if fate == 0 {
                self.goes(key);
            } else if fate == 1 {
                let theirs = 1_000 * u32::try_from(self.draw.below(300)).unwrap();
                if self.machine.ceilings[&key] != Some(theirs) {
                    self.machine.ceilings.insert(key, Some(theirs));
                    self.machine.theirs.insert(key, theirs);
                }
            } else if fate < 12 {
                let until = self.now + self.draw.below(20 * 60 * SECOND);
                self.vms.get_mut(&key).unwrap().blind_until = until;
            } else if fate < 16 {
                let until = self.now + self.draw.below(HOUR);
                self.vms.get_mut(&key).unwrap().own_until = until;
            }
        }
        if self.vms.len() < 4 && self.one_in(8_000) {
            self.comes();
        }
        if self.one_in(3_000) {
            self.pressure_until = self.now + self.draw.below(HOUR);
        }
        if self.one_in(20_000) {
            self.sched_ext_until = self.now + self.draw.below(HOUR);
        }
        match self.draw.below(8_000) {
            0 => self.clock += self.draw.below(3 * HOUR),
            1 => self.clock -= self.draw.below(20 * SECOND),
            2 | 3 => self.pilot = None,
            4 | 5 => self.reload(),
            _ => {}
        }
    }

    /// A configuration that is read again forbids to act, or allows it again; the next life may.
    fn reload(&mut self) {
        self.laws.may_act = !self.laws.may_act;
        let may_act = self.laws.may_act;
        self.take(|pilot, _| {
            pilot.limit(Limits {
                may_act,
                ..Limits::default()
            })
        });
    }

    fn goes(&mut self, key: VmKey) {
        if let Some(vm) = self.vms.remove(&key) {
            self.laws.ended(key, &vm, &self.machine, self.now);
        }
        self.machine.ceilings.remove(&key);
        self.machine.journal.remove(&key);
        self.machine.theirs.remove(&key);
    }

    fn knobs(&self) -> Knobs {
        Knobs {
            halt_poll_ns: self.machine.param_ns,
            ..Knobs::defaults(Version::new(6, 12), Arch::X86)
        }
    }

    fn read(&mut self, counted: bool) -> Seen {
        let mut vms = Vec::new();
        let keys: Vec<VmKey> = self.vms.keys().copied().collect();
        for key in keys {
            let lies = self.one_in(1_000);
            let noise = 0.95 + 0.1 * self.draw.unit();
            let vm = &self.vms[&key];
            let counts = counts(&vm.load, self.machine.in_force(key), noise, lies);
            let held = self.machine.journal.get(&key);
            let held = held.and_then(|entry| {
                Some(Held {
                    before: entry.before,
                    ours: entry.ours?,
                })
            });
            vms.push(VmSeen {
                key,
                name: format!("vm-{}", key.pid),
                vcpus: 1,
                goal: Some(Goal::default()),
                ceiling: self.machine.ceilings[&key].map_or(Ceiling::Follows, Ceiling::Own),
                held,
                polls_itself: vm.own_until > self.now,
                counts: (counted && vm.blind_until <= self.now).then_some(counts),
            });
        }
        let is_pressed = self.now < self.pressure_until;
        let host = HostSeen {
            knobs: Some(self.knobs()),
            is_writable: false,
            held: None,
            cpus: 8,
            busy_cpus: Some(2.0),
            cpu_pressure: Some(if is_pressed { 0.4 } else { 0.01 }),
            sched_ext: self.now < self.sched_ext_until,
            own_cpu_ns: self.own_cpu_ns,
        };
        self.laws.read(&host);
        Seen { host, vms, counted }
    }

    fn step(&mut self) {
        if self.pilot.is_none() {
            return;
        }
        let seen = self.read(true);
        self.take(|pilot, clock| pilot.step(clock, seen));
        self.is_let_go();
        if self.now.saturating_sub(self.saved) >= 60 * SECOND {
            self.save();
        }
    }

    /// Of a VM that it is no longer to set it restores what was there first, within a few steps of one life.
    fn is_let_go(&mut self) {
        for (key, vm) in &mut self.vms {
            let is_left = vm.own_until > self.now && self.pilot.is_some();
            vm.left_alone = if is_left { vm.left_alone + 1 } else { 0 };
            if vm.left_alone > 6 && !self.machine.theirs.contains_key(key) {
                let (now, first) = (self.machine.in_force(*key), self.machine.at_first[key]);
                assert_eq!(now, first, "{key:?} is not to be set");
            }
        }
    }

    fn save(&mut self) {
        if let Some(pilot) = &self.pilot {
            (self.disk, self.saved) = (pilot.memory(), self.now);
        }
    }

    /// Facts that were wanted are there.
    fn collected(&mut self) {
        let Some((wanted, _, _)) = self.collecting.take() else {
            return;
        };
        let noise = 0.03 * (self.draw.unit() + self.draw.unit() - 1.0);
        let facts = wanted.vms.iter().map(|key| {
            let vm = self.vms.get(key).filter(|vm| vm.blind_until <= self.now);
            let chunk = vm.map(|vm| Chunk {
                load: vm.load,
                ceiling_ns: self.machine.in_force(*key),
                span_ns: wanted.length_ns,
                noise: 1.0 + noise,
            });
            (*key, chunk)
        });
        let facts: Vec<_> = facts.collect();
        self.own_cpu_ns += self.look_ns;
        self.take(|pilot, clock| pilot.facts(clock, facts));
    }

    /// Has the pilot decide, and does what it decided, as far as it lives.
    fn take(&mut self, decide: impl FnOnce(&mut Pilot<Modelled>, u64) -> Vec<Decision>) {
        let clock = self.clock;
        let Some(pilot) = self.pilot.as_mut() else {
            return;
        };
        let mut decisions: std::collections::VecDeque<Decision> = decide(pilot, clock).into();
        while let Some(decision) = decisions.pop_front() {
            if !decision.kind.is_period() {
                self.save();
            }
            self.laws.decided(&decision, &self.machine, self.now);
            if decision.is_made {
                let Some(made) = self.make(&decision) else {
                    // It died.
                    self.pilot = None;
                    return;
                };
                if let Some(pilot) = self.pilot.as_mut() {
                    decisions.extend(pilot.made(clock, &decision, made));
                }
                if !decision.kind.is_period() {
                    self.save();
                }
            }
        }
        Laws::is_known(&self.machine);
        self.collect();
    }

    /// `None`: the daemon died over it.
    fn make(&mut self, decision: &Decision) -> Option<Result<(), Refusal>> {
        let Scope::Vm(key) = decision.scope else {
            panic!("the parameters cannot be written: {decision:?}");
        };
        if !self.vms.contains_key(&key) {
            return Some(Err(Refusal::Ended));
        }
        if self.one_in(300) {
            return Some(Err(Refusal::Failed("no space left on device".to_owned())));
        }
        let change = decision.change.expect("what is made has a change");
        let deaths = [
            Death::BeforeIntent,
            Death::BeforeWrite,
            Death::AfterWrite,
            Death::AfterResult,
        ];
        let death = self
            .one_in(400)
            .then(|| deaths[usize::try_from(self.draw.below(4)).unwrap()]);
        let (from, to) = (change.from.halt_poll_ns, change.to.halt_poll_ns);
        match self.machine.set(key, from, to, death) {
            Err(true) => None,
            Err(false) => Some(Err(Refusal::Theirs)),
            Ok(()) => {
                self.laws.made(decision, self.now);
                Some(Ok(()))
            }
        }
    }

    /// What the pilot wants is collected.
    fn collect(&mut self) {
        let wanted = self
            .pilot
            .as_ref()
            .and_then(|pilot| pilot.wanted().cloned());
        match (wanted, &self.collecting) {
            (Some(wanted), Some((of, ..))) if wanted == *of => {}
            (Some(wanted), _) => {
                let until = self.now + wanted.skip_ns + wanted.length_ns;
                self.collecting = Some((wanted, self.now, until));
            }
            (None, _) => self.collecting = None,
        }
    }

    /// The last word: a stop, then an undo, and everything is as it was.
    pub(crate) fn end(&mut self) {
        // A stop may be refused or die as any change may; what was tried is then undone by the next run.
        self.take(|pilot, _| pilot.stop());
        for (key, vm) in &self.vms {
            self.laws.ended(*key, vm, &self.machine, self.now);
        }
        self.machine.undo();
        for key in self.vms.keys() {
            if !self.machine.theirs.contains_key(key) {
                let (now, first) = (self.machine.in_force(*key), self.machine.at_first[key]);
                assert_eq!(now, first, "undo restores what was there first: {key:?}");
            }
        }
    }

    /// Kept settings so far.
    pub(crate) fn count(&self, kind: Kind) -> u64 {
        self.laws.counts.get(&kind).copied().unwrap_or(0)
    }
}

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
