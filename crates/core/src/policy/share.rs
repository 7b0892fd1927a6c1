//! `share`: many fixed thresholds are asked, those that did well of late are heeded.
//!
//! The experts are thresholds from twice the break-even downwards, each three quarters of the
//! one before, and 0. Each has a weight. What a halt would have cost under an expert, relative to the most
//! it can, is its loss: the weight is multiplied by `e^(-eta loss)`. Then each gives the share
//! `1 - (1 - alpha)^loss` of what is left to a pool that all divide equally, so that whoever was wrong for
//! long can come back at once. The window is the mean of the thresholds by weight.
//!
//! `eta` (4) is how fast it believes: larger follows the last halts, smaller averages. `alpha` (8%) is
//! how ready it is to change its mind: at 0% it converges on the best expert of all time and comes off
//! it slowly. Both defaults are those of the paper as far as remembered; the grid is ours. Gaps are
//! told apart in 256 steps.
//!
//! Starts with all weight on the threshold 0, or on the largest.
//! Wins where the best threshold changes from time to time. Loses on mixtures of short and long gaps: the
//! mean of two good thresholds can be a bad one. Source: Helmbold, Long, Sherrod, "A Dynamic Disk
//! Spin-Down Technique for Mobile Computing", `MobiCom` 1996.

use super::{Ask, Entry, Policy, Seen, Setting, Start};

pub(super) const ENTRY: Entry = Entry {
    name: "share",
    form: "eta=N,alpha=SHARE%, each optional",
    summary: "a mean of thresholds, weighted by their recent cost",
    build: |args, setting| {
        let eta = args.whole("eta")?.unwrap_or(4);
        if eta > MOST_ETA {
            return Err(args.refuse("eta", "a whole number up to 100"));
        }
        let alpha = args.share("alpha")?.unwrap_or(0.08);
        Ok(Box::new(Share::new(f64::from(eta), alpha, setting)))
    },
};

/// How many experts, a multiple of four. The smallest threshold above 0 is 1/28 of the break-even.
const EXPERTS: usize = 16;

/// The fastest belief: beyond, weights leave what a float can tell from 0.
const MOST_ETA: u32 = 100;

/// In how many steps gaps are told apart.
const STEPS: usize = 256;

/// What no weight falls below, so that nobody is forgotten for ever where nothing is shared.
const LEAST: f64 = 1e-30;

/// What a loss does to a weight.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Factors {
    /// `e^(-eta loss)`
    kept: f64,
    /// `1 - (1 - alpha)^loss`: how much of that goes into the pool.
    given: f64,
}

impl Factors {
    fn of(loss: f64, eta: f64, alpha: f64) -> Self {
        Self {
            kept: (-eta * loss).exp(),
            given: 1.0 - (1.0 - alpha).powf(loss),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Share {
    /// From the largest down to 0, in nanoseconds.
    thresholds: [u64; EXPERTS],
    /// The same, for the mean.
    lengths: [f64; EXPERTS],
    weights: [f64; EXPERTS],
    /// By expert: of a halt that blocked.
    blocked: [Factors; EXPERTS],
    /// By the gap in steps: of a halt that was polled to its end.
    polled: Box<[Factors]>,
    /// So that [`STEPS`] of them reach up to the largest threshold.
    step_ns: u64,
    window_ns: u64,
}

impl Share {
    fn new(eta: f64, alpha: f64, setting: &Setting) -> Self {
        let mut thresholds = [0; EXPERTS];
        let mut threshold_ns = setting.break_even_ns.saturating_mul(2);
        for threshold in &mut thresholds[..EXPERTS - 1] {
            *threshold = threshold_ns;
            threshold_ns -= threshold_ns.div_ceil(4);
        }
        let break_even_ns = setting.break_even_ns as f64;
        let most = (thresholds[0] as f64 + break_even_ns).max(1.0);
        let factors = |cost: f64| Factors::of(cost / most, eta, alpha);
        let step_ns = (thresholds[0] / STEPS as u64).max(1);
        let middle = |step: u16| factors((f64::from(step) + 0.5) * step_ns as f64);
        let mut weights = [LEAST; EXPERTS];
        let first = match setting.start {
            Start::Zero => EXPERTS - 1,
            Start::Ceiling => 0,
        };
        weights[first] = 1.0;
        Self {
            thresholds,
            lengths: thresholds.map(|threshold| threshold as f64),
            weights,
            blocked: thresholds.map(|threshold| factors(threshold as f64 + break_even_ns)),
            polled: (0_u16..).take(STEPS).map(middle).collect(),
            step_ns,
            window_ns: setting.start.window(thresholds[0]),
        }
    }

    /// What a gap does to the weights of those who would have polled it to its end.
    fn polled(&self, gap_ns: u64) -> Factors {
        let step = usize::try_from(gap_ns / self.step_ns).unwrap_or(STEPS);
        self.polled[step.min(STEPS - 1)]
    }
}

impl Policy for Share {
    fn window(&mut self, _: &Ask) -> u64 {
        self.window_ns
    }

    fn learn(&mut self, seen: &Seen) {
        let gap_ns = seen.gap_ns();
        let polls = self
            .thresholds
            .partition_point(|threshold| gap_ns <= *threshold);
        let polled = self.polled(gap_ns);
        let mut given = [0.0; EXPERTS];
        for (index, weight) in self.weights.iter_mut().enumerate() {
            let blocked = &self.blocked[index];
            let factors = if index < polls { &polled } else { blocked };
            *weight *= factors.kept;
            given[index] = *weight * factors.given;
        }
        let share = sum(&given) / EXPERTS as f64;
        let scale = 1.0 / sum(&self.weights);
        let mut parts = [0.0; EXPERTS];
        for (index, weight) in self.weights.iter_mut().enumerate() {
            *weight = ((*weight - given[index] + share) * scale).max(LEAST);
            parts[index] = *weight * self.lengths[index];
        }
        self.window_ns = nearest(sum(&parts)).min(self.thresholds[0]);
    }
}

/// A sum in four lanes, so that a processor need not wait for each addition. Always in this order.
fn sum(values: &[f64; EXPERTS]) -> f64 {
    let mut lanes = [0.0; 4];
    for four in values.chunks_exact(lanes.len()) {
        for (lane, value) in lanes.iter_mut().zip(four) {
            *lane += value;
        }
    }
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are none below 0, and the cast saturates"
)]
fn nearest(ns: f64) -> u64 {
    (ns + 0.5) as u64
}

#[cfg(test)]
mod test;
