//! One policy on the halts of one vCPU.

use super::arrivals::Follow;
use super::cost::Cost;
use super::latency::{Origin, Table, class_end, class_of};
use super::outcome::Outcome;
use super::overrun::Overrun;
use super::sample::Sample;
use crate::event::WakeSource;
use crate::policy::{Policy, Seen, Side};
use crate::stats::Fold;

/// Inputs that do not change from halt to halt.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Wake-up latencies of this vCPU.
    pub table: &'a Table,
    pub cost: Cost,
    /// How far waking earlier makes its next gap longer.
    pub follow: Follow,
}

/// A policy on its way through the halts of a vCPU.
#[derive(Debug)]
pub struct Run {
    policy: Box<dyn Policy>,
    outcome: Outcome,
    turn: u64,
    /// How much sooner than recorded the last halt ended, in nanoseconds; negative if later.
    ahead_ns: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Played {
    pub(super) poll_ns: u64,
    pub(super) latency_ns: u64,
    pub(super) waited: bool,
    pub(super) guessed: bool,
    pub(super) origin: Origin,
}

struct Step {
    gap_ns: u64,
    window_ns: u64,
    played: Played,
    least_milli: u128,
}

impl Run {
    pub fn new(policy: Box<dyn Policy>) -> Self {
        Self {
            policy,
            outcome: Outcome::default(),
            turn: 0,
            ahead_ns: 0,
        }
    }

    /// Totals of the halts so far.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Totals of the halts so far, or since the last call; the count restarts, the policy continues.
    pub fn take(&mut self) -> Outcome {
        std::mem::take(&mut self.outcome)
    }

    /// Totals of all halts, which were seen over `span_ns` as recorded.
    pub fn finish(self, span_ns: u64, recorded_halt_ns: u64) -> Outcome {
        self.outcome.over(span_ns, recorded_halt_ns)
    }

    /// Plays one halt; gives the window that it had, in nanoseconds.
    pub fn step(&mut self, sample: &Sample, frame: &Frame<'_>) -> u64 {
        self.step_beside(sample, frame, Some(&mut LeastCost::default()))
    }

    /// Whether the policy needs knowledge of the future, and so a [`LeastCost`].
    pub fn sees_the_future(&self) -> bool {
        self.policy.sees_the_future()
    }

    /// Plays one halt beside others on the same halt of the same vCPU; gives the window that it had,
    /// in nanoseconds. They share a `least_cost`, which is a new one for each halt; without one the least that
    /// the halt can cost is not computed, and [`Outcome::clairvoyant_milli`] does not grow.
    pub fn step_beside(
        &mut self,
        sample: &Sample,
        frame: &Frame<'_>,
        least_cost: Option<&mut LeastCost>,
    ) -> u64 {
        let went = self.go(sample, frame, least_cost);
        let least = &mut self.outcome.clairvoyant_milli;
        *least = least.saturating_add(went.least_milli);
        let assumed = frame.follow.is_assumed(sample.wake);
        self.outcome.doubts.arrival_assumed += u64::from(assumed);
        self.book(sample, went.gap_ns, went.window_ns, went.played);
        went.window_ns
    }

    /// The same for a halt whose result no caller needs: the policy goes on, nothing is counted.
    pub fn pass_beside(
        &mut self,
        sample: &Sample,
        frame: &Frame<'_>,
        least_cost: Option<&mut LeastCost>,
    ) {
        self.go(sample, frame, least_cost);
    }

    /// Leaves so many halts out: the policy learns nothing of them, and the next one follows as recorded.
    pub fn skip(&mut self, halts: u64) {
        self.turn += halts;
        self.ahead_ns = 0;
    }

