//! Changes that are not made: because they fail, or because the VM has ended.

use haltwise_core::ids::VmKey;
use haltwise_core::pilot::decision::{Decision, Kind, Refusal};
use haltwise_core::pilot::input::{Ceiling, Scope};

use super::journal::Entry;
use super::model::{EACH_150_US, fixed};
use super::world::{Answer, Event, FOUND, FOUND_NS, SECOND, World, decided, full};

/// Answers changes from now on.
fn answers(world: &mut World, answer: impl Fn(&Decision) -> Answer + 'static) {
    world.answers = Box::new(answer);
}

fn restores_nothing(decision: &Decision) -> Answer {
    if decision.kind.restores() {
        full()
    } else {
        Answer::Made
    }
}

/// Seconds between attempts to restore what a VM had.
fn pauses(world: &World, vm: VmKey) -> Vec<u64> {
    let restores = world.events.iter();
    let restores = restores.filter(|(_, event)| *event == decided(vm, Kind::Restore));
    let at: Vec<u64> = restores.map(|(at, _)| at / SECOND).collect();
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn what_cannot_be_restored_is_tried_again_less_and_less_often() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, FOUND);
    answers(&mut world, restores_nothing);
    let off = world.until(decided(vm, Kind::Off));
    world.pass(400);
    let is_restore = |(_, event): &&(u64, Event)| *event == decided(vm, Kind::Restore);
    let (first, _) = world.events.iter().find(is_restore).unwrap();
    assert!(*first <= off + 10 * SECOND, "{:?}", world.events);
    let doubled = [10, 20, 40, 80, 160, 320, 600, 600, 600];
    assert_eq!(pauses(&world, vm)[..9], doubled);
    // A stop tries it whatever was tried before.
    let stops = world.pilot.stop();
    assert_eq!(stops.len(), 1, "{stops:?}");
    answers(&mut world, |_| Answer::Made);
    world.until(decided(vm, Kind::Restore));
    assert_eq!(world.ceiling(vm), FOUND);
    // After a restore that was made, the pauses start over.
    answers(&mut world, restores_nothing);
    world.events.clear();
    world.until(decided(vm, Kind::Off));
    world.pass(10);
    assert_eq!(pauses(&world, vm)[..3], [10, 20, 40]);
}

#[test]
fn a_trial_of_a_vm_that_has_ended_ends() {
    let mut world = World::new();
    let ends = world.comes(EACH_150_US, FOUND);
    answers(&mut world, move |decision| {
        if decision.scope == Scope::Vm(ends) && decision.kind != Kind::On {
            return Answer::Refused(Refusal::Ended);
        }
        Answer::Made
    });
    world.until(decided(ends, Kind::Off));
    // It stays among the VMs, as its process does.
    let other = world.comes(EACH_150_US, FOUND);
    world.until(decided(other, Kind::Keep));
    let more = Kind::ALL
        .into_iter()
        .filter(|kind| !kind.is_period() && *kind != Kind::Try);
    let more: Vec<Kind> = more.collect();
    assert!(!world.is_any(ends, &more), "nothing is to be restored");
}

/// It follows the parameter, which another program sets: that is no reason to leave the VM alone.
#[test]
fn a_trial_whose_vm_follows_another_value_ends_and_is_tried_again() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, Ceiling::Follows);
    answers(&mut world, |_| Answer::Refused(Refusal::Moved));
    world.until(decided(vm, Kind::On));
    answers(&mut world, |_| Answer::Made);
    world.machine.is_set_by_human(Scope::Host, 190_000);
    world.until(decided(vm, Kind::Keep));
    assert_eq!(world.standing(vm).found_ns, Some(190_000));
}

fn is_set_late(world: &mut World, vm: VmKey) {
    let place = world.machine.of_mut(Scope::Vm(vm));
    let (before, ours) = (Some(FOUND_NS), 5_000);
    (place.own, place.entry) = (Some(ours), Some(Entry { before, ours }));
}

/// A VMM that was stopped in the middle does what it was asked when it goes on.
#[test]
fn a_change_that_failed_and_was_made_nevertheless_is_the_pilots() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, FOUND);
    answers(&mut world, |_| full());
    world.vm(vm).is_silent = true;
    world.until(decided(vm, Kind::On));
    answers(&mut world, |_| Answer::Made);
    world.vm(vm).is_silent = false;
    is_set_late(&mut world, vm);
    world.until(decided(vm, Kind::Restore));
    assert_eq!(world.ceiling(vm), FOUND);
    // And of one that restores nothing more is to be done.
    answers(&mut world, restores_nothing);
    world.until(decided(vm, Kind::Off));
    world.events.clear();
    answers(&mut world, |_| Answer::Made);
    world.machine.undo();
    world.pass(60);
    let more = [Kind::Restore, Kind::HandsOff];
    assert!(!world.is_any(vm, &more), "{:?}", world.events);
}

/// The period under way holds halts under two settings.
#[test]
fn a_trial_ends_where_a_change_that_failed_before_it_is_made() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, FOUND);
    answers(&mut world, |_| full());
    world.vm(vm).is_silent = true;
    world.until(decided(vm, Kind::On));
    // A trial that begins with a period under the setting before makes no change.
    while world.events.last().unwrap().1 != decided(vm, Kind::Try) {
        world.until(decided(vm, Kind::Try));
    }
    answers(&mut world, |_| Answer::Made);
    is_set_late(&mut world, vm);
    world.reads();
    assert_eq!(world.events.last().unwrap().1, decided(vm, Kind::GoBack));
    assert_eq!(world.ceiling(vm), FOUND);
    assert_eq!(world.standing(vm).state, "back-off");
}

#[test]
fn a_value_modified_externally_after_a_change_that_failed_is_left_alone() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, FOUND);
    answers(&mut world, |_| full());
    world.until(decided(vm, Kind::On));
    answers(&mut world, |_| Answer::Made);
    world.machine.is_set_by_human(Scope::Vm(vm), 145_000);
    world.until(decided(vm, Kind::HandsOff));
    world.pass(60);
    assert_eq!(world.ceiling(vm), Ceiling::Own(145_000));
}

/// Once its VMM has answered that it was not made, an undo is an undo.
#[test]
fn a_change_that_failed_and_was_not_made_explains_no_later_one() {
    let mut world = World::new();
    let vm = world.comes(fixed(12_000.0, 15_000.0), Ceiling::Own(30_000));
    world.until(decided(vm, Kind::Keep));
    world.vm(vm).load = fixed(12_000.0, 25_000.0);
    answers(&mut world, |_| full());
    world.until(decided(vm, Kind::On));
    world.pass(2);
    world.machine.is_set_by_human(Scope::Vm(vm), 30_000);
    world.until(decided(vm, Kind::HandsOff));
}
