//! Days of a fleet: phases, VMs that come and go, people who write, clocks that step, readings that are impossible or
//! fail, changes that fail, and a daemon that dies anywhere.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use haltwise_core::pilot::Parameters;
use haltwise_core::pilot::decision::{Decision, Kind};
use haltwise_core::pilot::input::{Ceiling, Pressure, Scope};
use haltwise_core::workload::SplitMix64;

use super::load::{Load, Replays, one_of};
use super::settings::FOUND;
use super::world::{Answer, HOUR, OWN, SECOND, STEP, Vm, World, full};

const MINUTE: u64 = 60 * SECOND;

/// Days of each fleet.
const DAYS: u64 = 5;

/// A world in which loads stay as they are, and no other program sets anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calm {
    Quiet,
    /// Other tasks want the CPUs for ten minutes out of twenty.
    Pressed,
}

struct Fleet {
    draw: SplitMix64,
    world: World,
    calm: Option<Calm>,
    bias: f64,
    /// When the phase of a VM ends, when it can be read again, and when its guest polls no more.
    ends: BTreeMap<Scope, [u64; 3]>,
    /// Until when others want the CPUs, or keep them busy; how busy the host is, is not known; a `sched_ext` scheduler runs.
    until: [u64; 4],
    /// The kernel accounts no CPU pressure.
    has_no_psi: bool,
}

/// Each change is made, unless it fails, the journal's disk is full after it, or the daemon dies.
fn answers(mut draw: SplitMix64) -> impl FnMut(&Decision) -> Answer {
    move |decision| match draw.below(2_400) {
        0..8 => full(decision),
        8..12 => (true, full(decision).1),
        12..15 => (false, None),
        15..18 => (true, None),
        _ => (true, Some(Ok(()))),
    }
}

impl Fleet {
    fn new(seed: u64, calm: Option<Calm>) -> Self {
        let mut draw = SplitMix64(seed);
        // Most replays are right within a tenth; some are no better than a guess.
        let bias = one_of(&mut draw, [0.05, 0.1, 0.3, 1.5]);
        let mut world = World::new();
        (world.now, world.ahead, world.pilot) = (HOUR, HOUR, None);
        world.host.is_writable = draw.below(2) == 0;
        world.host.cpus = if seed.is_multiple_of(3) { 4 } else { 8 };
        // Where a look is dear, looks are seldom.
        world.look_ns = one_of(&mut draw, [0, 30_000_000, 300_000_000]);
        world.noise = Some(SplitMix64(draw.next_u64()));
        world.limits.max_poll_cpu_percent = seed.is_multiple_of(4).then_some(50.0);
        if calm.is_none() {
            world.answers = Some(Box::new(answers(SplitMix64(draw.next_u64()))));
        }
        let mut fleet = Self {
            draw,
            world,
            calm,
            bias,
            ends: BTreeMap::new(),
            until: [0; 4],
            has_no_psi: seed.is_multiple_of(5),
        };
        for _ in 0..=fleet.draw.below(3) {
            fleet.comes();
        }
        fleet
    }

    /// A time from now on, of at most so long.
    fn within(&mut self, ns: u64) -> u64 {
        self.world.now + self.draw.below(ns)
    }

    fn comes(&mut self) {
        let ceilings = [Ceiling::Own(50_000), Ceiling::Fixed, Ceiling::Follows];
        let ceiling = one_of(&mut self.draw, ceilings);
        let load = Load::draw(&mut self.draw);
        let vm = self.world.comes(load, ceiling);
        if self.draw.below(20) == 0 {
            self.world.vm(vm).seen.goal = None;
        }
        self.begins(vm, 60.0 * load.cost(FOUND));
    }

    /// A phase of a minute to hours begins, whose first minute costs so much.
    fn begins(&mut self, vm: Scope, unknown: f64) {
        let length = MINUTE * one_of(&mut self.draw, [1, 3, 10, 60, 600]);
        self.ends.entry(vm).or_default()[0] = self.within(length) + length / 2;
        self.world.vm(vm).costs.unknown += unknown;
        if self.world.settings.get(vm).own.is_none() {
            self.world.laws.following.unknown += unknown;
        }
    }

