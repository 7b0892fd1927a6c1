//! One recommendation for a goal: the simplest setting that no simpler one comes near to.
//!
//! Settings are asked in order of what they change: what is in force, the kernel's default, no polling, one value, two.
//! A setting must cost [`LEAST_GAIN`] less than the one taken so far, on the validation half, by its whole interval and in most
//! parts of that half. A setting that replaces another than the one in force must also cost no more under any assumption
//! about what was not recorded. So a setting fitted to the first half alone is not taken, and settings that cannot be told
//! apart leave the simpler one. Rejected are settings with two steady states, settings that lose their gain with a ceiling
//! one wake-up latency off, and settings that poll for more than the limit.
//!
//! Where the answer depends on what was not recorded ([`super::doubt`]), or on a price within its error, it is
//! [`Verdict::Unproven`].

use std::cmp::Ordering;

use super::candidates::Candidate;
use super::doubt::Doubt;
use super::final_round::{FinalRound, Finalist};
use super::inputs::Inputs;
use super::search::Aim;
use crate::kvm::Knobs;
use crate::replay::Cost;
use crate::replay::Sums;
use crate::stats::Interval;
use crate::stats::bootstrap::bootstrap;

#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// `density`, `balanced` or `latency`.
    pub name: String,
    pub aim: Aim,
}

/// Why a setting that looked better was not taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rejected {
    /// It has two steady states: costs per halt in nanoseconds, from no window and from the ceiling.
    Bistable(f64, f64),
    /// Its ceiling is within a wake-up latency of many gaps: what it gains as a share of the cost in force, and what it
    /// gains with a ceiling that much lower or higher.
    Edge(f64, f64),
    /// On the validation half it polls for more than it may, in % of one CPU.
    OverLimit(f64),
}

crate::names! {
    /// Recommended action for a setting.
    pub enum Verdict {
        /// Take the setting: it is better, for certain as far as the interval goes.
        Change = "change",
        /// Take it: what is in force polls for more than it may.
        ObeyLimit = "obey-limit",
        /// Leave it: what is in force is the best that was found.
        AlreadyBest = "already-best",
        /// Leave it: the difference may be chance.
        NotSignificant = "not-significant",
        /// Leave it: the difference is certain, and below [`LEAST_GAIN`].
        TooSmall = "too-small",
        /// Leave it: the validation half has too few blocks with halts to tell, or a fleet too few hosts and days.
        TooShort = "too-short",
        /// Leave it: everything that looked better was rejected.
        AllRejected = "all-rejected",
        /// Not known: the best setting depends on what was not recorded.
        Unproven = "unproven",
        /// Leave it: this kernel does not poll.
        NoPolling = "no-polling",
        /// Leave it: every VM has a ceiling of its own.
        NothingFollows = "nothing-follows",
    }
}

impl Verdict {
    pub fn changes(self) -> bool {
        matches!(self, Self::Change | Self::ObeyLimit)
    }
}

/// A gain that is worth a change, and a further value of a change, as a share of the cost in force. A replay is not surer than that: its
/// median round trips were off by 0.4 us of some 50 (measurements/2026-11-21-vm-prediction).
pub const LEAST_GAIN: f64 = 0.02;

/// Costs nearer than this count as equal, and the setting that changes fewer parameters is taken.
pub const TIE: f64 = 0.01;

/// The share of a gain that must be left with a ceiling a wake-up latency off.
const LEFT: f64 = 0.5;

/// The differences between two settings on the validation half: own less other. Intervals hold which halts were drawn,
/// both ends of the price of a block, and what was not recorded.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Comparison {
    /// Cost per halt, in nanoseconds of CPU.
    pub cost_ns_per_halt: Interval,
    /// The same as a share of the other's.
    pub cost_share: Interval,
    /// Polling in % of one CPU, for all vCPUs together.
    pub poll_cpu_percent: Interval,
    /// Mean wake-up latency over all halts, in nanoseconds.
    pub latency_mean_ns: Interval,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Advice<S = Knobs> {
    pub goal: Goal,
    pub verdict: Verdict,
    /// The setting to take, or to prove; else the cheapest that was not rejected. `None` where there is none but what is in
    /// force.
    pub choice: Option<Finalist<S>>,
    pub against_in_force: Option<Comparison>,
    /// It against the kernel's default.
    pub against_default: Option<Comparison>,
    /// Assumption that the gain on the setting in force depends on most; `None` is the price of a block.
    pub hangs_on: Option<Doubt>,
    /// Settings that looked better on the part that fits, and why they were not taken.
    pub rejected: Vec<(S, Rejected)>,
}

