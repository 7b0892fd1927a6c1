//! Costs of blocking on a host, as `haltwise calibrate` and `haltwise-lab calibrate` measure and write them
//! ([`written`]), and the part of them that a replay takes.

pub mod written;

use self::written::{GapClass, Sleeper, Written};
use super::latency::Latencies;
use crate::recording::Side;
use crate::stats::Estimate;

/// Version of the shape, for who writes it and who reads it.
pub const SCHEMA: u32 = 1;

/// A calibration of this [`SCHEMA`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calibration {
    switch_cpu: Option<SwitchCpu>,
    sleeper: Sleeper,
    prices: Prices,
    latencies: Latencies,
}

/// CPU time of one block and wake, as it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchCpu {
    /// The median, in nanoseconds.
    pub ns: u64,
    /// How far it may be off in a vCPU, in nanoseconds: the interval of the calibration, [`DRIFT_PERCENT`], and, of a
    /// thread's block, what KVM adds.
    pub ends_ns: [u64; 2],
}

/// The CPU time of a block moves by so much within minutes, and so do wake-ups (docs/predictions.md), in %.
pub const DRIFT_PERCENT: u64 = 25;

/// Between how many % of what was recorded wake-ups will be, on a host at rest and on one whose CPUs tasks wait for: there it
/// decides which CPU a task gets, and five recordings of one VM beside a busy loop had wake-ups of 31 to 66 us
/// (measurements/2026-11-29-vm-stability).
pub const fn drifts_percent(is_contended: bool) -> [u64; 2] {
    if is_contended {
        [50, 200]
    } else {
        [100 - DRIFT_PERCENT, 100 + DRIFT_PERCENT]
    }
}

/// KVM's part of a wake-up, in latency and in CPU time, where no sleep of a vCPU has shown it, in % of a thread's wake-up
/// latency: it was 1.7 of 5.2 us on a host of 16 CPUs at rest, and 5.7 to 8 of 15 to 18 us in a VM of two CPUs
/// (docs/tuning.md). At the most it is taken to be all of it.
const KVM_PERCENT: u64 = 40;

/// Measured costs of an exit and of an IPI, in nanoseconds of CPU; `None` if not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prices {
    /// One exit that KVM handles by itself.
    pub exit_cpu_ns: Option<u64>,
    /// An IPI, of its sender.
    pub ipi_cpu_ns: Option<u64>,
}

/// A calibration that another version of us has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has schema {0}; this haltwise reads {SCHEMA}")]
pub struct OtherSchema(u32);

/// A wake-up latency counts as measured where its interval ends at no more than so many times the median:
/// `tune` asks of a gain that it outlives wake-ups so many times as late as calibrated, and a noisier figure
/// may be further off than that.
pub const NOISE: u64 = 2;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a negative time is none"
)]
fn whole_ns(ns: f64) -> u64 {
    ns.round() as u64
}

/// The median in whole nanoseconds; `None` where the difference of two runs came out at nothing.
fn ns(of: &Estimate) -> Option<u64> {
    Some(whole_ns(of.median)).filter(|&ns| ns > 0)
}

fn latency_ns(of: &Estimate) -> Option<u64> {
    let is_noisy = of.high > NOISE as f64 * of.median;
    ns(of).filter(|_| !is_noisy)
}

/// Switch cost of a vCPU, to whose block KVM adds `kvm_ns`, at most `most_ns`.
fn switch_cpu(of: &Estimate, [kvm_ns, most_ns]: [u64; 2]) -> Option<SwitchCpu> {
    let ns = ns(of)?;
    // A file may have no interval.
    let low_ns = whole_ns(of.low.min(of.median)).min(ns);
    let high_ns = whole_ns(of.high.max(of.median)).max(ns);
    Some(SwitchCpu {
        ns: ns + kvm_ns,
        ends_ns: [
            low_ns * (100 - DRIFT_PERCENT) / 100,
            (high_ns + most_ns) * (100 + DRIFT_PERCENT) / 100,
        ],
    })
}

/// Time that KVM adds to a wake-up of the measured sleeper, and the most that KVM adds.
fn kvm_ns(of: &Written) -> [u64; 2] {
    let of_thread = of.sleeper == Sleeper::Thread && of.kvm_ns.is_none();
    let mut classes = of.classes.iter();
    let shortest = classes.find_map(|class| latency_ns(&class.wake_latency_ns?));
    let most_ns = shortest.filter(|_| of_thread).unwrap_or(0);
    [most_ns * KVM_PERCENT / 100, most_ns]
}

/// The latencies of a class, as many as tell how they spread, each longer by KVM's part.
fn add(class: &GapClass, latencies: &mut Latencies, kvm_ns: u64) {
    let Some(median_ns) = class.wake_latency_ns.and_then(|of| latency_ns(&of)) else {
        return;
    };
    let quantiles = &class.wake_latency_quantiles_ns;
    let all = if quantiles.is_empty() {
        &[median_ns][..]
    } else {
        quantiles
    };
    for latency_ns in all {
        latencies.add(class.gap_ns, latency_ns.saturating_add(kvm_ns));
    }
}

