//! Cost of polling in an account, the cost that polling spared, and the verdict that follows.
//!
//! A successful poll spares one sleep: two context switches and the wake-up latency. What that
//! latency would have been is not observed; the median of the sleeps of the same account stands for
//! it. What the switches would have cost in CPU is not in a capture, so the price given here is
//! the highest that it can be:
//!
//! ```text
//! price = CPU polled, successful or not / (successful polls x median wake-up latency)
//! ```
//!
//! Example: 100 polls, 80 of them successful at 10 us, 20 without success at 50 us, sleeps that wake in
//! 30 us: 1.8 ms of CPU for 2.4 ms of latency, a price of 0.75 ns per ns.

use serde::Serialize;

use super::PollBound;
use super::{Account, Ceiling};

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Worth {
    NoHalts,
    /// The halts do not say whether they polled.
    Unknown,
    NotPolling {
        /// Why, as far as the halts show.
        why: NotPolling,
        /// Share of the gaps that the largest ceiling would cover, where both are known.
        gaps_within: Option<f64>,
    },
    InVain {
        poll_ns: u64,
    },
    /// Polls happen and catch wakes.
    Polling {
        /// Share of all halts that a poll ended.
        caught: f64,
        /// CPU time polled for each halt that a poll ended, failed polls included.
        cost_ns: f64,
        /// Median wake-up latency of the sleeps, which such a halt was spared.
        spared_ns: Option<u64>,
        /// The first divided by the second.
        price: Option<f64>,
    },
}

/// Why hardly any halt polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotPolling {
    Off,
    /// The gaps are longer than the ceiling: there is little to catch.
    GapsTooLong,
    /// Gaps would fit under the ceiling, but whole halts, wake-up latency included, do not. KVM's
    /// rule judges whole halts, so the window never grows from 0.
    LockedOut,
    /// Neither: the window is 0 for another reason, or the guest switched polling off.
    Other,
}

/// Below this share of halts that poll, polling is as good as off.
const HARDLY: f64 = 0.01;

/// From this share of gaps under the ceiling, there is something to catch.
const SOMETHING: f64 = 0.2;

impl Worth {
    pub fn of(account: &Account) -> Self {
        if account.halts == 0 {
            return Self::NoHalts;
        }
        let bound = account.poll_bound();
        if account.poll_known.saturating_mul(2) < account.halts
            || matches!(bound, PollBound::AtLeast | PollBound::About)
        {
            return Self::Unknown;
        }
        if (account.polled as f64) < HARDLY * account.poll_known as f64 {
            return Self::not_polling(account);
        }
        let poll_ns = account.poll_ns().unwrap_or(0);
        if account.successful_polls == 0 {
            return Self::InVain { poll_ns };
        }
        let cost_ns = poll_ns as f64 / account.successful_polls as f64;
        let spared_ns = account.wake_latency_ns.percentile(0.5);
        Self::Polling {
            caught: account.successful_polls as f64 / account.poll_known as f64,
            cost_ns,
            spared_ns,
            price: spared_ns.filter(|ns| *ns > 0).map(|ns| cost_ns / ns as f64),
        }
    }

    pub(crate) fn is_locked_out(&self) -> bool {
        let why = NotPolling::LockedOut;
        matches!(self, Self::NotPolling { why: it, .. } if *it == why)
    }

    fn not_polling(account: &Account) -> Self {
        let Some(ceiling) = highest_ceiling(account) else {
            return Self::NotPolling {
                why: NotPolling::Other,
                gaps_within: None,
            };
        };
        let limit = u64::from(ceiling.ns);
        let gaps_within = account.gap_ns.share_up_to(limit);
        let halts_within = account.halt_ns.share_up_to(limit).unwrap_or(0.0);
        let why = match gaps_within {
            _ if ceiling.ns == 0 => NotPolling::Off,
            Some(gaps) if gaps < SOMETHING => NotPolling::GapsTooLong,
            Some(gaps) if halts_within < gaps / 2.0 => NotPolling::LockedOut,
            _ => NotPolling::Other,
        };
        Self::NotPolling { why, gaps_within }
    }
}

/// The highest ceiling that governed any halt.
pub fn highest_ceiling(account: &Account) -> Option<Ceiling> {
    account
        .ceilings
        .rows()
        .next_back()
        .map(|(ceiling, _)| *ceiling)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::event::Halt;

    type Row = (u64, Option<u64>, Option<u64>, u32, u32);

    fn account(halts: &[Row]) -> Account {
        let mut account = Account::default();
        for &(halt_ns, poll_ns, wake_latency_ns, window, ceiling) in halts {
            account.halt(&Halt {
                halt_ns,
                waited: wake_latency_ns.is_none_or(|l| l > 0),
                poll_ns,
                wake_latency_ns,
                window_ns: Some(window),
                ceiling_ns: Some(ceiling),
                ..Halt::default()
            });
        }
        account
    }

    #[test]
    fn the_example_above() {
        let mut halts = vec![(10_000, Some(10_000), Some(0), 50_000, 200_000); 80];
        halts.extend([(500_000, Some(50_000), Some(30_000), 50_000, 200_000); 20]);
        let Worth::Polling {
            caught,
            cost_ns,
            price: Some(price),
            ..
        } = Worth::of(&account(&halts))
        else {
            panic!("polls and catches");
        };
        assert!((caught - 0.8).abs() < 1e-9 && (cost_ns - 22_500.0).abs() < 1e-6);
        assert!((price - 0.75).abs() < 0.75 / 8.0, "{price}");
    }

    #[test]
    fn what_cannot_be_told_is_not_told() {
        assert_eq!(Worth::of(&Account::default()), Worth::NoHalts);
        let blind = account(&[(60_000, None, None, 0, 0)]);
        assert_eq!(Worth::of(&blind), Worth::Unknown);
        let vain = account(&[(60_000, Some(9_000), Some(1), 9_000, 50_000)]);
        assert_eq!(Worth::of(&vain), Worth::InVain { poll_ns: 9_000 });
    }
}
