//! When VMs are looked at: those for which something was set also while another is on trial; more of them where that gains
//! more; none where nothing but a guard keeps from a choice.

use haltwise_core::ids::VmKey;
use haltwise_core::pilot::decision::{Kind, Refusal};
use haltwise_core::pilot::input::{Ceiling, Pressure, Scope};

use super::host::{
    EACH_15_US, EACH_150_US, Event, FOUND, FREE, Host, OFF, PRESSED, SECOND, TICKING, decided,
};
use super::model::Load;

#[test]
fn a_vm_whose_load_changes_is_looked_at_while_another_is_on_trial() {
    let mut host = Host::new();
    let kept = host.comes(EACH_150_US, FOUND);
    host.until(decided(kept, Kind::Keep));
    let tried = host.comes(TICKING, FOUND);
    let began = host.until(decided(tried, Kind::Try));
    host.vm(kept).load = EACH_15_US;
    let restored = host.until(decided(kept, Kind::Restore));
    // Two readings that are unlike, a period that is under way, a period under the setting on trial, and the look.
    assert!(restored <= began + 60 * SECOND, "{:?}", host.events);
    let ends = [Kind::Keep, Kind::GoBack];
    assert!(!host.is_any(tried, &ends), "{:?}", host.events);
    host.until(decided(tried, Kind::Keep));
}

#[test]
fn what_settings_gain_pays_for_looks() {
    let looks = |load| {
        let mut host = Host::new();
        for _ in 0..20 {
            host.comes(load, FOUND);
        }
        host.look_ns = 1_500_000_000;
        host.pass(360);
        let before = host.looks();
        host.pass(360);
        host.looks() - before
    };
    // With 10 s of CPU time in an hour at most, there is one look a minute.
    let without = looks(EACH_15_US);
    assert!((55..=65).contains(&without), "{without}");
    let with = looks(EACH_150_US);
    assert!(with > 2 * without, "{with} and {without}");
}

#[test]
fn a_choice_that_had_to_wait_is_made_when_nothing_keeps_from_it_any_more() {
    let mut host = Host::new();
    let vm = host.comes(EACH_15_US, OFF);
    host.state.cpu_pressure = PRESSED;
    host.pass(360);
    let decisions = host.count(|event| matches!(event, Event::Decided(..)));
    assert_eq!(decisions, 0, "{:?}", host.events);
    host.state.cpu_pressure = FREE;
    let looks = host.looks();
    host.until(decided(vm, Kind::Try));
    assert_eq!(host.looks(), looks, "by what is known already");
}

#[test]
fn a_trial_ends_when_the_load_of_its_vm_changes() {
    let mut host = Host::new();
    let vm = host.comes(TICKING, FOUND);
    let began = host.until(decided(vm, Kind::Try));
    // Both settings cost it the same, nearly.
    host.vm(vm).load = Load {
        halts_per_s: 20.0,
        ..TICKING
    };
    let ended = host.until(decided(vm, Kind::GoBack));
    // A round of 10 s for each period holds two under the setting before; with the one before and after it, four periods.
    assert!(ended <= began + 50 * SECOND, "{:?}", host.events);
    assert_eq!(host.ceiling(vm), FOUND);
}

/// Halts of before and after a change are not one look.
#[test]
fn a_look_under_way_ends_where_its_vms_setting_changes() {
    let mut host = Host::new();
    let vm = host.comes(EACH_15_US, OFF);
    host.until(decided(vm, Kind::Keep));
    while host.pilot.wanted().is_none() {
        host.pass(1);
    }
    let wanted = host.pilot.wanted().cloned().unwrap();
    assert_eq!(wanted.vms, [vm]);
    host.state.cpu_pressure = PRESSED;
    host.reads();
    assert_eq!(host.events.last().unwrap().1, decided(vm, Kind::Restore));
    assert_ne!(host.pilot.wanted(), Some(&wanted), "another look, if any");
}

