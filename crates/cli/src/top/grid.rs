//! Steps of a capture while it is read: facts find their step by their time, in any order. Pure.

use std::collections::BTreeSet;

use super::step::Step;
use super::timeline::CELLS;

const STEPS: usize = 20_000;

/// After so many facts, steps drop what only building needs, and the cells are counted.
const LOOK: u32 = 1 << 16;

/// Steps that follow each other without a gap.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    steps: Vec<Step>,
    given: u32,
}

impl Grid {
    pub(crate) fn whole(start_ns: u64, end_ns: u64) -> Self {
        Self::ending_at(start_ns, vec![end_ns])
    }

    /// Steps of the same length; the last may be up to a half longer or shorter.
    pub(crate) fn even(start_ns: u64, end_ns: u64, length_ns: u64) -> Self {
        let span = end_ns.saturating_sub(start_ns);
        let least = span.div_ceil(STEPS as u64);
        let length_ns = length_ns.max(least).max(1);
        let count = (span / length_ns).max(1);
        let mut ends: Vec<u64> = (1..=count).map(|n| start_ns + n * length_ns).collect();
        close(&mut ends, end_ns, length_ns);
        Self::ending_at(start_ns, ends)
    }

    /// Steps that end at some of these moments, no nearer to each other than most of a length.
    pub(crate) fn along(
        start_ns: u64,
        end_ns: u64,
        length_ns: u64,
        moments: BTreeSet<u64>,
    ) -> Self {
        let least = end_ns.saturating_sub(start_ns).div_ceil(STEPS as u64);
        let length_ns = length_ns.max(least).max(1);
        // A reading comes a little late, and the next is late by as much less.
        let near = length_ns - length_ns / 10;
        let mut ends = Vec::new();
        let mut from = start_ns;
        for moment in moments {
            if moment <= end_ns && moment >= from.saturating_add(near) {
                ends.push(moment);
                from = moment;
            }
        }
        if ends.is_empty() {
            return Self::whole(start_ns, end_ns);
        }
        close(&mut ends, end_ns, length_ns);
        Self::ending_at(start_ns, ends)
    }

    fn ending_at(start_ns: u64, ends: Vec<u64>) -> Self {
        let mut from = start_ns;
        let step = |end| Step::between(std::mem::replace(&mut from, end), end);
        Self {
            steps: ends.into_iter().map(step).collect(),
            given: 0,
        }
    }

    /// The step of a moment: the first that does not end before it; else the last.
    pub(crate) fn at(&mut self, time_ns: u64) -> &mut Step {
        self.given += 1;
        if self.given >= LOOK {
            self.given = 0;
            self.steps.iter_mut().for_each(Step::settle);
            self.shrink(CELLS);
        }
        if self.steps.is_empty() {
            self.steps.push(Step::between(time_ns, time_ns));
        }
        let place = self.steps.partition_point(|step| step.end_ns < time_ns);
        let place = place.min(self.steps.len() - 1);
        &mut self.steps[place]
    }

    /// Joins steps two and two until there are no more cells than that.
    fn shrink(&mut self, cells: usize) {
        while self.steps.len() > 1 && self.steps.iter().map(Step::cells).sum::<usize>() > cells {
            let mut steps = std::mem::take(&mut self.steps).into_iter();
            while let Some(mut step) = steps.next() {
                if let Some(next) = steps.next() {
                    step.join(next);
                }
                self.steps.push(step);
            }
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Step> {
        self.shrink(CELLS);
        self.steps.iter_mut().for_each(Step::settle);
        self.steps
    }
}

/// Lets the last step end with the recording.
fn close(ends: &mut Vec<u64>, end_ns: u64, length_ns: u64) {
    match ends.last_mut() {
        Some(last) if end_ns.abs_diff(*last) <= length_ns / 2 => *last = end_ns,
        Some(last) if *last > end_ns => *last = end_ns,
        _ => ends.push(end_ns),
    }
}

#[cfg(test)]
mod test;
