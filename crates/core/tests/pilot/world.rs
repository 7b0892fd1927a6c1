//! Days of a fleet: phases, VMs that come and go, humans who write, clocks that step, readings that lie or stop, changes
//! that fail, and a daemon that dies anywhere.

use std::collections::BTreeMap;

use haltwise_core::ids::{Pid, VmKey};
use haltwise_core::pilot::decision::{Decision, Kind, Refusal, Wanted};
use haltwise_core::pilot::input::{Ceiling, Counts, Held, HostSeen, Pressure, Scope, Seen, VmSeen};
use haltwise_core::pilot::memory::Memory;
use haltwise_core::pilot::{Goal, Limits, Parameters, Pilot};
use haltwise_core::workload::SplitMix64;

use super::journal::Machine;
use super::law::{self, Laws};
use super::model::{Chunk, Load, Modelled, knobs, setup};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const STEP: u64 = 10 * SECOND;
const HOUR: u64 = 3_600 * SECOND;

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
    /// The pilot is to leave it alone; the host's parameter has not been what it was for so many steps of one life.
    is_left_alone: bool,
    not_restored: u32,
    /// The ceiling that counts as found: while it follows the parameter, what that would be without the pilot.
    found_ns: u32,
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
    is_writable: bool,
    pub(crate) machine: Machine,
    pub(crate) vms: BTreeMap<VmKey, SimVm>,
    next_pid: u32,
    pressure_until: u64,
    sched_ext_until: u64,
    /// CPUs, and until when others keep most of them busy.
    cpus: u32,
    busy_until: u64,
    /// The kernel accounts no CPU pressure.
    has_no_psi: bool,
    /// How busy the host is, is not known until then.
    unknown_until: u64,
    limits: Limits,
    /// Nothing befalls it but what it is made for.
    calm: Option<Calm>,
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

/// A world in which loads stay as they are, and nobody interferes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calm {
    /// Nothing else either.
    Quiet,
    /// Others want the CPUs for ten minutes out of twenty.
    Pressed,
}

impl World {
    /// A world in which loads stay as they are.
    pub(crate) fn calm(seed: u64, calm: Calm) -> Self {
        let mut world = Self::new(seed);
        world.calm = Some(calm);
        world
    }

