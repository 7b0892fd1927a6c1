//! A setting made by another process is left alone, until the pilot is to take it over.

use haltwise_core::ids::VmKey;
use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Scope};

use super::journal::Entry;
use super::model::EACH_150_US;
use super::world::{FOUND, FOUND_NS, World, decided};

/// The journal has that an earlier run set 5 us in place of 200 us; now 145 us are in force.
fn left() -> (World, VmKey) {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, FOUND);
    let (before, ours) = (Some(FOUND_NS), 5_000);
    world.machine.of_mut(Scope::Vm(vm)).entry = Some(Entry { before, ours });
    world.machine.is_set_by_human(Scope::Vm(vm), 145_000);
    world.reads();
    assert_eq!(world.events, [(0, decided(vm, Kind::HandsOff))]);
    (world, vm)
}

#[test]
fn a_setting_of_another_program_is_taken_over_only_where_that_is_asked_for() {
    let (mut world, vm) = left();
    // Also after a restart; a run that ends before its first reading forgets nothing.
    let memory = world.pilot.memory();
    world.restarts();
    assert_eq!(world.pilot.memory(), memory);
    world.reads();
    assert_eq!(world.standing(vm).state, "hands-off");

    world.restarts();
    world.pilot.take_over();
    world.reads();
    assert_eq!(world.events.len(), 1, "{:?}", world.events);
    let of = world.standing(vm);
    assert_eq!((of.state, of.found_ns), ("watching", Some(145_000)));
    let wanted = world.pilot.wanted().map(|wanted| &*wanted.vms);
    assert_eq!(wanted, Some(&[vm][..]));
}

#[test]
fn of_a_vm_that_has_gone_there_is_nothing_to_know() {
    let (mut world, vm) = left();
    world.restarts();
    world.goes(vm);
    world.reads();
    assert_eq!(world.events.len(), 1, "{:?}", world.events);
    assert_eq!(world.pilot.memory().targets, []);
}

/// A VM that gets a ceiling of its own with the value that it followed was set by another program, too.
#[test]
fn a_ceiling_of_its_own_is_another_programs_whatever_its_value() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, Ceiling::Follows);
    world.reads();
    world.machine.is_set_by_human(Scope::Vm(vm), FOUND_NS);
    world.reads();
    assert!(world.is_any(vm, &[Kind::HandsOff]), "{:?}", world.events);
}
