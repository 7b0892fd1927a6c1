//! Options on costs and on gaps of the verbs that replay a capture.

use std::path::PathBuf;

use haltwise_core::replay::Arrivals;
use haltwise_core::units::Nanos;

use super::time;
use crate::costs::Told;

/// Options of several verbs.
#[derive(Debug, clap::Args)]
pub(super) struct Costs {
    /// Output of `haltwise calibrate --json` on the recorded host
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// CPU time of one block and wake-up [default: calibrated, else estimated from
    /// the capture]
    #[arg(long, value_name = "TIME", value_parser = time::nanoseconds)]
    switch_cpu: Option<Nanos>,
    /// Wake-up latency to assume where the capture has none
    #[arg(long, value_name = "TIME", value_parser = time::nanoseconds)]
    wake_latency: Option<Nanos>,
}

impl Costs {
    /// The same, as the replay takes it.
    pub(super) fn told(&self) -> Told<'_> {
        Told {
            calibration: self.calibration.as_deref(),
            switch_cpu_ns: self.switch_cpu.map(|Nanos(ns)| ns),
            wake_latency_ns: self.wake_latency.map(|Nanos(ns)| ns),
        }
    }
}

/// Reads how gaps follow wake-ups.
pub(super) fn reading(text: &str) -> Result<Arrivals, String> {
    let found = Arrivals::ALL
        .into_iter()
        .find(|reading| reading.as_str() == text);
    found.ok_or_else(|| "expected by-source, fixed-gap or fixed-time".to_owned())
}
