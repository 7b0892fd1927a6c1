//! Guards against more polling that no single decision shows: of what polls together, and of what polls more under a lower
//! ceiling. What a pilot does that only observes.

use haltwise_core::pilot::Limits;
use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Scope};
use haltwise_core::pilot::memory::Proven;
use haltwise_core::stats::Interval;

use super::load::{EACH_15_US, EACH_150_US, Load, Replays, TICKING, fixed, knobs};
use super::settings::FOUND;
use super::world::{Answer, FREE, PRESSED, STEP, World, acts, density, full};

const OWN: Ceiling = Ceiling::Own(FOUND);
const OFF: Ceiling = Ceiling::Own(0);

/// Best polled, for so much of a CPU.
fn polls(percent: f64) -> Load {
    Load {
        halts_per_s: percent / 100.0 * 1e9 / EACH_15_US.gap_ns,
        ..EACH_15_US
    }
}

fn up_to(percent: f64) -> Limits {
    Limits {
        max_poll_cpu_percent: Some(percent),
        ..acts()
    }
}

#[test]
fn a_lower_ceiling_that_polls_more_is_restored_under_cpu_pressure() {
    // By what its trial was to change, and by a look.
    for steps in [0, 60] {
        let replays = Replays {
            is_inverted: true,
            ..Replays::wrong_by(0.0, 1)
        };
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
    let mut world = World::new();
    let (kept, found) = (world.comes(EACH_15_US, OFF), world.comes(EACH_15_US, OWN));
    world.until(kept, Kind::Keep);
    assert_eq!(world.at(kept), 40_000);
    for (max_ceiling_ns, restored) in [(40_000, 0), (39_999, 1)] {
        world.limit(Limits {
            max_ceiling_ns,
            ..acts()
        });
        assert_eq!(world.count(Kind::Restore), restored);
    }
    world.pass(360);
    assert_eq!((world.at(kept), world.at(found)), (0, FOUND));
}

/// Lets two hours pass, in which polling never reaches the limit; gives the polling then.
fn polled_within(world: &mut World, limit: f64) -> f64 {
    world.limit(up_to(limit));
    for _ in 0..720 {
        world.pass(1);
        let polled = world.polled_percent();
        assert!(polled < limit, "{polled} {:?}", world.decisions);
    }
    world.polled_percent()
}

/// Where each is asked for itself, two of 40 % are within a limit of 50 %.
#[test]
fn what_polls_together_stays_within_the_limit() {
    let mut world = World::new();
    for percent in [40.0, 40.0, 5.0] {
        world.comes(polls(percent), OFF);
    }
    let polled = polled_within(&mut world, 50.0);
    assert!((45.0..46.0).contains(&polled), "{polled}");
    assert_eq!(world.count(Kind::Restore), 0, "{:?}", world.decisions);
    // With a higher limit there is room.
    let polled = polled_within(&mut world, 100.0);
    assert!((85.0..86.0).contains(&polled), "{polled}");
}

/// Both were proven, and are set again without a trial, which the same reading may do.
#[test]
fn what_is_set_again_at_once_stays_within_the_limit_together() {
    let mut world = World::new();
    let vms = [0, 1].map(|_| world.comes(polls(40.0), OFF));
    for (load, kind) in [(polls(40.0), Kind::Keep), (EACH_150_US, Kind::Restore)] {
        for vm in vms {
            world.vm(vm).load = load;
        }
        for vm in vms {
            if !world.has(vm, &[kind]) {
                world.until(vm, kind);
            }
        }
    }
    world.host.cpu_pressure = PRESSED;
    world.pass(720);
    for vm in vms {
        world.vm(vm).load = polls(40.0);
    }
    world.pass(60);
    assert_eq!(world.count(Kind::Again), 0, "{:?}", world.decisions);
    world.host.cpu_pressure = FREE;
    polled_within(&mut world, 50.0);
    assert!(world.count(Kind::Again) > 0, "{:?}", world.decisions);
}

#[test]
fn a_pilot_that_only_observes_says_once_what_it_would_set() {
    let mut world = World::new();
    world.limit(Limits::default());
    let vm = world.comes(EACH_150_US, OWN);
    world.until(vm, Kind::WouldSet);
    world.pass(360);
    assert_eq!(world.decisions.len(), 1, "{:?}", world.decisions);
    let of = world.standing(vm);
    assert!(of.would_set_ns.is_some_and(|ns| ns < FOUND), "{of:?}");
    assert!(!of.is_saved && of.saved_ns.unwrap().low > 0.0, "{of:?}");
}

#[test]
fn a_pilot_that_only_observes_restores_nothing_that_an_earlier_run_kept() {
    let mut world = World::new();
    let vm = world.comes(EACH_15_US, OFF);
    world.until(vm, Kind::Keep);
    let kept = world.at(vm);
    world.limits = Limits::default();
    world.restarts();
    world.host.cpu_pressure = PRESSED;
    world.pass(5);
    assert_eq!(world.at(vm), kept);
    assert!(world.standing(vm).why.contains("`haltwise undo` restores"));
    world.limit(acts());
    world.pass(1);
    assert_eq!(world.at(vm), 0);
}

/// To a second. Its own changes are no other load, though halts are shorter under them.
#[test]
fn the_savings_that_the_pilot_reports_are_those_of_the_machine() {
    for (load, ceiling, found) in [(TICKING, OWN, FOUND), (EACH_15_US, OFF, 0)] {
        let mut world = World::new();
        let vm = world.comes(load, ceiling);
        world.until(vm, Kind::Keep);
        let of_second = load.per_s(found) - load.per_s(world.at(vm));
        // In the trial, and in two hours after it.
        for steps in [0, 720] {
            world.pass(steps);
            let of = world.standing(vm);
            let costs = &world.vm(vm).costs;
            let apart = of.saved_ns.unwrap().value - (costs.found - costs.actual);
            assert!(apart.abs() <= of_second, "{apart} {of_second}");
            assert!(of.phase_ns >= world.now - STEP, "{of:?}");
        }
    }
}

/// A setting that was kept is in force, and saves, also where the pilot may no longer act.
#[test]
fn a_kept_setting_goes_on_to_save_where_the_pilot_may_no_longer_act() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, OWN);
    world.until(vm, Kind::Keep);
    world.pass(36);
    let least = |world: &World| {
        let of = world.standing(vm);
        assert!(of.is_saved);
        of.saved_ns.unwrap().low
    };
    let acting = least(&world);
    world.limit(Limits::default());
    let observing = least(&world);
    let is_same = (observing - acting).abs() < 1.0;
    assert!(acting > 0.0 && is_same, "{observing} {acting}");
    world.pass(36);
    assert!(least(&world) > observing);
}