/// A VM whose load changes each few minutes does not have the host's parameters tried for all others each time; nor do others
/// that want the CPUs now and then, for which all VMs halt less often.
#[test]
fn a_back_off_ends_with_the_load_of_most_halts() {
    let tries = |which: usize, part: f64, pressed: f64| {
        let mut host = Host::new();
        host.refuses = |decision| {
            let is_new = !decision.kind.restores();
            is_new.then(|| Refusal::Failed("it is refused".to_owned()))
        };
        let loads = [[EACH_150_US].as_slice(), &[TICKING; 7]].concat();
        let comes = |load: &Load| host.comes(*load, Ceiling::Fixed);
        let vms: Vec<VmKey> = loads.iter().map(comes).collect();
        for phase in 0..100 {
            host.vm(vms[which]).load.halts_per_s =
                loads[which].halts_per_s * [1.0, part][phase % 2];
            host.state.cpu_pressure = Pressure::Share([0.01, pressed][phase % 2]);
            host.pass(30);
        }
        let tried = Event::Decided(Scope::Host, Kind::Try);
        host.count(|event| event == tried)
    };
    let (steady, one) = (tries(0, 1.0, 0.01), tries(1, 0.5, 0.01));
    let [most, of_host] = [0.01, 0.4].map(|pressure| tries(0, 0.5, pressure));
    // It doubles: 100 phases of five minutes have room for six or seven times ten minutes, doubled each time.
    assert!((3..20).contains(&steady), "{steady}");
    assert!(one <= steady + 2, "{one} and {steady}");
    assert!(most > 2 * steady, "{most} and {steady}");
    assert!(of_host <= steady + 2, "{of_host} and {steady}");
}

/// A trial waits for a look at another VM, whose setting is restored meanwhile.
#[test]
fn a_trial_goes_on_where_the_look_that_it_waits_for_is_dropped() {
    let mut host = Host::new();
    let kept = host.comes(EACH_15_US, OFF);
    host.until(decided(kept, Kind::Keep));
    let tried = host.comes(TICKING, FOUND);
    host.until(decided(tried, Kind::Try));
    let is_look = |host: &Host| {
        let wanted = host.pilot.wanted();
        wanted.is_some_and(|wanted| wanted.vms == [kept])
    };
    while !is_look(&host) {
        host.turn();
    }
    let ends = [Kind::Keep, Kind::GoBack];
    assert!(!host.is_any(tried, &ends), "{:?}", host.events);
    host.state.cpu_pressure = PRESSED;
    host.reads();
    assert_eq!(host.ceiling(kept), OFF);
    host.pass(100);
    assert!(host.is_any(tried, &ends), "{:?}", host.events);
}

/// A VM that was looked at and does not halt any more has no part in the periods of a trial of all that follow.
#[test]
fn a_period_holds_no_halts_of_an_earlier_look() {
    let mut host = Host::new();
    host.comes(EACH_150_US, Ceiling::Fixed);
    let ticks = host.comes(TICKING, Ceiling::Fixed);
    host.until(Event::Decided(Scope::Host, Kind::Try));
    host.vm(ticks).stands_still = true;
    host.until(Event::Decided(Scope::Host, Kind::Keep));
    assert!(!host.is_decided(Kind::GoBack), "{:?}", host.events);
}

/// A VM that halts less often since others want the CPUs has no other load.
#[test]
fn a_trial_that_the_host_disturbs_ends_for_that_and_not_for_its_vm() {
    for (pressure, why) in [
        (0.4, "other tasks want the CPUs"),
        (0.01, "the load of its VM"),
    ] {
        let mut host = Host::new();
        let vm = host.comes(EACH_150_US, FOUND);
        host.until(decided(vm, Kind::Try));
        host.vm(vm).load.halts_per_s /= 3.0;
        host.state.cpu_pressure = Pressure::Share(pressure);
        host.until(decided(vm, Kind::GoBack));
        host.pass(1);
        let of = &host.pilot.standing().vms[0];
        assert!(of.why.starts_with(why), "{}", of.why);
    }
}
