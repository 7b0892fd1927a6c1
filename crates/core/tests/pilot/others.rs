//! A setting made by another program is left alone, until the pilot is to take it over.

use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Scope};

use super::load::EACH_150_US;
use super::settings::FOUND;
use super::world::World;

/// The journal has that an earlier run set 5 us in place of 200 us; now 145 us are in force.
fn left() -> (World, Scope) {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, Ceiling::Own(FOUND));
    world.settings.get(vm).entry = Some((Some(FOUND), 5_000));
    world.settings.is_set_by_another(vm, 145_000);
    world.reads();
    assert_eq!(world.decisions, [(0, vm, Kind::HandsOff)]);
    (world, vm)
}

/// Starts again with `--take-over`, and reads.
fn takes_over(world: &mut World, vm: Scope) {
    world.restarts();
    world.pilot.take_over();
    world.laws.left.clear();
    // The journal's next change of it begins with the value in force.
    let setting = world.settings.get(vm);
    setting.theirs = None;
    if setting
        .entry
        .is_some_and(|(_, ours)| setting.own != Some(ours))
    {
        setting.entry = None;
    }
    world.decisions.clear();
    world.reads();
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
    takes_over(&mut world, vm);
    assert_eq!(world.decisions, []);
    let of = world.standing(vm);
    assert_eq!((of.state, of.found_ns), ("watching", Some(145_000)));
    let wanted = world.pilot.wanted().map(|wanted| wanted.vms.len());
    assert_eq!(wanted, Some(1));
}

#[test]
fn nothing_is_remembered_of_a_vm_that_has_gone() {
    let (mut world, vm) = left();
    world.restarts();
    world.goes(vm);
    world.reads();
    assert_eq!(world.decisions.len(), 1, "{:?}", world.decisions);
    assert_eq!(world.pilot.memory().targets, []);
}

/// The value of the parameter that it followed, as a ceiling of its own, is another program's, too.
#[test]
fn a_ceiling_of_its_own_is_another_programs_whatever_its_value() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, Ceiling::Follows);
    world.reads();
    world.settings.is_set_by_another(vm, FOUND);
    world.reads();
    assert!(world.has(vm, &[Kind::HandsOff]), "{:?}", world.decisions);
}

/// The value in force equals the journal's setting before, and not the one that was found last: another program has set it.
#[test]
fn a_value_that_neither_memory_nor_the_pilot_explains_is_taken_over_with_nothing_remembered() {
    let (mut world, vm) = left();
    takes_over(&mut world, vm);
    world.until(vm, Kind::Keep);
    // The journal still has what was there before the first run.
    let kept = world.at(vm);
    world.settings.get(vm).entry = Some((Some(FOUND), kept));
    world.pass(60);
    takes_over(&mut world, vm);
    assert_eq!(world.decisions, [], "its own setting stays");
    assert_eq!(world.standing(vm).state, "kept");
    world.settings.is_set_by_another(vm, FOUND);
    takes_over(&mut world, vm);
    assert_eq!(world.decisions, []);
    let of = world.standing(vm);
    assert_eq!((of.state, of.found_ns), ("watching", Some(FOUND)));
    assert_eq!(of.saved_ns.map(|saved| saved.value), Some(0.0));
}

#[test]
fn a_setting_found_that_another_program_has_restored_is_taken_over_as_found() {
    let (mut world, vm) = left();
    world.settings.is_set_by_another(vm, FOUND);
    takes_over(&mut world, vm);
    let of = world.standing(vm);
    assert_eq!((of.state, of.found_ns), ("watching", Some(FOUND)));
}
