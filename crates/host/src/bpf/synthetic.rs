//! Halts that never happened, through the real programs: for what real guests cannot show here.
//!
//! A thread that asks for a halt's events in turn looks to the programs like the thread of a vCPU
//! (`bpf/on_request.rs`), one that no walk knows. Not part of the library's interface: tests use it.

use std::os::fd::AsFd;
use std::time::Duration;

use haltwise_core::event::Facts;
use haltwise_core::ids::Pid;

use super::collector::BpfCollector;
use super::on_request::{in_a_thread, run};
use crate::collector::{CollectError, CollectOptions, Collector};
use crate::root::Root;

#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// `kvm_halt_poll_ns` of vCPU 0: grow or shrink, by what it does to the window.
    Call {
        /// The window before, in nanoseconds.
        old_ns: u32,
        new_ns: u32,
    },
    /// `kvm_vcpu_wakeup` of a halt that polled until it was woken, of so many nanoseconds.
    Halt(u64),
    Pause(Duration),
}

/// When `kvm_vcpu_wakeup` is first listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listening {
    /// Before the first step.
    FromTheStart,
    /// At the first halt: what comes before may belong to halts that were not seen.
    FromTheFirstHalt,
}

/// Plays these steps in a thread of its own; gives what a recording of it holds. An error where BPF is not
/// to be had.
pub fn play(steps: &[Step], listening: Listening) -> Result<Facts, CollectError> {
    let options = CollectOptions {
        // Halts of other processes are not counted.
        vms: vec![Pid(std::process::id())],
        ..CollectOptions::default()
    };
    let mut collector = BpfCollector::start(options, Root::host())?;
    collector.detach();
    if listening == Listening::FromTheFirstHalt {
        collector.note_wakeups(u64::MAX);
    }
    let progs = collector.progs();
    let (call, halt) = (progs.on_halt_poll_ns.as_fd(), progs.on_vcpu_wakeup.as_fd());
    let step = |step: &Step| match *step {
        Step::Call { old_ns, new_ns } => {
            let grow = u64::from(new_ns > old_ns);
            run(call, &[grow, 0, new_ns.into(), old_ns.into()])
        }
        Step::Halt(ns) => run(halt, &[ns, 0, 1]),
        Step::Pause(time) => {
            std::thread::sleep(time);
            Ok(())
        }
    };
    in_a_thread(steps, step).map_err(CollectError::failed("play halts"))?;
    let mut facts = Facts::default();
    collector.stop(&mut facts)?;
    Ok(facts)
}
