//! The guest that polls: its limits are the core's reference model, word for word, and nothing is slept over.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use haltwise_core::kvm::Arch;
use haltwise_core::kvm::Version;
use haltwise_core::kvm::guest::{Last, Params, Rule};
use haltwise_core::policy::{Seen, Setting, Spec};
use haltwise_core::units::HaltPollNs;
use haltwise_lab::event::Event;
use haltwise_lab::guest::{Guest, Peer};
use haltwise_lab::guest_poll::{GuestPoll, PollNote, PollRule};
use haltwise_lab::load::{Length, Load};
use haltwise_lab::run::{Finished, run};

use crate::lab::{kvm, run as run_lab};

/// Loads whose limits climb, stand, fall and come back.
const GAPS: [&str; 3] = ["exp:40us", "bimodal:0.8:30us:700us", "phases:20us*30:1ms*8"];

fn poller(policy: &str, gap: &str) -> Finished {
    let mut load = Load::new(Guest::Poller(Peer::Host));
    load.length = Length::Rounds(400);
    load.rhythm.spec = gap.parse().expect("gaps");
    load.guest_poll = policy.parse().expect("a way to poll");
    load.guest_poll.takes_notes = true;
    let never = Event::new().expect("an eventfd");
    run(&load, &never.as_fd()).expect("KVM was there")
}

fn params(policy: &str) -> Params {
    let poll: GuestPoll = policy.parse().expect("a way to poll");
    match poll.rule {
        PollRule::Haltpoll(params) => params,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_guests_governor_is_the_kernels() {
    let Some(()) = kvm() else { return };
    for policy in [
        "guest-haltpoll",
        "guest-haltpoll:max=60us,grow_start=10us",
        "guest-haltpoll:grow=3,shrink=0",
        "guest-haltpoll:grow=0,shrink=1",
        "guest-haltpoll:max=90us,allow_shrink=N",
        "guest-haltpoll:grow_start=1ms",
        "guest-haltpoll:max=0ns",
    ] {
        let params = params(policy);
        let rule = Rule::of(Version::LAST_READ).unwrap();
        let mut limits = BTreeSet::from([0]);
        for gap in GAPS {
            let finished = poller(policy, gap);
            let vcpu = &finished.outcome.vms[0].vcpus[0];
            // Each HLT is judged but the last, which the end of the run ended.
            assert_eq!(
                finished.notes[0].len() as u64 + 1,
                vcpu.halts,
                "{policy} {gap}"
            );
            let mut limit_ns = 0;
            for (index, note) in finished.notes[0].iter().enumerate() {
                let PollNote {
                    judged_ns,
                    limit_ns: noted,
                } = *note;
                let residency_ns = u64::from(judged_ns);
                let last = Last::Halt { residency_ns };
                let adjusted = rule.reflect(&params, limit_ns, last);
                assert_eq!(
                    noted, adjusted.limit_ns,
                    "{index}: {note:?} after {limit_ns}: {policy}"
                );
                limit_ns = noted;
                limits.insert(noted);
            }
            let counts = vcpu.guest_poll.unwrap();
            assert_eq!(counts.limit_ns, u64::from(limit_ns));
        }
        let moves = params.guest_halt_poll_ns > 0;
        assert_eq!(limits.len() > 1, moves, "{policy} went through {limits:?}");
    }
}

#[test]
fn the_guests_smart_idle_poll_is_the_cores() {
    let Some(()) = kvm() else { return };
    for policy in [
        "smart-idle-poll",
        "smart-idle-poll:paravirt_poll_threshold_ns=60us,paravirt_poll_shrink=0",
        "smart-idle-poll:paravirt_poll_threshold_ns=300us,paravirt_poll_grow=3,paravirt_poll_shrink=4",
    ] {
        for gap in GAPS {
            let finished = poller(policy, gap);
            let rounds = finished.outcome.vms[0].vcpus[0].rounds.unwrap();
            // All work ends an idle time.
            assert_eq!(finished.notes[0].len() as u64, rounds, "{policy} {gap}");
            let spec: Spec = policy.parse().unwrap();
            let setting = Setting::upstream(Version::LAST_READ, Arch::X86, 0);
            let mut core = spec.build(&setting).unwrap();
            for note in &finished.notes[0] {
                core.learn(&Seen {
                    halt_ns: note.judged_ns.into(),
                    valid: true,
                    ..Seen::default()
                });
                let limit_ns = core.window(None);
                assert_eq!(u64::from(note.limit_ns), limit_ns, "{note:?}: {policy}");
            }
        }
    }
}

#[test]
fn every_hlt_has_its_interrupt_and_every_work_its_answer() {
    let Some(()) = kvm() else { return };
    for policy in ["off", "fixed:always", "guest-haltpoll", "smart-idle-poll"] {
        for guest in [
            "poller --gap exp:60us",
            "poller --vcpus 2",
            "poller-ring",
            "poller-ring --vcpus 3",
        ] {
            let args = format!("{guest} --rounds 300 --guest-poll {policy}");
            let outcome = run_lab(&args);
            assert_eq!(outcome.guest_poll.as_deref(), Some(policy));
            for vcpu in outcome.vcpus() {
                let polls = vcpu.guest_poll.unwrap();
                let who = format!("{args}: {vcpu:?}");
                assert_eq!(vcpu.halts, vcpu.interrupts, "{who}");
                assert_eq!(
                    vcpu.stat("halt_exits").unwrap_or(vcpu.halts),
                    vcpu.halts,
                    "{who}"
                );
                assert_eq!(polls.rounds, 300, "{who}");
                assert!(polls.successful_polls <= 300, "{who}");
                if policy == "off" {
                    assert_eq!(
                        (polls.successful_polls, polls.interrupts_spared),
                        (0, 0),
                        "{who}"
                    );
                }
                if guest.starts_with("poller-ring") {
                    assert_eq!(polls.ipis_sent + polls.ipis_spared, 300, "{who}");
                } else {
                    assert_eq!(vcpu.rounds, Some(300), "{who}");
                    assert!(vcpu.halts <= 300 - polls.interrupts_spared + 1, "{who}");
                }
            }
        }
    }
}

#[test]
fn the_guest_forbids_the_host_to_poll_or_does_not() {
    let Some(()) = kvm() else { return };
    let forbidden = run_lab("poller --rounds 300 --guest-poll off --gap fixed:60us");
    for vcpu in forbidden.vcpus() {
        assert_eq!(vcpu.stat("halt_attempted_poll").unwrap_or(0), 0, "{vcpu:?}");
    }
    let mut load = Load::new(Guest::Poller(Peer::Host));
    load.length = Length::Rounds(300);
    load.guest_poll = "off".parse().unwrap();
    load.guest_poll.host_polls = true;
    load.vm_max_halt_poll_ns = Some(HaltPollNs(1_000_000));
    let never = Event::new().unwrap();
    let allowed = run(&load, &never.as_fd()).unwrap().outcome;
    for vcpu in allowed.vcpus() {
        assert!(
            vcpu.stat("halt_attempted_poll").unwrap_or(1) > 0,
            "{vcpu:?}"
        );
    }
}

#[test]
fn a_duration_ends_a_guest_that_polls_for_ever() {
    let Some(()) = kvm() else { return };
    for guest in ["poller", "poller-ring"] {
        let outcome = run_lab(&format!(
            "{guest} --duration 50ms --guest-poll fixed:always"
        ));
        assert!(outcome.vcpus().all(|vcpu| vcpu.halts == vcpu.interrupts));
    }
}
