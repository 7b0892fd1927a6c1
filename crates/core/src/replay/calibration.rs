//! What blocking costs on a host, as `haltwise calibrate` and `haltwise-lab calibrate` measure and write it
//! ([`written`]), and what a replay takes of that.

pub mod written;

use serde::Deserialize;

use self::written::Sleeper;
use super::latency::Latencies;
use crate::recording::Side;

/// Version of the shape, for who writes it and who reads it.
pub const SCHEMA: u32 = 1;

/// A calibration of this [`SCHEMA`]: another does not deserialize.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Calibration {
    switch_cpu: Option<SwitchCpu>,
    sleeper: Sleeper,
    prices: Prices,
    points: Vec<(u64, u64)>,
}

/// CPU time of one block and wake, as it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchCpu {
    /// The median, in nanoseconds.
    pub ns: u64,
    /// The ends of the interval that holds the true one in 95 of 100 calibrations, in nanoseconds.
    pub ends_ns: [u64; 2],
}

/// What an exit and what comes of it cost, as it was measured, in nanoseconds of CPU; `None` where it was not.
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

#[derive(Debug, Deserialize)]
struct Written {
    schema: u32,
    #[serde(default)]
    sleeper: Sleeper,
    classes: Vec<Class>,
    switch_cpu_ns: Option<Estimated>,
    /// Calibrations made before exits were measured lack it.
    #[serde(default)]
    exit_cpu_ns: Option<Estimated>,
    #[serde(default)]
    ipi_cpu_ns: Option<Estimated>,
}

#[derive(Debug, Deserialize)]
struct Class {
    gap_ns: u64,
    wake_latency_ns: Option<Estimated>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Estimated {
    median: f64,
    low: Option<f64>,
    high: Option<f64>,
}

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

impl Estimated {
    /// The median in whole nanoseconds; `None` where the difference of two runs came out at nothing.
    fn ns(&self) -> Option<u64> {
        Some(whole_ns(self.median)).filter(|&ns| ns > 0)
    }

    fn latency_ns(&self) -> Option<u64> {
        let is_noisy = self
            .high
            .is_some_and(|high| high > NOISE as f64 * self.median);
        self.ns().filter(|_| !is_noisy)
    }

    fn switch_cpu(&self) -> Option<SwitchCpu> {
        let ns = self.ns()?;
        let low_ns = whole_ns(self.low.unwrap_or(self.median)).min(ns);
        let high_ns = whole_ns(self.high.unwrap_or(self.median)).max(ns);
        Some(SwitchCpu {
            ns,
            ends_ns: [low_ns, high_ns],
        })
    }
}

impl TryFrom<Written> for Calibration {
    type Error = OtherSchema;

    fn try_from(written: Written) -> Result<Self, OtherSchema> {
        if written.schema != SCHEMA {
            return Err(OtherSchema(written.schema));
        }
        let price = |of: Option<Estimated>| of.and_then(|median| median.latency_ns());
        let point = |class: &Class| Some((class.gap_ns, class.wake_latency_ns?.latency_ns()?));
        Ok(Self {
            switch_cpu: written.switch_cpu_ns.and_then(|median| median.switch_cpu()),
            sleeper: written.sleeper,
            prices: Prices {
                exit_cpu_ns: price(written.exit_cpu_ns),
                ipi_cpu_ns: price(written.ipi_cpu_ns),
            },
            points: written.classes.iter().filter_map(point).collect(),
        })
    }
}

impl Calibration {
    /// CPU time of one block and wake; `None` where other tasks wanted the CPU throughout.
    pub fn switch_cpu(&self) -> Option<SwitchCpu> {
        self.switch_cpu
    }

    /// What an exit and an IPI cost the recorded guest, or a guest of the recorded host. A vCPU was one of the host's.
    /// Threads measure their own machine, as a guest: on a host that is one itself, these are not its guests' prices.
    pub fn prices(&self, recorded: Side) -> Prices {
        match (recorded, self.sleeper) {
            (Side::Host, Sleeper::Thread) => Prices::default(),
            (Side::Guest, _) | (Side::Host, Sleeper::Vcpu) => self.prices,
        }
    }

    /// Wake-up latencies by length of sleep; empty where nothing could be measured, and without those whose
    /// interval ends at more than twice the median.
    pub fn latencies(&self) -> Latencies {
        let mut latencies = Latencies::default();
        for &(slept_ns, latency_ns) in &self.points {
            latencies.add(slept_ns, latency_ns);
        }
        latencies
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::replay::latency::{Sources, Table, class_of};

    fn read(json: &str) -> Result<Calibration, serde_json::Error> {
        serde_json::from_str(json)
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
            ends_ns: [15_000, 18_000],
        };
        assert_eq!(calibration.switch_cpu(), Some(switch_cpu));
        let latencies = calibration.latencies();
        let sources = Sources {
            elsewhere: Some(&latencies),
            ..Sources::default()
        };
        let table = Table::new(&sources).unwrap();
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
        assert_eq!(ends_ns, [10, 10], "a file without intervals");
    }

    #[test]
    fn what_threads_measure_as_a_guest_is_no_price_of_guests_of_that_machine() {
        let before = read(r#"{"schema": 1, "classes": [], "exit_cpu_ns": {"median": 1400.4}}"#);
        let of_vcpu = Prices {
            exit_cpu_ns: Some(1_400),
            ipi_cpu_ns: None,
        };
        let before = before.unwrap();
        assert_eq!(before.prices(Side::Host), of_vcpu);
        assert_eq!(before.prices(Side::Guest), of_vcpu);
        let inside = read(
            r#"{"schema": 1, "sleeper": "thread", "classes": [], "exit_cpu_ns": {"median": 3572.8, "high": 3577.7},
                "timer_write_cpu_ns": {"median": 5253}, "ipi_cpu_ns": {"median": 4642.0, "low": 4627, "high": 4667}}"#,
        )
        .unwrap();
        let own = Prices {
            exit_cpu_ns: Some(3_573),
            ipi_cpu_ns: Some(4_642),
        };
        assert_eq!(inside.prices(Side::Guest), own);
        assert_eq!(inside.prices(Side::Host), Prices::default());
        let noisy = r#"{"schema": 1, "classes": [], "ipi_cpu_ns": {"median": 100.0, "low": 3, "high": 201}}"#;
        assert_eq!(read(noisy).unwrap().prices(Side::Guest), Prices::default());
    }

    #[test]
    fn another_schema_is_refused_with_its_number() {
        let error = read(r#"{"schema": 2, "classes": []}"#).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("it has schema 2; this haltwise reads 1"),
            "{error}"
        );
    }
}