    #[inline]
    fn go(
        &mut self,
        sample: &Sample,
        frame: &Frame<'_>,
        least_cost: Option<&mut LeastCost>,
    ) -> Step {
        let turn = self.turn;
        self.turn += 1;
        let follow = &frame.follow;
        let gap_ns = follow.gap_ns(sample.gap_ns, sample.wake, self.ahead_ns);
        let least = least_cost
            .map(|least_cost| least_cost.at(gap_ns, || least(gap_ns, sample, frame, turn)));
        let best_ns = least.map(|least| least.window_ns);
        let (window_ns, overrun) = match self.policy.side() {
            Side::Host => (
                self.policy.window(best_ns).min(sample.cut_ns()),
                sample.overrun(frame.table),
            ),
            // KVM does not end it: it is guest code, and the scheduler shares the CPU. What does not poll halts in
            // the host at once.
            Side::Guest => (
                self.policy.window(best_ns),
                Overrun {
                    polling_ns: 0,
                    ..sample.overrun(frame.table)
                },
            ),
        };
        let window = Window::new(window_ns, overrun);
        let mut played = play(gap_ns, window, sample, frame.table, turn);
        if let Some(own_ns) = self.policy.sleeps_in_guest().filter(|_| !played.waited) {
            played.latency_ns = own_ns;
        }
        let halt_ns = gap_ns.saturating_add(played.latency_ns);
        self.policy.learn(&Seen {
            halt_ns,
            poll_ns: played.poll_ns,
            wake_latency_ns: played.latency_ns,
            waited: played.waited,
            valid: sample.is_valid(),
        });
        self.ahead_ns = difference(sample.latency_ns, played.latency_ns);
        Step {
            gap_ns,
            window_ns,
            played,
            least_milli: least.map_or(0, |least| least.milli),
        }
    }

    fn book(&mut self, sample: &Sample, gap_ns: u64, window_ns: u64, played: Played) {
        let success = window_ns > 0 && !played.waited;
        let is_guests = self.policy.side() == Side::Guest;
        let in_guest = success && is_guests;
        let polls = self.policy.sleeps_in_guest().is_none();
        let outcome = &mut self.outcome;
        outcome.halts += 1;
        outcome.polls += u64::from(polls && window_ns > 0);
        outcome.successful_polls += u64::from(polls && success);
        outcome.hlt_exits += u64::from(!in_guest);
        outcome.timer_exits += u64::from(in_guest && sample.wake == WakeSource::Timer);
        let is_ipi = sample.wake == WakeSource::Ipi;
        outcome.ipis += u64::from(!in_guest && is_ipi);
        outcome.ipis_spared += u64::from(in_guest && is_ipi);
        outcome.contended_polls += u64::from(is_guests && sample.cut_ns() < played.poll_ns);
        outcome.poll_ns.fold(&played.poll_ns);
        outcome
            .halt_ns
            .fold(&gap_ns.saturating_add(played.latency_ns));
        outcome.latency_ns.fold(&played.latency_ns);
        outcome.latency.record(played.latency_ns);
        if played.waited {
            outcome.blocks += 1;
            outcome.poll_fail_ns.fold(&played.poll_ns);
            outcome
                .sleep_ns
                .fold(&gap_ns.saturating_sub(played.poll_ns));
        } else if !polls {
            outcome.sleep_ns.fold(&gap_ns);
        }
        let doubts = &mut outcome.doubts;
        doubts.poll_cut += u64::from(!is_guests && sample.cut_ns() != u64::MAX);
        doubts.wake_unknown += u64::from(sample.wake == WakeSource::Unknown);
        doubts.gap_guessed += u64::from(sample.is_gap_guessed());
        doubts.latency_guessed += u64::from(played.guessed);
        let is_thin = played.origin == Origin::Few && !played.guessed;
        doubts.latency_thin += u64::from(is_thin);
        doubts.latency_calibrated += u64::from(played.origin == Origin::Calibrated);
    }
}

/// How much sooner than recorded a halt ends that wakes after `played_ns`.
pub(super) fn difference(recorded_ns: u64, played_ns: u64) -> i64 {
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    signed(recorded_ns) - signed(played_ns)
}

/// How long a halt may poll, and how long after that it does not sleep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    ns: u64,
    overrun_ns: u64,
}

impl Window {
    pub(super) fn new(ns: u64, overrun: Overrun) -> Self {
        Self {
            ns,
            overrun_ns: overrun.of_window_ns(ns),
        }
    }

