//! Shared parts of the capture's tests: halts, and how to read all that a capture holds.

use haltwise_capture::capture::Capture;
use haltwise_capture::recording::Recording;
use haltwise_core::event::{Facts, Halt, WakeSource};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use tempfile::TempDir;

pub(crate) use crate::facts::{ending, info};
pub(crate) use crate::read::{all, facts_of};

/// As many halts, 20 us apart.
pub(crate) fn some_halts(n: u64) -> Facts {
    let halt = |i: u64| Halt {
        start_ns: 1_000_000_000 + 20_000 * i,
        halt_ns: 5_700 + i % 97,
        vm: Some(VmIndex(0)),
        vcpu: Some(VcpuId(1)),
        tid: Tid(4711),
        valid: true,
        wake: WakeSource::Device,
        poll_ns: Some(5_600),
        wake_latency_ns: Some(0),
        ..Halt::default()
    };
    of_halts((0..n).map(halt).collect())
}

pub(crate) fn of_halts(halts: Vec<Halt>) -> Facts {
    Facts {
        halts,
        ..Facts::default()
    }
}

pub(crate) fn started() -> (TempDir, Recording) {
    let dir = tempfile::tempdir().unwrap();
    let recording = Recording::create(dir.path(), info()).unwrap();
    (dir, recording)
}

/// A complete capture of one flush.
pub(crate) fn recorded(facts: &Facts) -> TempDir {
    let (dir, mut recording) = started();
    recording.append(facts).unwrap();
    recording.finish(ending()).unwrap();
    dir
}

/// Facts as a capture stores them: the halts of a flush in order of their start.
pub(crate) fn sorted(mut facts: Facts) -> Facts {
    facts.halts.sort_by_key(|halt| halt.start_ns);
    facts
}

/// Everything that a capture holds, whatever it says.
pub(crate) fn read_all(capture: &Capture) -> Facts {
    let facts = facts_of(&capture.clone().as_stored());
    facts.expect("a capture that was written by a recording")
}
