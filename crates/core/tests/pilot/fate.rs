//! Days of a fleet: phases, VMs that come and go, people who write, clocks that step, readings that are not true or fail,
//! changes that fail, and a daemon that dies anywhere.

use std::collections::BTreeMap;

use haltwise_core::ids::VmKey;
use haltwise_core::pilot::decision::Refusal;
use haltwise_core::pilot::input::{Ceiling, Pressure, Scope};
use haltwise_core::pilot::{Limits, Parameters};
use haltwise_core::workload::SplitMix64;

use super::law::HOUR;
use super::model::{Load, Modelled, one_of};
use super::world::{Answer, FOUND_NS, SECOND, STEP, World, acts, full};

const MINUTE: u64 = 60 * SECOND;

/// A world in which loads stay as they are, and no other program sets anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calm {
    /// Nothing else happens either.
    Quiet,
    /// Others want the CPUs for ten minutes out of twenty.
    Pressed,
}

/// When what befalls a VM is over: its phase, readings that fail, and polling by its guest.
type Ends = [u64; 3];

pub(crate) struct Fate {
    draw: SplitMix64,
    pub(crate) world: World,
    calm: Option<Calm>,
    bias: f64,
    limits: Limits,
    ends: BTreeMap<VmKey, Ends>,
    pressure_until: u64,
    /// Others keep most of the CPUs busy.
    busy_until: u64,
    /// How busy the host is, is not known.
    unknown_until: u64,
    sched_ext_until: u64,
    /// The kernel accounts no CPU pressure.
    has_no_psi: bool,
    pub(crate) lives: u64,
}

/// Each change is made, unless it fails, the journal's disk is full after it, or the daemon dies.
fn answers(
    mut draw: SplitMix64,
) -> impl FnMut(&haltwise_core::pilot::decision::Decision) -> Answer {
    move |_| match draw.below(2_400) {
        0..8 => full(),
        8..12 => Answer::MadeAndRefused(Refusal::Failed("no space left on device".to_owned())),
        12..15 => Answer::Dies { is_made: false },
        15..18 => Answer::Dies { is_made: true },
        _ => Answer::Made,
    }
}

impl Fate {
    pub(crate) fn new(seed: u64, calm: Option<Calm>) -> Self {
        let mut draw = SplitMix64(seed);
        // Most replays are right within a tenth; some are no better than a guess.
        let bias = one_of(&mut draw, [0.05, 0.1, 0.3, 1.5]);
        let mut world = World::new();
        (world.now, world.clock, world.is_dead) = (HOUR, HOUR, true);
        world.state.is_writable = draw.below(2) == 0;
        world.state.cpus = if seed.is_multiple_of(3) { 4 } else { 8 };
        // Where it is dear, looks are seldom.
        world.look_ns = [0, 30_000_000, 300_000_000][usize::try_from(seed % 3).unwrap()];
        world.noise = Some(SplitMix64(draw.next_u64()));
        if calm.is_none() {
            (world.lies, world.answers) = (true, Box::new(answers(SplitMix64(draw.next_u64()))));
        }
        let limits = Limits {
            max_poll_cpu_percent: seed.is_multiple_of(4).then_some(50.0),
            ..acts()
        };
        let mut fate = Self {
            draw,
            world,
            calm,
            bias,
            limits,
            ends: BTreeMap::new(),
            pressure_until: 0,
            busy_until: 0,
            unknown_until: 0,
            sched_ext_until: 0,
            has_no_psi: seed.is_multiple_of(5),
            lives: 0,
        };
        for _ in 0..=fate.draw.below(3) {
            fate.comes();
        }
        fate
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.draw.below(n) == 0
    }

    /// A time from now on, of at most so long.
    fn within(&mut self, ns: u64) -> u64 {
        self.world.now + self.draw.below(ns)
    }

    fn comes(&mut self) {
        let ceiling = one_of(
            &mut self.draw,
            [Ceiling::Own(50_000), Ceiling::Fixed, Ceiling::Follows],
        );
        let load = Load::draw(&mut self.draw);
        let key = self.world.comes(load, ceiling);
        if self.one_in(20) {
            self.world.vm(key).goal = None;
        }
        self.begins(key, 60.0 * load.per_s(FOUND_NS));
    }

    /// A phase begins, of a minute to hours, whose first minute costs so much.
    fn begins(&mut self, key: VmKey, unknown: f64) {
        let length = MINUTE * one_of(&mut self.draw, [1, 3, 10, 60, 600]);
        let until = self.within(length) + length / 2;
        self.ends.entry(key).or_default()[0] = until;
        self.world.vm(key).costs.unknown += unknown;
        if self.world.machine.of(Scope::Vm(key)).own.is_none() {
            self.world.laws.following.unknown += unknown;
        }
    }

    pub(crate) fn day(&mut self) {
        let end = self.world.now + 24 * HOUR;
        while self.world.now < end {
            if self.world.is_dead {
                self.lives();
            }
            if self.world.turn() {
                self.befalls();
                self.loads();
                self.world.reads();
                if self.world.now.is_multiple_of(6 * STEP) && !self.world.is_dead {
                    self.world.disk = self.world.pilot.memory();
                }
            }
        }
    }

