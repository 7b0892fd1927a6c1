//! What keeps from more polling, and from settings outside of the limits: before a trial, in it, and after it.

use std::cell::Cell;
use std::rc::Rc;

use haltwise_core::kvm::Knobs;
use haltwise_core::pilot::Limits;
use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::evidence::{Answer, Choice, Evidence, Measured, OfVm, Question};
use haltwise_core::pilot::input::{Ceiling, Pressure, Scope};
use haltwise_core::replay::Cost;
use haltwise_core::stats::Interval;

use super::host::{EACH_15_US, EACH_150_US, Event, FOUND, FREE, Host, OFF, PRESSED, acts, decided};
use super::model::{Chunk, Load, Modelled};

/// Best polled, for so much of a CPU.
fn polls(percent: f64) -> Load {
    Load {
        halts_per_s: percent / 100.0 * 1e9 / EACH_15_US.gap_ns,
        ..EACH_15_US
    }
}

/// Evidence with a fixed choice and fixed figures of polling.
#[derive(Debug)]
struct Told {
    model: Modelled,
    is_inverted: bool,
    /// Better, in nanoseconds, where this is not in force.
    better: Rc<Cell<Option<u32>>>,
}

impl Told {
    fn new(is_inverted: bool) -> Self {
        Self {
            model: Modelled::right(1),
            is_inverted,
            better: Rc::default(),
        }
    }
}

impl Evidence for Told {
    type Chunk = Chunk;

    fn learn(&mut self, chunk: &Chunk) {
        self.model.learn(chunk);
    }

    fn excerpt(chunk: &Chunk) -> Chunk {
        Modelled::excerpt(chunk)
    }

    fn size(chunk: &Chunk) -> usize {
        Modelled::size(chunk)
    }

    fn weigh(&mut self, vms: &[OfVm<'_, Chunk>], question: &Question) -> Option<Answer> {
        let mut answer = self.model.weigh(vms, question)?;
        let in_force = question.in_force;
        if let Some(halt_poll_ns) = self.better.get()
            && halt_poll_ns != in_force.halt_poll_ns
        {
            answer.choice = Some(Choice {
                knobs: Knobs {
                    halt_poll_ns,
                    ..in_force
                },
                gain: Interval {
                    value: 0.3,
                    low: 0.3,
                    high: 0.3,
                },
                poll_cpu_percent: 10.0,
                more_poll_cpu_percent: -10.0,
                worst_ns_per_s: 0.0,
            });
        }
        if self.is_inverted {
            answer.more_poll_than_found_percent *= -1.0;
            if let Some(choice) = &mut answer.choice {
                choice.more_poll_cpu_percent *= -1.0;
            }
        }
        Some(answer)
    }

    fn measure(&mut self, vms: &[OfVm<'_, Chunk>], other: Knobs, cost: &Cost) -> Option<Measured> {
        self.model.measure(vms, other, cost)
    }
}

#[test]
fn a_kept_setting_that_polls_more_under_a_lower_ceiling_is_restored_under_cpu_pressure() {
    // By what its trial was to change, and by a look.
    for steps in [0, 60] {
        let mut host = Host::with(Told::new(true));
        let vm = host.comes(EACH_150_US, FOUND);
        host.until(decided(vm, Kind::Keep));
        host.pass(steps);
        assert_ne!(host.vm(vm).ceiling, FOUND);
        host.cpu_pressure = FREE;
        host.pass(2);
        assert!(!host.is_decided(Kind::Restore), "{:?}", host.events);
        host.cpu_pressure = PRESSED;
        host.pass(1);
        assert!(host.is_decided(Kind::Restore), "{:?}", host.events);
        assert_eq!(host.vm(vm).ceiling, FOUND);
    }
}

#[test]
fn what_is_set_above_a_lowered_limit_is_restored() {
    let mut host = Host::new();
    let (kept, found) = (host.comes(EACH_15_US, OFF), host.comes(EACH_15_US, FOUND));
    host.until(decided(kept, Kind::Keep));
    let kept_ns = 40_000;
    assert_eq!(host.vm(kept).ceiling, Ceiling::Own(kept_ns));
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
    assert_eq!(host.vm(kept).ceiling, OFF);
    host.pass(360);
    // It is not set again, and what was found is not the pilot's.
    assert_eq!(host.vm(kept).ceiling, OFF);
    assert_eq!(host.vm(found).ceiling, FOUND);
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
    host.cpu_pressure = PRESSED;
    host.pass(720);
    for vm in vms {
        host.vm(vm).load = polls(40.0);
    }
    host.pass(60);
    assert!(!host.is_decided(Kind::Again), "{:?}", host.events);
    // Both may be set by the same reading.
    host.cpu_pressure = FREE;
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
        (host.cpu_pressure, host.busy_cpus) = (pressure, busy);
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
        (host.cpu_pressure, host.busy_cpus) = (Pressure::NotThere, Some(2.0));
        host.pass(120);
        assert!(host.count(more) > 0, "{:?}", host.events);
    }
}

#[test]
fn one_that_only_watches_restores_nothing_that_an_earlier_run_kept() {
    let mut host = Host::new();
    let vm = host.comes(EACH_15_US, OFF);
    host.until(decided(vm, Kind::Keep));
    let kept = host.vm(vm).ceiling;
    host.restarts_within(Limits::default());
    host.cpu_pressure = PRESSED;
    host.pass(30);
    assert_eq!(host.vm(vm).ceiling, kept);
    let standing = host.pilot.standing();
    assert!(standing.vms[0].why.contains("`haltwise undo` restores"));
    // It restores once it may act.
    host.limit(acts());
    host.pass(1);
    assert_eq!(host.vm(vm).ceiling, OFF);
}
