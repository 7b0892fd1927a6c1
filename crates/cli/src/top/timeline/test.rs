//! Bounded, and the same step whichever way one comes to it.

use super::*;
use crate::top::world::slept;

/// A step of 10 ns in which so many vCPUs halt.
fn step(nth: u64, vcpus: u32) -> Step {
    let mut step = Step::between(nth * 10, nth * 10 + 10);
    for id in 0..vcpus {
        step.halt(&slept(0, id, nth * 10));
    }
    step
}

fn looked_at(timeline: &Timeline) -> u64 {
    timeline.now().unwrap().start_ns / 10
}

#[test]
fn a_live_view_forgets_its_oldest_steps() {
    let mut timeline = Timeline::default();
    for nth in 0..150 {
        timeline.push(step(nth, 100));
        assert!(timeline.len() <= LIVE_CELLS / 100 && timeline.cells <= LIVE_CELLS);
        assert_eq!(looked_at(&timeline), nth, "it follows the newest");
    }
    for nth in 150..5_000 {
        timeline.push(step(nth, 0));
    }
    assert_eq!((timeline.len(), timeline.cells), (LIVE_STEPS, 0));
    // One step that is larger than all allowed is still there to be seen.
    timeline.push(step(5_000, 10_001));
    assert_eq!((timeline.len(), looked_at(&timeline)), (1, 5_000));
}
