//! Halts that never happened, through the real programs: their events come in an order that real guests show only
//! when a recorder happens to begin between two of them.
//!
//! A thread that runs a halt's programs in turn looks to them like the thread of a vCPU that no walk knows. Needs
//! root and BPF; prints `skipped: REASON` otherwise.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]

use haltwise_core::event::{Halt, WindowCall};

use super::*;
use crate::bpf::on_request::{in_a_thread, run};

#[derive(Debug, Clone, Copy)]
enum Step {
    /// `kvm_halt_poll_ns` of vCPU 0: the window before, and the window after.
    Call(u32, u32),
    /// `kvm_vcpu_wakeup` of a halt that polled until it was woken, of so many nanoseconds.
    HaltOf(u64),
    Pause(Duration),
}

use Step::{Call, HaltOf, Pause};

const GROW: Step = Call(10_000, 20_000);
const SHRINK: Step = Call(20_000, 0);
const LATER: Step = Pause(Duration::from_millis(2));
const LONG: Step = HaltOf(60_000_000_000);
const SHORT: Step = HaltOf(1_000);

type CallAndWindows = (WindowCall, Option<u32>, Option<u32>);

const UNKNOWN: CallAndWindows = (WindowCall::None, None, None);
const GREW: CallAndWindows = (WindowCall::Grow, Some(10_000), Some(20_000));
const SHRANK: CallAndWindows = (WindowCall::Shrink, Some(20_000), Some(0));

/// The started collector; `None`, and the reason printed, where BPF is not available.
pub(in crate::bpf) fn available<T>(start: impl FnOnce() -> Result<T, CollectError>) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: not root: BPF cannot be loaded");
        return None;
    }
    match start() {
        Ok(started) => Some(started),
        Err(error @ (CollectError::Denied { .. } | CollectError::Unsupported { .. })) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}: {error:?}"),
    }
}

/// Recorded halts. With `since_first_halt` the programs see `kvm_vcpu_wakeup` from the first halt on: calls before
/// it may belong to halts that were not seen.
fn recorded(steps: &[Step], since_first_halt: bool) -> Option<Vec<CallAndWindows>> {
    let options = CollectOptions {
        // Halts of other processes are not counted.
        vms: vec![Pid(std::process::id())],
        ..CollectOptions::default()
    };
    let mut collector = available(|| BpfCollector::start(options, Root::host()))?;
    collector.detach();
    if since_first_halt {
        collector.attached.note_wakeups(u64::MAX);
    }
    let progs = &collector.attached.skel.progs;
    let (call, halt) = (progs.on_halt_poll_ns.as_fd(), progs.on_vcpu_wakeup.as_fd());
    in_a_thread(steps, |step: &Step| match *step {
        Call(old, new) => run(call, &[u64::from(new > old), 0, new.into(), old.into()]),
        HaltOf(ns) => run(halt, &[ns, 0, 1]),
        Pause(time) => {
            std::thread::sleep(time);
            Ok(())
        }
    })
    .unwrap();
    let mut facts = Facts::default();
    collector.stop(&mut facts).unwrap();
    assert!(facts.lost.is_empty(), "{:?}", facts.lost);
    let of = |halt: &Halt| (halt.change, halt.window_ns, halt.window_next_ns);
    let halts: Vec<_> = facts.halts.iter().map(of).collect();
    let calls = halts.iter().filter(|(call, ..)| *call != WindowCall::None);
    let grew = facts.windows.iter().map(|change| change.grow);
    assert!(grew.eq(calls.map(|(call, ..)| *call == WindowCall::Grow)));
    Some(halts)
}

#[test]
fn a_call_belongs_to_the_halt_that_made_it() {
    for (since_first_halt, steps, expected) in [
        // The call was that of a halt from before `kvm_vcpu_wakeup` was seen.
        (
            true,
            &[GROW, LATER, SHORT, SHRINK, SHORT][..],
            &[UNKNOWN, SHRANK][..],
        ),
        // It lies within the thread's first halt.
        (true, &[GROW, LATER, LONG], &[GREW]),
        // A slow machine takes longer from the call to the wake-up than the halt lasted.
        (false, &[GROW, LATER, SHORT], &[GREW]),
        // After a halt that was seen a call is the next one's, however long that thread waits for a CPU. Without a
        // call the window stays as the halt before left it.
        (
            true,
            &[SHORT, GROW, LATER, SHORT, SHORT],
            &[UNKNOWN, GREW, (WindowCall::None, Some(20_000), None)],
        ),
    ] {
        let Some(halts) = recorded(steps, since_first_halt) else {
            return;
        };
        assert_eq!(halts, expected, "{steps:?}");
    }
}
