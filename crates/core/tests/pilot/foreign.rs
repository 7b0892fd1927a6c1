//! Settings of others are left alone, until the pilot is to take them over; changes that are not made, and those that are made late.

use haltwise_core::pilot::decision::{Decision, Kind, Refusal};
use haltwise_core::pilot::input::{Ceiling, Scope};
use haltwise_core::pilot::standing::VmState;

use super::load::{EACH_15_US, EACH_150_US, load};
use super::settings::FOUND;
use super::world::{Answer, OWN, SECOND, World, full, restores_nothing};

/// The journal has that an earlier run set 5 us in place of 200 us; now 145 us are in force.
fn left() -> (World, Scope) {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, OWN);
    world.settings.get(vm).entry = Some((Some(FOUND), 5_000));
    world.settings.is_set_by_another(vm, 145_000);
    world.reads();
    assert_eq!(world.decisions, [(0, vm, Kind::HandsOff)]);
    (world, vm)
}

/// Starts again with `--take-over`, and reads.
fn takes_over(world: &mut World, vm: Scope) {
    world.restarts();
    world.pilot().take_over();
    world.laws.left.clear();
    // The journal's next change of it begins with the value in force.
    let setting = world.settings.get(vm);
    setting.is_theirs = false;
    setting
        .entry
        .take_if(|(_, ours)| setting.own != Some(*ours));
    world.decisions.clear();
    world.reads();
    assert_eq!(world.decisions, []);
}

fn is_found_with(world: &World, vm: Scope, ns: u32) {
    let of = world.standing(vm);
    assert_eq!((of.state, of.found_ns), (VmState::Watching, Some(ns)));
}

#[test]
fn a_setting_of_another_program_is_taken_over_only_where_that_is_asked_for() {
    let (mut world, vm) = left();
    // Also after a restart; a run that ends before its first reading forgets nothing.
    let memory = world.pilot().memory();
    world.restarts();
    assert_eq!(world.pilot().memory(), memory);
    world.reads();
    assert_eq!(world.standing(vm).state, VmState::HandsOff);
    // Nothing is remembered of a VM that has gone.
    let (mut without, gone) = left();
    without.restarts();
    without.goes(gone);
    without.reads();
    assert_eq!(without.pilot().memory().targets, []);
    // Also where it is the one found: an undo.
    let mut undone = World::new();
    let kept = undone.comes(EACH_150_US, OWN);
    undone.until(kept, Kind::Keep);
    undone.settings.undo();
    undone.reads();
    undone.restarts();
    undone.reads();
    assert_eq!(undone.standing(kept).state, VmState::HandsOff);
    takes_over(&mut world, vm);
    is_found_with(&world, vm, 145_000);
    // A setting found that another program has restored is taken over as found.
    world.settings.is_set_by_another(vm, FOUND);
    takes_over(&mut world, vm);
    is_found_with(&world, vm, FOUND);
    world.until(vm, Kind::Keep);
    world.pass(60);
    takes_over(&mut world, vm);
    assert_eq!(
        world.standing(vm).state,
        VmState::Kept,
        "its own setting stays"
    );
    // Neither memory nor the pilot explains this value: nothing that was measured counts.
    world.settings.is_set_by_another(vm, 145_000);
    takes_over(&mut world, vm);
    is_found_with(&world, vm, 145_000);
    let saved = world.standing(vm).saved_ns;
    assert_eq!(saved.map(|saved| saved.value), Some(0.0));
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

/// Replays and trials are of the parameters in force, which another program sets before there is an answer, after one, and in a
/// trial.
#[test]
fn facts_of_vms_are_of_the_parameters_in_force() {
    let events: [fn(&mut World); 2] = [
        |world| world.settings.is_set_by_another(Scope::Host, 190_000),
        World::grow_is_set_by_another,
    ];
    for (event, ceiling) in events
        .into_iter()
        .flat_map(|it| [(it, Ceiling::Follows), (it, OWN)])
    {
        for kind in [None, Some(Kind::WouldSet), Some(Kind::Try)] {
            let mut world = World::new();
            let vm = world.comes(EACH_150_US, ceiling);
            world.limit(|limits| limits.may_act = kind == Some(Kind::Try));
            world.pass(1);
            if let Some(kind) = kind {
                world.turn_until(|world| world.has(vm, &[kind]));
            }
            let follows = world.settings.get(vm).own.is_none();
            event(&mut world);
            let found = if follows {
                world.at(Scope::Host)
            } else {
                FOUND
            };
            world.pass(2);
            world.limit(|limits| limits.may_act = true);
            world.turn_until(|world| world.has(vm, &[Kind::Keep]));
            assert_eq!(world.standing(vm).found_ns, Some(found));
        }
    }
}

/// A VM, and a pilot whose changes have these results until this was decided; then they are made again.
fn after(answers: fn(&Decision) -> Answer, kind: Kind) -> (World, Scope) {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, OWN);
    world.answers = Some(Box::new(answers));
    world.until(vm, kind);
    world.answers = None;
    (world, vm)
}

