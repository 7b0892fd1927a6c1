//! Gap and wake-up latency as recorded, against the lab's own clock.
//!
//! Goal: the lab notes when it signalled and when it saw the answer; the recorder notes when the wake
//! event came and when the vCPU ran. Both are medians over the same rounds. The lab's round trip holds
//! more than the recorder's latency: the way from the signal to the wake event, and the guest's way
//! from running to its answer; what these take is measured by rounds that were still polling.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::kept::{Kept, Row};
use super::run::{Programs, number, obstacle};
use crate::{repo, say, tool};

/// Options of the truth benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Round trips in each run
    #[arg(long, default_value_t = 20_000)]
    trips: u32,
    /// Repetitions of each case
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

const CASES: [(&str, &str); 5] = [
    ("fixed:20us", "200us"),
    ("fixed:100us", "200us"),
    ("fixed:50us", "0"),
    ("fixed:300us", "0"),
    ("exp:60us", "0"),
];

/// Measures.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(reason) = obstacle() {
        say::skipped(reason);
        return Ok(());
    }
    let programs = Programs::build()?;
    let mut rows: Vec<Row> = Vec::new();
    let mut summary = format!(
        "medians in us\n{:<12} {:>8} {:>10} {:>10} {:>12} {:>12}\n",
        "gap", "ceiling", "lab gap", "rec. gap", "lab trip", "rec. latency"
    );
    for round in 0..args.rounds {
        for (gap, cap) in CASES {
            let seen = one(&programs, args.trips, gap, cap)?;
            // Writing to a String cannot fail.
            let _written = writeln!(
                summary,
                "{gap:<12} {cap:>8} {:>10.2} {:>10.2} {:>12.2} {:>12.2}",
                seen[0] / 1e3,
                seen[1] / 1e3,
                seen[2] / 1e3,
                seen[3] / 1e3
            );
            let mut row: Row = vec![round.to_string(), gap.into(), cap.into()];
            row.extend(seen.iter().map(|ns| format!("{ns:.0}")));
            rows.push(row);
        }
    }
    for line in summary.lines() {
        say::note(line);
    }
    if !args.discard {
        Kept {
            name: "truth",
            method: "A pingpong guest recorded with `--rung bpf`; the lab's medians of gap (answer to \
                     next signal) and round trip (signal to answer) beside the recorder's medians of \
                     gap (start of halt to wake event) and wake-up latency (wake event until running).",
            columns: &["round", "gap", "cap", "lab_gap_ns", "gap_ns", "lab_trip_ns", "latency_ns"],
            rows: &rows,
            summary: &summary,
        }
        .write()?;
    }
    Ok(())
}

/// Lab's gap, recorder's gap, lab's round trip, recorder's latency: medians in ns.
fn one(programs: &Programs, trips: u32, gap: &str, cap: &str) -> Result<[f64; 4]> {
    let folder = tempfile::tempdir().context("create a folder for the capture")?;
    let lab_json = folder.path().join("lab.json");
    let capture = folder.path().join("capture");
    let trips = trips.to_string();
    tool::ask(
        Command::new("taskset")
            .args(["-c", "0"])
            .arg(&programs.haltwise)
            .args(["record", "-o"])
            .arg(&capture)
            .args([
                "--",
                "sh",
                "-c",
                "out=$1; shift; exec taskset -c 0,1 \"$@\" >\"$out\"",
                "sh",
            ])
            .arg(&lab_json)
            .arg(&programs.lab)
            .args([
                "run", "pingpong", "--json", "--rounds", &trips, "--gap", gap, "--cap", cap,
            ])
            .args(["--pin", "1", "--host-pin", "0", "--host-wait", "spin"]),
    )?;
    let lab = std::fs::read_to_string(&lab_json).context("read what the lab printed")?;
    let lab: Value = serde_json::from_str(&lab).context("read what the lab printed")?;
    // Exact medians: a report's percentiles come from buckets.
    let medians = tool::ask(
        tool::cargo(&repo::root())
            .args([
                "run",
                "--release",
                "--quiet",
                "-p",
                "haltwise-capture",
                "--example",
                "medians",
                "--",
            ])
            .arg(&capture),
    )?;
    let medians: Value = serde_json::from_str(&medians).context("read the medians")?;
    Ok([
        number(&lab, "/vms/0/gap_ns/p50")?,
        number(&medians, "/gap_ns")?,
        number(&lab, "/vms/0/round_trip_ns/p50")?,
        number(&medians, "/wake_latency_ns").unwrap_or(0.0),
    ])
}
