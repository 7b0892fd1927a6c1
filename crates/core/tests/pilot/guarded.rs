//! Guards against more polling that no law on single decisions shows: of what polls together, and of what polls more
//! under a lower ceiling. What a pilot does that only watches.

use haltwise_core::pilot::Limits;
use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::Ceiling;

use super::model::{EACH_15_US, EACH_150_US, Load, Modelled};
use super::world::{FOUND, FOUND_NS, FREE, OFF, PRESSED, World, acts, decided};

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
fn a_kept_setting_that_polls_more_under_a_lower_ceiling_is_restored_under_cpu_pressure() {
    // By what its trial was to change, and by a look.
    for steps in [0, 60] {
        let mut world = World::with(Modelled {
            is_inverted: true,
            ..Modelled::wrong_by(0.0, 1)
        });
        let vm = world.comes(EACH_150_US, FOUND);
        world.until(decided(vm, Kind::Keep));
        world.pass(steps);
        assert_ne!(world.ceiling(vm), FOUND);
        world.state.cpu_pressure = FREE;
        world.pass(2);
        assert_eq!(world.decisions(Kind::Restore), 0, "{:?}", world.events);
        world.state.cpu_pressure = PRESSED;
        world.pass(1);
        assert_eq!(world.ceiling(vm), FOUND);
    }
}

/// It is not set again, and what was found is not the pilot's.
#[test]
fn what_is_set_above_a_lowered_limit_is_restored() {
    let mut world = World::new();
    let (kept, found) = (world.comes(EACH_15_US, OFF), world.comes(EACH_15_US, FOUND));
    world.until(decided(kept, Kind::Keep));
    assert_eq!(world.ceiling(kept), Ceiling::Own(40_000));
    for (max_ceiling_ns, restored) in [(40_000, 0), (39_999, 1)] {
        world.limit(Limits {
            max_ceiling_ns,
            ..acts()
        });
        assert_eq!(world.decisions(Kind::Restore), restored);
    }
    world.pass(360);
    assert_eq!((world.ceiling(kept), world.ceiling(found)), (OFF, FOUND));
}

/// Lets two hours pass; gives what is polled then, which never reached the limit.
fn polled_within(world: &mut World, limit: f64) -> f64 {
    for _ in 0..720 {
        world.pass(1);
        let polled = world.polled_percent();
        assert!(polled < limit, "{polled} {:?}", world.events);
    }
    world.polled_percent()
}

/// Where each is asked for itself, two of 40 % are within a limit of 50 %.
#[test]
fn what_polls_together_stays_within_the_limit() {
    let mut world = World::new();
    world.limit(up_to(50.0));
    for percent in [40.0, 40.0, 5.0] {
        world.comes(polls(percent), OFF);
    }
    let polled = polled_within(&mut world, 50.0);
    assert!((45.0..46.0).contains(&polled), "{polled}");
    assert_eq!(world.decisions(Kind::Restore), 0, "{:?}", world.events);
    // Where another takes less, there is room.
    world.limit(up_to(100.0));
    let polled = polled_within(&mut world, 100.0);
    assert!((85.0..86.0).contains(&polled), "{polled}");
}

/// Both were proven, and are set again without a trial.
#[test]
fn what_is_set_again_at_once_stays_within_the_limit_together() {
    let mut world = World::new();
    let vms = [0, 1].map(|_| world.comes(polls(40.0), OFF));
    for (load, kind) in [(polls(40.0), Kind::Keep), (EACH_150_US, Kind::Restore)] {
        for vm in vms {
            world.vm(vm).load = load;
        }
        for vm in vms {
            world.comes_to(vm, kind);
        }
    }
    world.limit(up_to(50.0));
    world.state.cpu_pressure = PRESSED;
    world.pass(720);
    for vm in vms {
        world.vm(vm).load = polls(40.0);
    }
    world.pass(60);
    assert_eq!(world.decisions(Kind::Again), 0, "{:?}", world.events);
    // Both may be set by the same reading.
    world.state.cpu_pressure = FREE;
    polled_within(&mut world, 50.0);
    assert!(world.decisions(Kind::Again) > 0, "{:?}", world.events);
}

#[test]
fn one_that_only_watches_says_what_it_would_set() {
    let mut world = World::new();
    world.limit(Limits::default());
    let vm = world.comes(EACH_150_US, FOUND);
    world.until(decided(vm, Kind::WouldSet));
    assert_eq!(world.ceiling(vm), FOUND);
    let would_ns = world.standing(vm).would_set_ns;
    assert!(would_ns.is_some_and(|ns| ns < FOUND_NS), "{would_ns:?}");
}

#[test]
fn one_that_only_watches_restores_nothing_that_an_earlier_run_kept() {
    let mut world = World::new();
    let vm = world.comes(EACH_15_US, OFF);
    world.until(decided(vm, Kind::Keep));
    let kept = world.ceiling(vm);
    world.disk = world.pilot.memory();
    world.starts(Modelled::wrong_by(0.0, 2), Limits::default(), 2);
    world.state.cpu_pressure = PRESSED;
    // For so long a pilot that may act would have restored it.
    world.pass(1);
    assert_eq!(world.ceiling(vm), kept);
    assert!(world.standing(vm).why.contains("`haltwise undo` restores"));
    // It restores once it may act.
    world.limit(acts());
    world.pass(1);
    assert_eq!(world.ceiling(vm), OFF);
}

/// A setting that was kept is in force, and saves, also where the pilot may no longer act.
#[test]
fn what_was_kept_goes_on_to_save_where_the_pilot_may_no_longer_act() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, FOUND);
    world.until(decided(vm, Kind::Keep));
    world.pass(36);
    let least = |world: &World| {
        let of = world.standing(vm);
        assert!(of.is_saved);
        of.saved_ns.unwrap().low
    };
    let acting = least(&world);
    world.limit(Limits::default());
    let observing = least(&world);
    assert!(
        acting > 0.0 && (observing - acting).abs() < 1.0,
        "{observing} {acting}"
    );
    world.pass(36);
    assert!(least(&world) > observing);
}
