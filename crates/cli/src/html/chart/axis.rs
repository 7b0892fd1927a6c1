//! Axes: where a value stands, and which values are named.

use super::{line, text};
use crate::html::markup::Markup;

#[derive(Debug, Clone, Copy)]
pub(crate) struct LogAxis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl LogAxis {
    /// From `low` to `high` nanoseconds, drawn from `from` to `to`.
    pub(crate) fn new((low, high): (u64, u64), (from, to): (f64, f64)) -> Self {
        let low = low.max(1) as f64;
        Self {
            low,
            high: (high as f64).max(low * 10.0),
            from,
            to,
        }
    }

    /// Where a value stands; what lies beyond the ends stands there.
    pub(crate) fn place(&self, ns: f64) -> f64 {
        let share = (ns.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }

    pub(crate) fn holds(&self, ns: f64) -> bool {
        (self.low..=self.high).contains(&ns)
    }

    /// Round times, as many as there is room for, with their names below `y`, and lines up to `top`.
    pub(crate) fn ticks(&self, top: f64, y: f64) -> Markup {
        // Where the axis spans little, there is more to name than powers of ten.
        let steps: &[u64] = if self.high / self.low < 300.0 {
            &[1, 2, 5]
        } else {
            &[1]
        };
        let powers = (0..=19).map(|power| 10_u64.pow(power));
        let ticks =
            powers.flat_map(|power| steps.iter().map(move |step| power.saturating_mul(*step)));
        let ticks: Vec<u64> = ticks.filter(|ns| self.holds(*ns as f64)).collect();
        // A name takes some 50 units.
        let room = (self.to - self.from) / 50.0;
        let mut every = 1;
        while ticks.len() as f64 / every as f64 > room && every < ticks.len() {
            every += 1;
        }
        let mut out = Markup::none();
        for (n, ns) in ticks.into_iter().enumerate() {
            let x = self.place(ns as f64);
            out.push(line("grid", (x, top), (x, y)));
            if n % every == 0 {
                let anchor = match x {
                    left if left < self.from + 15.0 => "start",
                    right if right > self.to - 5.0 => "end",
                    _ => "middle",
                };
                out.push(text("tick", (x, y + 14.0), anchor, &round(ns)));
            }
        }
        out
    }
}

/// `10 us`: a round time without the digits that say nothing.
fn round(ns: u64) -> String {
    let (unit, name) = match ns {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{} {name}", ns / unit)
}

/// The next round value at or above `value`: 1, 2 or 5 times a power of ten.
pub(crate) fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let found = steps.iter().map(|step| step * power);
    found
        .into_iter()
        .find(|round| *round >= value * (1.0 - 1e-9))
        .unwrap_or(value)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn round_times_have_short_names() {
        for (ns, name) in [
            (1, "1 ns"),
            (2_000, "2 us"),
            (100_000, "100 us"),
            (10_000_000, "10 ms"),
            (1_000_000_000, "1 s"),
        ] {
            assert_eq!(round(ns), name);
        }
    }

    #[test]
    fn places_are_logarithmic_and_never_outside() {
        let axis = LogAxis::new((100, 10_000), (0.0, 200.0));
        assert!((axis.place(1_000.0) - 100.0).abs() < 1e-9);
        assert!(axis.place(0.0).abs() < 1e-9);
        assert!((axis.place(1e12) - 200.0).abs() < 1e-9);
    }

    #[test]
    fn round_values_are_at_or_above() {
        for (value, round) in [
            (0.0, 1.0),
            (0.7, 1.0),
            (3.0, 5.0),
            (10.0, 10.0),
            (51.0, 100.0),
        ] {
            assert!((round_up(value) - round).abs() < 1e-9, "{value}");
        }
    }
}
