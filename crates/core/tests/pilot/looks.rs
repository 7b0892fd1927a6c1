//! When VMs are looked at, what a look or a period rests on, and what a change of the load ends.

use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Pressure, Scope};

use super::load::{EACH_15_US, EACH_150_US, Load, TICKING};
use super::settings::FOUND;
use super::world::{FREE, OFF, OWN, PRESSED, SECOND, World, full};

const ENDS: [Kind; 2] = [Kind::Keep, Kind::GoBack];

/// A VM whose setting was kept, and one on trial since a time.
fn kept_and_tried(load: Load, ceiling: Ceiling) -> (World, [Scope; 2], u64) {
    let mut world = World::new();
    let kept = world.comes(load, ceiling);
    world.until(kept, Kind::Keep);
    let tried = world.comes(TICKING, OWN);
    let began = world.until(tried, Kind::Try);
    (world, [kept, tried], began)
}

#[test]
fn a_vm_whose_load_changes_is_looked_at_while_another_is_on_trial() {
    let (mut world, [kept, tried], began) = kept_and_tried(EACH_150_US, OWN);
    world.vm(kept).load = EACH_15_US;
    let restored = world.until(kept, Kind::Restore);
    // Two readings that are unlike, a period that is under way, a period under the setting on trial, and the look.
    assert!(restored <= began + 60 * SECOND, "{:?}", world.decisions);
    assert!(!world.has(tried, &ENDS), "{:?}", world.decisions);
    world.until(tried, Kind::Keep);
}

/// Another VM's setting is restored while the trial waits for a look at that VM.
#[test]
fn a_trial_goes_on_where_the_look_that_it_waits_for_is_dropped() {
    let (mut world, [kept, tried], _) = kept_and_tried(EACH_15_US, OFF);
    let is_look = |world: &World| {
        let wanted = world.pilot.as_ref().unwrap().wanted();
        wanted.is_some_and(|wanted| Scope::Vm(wanted.vms[0]) == kept)
    };
    world.turn_until(is_look);
    assert!(!world.has(tried, &ENDS), "{:?}", world.decisions);
    world.host.cpu_pressure = PRESSED;
    world.reads();
    assert_eq!(world.at(kept), 0);
    assert!(!is_look(&world), "its halts are under two settings");
    world.pass(100);
    assert!(world.has(tried, &ENDS), "{:?}", world.decisions);
}

#[test]
fn settings_that_gain_pay_for_looks() {
    let looks = |load| {
        let mut world = World::new();
        for _ in 0..20 {
            world.comes(load, OWN);
        }
        world.look_ns = 1_500_000_000;
        world.pass(360);
        let before = world.looks.len();
        world.pass(360);
        world.looks.len() - before
    };
    // With 10 s of CPU time in an hour at most, there is one look a minute.
    let [without, with] = [EACH_15_US, EACH_150_US].map(looks);
    assert!((55..=65).contains(&without), "{without}");
    assert!(with > 2 * without, "{with} and {without}");
}

#[test]
fn a_choice_that_had_to_wait_needs_no_other_look() {
    let mut world = World::new();
    let vm = world.comes(EACH_15_US, OFF);
    world.host.cpu_pressure = PRESSED;
    world.pass(360);
    assert_eq!(world.decisions, []);
    world.host.cpu_pressure = FREE;
    let looks = world.looks.len();
    world.until(vm, Kind::Try);
    assert_eq!(world.looks.len(), looks);
}

/// Both settings cost the VM nearly the same after the change; pressure of others is a reason of its own.
#[test]
fn a_trial_ends_when_the_load_of_its_vm_changes() {
    let cases = [
        (TICKING, 12.5, 0.01, "the load of its VM"),
        (EACH_150_US, 3.0, 0.01, "the load of its VM"),
        (EACH_150_US, 3.0, 0.4, "other tasks want the CPUs"),
    ];
    for (load, less, pressure, why) in cases {
        let mut world = World::new();
        let vm = world.comes(load, OWN);
        let began = world.until(vm, Kind::Try);
        world.vm(vm).load.per_s /= less;
        world.host.cpu_pressure = Pressure::Share(pressure);
        // A round of 10 s for each period holds two under the setting before; with the next, four periods.
        let ended = world.until(vm, Kind::GoBack);
        assert!(ended <= began + 50 * SECOND, "{:?}", world.decisions);
        assert_eq!(world.at(vm), FOUND);
        world.pass(1);
        let of = world.standing(vm);
        assert!(of.why.starts_with(why), "{}", of.why);
        // No failure: the next trial begins as soon as a trial takes.
        let again = world.until(vm, Kind::Try) - ended;
        assert!(again <= 400 * SECOND, "{again}");
    }
}

/// A VM whose load changes each few minutes does not have the host's parameters tried for all others each time; nor do others
/// that want the CPUs now and then, for which all VMs halt less often.
#[test]
fn a_back_off_ends_with_the_load_of_most_halts() {
    let tries = |which: usize, part: f64, pressed: f64| {
        let mut world = World::new();
        world.answers = Some(Box::new(|decision| match decision.kind {
            Kind::On => full(decision),
            _ => (true, Some(Ok(()))),
        }));
        let loads = [[EACH_150_US].as_slice(), &[TICKING; 7]].concat();
        for load in &loads {
            world.comes(*load, Ceiling::Fixed);
        }
        for phase in 0..100 {
            let (times, pressure) = ([1.0, part][phase % 2], [0.01, pressed][phase % 2]);
            world.vms[which].load.per_s = loads[which].per_s * times;
            world.host.cpu_pressure = Pressure::Share(pressure);
            world.pass(30);
        }
        world.count(Kind::Try)
    };
    let (steady, one) = (tries(0, 1.0, 0.01), tries(1, 0.5, 0.01));
    let [most, of_host] = [0.01, 0.4].map(|pressure| tries(0, 0.5, pressure));
    // It doubles: 100 phases of five minutes have room for six or seven times ten minutes, doubled each time.
    assert!((3..20).contains(&steady), "{steady}");
    assert!(one <= steady + 2, "{one} and {steady}");
    assert!(most > 2 * steady, "{most} and {steady}");
    assert!(of_host <= steady + 2, "{of_host} and {steady}");
}

/// A VM that was looked at and halts no more has no part in the periods of a trial of all that follow.
#[test]
fn a_period_holds_no_halts_of_an_earlier_look() {
    let mut world = World::new();
    world.comes(EACH_150_US, Ceiling::Fixed);
    let ticks = world.comes(TICKING, Ceiling::Fixed);
    world.until(Scope::Host, Kind::Try);
    world.vm(ticks).is_blind = true;
    world.until(Scope::Host, Kind::Keep);
    assert_eq!(world.count(Kind::GoBack), 0, "{:?}", world.decisions);
}

/// The host's parameter is tried once most of the halts were looked at twice.
#[test]
fn a_trial_of_several_vms_rests_on_looks_at_most_of_them() {
    let mut world = World::new();
    let vms = [(); 10].map(|()| world.comes(EACH_150_US, Ceiling::Fixed));
    world.until(Scope::Host, Kind::Try);
    let looks = |vm: &Scope| world.looks.iter().filter(|of| *of == vm).count();
    let twice = vms.iter().filter(|vm| looks(vm) >= 2).count();
    assert!(twice >= 9, "{twice} of 10: {:?}", world.looks);
}
