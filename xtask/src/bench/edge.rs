//! A guest that wakes itself a little before, at and after the ceiling: how much of a CPU its polling
//! burns, measured, and as a replay says.
//!
//! Reported for a ceiling of 200 us, grow 2, shrink 0: a guest that wakes every 200 us burns all of its
//! CPU in the host, one that wakes every 210 us about half (49.5 % system, 42.6 % idle). What decides is
//! not the gap but the whole halt: KVM grows a window while halts, wake-up latency included, are shorter
//! than the ceiling (`virt/kvm/kvm_main.c`, `kvm_vcpu_halt`). So the edge lies a wake-up latency below
//! the ceiling for a vCPU that does not poll yet, and at the ceiling for one that does; between the two,
//! and where halts scatter about the ceiling, polling comes and goes.
//!
//! Goals: that edge, from recordings without polling alone. Non-goals: `shrink` 0 measured here, which
//! is the machine's; it is replayed beside what is in force.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use haltwise_core::stats::median_estimate;
use haltwise_core::workload::SplitMix64;
use serde_json::Value;

use super::cell;
use super::kept::{Figures, Kept};
use super::loads::Load;
use super::run::{Programs, bench, number};
use crate::{say, tool};

/// Options of the benchmark of the edge.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Repetitions of every gap
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Wake-ups in each run
    #[arg(long, default_value_t = 4_000)]
    trips: u32,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

/// Gaps between arming a timer and its deadline, as the lab reads them.
const GAPS: [&str; 11] = [
    "fixed:100us",
    "fixed:140us",
    "fixed:150us",
    "fixed:160us",
    "fixed:170us",
    "fixed:180us",
    "fixed:190us",
    "fixed:200us",
    "fixed:210us",
    "fixed:220us",
    "fixed:250us",
];

/// The ceiling: KVM's default on x86, as a cap of the VM.
const CEILING: &str = "200us";

/// What is replayed: the parameters in force, and those of the report.
const POLICIES: [&str; 2] = ["kvm:cap=200us", "kvm:cap=200us,shrink=0"];

/// Columns of the raw figures.
const COLUMNS: [&str; 8] = [
    "gap",
    "round",
    "halt_p50_ns",
    "measured_percent",
    "zero_percent",
    "ceiling_percent",
    "shrink0_zero_percent",
    "shrink0_ceiling_percent",
];

/// One repetition: the median halt without polling, and shares of a CPU in percent.
#[derive(Debug, Clone, Copy)]
struct Round {
    halt_ns: f64,
    measured: f64,
    /// By policy, from no window and from the ceiling.
    said: [[f64; 2]; 2],
}

pub(crate) fn run(args: &Args) -> Result<()> {
    bench(args.discard, |programs| {
        Ok(Kept {
            name: "edge",
            method: "A guest arms a one-shot TSC deadline, halts, and does so again. It is recorded \
                     without polling (--cap 0), and a replay of that recording says what KVM's rule \
                     would burn under a ceiling of 200 us, with the shrink in force and with shrink 0; \
                     then it runs under that ceiling. All shares are of one CPU, over the time in \
                     which the vCPU was seen.",
            columns: &COLUMNS,
            figures: figures(programs, args)?,
        })
    })
}

fn figures(programs: &Programs, args: &Args) -> Result<Figures> {
    let folder = tempfile::tempdir().context("create a folder for the captures")?;
    let calibration = cell::calibrate(programs, folder.path())?;
    let mut all: Vec<Vec<Round>> = vec![Vec::new(); GAPS.len()];
    let mut order = SplitMix64(u64::from(args.rounds));
    for round in 0..args.rounds {
        say::step(&format!("round {} of {}", round + 1, args.rounds));
        let mut cells: Vec<(u64, usize)> =
            (0..GAPS.len()).map(|gap| (order.next_u64(), gap)).collect();
        cells.sort_unstable();
        for (_, gap) in cells {
            let load = Load {
                name: GAPS[gap].into(),
                guest: "tick",
                gap: GAPS[gap].into(),
                round_trips: false,
                wait: "spin",
                fewer: 1,
            };
            all[gap].push(measure(programs, &load, args.trips, &calibration)?);
        }
    }
    Ok(table(&all))
}

