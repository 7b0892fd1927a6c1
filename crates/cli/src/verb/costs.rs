//! What the command line says of costs, for the verbs that replay a capture.

use std::path::PathBuf;

use haltwise_core::units::Nanos;

use crate::replay::costs::Told;

/// Options of several verbs.
#[derive(Debug, clap::Args)]
pub(super) struct Costs {
    /// What `haltwise-lab calibrate --json` measured on the recorded host
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// CPU time of one block and wake [default: calibrated, else taken from the capture]
    #[arg(long, value_name = "TIME")]
    switch_cpu: Option<Nanos>,
    /// Wake-up latency where the capture has none
    #[arg(long, value_name = "TIME")]
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
