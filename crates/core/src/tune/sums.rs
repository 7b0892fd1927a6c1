//! What came of halts, as far as a choice between settings depends on it.

use crate::replay::cost::MILLI;
use crate::replay::grid::Tally;
use crate::replay::{Cost, Outcome};

/// Sums over halts. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Sums {
    pub halts: u64,
    /// Halts that slept.
    pub blocks: u64,
    pub poll_ns: u64,
    pub latency_ns: u64,
    pub halt_ns: u64,
    /// Of the latency, that of VMs with a goal of their own.
    pub apart_ns: u64,
    /// What that is worth by their goals, in nanoseconds of CPU.
    pub worth_ns: u64,
    /// Exits that have a price: on HLT, and of timers that end a poll in the guest. 0 where only settings of the
    /// host are compared, since each halt exits once under all of them.
    pub exits: u64,
    /// IPIs between vCPUs of one guest, in the same way.
    pub ipis: u64,
}

impl Sums {
    /// Of a replay under many settings.
    pub fn of_tally(tally: &Tally) -> Self {
        Self {
            halts: tally.halts,
            blocks: tally.blocks,
            poll_ns: tally.poll_ns,
            latency_ns: tally.latency_ns,
            halt_ns: tally.halt_ns,
            ..Self::default()
        }
    }

    /// Of a replay of one policy.
    pub fn of_outcome(outcome: &Outcome) -> Self {
        Self {
            halts: outcome.halts,
            blocks: outcome.blocks,
            poll_ns: outcome.poll_ns,
            latency_ns: outcome.latency_ns,
            halt_ns: outcome.halt_ns,
            ..Self::default()
        }
    }

    /// The same with its exits and IPIs, for whoever compares with a guest that polls.
    pub fn with_exits_of(outcome: &Outcome) -> Self {
        Self {
            exits: outcome.exits(),
            ipis: outcome.ipis,
            ..Self::of_outcome(outcome)
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

    pub(super) fn scaled(sum: u64, milli: u64) -> u64 {
        let scaled = u128::from(sum) * u128::from(milli) / u128::from(MILLI);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// The same of so many thousandths as many halts.
    #[must_use]
    pub fn times(self, milli: u64) -> Self {
        if milli == MILLI {
            return self;
        }
        let of = |sum| Self::scaled(sum, milli);
        Self {
            halts: of(self.halts),
            blocks: of(self.blocks),
            poll_ns: of(self.poll_ns),
            latency_ns: of(self.latency_ns),
            halt_ns: of(self.halt_ns),
            apart_ns: of(self.apart_ns),
            worth_ns: of(self.worth_ns),
            exits: of(self.exits),
            ipis: of(self.ipis),
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.halts += other.halts;
        self.blocks += other.blocks;
        self.poll_ns = self.poll_ns.saturating_add(other.poll_ns);
        self.latency_ns = self.latency_ns.saturating_add(other.latency_ns);
        self.halt_ns = self.halt_ns.saturating_add(other.halt_ns);
        self.apart_ns = self.apart_ns.saturating_add(other.apart_ns);
        self.worth_ns = self.worth_ns.saturating_add(other.worth_ns);
        self.exits += other.exits;
        self.ipis += other.ipis;
    }

    pub(super) fn add_parts(sums: &mut Vec<Self>, parts: &[Self]) {
        sums.resize(sums.len().max(parts.len()), Self::default());
        for (sum, part) in sums.iter_mut().zip(parts) {
            sum.add(part);
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            halts: self.halts - earlier.halts,
            blocks: self.blocks - earlier.blocks,
            poll_ns: self.poll_ns.saturating_sub(earlier.poll_ns),
            latency_ns: self.latency_ns.saturating_sub(earlier.latency_ns),
            halt_ns: self.halt_ns.saturating_sub(earlier.halt_ns),
            apart_ns: self.apart_ns.saturating_sub(earlier.apart_ns),
            worth_ns: self.worth_ns.saturating_sub(earlier.worth_ns),
            exits: self.exits - earlier.exits,
            ipis: self.ipis - earlier.ipis,
        }
    }

    /// All of them together.
    pub fn total<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut total = Self::default();
        for part in parts {
            total.add(part);
        }
        total
    }

    /// What they cost, in thousandths of a nanosecond of CPU: `cost` weighs the latency of VMs without a goal of
    /// their own.
    pub fn milli(&self, cost: &Cost) -> u128 {
        let latency_ns = self.latency_ns.saturating_sub(self.apart_ns);
        let worth = u128::from(self.worth_ns) * u128::from(MILLI);
        let halts = cost.milli(self.poll_ns, self.blocks, latency_ns);
        let exits = cost.exits_milli(self.exits, self.ipis);
        halts.saturating_add(exits).saturating_add(worth)
    }

    /// What a halt costs on average, in nanoseconds of CPU; 0 without halts.
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

/// The time in which halts happened, which is longer or shorter under another setting: whoever wakes
/// sooner goes on sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Wall {
    /// As recorded, in nanoseconds.
    pub span_ns: u64,
    /// Whole halts as recorded, of all vCPUs.
    pub halt_ns: u64,
    /// vCPUs.
    pub vcpus: u64,
}

impl Wall {
    /// The time that it takes under another setting, in nanoseconds: as long as the vCPUs' halts at least.
    pub fn under(&self, sums: &Sums) -> f64 {
        let vcpus = self.vcpus.max(1) as f64;
        let longer = sums.halt_ns as f64 - self.halt_ns as f64;
        let span = self.span_ns as f64 + longer / vcpus;
        span.max(sums.halt_ns as f64 / vcpus).max(1.0)
    }

    /// Polling in % of one CPU, of all vCPUs together; never more than 100 for each vCPU.
    pub fn poll_cpu_percent(&self, sums: &Sums) -> f64 {
        100.0 * sums.poll_ns.min(sums.halt_ns) as f64 / self.under(sums)
    }

    /// Polling and switching, in the same way.
    pub fn cpu_percent(&self, sums: &Sums, cost: &Cost) -> f64 {
        let cpu_ns = cost.cpu_ns(sums.poll_ns, sums.blocks, sums.halt_ns);
        100.0 * cpu_ns as f64 / self.under(sums)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    proptest::proptest! {
        /// No figure of CPU exceeds the vCPUs' time, whatever a block is said to cost.
        #[test]
        fn no_cpu_beyond_the_vcpus_time(
            times in proptest::array::uniform4(0..u64::MAX / 4),
            (blocks, vcpus) in (0..u64::MAX, 0_u64..1_000),
            switch_cpu_ns: u64,
        ) {
            let [poll_ns, halt_ns, recorded_ns, span_ns] = times;
            let sums = Sums { halts: blocks, blocks, poll_ns, halt_ns, ..Sums::default() };
            let cost = Cost { switch_cpu_ns, latency_weight_milli: 0, ..Cost::FREE };
            let wall = Wall { span_ns, halt_ns: recorded_ns, vcpus };
            let [polls, all] = [wall.poll_cpu_percent(&sums), wall.cpu_percent(&sums, &cost)];
            let most = 100.0 * vcpus.max(1) as f64 * (1.0 + 1e-9);
            proptest::prop_assert!(polls <= all && all <= most, "{polls} {all} {most}");
        }
    }
}
