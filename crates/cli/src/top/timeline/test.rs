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
    for nth in 0..100 {
        timeline.push_within(step(nth, 3), 30, 50);
        assert!(timeline.len() <= 10 && timeline.cells <= 30);
        assert_eq!(looked_at(&timeline), nth, "it follows the newest");
    }
    for nth in 100..200 {
        timeline.push_within(step(nth, 0), 30, 50);
    }
    assert_eq!((timeline.len(), timeline.cells), (50, 0));
    // One step that is larger than all allowed is still there to be seen.
    timeline.push_within(step(200, 40), 30, 50);
    assert_eq!((timeline.len(), looked_at(&timeline)), (1, 200));
}

#[test]
fn a_step_that_is_held_stays_until_it_is_forgotten() {
    let mut timeline = Timeline::default();
    for nth in 0..10 {
        timeline.push_within(step(nth, 1), 100, 10);
    }
    timeline.seek(4);
    for nth in 10..14 {
        timeline.push_within(step(nth, 1), 100, 10);
        assert_eq!(looked_at(&timeline), 4);
    }
    timeline.push_within(step(14, 1), 100, 10);
    assert_eq!(looked_at(&timeline), 5, "the oldest there is");
    timeline.follow();
    assert!(timeline.follows() && timeline.at_end());
    timeline.hold();
    timeline.push_within(step(15, 1), 100, 10);
    assert_eq!(looked_at(&timeline), 14);
}
