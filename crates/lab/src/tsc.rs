//! From a guest's TSC to the host's monotonic clock, by two points at which both were read.
//!
//! A guest of ours sees the host's TSC plus an offset that KVM tells. Between two readings of both
//! clocks, before and after a run, the line through them says when a stamp was taken; the error is
//! that of the readings (half of what lies between two clock reads) and of what NTP bent in between.

use kvm_ioctls::VcpuFd;

use crate::{clock, ioctl};

/// The quickest of so many readings is kept: nothing came between its two clocks.
const TRIES: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub tsc: u64,
    pub ns: u64,
}

impl Moment {
    /// Reads both: the host's TSC plus KVM's offset. `None` where KVM does not tell it (before 5.16).
    pub fn now(vcpu: &VcpuFd) -> Option<Self> {
        let offset = ioctl::tsc_offset(vcpu).ok()?;
        let reading = |_| {
            let before = clock::now_ns();
            let tsc = ioctl::host_tsc().wrapping_add(offset);
            let took = clock::now_ns().saturating_sub(before);
            let ns = before + took / 2;
            (took, Self { tsc, ns })
        };
        let quickest = (0..TRIES).map(reading).min_by_key(|(took, _)| *took);
        quickest.map(|(_, moment)| moment)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TscClock {
    first: Moment,
    last: Moment,
}

impl TscClock {
    /// `None` if the clocks did not both advance.
    pub fn new(first: Moment, last: Moment) -> Option<Self> {
        (last.tsc > first.tsc && last.ns > first.ns).then_some(Self { first, last })
    }

    /// The monotonic time of a stamp; 0 for one that cannot be.
    pub fn ns(&self, tsc: u64) -> u64 {
        let ticks = i128::from(tsc) - i128::from(self.first.tsc);
        let ns = i128::from(self.last.ns - self.first.ns);
        let all = i128::from(self.last.tsc - self.first.tsc);
        let since_first = ticks.checked_mul(ns).map(|product| product / all);
        let ns = since_first.map(|since| i128::from(self.first.ns) + since);
        ns.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn stamps_lie_on_the_line() {
        let (first, last) = (
            Moment { tsc: 1_000, ns: 50 },
            Moment {
                tsc: 4_000,
                ns: 1_050,
            },
        );
        let line = TscClock::new(first, last).unwrap();
        for (tsc, ns) in [
            (1_000, 50),
            (2_500, 550),
            (4_000, 1_050),
            (7_000, 2_050),
            (0, 0),
        ] {
            assert_eq!(line.ns(tsc), ns, "{tsc}");
        }
        assert_eq!(TscClock::new(last, first), None);
        let end = u64::MAX;
        let far = TscClock::new(first, Moment { tsc: end, ns: end }).unwrap();
        assert_eq!(far.ns(end), 0, "no overflow");
    }
}