impl Comparison {
    /// The same, its intervals out to the ends of another's.
    #[must_use]
    pub fn out_to(self, other: &Self) -> Self {
        Self {
            cost_ns_per_halt: self.cost_ns_per_halt.out_to(&other.cost_ns_per_halt),
            cost_share: self.cost_share.out_to(&other.cost_share),
            poll_cpu_percent: self.poll_cpu_percent.out_to(&other.poll_cpu_percent),
            latency_mean_ns: self.latency_mean_ns.out_to(&other.latency_mean_ns),
        }
    }
}

/// Compares two of a final, as all is taken and under each doubt.
pub fn compare_finalists<S>(
    inputs: &Inputs,
    own: &Finalist<S>,
    other: &Finalist<S>,
    aim: &Aim,
) -> Comparison {
    let under = |doubt| [own, other].map(|of| of.blocks_under(doubt));
    let compared = |doubt| {
        let [own, other] = under(doubt);
        compare(inputs, own, other, aim)
    };
    let asked = Doubt::ALL.into_iter().map(Some);
    let asked = asked.filter(|&doubt| under(doubt) != under(None));
    asked.fold(compared(None), |all, doubt| all.out_to(&compared(doubt)))
}

/// Compares two settings on the validation half, all taken as the replay takes it.
pub fn compare(inputs: &Inputs, own: &[Sums], other: &[Sums], aim: &Aim) -> Comparison {
    let seed = inputs.terms.seed;
    let wall = &inputs.judged_wall;
    let halts = Sums::total(own).halts.max(1) as f64;
    // A draw of blocks takes as much time as it has halts.
    let poll = |sums: &Sums| {
        let drawn = sums.halts as f64 / halts;
        let scaled = super::wall::Wall {
            span_ns: share_of(wall.span_ns, drawn),
            halt_ns: share_of(wall.halt_ns, drawn),
            vcpus: wall.vcpus,
        };
        scaled.poll_cpu_percent(sums)
    };
    // As calibrated, and at both ends of the calibration's interval: the same again where there is none.
    let mut ends = aim.ends();
    let mut end = || ends.next().unwrap_or(aim.cost);
    let costs = [aim.cost, end(), end()];
    let figures = |a: &Sums, b: &Sums| {
        let [ns, low_ns, high_ns] =
            costs.map(|cost| a.cost_per_halt_ns(&cost) - b.cost_per_halt_ns(&cost));
        let [share, low, high] = costs.map(|cost| -a.gain_on(b, &cost));
        let latency_ns = a.latency_mean_ns() - b.latency_mean_ns();
        let poll_percent = poll(a) - poll(b);
        [
            ns,
            low_ns,
            high_ns,
            share,
            low,
            high,
            poll_percent,
            latency_ns,
        ]
    };
    let [ns, low_ns, high_ns, share, low, high, poll, latency] =
        bootstrap(own, other, |sums| sums.halts > 0, seed, figures);
    Comparison {
        cost_ns_per_halt: ns.out_to(&low_ns).out_to(&high_ns),
        cost_share: share.out_to(&low).out_to(&high),
        poll_cpu_percent: poll,
        latency_mean_ns: latency,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a share is not negative"
)]
fn share_of(ns: u64, share: f64) -> u64 {
    (ns as f64 * share) as u64
}

/// Assumptions about what was not recorded, and about the price of a block.
#[derive(Debug, Clone, Copy)]
struct World {
    doubt: Option<Doubt>,
    cost: Cost,
}

impl World {
    /// As all is taken, then under each doubt, then at both ends of the price of a block.
    fn all(aim: &Aim) -> impl Iterator<Item = Self> {
        let cost = aim.cost;
        let doubts = std::iter::once(None).chain(Doubt::ALL.map(Some));
        let doubts = doubts.map(move |doubt| Self { doubt, cost });
        doubts.chain(aim.ends().map(|cost| Self { doubt: None, cost }))
    }

    fn milli<S>(&self, of: &Finalist<S>) -> u128 {
        Sums::total(of.blocks_under(self.doubt)).milli(&self.cost)
    }
}

/// Under which doubt a setting gains least on another; `None` is the price of a block.
fn hangs_on<S>(own: &Finalist<S>, other: &Finalist<S>, aim: &Aim) -> Option<Doubt> {
    let gain = |world: &World| {
        let [own, other] = [own, other].map(|of| Sums::total(of.blocks_under(world.doubt)));
        own.gain_on(&other, &world.cost)
    };
    let least = World::all(aim).min_by(|a, b| gain(a).total_cmp(&gain(b)))?;
    least.doubt
}

