//! How a time is cut into blocks.
//!
//! **How long a block is.** Halts of a vCPU hang together over milliseconds, loads over seconds, and
//! the longest such time is not known. So blocks are as long as the capture allows: a fixed number of them, a
//! second each in half a minute, two minutes each in an hour. Ten to thirty such batches are enough for
//! an interval that is hardly wider than it need be, and more make it too narrow where they hang together
//! (Schmeiser, "Batch Size Effects in the Analysis of Simulation Output", 1982). Dependence between blocks
//! is measured: see [`crate::stats::jackknife`].

pub const BLOCKS: u32 = 32;

/// A time, cut into blocks of equal length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    from_ns: u64,
    to_ns: u64,
    count: u32,
}

impl Cut {
    /// From one moment to another. `interval_ns` is over how long a recorder had counted before it told:
    /// a block is so long once or several times, or some would hold one interval more than others.
    /// 0 where each event was told.
    pub fn new(from_ns: u64, to_ns: u64, interval_ns: u64) -> Self {
        // A time has a length, also at the end of all times.
        let from_ns = from_ns.min(u64::MAX - 1);
        let to_ns = to_ns.max(from_ns + 1);
        let intervals = (to_ns - from_ns).checked_div(interval_ns);
        let count = intervals.map_or(u64::from(BLOCKS), |n| {
            n / n.div_ceil(u64::from(BLOCKS)).max(1)
        });
        Self {
            from_ns,
            to_ns,
            count: u32::try_from(count).unwrap_or(BLOCKS).clamp(1, BLOCKS),
        }
    }

    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Length of each, in nanoseconds; at least 1.
    pub fn block_ns(&self) -> u64 {
        ((self.to_ns - self.from_ns) / u64::from(self.count)).max(1)
    }

    /// The block of a moment. What lies outside, by the recorder's delay, is of the first or last.
    pub fn place(&self, time_ns: u64) -> usize {
        let into = time_ns.clamp(self.from_ns, self.to_ns) - self.from_ns;
        let all = u128::from(self.to_ns - self.from_ns);
        let place = u128::from(into) * u128::from(self.count) / all;
        usize::try_from(place)
            .unwrap_or(usize::MAX)
            .min(self.count() - 1)
    }
}