fn measure(programs: &Programs, load: &Load, trips: u32, calibration: &Path) -> Result<Round> {
    let folder = tempfile::tempdir().context("create a folder for the captures")?;
    let [off, on] = ["off", "on"].map(|name| folder.path().join(name));
    cell::record(programs, load, Some("0"), trips, &off)?;
    cell::record(programs, load, Some(CEILING), trips, &on)?;
    let replay = |capture: &Path| -> Result<Value> {
        let mut replay = Command::new(&programs.haltwise);
        replay.arg("replay").arg(capture).arg("--json");
        replay.arg("--calibration").arg(calibration);
        for policy in POLICIES {
            replay.args(["--policy", policy]);
        }
        serde_json::from_str(&tool::ask(&mut replay)?).context("read the replay")
    };
    let said = replay(&off)?;
    let start = |policy: usize, start: &str| {
        number(
            &said,
            &format!("/host/played/{policy}/{start}/poll_cpu_percent"),
        )
    };
    let both = |policy| {
        Ok::<_, anyhow::Error>([start(policy, "from_zero")?, start(policy, "from_ceiling")?])
    };
    let mut report = Command::new(&programs.haltwise);
    let text = tool::ask(report.arg("report").arg(&off).arg("--json"))?;
    let report: Value = serde_json::from_str(&text).context("read the report")?;
    Ok(Round {
        halt_ns: number(&report, "/vms/0/account/halt_ns/p50")?,
        measured: number(&replay(&on)?, "/host/recorded/poll_cpu_percent")?,
        said: [both(0)?, both(1)?],
    })
}

fn table(all: &[Vec<Round>]) -> Figures {
    let mut figures = Figures::new(format!(
        "ceiling {CEILING}; share of a CPU that polling burns, in %\n{:<12} {:>10} {:>22} {:>18} {:>18}\n",
        "gap", "halt, us", "measured (spread)", "said: in force", "said: shrink 0"
    ));
    for (gap, rounds) in GAPS.iter().zip(all) {
        for (round, of) in rounds.iter().enumerate() {
            let [zero, ceiling] = of.said[0];
            let [zero0, ceiling0] = of.said[1];
            let percents = [of.measured, zero, ceiling, zero0, ceiling0];
            let mut row = vec![
                (*gap).to_owned(),
                round.to_string(),
                format!("{:.0}", of.halt_ns),
            ];
            row.extend(percents.map(|percent| format!("{percent:.2}")));
            figures.rows.push(row);
        }
        let median = |get: &dyn Fn(&Round) -> f64| {
            let values: Vec<f64> = rounds.iter().map(get).collect();
            median_estimate(&values)
        };
        let Some(measured) = median(&|round| round.measured) else {
            continue;
        };
        let said = |policy: usize| {
            let at = |start: usize| median(&|round| round.said[policy][start]);
            let shown = at(0).zip(at(1)).map(|(zero, ceiling)| {
                let (zero, ceiling) = (zero.median, ceiling.median);
                if (zero - ceiling).abs() < 2.0 {
                    format!("{zero:.1}")
                } else {
                    format!("{zero:.1} or {ceiling:.1}")
                }
            });
            shown.unwrap_or_default()
        };
        let halt = median(&|round| round.halt_ns).map_or(0.0, |it| it.median);
        // Writing to a String cannot fail.
        let _written = writeln!(
            figures.summary,
            "{:<12} {:>10.1} {:>22} {:>18} {:>18}",
            gap,
            halt / 1e3,
            format!(
                "{:.1} ({:.1} to {:.1})",
                measured.median, measured.low, measured.high
            ),
            said(0),
            said(1)
        );
    }
    figures
}
