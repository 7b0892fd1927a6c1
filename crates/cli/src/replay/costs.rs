//! What a block costs on the host of a capture: measured there, given, or taken from the capture.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use haltwise_core::replay::calibration::Calibration;
use haltwise_core::replay::latency::Latencies;
use haltwise_core::replay::session::Survey;
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure};

/// Where `switch_cpu` comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Source {
    /// `haltwise-lab calibrate` measured it.
    Calibrated,
    /// The command line says so.
    Given,
    /// Half of the wake-up latency of the shortest sleeps in the capture.
    Assumed,
}

/// What is known about blocks, beside what the capture tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// CPU time of one block and wake, in nanoseconds, and where that comes from.
    pub(crate) switch_cpu_ns: u64,
    /// Where that comes from.
    pub(crate) source: Source,
    /// Wake-up latencies measured another time.
    pub(crate) elsewhere: Option<Latencies>,
}

/// The share of a short sleep's wake-up latency that is CPU time of the vCPU's own, where nothing was
/// measured. `haltwise-lab calibrate` found 10.4 of 19.2 us (measurements/2026-11-21-vm-calibrate).
const ASSUMED_SHARE: u64 = 2;

/// What the command line says of costs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told<'a> {
    /// A file of `haltwise-lab calibrate --json`.
    pub(crate) calibration: Option<&'a Path>,
    /// `--switch-cpu`.
    pub(crate) switch_cpu_ns: Option<u64>,
    /// `--wake-latency`.
    pub(crate) wake_latency_ns: Option<u64>,
}

/// Puts together what is known.
pub(crate) fn know(told: &Told<'_>, survey: &Survey) -> Result<Known, Failure> {
    of_latency(told, survey.shortest_sleeps_ns())
}

/// The same, where the capture's shortest sleeps take `shortest_ns` to wake.
pub(crate) fn of_latency(told: &Told<'_>, shortest_ns: Option<u64>) -> Result<Known, Failure> {
    let calibration = told.calibration.map(read).transpose()?;
    let mut elsewhere =
        (calibration.as_ref()).map_or_else(Latencies::default, Calibration::latencies);
    if let Some(latency_ns) = told.wake_latency_ns {
        elsewhere.add(0, latency_ns);
    }
    let elsewhere = (!elsewhere.is_empty()).then_some(elsewhere);
    let calibrated = calibration.and_then(|calibration| calibration.switch_cpu_ns());
    let shortest = shortest_ns.or_else(|| elsewhere.as_ref()?.shortest_sleeps_ns());
    let (switch_cpu_ns, source) = match (told.switch_cpu_ns, calibrated, shortest) {
        (Some(ns), _, _) => (ns, Source::Given),
        (None, Some(ns), _) => (ns, Source::Calibrated),
        (None, None, Some(ns)) => (ns / ASSUMED_SHARE, Source::Assumed),
        (None, None, None) => return Err(nothing_known()),
    };
    Ok(Known {
        switch_cpu_ns,
        source,
        elsewhere,
    })
}

/// The failure that nobody knows what a wake-up costs.
pub(crate) fn nothing_known() -> Failure {
    let error = anyhow!(
        "no vCPU of this capture slept with a known wake-up latency, so what a block costs is not \
         known"
    );
    Failure::new(Exit::Failed, error).hint(
        "measure it with `haltwise-lab calibrate --json > FILE` and give --calibration FILE, or give \
         --wake-latency TIME",
    )
}

fn read(path: &Path) -> Result<Calibration, Failure> {
    let text = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let hint = "`haltwise-lab calibrate --json` writes such files";
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a calibration", path.display()))
        .map_err(|error| Failure::new(Exit::Failed, error).hint(hint))
}
