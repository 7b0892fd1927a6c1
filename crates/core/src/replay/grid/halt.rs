//! Possible results of a halt, worked out once for all lanes.
//!
//! The wake-up latency of a lane depends on how long it sleeps, the gap less its window, and that only
//! by class. From the longest to the shortest sleep that any window leaves, a halt has few classes: a
//! lane starts with the latency of the longest and takes the next one for each class end that its
//! sleep does not exceed. The last step is a halt that does not sleep: one no longer than the
//! [overrun](super::super::overrun), with a latency of 0.
//!
//! Times are taken off what all lanes have in common until they fit in 32 bits: from a gap that
//! exceeds every window by far, only its distance to the class ends matters.

use super::super::arrivals::{ALL_OF_IT, Follow};
use super::super::latency::{CLASSES, Table, class_end, class_of};
use super::super::sample::Sample;
use super::group::LONGEST;
use crate::kvm::Rule;

/// The longest gap in a vector. A latency can be added and a window taken off without overflow.
const LONGEST_GAP: u64 = 1 << 30;

/// Sums are emptied before they reach this.
const FULL: u64 = 1 << 31;

/// Which of the steps a halt takes, see [`super::kernel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// The wake event was there when it began.
    #[default]
    Zero,
    /// Anything else, but for the next.
    Plain,
    /// An invalid wake-up that ends a poll in some lane, a gap that follows in part, or one that may be
    /// no longer than the overrun, which depends on whether a lane polls.
    Odd,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Prepared {
    pub(super) kind: Kind,
    /// Whether the last halt's latency comes off the gap.
    pub(super) due: bool,
    /// Whether sums must be emptied first.
    pub(super) empties: bool,
    pub(super) invalid: bool,
    /// The gap; where it is due, the gap after a halt without latency.
    pub(super) gap: i32,
    /// No lane's gap is shorter.
    pub(super) shortest: i32,
    /// By how much a gap that follows is longer than recorded after a halt without latency.
    pub(super) most: i32,
    pub(super) share: f64,
    /// The last halt's latency as recorded.
    pub(super) recorded: i32,
    /// How long after its window a lane does not sleep, where it polls and where it does not.
    pub(super) overrun: i32,
    pub(super) unpolled: i32,
    /// Where polling was cut; [`LONGEST`] where it was not.
    pub(super) cut: i32,
    pub(super) top: i32,
    pub(super) steps: usize,
    /// The longest sleep of each step, falling; [`i32::MIN`] where there is no step.
    pub(super) ends: [i32; CLASSES],
    pub(super) latencies: [i32; CLASSES],
}

#[derive(Debug, Clone, Default)]
pub(super) struct Ahead {
    /// The longest window of any lane, in nanoseconds; no ceiling is above it.
    longest: u32,
    pub(super) halts: u64,
    /// Gaps of all of them, before lanes' [shares](super::group::LaneSums::shorter) come off.
    pub(super) gaps_ns: u64,
    turn: u64,
    /// Latency of the last halt as recorded.
    recorded_ns: u64,
    /// The longest latency that the last halt had in any lane.
    last_ns: u64,
    /// The last halt was not played by vectors.
    apart: bool,
    /// Upper bound of a lane's sum.
    filled: u64,
}