impl TryFrom<&Written> for Calibration {
    type Error = OtherSchema;

    fn try_from(of: &Written) -> Result<Self, OtherSchema> {
        if of.schema != SCHEMA {
            return Err(OtherSchema(of.schema));
        }
        let price = |of: Option<Estimate>| of.and_then(|of| latency_ns(&of));
        let kvm = kvm_ns(of);
        let mut latencies = Latencies::default();
        for class in &of.classes {
            add(class, &mut latencies, kvm[0]);
        }
        if let Some(least_ns) = of.same_cpu_wake_latency_ns.as_ref().and_then(ns) {
            latencies.on_the_same_cpu(least_ns);
        }
        Ok(Self {
            switch_cpu: of.switch_cpu_ns.and_then(|of| switch_cpu(&of, kvm)),
            sleeper: of.sleeper,
            prices: Prices {
                exit_cpu_ns: price(of.exit_cpu_ns),
                ipi_cpu_ns: price(of.ipi_cpu_ns),
            },
            latencies,
        })
    }
}

impl Calibration {
    /// CPU time of one block and wake; `None` where other tasks wanted the CPU throughout.
    pub fn switch_cpu(&self) -> Option<SwitchCpu> {
        self.switch_cpu
    }

    /// Cost of an exit and an IPI to the recorded guest, or a guest of the recorded host. A vCPU was one of the host's.
    /// Threads measure their own machine, as a guest: on a host that is one itself, these are not its guests' prices.
    pub fn prices(&self, recorded: Side) -> Prices {
        match (recorded, self.sleeper) {
            (Side::Host, Sleeper::Thread) => Prices::default(),
            (Side::Guest, _) | (Side::Host, Sleeper::Vcpu) => self.prices,
        }
    }

    /// Wake-up latencies of vCPUs by length of sleep; empty where nothing could be measured, and without those whose
    /// interval ends at more than twice the median.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::replay::latency::{Table, class_of};

    fn read(json: &str) -> Result<Calibration, OtherSchema> {
        Calibration::try_from(&serde_json::from_str::<Written>(json).unwrap())
    }

    #[test]
    fn medians_are_taken_and_what_was_not_measured_is_not_there() {
        let calibration = read(
            r#"{"schema": 1, "notes": [], "switch_cpu_ns": {"median": 16000.4, "low": 15000.0, "high": 18000.2},
                "classes": [{"gap_ns": 30000, "wake_latency_ns": {"median": 22000.6, "high": 44001.2}},
                            {"gap_ns": 300000, "wake_latency_ns": {"median": 22000.6, "high": 44001.3}},
                            {"gap_ns": 1000000, "wake_latency_ns": {"median": -5.0}},
                            {"gap_ns": 3000000, "wake_latency_ns": null}]}"#,
        )
        .unwrap();
        let switch_cpu = SwitchCpu {
            ns: 16_000,
            ends_ns: [11_250, 22_500],
        };
        assert_eq!(calibration.switch_cpu(), Some(switch_cpu));
        let latencies = calibration.latencies();
        let table = Table::of_price(latencies).unwrap();
        assert_eq!(table.at(class_of(30_000), 0), (22_001, false));
        for noisy_or_nothing in [300_000, 1_000_000, 3_000_000] {
            assert_eq!(table.at(class_of(noisy_or_nothing), 0), (22_001, true));
        }
        let nothing = read(r#"{"schema": 1, "classes": [], "switch_cpu_ns": null}"#).unwrap();
        assert_eq!(nothing.switch_cpu(), None);
        assert_eq!(nothing.prices(Side::Guest), Prices::default());
        assert!(nothing.latencies().is_empty());
        let below = read(r#"{"schema": 1, "classes": [], "switch_cpu_ns": {"median": -3.0}}"#);
        assert_eq!(below.unwrap().switch_cpu(), None);
        let alone = r#"{"schema": 1, "classes": [], "switch_cpu_ns": {"median": 10.0}}"#;
        let ends_ns = read(alone).unwrap().switch_cpu().unwrap().ends_ns;
        assert_eq!(ends_ns, [7, 12], "a file without intervals");
    }

    #[test]
    fn a_measurement_is_undisturbed_where_three_polls_in_four_were() {
        for (repetitions, polled, is_undisturbed) in
            [(6, [6, 3], true), (6, [6, 2], false), (5, [5, 5], false)]
        {
            let class = |polled| {
                let samples = written::Samples {
                    latency: vec![5_000.0; polled],
                    ..written::Samples::default()
                };
                samples.estimate(30_000)
            };
            let found = Written {
                repetitions,
                classes: polled.map(class).to_vec(),
                ..Written::default()
            };
            assert_eq!(found.is_undisturbed(), is_undisturbed, "{polled:?}");
        }
    }

    #[test]
    fn another_schema_is_refused_with_its_number() {
        let error = read(r#"{"schema": 2, "classes": []}"#).unwrap_err();
        assert_eq!(error, OtherSchema(2));
    }
}