    fn day(&mut self) {
        let end = self.world.now + 24 * HOUR;
        while self.world.now < end {
            if self.world.pilot.is_none() {
                self.lives();
            }
            if self.world.turn() {
                self.happens();
                self.loads();
                self.world.reads();
                if self.world.now.is_multiple_of(MINUTE) && self.world.pilot.is_some() {
                    self.world.disk = self.world.pilot().memory();
                }
            }
        }
    }

    fn lives(&mut self) {
        self.world.limits.may_act = true;
        // Figures that are differences take two readings, and some take longer.
        self.until[2] = self.within(MINUTE) + STEP;
        let evidence = Replays::wrong_by(self.bias, self.draw.next_u64());
        self.world.starts(evidence, self.draw.next_u64());
        self.loads();
        self.world.reads_with(false);
    }

    /// CPUs that VMs and others keep busy, how long tasks wait for one, and which VMs can be read.
    fn loads(&mut self) {
        let now = self.world.now;
        let [is_pressed, is_busy, is_unknown, is_sched_ext] = self.until.map(|until| now < until);
        let cpus = f64::from(self.world.host.cpus);
        let others = if is_busy { cpus - 0.5 } else { cpus / 4.0 };
        let busy = (self.world.polled_percent() / 100.0 + others).min(cpus);
        let host = &mut self.world.host;
        host.busy_cpus = (!is_unknown).then_some(busy);
        host.sched_ext = is_sched_ext;
        host.cpu_pressure = match () {
            () if self.has_no_psi => Pressure::NotThere,
            () if is_unknown => Pressure::NotYet,
            () => Pressure::Share(if is_pressed { 0.4 } else { 0.01 }),
        };
        for vm in &mut self.world.vms {
            let [_, blind, polls] = self.ends[&vm.scope()];
            (vm.is_blind, vm.seen.polls_itself) = (blind > now, polls > now);
        }
    }

    fn happens(&mut self) {
        if let Some(calm) = self.calm {
            let is_pressed = calm == Calm::Pressed && self.world.now / MINUTE % 20 < 10;
            self.until[0] = if is_pressed { u64::MAX } else { 0 };
            return;
        }
        let vms = self.world.vms.iter().map(Vm::scope);
        for vm in vms.collect::<Vec<_>>() {
            self.happens_to(vm);
        }
        if self.ends.len() < 4 && self.draw.below(8_000) == 0 {
            self.comes();
        }
        let is_untouched = self.world.settings.get(Scope::Host).entry.is_none();
        match self.draw.below(100_000) {
            0 if self.world.host.is_writable => self.is_set_by_another(Scope::Host),
            1..3 => self.world.settings.undo(),
            3..8 => self.until[3] = self.within(HOUR),
            8..41 => self.until[0] = self.within(HOUR),
            41..74 => self.until[1] = self.within(HOUR),
            74..107 => self.until[2] = self.within(MINUTE),
            107..120 => self.world.ahead += self.draw.below(3 * HOUR),
            120..132 => self.world.ahead -= self.draw.below(20 * SECOND),
            132..157 => self.world.dies(),
            157..207 => self.reads_again(),
            // A read-only parameter is the kernel's to set at boot alone; in others' hands it may be anything.
            207..217 if is_untouched => self.world.grow_is_set_by_another(),
            _ => {}
        }
    }

    fn happens_to(&mut self, vm: Scope) {
        let ends = &self.ends[&vm];
        if ends[0] <= self.world.now {
            let load = Load::draw(&mut self.draw);
            self.world.vm(vm).load = load;
            self.begins(vm, 60.0 * load.cost(1_000_000).max(load.cost(0)));
        }
        match self.draw.below(20_000) {
            0 => {
                self.ends.remove(&vm);
                self.world.goes(vm);
            }
            1 if !self.world.settings.get(vm).is_fixed => self.is_set_by_another(vm),
            2..12 => self.ends.get_mut(&vm).unwrap()[1] = self.within(20 * MINUTE),
            12..16 => self.ends.get_mut(&vm).unwrap()[2] = self.within(HOUR),
            _ => {}
        }
    }

    fn is_set_by_another(&mut self, scope: Scope) {
        let ns = 1_000 * u32::try_from(self.draw.below(300)).unwrap();
        self.world.settings.is_set_by_another(scope, ns);
    }

