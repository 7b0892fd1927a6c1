//! Changes that are not made: because they fail, or because the VM has ended.

use haltwise_core::ids::VmKey;
use haltwise_core::pilot::decision::{Decision, Kind, Refusal};
use haltwise_core::pilot::input::{Ceiling, Scope};

use super::host::{EACH_150_US, Event, FOUND, Host, SECOND, decided, fixed};
use super::journal::SET;

fn full() -> Refusal {
    Refusal::Failed("no space left on device".to_owned())
}

/// Seconds between attempts to restore what a VM had.
fn pauses(host: &Host, vm: VmKey) -> Vec<u64> {
    let restores = host.events.iter();
    let restores = restores.filter(|(_, event)| *event == decided(vm, Kind::Restore));
    let at: Vec<u64> = restores.map(|(at, _)| at / SECOND).collect();
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn restores_nothing(decision: &Decision) -> Option<Refusal> {
    decision.kind.restores().then(full)
}

#[test]
fn what_cannot_be_restored_is_tried_again_less_and_less_often() {
    let mut host = Host::new();
    let vm = host.comes(EACH_150_US, FOUND);
    host.refuses = restores_nothing;
    let off = host.until(decided(vm, Kind::Off));
    host.pass(400);
    let is_restore = |(_, event): &&(u64, Event)| *event == decided(vm, Kind::Restore);
    let (first, _) = host.events.iter().find(is_restore).unwrap();
    assert!(*first <= off + 10 * SECOND, "{:?}", host.events);
    let doubled = [10, 20, 40, 80, 160, 320, 600, 600, 600];
    assert_eq!(pauses(&host, vm)[..9], doubled);
    // A stop tries it whatever was tried before.
    let stops = host.pilot.stop();
    assert_eq!(stops.len(), 1, "{stops:?}");
    host.refuses = |_| None;
    host.until(decided(vm, Kind::Restore));
    assert_eq!(host.ceiling(vm), FOUND);
    // After a restore that was made, the pauses start over.
    host.refuses = restores_nothing;
    host.events.clear();
    host.until(decided(vm, Kind::Off));
    host.pass(10);
    assert_eq!(pauses(&host, vm)[..3], [10, 20, 40]);
}

#[test]
fn a_trial_of_a_vm_that_has_ended_ends() {
    let mut host = Host::new();
    let ends = host.comes(EACH_150_US, FOUND);
    host.refuses = |decision| {
        let is_it = matches!(decision.scope, Scope::Vm(vm) if vm.pid.0 == 100);
        (is_it && decision.kind != Kind::On).then_some(Refusal::Ended)
    };
    host.until(decided(ends, Kind::Off));
    // It stays among the VMs, as its process does.
    let other = host.comes(EACH_150_US, FOUND);
    host.until(decided(other, Kind::Keep));
    let restores = [
        Kind::WouldSet,
        Kind::Keep,
        Kind::GoBack,
        Kind::Again,
        Kind::Restore,
        Kind::HandsOff,
    ];
    assert!(!host.is_any(ends, &restores), "nothing is to be restored");
}

/// It follows the parameter, which another program sets: that is no reason to leave the VM alone.
#[test]
fn a_trial_whose_vm_follows_another_value_ends_and_is_tried_again() {
    let mut host = Host::new();
    let vm = host.comes(EACH_150_US, Ceiling::Follows);
    host.refuses = |decision| (decision.kind == Kind::On).then_some(Refusal::Moved);
    host.until(decided(vm, Kind::On));
    host.refuses = |_| None;
    host.machine.param_ns = 190_000;
    host.until(decided(vm, Kind::Keep));
    let standing = host.pilot.standing();
    assert_eq!(standing.vms[0].found_ns, Some(190_000));
}

/// A VMM that was stopped in the middle does what it was asked when it goes on.
#[test]
fn a_change_that_failed_and_was_made_nevertheless_is_the_pilots() {
    let mut host = Host::new();
    let vm = host.comes(EACH_150_US, FOUND);
    host.refuses = |_| Some(full());
    host.vm(vm).is_silent = true;
    host.until(decided(vm, Kind::On));
    host.refuses = |_| None;
    host.vm(vm).is_silent = false;
    host.machine.ceilings.insert(vm, Ceiling::Own(5_000));
    host.machine.journal.insert(Scope::Vm(vm), SET);
    host.until(decided(vm, Kind::Restore));
    assert_eq!(host.ceiling(vm), FOUND);
    // And of one that restores nothing more is to be done.
    host.refuses = restores_nothing;
    host.until(decided(vm, Kind::Off));
    host.events.clear();
    host.refuses = |_| None;
    host.machine.ceilings.insert(vm, FOUND);
    host.machine.journal.clear();
    host.pass(60);
    let more = [Kind::Restore, Kind::HandsOff];
    assert!(!host.is_any(vm, &more), "{:?}", host.events);
}

#[test]
fn a_value_modified_externally_after_a_change_that_failed_is_left_alone() {
    let mut host = Host::new();
    let vm = host.comes(EACH_150_US, FOUND);
    host.refuses = |_| Some(full());
    host.until(decided(vm, Kind::On));
    host.refuses = |_| None;
    host.machine.ceilings.insert(vm, Ceiling::Own(145_000));
    host.until(decided(vm, Kind::HandsOff));
    host.pass(60);
    assert_eq!(host.ceiling(vm), Ceiling::Own(145_000));
}

/// Once its VMM has answered that it was not made, an undo is an undo.
#[test]
fn a_change_that_failed_and_was_not_made_explains_no_later_one() {
    let mut host = Host::new();
    let found = Ceiling::Own(30_000);
    let vm = host.comes(fixed(15_000.0), found);
    host.until(decided(vm, Kind::Keep));
    host.vm(vm).load = fixed(25_000.0);
    host.refuses = |_| Some(full());
    host.until(decided(vm, Kind::On));
    host.pass(2);
    host.machine.ceilings.insert(vm, found);
    host.until(decided(vm, Kind::HandsOff));
}
