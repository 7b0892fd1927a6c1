//! cpuidle's governor `menu` between two states, `drivers/cpuidle/governors/menu.c`.
//!
//! It predicts how long the CPU will be idle ([`Governor::select`], `menu_select`): the time until the next timer, corrected
//! by how much of it earlier periods lasted (a factor for each power of ten, `which_bucket`), or the typical (`typical_us`)
//! length of the last eight, whichever is less. HLT is chosen unless that is less than HLT asks for. Both states of the
//! driver haltpoll lie within a microsecond, so that `POLL` is left for predictions of 0 us and timers due within 1 us.
//!
//! Differences between kernels, as far as two states can tell:
//! * 6.6 and later ask for the timer only if the typical length is more than 15 us, and forget periods of 0 us when they
//!   look for one (`get_typical_interval`).
//! * Before 6.12, and in newer kernels again, a prediction of 0 us chooses `POLL`: first since HLT's exit latency exceeds
//!   it (the bound that the number of tasks in iowait tightened), now by a comparison of its own. Between, only the timer
//!   does. 6.12 and 6.18 as bounds are inferred from dates of commits; stable kernels carry some of these changes.
//! * 6.15 and later (inferred) leave out outliers at both ends of the last eight; before, the longest alone.
//!
//! Left out: tasks in iowait, of which a capture does not tell, and latency limits (`PM_QOS`).

use super::State;
use super::cpuidle::{Driver, Ended, Governor, SHORT_NS, since};
use crate::kvm::version::Version;

const INTERVALS: usize = 8;
/// The unit of the factors: `RESOLUTION`, and how slowly they move: `DECAY`.
const RESOLUTION: u64 = 1_024;
const DECAY: u64 = 8;
/// Idle periods of this length count as predicted: `MAX_INTERESTING`.
const MAX_INTERESTING_NS: u64 = 50_000_000;
/// An unknown timer is this far away: more than a tick period, and a factor's resolution is fine enough for it.
const FAR_NS: u64 = 4_000_000;
/// No timer: `KTIME_MAX`.
const NEVER_NS: u64 = i64::MAX as u64;

/// The governor of an era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The timer is asked for only beyond 15 us.
    typical_first: bool,
    /// A prediction of less than HLT's exit latency chooses `POLL`.
    polls_when_short: bool,
    /// The shortest of the last eight may be an outlier, too.
    trims_both: bool,
}

impl Rule {
    /// The governor of an upstream kernel.
    pub fn of(version: Version) -> Self {
        Self {
            typical_first: since(version, 6, 6),
            polls_when_short: !since(version, 6, 12) || since(version, 6, 18),
            trims_both: since(version, 6, 15),
        }
    }
}

/// The governor of one CPU: `struct menu_device`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Menu {
    rule: Rule,
    driver: Driver,
    next_timer_ns: u64,
    bucket: usize,
    factors: [u64; 6],
    intervals: [u32; INTERVALS],
    at: usize,
}

impl Menu {
    /// As `menu_enable_device` leaves it.
    pub fn new(rule: Rule, driver: Driver) -> Self {
        Self {
            rule,
            driver,
            next_timer_ns: 0,
            bucket: 0,
            factors: [RESOLUTION * DECAY; 6],
            intervals: [0; INTERVALS],
            at: 0,
        }
    }

    /// How long the last periods lasted, in microseconds, if they were about alike: `get_typical_interval`.
    fn typical_us(&self) -> Option<u64> {
        let (mut least, mut most) = (None::<u32>, u32::MAX);
        loop {
            let is_kept = |us: &u32| *us < most && least.is_none_or(|least| *us > least);
            let kept: Vec<u32> = self.intervals.into_iter().filter(is_kept).collect();
            let count = kept.len() as u64;
            let (&low, &high) = (kept.iter().min()?, kept.iter().max()?);
            if high == 0 && self.rule.typical_first {
                return None;
            }
            let mean = kept.iter().map(|&us| u64::from(us)).sum::<u64>() / count;
            let square = |us: u32| u128::from(u64::from(us).abs_diff(mean)).pow(2);
            let variance = kept.iter().map(|&us| square(us)).sum::<u128>() / u128::from(count);
            let is_most = count * 4 >= INTERVALS as u64 * 3;
            if variance <= 400 || (u128::from(mean).pow(2) > variance * 36 && is_most) {
                return Some(mean);
            }
            if count * 4 <= INTERVALS as u64 * 3 {
                return None;
            }
            if self.rule.trims_both && mean - u64::from(low) > u64::from(high) - mean {
                least = Some(low);
            } else {
                most = high;
            }
        }
    }

    /// The time until the timer, in nanoseconds, corrected by how much of such times earlier periods lasted.
    fn corrected_us(&self) -> u64 {
        let scale = u128::from(RESOLUTION * DECAY * 1_000);
        let product = u128::from(self.next_timer_ns) * u128::from(self.factors[self.bucket]);
        u64::try_from((product + scale / 2) / scale).unwrap_or(u64::MAX)
    }
}

impl Governor for Menu {
    fn select(&mut self, timer_ns: Option<u64>) -> State {
        let typical_ns = self.typical_us().map_or(NEVER_NS, |us| us * 1_000);
        let mut predicted_ns = typical_ns;
        if self.rule.typical_first && typical_ns <= SHORT_NS {
            (self.next_timer_ns, self.bucket) = (NEVER_NS, bucket(NEVER_NS));
        } else {
            self.next_timer_ns = timer_ns.unwrap_or(FAR_NS);
            self.bucket = bucket(self.next_timer_ns);
            predicted_ns = typical_ns.min(self.corrected_us().saturating_mul(1_000));
        }
        let is_too_short = self.rule.polls_when_short && predicted_ns < self.driver.exit_latency_ns;
        if self.next_timer_ns < self.driver.target_residency_ns || is_too_short {
            State::Poll
        } else {
            State::Halt
        }
    }

    fn reflect(&mut self, ended: &Ended) {
        let latency_ns = self.driver.latency_ns(ended.state);
        let measured_ns = match ended.residency_ns {
            _ if ended.timed_out => self.next_timer_ns,
            ns if ns > 2 * latency_ns => ns - latency_ns,
            ns => ns / 2,
        };
        let measured_ns = measured_ns.min(self.next_timer_ns);
        let share = if self.next_timer_ns > 0 && measured_ns < MAX_INTERESTING_NS {
            RESOLUTION * measured_ns / self.next_timer_ns
        } else {
            RESOLUTION
        };
        let factor = &mut self.factors[self.bucket];
        *factor = *factor - *factor / DECAY + share;
        self.intervals[self.at] = u32::try_from(measured_ns / 1_000).unwrap_or(u32::MAX);
        self.at = (self.at + 1) % INTERVALS;
    }
}

/// The power of ten of a time: `which_bucket`, without tasks in iowait.
fn bucket(ns: u64) -> usize {
    const ENDS_NS: [u64; 5] = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    ENDS_NS.iter().position(|&end| ns < end).unwrap_or(5)
}

#[cfg(test)]
mod test;
