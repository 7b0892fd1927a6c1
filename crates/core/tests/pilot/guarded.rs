//! Guards against more polling that no single decision shows; a pilot that only observes; goals, savings, and what the host's
//! parameter is set for.

use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Scope};
use haltwise_core::pilot::memory::Proven;
use haltwise_core::pilot::{Limits, Parameters};
use haltwise_core::stats::Interval;

use super::load::{EACH_15_US, EACH_150_US, Load, Replays, TICKING, load};
use super::settings::FOUND;
use super::world::{FREE, OFF, OWN, PRESSED, STEP, World, acts, density, full};

/// Best polled, for so much of a CPU.
fn polls(percent: f64) -> Load {
    load(percent / 100.0 * 1e9 / EACH_15_US.gap_ns, EACH_15_US.gap_ns)
}

/// A VM, or the host's parameter, whose setting was kept.
fn kept(load: Load, ceiling: Ceiling) -> (World, Scope) {
    let mut world = World::new();
    let vm = world.comes(load, ceiling);
    let is_host = ceiling == Ceiling::Fixed;
    world.until(if is_host { Scope::Host } else { vm }, Kind::Keep);
    (world, vm)
}

#[test]
fn a_lower_ceiling_that_polls_more_is_restored_under_cpu_pressure() {
    // By what its trial was to change, and by a look.
    for steps in [0, 60] {
        let mut replays = Replays::wrong_by(0.0, 1);
        replays.is_inverted = true;
        let mut world = World::with(FOUND, replays);
        let vm = world.comes(EACH_150_US, OWN);
        world.until(vm, Kind::Keep);
        world.pass(steps);
        world.host.cpu_pressure = FREE;
        world.pass(2);
        assert_eq!(world.count(Kind::Restore), 0, "{:?}", world.decisions);
        world.host.cpu_pressure = PRESSED;
        world.pass(1);
        assert_eq!(world.at(vm), FOUND);
    }
}

/// It is not set again, and a higher ceiling that was found is not the pilot's.
#[test]
fn a_ceiling_above_a_lowered_limit_is_restored() {
    let (mut world, kept) = kept(EACH_15_US, OFF);
    let found = world.comes(EACH_15_US, OWN);
    assert_eq!(world.at(kept), 40_000);
    for (max_ceiling_ns, restored) in [(40_000, 0), (39_999, 1)] {
        world.limit(|limits| limits.max_ceiling_ns = max_ceiling_ns);
        assert_eq!(world.count(Kind::Restore), restored);
    }
    world.pass(360);
    assert_eq!((world.at(kept), world.at(found)), (0, FOUND));
}

/// Nothing is cheaper than what was found here, whatever replays say.
#[test]
fn what_was_predicted_to_gain_and_does_not_is_not_kept() {
    let mut world = World::with(0, Replays::wrong_by(1.5, 1));
    let vm = world.comes(EACH_150_US, OFF);
    world.pass(720);
    assert!(world.has(vm, &[Kind::GoBack]), "{:?}", world.decisions);
    assert_eq!(world.count(Kind::Keep), 0, "{:?}", world.decisions);
}

/// Lets two hours pass, in which polling never reaches the limit; gives the polling then.
fn polled_within(world: &mut World, limit: f64) -> f64 {
    world.limit(|limits| limits.max_poll_cpu_percent = Some(limit));
    for _ in 0..720 {
        world.pass(1);
        let polled = world.polled_percent();
        assert!(polled < limit, "{polled} {:?}", world.decisions);
    }
    world.polled_percent()
}

/// Where each is asked for itself, two of 40 % are within a limit of 50 %. With a higher limit there is room.
#[test]
fn what_polls_together_stays_within_the_limit() {
    let mut world = World::new();
    for percent in [40.0, 40.0, 5.0] {
        world.comes(polls(percent), OFF);
    }
    for (limit, least) in [(50.0, 45.0), (100.0, 85.0)] {
        let polled = polled_within(&mut world, limit);
        assert!((least..least + 1.0).contains(&polled), "{polled}");
        assert_eq!(world.count(Kind::Restore), 0, "{:?}", world.decisions);
    }
}

