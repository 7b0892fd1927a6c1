//! Costs of polling, blocking and waiting, in nanoseconds of CPU.
//!
//! One weight says what a nanosecond of wake-up latency is worth in nanoseconds of CPU: 0 counts CPU
//! alone (density), 1 weighs both the same (balanced), 10 pays much for latency.
//!
//! An exit has a price of its own. Under every setting of a host each halt exits once, so there it decides
//! nothing; a guest that polls has fewer exits, and the wake of one that polls needs no IPI. Both prices are
//! 0 where they were neither measured nor given.

/// The scale of [`Cost::latency_weight_milli`].
pub const MILLI: u64 = 1_000;

crate::names! {
    /// The weights that have names.
    pub enum GoalName {
        /// Only CPU time counts.
        Density = "density",
        /// 1 ns of latency counts as 1 ns of CPU time.
        Balanced = "balanced",
        /// 1 ns of latency counts as 10 ns of CPU time.
        Latency = "latency",
    }
}

impl GoalName {
    /// Worth of latency, in thousandths of CPU.
    pub const fn weight_milli(self) -> u64 {
        match self {
            Self::Density => 0,
            Self::Balanced => MILLI,
            Self::Latency => 10 * MILLI,
        }
    }
}

/// CPU time of one block and wake is never assumed to be more than this, in nanoseconds. It is three times
/// the upper end of the worst class of the kept calibration (31.9 us after sleeps of 10 ms, with cold caches, in
/// a guest that is virtualised in software: measurements/2026-11-21-vm-calibrate): no hardware that runs KVM
/// needs that much for two task switches. A wake-up that takes longer waited for a CPU, which costs none.
pub const MOST_ASSUMED_NS: u64 = 100_000;

/// The share of a short sleep's wake-up latency that is CPU time of the vCPU's own. The same calibration found
/// 10.4 of 19.2 us.
const ASSUMED_SHARE: u64 = 2;

/// The least of it that was calibrated: 2.7 of 15 us, of a thread.
const LEAST_SHARE: u64 = 5;

/// CPU time of one block and wake where it was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assumed {
    pub switch_cpu_ns: u64,
    /// It would be more than [`MOST_ASSUMED_NS`], and is that.
    pub is_bounded: bool,
}

impl Assumed {
    /// How far it may be off, where the fastest and the median of the shortest sleeps take this to wake: calibrations had
    /// 18 to 54 % of it (docs/tuning.md), and no block takes longer than its wake-up.
    pub fn ends_ns(fastest_ns: u64, median_ns: u64) -> [u64; 2] {
        let high_ns = median_ns.min(MOST_ASSUMED_NS);
        [(fastest_ns / LEAST_SHARE).min(high_ns), high_ns]
    }

    /// Where the shortest sleeps take `shortest_ns` to wake.
    pub fn of_shortest_sleeps(shortest_ns: u64) -> Self {
        let half = shortest_ns / ASSUMED_SHARE;
        Self {
            switch_cpu_ns: half.min(MOST_ASSUMED_NS),
            is_bounded: half > MOST_ASSUMED_NS,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Cost {
    /// CPU time of one block and wake, in nanoseconds: two context switches and the wake-up's work.
    pub switch_cpu_ns: u64,
    /// The weight of latency (lambda) in thousandths: 1000 is one nanosecond of CPU for each of
    /// latency.
    pub latency_weight_milli: u64,
    /// CPU time of one exit on HLT and the entry after it, in nanoseconds, without polling and switching.
    pub exit_cpu_ns: u64,
    /// Cost of an IPI to the vCPU that sends the IPI: one exit, where the CPU does not deliver the IPI by itself.
    pub ipi_cpu_ns: u64,
}

impl Cost {
    /// Nothing costs anything: the base of those that are told in part.
    pub const FREE: Self = Self {
        switch_cpu_ns: 0,
        latency_weight_milli: 0,
        exit_cpu_ns: 0,
        ipi_cpu_ns: 0,
    };

    /// Cost of exits and IPIs, in thousandths of a nanosecond of CPU.
    pub fn exits_milli(&self, exits: u64, ipis: u64) -> u128 {
        let of = |count: u64, price_ns: u64| u128::from(count) * u128::from(price_ns);
        let sum = of(exits, self.exit_cpu_ns).saturating_add(of(ipis, self.ipi_cpu_ns));
        sum.saturating_mul(u128::from(MILLI))
    }

    /// A sum of poll time, blocks and latency, in thousandths of a nanosecond of CPU.
    pub fn milli(&self, poll_ns: u64, blocks: u64, latency_ns: u64) -> u128 {
        let cpu = u128::from(poll_ns) + u128::from(blocks) * u128::from(self.switch_cpu_ns);
        let latency = u128::from(latency_ns) * u128::from(self.latency_weight_milli);
        // One multiplication where 64 bits hold it, which is nearly always: a replay asks for each halt.
        let cpu = match u64::try_from(cpu) {
            Ok(cpu) => u128::from(cpu) * u128::from(MILLI),
            Err(_) => cpu.saturating_mul(u128::from(MILLI)),
        };
        cpu.saturating_add(latency)
    }

    /// CPU time of halts of `halt_ns` in all, in nanoseconds. A vCPU's thread polls and switches within the
    /// halt, so what is left of the halts when their polls are taken off is the most that switches took.
    pub fn cpu_ns(&self, poll_ns: u64, blocks: u64, halt_ns: u64) -> u64 {
        let switches = blocks.saturating_mul(self.switch_cpu_ns);
        poll_ns.saturating_add(switches).min(halt_ns)
    }

    /// Cost of one block that wakes after `latency_ns`, in nanoseconds: a poll that lasts as long
    /// breaks even with the block.
    pub fn break_even_ns(&self, latency_ns: u64) -> u64 {
        let milli = self.milli(0, 1, latency_ns) / u128::from(MILLI);
        u64::try_from(milli).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_poll_as_long_as_the_break_even_costs_what_the_block_does() {
        let break_evens_ns = [10_000, 20_000, 30_000, 210_000];
        for (latency_weight_milli, break_even_ns) in
            [0, 500, 1_000, 10_000].into_iter().zip(break_evens_ns)
        {
            let cost = Cost {
                switch_cpu_ns: 10_000,
                latency_weight_milli,
                ..Cost::FREE
            };
            assert_eq!(cost.break_even_ns(20_000), break_even_ns);
            assert_eq!(cost.milli(break_even_ns, 0, 0), cost.milli(0, 1, 20_000));
        }
    }

    #[test]
    fn what_is_assumed_is_what_hardware_can_need() {
        for (shortest_ns, switch_cpu_ns, is_bounded) in [
            (0, 0, false),
            (19_200, 9_600, false),
            (200_000, 100_000, false),
            (200_001, 100_000, false),
            (200_002, 100_000, true),
            (29_000_000, 100_000, true),
            (u64::MAX, 100_000, true),
        ] {
            let expected = Assumed {
                switch_cpu_ns,
                is_bounded,
            };
            assert_eq!(Assumed::of_shortest_sleeps(shortest_ns), expected);
        }
    }

    #[test]
    fn sums_do_not_overflow() {
        let dear = Cost {
            switch_cpu_ns: u64::MAX,
            latency_weight_milli: u64::MAX,
            exit_cpu_ns: u64::MAX,
            ipi_cpu_ns: u64::MAX,
        };
        assert_eq!(dear.break_even_ns(u64::MAX), u64::MAX);
        assert_eq!(dear.exits_milli(u64::MAX, u64::MAX), u128::MAX);
    }
}
