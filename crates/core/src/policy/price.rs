//! Wake-up latency of a sleep that nothing disturbs, learned from the sleeps of one vCPU.

use super::{Seen, Setting, Start};

/// A low expectile of the wake-up latency, in nanoseconds; 0 before the first sleep. Sleeps that wait behind other tasks wake
/// late, so a latency below the price moves it by a quarter of the difference, one above by a thirty-second. A latency
/// counts for [`Self::MOST`] at most: one sleep behind a task of a second adds no more than 11 us.
#[derive(Debug, PartialEq)]
pub(super) struct Price(u32);

impl Price {
    const LEAST: u32 = 1_000;
    const MOST: u32 = 350_000;

    /// Before the first sleep; of a vCPU that has run for long, half of what the replay takes a block to cost.
    pub(super) fn new(setting: &Setting) -> Self {
        match setting.start {
            Start::Zero => Self(0),
            Start::Ceiling => Self(Self::within(setting.break_even_ns >> 1)),
        }
    }

    /// Price of a block: the latency and two switches.
    pub(super) fn block_ns(&self) -> u32 {
        self.0 << 1
    }

    pub(super) fn learn(&mut self, seen: &Seen) {
        if !seen.waited {
            // Only sleeps correct a price, and a price that is too high has none: gaps that are longer than a block, but not
            // than this price, would be polled for ever.
            if seen.poll_ns > 0 && self.0 > Self::LEAST {
                self.0 -= (self.0 >> 14) + 1;
            }
            return;
        }
        if seen.wake_latency_ns == 0 {
            // Not known, as of a sleep that a signal ended.
            return;
        }
        let latency_ns = Self::within(seen.wake_latency_ns);
        self.0 = match self.0 {
            0 => latency_ns,
            price if latency_ns < price => price - ((price - latency_ns) >> 2),
            price => price + ((latency_ns - price) >> 5),
        };
    }

    fn within(latency_ns: u64) -> u32 {
        let latency_ns = u32::try_from(latency_ns).unwrap_or(Self::MOST);
        latency_ns.clamp(Self::LEAST, Self::MOST)
    }
}
