//! Changes that are not made: because they fail, or because the VM has ended.

use haltwise_core::pilot::decision::{Decision, Kind, Refusal};
use haltwise_core::pilot::input::{Ceiling, Scope};

use super::load::{EACH_150_US, fixed};
use super::settings::FOUND;
use super::world::{Answer, SECOND, World, full, restores_nothing};

/// A VM, and a pilot whose changes have these results until this was decided; then they are made again.
fn after(answers: fn(&Decision) -> Answer, kind: Kind) -> (World, Scope) {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, Ceiling::Own(FOUND));
    world.answers = Box::new(answers);
    world.until(vm, kind);
    world.answers = Box::new(|_| Answer::Made);
    (world, vm)
}

/// Lets time pass; gives the seconds between attempts to restore a VM's setting.
fn pauses(world: &mut World, vm: Scope, steps: u64) -> Vec<u64> {
    world.answers = Box::new(restores_nothing);
    world.decisions.clear();
    world.until(vm, Kind::Off);
    world.pass(steps);
    let restores = world.decisions.iter();
    let restores = restores.filter(|(_, of, kind)| (*of, *kind) == (vm, Kind::Restore));
    let at: Vec<u64> = restores.map(|(at, ..)| at / SECOND).collect();
    world.answers = Box::new(|_| Answer::Made);
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn a_failed_restore_is_tried_again_less_and_less_often() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, Ceiling::Own(FOUND));
    let doubled = [10, 20, 40, 80, 160, 320, 600, 600, 600];
    assert_eq!(pauses(&mut world, vm, 400)[..9], doubled);
    // A stop tries it whatever was tried before.
    world.stops();
    assert_eq!(world.at(vm), FOUND);
    // After a restore that was made, the pauses start over.
    assert_eq!(pauses(&mut world, vm, 10)[..3], [10, 20, 40]);
}

#[test]
fn a_trial_of_a_vm_that_has_ended_ends() {
    let ended = |decision: &Decision| match decision.kind {
        Kind::Off => Answer::Refused(Refusal::Ended),
        _ => Answer::Made,
    };
    let (mut world, ends) = after(ended, Kind::Off);
    // It stays among the VMs, as its process does.
    let other = world.comes(EACH_150_US, Ceiling::Own(FOUND));
    world.until(other, Kind::Keep);
    let more = [Kind::Keep, Kind::GoBack, Kind::Restore, Kind::HandsOff];
    assert!(!world.has(ends, &more), "nothing is to be restored");
}

/// It follows the parameter, which another program sets: that is no reason to leave the VM alone.
#[test]
fn a_trial_whose_vm_follows_another_value_ends_and_is_tried_again() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, Ceiling::Follows);
    world.answers = Box::new(|_| Answer::Refused(Refusal::Moved));
    world.until(vm, Kind::On);
    world.answers = Box::new(|_| Answer::Made);
    world.settings.is_set_by_another(Scope::Host, 190_000);
    world.until(vm, Kind::Keep);
    assert_eq!(world.standing(vm).found_ns, Some(190_000));
}

/// A VMM that was stopped in the middle makes the change when it goes on.
#[test]
fn a_change_that_failed_and_was_made_nevertheless_is_the_pilots() {
    for first in [Kind::On, Kind::Try] {
        let mut world = World::new();
        let vm = world.comes(EACH_150_US, Ceiling::Own(FOUND));
        world.answers = Box::new(|_| full());
        world.vm(vm).seen.has_answered = false;
        world.until(vm, Kind::On);
        // A trial that begins with a period under the setting before makes no change.
        while world.last().1 != first {
            world.until(vm, Kind::Try);
        }
        world.answers = Box::new(|_| Answer::Made);
        world.vm(vm).seen.has_answered = true;
        let setting = world.settings.get(vm);
        (setting.own, setting.entry) = (Some(5_000), Some((Some(FOUND), 5_000)));
        world.reads();
        // Halts of a period under way are under two settings.
        let ends = [(Kind::On, Kind::Restore), (Kind::Try, Kind::GoBack)];
        assert!(
            ends.contains(&(first, world.last().1)),
            "{:?}",
            world.decisions
        );
        assert_eq!(world.at(vm), FOUND);
        assert_eq!(world.standing(vm).state, "back-off");
    }
    // After a failed restore that was made nothing more is to be done.
    let (mut world, vm) = after(restores_nothing, Kind::Off);
    world.decisions.clear();
    world.settings.undo();
    world.pass(60);
    let more = [Kind::Restore, Kind::HandsOff];
    assert!(!world.has(vm, &more), "{:?}", world.decisions);
}

#[test]
fn a_value_of_another_program_after_a_change_that_failed_is_left_alone() {
    let (mut world, vm) = after(|_| full(), Kind::On);
    world.settings.is_set_by_another(vm, 145_000);
    world.until(vm, Kind::HandsOff);
    world.pass(60);
    assert_eq!(world.at(vm), 145_000);
}

/// Once its VMM has answered that it was not made, an undo is an undo.
#[test]
fn a_change_that_failed_and_was_not_made_explains_no_later_one() {
    let mut world = World::new();
    let vm = world.comes(fixed(12_000.0, 15_000.0), Ceiling::Own(30_000));
    world.until(vm, Kind::Keep);
    world.vm(vm).load = fixed(12_000.0, 25_000.0);
    world.answers = Box::new(|_| full());
    world.until(vm, Kind::On);
    world.pass(2);
    world.settings.is_set_by_another(vm, 30_000);
    world.until(vm, Kind::HandsOff);
}

/// The machine refuses a change over a value that another program has set since the last reading.
#[test]
fn a_setting_that_is_refused_as_anothers_is_left_alone() {
    let (mut world, vm) = after(|_| Answer::Made, Kind::Try);
    world.turn_until(|world| world.at(vm) != FOUND);
    world.settings.is_set_by_another(vm, 145_000);
    while !world.has(vm, &[Kind::HandsOff]) {
        assert!(!world.turn(), "no reading is needed");
    }
    world.pass(60);
    assert_eq!(world.at(vm), 145_000);
}