    fn lives(&mut self) {
        self.lives += 1;
        self.limits.may_act = true;
        // Figures that are differences take two readings, and some take longer.
        self.unknown_until = self.within(MINUTE) + STEP;
        let evidence = Modelled::wrong_by(self.bias, self.draw.next_u64());
        let seed = self.draw.next_u64();
        self.world.starts(evidence, self.limits.clone(), seed);
        self.loads();
        self.world.reads_with(false);
    }

    /// CPUs that are busy with what all VMs poll and with others, how long tasks wait for one, and which VMs can be read.
    fn loads(&mut self) {
        let now = self.world.now;
        let most = f64::from(self.world.state.cpus);
        let others = if now < self.busy_until {
            most - 0.5
        } else {
            most / 4.0
        };
        let busy = (self.world.polled_percent() / 100.0 + others).min(most);
        let state = &mut self.world.state;
        state.busy_cpus = (now >= self.unknown_until).then_some(busy);
        state.sched_ext = now < self.sched_ext_until;
        state.cpu_pressure = match () {
            () if self.has_no_psi => Pressure::NotThere,
            () if now < self.unknown_until => Pressure::NotYet,
            () if now < self.pressure_until => Pressure::Share(0.4),
            () => Pressure::Share(0.01),
        };
        for vm in &mut self.world.vms {
            let [_, blind, own] = self.ends[&vm.key];
            (vm.stands_still, vm.polls_itself) = (blind > now, own > now);
        }
    }

    fn befalls(&mut self) {
        let now = self.world.now;
        match self.calm {
            Some(Calm::Quiet) => return,
            Some(Calm::Pressed) => {
                let is_pressed = now / MINUTE % 20 < 10;
                self.pressure_until = if is_pressed { u64::MAX } else { 0 };
                return;
            }
            None => {}
        }
        let keys: Vec<VmKey> = self.world.vms.iter().map(|vm| vm.key).collect();
        for key in keys {
            self.befalls_vm(key);
        }
        if self.ends.len() < 4 && self.one_in(8_000) {
            self.comes();
        }
        match self.draw.below(100_000) {
            0 if self.world.state.is_writable => self.is_set_by_human(Scope::Host),
            1..3 => self.world.machine.is_undone_by_human(),
            3..8 => self.sched_ext_until = self.within(HOUR),
            8..41 => self.pressure_until = self.within(HOUR),
            41..74 => self.busy_until = self.within(HOUR),
            74..107 => self.unknown_until = self.within(MINUTE),
            107..120 => self.world.clock += self.draw.below(3 * HOUR),
            120..132 => self.world.clock -= self.draw.below(20 * SECOND),
            132..157 => self.world.dies(),
            157..207 => self.reads_again(),
            _ => {}
        }
    }

    fn befalls_vm(&mut self, key: VmKey) {
        if self.ends[&key][0] <= self.world.now {
            let load = Load::draw(&mut self.draw);
            self.world.vm(key).load = load;
            self.begins(key, 60.0 * load.per_s(1_000_000).max(load.per_s(0)));
        }
        let is_settable = self.world.machine.of(Scope::Vm(key)).is_settable;
        match self.draw.below(20_000) {
            0 => {
                self.ends.remove(&key);
                self.world.goes(key);
            }
            1 if is_settable => self.is_set_by_human(Scope::Vm(key)),
            2..12 => self.ends.get_mut(&key).unwrap()[1] = self.within(20 * MINUTE),
            12..16 => self.ends.get_mut(&key).unwrap()[2] = self.within(HOUR),
            _ => {}
        }
    }

    fn is_set_by_human(&mut self, scope: Scope) {
        let theirs = 1_000 * u32::try_from(self.draw.below(300)).unwrap();
        self.world.machine.is_set_by_human(scope, theirs);
    }

    /// A configuration that is read again forbids to act, or allows it again (the next life may), or has another limit.
    fn reads_again(&mut self) {
        let (draw, limits) = (&mut self.draw, &mut self.limits);
        match draw.below(4) {
            0 => limits.may_act = !limits.may_act,
            1 => limits.max_ceiling_ns = one_of(draw, [2_000_000, 200_000, 30_000]),
            2 => limits.max_poll_cpu_percent = one_of(draw, [None, Some(20.0), Some(80.0)]),
            _ => {
                let all = [Parameters::Unshared, Parameters::Never, Parameters::Shared];
                limits.parameters = one_of(draw, all);
            }
        }
        self.world.limit(self.limits.clone());
    }

    /// The last word: a stop, then an undo, and everything is as it was.
    pub(crate) fn end(&mut self) {
        // A stop may be refused or die as any change may; what was tried is then undone by the next run.
        let world = &mut self.world;
        if !world.is_dead {
            let decisions = world.pilot.stop();
            world.carry_out(decisions);
        }
        for vm in &world.vms {
            world.laws.ended(vm, world.now);
        }
        world.laws.followed();
        world.machine.can_be_undone();
    }
}
