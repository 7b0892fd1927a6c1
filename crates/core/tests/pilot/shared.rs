//! The host's parameter, which several VMs follow: those that could have a ceiling of their own, too, and those that are to be
//! left alone.

use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Scope};
use haltwise_core::pilot::{Limits, Parameters};

use super::model::{EACH_15_US, EACH_150_US};
use super::world::{Event, FOUND_NS, World, acts, decided};

const KEPT: Event = Event::Decided(Scope::Host, Kind::Keep);
const RESTORED: Event = Event::Decided(Scope::Host, Kind::Restore);

#[test]
fn it_is_set_for_a_vm_that_is_to_be_left_alone_where_that_is_allowed() {
    let mut world = World::new();
    world.limit(Limits {
        parameters: Parameters::Shared,
        ..acts()
    });
    world.comes(EACH_150_US, Ceiling::Fixed);
    let alone = world.comes(EACH_15_US, Ceiling::Fixed);
    world.vm(alone).goal = None;
    world.until(KEPT);
    assert_ne!(world.machine.param_ns(), FOUND_NS);
}

#[test]
fn it_is_tried_once_most_of_the_halts_were_looked_at_twice() {
    let mut world = World::new();
    let comes = |_| world.comes(EACH_150_US, Ceiling::Fixed);
    let vms: Vec<_> = (0..10).map(comes).collect();
    world.until(Event::Decided(Scope::Host, Kind::Try));
    let looks = |vm| world.count(|event| event == Event::Look(vm));
    let twice = vms.into_iter().filter(|vm| looks(*vm) >= 2).count();
    assert!(twice >= 9, "{twice} of 10: {:?}", world.events);
}

/// No VM is left that it would be set for, and one follows it that is to be left alone.
#[test]
fn what_an_earlier_run_set_of_it_is_restored() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, Ceiling::Fixed);
    world.until(KEPT);
    world.goes(vm);
    world.restarts();
    let alone = world.comes(EACH_15_US, Ceiling::Fixed);
    world.vm(alone).goal = None;
    world.until(RESTORED);
    assert_eq!(world.machine.param_ns(), FOUND_NS);
}

/// The VM followed the pilot's setting: without the pilot, the VM would follow the setting that was there before.
#[test]
fn a_vm_that_followed_what_the_pilot_set_was_found_with_what_was_there_before() {
    let mut world = World::new();
    for _ in 0..16 {
        world.comes(EACH_150_US, Ceiling::Fixed);
    }
    world.until(KEPT);
    assert!(
        world.machine.param_ns() < 35_000,
        "{}",
        world.machine.param_ns()
    );
    let vm = world.comes(EACH_15_US, Ceiling::Follows);
    world.until(decided(vm, Kind::Keep));
    assert_eq!(world.standing(vm).found_ns, Some(FOUND_NS));
}
