//! What the replay of a capture says of every ceiling.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::SETTINGS;
use crate::bench::cell::{Measured, PerHalt};
use crate::bench::run::{Programs, number};
use crate::tool;

/// What a replay says.
#[derive(Debug, Clone)]
pub(super) struct Predicted {
    /// From the capture made under this setting.
    pub(super) from: usize,
    /// Starting without a window, as each run of the lab does.
    pub(super) per_halt: PerHalt,
    /// The same as if polling had begun.
    pub(super) polling: PerHalt,
    /// The two starts end differently.
    pub(super) bistable: bool,
    /// Round trips.
    pub(super) trip_ns: Option<[f64; 2]>,
}

/// What a capture says of every setting.
pub(super) fn predict(
    programs: &Programs,
    capture: &Path,
    measured: &Measured,
    from: usize,
    calibration: &Path,
) -> Result<Vec<Predicted>> {
    let mut replay = Command::new(&programs.haltwise);
    replay.arg("replay").arg(capture).arg("--json");
    replay.arg("--calibration").arg(calibration);
    for setting in SETTINGS {
        replay.arg("--policy").arg(format!("kvm:cap={setting}"));
    }
    let said: Value = serde_json::from_str(&tool::ask(&mut replay)?).context("read the replay")?;
    let recorded = |name: &str| number(&said, &format!("/host/recorded/{name}"));
    let rest = |p: usize, name: &str| -> Result<f64> {
        Ok(measured.trip_ns.map_or(0.0, |trip| trip[p]) - recorded(name)?)
    };
    let beside = [rest(0, "latency_p50_ns")?, rest(1, "latency_p95_ns")?];
    let halts = number(&said, "/host/halts")?.max(1.0);
    let one = |index: usize| -> Result<Predicted> {
        let of = |start: &str, name: &str| {
            number(&said, &format!("/host/played/{index}/{start}/{name}"))
        };
        let per_halt = |start: &str| -> Result<PerHalt> {
            Ok(PerHalt {
                met: of(start, "successful_polls")? / halts,
                blocks: of(start, "blocks")? / halts,
                poll_ns: of(start, "poll_ns")? / halts,
            })
        };
        let bistable = said.pointer(&format!("/host/played/{index}/bistable"));
        let latency = [
            of("from_zero", "latency_p50_ns")?,
            of("from_zero", "latency_p95_ns")?,
        ];
        Ok(Predicted {
            from,
            per_halt: per_halt("from_zero")?,
            polling: per_halt("from_ceiling")?,
            bistable: bistable.and_then(Value::as_bool).unwrap_or(false),
            trip_ns: measured
                .trip_ns
                .map(|_| [beside[0] + latency[0], beside[1] + latency[1]]),
        })
    };
    (0..SETTINGS.len()).map(one).collect()
}
