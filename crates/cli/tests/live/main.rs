//! On real KVM: what the recorder says against what the lab and KVM's own counters say.
//!
//! Needs root, /dev/kvm and the lab's binary beside ours; says `skipped: reason` where one is missing.
//! Nothing here measures time: every check is an equality of counts, or an order of events.

#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

mod bench;
mod causes;
mod ceilings;
mod command;
mod counted;
mod crowd;
#[path = "../agree/documents.rs"]
mod documents;
mod ends;
mod exits;
mod experiments;
mod hostile;
mod interval;
mod metrics;
mod now;
#[path = "../agree/numbers.rs"]
mod numbers;
mod pilot;
mod piped;
mod plans;
mod presence;
mod profile;
mod prove;
mod rights;
mod ring;
mod tmux;
mod top;
mod tracepoints;
#[path = "../agree/tries.rs"]
mod tries;
mod turns;
mod verify;
mod witnesses;
