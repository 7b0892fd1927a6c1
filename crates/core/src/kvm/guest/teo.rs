//! cpuidle's governor `teo` between two states, `drivers/cpuidle/governors/teo.c`.
//!
//! It counts how often a CPU woke before its next timer and too soon for HLT (`intercepts` of the first bin), and how
//! often otherwise (`teo_update`); all counts fade by an eighth with each period. `POLL` is chosen where intercepts are the
//! majority, or where the timer is due sooner than HLT asks for (`teo_select`). With the driver haltpoll too soon is less
//! than a microsecond, so that it nearly always chooses HLT.
//!
//! Differences between kernels, as far as two states can tell (as posted; the versions of the first two are inferred):
//! * Before 5.14 it counted by other classes: not here.
//! * Up to 6.2 five early wakes among the last nine are enough.
//! * 6.3 to 6.10 choose HLT on a CPU that is used for more than a 64th of its time (`teo_cpu_is_utilized`). A capture
//!   does not tell that; it is taken for so.
//! * 6.11 and later ask for the timer only if less than half of the last periods were shorter than 15 us.
//!
//! Left out: that the tick woke the CPU, of which a capture does not tell; it counts as another wake. Newer kernels count
//! differently what lasts long enough for HLT, which decides between three states, not between these two.

use super::State;
use super::cpuidle::{Driver, Ended, Governor, SHORT_NS, since};
use crate::kvm::version::Version;

/// By how much a metric grows: `PULSE`, and fades: `DECAY_SHIFT`.
const PULSE: u32 = 1_024;
const DECAY_SHIFT: u32 = 3;
/// Remembered periods of the older rule: `NR_RECENT`.
const NR_RECENT: usize = 9;
/// No timer: `KTIME_MAX`.
const NEVER_NS: u64 = i64::MAX as u64;

/// The governor of an era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// 5.14 to 6.2.
    Recent,
    /// 6.3 to 6.10.
    Utilized,
    /// 6.11 and later.
    Short,
}

impl Rule {
    /// The governor of an upstream kernel; `None` where it counts by other classes, or does not exist.
    pub fn of(version: Version) -> Option<Self> {
        since(version, 5, 14).then(|| match () {
            () if since(version, 6, 11) => Self::Short,
            () if since(version, 6, 3) => Self::Utilized,
            () => Self::Recent,
        })
    }
}

/// The governor of one CPU: `struct teo_cpu`. Of the first bin, whose periods are too short for HLT, intercepts and
/// hits are kept apart; of the second their sum is enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Teo {
    rule: Rule,
    driver: Driver,
    sleep_length_ns: u64,
    intercepts: u32,
    hits: u32,
    second: u32,
    short: u32,
    /// Which of the last periods were intercepts of the first bin.
    recent: [bool; NR_RECENT],
    at: usize,
}

impl Teo {
    /// As `teo_enable_device` leaves it.
    pub fn new(rule: Rule, driver: Driver) -> Self {
        Self {
            rule,
            driver,
            sleep_length_ns: NEVER_NS,
            intercepts: 0,
            hits: 0,
            second: 0,
            short: 0,
            recent: [false; NR_RECENT],
            at: 0,
        }
    }

    fn total(&self) -> u32 {
        self.intercepts + self.hits + self.second
    }

    fn is_often_early(&self) -> bool {
        let recent = self.recent.iter().filter(|&&early| early).count();
        let by_recent = self.rule == Rule::Recent && recent > NR_RECENT / 2;
        by_recent || 2 * self.intercepts > self.total() - self.hits
    }

    /// How long a state lasted, without half of what it takes to leave.
    fn measured_ns(&self, ended: &Ended) -> u64 {
        let latency_ns = self.driver.latency_ns(ended.state);
        let by_timer = self.rule == Rule::Recent && ended.residency_ns >= self.sleep_length_ns;
        match ended.residency_ns {
            _ if ended.timed_out || by_timer => NEVER_NS,
            ns if ns >= latency_ns => ns - latency_ns / 2,
            ns => ns / 2,
        }
    }

    /// `teo_decay`; the older rule leaves the last seven.
    fn fade(&self, metric: u32) -> u32 {
        match metric >> DECAY_SHIFT {
            0 if self.rule == Rule::Short => 0,
            delta => metric - delta,
        }
    }
}

impl Governor for Teo {
    fn select(&mut self, timer_ns: Option<u64>) -> State {
        let target_ns = self.driver.target_residency_ns;
        let early = self.is_often_early();
        let skips_timer = self.rule == Rule::Short
            && (early || target_ns < SHORT_NS)
            && 2 * self.short >= self.total();
        self.sleep_length_ns = timer_ns.filter(|_| !skips_timer).unwrap_or(NEVER_NS);
        let is_due = self.sleep_length_ns < target_ns;
        if is_due || (early && self.rule != Rule::Utilized) {
            State::Poll
        } else {
            State::Halt
        }
    }

    fn reflect(&mut self, ended: &Ended) {
        let measured_ns = self.measured_ns(ended);
        let target_ns = self.driver.target_residency_ns;
        (self.intercepts, self.hits) = (self.fade(self.intercepts), self.fade(self.hits));
        (self.second, self.short) = (self.fade(self.second), self.fade(self.short));
        if measured_ns < SHORT_NS {
            self.short += PULSE;
        }
        let by_timer = target_ns > self.sleep_length_ns;
        let early = !by_timer && measured_ns < target_ns;
        match () {
            () if by_timer => self.hits += PULSE,
            () if early => self.intercepts += PULSE,
            () => self.second += PULSE,
        }
        self.recent[self.at] = early;
        self.at = (self.at + 1) % NR_RECENT;
    }
}

#[cfg(test)]
mod test;