    pub(crate) fn new(seed: u64) -> Self {
        let mut draw = SplitMix64(seed);
        // Most replays are right within a tenth; some are no better than a guess.
        let bias = [0.05, 0.1, 0.3, 1.5][usize::try_from(draw.below(4)).unwrap()];
        let is_writable = draw.below(2) == 0;
        let mut world = Self {
            draw,
            now: HOUR,
            clock: HOUR,
            is_writable,
            machine: Machine::new(),
            vms: BTreeMap::new(),
            next_pid: 100,
            pressure_until: 0,
            sched_ext_until: 0,
            cpus: if seed.is_multiple_of(3) { 4 } else { 8 },
            busy_until: 0,
            has_no_psi: seed.is_multiple_of(5),
            unknown_until: 0,
            limits: Limits {
                may_act: true,
                max_poll_cpu_percent: seed.is_multiple_of(4).then_some(50.0),
                ..Limits::default()
            },
            calm: None,
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

    /// Of what befalls a world that is not calm.
    fn befalls_one_in(&mut self, n: u64) -> bool {
        self.one_in(n) && self.calm.is_none()
    }

    fn comes(&mut self) {
        let key = VmKey {
            pid: Pid(self.next_pid),
            start_ticks: self.now / SECOND,
            ordinal: 0,
        };
        self.next_pid += 1;
        let own = self.one_in(4).then_some(50_000);
        let is_fixed = own.is_none() && self.one_in(2);
        self.machine.comes(key, own, is_fixed);
        let load = Load::draw(&mut self.draw);
        let phase_until = self.now + self.phase();
        let vm = SimVm {
            load,
            phase_until,
            blind_until: 0,
            own_until: 0,
            left_alone: 0,
            came_ns: self.now,
            is_left_alone: self.one_in(20),
            not_restored: 0,
            found_ns: self.machine.without(key),
            actual: 0.0,
            found: 0.0,
            unknown: 60.0 * load.per_s(200_000),
            phases: 1,
        };
        if own.is_none() {
            self.laws.following.unknown += vm.unknown;
        }
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
        self.collecting = None;
        self.limits.may_act = true;
        // Figures that are differences take two readings, and some take longer.
        self.unknown_until = self.now + STEP + self.draw.below(60 * SECOND);
        let evidence = Modelled {
            bias: self.bias,
            seed: SplitMix64(self.draw.next_u64()),
        };
        let mut setup = setup(evidence, self.disk.clone(), self.draw.next_u64());
        setup.limits = self.limits.clone();
        self.pilot = Some(Pilot::new(setup));
        let seen = self.read(false);
        self.take(|pilot, clock| pilot.step(clock, seen));
    }

    fn pass(&mut self, ns: u64) {
        self.now += ns;
        self.clock += ns;
        let seconds = ns as f64 / 1e9;
        for (key, vm) in &mut self.vms {
            if self.machine.is_theirs(*key) || vm.is_left_alone {
                continue;
            }
            let follows = self.machine.follows(*key);
            if follows {
                vm.found_ns = self.machine.param_without();
            }
            let actual = seconds * vm.load.per_s(self.machine.in_force(*key));
            let found = seconds * vm.load.per_s(vm.found_ns);
            if !follows {
                (vm.actual, vm.found) = (vm.actual + actual, vm.found + found);
            } else if vm.own_until <= self.now {
                // By themselves they may lose where others gain more.
                self.laws.following.add(actual, found);
            }
        }
    }

    fn fate(&mut self) {
        match self.calm {
            Some(Calm::Quiet) => return,
            Some(Calm::Pressed) => {
                let minute = self.now / (60 * SECOND);
                self.pressure_until = if minute % 20 < 10 { u64::MAX } else { 0 };
                return;
            }
            None => {}
        }
        let keys: Vec<VmKey> = self.vms.keys().copied().collect();
        for key in keys {
            let is_over = self.vms[&key].phase_until <= self.now;
            if is_over {
                let (load, length) = (Load::draw(&mut self.draw), self.phase());
                let vm = self.vms.get_mut(&key).unwrap();
                (vm.load, vm.phase_until) = (load, self.now + length);
                let unknown = 60.0 * load.per_s(1_000_000).max(load.per_s(0));
                vm.unknown += unknown;
                vm.phases += 1;
                if self.machine.follows(key) {
                    self.laws.following.unknown += unknown;
                }
            }
            let fate = self.draw.below(20_000);
            if fate == 0 {
                self.goes(key);
            } else if fate == 1 {
                let theirs = 1_000 * u32::try_from(self.draw.below(300)).unwrap();
                if !self.machine.fixed.contains(&key) {
                    self.machine.is_set_by_human(Scope::Vm(key), theirs);
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
        if self.one_in(3_000) {
            self.busy_until = self.now + self.draw.below(HOUR);
        }
        if self.one_in(3_000) {
            self.unknown_until = self.now + self.draw.below(60 * SECOND);
        }
        if self.is_writable && self.one_in(100_000) {
            let theirs = 1_000 * u32::try_from(self.draw.below(300)).unwrap();
            self.machine.is_set_by_human(Scope::Host, theirs);
        }
        if self.one_in(50_000) {
            self.machine.is_undone_by_human();
        }
        if self.one_in(20_000) {
            self.sched_ext_until = self.now + self.draw.below(HOUR);
        }
        match self.draw.below(8_000) {
            0 => self.clock += self.draw.below(3 * HOUR),
            1 => self.clock -= self.draw.below(20 * SECOND),
            2 | 3 => self.dies(),
            4..8 => self.reload(),
            _ => {}
        }
    }

    /// A configuration that is read again forbids to act, or allows it again (the next life may), or has another limit.
    fn reload(&mut self) {
        let one_of = usize::try_from(self.draw.below(3)).unwrap();
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

    /// The daemon is killed, and whoever undoes then what it did finds everything as it was.
    fn dies(&mut self) {
        self.pilot = None;
        self.laws.dies();
        self.machine.is_undone();
    }

    fn goes(&mut self, key: VmKey) {
        if let Some(vm) = self.vms.remove(&key) {
            self.laws.ended(key, &vm, &self.machine, self.now);
        }
        self.machine.goes(key);
    }

    fn held(&self, scope: Scope) -> Option<Held<u32>> {
        let entry = self.machine.journal.get(&scope)?;
        let param = self.machine.journal.get(&Scope::Host);
        let followed = param.map_or(self.machine.param_ns, |param| param.before);
        Some(Held {
            before: if entry.followed {
                followed
            } else {
                entry.before
            },
            ours: entry.ours,
        })
    }

    fn read(&mut self, counted: bool) -> Seen {
        let mut vms = Vec::new();
        let keys: Vec<VmKey> = self.vms.keys().copied().collect();
        for key in keys {
            let lies = self.befalls_one_in(1_000);
            let noise = 0.95 + 0.1 * self.draw.unit();
            let vm = &self.vms[&key];
            let counts = counts(&vm.load, self.machine.in_force(key), noise, lies);
            let ceiling = match self.machine.ceilings[&key] {
                _ if self.machine.fixed.contains(&key) => Ceiling::Fixed(None),
                own => own.map_or(Ceiling::Follows, Ceiling::Own),
            };
            vms.push(VmSeen {
                key,
                name: format!("vm-{}", key.pid),
                vcpus: 1,
                goal: (!vm.is_left_alone).then(Goal::default),
                ceiling,
                held: self.held(Scope::Vm(key)),
                has_answered: true,
                polls_itself: vm.own_until > self.now,
                counts: (counted && vm.blind_until <= self.now).then_some(counts),
            });
        }
        let host = HostSeen {
            knobs: Some(knobs(self.machine.param_ns)),
            is_writable: self.is_writable,
            held: self.held(Scope::Host).map(|held| Held {
                before: knobs(held.before),
                ours: knobs(held.ours),
            }),
            cpus: self.cpus,
            busy_cpus: self.busy_cpus(),
            cpu_pressure: self.cpu_pressure(),
            sched_ext: self.now < self.sched_ext_until,
            own_cpu_ns: self.own_cpu_ns,
        };
        let param = Some(self.machine.param_ns);
        let alone =
            |vm: &VmSeen| vm.goal.is_none() && !vm.polls_itself && vm.ceiling.follows(param);
        self.laws.limits = self.limits.clone();
        self.laws.read(&host, vms.iter().any(alone));
        self.laws.polled = law::polled(&vms);
        Seen { host, vms, counted }
    }

    /// What all VMs poll, and what others take.
    fn busy_cpus(&self) -> Option<f64> {
        let vms = self.vms.iter();
        let polled = vms.map(|(key, vm)| vm.load.polled_cpus(self.machine.in_force(*key)));
        let most = f64::from(self.cpus);
        let others = if self.now < self.busy_until {
            most - 0.5
        } else {
            most / 4.0
        };
        (self.now >= self.unknown_until).then(|| (polled.sum::<f64>() + others).min(most))
    }

    fn cpu_pressure(&self) -> Pressure {
        match () {
            () if self.has_no_psi => Pressure::NotThere,
            () if self.now < self.unknown_until => Pressure::NotYet,
            () if self.now < self.pressure_until => Pressure::Share(0.4),
            () => Pressure::Share(0.01),
        }
    }

    fn step(&mut self) {
        if self.pilot.is_none() {
            return;
        }
        let seen = self.read(true);
        self.take(|pilot, clock| pilot.step(clock, seen));
        self.is_let_go();
        self.is_held_back();
        if self.now.saturating_sub(self.saved) >= 60 * SECOND {
            self.save();
        }
    }

    /// Of a VM that it is no longer to set it restores what was there first, within a few steps of one life; the host's
    /// parameter, where a VM follows it that is to be left alone.
    fn is_let_go(&mut self) {
        let lives = self.pilot.is_some();
        let is_param_theirs = self.machine.theirs.contains_key(&Scope::Host);
        for (key, vm) in &mut self.vms {
            let is_left = vm.own_until > self.now && lives;
            vm.left_alone = if is_left { vm.left_alone + 1 } else { 0 };
            let follows = self.machine.follows(*key);
            let now = self.machine.in_force(*key);
            if vm.left_alone > 6 && !follows && !self.machine.is_theirs(*key) {
                assert_eq!(now, vm.found_ns, "{key:?} is not to be set");
            }
            let is_shared = self.limits.parameters == Parameters::Shared;
            let is_changed = vm.is_left_alone && !is_shared && follows && !is_param_theirs;
            let is_changed = is_changed && now != vm.found_ns && lives && !is_left;
            vm.not_restored = if is_changed { vm.not_restored + 1 } else { 0 };
            assert!(vm.not_restored <= 6, "{key:?} is to be left alone");
        }
    }

    /// What has to go is restored within two readings.
    fn is_held_back(&mut self) {
        if self.pilot.is_none() {
            return;
        }
        let machine = &self.machine;
        for (key, vm) in self.vms.iter().filter(|(key, _)| !machine.follows(**key)) {
            let now = (!machine.is_theirs(*key)).then_some(machine.in_force(*key));
            self.laws.stays(Scope::Vm(*key), now, vm.found_ns);
        }
        let is_theirs = machine.theirs.contains_key(&Scope::Host);
        let now = (!is_theirs).then_some(machine.param_ns);
        self.laws.stays(Scope::Host, now, machine.param_without());
    }

    fn save(&mut self) {
        if let Some(pilot) = &self.pilot {
            (self.disk, self.saved) = (pilot.memory(), self.now);
        }
    }

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
                halts: 1,
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
                    self.dies();
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
        if let Scope::Vm(key) = decision.scope
            && !self.vms.contains_key(&key)
        {
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
        if let Err(refusal) = self.machine.set(decision.scope, &change) {
            return Some(Err(refusal));
        }
        if dies {
            return None;
        }
        self.laws.made(decision, self.now);
        // It is made, and that cannot be recorded.
        if self.befalls_one_in(600) {
            self.laws.refused(decision.scope);
            return Some(Err(full()));
        }
        Some(Ok(()))
    }

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
        self.laws.followed();
        self.machine.is_undone();
    }

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
