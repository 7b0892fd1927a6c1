//! Totals of halts under one setting, as far as the cost depends on them: whole numbers that add up in any order.

use super::cost::{Cost, MILLI};
use super::outcome::Outcome;
use crate::stats::{Fold, folded};

/// Sums over halts, by the names of [`Outcome`]. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct Sums {
    pub halts: u64,
    /// Halts that slept: two context switches each.
    pub blocks: u64,
    /// Those of them that had polled.
    pub failed_polls: u64,
    pub poll_ns: u64,
    pub latency_ns: u64,
    pub halt_ns: u64,
    /// Part of `latency_ns`: the latency of VMs with a goal of their own.
    pub apart_ns: u64,
    /// Worth of `apart_ns` by the goals of these VMs, in nanoseconds of CPU.
    pub worth_ns: u64,
    /// Exits that have a price: on HLT, and of timers that end a poll in the guest. 0 where only settings of the
    /// host are compared, since each halt exits once under all of them.
    pub exits: u64,
    /// IPIs between vCPUs of one guest, in the same way.
    pub ipis: u64,
}

/// A sum ends at the largest number, since tables may come from anywhere.
impl Fold for Sums {
    #[inline]
    fn fold(&mut self, other: &Self) {
        *self = self.with(other, u64::saturating_add);
    }
}

impl Sums {
    /// Sums of a replay of one policy, without exits and IPIs.
    pub fn of(outcome: &Outcome) -> Self {
        Self {
            halts: outcome.halts,
            blocks: outcome.blocks,
            failed_polls: outcome.polls - outcome.successful_polls,
            poll_ns: outcome.poll_ns,
            latency_ns: outcome.latency_ns,
            halt_ns: outcome.halt_ns,
            ..Self::default()
        }
    }

    /// The same with its exits and IPIs, for comparisons with a guest that polls.
    pub fn with_exits_of(outcome: &Outcome) -> Self {
        Self {
            exits: outcome.exits(),
            ipis: outcome.ipis,
            ..Self::of(outcome)
        }
    }

    #[inline]
    pub(super) fn with(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            halts: of(self.halts, other.halts),
            blocks: of(self.blocks, other.blocks),
            failed_polls: of(self.failed_polls, other.failed_polls),
            poll_ns: of(self.poll_ns, other.poll_ns),
            latency_ns: of(self.latency_ns, other.latency_ns),
            halt_ns: of(self.halt_ns, other.halt_ns),
            apart_ns: of(self.apart_ns, other.apart_ns),
            worth_ns: of(self.worth_ns, other.worth_ns),
            exits: of(self.exits, other.exits),
            ipis: of(self.ipis, other.ipis),
        }
    }

    /// The same of a VM to which latency is worth so many thousandths of CPU, whatever it is to others.
    #[must_use]
    pub fn weighed(self, weight_milli: Option<u64>) -> Self {
        let Some(weight_milli) = weight_milli else {
            return self;
        };
        let worth = u128::from(self.latency_ns) * u128::from(weight_milli) / u128::from(MILLI);
        Self {
            apart_ns: self.latency_ns,
            worth_ns: u64::try_from(worth).unwrap_or(u64::MAX),
            ..self
        }
    }

    pub(crate) fn scaled(sum: u64, milli: u64) -> u64 {
        let scaled = u128::from(sum) * u128::from(milli) / u128::from(MILLI);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// The same of so many thousandths as many halts.
    #[must_use]
    pub fn times(self, milli: u64) -> Self {
        if milli == MILLI {
            return self;
        }
        self.with(&self, |sum, _| Self::scaled(sum, milli))
    }

    pub(crate) fn add_parts(sums: &mut Vec<Self>, parts: &[Self]) {
        sums.resize(sums.len().max(parts.len()), Self::default());
        for (sum, part) in sums.iter_mut().zip(parts) {
            sum.fold(part);
        }
    }

    /// Sums that were added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    /// All of them together.
    pub fn total<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        folded(parts)
    }

    /// Cost of the halts, in thousandths of a nanosecond of CPU: `cost` weighs the latency of VMs without a goal of
    /// their own.
    pub fn milli(&self, cost: &Cost) -> u128 {
        let latency_ns = self.latency_ns.saturating_sub(self.apart_ns);
        let worth = u128::from(self.worth_ns) * u128::from(MILLI);
        let halts = cost.milli(self.poll_ns, self.blocks, latency_ns);
        let exits = cost.exits_milli(self.exits, self.ipis);
        halts.saturating_add(exits).saturating_add(worth)
    }

    /// CPU time of polling and switching, in nanoseconds.
    pub fn cpu_ns(&self, switch_cpu_ns: u64) -> u64 {
        let cost = Cost {
            switch_cpu_ns,
            ..Cost::FREE
        };
        let milli = cost.milli(self.poll_ns, self.blocks, 0) / u128::from(MILLI);
        u64::try_from(milli).unwrap_or(u64::MAX)
    }

    /// Average cost of a halt, in nanoseconds of CPU; 0 without halts.
    pub fn cost_per_halt_ns(&self, cost: &Cost) -> f64 {
        self.milli(cost) as f64 / 1e3 / self.halts.max(1) as f64
    }

    /// Mean wake-up latency, in nanoseconds; 0 for halts that did not sleep.
    pub fn latency_mean_ns(&self) -> f64 {
        self.latency_ns as f64 / self.halts.max(1) as f64
    }

    /// By how much less this costs than `other`, as a share of it; negative if it costs more.
    pub fn gain_on(&self, other: &Self, cost: &Cost) -> f64 {
        let (own, theirs) = (self.milli(cost) as f64, other.milli(cost) as f64);
        if theirs > 0.0 {
            1.0 - own / theirs
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_sum_ends_at_the_largest_number() {
        let most = Sums {
            halts: u64::MAX,
            ipis: 3,
            ..Sums::default()
        };
        let sum = Sums::total([&most, &most]);
        assert_eq!((sum.halts, sum.ipis), (u64::MAX, 6));
        assert_eq!(most.since(&sum), Sums::default());
    }
}
