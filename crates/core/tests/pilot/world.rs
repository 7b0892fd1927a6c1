//! Days of a fleet: phases, VMs that come and go, humans who write, clocks that step, readings that lie or stop, changes
//! that fail, and a daemon that dies anywhere.

use std::collections::{BTreeMap, VecDeque};

use haltwise_core::ids::VmKey;
use haltwise_core::pilot::decision::{Decision, Kind, Refusal};
use haltwise_core::pilot::input::{Ceiling, Pressure, Scope, Seen, VmSeen};
use haltwise_core::pilot::memory::Memory;
use haltwise_core::pilot::{Limits, Parameters, Pilot};
use haltwise_core::workload::SplitMix64;

use super::host::{FOUND_NS, Host, SECOND, STEP, acts, counts};
use super::law::{self, Costs, Laws};
use super::model::{Load, Modelled, setup};

const HOUR: u64 = 3_600 * SECOND;

/// Events that befall a VM, and the costs of the VM.
#[derive(Debug)]
pub(crate) struct SimVm {
    phase_until: u64,
    /// Its readings fail until then.
    blind_until: u64,
    /// Its guest polls by itself until then, and it has been left alone for so many steps of one life.
    own_until: u64,
    left_alone: u32,
    pub(crate) came_ns: u64,
    /// Steps of one life in a row in which this VM was to be left alone and the host's parameter was not restored.
    not_restored: u32,
    /// The ceiling that counts as found: while it follows the parameter, what that would be without the pilot.
    found_ns: u32,
    /// While it has a ceiling of its own.
    pub(crate) costs: Costs,
}

pub(crate) struct World {
    draw: SplitMix64,
    host: Host,
    vms: BTreeMap<VmKey, SimVm>,
    pressure_until: u64,
    sched_ext_until: u64,
    /// Until when others keep most of the CPUs busy.
    busy_until: u64,
    /// The kernel accounts no CPU pressure.
    has_no_psi: bool,
    /// How busy the host is, is not known until then.
    unknown_until: u64,
    limits: Limits,
    /// Nothing befalls it but what it is made for.
    calm: Option<Calm>,
    /// The daemon does not run.
    is_dead: bool,
    disk: Memory,
    saved: u64,
    pub(crate) laws: Laws,
    pub(crate) lives: u64,
    bias: f64,
}

/// A world in which loads stay as they are, and no other program sets anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calm {
    /// Nothing else either.
    Quiet,
    /// Others want the CPUs for ten minutes out of twenty.
    Pressed,
}

impl World {
    pub(crate) fn new(seed: u64, calm: Option<Calm>) -> Self {
        let mut draw = SplitMix64(seed);
        // Most replays are right within a tenth; some are no better than a guess.
        let bias = [0.05, 0.1, 0.3, 1.5][draw_below(&mut draw, 4)];
        let mut host = Host::new();
        host.advance(HOUR);
        host.state.is_writable = draw.below(2) == 0;
        host.state.cpus = if seed.is_multiple_of(3) { 4 } else { 8 };
        // Where it is dear, looks are seldom.
        host.look_ns = [0, 30_000_000, 300_000_000][usize::try_from(seed % 3).unwrap()];
        let mut world = Self {
            draw,
            host,
            vms: BTreeMap::new(),
            pressure_until: 0,
            sched_ext_until: 0,
            busy_until: 0,
            has_no_psi: seed.is_multiple_of(5),
            unknown_until: 0,
            limits: Limits {
                max_poll_cpu_percent: seed.is_multiple_of(4).then_some(50.0),
                ..acts()
            },
            calm,
            is_dead: true,
            disk: Memory::default(),
            saved: 0,
            laws: Laws::default(),
            lives: 0,
            bias,
        };
        for _ in 0..=world.draw.below(3) {
            world.comes();
        }
        world
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.draw.below(n) == 0
    }

    /// Whether an event of chance one in `n` befalls the world; never in a calm world.
    fn befalls_one_in(&mut self, n: u64) -> bool {
        self.one_in(n) && self.calm.is_none()
    }

    fn comes(&mut self) {
        let ceiling = match () {
            () if self.one_in(4) => Ceiling::Own(50_000),
            () if self.one_in(2) => Ceiling::Fixed,
            () => Ceiling::Follows,
        };
        let load = Load::draw(&mut self.draw);
        let key = self.host.comes(load, ceiling);
        let now = self.host.now;
        let vm = SimVm {
            phase_until: now + self.phase(),
            blind_until: 0,
            own_until: 0,
            left_alone: 0,
            came_ns: now,
            not_restored: 0,
            found_ns: self.host.machine.without(key),
            costs: Costs {
                unknown: 60.0 * load.per_s(FOUND_NS),
                ..Costs::default()
            },
        };
        if self.one_in(20) {
            self.host.vm(key).goal = None;
        }
        if self.host.machine.follows(key) {
            self.laws.following.unknown += vm.costs.unknown;
        }
        self.vms.insert(key, vm);
    }