    /// A configuration that is read again forbids to act, or allows it again (the next life may), or has another limit.
    fn reads_again(&mut self) {
        let draw = &mut self.draw;
        let all = [Parameters::Unshared, Parameters::Never, Parameters::Shared];
        self.world.limit(|limits| match draw.below(4) {
            0 => limits.may_act = !limits.may_act,
            1 => limits.max_ceiling_ns = one_of(draw, [2_000_000, 200_000, 30_000]),
            2 => limits.max_poll_cpu_percent = one_of(draw, [None, Some(20.0), Some(80.0)]),
            _ => limits.parameters = one_of(draw, all),
        });
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Lets some days of so many fleets pass, or of the one whose seed is given.
fn run(fleets: u64, calm: Option<Calm>) -> impl Iterator<Item = World> {
    let seeds = number("HALTWISE_SEED").map_or(1..1 + fleets, |seed| seed..seed + 1);
    let ran = move |seed| {
        let mut fleet = Fleet::new(seed, calm);
        (0..DAYS).for_each(|_| fleet.day());
        let mut world = fleet.world;
        if world.pilot.is_some() {
            world.stops();
        }
        world.ends();
        world
    };
    seeds.map(move |seed| {
        let world = catch_unwind(AssertUnwindSafe(|| ran(seed)));
        world.unwrap_or_else(|_| panic!("HALTWISE_SEED={seed} repeats it ({calm:?})"))
    })
}

#[test]
fn whatever_happens_the_laws_hold() {
    let days = number("HALTWISE_DAYS").unwrap_or(100);
    let (mut kept, mut actual, mut found) = (0, 0.0, 0.0);
    for world in run(days.div_ceil(DAYS), None) {
        kept += world.count(Kind::Keep);
        (actual, found) = (actual + world.laws.all.actual, found + world.laws.all.found);
    }
    let gain = 100.0 * (1.0 - actual / found);
    println!("{days} days: {kept} kept; cost {gain:.1} % less than as found");
    assert!(kept > 0 && gain > 0.0, "it is of use");
}

/// Whatever predictions are off by, and whether others want the CPUs now and then.
#[test]
fn while_loads_stay_as_they_are_no_setting_goes_back_and_forth() {
    let days = number("HALTWISE_DAYS").map_or(80, |days| days.div_ceil(5));
    for calm in [Calm::Quiet, Calm::Pressed] {
        let mut kept = 0;
        for world in run(days.div_ceil(2 * DAYS), Some(calm)) {
            world.laws.are_settled();
            kept += world.count(Kind::Keep);
        }
        assert!(kept > 0 || number("HALTWISE_SEED").is_some());
    }
}

/// Two days of ten VMs; loads stay for ten minutes or so, and each hour a VM goes and another comes. The first day fills what has
/// a bound: values in the Debug output, and bytes kept on disk.
#[test]
fn the_memory_held_for_vms_that_come_and_go_does_not_grow() {
    const VMS: usize = 10;
    let mut draw = SplitMix64(1);
    let mut world = World::with(FOUND, Replays::wrong_by(0.1, 1));
    for _ in 0..VMS {
        world.comes(Load::draw(&mut draw), Ceiling::Follows);
    }
    let mut days = [[0; 2]; 2];
    for hour in 0..48 {
        let place = usize::try_from(draw.below(VMS as u64)).unwrap();
        world.goes(world.vms[place].scope());
        world.comes(
            Load::draw(&mut draw),
            if hour % 2 == 0 { OWN } else { Ceiling::Follows },
        );
        for _ in 0..HOUR / STEP {
            for vm in &mut world.vms {
                if draw.below(60) == 0 {
                    vm.load = Load::draw(&mut draw);
                }
            }
            world.pass(1);
        }
        let standing = world.pilot().standing();
        assert!(standing.halts_held <= 131_072, "{}", standing.halts_held);
        assert_eq!(standing.vms.len(), VMS);
        let values = format!("{:?}", world.pilot).matches(',').count();
        let kept = serde_json::to_string(&world.pilot().memory()).unwrap();
        let day = &mut days[hour / 24];
        (day[0], day[1]) = (day[0] + values, day[1] + kept.len());
    }
    let [first, then] = days;
    let is_bounded = |of: usize| then[of] <= first[of] + first[of] / 4;
    assert!(is_bounded(0) && is_bounded(1), "{days:?}");
    assert!(world.count(Kind::Keep) > 3, "it was at work");
}