/// Both were proven, and are set again without a trial, which the same reading may do.
#[test]
fn what_is_set_again_at_once_stays_within_the_limit_together() {
    let mut world = World::new();
    let vms = [0, 1].map(|_| world.comes(polls(40.0), OFF));
    let set = |world: &mut World, load| vms.map(|vm| world.vm(vm).load = load);
    for (load, kind) in [(polls(40.0), Kind::Keep), (EACH_150_US, Kind::Restore)] {
        set(&mut world, load);
        world.turn_until(|world| vms.iter().all(|vm| world.has(*vm, &[kind])));
    }
    world.host.cpu_pressure = PRESSED;
    world.pass(720);
    set(&mut world, polls(40.0));
    world.pass(60);
    assert_eq!(world.count(Kind::Again), 0, "{:?}", world.decisions);
    world.host.cpu_pressure = FREE;
    polled_within(&mut world, 50.0);
    assert!(world.count(Kind::Again) > 0, "{:?}", world.decisions);
}

#[test]
fn a_pilot_that_only_observes_says_once_what_it_would_set() {
    let mut world = World::new();
    world.limit(|limits| limits.may_act = false);
    let vm = world.comes(EACH_150_US, OWN);
    world.until(vm, Kind::WouldSet);
    world.pass(360);
    assert_eq!(world.decisions.len(), 1, "{:?}", world.decisions);
    let of = world.standing(vm);
    assert!(of.would_set_ns.is_some_and(|ns| ns < FOUND), "{of:?}");
    assert!(
        of.is_saved == Some(false) && of.saved_ns.unwrap().low > 0.0,
        "{of:?}"
    );
}

#[test]
fn a_pilot_that_only_observes_restores_nothing_that_an_earlier_run_kept() {
    let (mut world, vm) = kept(EACH_15_US, OFF);
    let kept = world.at(vm);
    world.limits = Limits::default();
    world.restarts();
    world.host.cpu_pressure = PRESSED;
    world.pass(5);
    assert_eq!(world.at(vm), kept);
    assert!(world.standing(vm).why.contains("`haltwise undo` restores"));
    world.limit(|limits| *limits = acts());
    world.pass(1);
    assert_eq!(world.at(vm), 0);
}

/// To a second. Its own changes are no other load, though halts are shorter under them.
#[test]
fn the_savings_that_the_pilot_reports_are_those_of_the_machine() {
    for (load, ceiling, found) in [(TICKING, OWN, FOUND), (EACH_15_US, OFF, 0)] {
        let (mut world, vm) = kept(load, ceiling);
        let of_second = load.cost(found) - load.cost(world.at(vm));
        // In the trial, in two hours after it, and where it may no longer act.
        for (steps, may_act) in [(0, true), (720, true), (36, false)] {
            world.limit(|limits| limits.may_act = may_act);
            world.pass(steps);
            let of = world.standing(vm);
            let costs = &world.vm(vm).costs;
            let apart = of.saved_ns.unwrap().value - (costs.found - costs.actual);
            assert!(apart.abs() <= of_second, "{apart} {of_second}");
            assert!(
                of.is_saved == Some(true) && of.phase_ns >= world.now - STEP,
                "{of:?}"
            );
        }
    }
}

/// Measurements for one goal say nothing for another, also where it changes while no pilot runs.
#[test]
fn with_another_goal_all_is_measured_again() {
    for (ceiling, target) in [(OWN, None), (Ceiling::Fixed, Some(Scope::Host))] {
        let mut world = World::new();
        let [other, vm] = [0, 1].map(|_| world.comes(EACH_150_US, ceiling));
        let scopes = [other, vm].map(|vm| target.unwrap_or(vm));
        world.turn_until(|world| scopes.iter().all(|it| world.has(*it, &[Kind::Keep])));
        world.pass(360);
        let before = world.standing(vm).saved_ns.unwrap();
        world.vm(vm).seen.goal = Some(density());
        world.restarts();
        world.decisions.clear();
        world.reads();
        assert!(world.has(scopes[1], &[Kind::Restore]));
        assert_eq!(world.at(vm), FOUND);
        assert_eq!(
            world.at(other) == FOUND,
            target.is_some(),
            "its goal is the same"
        );
        let after = world.standing(vm).saved_ns.unwrap();
        assert!(before.low > 0.0 && after.value.abs() < before.value / 100.0);
        world.until(scopes[1], Kind::Keep);
        assert!(!world.has(scopes[1], &[Kind::Again]));
    }
}