/// Lets time pass; gives the seconds between attempts to restore a VM's setting.
fn pauses(world: &mut World, vm: Scope, steps: u64) -> Vec<u64> {
    world.answers = Some(Box::new(restores_nothing));
    world.decisions.clear();
    world.until(vm, Kind::Off);
    world.pass(steps);
    let restores = world.decisions.iter();
    let restores = restores.filter(|(_, of, kind)| (*of, *kind) == (vm, Kind::Restore));
    let at: Vec<u64> = restores.map(|(at, ..)| at / SECOND).collect();
    world.answers = None;
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn a_failed_restore_is_tried_again_less_and_less_often() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, OWN);
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
        Kind::Off => (false, Some(Err(Refusal::Ended))),
        _ => (true, Some(Ok(()))),
    };
    let (mut world, ends) = after(ended, Kind::Off);
    // It stays among the VMs, as its process does.
    let other = world.comes(EACH_150_US, OWN);
    world.until(other, Kind::Keep);
    let more = [Kind::Keep, Kind::GoBack, Kind::Restore, Kind::HandsOff];
    assert!(!world.has(ends, &more), "nothing is to be restored");
}

/// It follows the parameter, which another program sets before the change: that is no reason to leave the VM alone.
#[test]
fn a_trial_whose_vm_follows_another_value_ends_and_is_tried_again() {
    let mut world = World::new();
    let vm = world.comes(EACH_150_US, Ceiling::Follows);
    world.answers = Some(Box::new(|_| (false, Some(Err(Refusal::Moved)))));
    world.until(vm, Kind::On);
    world.answers = None;
    world.settings.is_set_by_another(Scope::Host, 190_000);
    world.until(vm, Kind::Keep);
    assert_eq!(world.standing(vm).found_ns, Some(190_000));
}

/// A VMM that was stopped in the middle makes the change when it goes on.
#[test]
fn a_change_that_failed_and_was_made_nevertheless_is_the_pilots() {
    for (first, end) in [(Kind::On, Kind::Restore), (Kind::Try, Kind::GoBack)] {
        let mut world = World::new();
        let vm = world.comes(EACH_150_US, OWN);
        world.answers = Some(Box::new(full));
        world.vm(vm).seen.has_answered = false;
        world.until(vm, Kind::On);
        // A trial that begins with a period under the setting before makes no change.
        while world.decisions.last().unwrap().2 != first {
            world.until(vm, Kind::Try);
        }
        world.answers = None;
        world.vm(vm).seen.has_answered = true;
        let setting = world.settings.get(vm);
        (setting.own, setting.entry) = (Some(5_000), Some((Some(FOUND), 5_000)));
        world.reads();
        // Halts of a period under way are under two settings.
        assert_eq!(world.decisions.last().unwrap().2, end);
        assert_eq!(world.at(vm), FOUND);
        assert_eq!(world.standing(vm).state, VmState::BackOff);
    }
    // After a failed restore that was made nothing more is to be done.
    let (mut world, vm) = after(restores_nothing, Kind::Off);
    world.decisions.clear();
    world.settings.undo();
    world.settings.get(vm).is_theirs = false;
    world.pass(60);
    let more = [Kind::Restore, Kind::HandsOff];
    assert!(!world.has(vm, &more), "{:?}", world.decisions);
}

/// Once its VMM has answered that it was not made, an undo is an undo; and a value that was not tried is another program's at once.
#[test]
fn a_change_that_failed_and_was_not_made_explains_no_later_one() {
    let mut world = World::new();
    let vm = world.comes(load(12_000.0, 15_000.0), Ceiling::Own(30_000));
    world.until(vm, Kind::Keep);
    world.vm(vm).load = load(12_000.0, 25_000.0);
    world.answers = Some(Box::new(full));
    world.until(vm, Kind::On);
    world.pass(2);
    world.settings.is_set_by_another(vm, 30_000);
    world.until(vm, Kind::HandsOff);
    let (mut world, vm) = after(full, Kind::On);
    world.settings.is_set_by_another(vm, 145_000);
    world.until(vm, Kind::HandsOff);
}

/// The machine refuses a change over a value that another program has set since the last reading.
#[test]
fn a_setting_that_is_refused_as_anothers_is_left_alone() {
    let (mut world, vm) = after(|_| (true, Some(Ok(()))), Kind::Try);
    world.turn_until(|world| world.at(vm) != FOUND);
    world.settings.is_set_by_another(vm, 145_000);
    while !world.has(vm, &[Kind::HandsOff]) {
        assert!(!world.turn(), "no reading is needed");
    }
    world.pass(60);
    assert_eq!(world.at(vm), 145_000);
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
