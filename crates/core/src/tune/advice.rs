//! One recommendation for a goal: who is left when the unsafe ones are gone, and whether that is
//! better than what is in force.

use super::candidates::Candidate;
use super::crew::Crew;
use super::doubt::{self, Doubt};
use super::interval::{Interval, bootstrap};
use super::material::{Material, Seated};
use super::pareto;
use super::search::{self, Aim, Found};
use super::stage::{self, CeilingsOf, Entry, Part};
use super::sums::Sums;
use crate::kvm::Knobs;
use crate::policy::Start;
use crate::replay::Cost;
use crate::replay::session::BISTABLE_SHARE;

/// What is wanted: a name for people, and the aim.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// `density`, `balanced` or `latency`.
    pub name: String,
    /// What is sought.
    pub aim: Aim,
}

/// A setting that was played on the whole capture, from both starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finalist<S = Knobs> {
    /// The parameters.
    pub knobs: S,
    /// The start that counts: where windows begin.
    pub start: Start,
    /// Sums of each part from the start that counts: the part that fits, then the judging blocks.
    pub parts: Vec<Sums>,
    /// From the other start.
    pub others: Vec<Sums>,
    /// From the start that counts, were what was calibrated as late as [`doubt`] asks. Empty where nothing
    /// was.
    pub late: Vec<Sums>,
    /// From the start that counts, if gaps stay where nothing recorded shows how they follow. Empty where that is shown.
    pub staying: Vec<Sums>,
}

impl<S> Finalist<S> {
    /// What came of the part that fits.
    pub fn fit(&self) -> Sums {
        self.parts.first().copied().unwrap_or_default()
    }

    /// The judging blocks.
    pub fn blocks(&self) -> &[Sums] {
        self.parts.get(1..).unwrap_or_default()
    }

    /// What came of the validation half.
    pub fn judged(&self) -> Sums {
        Sums::total(self.blocks())
    }

    fn doubted(&self, doubt: Doubt) -> &[Sums] {
        match doubt {
            Doubt::Late => &self.late,
            Doubt::Staying => &self.staying,
        }
    }

    pub(super) fn doubted_mut(&mut self, doubt: Doubt) -> &mut Vec<Sums> {
        match doubt {
            Doubt::Late => &mut self.late,
            Doubt::Staying => &mut self.staying,
        }
    }

    /// Sums of the blocks of the second half under the other assumption; empty where nothing depends on it.
    pub fn doubted_blocks(&self, doubt: Doubt) -> &[Sums] {
        self.doubted(doubt).get(1..).unwrap_or_default()
    }

    /// Whether its figures are others then.
    pub fn rests_on(&self, doubt: Doubt) -> bool {
        let parts = self.doubted(doubt);
        !parts.is_empty() && parts != self.parts
    }

    /// The other start is the one that counts.
    fn turn(&mut self) {
        std::mem::swap(&mut self.parts, &mut self.others);
        self.start = match self.start {
            Start::Zero => Start::Ceiling,
            Start::Ceiling => Start::Zero,
        };
    }

    /// Whether as many halts as recorded sleep from the other start, rather than from this one.
    fn is_nearer_from_ceiling(&self, material: &Material) -> bool {
        let recorded = material.seats.iter().map(|seated| seated.recorded.blocks);
        let recorded: u64 = recorded.sum();
        let off = |parts: &[Sums]| Sums::total(parts).blocks.abs_diff(recorded);
        off(&self.others) < off(&self.parts)
    }

    /// Costs per halt on the validation half from both starts, where they differ by more than
    /// [`BISTABLE_SHARE`]: the load has two steady states there, and chance picks one.
    pub fn two_states(&self, cost: &Cost) -> Option<(f64, f64)> {
        let others = self.others.get(1..).unwrap_or_default();
        let own = self.judged().cost_per_halt_ns(cost);
        let other = Sums::total(others).cost_per_halt_ns(cost);
        ((own - other).abs() > BISTABLE_SHARE * own.min(other)).then_some((own, other))
    }
}

