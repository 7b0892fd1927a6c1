//! One policy from two starts: with no window, and with its window at the ceiling.
//!
//! Where both are in the same state they stay so, for what comes is the same for both. From then on
//! only one is played: a policy that knows no start costs what one replay costs, and so does KVM's
//! rule where the load has one steady state.

use super::outcome::Outcome;
use super::run::{Frame, LeastCost, Run};
use super::sample::Sample;
use super::session::Played;
use crate::stats::Fold;

/// How many halts with equal windows pass before the states are first compared. Comparing costs about
/// as much as this many halts.
const FIRST_LOOK: u64 = 4;

#[derive(Debug)]
pub(super) struct TwoStarts {
    /// From no window; and, once the two are one, both.
    zero: Run,
    ceiling: Other,
    apart: u64,
    /// Halts with equal windows since the states were last compared, and how many there shall be.
    alike: u64,
    look: u64,
}

/// The replay that began at the ceiling.
#[derive(Debug)]
enum Other {
    Apart(Box<Run>),
    /// Totals of both runs until the runs became one: from no window, from the ceiling. `None` if always one.
    SameAsZero(Option<Box<[Outcome; 2]>>),
}

impl TwoStarts {
    pub(super) fn new(zero: Run, ceiling: Run) -> Self {
        let mut two_starts = Self {
            zero,
            ceiling: Other::Apart(Box::new(ceiling)),
            apart: 0,
            alike: 0,
            look: FIRST_LOOK,
        };
        two_starts.look();
        two_starts
    }

    pub(super) fn step(&mut self, sample: &Sample, frame: &Frame<'_>, least_cost: &mut LeastCost) {
        let zero_ns = self.zero.step_beside(sample, frame, Some(least_cost));
        let Other::Apart(ceiling) = &mut self.ceiling else {
            return;
        };
        if ceiling.step_beside(sample, frame, Some(least_cost)) != zero_ns {
            self.apart += 1;
            return;
        }
        self.alike += 1;
        if self.alike == self.look {
            self.alike = 0;
            // Those that never meet are not to be looked at for ever.
            self.look = self.look.saturating_mul(2);
            self.look();
        }
    }

    /// Makes the two one if they are in the same state.
    fn look(&mut self) {
        if let Other::Apart(ceiling) = &mut self.ceiling
            && self.zero.is_where(ceiling)
        {
            let until_now = [self.zero.take(), ceiling.take()];
            let played = until_now.iter().any(|outcome| outcome.halts > 0);
            self.ceiling = Other::SameAsZero(played.then(|| Box::new(until_now)));
        }
    }

    /// Totals of all halts, which were seen over `span_ns` as recorded.
    pub(super) fn finish(self, span_ns: u64, recorded_halt_ns: u64) -> Played {
        let [from_zero, from_ceiling] = match self.ceiling {
            Other::Apart(ceiling) => [self.zero, *ceiling].map(|mut run| run.take()),
            Other::SameAsZero(until) => {
                let mut zero = self.zero;
                let since = zero.take();
                until
                    .map_or_else(Default::default, |until| *until)
                    .map(|mut outcome| {
                        outcome.fold(&since);
                        outcome
                    })
            }
        }
        .map(|outcome| outcome.over(span_ns, recorded_halt_ns));
        Played {
            from_zero,
            from_ceiling,
            apart: self.apart,
            early: None,
            late: None,
        }
    }
}
