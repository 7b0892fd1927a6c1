//! Measurements for one goal count no longer where a VM has another goal.

use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Scope};

use super::model::{EACH_150_US, fixed};
use super::world::{Event, FOUND, FOUND_NS, World, decided, density};

#[test]
fn what_was_kept_for_another_goal_is_restored_and_tried_again() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, FOUND);
    world.until(decided(vm, Kind::Keep));
    world.pass(360);
    let before = world.standing(vm).saved_ns.unwrap();
    world.vm(vm).goal = Some(density());
    world.reads();
    assert_eq!(world.events.last().unwrap().1, decided(vm, Kind::Restore));
    assert_eq!(world.ceiling(vm), FOUND);
    let after = world.standing(vm).saved_ns.unwrap();
    assert!(before.low > 0.0 && after.value.abs() < before.value / 100.0);
    // A setting that was proven for the other goal is not set again without a trial.
    world.until(decided(vm, Kind::Keep));
    assert!(!world.is_any(vm, &[Kind::Again]));
}

#[test]
fn what_was_kept_for_another_goal_is_restored_after_a_restart() {
    let mut world = World::new();
    let [one, other] = [0, 1].map(|_| world.comes(EACH_150_US, FOUND));
    world.until(decided(one, Kind::Keep));
    world.until(decided(other, Kind::Keep));
    world.vm(one).goal = Some(density());
    world.restarts();
    world.reads();
    assert_eq!(world.ceiling(one), FOUND);
    assert_ne!(world.ceiling(other), FOUND, "its goal is the same");
}

/// The parameter is set for all that follow it, each by its own goal.
#[test]
fn the_parameter_is_restored_where_one_that_follows_has_another_goal() {
    let mut world = World::new();
    let vms = [0, 1].map(|_| world.comes(EACH_150_US, Ceiling::Fixed));
    world.until(Event::Decided(Scope::Host, Kind::Keep));
    assert_ne!(world.machine.param_ns(), FOUND_NS);
    world.vm(vms[1]).goal = Some(density());
    world.reads();
    assert_eq!(world.machine.param_ns(), FOUND_NS);
}

/// Where a trial began from what was kept for the other goal, what was found is restored, not what was kept.
#[test]
fn a_trial_over_what_was_kept_ends_with_its_goal_at_what_was_found() {
    let mut world = World::new();
    let found = Ceiling::Own(30_000);
    let vm = world.comes(fixed(12_000.0, 15_000.0), found);
    world.until(decided(vm, Kind::Keep));
    let kept = world.ceiling(vm);
    // A longer ceiling is better then, and what was found no better than what is kept.
    world.vm(vm).load = fixed(12_000.0, 25_000.0);
    world.until(decided(vm, Kind::On));
    assert!(world.ceiling(vm) != found && world.ceiling(vm) != kept);
    world.vm(vm).goal = Some(density());
    world.reads();
    assert_eq!(world.ceiling(vm), found);
}
