//! One cell of a table: a load, recorded and measured under one ceiling.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::loads::Load;
use super::run::{Programs, number, recorded};
use crate::tool;

/// What was measured.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// Halts.
    pub(crate) halts: f64,
    /// Shares and times for each halt.
    pub(crate) per_halt: PerHalt,
    /// Round trips, median and 95th percentile, where the lab sees them.
    pub(crate) trip_ns: Option<[f64; 2]>,
}

/// Figures by halt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PerHalt {
    /// Polls that ended in a wake.
    pub(crate) met: f64,
    /// Blocks.
    pub(crate) blocks: f64,
    /// Time polled.
    pub(crate) poll_ns: f64,
}

/// Measures what blocks cost here.
pub(crate) fn calibrate(programs: &Programs, folder: &Path) -> Result<PathBuf> {
    let path = folder.join("calibration.json");
    let text = tool::ask(Command::new(&programs.lab).args(["calibrate", "--quick", "--json"]))?;
    std::fs::write(&path, text).context("write the calibration")?;
    Ok(path)
}

/// Records a load under a ceiling (`--cap`), or under what the host has in force.
pub(crate) fn record(
    programs: &Programs,
    load: &Load,
    cap: Option<&str>,
    trips: u32,
    capture: &Path,
) -> Result<Measured> {
    let folder = tempfile::tempdir().context("create a folder")?;
    let mut record = Command::new("taskset");
    record.args(["-c", "0"]).arg(&programs.haltwise);
    record.args(["record", "-o"]).arg(capture);
    let rounds = (trips / load.fewer).to_string();
    let mut guest = vec![load.guest, "--rounds", &rounds, "--gap", &load.gap];
    guest.extend(["--pin", "1", "--host-pin", "0"]);
    if let Some(cap) = cap {
        guest.extend(["--cap", cap]);
    }
    if load.round_trips {
        guest.extend(["--host-wait", load.wait]);
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
