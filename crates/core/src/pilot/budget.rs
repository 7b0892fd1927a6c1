//! Budget of looks: a share of one CPU, the unused budget from before, and a part of the gain.

/// Share of one CPU. Written down, not measured: fifty vCPUs that halt 2,000 times a second and sleep take a hundred
/// times as much for that alone, at 2 us each, so that a gain of a hundredth repays it.
const SHARE: f64 = 0.002;

/// Share of the gain of the settings in force over those found that may go into looks that watch them: a loss of the
/// same part of the gain.
const OF_GAIN: f64 = 0.01;

/// At first, and at most: some seventy looks beside 25 VMs (`bench/pilot.py own`), so that these are known within
/// minutes.
const MOST_NS: f64 = 5e9;

/// However little is left, there is a look as often as this: on a host of very many VMs, reading their counts alone can
/// take more than the share.
const ALWAYS_NS: u64 = 60_000_000_000;

#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    left_ns: f64,
    /// The time of the last reading, and what this program had taken by then.
    last: Option<(u64, u64)>,
    gained_ns: f64,
    looked_ns: Option<u64>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            left_ns: MOST_NS,
            last: None,
            gained_ns: 0.0,
            looked_ns: None,
        }
    }
}

impl Budget {
    /// Takes in what this program has taken so far, and what its settings have gained, in nanoseconds of CPU time. What
    /// trials take is weighed against what they can gain, and does not count here.
    pub(super) fn take(&mut self, now_ns: u64, own_cpu_ns: u64, gained_ns: f64, is_on_trial: bool) {
        let gained_ns = gained_ns - std::mem::replace(&mut self.gained_ns, gained_ns);
        if let Some((before_ns, own_before_ns)) = self.last.replace((now_ns, own_cpu_ns)) {
            let earned =
                SHARE * now_ns.saturating_sub(before_ns) as f64 + OF_GAIN * gained_ns.max(0.0);
            let taken = own_cpu_ns.saturating_sub(own_before_ns) as f64;
            self.left_ns += earned - if is_on_trial { 0.0 } else { taken };
            // CPU time that very many VMs took for their counts is not owed for weeks after the VMs have gone.
            self.left_ns = self.left_ns.clamp(-MOST_NS, MOST_NS);
        }
    }

    /// Whether there may be another look now.
    pub(super) fn allows(&self, now_ns: u64) -> bool {
        let since_ns = |at| now_ns.saturating_sub(at);
        self.left_ns > 0.0 || self.looked_ns.is_none_or(|at| since_ns(at) >= ALWAYS_NS)
    }

    pub(super) fn look(&mut self, now_ns: u64) {
        self.looked_ns = Some(now_ns);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_readings_took_is_not_owed_for_ever() {
        let (mut budget, mut own) = (Budget::default(), 0);
        // A week in which readings take a tenth of a CPU, minute by minute; then they take nothing.
        let week = 7 * 24 * 60;
        for minute in 0..week {
            own += 6 * SECOND;
            budget.take(minute * 60 * SECOND, own, 0.0, false);
        }
        budget.look(week * 60 * SECOND);
        let after = |seconds: u64| {
            let mut budget = budget;
            let now = (week * 60 + seconds) * SECOND;
            budget.take(now, own, 0.0, false);
            budget.look(now);
            budget.allows(now + 1)
        };
        assert!(!after(2_000));
        assert!(after(3_000));
    }
}