/// Everything that came into the final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Final<S = Knobs> {
    /// The setting in force, with each VM's own ceiling, from the start that came nearer to what was
    /// recorded.
    pub in_force: Finalist<S>,
    /// The kernel's default.
    pub default: Finalist<S>,
    /// The others: the best for each aim, and a selection of the front.
    pub others: Vec<Finalist<S>>,
}

impl<S> Final<S> {
    /// All of them: in force, the default, the others.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Finalist<S>> {
        let first = [&mut self.in_force, &mut self.default].into_iter();
        first.chain(&mut self.others)
    }
}

/// The best that come into the final for each aim.
const BEST: usize = 16;

/// Of those that cost about as little, the simplest that come into the final.
const SIMPLEST: usize = 8;

/// Settings of the front that come into the final.
const OF_FRONT: usize = 32;

/// Those of a search that come into the final.
pub(super) fn wanted<S: Candidate>(
    material: &Material,
    in_force: &S,
    found: &[Found<S>],
    aims: &[Aim],
) -> Vec<S> {
    let mut wanted: Vec<S> = Vec::new();
    let mut want = |knobs: S| {
        if !wanted.contains(&knobs) {
            wanted.push(knobs);
        }
    };
    for aim in aims {
        let best = search::best(found, aim, (material, in_force), BEST);
        let simplest = search::simplest(found, aim, (material, in_force), SIMPLEST);
        for found in best.into_iter().chain(simplest) {
            want(found.knobs);
        }
    }
    let points: Vec<pareto::Point> = (found.iter())
        .map(|found| (found.fit.poll_ns, found.fit.latency_ns))
        .collect();
    for index in pareto::thin(&pareto::front(&points), &points, OF_FRONT) {
        want(found[index].knobs);
    }
    wanted
}

/// Plays the best of a search on the whole capture.
pub fn play_final(material: &Material, found: &[Found], aims: &[Aim], crew: &impl Crew) -> Final {
    let in_force = Entry {
        ceilings: CeilingsOf::Recorded,
        ..Entry::new(material.terms.in_force)
    };
    let mut zero = vec![in_force, Entry::new(material.terms.default_knobs())];
    let in_force = &material.terms.in_force;
    let wanted = wanted(material, in_force, found, aims);
    zero.extend(wanted.into_iter().map(Entry::new));
    let entries: Vec<Entry> = (zero.iter())
        .flat_map(|entry| {
            let ceiling = Entry {
                start: Start::Ceiling,
                ..*entry
            };
            [*entry, ceiling]
        })
        .collect();
    let seats: Vec<&Seated> = material.seats.iter().collect();
    let sums = stage::play(material, &seats, &entries, Part::Whole, "judge", crew);
    let mut finalists = zero
        .iter()
        .zip(sums.chunks(2))
        .map(|(entry, pair)| Finalist {
            knobs: entry.knobs,
            start: entry.start,
            parts: pair[0].clone(),
            others: pair[1].clone(),
            late: Vec::new(),
            staying: Vec::new(),
        });
    let empty = || Finalist {
        knobs: material.terms.in_force,
        start: Start::Zero,
        parts: Vec::new(),
        others: Vec::new(),
        late: Vec::new(),
        staying: Vec::new(),
    };
    let in_force = finalists.next().unwrap_or_else(empty);
    let default = finalists.next().unwrap_or_else(empty);
    let is_from_ceiling = in_force.is_nearer_from_ceiling(material);
    let mut of = Final {
        in_force,
        default,
        others: finalists.collect(),
    };
    if is_from_ceiling {
        // Whoever is what is in force under another name has the same figures.
        let (in_force, finalists) = (zero[0], of.all_mut());
        for (entry, finalist) in zero.iter_mut().zip(finalists) {
            if entry.does_the_same(&in_force, material) {
                entry.start = Start::Ceiling;
                finalist.turn();
            }
        }
    }
    doubt::play(material, &zero, &mut of, crew);
    of
}

