//! The guests that time their timers, with an agent.

use haltwise_core::units::Nanos;
use haltwise_experiments::exitless_timer::{Pace, thread};
use haltwise_lab::event::Event;
use haltwise_lab::guest::{Clock, Guest};
use haltwise_lab::load::{Length, Load};
use haltwise_lab::memory::timer;
use haltwise_lab::run::run_beside;

use crate::program::kvm;

const TIMERS: u32 = 150;

/// Runs some vCPUs with an agent until each has had its timers; sums of guests and agent agree.
fn with_agent(clock: Clock, pace: Pace, gaps: &str) {
    let mut load = Load::new(Guest::Timed(clock));
    load.vcpus = 3;
    load.length = Length::Rounds(TIMERS);
    load.rhythm.spec = gaps.parse().expect("gaps");
    let never = Event::new().expect("an eventfd");
    let started: anyhow::Result<_> = run_beside(&load, &never, |vms| {
        let khz = vms[0].vcpus[0].tsc_khz().expect("a rate");
        let agent = thread::start(vms, khz, pace, None)?;
        Ok((vms[0].memory.clone(), agent))
    });
    let (finished, (memory, agent)) = started.expect("a run");
    let report = agent.end().expect("a report");
    let sum = |word: u16| -> u64 {
        let of = |vcpu| u64::from(memory.word(vcpu, word).expect("a word"));
        (0..load.vcpus).map(of).sum()
    };
    let (timers, early) = (sum(timer::TIMERS), sum(timer::EARLY));
    let hardware = sum(timer::HARDWARE);
    assert_eq!(timers, u64::from(load.vcpus * TIMERS), "none was lost");
    let fired = report.sum(|counts| counts.fired);
    let came = timers + early;
    let sent = fired + hardware;
    // The last may find its guest gone. A guest that writes a deadline before the interrupt of the one
    // before has come may have both pending, and a vector is pending once.
    let fell_together = match clock {
        Clock::Nonsense => report.sum(|counts| counts.due_when_seen),
        _ => 0,
    };
    let most = came + fell_together + u64::from(load.vcpus);
    assert!(
        (came..=most).contains(&sent),
        "{clock:?} {pace:?}: {came} came, {fired} + {hardware} were sent, {report:?}"
    );
    if pace == Pace::Spin {
        assert_eq!(hardware, 0, "an agent that always looks takes all");
    }
    if clock == Clock::Nonsense {
        assert!(gaps != "fixed:15us" || fell_together > 0, "{report:?}");
    } else {
        assert_eq!(report.sum(|counts| counts.backwards + counts.far), 0);
        assert!(early <= hardware, "only what was taken back may come early");
    }
    let interrupts: u64 = finished
        .outcome
        .vms
        .iter()
        .flat_map(|vm| &vm.vcpus)
        .map(|vcpu| vcpu.interrupts)
        .sum();
    assert_eq!(interrupts, came);
}

#[test]
fn with_an_agent_every_timer_comes_once() {
    let Some(()) = kvm() else { return };
    with_agent(Clock::Exitless, Pace::Spin, "exp:400us");
    with_agent(Clock::Exitless, Pace::Sync(Nanos(100_000)), "exp:400us");
    with_agent(Clock::Exitless, Pace::Sync(Nanos(2_000_000)), "exp:400us");
    with_agent(Clock::Nonsense, Pace::Spin, "fixed:400us");
    // So short that interrupts fall together on any machine.
    with_agent(Clock::Nonsense, Pace::Spin, "fixed:15us");
    with_agent(Clock::Nonsense, Pace::Sync(Nanos(300_000)), "fixed:400us");
}