pub fn advise<S: Candidate>(inputs: &Inputs, of: &FinalRound<S>, goal: &Goal) -> Advice<S> {
    let judge = Judge {
        inputs,
        of,
        aim: &goal.aim,
        must_change: is_over_limit(inputs, &of.in_force, &goal.aim),
    };
    let (mut rejected, mut admitted) = (Vec::new(), Vec::new());
    for finalist in [&of.default].into_iter().chain(&of.others) {
        match judge.reject(finalist) {
            Some(why) => rejected.push((finalist, why)),
            None => admitted.push(finalist),
        }
    }
    let fit = |of: &&Finalist<S>| of.fit().milli(&goal.aim.cost);
    let mut worlds = World::all(&goal.aim);
    let taken = worlds
        .next()
        .and_then(|world| judge.simplest(&admitted, &world));
    let mut worlds = worlds.filter(|world| taken.is_none() && judge.differs(&admitted, world));
    let otherwise = worlds.find_map(|world| judge.simplest(&admitted, &world));
    let others = (admitted.iter().copied()).filter(|it| judge.rank(it) > 0);
    let choice = taken.or(otherwise).or_else(|| others.min_by_key(fit));
    let compared = |other: &Finalist<S>| {
        choice.map(|choice| compare_finalists(inputs, choice, other, &goal.aim))
    };
    let against_in_force = compared(&of.in_force);
    let hangs_on = choice.and_then(|choice| hangs_on(choice, &of.in_force, &goal.aim));
    let rejected = (rejected.into_iter())
        .filter(|(it, _)| looks_better(it, &of.in_force, &goal.aim.cost))
        .filter(|(it, _)| choice.is_none_or(|choice| fit(it) < fit(&choice)))
        .map(|(it, why)| (it.knobs, why));
    let rejected: Vec<(S, Rejected)> = rejected.collect();
    let verdict = match (choice, against_in_force) {
        _ if !S::applies(&inputs.terms) => Verdict::NoPolling,
        (Some(_), Some(_)) if judge.must_change => Verdict::ObeyLimit,
        (Some(_), Some(against)) if !against.cost_share.is_known() => Verdict::TooShort,
        (_, Some(against)) if taken.is_some() && against.cost_share.is_below_zero() => {
            Verdict::Change
        }
        // Whatever was not recorded, it gains: most probably too little.
        (_, Some(against)) if left(&against.cost_share) == Verdict::TooSmall => Verdict::TooSmall,
        (Some(_), _) if taken.or(otherwise).is_some() => Verdict::Unproven,
        (Some(_), Some(against)) => left(&against.cost_share),
        _ if rejected.is_empty() => Verdict::AlreadyBest,
        _ => Verdict::AllRejected,
    };
    Advice {
        goal: goal.clone(),
        verdict,
        choice: choice.cloned(),
        against_in_force,
        against_default: compared(&of.default),
        hangs_on,
        rejected,
    }
}

/// Why what is in force is left, where nothing is doubted.
fn left(cost_share: &Interval) -> Verdict {
    match () {
        () if cost_share.value >= 0.0 => Verdict::AlreadyBest,
        () if cost_share.is_below_zero() && cost_share.value > -LEAST_GAIN => Verdict::TooSmall,
        () => Verdict::NotSignificant,
    }
}

/// Whether it would be taken for better by the part that fits.
fn looks_better<S>(finalist: &Finalist<S>, in_force: &Finalist<S>, cost: &Cost) -> bool {
    finalist.fit().gain_on(&in_force.fit(), cost) >= LEAST_GAIN
}

/// Whether the setting in force exceeds the polling limit, on either part.
fn is_over_limit<S>(inputs: &Inputs, in_force: &Finalist<S>, aim: &Aim) -> bool {
    let polls = inputs.judged_wall.poll_cpu_percent(&in_force.judged());
    let fit_polls = inputs.fit_wall.poll_cpu_percent(&in_force.fit());
    let is_over = |max| polls > max || fit_polls > max;
    aim.max_poll_cpu_percent.is_some_and(is_over)
}

struct Judge<'a, S> {
    inputs: &'a Inputs,
    of: &'a FinalRound<S>,
    aim: &'a Aim,
    /// The setting in force may not stay.
    must_change: bool,
}

