//! One cell: recorded and measured under one ceiling, and what its replay says of the others.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::loads::{Load, SETTINGS};
use crate::bench::run::{Programs, number, recorded};
use crate::tool;

/// What was measured.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    /// Halts.
    pub(super) halts: f64,
    /// Shares and times for each halt.
    pub(super) per_halt: PerHalt,
    /// Round trips, median and 95th percentile, where the lab sees them.
    pub(super) trip_ns: Option<[f64; 2]>,
}

/// Figures by halt.
#[derive(Debug, Clone, Copy)]
pub(super) struct PerHalt {
    /// Polls that ended in a wake.
    pub(super) met: f64,
    /// Blocks.
    pub(super) blocks: f64,
    /// Time polled.
    pub(super) poll_ns: f64,
}

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

/// Measures what blocks cost here.
pub(super) fn calibrate(programs: &Programs, folder: &Path) -> Result<PathBuf> {
    let path = folder.join("calibration.json");
    let text = tool::ask(Command::new(&programs.lab).args(["calibrate", "--quick", "--json"]))?;
    std::fs::write(&path, text).context("write the calibration")?;
    Ok(path)
}

/// Records a load under a setting.
pub(super) fn record(
    programs: &Programs,
    load: &Load,
    setting: usize,
    trips: u32,
    capture: &Path,
) -> Result<Measured> {
    let folder = tempfile::tempdir().context("create a folder")?;
    let mut record = Command::new("taskset");
    record.args(["-c", "0"]).arg(&programs.haltwise);
    record.args(["record", "-o"]).arg(capture);
    let rounds = (trips / load.fewer).to_string();
    let cap = SETTINGS[setting];
    let mut guest = vec![
        load.guest, "--rounds", &rounds, "--gap", load.gap, "--cap", cap,
    ];
    guest.extend(["--pin", "1", "--host-pin", "0"]);
    if load.round_trips {
        guest.extend(["--host-wait", "spin"]);
    }
    let pin = ["taskset", "-c", "0,1"];
    let (_, lab) = recorded(
        programs,
        tool::ask,
        &mut record,
        &pin,
        &guest,
        folder.path(),
    )?;
    let halts = number(&lab, "/vms/0/vcpus/0/halts")?.max(1.0);
    let stat = |name: &str| number(&lab, &format!("/vms/0/vcpus/0/stats/{name}"));
    let met = stat("halt_successful_poll")?;
    let trip = |p: &str| number(&lab, &format!("/vms/0/round_trip_ns/{p}"));
    Ok(Measured {
        halts,
        per_halt: PerHalt {
            met: met / halts,
            blocks: number(&lab, "/vms/0/vcpus/0/voluntary_switches")? / halts,
            poll_ns: (stat("halt_poll_success_ns")? + stat("halt_poll_fail_ns")?) / halts,
        },
        trip_ns: if load.round_trips {
            Some([trip("p50")?, trip("p95")?])
        } else {
            None
        },
    })
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
