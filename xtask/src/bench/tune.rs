//! What `haltwise tune` recommends, against every other ceiling as measured.
//!
//! Goals: for each load and goal, the recommended ceiling measured beside the one in force, no polling,
//! and a sweep of ceilings, interleaved and repeated. `tune` sees one capture, made under the setting in
//! force, and nothing of the sweep. Non-goals: the module's other parameters, which belong to the
//! machine: only ceilings of VMs (`KVM_CAP_HALT_POLL`) are varied, and `tune` is asked for no more.

mod said;
mod table;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use haltwise_core::workload::SplitMix64;
use serde_json::Value;

use self::said::Said;
use super::cell::{self, Measured};
use super::kept::{Figures, Kept};
use super::loads::{LOADS, Load};
use super::run::{Programs, bench, number};
use crate::{say, tool};

/// Options of the tuning benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Repetitions of every load under every ceiling
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Rounds of the guest in each run
    #[arg(long, default_value_t = 2_000)]
    trips: u32,
    /// Rounds of the guest in the capture that `tune` sees
    #[arg(long, default_value_t = 20_000)]
    seen: u32,
    /// Only the loads whose name holds this
    #[arg(long)]
    only: Option<String>,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

/// Ceilings of the sweep in nanoseconds; that in force and the recommended ones come to them.
const SWEEP_NS: [u64; 11] = [
    0, 10_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000, 200_000, 300_000, 500_000,
];

/// Goals and what they give for a nanosecond of latency, in nanoseconds of CPU.
const GOALS: [(&str, f64); 3] = [("density", 0.0), ("balanced", 1.0), ("latency", 10.0)];

/// One run under one ceiling, by halt.
#[derive(Debug, Clone, Copy)]
struct Run {
    halts: f64,
    poll_ns: f64,
    blocks: f64,
    latency_ns: f64,
    trip_ns: Option<[f64; 2]>,
}

impl Run {
    /// Cost of a halt in nanoseconds, as `core::replay::Cost` has it.
    fn cost_ns(&self, switch_cpu_ns: f64, lambda: f64) -> f64 {
        self.poll_ns + self.blocks * switch_cpu_ns + lambda * self.latency_ns
    }
}

/// All runs of a load under one ceiling, one to a round.
struct Ceiling {
    ns: u64,
    runs: Vec<Run>,
}

/// All of one load.
struct Tuned<'a> {
    load: &'a Load,
    said: Said,
    ceilings: Vec<Ceiling>,
}

/// Measures.
pub(crate) fn run(args: &Args) -> Result<()> {
    bench(args.discard, |programs| {
        Ok(Kept {
            name: "tune",
            method: "Each load of the lab is recorded once under the ceiling in force; `haltwise tune \
                     --ceiling-only` recommends a ceiling for each goal from that capture. Then every \
                     load runs under every ceiling of a sweep, the one in force and the recommended \
                     ones among them (KVM_CAP_HALT_POLL), in an order drawn anew in each round. Polling \
                     and blocks are KVM's own counters, wake-up latency is the recorder's; a block \
                     costs what `haltwise-lab calibrate` measured in the same run.",
            columns: &table::COLUMNS,
            figures: figures(programs, args)?,
        })
    })
}

fn figures(programs: &Programs, args: &Args) -> Result<Figures> {
    let folder = tempfile::tempdir().context("create a folder for the captures")?;
    let wanted = |load: &&Load| {
        let only = args.only.as_ref();
        only.is_none_or(|only| load.name.contains(only.as_str()))
    };
    let calibration = cell::calibrate(programs, folder.path())?;
    let mut all = Vec::new();
    for load in LOADS.iter().filter(wanted) {
        say::step(&format!("tune {}", load.name));
        let said = said::ask(programs, load, args.seen, &calibration, folder.path())?;
        let mut all_ns: Vec<u64> = SWEEP_NS.to_vec();
        all_ns.push(said.in_force_ns);
        all_ns.extend(said.goals.iter().map(|goal| goal.ceiling_ns));
        all_ns.sort_unstable();
        all_ns.dedup();
        let ceiling = |ns| Ceiling {
            ns,
            runs: Vec::new(),
        };
        all.push(Tuned {
            load,
            said,
            ceilings: all_ns.into_iter().map(ceiling).collect(),
        });
    }
    let mut order = SplitMix64(u64::from(args.rounds));
    for round in 0..args.rounds {
        say::step(&format!("round {} of {}", round + 1, args.rounds));
        let mut cells: Vec<(u64, usize, usize)> = Vec::new();
        for (load, tuned) in all.iter().enumerate() {
            let ceilings = 0..tuned.ceilings.len();
            cells.extend(ceilings.map(|ceiling| (order.next_u64(), load, ceiling)));
        }
        cells.sort_unstable();
        for (_, load, ceiling) in cells {
            let tuned = &mut all[load];
            let run = measure(programs, tuned.load, tuned.ceilings[ceiling].ns, args.trips)?;
            tuned.ceilings[ceiling].runs.push(run);
        }
    }
    Ok(table::figures(&all))
}

/// One run under one ceiling.
fn measure(programs: &Programs, load: &Load, ns: u64, trips: u32) -> Result<Run> {
    let folder = tempfile::tempdir().context("create a folder for the capture")?;
    let capture = folder.path().join("capture");
    let cap = format!("{ns}ns");
    let measured = cell::record(programs, load, Some(&cap), trips, &capture)?;
    let Measured {
        halts,
        per_halt,
        trip_ns,
    } = measured;
    Ok(Run {
        halts,
        poll_ns: per_halt.poll_ns,
        blocks: per_halt.blocks,
        latency_ns: latency_ns(programs, &capture)?,
        trip_ns,
    })
}

/// Wake-up latency of a halt, as recorded.
fn latency_ns(programs: &Programs, capture: &Path) -> Result<f64> {
    let mut report = Command::new(&programs.haltwise);
    let said = tool::ask(report.arg("report").arg(capture).arg("--json"))?;
    let said: Value = serde_json::from_str(&said).context("read the report")?;
    let account = |name: &str| number(&said, &format!("/vms/0/account/{name}"));
    Ok(account("parts/wake_latency_ns")? / account("halts")?.max(1.0))
}