impl<'a, S: Candidate> Judge<'a, S> {
    /// How much it changes: 0 leaves all as it is, 1 is the default, 2 does not poll, then one for each value.
    fn rank(&self, finalist: &Finalist<S>) -> u32 {
        let (own, terms) = (&finalist.knobs, &self.inputs.terms);
        match () {
            () if own.is_same(&self.of.in_force.knobs, terms) => 0,
            () if own.is_same(&self.of.default.knobs, terms) => 1,
            () if own.is_off() => 2,
            () => 2 + own.changes(&self.of.in_force.knobs, terms),
        }
    }

    fn reject(&self, finalist: &Finalist<S>) -> Option<Rejected> {
        let most = self.aim.limit_percent();
        let fit_polls = self.inputs.fit_wall.poll_cpu_percent(&finalist.fit());
        let polls = (self.inputs.judged_wall).poll_cpu_percent(&finalist.judged());
        let over = (polls.max(fit_polls) > most).then_some(Rejected::OverLimit(polls));
        let bistable = || finalist.two_states(&self.aim.cost);
        over.or_else(|| bistable().map(|(zero, ceiling)| Rejected::Bistable(zero, ceiling)))
            .or_else(|| self.is_edge(finalist))
    }

    /// Whether most of a gain is lost with a ceiling a wake-up latency off.
    fn is_edge(&self, finalist: &Finalist<S>) -> Option<Rejected> {
        let in_force = self.of.in_force.judged();
        let gain = finalist.judged().gain_on(&in_force, &self.aim.cost);
        let near = finalist.near.iter().filter_map(|parts| parts.get(1..));
        let near = near.map(|blocks| Sums::total(blocks).gain_on(&in_force, &self.aim.cost));
        let least = near.fold(f64::INFINITY, f64::min);
        (gain >= LEAST_GAIN && least < LEFT * gain).then_some(Rejected::Edge(gain, least))
    }

    /// Whether anything costs something else in a world than as all is taken.
    fn differs(&self, admitted: &[&Finalist<S>], world: &World) -> bool {
        let mut all = admitted.iter().copied().chain([&self.of.in_force]);
        world.doubt.is_none() || all.any(|of| of.under(world.doubt) != of.under(None))
    }

    /// The simplest setting that no simpler one comes near to; `None` where that is what is in force.
    fn simplest(&self, admitted: &[&'a Finalist<S>], world: &World) -> Option<&'a Finalist<S>> {
        let fit = |of: &&Finalist<S>| {
            let fit = of.under(world.doubt).first();
            fit.map_or(f64::INFINITY, |sums| sums.milli(&world.cost) as f64)
        };
        let of_rank = |rank| admitted.iter().filter(move |it| self.rank(it) == rank);
        let plain = [1, 2].into_iter().flat_map(of_rank);
        let plain = plain.map(|of| world.milli(of)).min();
        let mut best: Option<&Finalist<S>> = None;
        for rank in 1..=MOST_RANK {
            // Among settings of about the same cost, the lowest: which of these settings costs least is chance.
            let least = of_rank(rank).map(fit).fold(f64::INFINITY, f64::min);
            let near = of_rank(rank).filter(|it| fit(it) <= least * (1.0 + LEAST_GAIN));
            let Some(next) = near.min_by_key(|it| it.knobs.key()) else {
                continue;
            };
            if rank > 2 && plain.is_some_and(|plain| world.milli(next) > plain) {
                continue;
            }
            let is_first = self.must_change && best.is_none();
            let is_sure =
                |other| World::all(self.aim).all(|world| world.milli(next) <= world.milli(other));
            let other = best.unwrap_or(&self.of.in_force);
            if is_first || self.is_better([next, other], world) && best.is_none_or(is_sure) {
                best = Some(next);
            }
        }
        best
    }

    /// Whether the first of two costs surely less, in most parts that differ, by as much as a change is worth.
    fn is_better(&self, both: [&Finalist<S>; 2], world: &World) -> bool {
        let cost = &world.cost;
        let [own, other] = both.map(|of| of.blocks_under(world.doubt));
        let gain = Sums::total(own).gain_on(&Sums::total(other), cost);
        let parts = own.iter().zip(other);
        let parts = parts.map(|(own, other)| own.milli(cost).cmp(&other.milli(cost)));
        let [less, more] = [Ordering::Less, Ordering::Greater]
            .map(|is| parts.clone().filter(|it| *it == is).count());
        let aim = Aim {
            cost: *cost,
            switch_cpu_ends_ns: None,
            ..*self.aim
        };
        gain >= LEAST_GAIN
            && less > more
            && (compare(self.inputs, own, other, &aim).cost_share).is_below_zero()
    }
}

/// The rank of a setting that changes all parameters of a guest.
const MOST_RANK: u32 = 7;
