//! What a replay takes of a calibration: the shape that `haltwise-lab calibrate --json` writes, as far as it
//! is read.
//!
//! The lab measures and writes much more, in a shape of its own that a test there holds against this one.

use serde::Deserialize;

use super::latency::Latencies;

/// Version of the shape, for who writes it and who reads it.
pub const SCHEMA: u32 = 1;

/// A calibration of this [`SCHEMA`]: another does not deserialize.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Calibration {
    switch_cpu_ns: Option<u64>,
    points: Vec<(u64, u64)>,
}

/// A calibration that another version of us has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has schema {0}; this haltwise reads {SCHEMA}")]
pub struct OtherSchema(u32);

#[derive(Debug, Deserialize)]
struct Written {
    schema: u32,
    classes: Vec<Class>,
    switch_cpu_ns: Option<Median>,
}

#[derive(Debug, Deserialize)]
struct Class {
    gap_ns: u64,
    wake_latency_ns: Option<Median>,
}

#[derive(Debug, Deserialize)]
struct Median {
    median: f64,
}

impl Median {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and a negative time is none"
    )]
    fn ns(&self) -> u64 {
        self.median.round() as u64
    }
}

impl TryFrom<Written> for Calibration {
    type Error = OtherSchema;

    fn try_from(written: Written) -> Result<Self, OtherSchema> {
        if written.schema != SCHEMA {
            return Err(OtherSchema(written.schema));
        }
        let point = |class: &Class| Some((class.gap_ns, class.wake_latency_ns.as_ref()?.ns()));
        Ok(Self {
            switch_cpu_ns: written.switch_cpu_ns.map(|median| median.ns()),
            points: written.classes.iter().filter_map(point).collect(),
        })
    }
}

impl Calibration {
    /// CPU time of one block and wake, in nanoseconds; `None` where other tasks wanted the CPU throughout.
    pub fn switch_cpu_ns(&self) -> Option<u64> {
        self.switch_cpu_ns
    }

    /// Wake-up latencies by length of sleep; empty where nothing could be measured.
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
            r#"{"schema": 1, "notes": [], "switch_cpu_ns": {"median": 16000.4, "low": 1.0},
                "classes": [{"gap_ns": 30000, "wake_latency_ns": {"median": 22000.6}},
                            {"gap_ns": 3000000, "wake_latency_ns": null}]}"#,
        )
        .unwrap();
        assert_eq!(calibration.switch_cpu_ns(), Some(16_000));
        let latencies = calibration.latencies();
        let sources = Sources {
            elsewhere: Some(&latencies),
            ..Sources::default()
        };
        let table = Table::new(&sources).unwrap();
        assert_eq!(table.at(class_of(30_000), 0), (22_001, false));
        assert_eq!(table.at(class_of(3_000_000), 0), (22_001, true));
        let nothing = read(r#"{"schema": 1, "classes": [], "switch_cpu_ns": null}"#).unwrap();
        assert_eq!(nothing.switch_cpu_ns(), None);
        assert!(nothing.latencies().is_empty());
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
