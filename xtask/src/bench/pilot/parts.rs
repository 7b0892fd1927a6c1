//! What the halts of a VM consisted of while `haltwise record` counted, and what that costs by a goal.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::run::Programs;

/// Goals, and what they give for a nanosecond of latency, in nanoseconds of CPU.
pub(super) const GOALS: [(&str, f64); 3] = [("density", 0.0), ("balanced", 1.0), ("latency", 10.0)];

/// What the halts of one VM consisted of.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    pub(super) seconds: f64,
    pub(super) halts: f64,
    slept: f64,
    poll_ns: f64,
    latency_ns: f64,
}

impl Parts {
    /// Counts for so many seconds, and gives the parts of these VMs.
    pub(super) fn record(
        programs: &Programs,
        seconds: u64,
        capture: &Path,
        names: &[String],
    ) -> Result<Vec<Self>> {
        let record = Command::new(&programs.haltwise)
            .args(["record", "--mode", "counts", "--duration"])
            .args([&format!("{seconds}s"), "-o"])
            .arg(capture)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        if !matches!(record.code(), Some(0 | 5)) {
            bail!("haltwise record ended with {record}");
        }
        let report = Command::new(&programs.haltwise)
            .arg("report")
            .arg(capture)
            .arg("--json")
            .output()?;
        let told: Value = serde_json::from_slice(&report.stdout).context("read the report")?;
        let vms = told["vms"].as_array().context("the report lists VMs")?;
        let of = |name: &String| {
            let vm = vms.iter().find(|vm| vm["name"] == name.as_str());
            let account = &vm.with_context(|| format!("{name} was recorded"))?["account"];
            Ok(Self::of(account, seconds))
        };
        names.iter().map(of).collect()
    }

    fn of(account: &Value, seconds: u64) -> Self {
        let number = |of: &Value| of.as_f64().unwrap_or(0.0);
        let parts = &account["parts"];
        let halts = number(&account["halts"]);
        Self {
            seconds: std::time::Duration::from_secs(seconds).as_secs_f64(),
            halts,
            slept: (halts - number(&account["poll"]["successful"])).max(0.0),
            poll_ns: number(&parts["poll_success_ns"]) + number(&parts["poll_fail_ns"]),
            latency_ns: number(&parts["wake_latency_ns"]),
        }
    }

    /// What they cost, in nanoseconds of CPU; `weight` is that of a nanosecond of latency.
    pub(super) fn cost_ns(&self, switch_cpu_ns: f64, weight: f64) -> f64 {
        self.poll_ns + self.slept * switch_cpu_ns + weight * self.latency_ns
    }

    /// Mean wake-up latency of those that slept.
    pub(super) fn latency_of_a_sleep_ns(&self) -> f64 {
        self.latency_ns / self.slept.max(1.0)
    }
}
