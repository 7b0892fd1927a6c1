//! Halts handled by the VMM: every HLT comes out, and the windows are the policy's own.

use haltwise_lab::clock::HostWait;
use haltwise_lab::event::Event;
use haltwise_lab::exit::UserspaceExit;
use haltwise_lab::guest::{Guest, Stamps};
use haltwise_lab::halt_loop::HaltPolicy;
use haltwise_lab::load::{Length, Load};

use crate::lab::{kvm, run};

#[test]
fn every_hlt_comes_out_and_is_handled_once() {
    let Some(()) = kvm() else { return };
    for policy in ["off", "fixed:always", "kvm:max=100us", "leader"] {
        let outcome = run(&format!(
            "pingpong --vcpus 2 --rounds 150 --gap exp:200us --halt-loop {policy}"
        ));
        assert_eq!(outcome.halt_loop.as_deref(), Some(policy));
        for vcpu in outcome.vcpus() {
            let handled = vcpu.user_halts.unwrap();
            let who = format!("{policy}: {vcpu:?}");
            assert_eq!((vcpu.halts, vcpu.interrupts), (151, 151), "{who}");
            assert_eq!(handled.halts, 151, "{who}");
            assert_eq!(vcpu.exits[&UserspaceExit::Hlt.to_string()], 151, "{who}");
            assert_eq!(vcpu.waits().unwrap_or(0), 0, "KVM waits for none: {who}");
            assert!(handled.waits + handled.halt_successful_poll <= 151, "{who}");
            match policy {
                "off" => assert_eq!(handled.halt_attempted_poll, 0, "{who}"),
                "fixed:always" => assert_eq!(handled.waits, 0, "{who}"),
                _ => {}
            }
        }
    }
}

#[test]
fn the_windows_are_those_that_the_policy_gives_these_halts() {
    let Some(()) = kvm() else { return };
    for spec in [
        "kvm:max=200us,grow=2,grow_start=10us,shrink=2",
        "kvm:max=500us,grow=3,grow_start=20us,shrink=0",
    ] {
        let here = HaltPolicy::here(spec.parse().unwrap());
        let mut policy = here.build().unwrap();
        let mut load = Load::new(Guest::Pingpong(Stamps::None));
        load.length = Length::Rounds(400);
        load.rhythm.spec = "bimodal:0.8:30us:1ms".parse().unwrap();
        load.host_wait = HostWait::suited_to(1);
        load.halt_policy = Some(here);
        let finished = haltwise_lab::run::run(&load, &Event::new().unwrap()).unwrap();
        let halts = &finished.halts[0][0];
        assert_eq!(halts.len(), 401);
        for halt in halts {
            let window_ns = policy.window(None);
            assert_eq!(halt.window_ns, window_ns, "{spec}: {halt:?}");
            let seen = &halt.seen;
            assert!(seen.poll_ns <= seen.halt_ns, "{halt:?}");
            assert!(seen.wake_latency_ns <= seen.halt_ns, "{halt:?}");
            assert!(
                !seen.waited || seen.poll_ns >= window_ns,
                "it polls all of its window before it sleeps: {halt:?}"
            );
            assert!(window_ns > 0 || seen.poll_ns == 0, "{halt:?}");
            policy.learn(seen);
        }
    }
}