/// Measurements for one goal say nothing for another.
#[test]
fn with_another_goal_all_is_measured_again() {
    let mut world = World::new();
    let [vm, other] = [0, 1].map(|_| world.comes(EACH_150_US, OWN));
    world.until(vm, Kind::Keep);
    world.until(other, Kind::Keep);
    world.pass(360);
    let before = world.standing(vm).saved_ns.unwrap();
    world.vm(vm).seen.goal = Some(density());
    // Also where it changes while no pilot runs.
    world.restarts();
    world.reads();
    assert_eq!((world.at(vm), world.last()), (FOUND, (vm, Kind::Restore)));
    assert_ne!(world.at(other), FOUND, "its goal is the same");
    let after = world.standing(vm).saved_ns.unwrap();
    assert!(before.low > 0.0 && after.value.abs() < before.value / 100.0);
    world.until(vm, Kind::Keep);
    assert!(!world.has(vm, &[Kind::Again]));
}

/// The older one would be set again without a trial. Those of other loads stay, the last sixteen.
#[test]
fn a_proven_setting_replaces_the_one_of_such_a_load() {
    let mut proven = Vec::new();
    let mut keep = |load: f64, ceiling_ns| {
        let one = Proven {
            load: [load, 0.0],
            knobs: knobs(ceiling_ns),
            measured: Interval::exactly(-0.1),
        };
        one.keep(&mut proven);
        let ceilings = proven.iter().map(|it| it.knobs.halt_poll_ns);
        ceilings.collect::<Vec<_>>()
    };
    assert_eq!(keep(1.0, 10_000), [10_000]);
    assert_eq!(keep(2.0, 20_000), [10_000, 20_000]);
    assert_eq!(keep(1.2, 30_000), [20_000, 30_000]);
    let last = (3_u32..23).map(|load| keep(f64::from(load), load)).last();
    assert_eq!(last, Some((7..23).collect()));
}

/// The setting before a trial is the kept one, also where it cannot be restored at once, and the pilot starts again. With another
/// goal it is the one that was found.
#[test]
fn a_trial_over_a_kept_setting_ends_at_that_setting() {
    let events: [fn(&mut World, Scope); 4] = [
        |world, vm| world.vm(vm).seen.goal = Some(density()),
        |world, _| world.restarts(),
        |world, vm| {
            world.answers = Box::new(|_| full());
            world.until(vm, Kind::Off);
            world.answers = Box::new(|_| Answer::Made);
            world.restarts();
        },
        |world, _| {
            world.answers = Box::new(|_| full());
            world.limit(Limits::default());
            world.limit(acts());
            world.answers = Box::new(|_| Answer::Made);
            world.restarts();
        },
    ];
    for (nth, event) in events.into_iter().enumerate() {
        let mut world = World::new();
        let vm = world.comes(fixed(12_000.0, 15_000.0), Ceiling::Own(30_000));
        world.until(vm, Kind::Keep);
        // A longer ceiling is better then, and the setting found no better than the kept one.
        world.vm(vm).load = fixed(12_000.0, 25_000.0);
        let kept = world.at(vm);
        world.until(vm, Kind::On);
        world.turn_until(|world| ![30_000, kept].contains(&world.at(vm)));
        event(&mut world, vm);
        world.reads();
        let end = if nth == 0 { 30_000 } else { kept };
        assert_eq!(world.at(vm), end, "event {nth} {:?}", world.decisions);
    }
}

#[test]
fn the_parameter_is_restored_where_one_that_follows_has_another_goal() {
    let mut world = World::new();
    let vms = [0, 1].map(|_| world.comes(EACH_150_US, Ceiling::Fixed));
    world.until(Scope::Host, Kind::Keep);
    assert_ne!(world.at(Scope::Host), FOUND);
    world.vm(vms[1]).seen.goal = Some(density());
    world.reads();
    assert_eq!(world.at(Scope::Host), FOUND);
}
