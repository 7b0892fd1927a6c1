//! Loads that this machine's own costs choose: on either side of the law of [`haltwise_core::tune::gain`].
//!
//! Gaps of so many break-evens show on every machine where twice as cheap begins; gaps of so many
//! microseconds would show it on one.

use std::path::Path;

use anyhow::{Context, Result};
use haltwise_core::replay::calibration::Calibration;
use haltwise_core::replay::latency::{Table, class_of};
use haltwise_core::units::Nanos;
use haltwise_core::workload::{GapSpec, Gaps};

use super::GOALS;
use crate::bench::loads::{LOADS, Load};

/// Gaps in break-evens: below two of them nobody is twice as cheap, above them not polling is.
const SIDES: [f64; 2] = [1.5, 2.5];

/// Gaps that are drawn of a load to know its mean.
const DRAWN: usize = 4_096;

/// What blocks cost here, as calibrated.
#[derive(Debug)]
pub(super) struct Costs {
    switch_cpu_ns: f64,
    latencies: Table,
}

impl Costs {
    /// Reads what `haltwise-lab calibrate` wrote.
    pub(super) fn read(calibration: &Path) -> Result<Self> {
        let text = std::fs::read(calibration).context("read the calibration")?;
        let calibration: Calibration =
            serde_json::from_slice(&text).context("read the calibration")?;
        Self::of(&calibration).context(
            "the calibration has no cost of a block or no wake-up latency: other tasks wanted the CPU \
             of the guest; give the benchmark the machine for itself",
        )
    }

    fn of(calibration: &Calibration) -> Option<Self> {
        Some(Self {
            switch_cpu_ns: calibration.switch_cpu()?.ns as f64,
            latencies: Table::of_price(calibration.latencies())?,
        })
    }

    /// What a halt costs that sleeps through a gap, in nanoseconds.
    pub(super) fn break_even_ns(&self, gap_ns: u64, lambda: f64) -> f64 {
        self.switch_cpu_ns + lambda * self.latencies.median(class_of(gap_ns)) as f64
    }

    /// What a halt of a load costs that sleeps, in nanoseconds, for each goal.
    pub(super) fn of_load(&self, load: &Load) -> Result<[f64; 3]> {
        let gaps_ns = drawn(load)?;
        Ok(GOALS.map(|(_, lambda)| {
            let costs = gaps_ns.iter().map(|&gap| self.break_even_ns(gap, lambda));
            costs.sum::<f64>() / DRAWN as f64
        }))
    }

    /// The fixed gap of so many of its own break-evens.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a gap is a small positive number"
    )]
    fn gap_ns(&self, break_evens: f64, lambda: f64) -> u64 {
        let mut gap_ns = 0;
        // A gap of another class may wake otherwise; twice is enough for neighbours.
        for _ in 0..2 {
            gap_ns = (break_evens * self.break_even_ns(gap_ns, lambda)).round() as u64;
        }
        gap_ns
    }

    /// The usual loads, and those beside the law's edge, for each goal whose gaps can be met under this
    /// ceiling.
    pub(super) fn loads(&self, ceiling_ns: u64) -> Vec<Load> {
        let mut loads = LOADS.to_vec();
        for (goal, lambda) in GOALS {
            for side in SIDES {
                let gap_ns = self.gap_ns(side, lambda);
                let latency_ns = self.latencies.median(class_of(gap_ns));
                // A window opens while gap and wake-up together are below the ceiling.
                if gap_ns + latency_ns > ceiling_ns {
                    continue;
                }
                loads.push(Load {
                    name: format!("reply {side} {goal}").into(),
                    guest: "pingpong",
                    gap: format!("fixed:{}", Nanos(gap_ns).to_exact()).into(),
                    round_trips: true,
                    wait: "spin",
                    fewer: 1,
                });
            }
        }
        loads
    }
}

/// Gaps of a load, as the lab would draw them.
fn drawn(load: &Load) -> Result<Vec<u64>> {
    let spec: GapSpec = load.gap.parse().context("read the gaps of a load")?;
    let mut gaps = Gaps::new(spec, 1).context("draw the gaps of a load")?;
    Ok((0..DRAWN).map(|_| gaps.draw().0).collect())
}

/// The mean gap of a load, in nanoseconds.
pub(super) fn mean_gap_ns(load: &Load) -> Result<u64> {
    Ok(drawn(load)?.iter().sum::<u64>() / DRAWN as u64)
}

#[cfg(test)]
mod test {
    use super::*;

    fn costs() -> Costs {
        let text = r#"{"schema": 1, "classes": [
            {"gap_ns": 30000, "wake_latency_ns": {"median": 30000.0}},
            {"gap_ns": 300000, "wake_latency_ns": {"median": 40000.0}},
            {"gap_ns": 3000000, "wake_latency_ns": null}
        ], "switch_cpu_ns": {"median": 16000.0}}"#;
        Costs::of(&serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn a_break_even_is_the_switch_and_the_price_of_its_latency() {
        let costs = costs();
        for (gap_ns, lambda, ns) in [
            (30_000, 0.0, 16_000.0),
            (30_000, 1.0, 46_000.0),
            (400_000, 1.0, 56_000.0),
            (30_000, 10.0, 316_000.0),
        ] {
            assert!((costs.break_even_ns(gap_ns, lambda) - ns).abs() < 1e-6);
        }
        let mixed = Load {
            gap: "bimodal:0.5:30us:3ms".into(),
            ..LOADS[0].clone()
        };
        let of_load = costs.of_load(&mixed).unwrap();
        assert!((of_load[1] - 51_000.0).abs() < 500.0, "{of_load:?}");
    }

    #[test]
    fn chosen_gaps_lie_on_both_sides_of_two_break_evens_and_below_the_ceiling() {
        let chosen = |ceiling_ns| -> Vec<String> {
            let loads = costs().loads(ceiling_ns);
            let chosen = loads[LOADS.len()..].iter();
            chosen
                .map(|load| format!("{}: {}", load.name, load.gap))
                .collect()
        };
        assert_eq!(
            chosen(200_000),
            [
                "reply 1.5 density: fixed:24us",
                "reply 2.5 density: fixed:40us",
                "reply 1.5 balanced: fixed:69us",
                "reply 2.5 balanced: fixed:115us",
            ]
        );
        assert_eq!(chosen(120_000).len(), 3, "115 us and a wake-up pass 120");
        assert!(chosen(0).is_empty());
    }
}