/// The older one would be set again without a trial. Those of other loads stay, the last sixteen.
#[test]
fn a_proven_setting_replaces_the_one_of_such_a_load() {
    let mut proven = Vec::new();
    let mut keep = |load: f64| {
        let one = Proven {
            load: [load, 0.0],
            knobs: haltwise_core::kvm::Knobs::default(),
            measured: Interval::exactly(-0.1),
        };
        one.keep(&mut proven);
        proven.iter().map(|it| it.load[0]).collect::<Vec<_>>()
    };
    assert_eq!(keep(1.0), [1.0]);
    assert_eq!(keep(2.0), [1.0, 2.0]);
    assert_eq!(keep(1.2), [2.0, 1.2]);
    let last = (3_u32..23).map(|load| keep(f64::from(load))).last();
    assert_eq!(last, Some((7_u32..23).map(f64::from).collect()));
}

/// The setting before a trial is the kept one, also where it cannot be restored at once, and the pilot starts again. With another
/// goal it is the one that was found.
#[test]
fn a_trial_over_a_kept_setting_ends_at_that_setting() {
    let events: [fn(&mut World, Scope); 4] = [
        |world, vm| world.vm(vm).seen.goal = Some(density()),
        |world, _| world.restarts(),
        |world, vm| {
            world.answers = Some(Box::new(full));
            world.until(vm, Kind::Off);
            world.restarts();
        },
        |world, _| {
            world.answers = Some(Box::new(full));
            world.limit(|limits| limits.may_act = false);
            world.limit(|limits| limits.may_act = true);
            world.restarts();
        },
    ];
    for (nth, event) in events.into_iter().enumerate() {
        let (mut world, vm) = kept(load(12_000.0, 15_000.0), Ceiling::Own(30_000));
        // A longer ceiling is better then, and the setting found no better than the kept one.
        world.vm(vm).load = load(12_000.0, 25_000.0);
        let kept = world.at(vm);
        world.until(vm, Kind::On);
        world.turn_until(|world| ![30_000, kept].contains(&world.at(vm)));
        event(&mut world, vm);
        world.answers = None;
        world.reads();
        let end = if nth == 0 { 30_000 } else { kept };
        assert_eq!(world.at(vm), end, "event {nth} {:?}", world.decisions);
    }
}

#[test]
fn the_parameter_is_set_for_a_vm_that_is_left_alone_where_that_is_allowed() {
    for (parameters, is_set) in [(Parameters::Shared, true), (Parameters::Unshared, false)] {
        let mut world = World::new();
        world.limit(|limits| limits.parameters = parameters);
        world.comes(EACH_150_US, Ceiling::Fixed);
        let alone = world.comes(EACH_15_US, Ceiling::Fixed);
        world.vm(alone).seen.goal = None;
        world.pass(100);
        assert_eq!(world.at(Scope::Host) != FOUND, is_set, "{parameters:?}");
    }
}

/// No VM is left that it would be set for, and one follows it that is left alone.
#[test]
fn the_parameter_that_an_earlier_run_set_is_restored() {
    let (mut world, vm) = kept(EACH_150_US, Ceiling::Fixed);
    world.goes(vm);
    world.restarts();
    let alone = world.comes(EACH_15_US, Ceiling::Fixed);
    world.vm(alone).seen.goal = None;
    world.until(Scope::Host, Kind::Restore);
    assert_eq!(world.at(Scope::Host), FOUND);
}
