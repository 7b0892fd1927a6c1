//! Gap and wake-up latency as recorded, against the lab's own clock.
//!
//! Goal: the lab notes when it signalled and when it saw the answer; the recorder notes when the wake
//! event came and when the vCPU ran. Both are medians over the same rounds. The lab's round trip holds
//! more than the recorder's latency: the way from the signal to the wake event, and the guest's way
//! from running to its answer; what these take is measured by rounds that were still polling.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::kept::{Figures, Kept, Row};
use super::run::{Programs, bench, number, recorded};
use crate::{repo, tool};

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

pub(crate) fn run(args: &Args) -> Result<()> {
    bench(args.discard, |programs| {
        Ok(Kept {
            name: "truth",
            method: "A pingpong guest recorded with `--source bpf`; the lab's medians of gap (answer to \
                     next signal) and round trip (signal to answer) beside the recorder's medians of \
                     gap (start of halt to wake event) and wake-up latency (wake event until running).",
            columns: &[
                "round",
                "gap",
                "cap",
                "lab_gap_ns",
                "gap_ns",
                "lab_trip_ns",
                "latency_ns",
            ],
            figures: figures(programs, args)?,
        })
    })
}

fn figures(programs: &Programs, args: &Args) -> Result<Figures> {
    let mut figures = Figures::new(format!(
        "medians in us\n{:<12} {:>8} {:>10} {:>10} {:>12} {:>12}\n",
        "gap", "ceiling", "lab gap", "rec. gap", "lab trip", "rec. latency"
    ));
    for round in 0..args.rounds {
        for (gap, cap) in CASES {
            let seen = one(programs, args.trips, gap, cap)?;
            let [lab_gap, rec_gap, lab_trip, latency] = seen.map(|ns| ns / 1e3);
            let line = format!(
                "{gap:<12} {cap:>8} {lab_gap:>10.2} {rec_gap:>10.2} {lab_trip:>12.2} {latency:>12.2}"
            );
            let mut row: Row = vec![round.to_string(), gap.into(), cap.into()];
            row.extend(seen.iter().map(|ns| format!("{ns:.0}")));
            figures.add(row, &line);
        }
    }
    Ok(figures)
}

/// Lab's gap, recorder's gap, lab's round trip, recorder's latency: medians in ns.
fn one(programs: &Programs, trips: u32, gap: &str, cap: &str) -> Result<[f64; 4]> {
    let folder = tempfile::tempdir().context("create a folder for the capture")?;
    let capture = folder.path().join("capture");
    let mut record = Command::new("taskset");
    record.args(["-c", "0"]).arg(&programs.haltwise);
    record.args(["record", "-o"]).arg(&capture);
    let trips = trips.to_string();
    let mut guest = vec!["pingpong", "--rounds", &trips, "--gap", gap, "--cap", cap];
    guest.extend(["--pin", "1", "--host-pin", "0", "--host-wait", "spin"]);
    let pin = ["taskset", "-c", "0,1"];
    let (_, lab) = recorded(
        programs,
        tool::ask,
        &mut record,
        &pin,
        &guest,
        folder.path(),
    )?;
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
