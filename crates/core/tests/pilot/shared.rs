//! The host's parameter, which several VMs follow.

use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Scope};
use haltwise_core::pilot::{Limits, Parameters};

use super::load::{EACH_15_US, EACH_150_US};
use super::settings::FOUND;
use super::world::{World, acts};

#[test]
fn it_is_set_for_a_vm_that_is_left_alone_where_that_is_allowed() {
    for (parameters, is_set) in [(Parameters::Shared, true), (Parameters::Unshared, false)] {
        let mut world = World::new();
        world.limit(Limits {
            parameters,
            ..acts()
        });
        world.comes(EACH_150_US, Ceiling::Fixed);
        let alone = world.comes(EACH_15_US, Ceiling::Fixed);
        world.vm(alone).seen.goal = None;
        world.pass(100);
        assert_eq!(world.at(Scope::Host) != FOUND, is_set, "{parameters:?}");
    }
}

#[test]
fn it_is_tried_once_most_of_the_halts_were_looked_at_twice() {
    let mut world = World::new();
    let vms = [(); 10].map(|()| world.comes(EACH_150_US, Ceiling::Fixed));
    world.until(Scope::Host, Kind::Try);
    let looks = |vm: &Scope| world.looks.iter().filter(|of| *of == vm).count();
    let twice = vms.iter().filter(|vm| looks(vm) >= 2).count();
    assert!(twice >= 9, "{twice} of 10: {:?}", world.looks);
}

/// No VM is left that it would be set for, and one follows it that is left alone.
#[test]
fn the_setting_of_an_earlier_run_is_restored() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, Ceiling::Fixed);
    world.until(Scope::Host, Kind::Keep);
    world.goes(vm);
    world.restarts();
    let alone = world.comes(EACH_15_US, Ceiling::Fixed);
    world.vm(alone).seen.goal = None;
    world.until(Scope::Host, Kind::Restore);
    assert_eq!(world.at(Scope::Host), FOUND);
}

/// Without the pilot, a VM that follows the pilot's setting would follow the setting before.
#[test]
fn a_vm_that_follows_the_pilots_setting_was_found_with_the_one_before() {
    let mut world = World::new();
    for _ in 0..16 {
        world.comes(EACH_150_US, Ceiling::Fixed);
    }
    world.until(Scope::Host, Kind::Keep);
    assert!(world.at(Scope::Host) < 35_000, "{}", world.at(Scope::Host));
    let vm = world.comes(EACH_15_US, Ceiling::Follows);
    world.until(vm, Kind::Keep);
    assert_eq!(world.standing(vm).found_ns, Some(FOUND));
}
