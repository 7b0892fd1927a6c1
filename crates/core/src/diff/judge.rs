//! The difference of a figure between two captures, and which differences stand among so many.
//!
//! The captures are independent, and each knows its own variance: Welch's interval, with degrees of
//! freedom by Satterthwaite from what the blocks are worth.
//!
//! At the 5 % level, one in twenty comparisons of equal figures is a false positive. Holm's correction ("A Simple Sequentially
//! Rejective Multiple Test Procedure", 1979) keeps the chance that *any* is called different wrongly at
//! 5 %, however the figures hang together; and they do: halts and blocks, a VM and its host. What is in
//! neither capture could not have been called different, and does not count among them (Tarone, "A
//! Modified Bonferroni Method for Discrete Data", 1990).

use serde::Serialize;

use crate::stats::jackknife::Estimate;
use crate::stats::{Interval, student};

/// How often chance may make any difference at all, of two captures of one process.
pub const CHANCE: f64 = 0.05;

/// Verdict on a figure, in the order in which figures are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It differs, and not by chance.
    Different,
    MayBeChance,
    /// Too few blocks have samples of it, or they hang together too much.
    TooShort,
    /// One of the captures does not tell it.
    NotTold,
    /// There is none of it in either.
    InNeither,
}

/// A figure of two captures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    pub a: Option<Estimate>,
    pub b: Option<Estimate>,
    /// B less A; the interval holds the true difference of this figure in 95 of 100 comparisons.
    pub difference: Option<Interval>,
    /// How likely chance makes a difference at least as large, of this figure by itself.
    pub p: Option<f64>,
    /// The same among all figures that were compared (Holm); filled in by [`holm`].
    pub p_adjusted: Option<f64>,
    /// Verdict on the figure; `Different` only after [`holm`].
    pub verdict: Verdict,
}

impl Comparison {
    /// Compares. Nothing is called different before [`holm`] has seen all comparisons.
    pub fn new(a: Option<Estimate>, b: Option<Estimate>) -> Self {
        let mut made = Self {
            a,
            b,
            difference: None,
            p: None,
            p_adjusted: None,
            verdict: Verdict::NotTold,
        };
        let (Some(a), Some(b)) = (a, b) else {
            return made;
        };
        let value = b.value - a.value;
        made.difference = Some(Interval::unknown(value));
        if a.value == 0.0 && b.value == 0.0 {
            made.verdict = Verdict::InNeither;
            return made;
        }
        made.verdict = Verdict::TooShort;
        if !(a.is_sure() && b.is_sure()) {
            return made;
        }
        let variance = a.variance + b.variance;
        let (p, reach) = if variance > 0.0 {
            let own = |it: Estimate| it.variance.powi(2) / (it.worth - 1.0);
            let freedom = variance.powi(2) / (own(a) + own(b));
            let error = variance.sqrt();
            (
                student::two_sided(value / error, freedom),
                error * student::quantile(CHANCE, freedom),
            )
        } else if value == 0.0 {
            (1.0, 0.0)
        } else {
            (0.0, 0.0)
        };
        made.difference = Some(Interval::around(value, reach));
        made.p = Some(p);
        made.verdict = Verdict::MayBeChance;
        made
    }

    /// B as a multiple of A; `None` where A is 0.
    pub fn ratio(&self) -> Option<f64> {
        let (a, b) = (self.a?.value, self.b?.value);
        (a != 0.0).then(|| b / a)
    }

    /// How large the difference is, from 0 to 1: its share of both values together. The same whichever
    /// capture comes first, and 1 for what only one of them has.
    pub fn size(&self) -> f64 {
        let (Some(a), Some(b)) = (self.a, self.b) else {
            return 0.0;
        };
        let both = a.value.abs() + b.value.abs();
        if both > 0.0 {
            (b.value - a.value).abs() / both
        } else {
            0.0
        }
    }
}

/// Holm's correction over all comparisons that have a `p`; calls different what stands.
pub fn holm<'a>(comparisons: impl IntoIterator<Item = &'a mut Comparison>) {
    let mut known: Vec<(f64, &mut Comparison)> = comparisons
        .into_iter()
        .filter_map(|it| it.p.map(|p| (p, it)))
        .collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all = known.len();
    let mut least = 0.0_f64;
    for (rank, (p, comparison)) in known.into_iter().enumerate() {
        least = least.max((p * (all - rank) as f64).min(1.0));
        comparison.p_adjusted = Some(least);
        if least <= CHANCE {
            comparison.verdict = Verdict::Different;
        }
    }
}