    /// How long a phase lasts: a minute to hours.
    fn phase(&mut self) -> u64 {
        let minutes = [1, 3, 10, 60, 600][draw_below(&mut self.draw, 5)];
        minutes * 60 * SECOND / 2 + self.draw.below(minutes * 60 * SECOND)
    }

    /// Lets a day pass, and checks the laws.
    pub(crate) fn day(&mut self) {
        let end = self.host.now + 24 * HOUR;
        while self.host.now < end {
            self.live();
            let until = self.host.next();
            self.pass(until - self.host.now);
            let draw = &mut self.draw;
            let noise = || 1.0 + 0.03 * (draw.unit() + draw.unit() - 1.0);
            if let Some(facts) = self.host.recorded(noise) {
                self.take(|pilot, clock| pilot.facts(clock, facts));
            }
            if until.is_multiple_of(STEP) {
                self.fate();
                self.step();
            }
        }
    }

    /// The daemon starts where it does not run.
    fn live(&mut self) {
        if !std::mem::take(&mut self.is_dead) {
            return;
        }
        self.lives += 1;
        self.host.state.own_cpu_ns = 0;
        self.limits.may_act = true;
        // Figures that are differences take two readings, and some take longer.
        self.unknown_until = self.host.now + STEP + self.draw.below(60 * SECOND);
        let evidence = Modelled::wrong_by(self.bias, self.draw.next_u64());
        let (memory, limits) = (self.disk.clone(), self.limits.clone());
        let setup = setup(evidence, memory, limits, self.draw.next_u64());
        self.host.starts(Pilot::new(setup));
        let seen = self.read(false);
        self.take(|pilot, clock| pilot.step(clock, seen));
    }

    fn pass(&mut self, ns: u64) {
        self.host.advance(self.host.now + ns);
        let seconds = ns as f64 / 1e9;
        let machine = &self.host.machine;
        for of in &self.host.vms {
            let vm = self.vms.get_mut(&of.key).unwrap();
            if machine.is_theirs(of.key) || of.goal.is_none() {
                continue;
            }
            let follows = machine.follows(of.key);
            if follows {
                vm.found_ns = machine.param_without();
            }
            let actual = seconds * of.load.per_s(machine.in_force(of.key));
            let found = seconds * of.load.per_s(vm.found_ns);
            if !follows {
                vm.costs.add(actual, found);
            } else if vm.own_until <= self.host.now {
                // By themselves they may lose where others gain more.
                self.laws.following.add(actual, found);
            }
        }
        self.settle();
    }

    /// Lets the host's VMs have what befalls them now.
    fn settle(&mut self) {
        let now = self.host.now;
        for of in &mut self.host.vms {
            let vm = &self.vms[&of.key];
            (of.stands_still, of.polls_itself) = (vm.blind_until > now, vm.own_until > now);
        }
    }

    fn fate(&mut self) {
        let now = self.host.now;
        match self.calm {
            Some(Calm::Quiet) => return,
            Some(Calm::Pressed) => {
                let minute = now / (60 * SECOND);
                self.pressure_until = if minute % 20 < 10 { u64::MAX } else { 0 };
                return;
            }
            None => {}
        }
        let keys: Vec<VmKey> = self.vms.keys().copied().collect();
        for key in keys {
            self.fate_of(key);
        }
        if self.vms.len() < 4 && self.one_in(8_000) {
            self.comes();
        }
        if self.one_in(3_000) {
            self.pressure_until = now + self.draw.below(HOUR);
        }
        if self.one_in(3_000) {
            self.busy_until = now + self.draw.below(HOUR);
        }
        if self.one_in(3_000) {
            self.unknown_until = now + self.draw.below(60 * SECOND);
        }
        if self.host.state.is_writable && self.one_in(100_000) {
            self.is_set_by_human(Scope::Host);
        }
        if self.one_in(50_000) {
            self.host.machine.is_undone_by_human();
        }
        if self.one_in(20_000) {
            self.sched_ext_until = now + self.draw.below(HOUR);
        }
        match self.draw.below(8_000) {
            0 => self.host.clock += self.draw.below(3 * HOUR),
            1 => self.host.clock -= self.draw.below(20 * SECOND),
            2 | 3 => self.dies(),
            4..8 => self.reload(),
            _ => {}
        }
        self.settle();
    }

