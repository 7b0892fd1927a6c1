//! Whether anything is lost at the highest rate of halts that this machine can make.
//!
//! Goal: VMs on every CPU, each halting as often as it can, for each source and mode; halts by KVM's own
//! counters against halts in the capture. Non-goal: the guest's speed.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::kept::{Figures, Kept};
use super::run::{Programs, bench, recorded};
use crate::{say, tool};

/// Options of the loss benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long each run lasts
    #[arg(long, default_value = "5s")]
    duration: String,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

/// Guests that halt often: a ring of vCPUs that wake each other, and pingpong without a gap.
const LOADS: [(&str, &[&str]); 3] = [
    (
        "ipi, 2 vCPUs",
        &[
            "ipi",
            "--vcpus",
            "2",
            "--gap",
            "fixed:0ns",
            "--cap",
            "200us",
        ],
    ),
    (
        "pingpong, gap 1 us",
        &[
            "pingpong",
            "--gap",
            "fixed:1us",
            "--cap",
            "200us",
            "--pin",
            "1",
            "--host-pin",
            "0",
        ],
    ),
    (
        "pingpong, 4 VMs",
        &[
            "pingpong",
            "--gap",
            "fixed:1us",
            "--vms",
            "4",
            "--cap",
            "0",
            "--host-wait",
            "block",
        ],
    ),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    bench(args.discard, |programs| {
        Ok(Kept {
            name: "loss",
            method: "The lab's busiest guests under `haltwise record -- haltwise-lab run`. `kvm` is \
                     waits and successful polls by the stats fd; `recorded` is what the recorder says \
                     it wrote (a halt that neither polled nor waited is recorded and counted by no \
                     KVM counter); `lost` is what it says it lost.",
            columns: &[
                "load",
                "rung",
                "mode",
                "halts_per_s",
                "kvm",
                "recorded",
                "lost",
            ],
            figures: figures(programs, &args.duration)?,
        })
    })
}

fn figures(programs: &Programs, duration: &str) -> Result<Figures> {
    let mut figures = Figures::new(format!(
        "{:<20} {:<18} {:>10} {:>10} {:>10} {:>7}\n",
        "load", "recorder", "halts/s", "kvm saw", "recorded", "lost"
    ));
    for (load, guest) in LOADS {
        for (rung, mode) in [("bpf", "full"), ("bpf", "counts"), ("tracepoints", "full")] {
            say::step(&format!("{load}, {rung} {mode}"));
            let seen = one(programs, guest, duration, rung, mode)?;
            let line = format!(
                "{load:<20} {:<18} {:>10.0} {:>10} {:>10} {:>7}",
                format!("{rung} {mode}"),
                seen.rate,
                seen.kvm,
                seen.recorded,
                seen.lost,
            );
            let row = vec![
                format!("\"{load}\""),
                rung.into(),
                mode.into(),
                format!("{:.0}", seen.rate),
                seen.kvm.to_string(),
                seen.recorded.to_string(),
                seen.lost.to_string(),
            ];
            figures.add(row, &line);
        }
    }
    Ok(figures)
}

struct Seen {
    rate: f64,
    kvm: u64,
    recorded: u64,
    lost: u64,
}

fn one(
    programs: &Programs,
    guest: &[&str],
    duration: &str,
    rung: &str,
    mode: &str,
) -> Result<Seen> {
    let folder = tempfile::tempdir().context("create a folder for the capture")?;
    let mut record = Command::new(&programs.haltwise);
    record.args(["record", "--json", "--source", rung, "--mode", mode, "-o"]);
    record.arg(folder.path().join("capture"));
    let guest = [&["--duration", duration], guest].concat();
    let (text, lab) = recorded(
        programs,
        ask_partial,
        &mut record,
        &[],
        &guest,
        folder.path(),
    )?;
    let summary: Value = serde_json::from_str(&text).context("read the recorder's summary")?;
    let kvm = halts_by_kvm(&lab);
    let elapsed = lab["elapsed_ns"].as_f64().unwrap_or(1.0) / 1e9;
    let lost = summary["lost"]
        .as_object()
        .map_or(0, |lost| lost.values().filter_map(Value::as_u64).sum());
    Ok(Seen {
        rate: kvm as f64 / elapsed,
        kvm,
        recorded: summary["halts"].as_u64().unwrap_or(0),
        lost,
    })
}

/// stdout of a recorder, whose exit code 5 says only that something was lost.
fn ask_partial(record: &mut Command) -> Result<String> {
    let output = record.output().context("start haltwise record")?;
    if !matches!(output.status.code(), Some(0 | 5)) {
        return tool::ask(record);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Waits and successful polls of all vCPUs, by the stats fd.
fn halts_by_kvm(lab: &Value) -> u64 {
    let vms = lab["vms"].as_array().into_iter().flatten();
    vms.flat_map(|vm| vm["vcpus"].as_array().into_iter().flatten())
        .map(|vcpu| {
            let waits = vcpu["hist"]["halt_wait_hist"]
                .as_array()
                .into_iter()
                .flatten();
            let waits: u64 = waits.filter_map(Value::as_u64).sum();
            waits + vcpu["stats"]["halt_successful_poll"].as_u64().unwrap_or(0)
        })
        .sum()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn kvms_count_is_waits_and_successful_polls_of_every_vcpu() {
        let vcpu = |waits: [u64; 2], polls| serde_json::json!({"hist": {"halt_wait_hist": waits}, "stats": {"halt_successful_poll": polls}});
        let lab = serde_json::json!({"vms": [
            {"vcpus": [vcpu([1, 2], 3)]},
            {"vcpus": [vcpu([0, 4], 0), vcpu([5, 0], 6)]},
        ]});
        assert_eq!(halts_by_kvm(&lab), 21);
    }
}
