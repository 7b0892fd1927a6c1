//! When VMs are looked at: those for which something was set also while another is on trial; more of them where that gains
//! more; none where nothing but a guard keeps from a choice.

use haltwise_core::ids::VmKey;
use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Pressure, Scope};

use super::model::{EACH_15_US, EACH_150_US, Load, TICKING};
use super::world::{Answer, Event, FOUND, FREE, OFF, PRESSED, SECOND, World, decided, full};

#[test]
fn a_vm_whose_load_changes_is_looked_at_while_another_is_on_trial() {
    let mut world = World::new();
    let kept = world.comes(EACH_150_US, FOUND);
    world.until(decided(kept, Kind::Keep));
    let tried = world.comes(TICKING, FOUND);
    let began = world.until(decided(tried, Kind::Try));
    world.vm(kept).load = EACH_15_US;
    let restored = world.until(decided(kept, Kind::Restore));
    // Two readings that are unlike, a period that is under way, a period under the setting on trial, and the look.
    assert!(restored <= began + 60 * SECOND, "{:?}", world.events);
    let ends = [Kind::Keep, Kind::GoBack];
    assert!(!world.is_any(tried, &ends), "{:?}", world.events);
    world.until(decided(tried, Kind::Keep));
}

fn looks_of(world: &World) -> usize {
    world.count(|event| matches!(event, Event::Look(_)))
}

#[test]
fn what_settings_gain_pays_for_looks() {
    let looks = |load| {
        let mut world = World::new();
        for _ in 0..20 {
            world.comes(load, FOUND);
        }
        world.look_ns = 1_500_000_000;
        world.pass(360);
        let before = looks_of(&world);
        world.pass(360);
        looks_of(&world) - before
    };
    // With 10 s of CPU time in an hour at most, there is one look a minute.
    let without = looks(EACH_15_US);
    assert!((55..=65).contains(&without), "{without}");
    let with = looks(EACH_150_US);
    assert!(with > 2 * without, "{with} and {without}");
}

#[test]
fn a_choice_that_had_to_wait_is_made_when_nothing_keeps_from_it_any_more() {
    let mut world = World::new();
    let vm = world.comes(EACH_15_US, OFF);
    world.state.cpu_pressure = PRESSED;
    world.pass(360);
    let decisions = world.count(|event| matches!(event, Event::Decided(..)));
    assert_eq!(decisions, 0, "{:?}", world.events);
    world.state.cpu_pressure = FREE;
    let looks = looks_of(&world);
    world.until(decided(vm, Kind::Try));
    assert_eq!(looks_of(&world), looks, "by what is known already");
}

#[test]
fn a_trial_ends_when_the_load_of_its_vm_changes() {
    let mut world = World::new();
    let vm = world.comes(TICKING, FOUND);
    let began = world.until(decided(vm, Kind::Try));
    // Both settings cost it the same, nearly.
    world.vm(vm).load = Load {
        halts_per_s: 20.0,
        ..TICKING
    };
    let ended = world.until(decided(vm, Kind::GoBack));
    // A round of 10 s for each period holds two under the setting before; with the one before and after it, four periods.
    assert!(ended <= began + 50 * SECOND, "{:?}", world.events);
    assert_eq!(world.ceiling(vm), FOUND);
}

/// Halts of before and after a change are not one look.
#[test]
fn a_look_under_way_ends_where_its_vms_setting_changes() {
    let mut world = World::new();
    let vm = world.comes(EACH_15_US, OFF);
    world.until(decided(vm, Kind::Keep));
    while world.pilot.wanted().is_none() {
        world.pass(1);
    }
    let wanted = world.pilot.wanted().cloned().unwrap();
    assert_eq!(wanted.vms, [vm]);
    world.state.cpu_pressure = PRESSED;
    world.reads();
    assert_eq!(world.events.last().unwrap().1, decided(vm, Kind::Restore));
    assert_ne!(world.pilot.wanted(), Some(&wanted), "another look, if any");
}

