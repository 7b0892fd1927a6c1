//! Guards against more polling, and against settings outside of the limits: before, in, and after a trial.

use haltwise_core::pilot::Limits;
use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Pressure, Scope};

use super::host::{
    EACH_15_US, EACH_150_US, Event, FOUND, FOUND_NS, FREE, Host, OFF, PRESSED, acts, decided,
};
use super::model::{Load, Modelled};

/// Best polled, for so much of a CPU.
fn polls(percent: f64) -> Load {
    Load {
        halts_per_s: percent / 100.0 * 1e9 / EACH_15_US.gap_ns,
        ..EACH_15_US
    }
}

#[test]
fn a_kept_setting_that_polls_more_under_a_lower_ceiling_is_restored_under_cpu_pressure() {
    // By what its trial was to change, and by a look.
    for steps in [0, 60] {
        let mut host = Host::with(Modelled {
            is_inverted: true,
            ..Modelled::right(1)
        });
        let vm = host.comes(EACH_150_US, FOUND);
        host.until(decided(vm, Kind::Keep));
        host.pass(steps);
        assert_ne!(host.ceiling(vm), FOUND);
        host.state.cpu_pressure = FREE;
        host.pass(2);
        assert!(!host.is_decided(Kind::Restore), "{:?}", host.events);
        host.state.cpu_pressure = PRESSED;
        host.pass(1);
        assert!(host.is_decided(Kind::Restore), "{:?}", host.events);
        assert_eq!(host.ceiling(vm), FOUND);
    }
}

#[test]
fn what_is_set_above_a_lowered_limit_is_restored() {
    let mut host = Host::new();
    let (kept, found) = (host.comes(EACH_15_US, OFF), host.comes(EACH_15_US, FOUND));
    host.until(decided(kept, Kind::Keep));
    let kept_ns = 40_000;
    assert_eq!(host.ceiling(kept), Ceiling::Own(kept_ns));
    host.limit(Limits {
        max_ceiling_ns: kept_ns,
        ..acts()
    });
    assert!(!host.is_decided(Kind::Restore), "{:?}", host.events);
    let lower = Limits {
        max_ceiling_ns: kept_ns - 1,
        ..acts()
    };
    host.limit(lower);
    assert_eq!(host.ceiling(kept), OFF);
    host.pass(360);
    // It is not set again, and what was found is not the pilot's.
    assert_eq!(host.ceiling(kept), OFF);
    assert_eq!(host.ceiling(found), FOUND);
}

/// Where each is asked for itself, two of 40 % are within a limit of 50 %.
#[test]
fn what_polls_together_stays_within_the_limit() {
    let mut host = Host::new();
    host.limit(Limits {
        max_poll_cpu_percent: Some(50.0),
        ..acts()
    });
    for _ in 0..2 {
        host.comes(polls(40.0), OFF);
    }
    host.comes(polls(5.0), OFF);
    for _ in 0..720 {
        host.pass(1);
        let polled = host.polled_percent();
        assert!(polled < 50.0, "{polled} {:?}", host.events);
    }
    let polled = host.polled_percent();
    assert!((45.0..46.0).contains(&polled), "{polled} {:?}", host.events);
    assert!(!host.is_decided(Kind::Restore), "{:?}", host.events);
    // Where another takes less, there is room.
    host.limit(Limits {
        max_poll_cpu_percent: Some(100.0),
        ..acts()
    });
    host.pass(720);
    let polled = host.polled_percent();
    assert!((85.0..86.0).contains(&polled), "{polled} {:?}", host.events);
}

/// Both were proven, and are set again without a trial.
#[test]
fn what_is_set_again_at_once_stays_within_the_limit_together() {
    let mut host = Host::new();
    let vms = [host.comes(polls(40.0), OFF), host.comes(polls(40.0), OFF)];
    for vm in vms {
        host.comes_to(vm, Kind::Keep);
    }
    for vm in vms {
        host.vm(vm).load = EACH_150_US;
    }
    for vm in vms {
        host.comes_to(vm, Kind::Restore);
    }
    host.limit(Limits {
        max_poll_cpu_percent: Some(50.0),
        ..acts()
    });
    host.state.cpu_pressure = PRESSED;
    host.pass(720);
    for vm in vms {
        host.vm(vm).load = polls(40.0);
    }
    host.pass(60);
    assert!(!host.is_decided(Kind::Again), "{:?}", host.events);
    // Both may be set by the same reading.
    host.state.cpu_pressure = FREE;
    for _ in 0..720 {
        host.pass(1);
        let polled = host.polled_percent();
        assert!(polled < 50.0, "{polled} {:?}", host.events);
    }
    assert!(host.is_decided(Kind::Again), "{:?}", host.events);
}

#[test]
fn while_a_figure_is_not_known_no_more_polling_is_begun() {
    for (pressure, busy) in [(Pressure::NotYet, Some(2.0)), (FREE, None)] {
        let mut host = Host::new();
        (host.state.cpu_pressure, host.state.busy_cpus) = (pressure, busy);
        host.comes(EACH_15_US, OFF);
        let less = host.comes(EACH_150_US, FOUND);
        host.until(decided(less, Kind::Keep));
        host.pass(120);
        let more = |event| matches!(event, Event::Decided(Scope::Vm(vm), _) if vm != less);
        assert_eq!(host.count(more), 0, "{:?}", host.events);
        // Less polling is, and what keeps from more is said.
        let standing = host.pilot.standing();
        let unknown = standing.guards.iter().find(|it| it.is_not_known()).unwrap();
        assert!(unknown.why().contains("not known yet"), "{unknown:?}");
        // A kernel without PSI never knows: free CPUs decide.
        (host.state.cpu_pressure, host.state.busy_cpus) = (Pressure::NotThere, Some(2.0));
        host.pass(120);
        assert!(host.count(more) > 0, "{:?}", host.events);
    }
}

#[test]
fn one_that_only_watches_says_what_it_would_set() {
    let mut host = Host::new();
    host.limit(Limits::default());
    let vm = host.comes(EACH_150_US, FOUND);
    host.until(decided(vm, Kind::WouldSet));
    assert_eq!(host.ceiling(vm), FOUND);
    let would_ns = host.pilot.standing().vms[0].would_set_ns;
    assert!(would_ns.is_some_and(|ns| ns < FOUND_NS), "{would_ns:?}");
}

#[test]
fn one_that_only_watches_restores_nothing_that_an_earlier_run_kept() {
    let mut host = Host::new();
    let vm = host.comes(EACH_15_US, OFF);
    host.until(decided(vm, Kind::Keep));
    let kept = host.ceiling(vm);
    host.restarts_within(Limits::default());
    host.state.cpu_pressure = PRESSED;
    host.pass(30);
    assert_eq!(host.ceiling(vm), kept);
    let standing = host.pilot.standing();
    assert!(standing.vms[0].why.contains("`haltwise undo` restores"));
    // It restores once it may act.
    host.limit(acts());
    host.pass(1);
    assert_eq!(host.ceiling(vm), OFF);
}