    fn fate_of(&mut self, key: VmKey) {
        let now = self.host.now;
        if self.vms[&key].phase_until <= now {
            let (load, length) = (Load::draw(&mut self.draw), self.phase());
            self.host.vm(key).load = load;
            let vm = self.vms.get_mut(&key).unwrap();
            vm.phase_until = now + length;
            let unknown = 60.0 * load.per_s(1_000_000).max(load.per_s(0));
            vm.costs.unknown += unknown;
            if self.host.machine.follows(key) {
                self.laws.following.unknown += unknown;
            }
        }
        match self.draw.below(20_000) {
            0 => self.goes(key),
            1 if self.host.ceiling(key) != Ceiling::Fixed => self.is_set_by_human(Scope::Vm(key)),
            2..12 => {
                let until = now + self.draw.below(20 * 60 * SECOND);
                self.vms.get_mut(&key).unwrap().blind_until = until;
            }
            12..16 => {
                let until = now + self.draw.below(HOUR);
                self.vms.get_mut(&key).unwrap().own_until = until;
            }
            _ => {}
        }
    }

    fn is_set_by_human(&mut self, scope: Scope) {
        let theirs = 1_000 * u32::try_from(self.draw.below(300)).unwrap();
        self.host.machine.is_set_by_human(scope, theirs);
    }

    /// A configuration that is read again forbids to act, or allows it again (the next life may), or has another limit.
    fn reload(&mut self) {
        let one_of = draw_below(&mut self.draw, 3);
        let limits = &mut self.limits;
        match self.draw.below(4) {
            0 => limits.may_act = !limits.may_act,
            1 => limits.max_ceiling_ns = [2_000_000, 200_000, 30_000][one_of],
            2 => limits.max_poll_cpu_percent = [None, Some(20.0), Some(80.0)][one_of],
            _ => {
                let all = [Parameters::Unshared, Parameters::Never, Parameters::Shared];
                limits.parameters = all[one_of];
            }
        }
        let limits = limits.clone();
        self.laws.limits = limits.clone();
        self.take(|pilot, _| pilot.limit(limits));
    }

    /// The daemon is killed; an undo after that finds everything as it was.
    fn dies(&mut self) {
        self.is_dead = true;
        self.laws.dies();
        self.host.machine.is_undone();
    }

    fn goes(&mut self, key: VmKey) {
        let vm = self.vms.remove(&key).unwrap();
        self.laws.ended(key, &vm, self.host.now);
        self.host.goes(key);
    }

    fn read(&mut self, counted: bool) -> Seen {
        let now = self.host.now;
        (self.host.state.busy_cpus, self.host.state.cpu_pressure) = self.load();
        self.host.state.sched_ext = now < self.sched_ext_until;
        let (draw, is_calm) = (&mut self.draw, self.calm.is_some());
        let seen = self.host.seen(counted, |vm, ceiling_ns| {
            let lies = draw.below(1_000) == 0 && !is_calm;
            let noise = 0.95 + 0.1 * draw.unit();
            let counts = counts(&vm.load, ceiling_ns, noise, lies);
            (counted && !vm.stands_still).then_some(counts)
        });
        let alone =
            |vm: &VmSeen| vm.goal.is_none() && !vm.polls_itself && vm.ceiling.own().is_none();
        self.laws.limits = self.limits.clone();
        self.laws.read(&seen.host, seen.vms.iter().any(alone));
        self.laws.polled = law::polled(&seen.vms);
        seen
    }

    /// CPUs that are busy with what all VMs poll and with others, and how long tasks wait for one.
    fn load(&self) -> (Option<f64>, Pressure) {
        let now = self.host.now;
        let most = f64::from(self.host.state.cpus);
        let is_busy = now < self.busy_until;
        let others = if is_busy { most - 0.5 } else { most / 4.0 };
        let busy = (self.host.polled_percent() / 100.0 + others).min(most);
        let pressure = match () {
            () if self.has_no_psi => Pressure::NotThere,
            () if now < self.unknown_until => Pressure::NotYet,
            () if now < self.pressure_until => Pressure::Share(0.4),
            () => Pressure::Share(0.01),
        };
        ((now >= self.unknown_until).then_some(busy), pressure)
    }

    fn step(&mut self) {
        if self.is_dead {
            return;
        }
        let seen = self.read(true);
        self.take(|pilot, clock| pilot.step(clock, seen));
        self.is_let_go();
        if !self.is_dead {
            self.is_held_back();
        }
        if self.host.now.saturating_sub(self.saved) >= 60 * SECOND {
            self.save();
        }
    }