/// A VM whose load changes each few minutes does not have the host's parameters tried for all others each time; nor do others
/// that want the CPUs now and then, for which all VMs halt less often.
#[test]
fn a_back_off_ends_with_the_load_of_most_halts() {
    let tries = |which: usize, part: f64, pressed: f64| {
        let mut world = World::new();
        world.answers = Box::new(|decision| {
            if decision.kind.restores() {
                Answer::Made
            } else {
                full()
            }
        });
        let loads = [[EACH_150_US].as_slice(), &[TICKING; 7]].concat();
        let comes = |load: &Load| world.comes(*load, Ceiling::Fixed);
        let vms: Vec<VmKey> = loads.iter().map(comes).collect();
        for phase in 0..100 {
            world.vm(vms[which]).load.halts_per_s =
                loads[which].halts_per_s * [1.0, part][phase % 2];
            world.state.cpu_pressure = Pressure::Share([0.01, pressed][phase % 2]);
            world.pass(30);
        }
        let tried = Event::Decided(Scope::Host, Kind::Try);
        world.count(|event| event == tried)
    };
    let (steady, one) = (tries(0, 1.0, 0.01), tries(1, 0.5, 0.01));
    let [most, of_host] = [0.01, 0.4].map(|pressure| tries(0, 0.5, pressure));
    // It doubles: 100 phases of five minutes have room for six or seven times ten minutes, doubled each time.
    assert!((3..20).contains(&steady), "{steady}");
    assert!(one <= steady + 2, "{one} and {steady}");
    assert!(most > 2 * steady, "{most} and {steady}");
    assert!(of_host <= steady + 2, "{of_host} and {steady}");
}

/// A trial waits for a look at another VM, whose setting is restored meanwhile.
#[test]
fn a_trial_goes_on_where_the_look_that_it_waits_for_is_dropped() {
    let mut world = World::new();
    let kept = world.comes(EACH_15_US, OFF);
    world.until(decided(kept, Kind::Keep));
    let tried = world.comes(TICKING, FOUND);
    world.until(decided(tried, Kind::Try));
    let is_look = |world: &World| {
        let wanted = world.pilot.wanted();
        wanted.is_some_and(|wanted| wanted.vms == [kept])
    };
    while !is_look(&world) {
        if world.turn() {
            world.reads();
        }
    }
    let ends = [Kind::Keep, Kind::GoBack];
    assert!(!world.is_any(tried, &ends), "{:?}", world.events);
    world.state.cpu_pressure = PRESSED;
    world.reads();
    assert_eq!(world.ceiling(kept), OFF);
    world.pass(100);
    assert!(world.is_any(tried, &ends), "{:?}", world.events);
}

/// A VM that was looked at and does not halt any more has no part in the periods of a trial of all that follow.
#[test]
fn a_period_holds_no_halts_of_an_earlier_look() {
    let mut world = World::new();
    world.comes(EACH_150_US, Ceiling::Fixed);
    let ticks = world.comes(TICKING, Ceiling::Fixed);
    world.until(Event::Decided(Scope::Host, Kind::Try));
    world.vm(ticks).stands_still = true;
    world.until(Event::Decided(Scope::Host, Kind::Keep));
    assert_eq!(world.decisions(Kind::GoBack), 0, "{:?}", world.events);
}

/// A VM that halts less often since others want the CPUs has no other load.
#[test]
fn a_trial_that_the_host_disturbs_ends_for_that_and_not_for_its_vm() {
    for (pressure, why) in [
        (0.4, "other tasks want the CPUs"),
        (0.01, "the load of its VM"),
    ] {
        let mut world = World::new();
        let vm = world.comes(EACH_150_US, FOUND);
        world.until(decided(vm, Kind::Try));
        world.vm(vm).load.halts_per_s /= 3.0;
        world.state.cpu_pressure = Pressure::Share(pressure);
        world.until(decided(vm, Kind::GoBack));
        world.pass(1);
        let of = world.standing(vm);
        assert!(of.why.starts_with(why), "{}", of.why);
    }
}
