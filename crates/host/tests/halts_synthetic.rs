//! Halts through the real programs whose events come in an order that real guests show only when a recorder
//! happens to begin between two of them.
//!
//! Needs root and BPF; says `skipped: reason` otherwise.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]

use std::time::Duration;

use haltwise_core::event::{Halt, WindowCall};
use haltwise_host::bpf::synthetic::Step::{self, Call, Halt as HaltOf, Pause};
use haltwise_host::bpf::synthetic::{Listening, play};
use haltwise_host::collector::CollectError;

const GROW: Step = Call {
    old_ns: 10_000,
    new_ns: 20_000,
};
const SHRINK: Step = Call {
    old_ns: 20_000,
    new_ns: 0,
};
const LATER: Step = Pause(Duration::from_millis(2));
const LONG: Step = HaltOf(60_000_000_000);
const SHORT: Step = HaltOf(1_000);

/// The first calls may be of halts from before the recording.
const BEFORE: Listening = Listening::FromTheFirstHalt;

/// Recorded halts; `None`, and the reason printed, where BPF is not available.
fn recorded(listening: Listening, steps: &[Step]) -> Option<Vec<Halt>> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: not root: BPF cannot be loaded");
        return None;
    }
    match play(steps, listening) {
        Ok(facts) => {
            assert!(facts.lost.is_empty(), "{:?}", facts.lost);
            let calls = facts.halts.iter();
            let calls = calls.filter(|halt| halt.change != WindowCall::None);
            assert_eq!(facts.windows.len(), calls.count());
            Some(facts.halts)
        }
        Err(error @ (CollectError::Denied { .. } | CollectError::Unsupported { .. })) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}: {error:?}"),
    }
}

fn calls_and_windows(halts: &[Halt]) -> Vec<(WindowCall, Option<u32>, Option<u32>)> {
    let of = |halt: &Halt| (halt.change, halt.window_ns, halt.window_next_ns);
    halts.iter().map(of).collect()
}

const UNKNOWN: (WindowCall, Option<u32>, Option<u32>) = (WindowCall::None, None, None);
const GREW: (WindowCall, Option<u32>, Option<u32>) = (WindowCall::Grow, Some(10_000), Some(20_000));
const SHRANK: (WindowCall, Option<u32>, Option<u32>) = (WindowCall::Shrink, Some(20_000), Some(0));

/// The call was that of a halt from before `kvm_vcpu_wakeup` was listened to.
#[test]
fn a_call_from_before_a_threads_first_halt_is_not_its_own() {
    let Some(halts) = recorded(BEFORE, &[GROW, LATER, SHORT, SHRINK, SHORT]) else {
        return;
    };
    assert_eq!(calls_and_windows(&halts), [UNKNOWN, SHRANK]);
}

#[test]
fn a_call_within_a_threads_first_halt_is_its_own() {
    let Some(halts) = recorded(BEFORE, &[GROW, LATER, LONG]) else {
        return;
    };
    assert_eq!(calls_and_windows(&halts), [GREW]);
}

/// A slow machine takes longer from the call to the wake-up than the halt lasted.
#[test]
fn the_first_call_since_wake_ups_are_seen_is_the_next_ones_whatever_time_lies_between() {
    let Some(halts) = recorded(Listening::FromTheStart, &[GROW, LATER, SHORT]) else {
        return;
    };
    assert_eq!(calls_and_windows(&halts), [GREW]);
}

/// Once a halt was seen, a call that follows is the next one's, however long that thread waits for a CPU.
#[test]
fn a_call_after_a_halt_is_the_next_ones() {
    let Some(halts) = recorded(BEFORE, &[SHORT, GROW, LATER, SHORT, SHORT]) else {
        return;
    };
    let calls = calls_and_windows(&halts);
    assert_eq!(calls[..2], [UNKNOWN, GREW]);
    // Without a call the window stays as the one before left it.
    assert_eq!(calls[2].1, Some(20_000));
}