    fn meets(self, gap_ns: u64) -> bool {
        gap_ns.saturating_sub(self.ns) <= self.overrun_ns
    }
}

pub(super) fn play(
    gap_ns: u64,
    window: Window,
    sample: &Sample,
    table: &Table,
    turn: u64,
) -> Played {
    let window_ns = window.ns;
    if window.meets(gap_ns) {
        return Played {
            poll_ns: if window_ns > 0 { gap_ns } else { 0 },
            latency_ns: 0,
            waited: false,
            guessed: false,
            origin: Origin::Recorded,
        };
    }
    let class = class_of(gap_ns - window_ns);
    let is_own = sample.slept_class() == class;
    let (latency_ns, guessed) = latency(class, sample, table, turn);
    Played {
        poll_ns: window_ns,
        latency_ns,
        waited: true,
        guessed,
        origin: if is_own {
            Origin::Recorded
        } else {
            table.origin(class)
        },
    }
}

/// Its own latency where it slept about as long, else the one whose turn it is.
pub(super) fn latency(class: usize, sample: &Sample, table: &Table, turn: u64) -> (u64, bool) {
    if sample.slept_class() == class {
        (sample.latency_ns, false)
    } else {
        table.at(class, turn)
    }
}

/// The least that a halt can cost, kept for those that play it with the same gap.
#[derive(Debug, Default)]
pub struct LeastCost {
    known: Option<(u64, Least)>,
}

impl LeastCost {
    fn at(&mut self, gap_ns: u64, least: impl FnOnce() -> Least) -> Least {
        match self.known {
            Some((known_ns, known)) if known_ns == gap_ns => known,
            _ => self.known.insert((gap_ns, least())).1,
        }
    }
}

/// The window of the host that costs least for this very halt, and the least cost of all.
#[derive(Debug, Clone, Copy)]
struct Least {
    window_ns: u64,
    milli: u128,
}

/// Looks through all that could be done: poll to the end, not at all, or (where shorter sleeps wake
/// faster) just long enough to sleep in a shorter class. A poll in the guest that meets the wake spares
/// exits, and no other task ends it: the least is of either side.
fn least(gap_ns: u64, sample: &Sample, frame: &Frame<'_>, turn: u64) -> Least {
    let cost = frame.cost;
    let is = |wake| u64::from(sample.wake == wake);
    let polled_milli = cost.milli(gap_ns, 0, 0);
    let halted_milli = cost.exits_milli(1, is(WakeSource::Ipi));
    let mut best = Least {
        window_ns: gap_ns,
        milli: polled_milli,
    };
    let mut uncut_milli = polled_milli;
    let overrun = sample.overrun(frame.table);
    if Window::new(0, overrun).meets(gap_ns) {
        best = Least {
            window_ns: 0,
            milli: 0,
        };
    }
    let overrun_ns = u64::from(overrun.polling_ns);
    let longest = class_of(gap_ns);
    for class in (0..=longest).rev() {
        let window_ns = gap_ns.saturating_sub(class_end(class));
        let polled = window_ns.min(sample.cut_ns());
        if gap_ns == 0 || cost.milli(window_ns, 1, 0) >= best.milli {
            break;
        }
        let of = |polled: u64| {
            let (latency_ns, _) = latency(class_of(gap_ns - polled), sample, frame.table, turn);
            cost.milli(polled, 1, latency_ns)
        };
        if window_ns > 0 && class_end(class) <= overrun_ns {
            // So short a sleep is none after a poll of the host; a guest can sleep so.
            uncut_milli = uncut_milli.min(of(window_ns));
            continue;
        }
        let milli = of(polled);
        if milli < best.milli {
            best = Least { window_ns, milli };
        }
        if polled < window_ns {
            uncut_milli = uncut_milli.min(of(window_ns));
        }
    }
    let halted = best.milli.min(uncut_milli).saturating_add(halted_milli);
    let met = polled_milli.saturating_add(cost.exits_milli(is(WakeSource::Timer), 0));
    best.milli = halted.min(met);
    best
}
