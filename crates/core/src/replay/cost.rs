//! What polling, blocking and waiting are worth, in nanoseconds of CPU.
//!
//! One weight says what a nanosecond of wake-up latency is worth in nanoseconds of CPU: 0 counts CPU
//! alone (density), 1 weighs both the same (balanced), 10 pays much for latency.

/// The scale of [`Cost::latency_weight_milli`].
pub const MILLI: u64 = 1_000;

/// What a halt costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Cost {
    /// CPU time of one block and wake, in nanoseconds: two context switches and the wake-up's work.
    pub switch_cpu_ns: u64,
    /// The weight of latency (lambda) in thousandths: 1000 is one nanosecond of CPU for each of
    /// latency.
    pub latency_weight_milli: u64,
}

impl Cost {
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

    /// What one block costs that wakes after `latency_ns`, in nanoseconds: a poll that lasts as long
    /// breaks even with it.
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
        for (weight, break_even_ns) in [
            (0, 10_000),
            (1_000, 30_000),
            (10_000, 210_000),
            (500, 20_000),
        ] {
            let cost = Cost {
                switch_cpu_ns: 10_000,
                latency_weight_milli: weight,
            };
            assert_eq!(cost.break_even_ns(20_000), break_even_ns);
            assert_eq!(cost.milli(break_even_ns, 0, 0), cost.milli(0, 1, 20_000));
        }
    }

    #[test]
    fn sums_do_not_overflow() {
        let dear = Cost {
            switch_cpu_ns: u64::MAX,
            latency_weight_milli: u64::MAX,
        };
        assert_eq!(dear.break_even_ns(u64::MAX), u64::MAX);
    }
}
