//! Which runs are made: whole rounds first, then more of those that may still tip a verdict.
//!
//! More rounds go to loads of which an interval straddles a line that a promise draws, or rests on too few to
//! be one. Stopping when it no
//! longer does makes intervals a little too sure of themselves; the table says how many rounds each rests
//! on.

use std::time::{Duration, Instant};

use haltwise_core::workload::SplitMix64;

use super::{GOALS, Tuned};
use crate::say;

/// Ceilings that may yet turn out to be the best of a sweep.
const CONTENDERS: usize = 3;

/// The time there is.
#[derive(Debug)]
pub(super) struct Time {
    began: Instant,
    limit: Duration,
}

impl Time {
    pub(super) fn of_minutes(minutes: u32) -> Self {
        Self {
            began: Instant::now(),
            limit: Duration::from_secs(60 * u64::from(minutes)),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.began.elapsed() >= self.limit
    }

    /// Says how far it is.
    pub(super) fn say(&self, what: &str) {
        let gone = say::seconds(self.began.elapsed());
        say::step(&format!("{what} ({gone} of {})", say::seconds(self.limit)));
    }
}

/// A run to be made: a load and one of its ceilings, by their places.
pub(super) type Cell = (usize, usize);

/// Every load under every ceiling.
pub(super) fn whole(all: &[Tuned]) -> Vec<Cell> {
    let of_load = |(load, tuned): (usize, &Tuned)| {
        let ceilings = 0..tuned.ceilings.len();
        ceilings
            .map(|ceiling| (load, ceiling))
            .collect::<Vec<Cell>>()
    };
    all.iter().enumerate().flat_map(of_load).collect()
}

/// Of the loads that are undecided, the ceilings on which that hangs.
pub(super) fn contested(all: &[Tuned]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (load, tuned) in all.iter().enumerate() {
        let mut wanted: Vec<u64> = Vec::new();
        for goal in undecided(tuned) {
            wanted.extend([tuned.said.in_force_ns, tuned.said.goals[goal].ceiling_ns]);
            let ranked = tuned.ranked(goal).into_iter().take(CONTENDERS);
            wanted.extend(ranked.map(|(ns, _)| ns));
        }
        let ceilings = tuned.ceilings.iter().enumerate();
        let contested = ceilings.filter(|(_, ceiling)| wanted.contains(&ceiling.ns));
        cells.extend(contested.map(|(ceiling, _)| (load, ceiling)));
    }
    cells
}

/// Goals of a load that more rounds would decide, by their places.
pub(super) fn undecided(tuned: &Tuned) -> Vec<usize> {
    let is_undecided = |goal: &usize| {
        let judged = tuned.judged(*goal);
        judged.is_some_and(|judged| judged.is_undecided())
    };
    (0..GOALS.len()).filter(is_undecided).collect()
}

/// In an order drawn anew.
pub(super) fn shuffled(cells: Vec<Cell>, order: &mut SplitMix64) -> Vec<Cell> {
    let mut drawn: Vec<(u64, Cell)> = cells
        .into_iter()
        .map(|cell| (order.next_u64(), cell))
        .collect();
    drawn.sort_unstable();
    drawn.into_iter().map(|(_, cell)| cell).collect()
}