    /// Within a few steps of one life, the pilot restores the first ceiling of a VM that it is no longer to set, or the
    /// host's parameter where a VM that is to be left alone follows it.
    fn is_let_go(&mut self) {
        let machine = &self.host.machine;
        let is_param_theirs = machine.theirs.contains_key(&Scope::Host);
        let is_shared = self.limits.parameters == Parameters::Shared;
        for of in &self.host.vms {
            let (key, vm) = (of.key, self.vms.get_mut(&of.key).unwrap());
            let is_left = of.polls_itself && !self.is_dead;
            vm.left_alone = if is_left { vm.left_alone + 1 } else { 0 };
            let (follows, now) = (machine.follows(key), machine.in_force(key));
            if vm.left_alone > 6 && !follows && !machine.is_theirs(key) {
                assert_eq!(now, vm.found_ns, "{key:?} is not to be set");
            }
            let is_changed = of.goal.is_none() && !is_shared && follows && !is_param_theirs;
            let is_changed = is_changed && now != vm.found_ns && !self.is_dead && !is_left;
            vm.not_restored = if is_changed { vm.not_restored + 1 } else { 0 };
            assert!(vm.not_restored <= 6, "{key:?} is to be left alone");
        }
    }

    /// A setting that has to go is restored within two readings.
    fn is_held_back(&mut self) {
        let machine = &self.host.machine;
        for (key, vm) in self.vms.iter().filter(|(key, _)| !machine.follows(**key)) {
            let now = (!machine.is_theirs(*key)).then_some(machine.in_force(*key));
            self.laws.stays(Scope::Vm(*key), now, vm.found_ns);
        }
        let is_theirs = machine.theirs.contains_key(&Scope::Host);
        let now = (!is_theirs).then_some(machine.param_ns);
        self.laws.stays(Scope::Host, now, machine.param_without());
    }

    fn save(&mut self) {
        if !self.is_dead {
            (self.disk, self.saved) = (self.host.pilot.memory(), self.host.now);
        }
    }

    /// Has the pilot decide, and does what it decided, as far as it lives.
    fn take(&mut self, decide: impl FnOnce(&mut Pilot<Modelled>, u64) -> Vec<Decision>) {
        if self.is_dead {
            return;
        }
        let clock = self.host.clock;
        let mut decisions = VecDeque::from(decide(&mut self.host.pilot, clock));
        while let Some(decision) = decisions.pop_front() {
            if !decision.kind.is_period() {
                self.save();
            }
            self.laws
                .decided(&decision, &self.host.machine, self.host.now);
            if decision.is_made {
                let Some(made) = self.make(&decision) else {
                    self.dies();
                    return;
                };
                decisions.extend(self.host.pilot.made(clock, &decision, made));
                if !decision.kind.is_period() {
                    self.save();
                }
            }
        }
        Laws::is_known(&self.host.machine);
        self.host.collect();
    }

    /// `None`: the daemon died over it.
    fn make(&mut self, decision: &Decision) -> Option<Result<(), Refusal>> {
        if matches!(decision.scope, Scope::Vm(key) if !self.host.has(key)) {
            return Some(Err(Refusal::Ended));
        }
        let full = || Refusal::Failed("no space left on device".to_owned());
        if self.befalls_one_in(300) {
            self.laws.refused(decision.scope);
            return Some(Err(full()));
        }
        let dies = self.befalls_one_in(400);
        if dies && self.one_in(2) {
            return None;
        }
        let change = decision.change.expect("what is made has a change");
        if let Err(refusal) = self.host.machine.set(decision.scope, &change) {
            return Some(Err(refusal));
        }
        if dies {
            return None;
        }
        self.laws.made(decision, self.host.now);
        // It is made, and that cannot be recorded.
        if self.befalls_one_in(600) {
            self.laws.refused(decision.scope);
            return Some(Err(full()));
        }
        Some(Ok(()))
    }

    /// The last word: a stop, then an undo, and everything is as it was.
    pub(crate) fn end(&mut self) {
        // A stop may be refused or die as any change may; what was tried is then undone by the next run.
        self.take(|pilot, _| pilot.stop());
        for (key, vm) in &self.vms {
            self.laws.ended(*key, vm, self.host.now);
        }
        self.laws.followed();
        self.host.machine.is_undone();
    }

    pub(crate) fn count(&self, kind: Kind) -> u64 {
        self.laws.counts.get(&kind).copied().unwrap_or(0)
    }
}

fn draw_below(draw: &mut SplitMix64, n: u64) -> usize {
    usize::try_from(draw.below(n)).unwrap()
}
