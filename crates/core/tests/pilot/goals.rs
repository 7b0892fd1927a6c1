//! Measurements for one goal count no longer where a VM has another goal.

use haltwise_core::pilot::Goal;
use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Scope};

use super::host::{EACH_150_US, Event, FOUND, FOUND_NS, Host, TICKING, decided, fixed};

fn density() -> Goal {
    Goal {
        name: "density".to_owned(),
        weight_milli: 0,
    }
}

#[test]
fn what_was_kept_for_another_goal_is_restored_and_tried_anew() {
    let mut host = Host::new();
    let vm = host.comes(EACH_150_US, FOUND);
    host.until(decided(vm, Kind::Keep));
    host.pass(360);
    let before = host.pilot.memory().targets[0].regret;
    host.vm(vm).goal = Some(density());
    host.reads();
    assert_eq!(host.events.last().unwrap().1, decided(vm, Kind::Restore));
    assert_eq!(host.ceiling(vm), FOUND);
    let after = host.pilot.memory().targets[0].regret;
    assert!(before.actual_ns > 0.0 && after.actual_ns < before.actual_ns / 100.0);
    // A setting that was proven for the other goal is not set again without a trial.
    host.until(decided(vm, Kind::Keep));
    assert!(!host.is_any(vm, &[Kind::Again]));
}

#[test]
fn a_trial_ends_with_its_goal() {
    let mut host = Host::new();
    let vm = host.comes(TICKING, FOUND);
    host.until(decided(vm, Kind::Try));
    host.pass(2);
    host.vm(vm).goal = Some(density());
    host.reads();
    assert_eq!(host.events.last().unwrap().1, decided(vm, Kind::GoBack));
    assert_eq!(host.ceiling(vm), FOUND);
}

#[test]
fn what_was_kept_for_another_goal_is_restored_after_a_restart() {
    let mut host = Host::new();
    let [one, other] = [0, 1].map(|_| host.comes(EACH_150_US, FOUND));
    host.until(decided(one, Kind::Keep));
    host.until(decided(other, Kind::Keep));
    host.vm(one).goal = Some(density());
    host.restarts();
    host.reads();
    assert_eq!(host.ceiling(one), FOUND);
    assert_ne!(host.ceiling(other), FOUND, "its goal is the same");
}

/// The parameter is set for all that follow it, each by its own goal.
#[test]
fn the_parameter_is_restored_where_one_that_follows_has_another_goal() {
    let mut host = Host::new();
    let vms = [0, 1].map(|_| host.comes(EACH_150_US, Ceiling::Fixed));
    host.until(Event::Decided(Scope::Host, Kind::Keep));
    assert_ne!(host.machine.param_ns, FOUND_NS);
    host.vm(vms[1]).goal = Some(density());
    host.reads();
    assert_eq!(host.machine.param_ns, FOUND_NS);
}

/// Where a trial began from what was kept for the other goal, what was found is restored, not what was kept.
#[test]
fn a_trial_over_what_was_kept_ends_with_its_goal_at_what_was_found() {
    let mut host = Host::new();
    let found = Ceiling::Own(30_000);
    let vm = host.comes(fixed(15_000.0), found);
    host.until(decided(vm, Kind::Keep));
    let kept = host.ceiling(vm);
    // A longer ceiling is better then, and what was found no better than what is kept.
    host.vm(vm).load = fixed(25_000.0);
    host.until(decided(vm, Kind::On));
    assert!(host.ceiling(vm) != found && host.ceiling(vm) != kept);
    host.vm(vm).goal = Some(density());
    host.reads();
    assert_eq!(host.ceiling(vm), found);
}
