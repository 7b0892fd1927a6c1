//! The time in which halts happened, and what share of it polling took.

use crate::replay::{Cost, Sums};

/// The time in which halts happened, which is longer or shorter under another setting: a vCPU that wakes
/// sooner goes on sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Wall {
    /// As recorded, in nanoseconds.
    pub span_ns: u64,
    /// Whole halts as recorded, of all vCPUs.
    pub halt_ns: u64,
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
