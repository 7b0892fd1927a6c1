//! Decayed views of a VM's load, which tell a phase from noise.
//!
//! Two figures say what the load is: halts in a second, and the mean length of a halt, both as logarithms, since loads
//! differ by factors. A view of minutes has their mean and their spread. What lies outside the spread twice in a row
//! is another phase, once is a moment. A view of an hour has how long phases last.

use super::input::Counts;

/// Time constant of the view of minutes: a dozen intervals of 10 s, enough for a spread.
const MINUTES_NS: f64 = 120e9;

/// That of the view of phases, in phases: the last few count.
const PHASES: f64 = 4.0;

/// A value this many spreads from the mean is outside. If intervals differ by random variation alone, one in 16,000 is
/// outside (normal), and two in a row do not occur in a year.
const OUTSIDE: f64 = 4.0;

/// A spread is taken to be this at least, as a logarithm: 5 %, what loads of a fixed rate differ by from one interval
/// to the next on a busy host (`measurements/2026-11-21-vm-loss-2`).
const LEAST_SPREAD: f64 = 0.05;

/// Intervals that are needed for a spread; before, half of it is outside.
const ENOUGH: u32 = 3;

/// With fewer, a factor of 1.5 is outside.
pub(super) const OUTSIDE_EARLY: f64 = 0.4;

/// Logarithms of halts in a second, and of their mean length.
type Load = [f64; 2];

fn load(counts: &Counts) -> Load {
    // One halt in an interval more or less is no other load.
    let halts_per_s = counts.per_s(counts.halts + 1);
    let mean_ns = (counts.halt_ns as f64 + 1e3) / (counts.halts + 1) as f64;
    [halts_per_s.ln(), mean_ns.ln()]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    Same,
    /// Unlike before; the next tells whether that stays.
    Unlike,
    /// Another phase has begun, with the interval before this.
    Phase,
}

#[derive(Debug, Clone, Default)]
pub(super) struct View {
    mean: Load,
    variance: Load,
    seen: u32,
    /// When the last interval began, if it was unlike the others.
    unlike_ns: Option<u64>,
    since_ns: u64,
    /// Mean length of the phases that are over, decayed.
    usual_ns: Option<f64>,
    /// The setting has changed: what comes now is unlike for that alone.
    relearn: bool,
}

impl View {
    pub(super) fn new(now_ns: u64) -> Self {
        Self {
            since_ns: now_ns,
            ..Self::default()
        }
    }

    /// The setting has changed, and with it what the same load looks like.
    pub(super) fn relearn(&mut self) {
        self.relearn = true;
        self.unlike_ns = None;
    }

    /// Whether the last interval was unlike those before, and the next is to tell whether that stays.
    pub(super) fn is_unlike(&self) -> bool {
        self.unlike_ns.is_some()
    }

    pub(super) fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.since_ns)
    }

    /// How long it may still last. What has lasted for a time is taken to last as long again, unless phases use to be
    /// longer: nothing else is known of it.
    pub(super) fn remaining_ns(&self, now_ns: u64) -> f64 {
        let age_ns = self.age_ns(now_ns) as f64;
        let usual = self.usual_ns.map_or(0.0, |usual| usual - age_ns);
        age_ns.max(usual)
    }

    pub(super) fn take(&mut self, counts: &Counts, now_ns: u64) -> Compared {
        let load = load(counts);
        if std::mem::take(&mut self.relearn) {
            self.seen = 0;
        }
        if self.seen > 0 && self.is_outside(load) {
            let Some(since_ns) = self.unlike_ns.take() else {
                self.unlike_ns = Some(now_ns.saturating_sub(counts.interval_ns));
                return Compared::Unlike;
            };
            self.begin(since_ns);
            self.add(load, counts.interval_ns);
            return Compared::Phase;
        }
        self.unlike_ns = None;
        self.add(load, counts.interval_ns);
        Compared::Same
    }

    fn is_outside(&self, load: Load) -> bool {
        let apart = |figure: usize| (load[figure] - self.mean[figure]).abs();
        let allowed = |figure: usize| {
            if self.seen < ENOUGH {
                OUTSIDE_EARLY
            } else {
                OUTSIDE * self.variance[figure].sqrt().max(LEAST_SPREAD)
            }
        };
        (0..2).any(|figure| apart(figure) > allowed(figure))
    }

    fn begin(&mut self, since_ns: u64) {
        let length_ns = since_ns.saturating_sub(self.since_ns) as f64;
        self.usual_ns = Some(match self.usual_ns {
            Some(usual) => usual + (length_ns - usual) / PHASES,
            None => length_ns,
        });
        self.since_ns = since_ns;
        self.seen = 0;
    }

    fn add(&mut self, load: Load, interval_ns: u64) {
        // The first ones count alike.
        let first = 1.0 / f64::from(self.seen.min(1_000) + 1);
        let part = (interval_ns as f64 / MINUTES_NS).clamp(0.0, 1.0).max(first);
        for (figure, value) in load.into_iter().enumerate() {
            let apart = value - self.mean[figure];
            self.mean[figure] += part * apart;
            self.variance[figure] = (1.0 - part) * (self.variance[figure] + part * apart * apart);
        }
        self.seen = self.seen.saturating_add(1);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::workload::SplitMix64;

    const INTERVAL_NS: u64 = 10_000_000_000;

    fn counts(halts: u64, mean_ns: u64) -> Counts {
        Counts {
            interval_ns: INTERVAL_NS,
            halts,
            halt_ns: halts * mean_ns,
            ..Counts::default()
        }
    }

    /// However a load varies by up to a tenth, it stays one phase; another is seen in its second interval, and begins
    /// with its first.
    #[test]
    fn noise_is_no_phase_and_another_load_is() {
        let mut draw = SplitMix64(9);
        let mut view = View::new(0);
        let mut now_ns = 0;
        let mut noisy = |halts: u64| counts(halts * (95 + draw.below(11)) / 100, 100_000);
        for _ in 0..1_000 {
            now_ns += INTERVAL_NS;
            let compared = view.take(&noisy(20_000), now_ns);
            assert_eq!(compared, Compared::Same);
        }
        let began_ns = now_ns;
        now_ns += INTERVAL_NS;
        assert_eq!(view.take(&noisy(60_000), now_ns), Compared::Unlike);
        now_ns += INTERVAL_NS;
        assert_eq!(view.take(&noisy(60_000), now_ns), Compared::Phase);
        assert_eq!(view.age_ns(now_ns), now_ns - began_ns);
        // Phases are known to last.
        assert!(view.remaining_ns(now_ns) > began_ns as f64 / 2.0);
    }
}