/// Why a setting that looked better was not taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rejected {
    /// It has two steady states: costs per halt in nanoseconds, from no window and from the ceiling.
    Bistable(f64, f64),
    /// What it gained on the part that fits (as a share of the cost in force) it did not gain on the
    /// rest.
    OverFitted(f64, f64),
    /// On the validation half it polls for more than it may, in % of one CPU.
    OverLimit(f64),
    /// It gains as calibrated, and not were those wake-ups as late as [`doubt`] asks: both gains as a share
    /// of the cost in force.
    Calibrated(f64, f64),
    /// It gains if timers come at a fixed time, and not if gaps stay, where nothing recorded shows which it is: both gains
    /// as a share of the cost in force.
    Timers(f64, f64),
    /// It gains as calibrated, and not everywhere within the calibration's own interval: the gain, and the
    /// least within that interval, as a share of the cost in force.
    WithinError(f64, f64),
}

impl Rejected {
    /// Whether it hangs on what nobody recorded, so that a proof would tell.
    pub fn is_to_be_proved(&self) -> bool {
        matches!(
            self,
            Self::Calibrated(..) | Self::Timers(..) | Self::WithinError(..)
        )
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Take the setting: it is better, for certain as far as the interval goes.
    Change,
    /// Take it: what is in force polls for more than it may.
    ObeyLimit,
    /// Leave it: what is in force is the best that was found.
    AlreadyBest,
    /// Leave it: the difference may be chance.
    NotSignificant,
    /// Leave it: the difference is certain, and below [`LEAST_GAIN`].
    TooSmall,
    /// Leave it: the validation half has too few blocks with halts to tell.
    TooShort,
    /// Leave it: everything that looked better was rejected.
    AllRejected,
    /// Leave it, and prove first what would be better by the calibration alone, or by how timers are taken to follow.
    Unproven,
    /// Leave it: this kernel does not poll.
    NoPolling,
}

impl Verdict {
    /// Whether a setting is to be written.
    pub fn changes(self) -> bool {
        matches!(self, Self::Change | Self::ObeyLimit)
    }
}

/// A gain that is worth a change, as a share of the cost in force. A replay is not surer than that: its
/// median round trips were off by 0.4 us of some 50 (measurements/2026-11-21-vm-prediction).
pub const LEAST_GAIN: f64 = 0.02;

/// Costs nearer than this count as equal, and the setting that changes fewer parameters is taken.
pub const TIE: f64 = 0.01;

/// The share of a gain that must be kept on the validation half.
const KEPT: f64 = 0.5;

/// The differences between two settings on the validation half: own less other. Intervals of costs reach to both
/// ends of the interval of what was calibrated, and all of them to what holds if gaps stay, where nothing recorded shows
/// how they follow.
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

/// A recommendation.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice<S = Knobs> {
    /// For what.
    pub goal: Goal,
    /// What to do.
    pub verdict: Verdict,
    /// The best setting that was not rejected; `None` where there is none but what is in force.
    pub choice: Option<Finalist<S>>,
    /// It against what is in force.
    pub against_in_force: Option<Comparison>,
    /// It against the kernel's default.
    pub against_default: Option<Comparison>,
    /// By how much less it would cost than what is in force, as a share, were what was calibrated as late
    /// as [`doubt`] asks. `None` where neither rests on it.
    pub late_gain: Option<f64>,
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

/// Compares two of a final.
pub fn compare_finalists<S>(
    material: &Material,
    own: &Finalist<S>,
    other: &Finalist<S>,
    aim: &Aim,
) -> Comparison {
    let taken = compare(material, own.blocks(), other.blocks(), aim);
    let doubt = Doubt::Staying;
    if !own.rests_on(doubt) && !other.rests_on(doubt) {
        return taken;
    }
    let [own, other] = [own, other].map(|of| of.doubted_blocks(doubt));
    taken.out_to(&compare(material, own, other, aim))
}

/// Compares two settings on the validation half, all taken as the replay takes it.
pub fn compare(material: &Material, own: &[Sums], other: &[Sums], aim: &Aim) -> Comparison {
    let seed = material.terms.seed;
    let wall = &material.judged_wall;
    let halts = Sums::total(own).halts.max(1) as f64;
    // A draw of blocks takes as much time as it has halts.
    let poll = |sums: &Sums| {
        let drawn = sums.halts as f64 / halts;
        let scaled = super::sums::Wall {
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
        bootstrap(own, other, seed, figures);
    Comparison {
        cost_ns_per_halt: ns.out_to(&low_ns).out_to(&high_ns),
        cost_share: share.out_to(&low).out_to(&high),
        poll_cpu_percent: poll,
        latency_mean_ns: latency,
    }
}

/// Compares any setting, from no window, with what is in force.
pub fn against_in_force(
    material: &Material,
    of: &Final,
    knobs: Knobs,
    aim: &Aim,
    crew: &impl Crew,
) -> Comparison {
    let seats: Vec<&Seated> = material.seats.iter().collect();
    let entries = [Entry::new(knobs)];
    let play = |part| {
        let parts = stage::play(material, &seats, &entries, part, "compare", crew);
        parts.into_iter().next().unwrap_or_default()
    };
    let own = Finalist {
        knobs,
        start: Start::Zero,
        parts: play(Part::Whole),
        others: Vec::new(),
        late: Vec::new(),
        staying: if Doubt::Staying.is_asked(material) {
            play(Part::Doubted(Doubt::Staying))
        } else {
            Vec::new()
        },
    };
    compare_finalists(material, &own, &of.in_force, aim)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a share is not negative"
)]
fn share_of(ns: u64, share: f64) -> u64 {
    (ns as f64 * share) as u64
}

/// Recommends for a goal.
pub fn advise<S: Candidate>(material: &Material, of: &Final<S>, goal: &Goal) -> Advice<S> {
    let cost = &goal.aim.cost;
    let terms = &material.terms;
    let in_force = &of.in_force;
    let mut order: Vec<&Finalist<S>> = (of.others.iter())
        .filter(|finalist| search::is_within(&goal.aim, material, &finalist.fit()))
        .collect();
    order.sort_by_key(|finalist| finalist.fit().milli(cost));
    let must_change = is_over_limit(material, in_force, &goal.aim);
    let mut rejected = Vec::new();
    let mut choice: Option<&Finalist<S>> = None;
    for finalist in order {
        let near = |best: &Finalist<S>| {
            let (best, own) = (best.fit().milli(cost), finalist.fit().milli(cost));
            own as f64 <= best as f64 * (1.0 + TIE)
        };
        if choice.is_some_and(|best| !near(best)) {
            break;
        }
        let why = reject(material, in_force, finalist, &goal.aim)
            .or_else(|| hangs_on_doubt(in_force, finalist, &goal.aim).filter(|_| !must_change));
        match why {
            Some(why) if choice.is_none() && looks_better(finalist, in_force, cost) => {
                rejected.push((finalist.knobs, why));
            }
            Some(_) => {}
            None => {
                let changes = |of: &Finalist<S>| of.knobs.changes(&in_force.knobs, terms);
                if choice.is_none_or(|best| changes(finalist) < changes(best)) {
                    choice = Some(finalist);
                }
            }
        }
    }
    let compared = |other: &Finalist<S>| {
        choice.map(|choice| compare_finalists(material, choice, other, &goal.aim))
    };
    let against_in_force = compared(in_force);
    let verdict = verdict(material, in_force, choice, against_in_force, goal);
    let is_unproven = rejected.iter().any(|(_, why)| why.is_to_be_proved());
    let verdict = match verdict {
        _ if !S::applies(terms) => Verdict::NoPolling,
        Verdict::AlreadyBest | Verdict::NotSignificant | Verdict::TooSmall if is_unproven => {
            Verdict::Unproven
        }
        Verdict::AlreadyBest if choice.is_none() && !rejected.is_empty() => Verdict::AllRejected,
        other => other,
    };
    Advice {
        goal: goal.clone(),
        verdict,
        choice: choice.cloned(),
        against_in_force,
        against_default: compared(&of.default),
        late_gain: choice.and_then(|choice| doubt::gain(choice, in_force, cost, Doubt::Late)),
        rejected,
    }
}

/// Whether it would be taken for better by the part that fits.
fn looks_better<S>(finalist: &Finalist<S>, in_force: &Finalist<S>, cost: &Cost) -> bool {
    finalist.fit().gain_on(&in_force.fit(), cost) >= LEAST_GAIN
}

fn reject<S>(
    material: &Material,
    in_force: &Finalist<S>,
    finalist: &Finalist<S>,
    aim: &Aim,
) -> Option<Rejected> {
    let cost = &aim.cost;
    let judged = finalist.judged();
    let polls = material.judged_wall.poll_cpu_percent(&judged);
    if polls > aim.limit_percent() {
        return Some(Rejected::OverLimit(polls));
    }
    if let Some((zero, ceiling)) = finalist.two_states(cost) {
        return Some(Rejected::Bistable(zero, ceiling));
    }
    let fitted = finalist.fit().gain_on(&in_force.fit(), cost);
    let kept = judged.gain_on(&in_force.judged(), cost);
    (fitted >= LEAST_GAIN && kept < KEPT * fitted).then_some(Rejected::OverFitted(fitted, kept))
}

/// Whether it would be recommended as all is taken, and loses its gain with something taken otherwise, or a block's CPU at an
/// end of its interval.
fn hangs_on_doubt<S>(
    in_force: &Finalist<S>,
    finalist: &Finalist<S>,
    aim: &Aim,
) -> Option<Rejected> {
    let (own, other) = (finalist.judged(), in_force.judged());
    let kept = own.gain_on(&other, &aim.cost);
    if kept < LEAST_GAIN {
        return None;
    }
    let least = (aim.ends())
        .map(|cost| own.gain_on(&other, &cost))
        .reduce(f64::min);
    if let Some(least) = least.filter(|&least| least <= 0.0) {
        return Some(Rejected::WithinError(kept, least));
    }
    let lost = |doubt| {
        let gain = doubt::gain(finalist, in_force, &aim.cost, doubt);
        gain.filter(|&gain| gain <= 0.0)
    };
    let late = lost(Doubt::Late).map(|late| Rejected::Calibrated(kept, late));
    late.or_else(|| lost(Doubt::Staying).map(|staying| Rejected::Timers(kept, staying)))
}

/// Whether what is in force polls for more than it may, on either part.
fn is_over_limit<S>(material: &Material, in_force: &Finalist<S>, aim: &Aim) -> bool {
    let polls = material.judged_wall.poll_cpu_percent(&in_force.judged());
    let fit_polls = material.fit_wall.poll_cpu_percent(&in_force.fit());
    let is_over = |max| polls > max || fit_polls > max;
    aim.max_poll_cpu_percent.is_some_and(is_over)
}

fn verdict<S: Candidate>(
    material: &Material,
    in_force: &Finalist<S>,
    choice: Option<&Finalist<S>>,
    against: Option<Comparison>,
    goal: &Goal,
) -> Verdict {
    let (Some(choice), Some(against)) = (choice, against) else {
        return Verdict::AlreadyBest;
    };
    if is_over_limit(material, in_force, &goal.aim) {
        return Verdict::ObeyLimit;
    }
    let gain = against.cost_share;
    match () {
        () if !gain.is_known() => Verdict::TooShort,
        () if choice.knobs.is_same(&in_force.knobs, &material.terms) => Verdict::AlreadyBest,
        () if gain.value >= 0.0 => Verdict::AlreadyBest,
        () if !gain.is_below_zero() => Verdict::NotSignificant,
        () if gain.value > -LEAST_GAIN => Verdict::TooSmall,
        () => Verdict::Change,
    }
}