impl Ahead {
    /// Before the first halt of lanes with windows up to this, in nanoseconds.
    pub(super) fn new(longest: u32) -> Self {
        Self {
            longest,
            ..Self::default()
        }
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    /// The latency of the last halt as recorded, in nanoseconds.
    pub(super) fn recorded_ns(&self) -> u64 {
        self.recorded_ns
    }

    /// Whether vectors have played the last halt.
    pub(super) fn is_last_known(&self) -> bool {
        !self.apart
    }

    /// Notes a halt that vectors did not play.
    pub(super) fn went_apart(&mut self, sample: &Sample) {
        self.turn += 1;
        self.recorded_ns = sample.latency_ns;
        self.apart = true;
    }

    /// Prepares the next halt. `None` if vectors do not cover it: play it apart. What was in `prepared` is
    /// of no account, and saves the time to clear it.
    pub(super) fn prepare(
        &mut self,
        rule: Rule,
        sample: &Sample,
        table: &Table,
        follow: &Follow,
        prepared: &mut Prepared,
    ) -> Option<()> {
        let share = follow.share_milli(sample.wake);
        let due = share > 0;
        if due && (self.apart || self.recorded_ns > u64::from(LONGEST)) {
            return None;
        }
        // Latency can only take away from what there is without.
        let most_ns = if due {
            self.recorded_ns * u64::from(share) / u64::from(ALL_OF_IT)
        } else {
            0
        };
        let gap_ns = sample.gap_ns.checked_add(most_ns)?;
        let shortest_ns = if due {
            // One more for what parts of a nanosecond may come to.
            gap_ns.saturating_sub(self.last_ns + 1)
        } else {
            gap_ns
        };
        let off_ns = gap_ns.saturating_sub(LONGEST_GAP);
        prepared.kind = Kind::Plain;
        prepared.due = due;
        prepared.invalid = rule.invalid_wakeups && !sample.is_valid();
        prepared.gap = narrow(gap_ns - off_ns);
        prepared.shortest = narrow(shortest_ns.saturating_sub(off_ns));
        prepared.most = narrow(most_ns);
        prepared.share = f64::from(share);
        prepared.recorded = if due { narrow(self.recorded_ns) } else { 0 };
        let overrun = sample.overrun(table);
        let overrun_ns = u64::from(overrun.polling_ns);
        prepared.overrun = narrow(overrun_ns);
        prepared.unpolled = narrow(overrun.unpolled_ns.into());
        prepared.cut = narrow(sample.cut_ns().min(u64::from(LONGEST)));
        prepared.steps = 0;
        prepared.ends = [i32::MIN; CLASSES];
        if gap_ns == 0 && !prepared.invalid {
            prepared.kind = Kind::Zero;
            self.book(sample, prepared, 0, 0);
            return Some(());
        }
        let longest_ns = u64::from(self.longest);
        let follows_in_part = due && share != ALL_OF_IT;
        let ends_poll = shortest_ns <= longest_ns + overrun_ns;
        let in_overrun = overrun_ns > 0 && shortest_ns <= overrun_ns;
        if follows_in_part || in_overrun || (prepared.invalid && ends_poll) {
            prepared.kind = Kind::Odd;
        }
        let mut steps = Steps {
            sample,
            table,
            turn: self.turn,
            off_ns,
            // Lanes without a window may sleep in it.
            met_ns: if in_overrun { 0 } else { overrun_ns },
            highest_ns: 0,
        };
        let polled_ns = longest_ns.min(sample.cut_ns());
        steps.put(prepared, gap_ns, shortest_ns, polled_ns)?;
        let highest_ns = steps.highest_ns;
        self.book(sample, prepared, gap_ns, highest_ns);
        Some(())
    }

    fn book(&mut self, sample: &Sample, prepared: &mut Prepared, gap_ns: u64, highest_ns: u64) {
        // The most that this halt can add to any sum; 1 where only counts move.
        let overrun_ns = u64::from(prepared.overrun.unsigned_abs());
        let polls_ns = u64::from(self.longest) + overrun_ns;
        let adds = highest_ns.max(polls_ns).max(self.last_ns) + 1;
        self.filled += adds;
        prepared.empties = self.filled >= FULL;
        if prepared.empties {
            self.filled = adds;
        }
        self.halts += 1;
        self.gaps_ns = self.gaps_ns.wrapping_add(gap_ns);
        self.turn += 1;
        self.recorded_ns = sample.latency_ns;
        self.last_ns = highest_ns;
        self.apart = false;
    }
}

/// The way from the longest sleep to the shortest.
struct Steps<'a> {
    sample: &'a Sample,
    table: &'a Table,
    turn: u64,
    off_ns: u64,
    /// No sleep is as short.
    met_ns: u64,
    highest_ns: u64,
}

impl Steps<'_> {
    /// Puts down a step for each class that a gap from `shortest_ns` to `gap_ns` can sleep in after a
    /// poll of up to `polled_ns`. `None` if a latency is too long for vectors.
    fn put(
        &mut self,
        prepared: &mut Prepared,
        gap_ns: u64,
        shortest_ns: u64,
        polled_ns: u64,
    ) -> Option<()> {
        let met_ns = self.met_ns;
        let lowest = class_of(shortest_ns.saturating_sub(polled_ns).max(met_ns + 1));
        let highest = class_of(gap_ns.max(met_ns + 1));
        let own = self.sample.slept_class();
        let mut last = self.latency(highest)?;
        prepared.top = last;
        let mut step = |end, latency| {
            prepared.ends[prepared.steps] = end;
            prepared.latencies[prepared.steps] = latency;
            prepared.steps += 1;
        };
        let mut classes = self.table.differing(lowest..highest, own);
        while let Some(class) = classes.checked_ilog2() {
            classes ^= 1 << class;
            let class = class as usize;
            let latency = self.latency(class)?;
            if latency != last {
                // Below 2^30: the class ends below the gap.
                let end_ns = class_end(class).checked_sub(self.off_ns);
                step(end_ns.map_or(i32::MIN, narrow), latency);
                last = latency;
            }
        }
        if shortest_ns <= polled_ns + met_ns {
            step(narrow(met_ns), 0);
        }
        Some(())
    }

    fn latency(&mut self, class: usize) -> Option<i32> {
        let (latency_ns, _) = super::super::run::latency(class, self.sample, self.table, self.turn);
        if latency_ns > u64::from(LONGEST) {
            return None;
        }
        self.highest_ns = self.highest_ns.max(latency_ns);
        Some(narrow(latency_ns))
    }
}

fn narrow(ns: u64) -> i32 {
    i32::try_from(ns).unwrap_or(i32::MAX)
}
