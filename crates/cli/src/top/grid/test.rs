//! Steps cover the recording without gaps, and no fact is lost however they are joined.

use haltwise_core::event::Halt;
use proptest::prelude::*;

use super::*;
use crate::top::step::Key;
use crate::top::world::slept;

fn ends(grid: &Grid) -> Vec<u64> {
    grid.steps.iter().map(|step| step.end_ns).collect()
}

#[test]
fn even_steps_end_with_the_recording() {
    for (end, length, expected) in [
        (100, 25, vec![25, 50, 75, 100]),
        (110, 25, vec![25, 50, 75, 110]),
        (115, 25, vec![25, 50, 75, 100, 115]),
        (20, 25, vec![20]),
        (0, 25, vec![0]),
        (5, 0, vec![1, 2, 3, 4, 5]),
    ] {
        assert_eq!(
            ends(&Grid::even(0, end, length)),
            expected,
            "{end} by {length}"
        );
    }
    assert_eq!(ends(&Grid::whole(7, 9)), [9]);
}

#[test]
fn however_short_the_steps_there_are_not_too_many() {
    let grid = Grid::even(5, u64::MAX, 1);
    assert!(grid.steps.len() <= STEPS + 1, "{}", grid.steps.len());
    assert_eq!(grid.steps.last().unwrap().end_ns, u64::MAX);
}

#[test]
fn steps_of_counts_end_where_counts_were_read() {
    let along =
        |length, read: &[u64]| ends(&Grid::along(0, 500, length, read.iter().copied().collect()));
    // Each reading a little late: as many steps as readings.
    assert_eq!(along(100, &[101, 203, 304, 406]), [101, 203, 304, 406, 500]);
    assert_eq!(along(200, &[101, 203, 304, 406]), [203, 500]);
    // The last reading came at the end, in the middle of an interval.
    assert_eq!(
        along(100, &[101, 203, 304, 406, 500]),
        [101, 203, 304, 406, 500]
    );
    assert_eq!(along(100, &[]), [500]);
    // Readings after the end belong to no step.
    assert_eq!(along(100, &[700]), [500]);
}

fn halt(end_ns: u64, vcpu: u32) -> Halt {
    Halt {
        start_ns: end_ns.saturating_sub(3),
        halt_ns: end_ns.min(3),
        ..slept(0, vcpu, 0)
    }
}

#[test]
fn a_fact_finds_the_step_in_which_it_ended() {
    let mut grid = Grid::even(0, 100, 25);
    for (time, step) in [(0, 0), (25, 0), (26, 1), (100, 3), (4_000, 3)] {
        assert_eq!(grid.at(time).end_ns, 25 + 25 * step, "{time}");
    }
    assert_eq!(
        Grid::default().at(7).end_ns,
        7,
        "an empty grid has room too"
    );
}

proptest! {
    /// Joining steps changes no sum, and leaves no gap.
    #[test]
    fn joined_steps_hold_what_the_steps_held(
        halts in prop::collection::vec((1_u64..1_000, 0_u32..4), 1..200),
        cells in 1_usize..40,
    ) {
        let fill = |length| {
            let mut grid = Grid::even(0, 1_000, length);
            for (at, vcpu) in &halts {
                grid.at(*at).halt(&halt(*at, *vcpu));
            }
            grid
        };
        let mut grid = fill(10);
        grid.shrink(cells);
        prop_assert!(grid.steps.len() == 1 || grid.steps.iter().map(Step::cells).sum::<usize>() <= cells);
        let mut from = 0;
        for step in &grid.steps {
            prop_assert_eq!(step.start_ns, from);
            from = step.end_ns;
        }
        prop_assert_eq!(from, 1_000);
        let whole = fill(1_000).finish();
        let joined = grid.finish().into_iter().reduce(|mut all, step| { all.join(step); all });
        prop_assert_eq!(joined.unwrap().sum(Key::Host), whole[0].sum(Key::Host));
    }
}
