//! What `haltwise tune` recommends, against every other ceiling as measured.
//!
//! Goals: for each load and goal, the recommended ceiling measured beside the one in force, no polling,
//! and a sweep of ceilings, interleaved and repeated, beside what can be gained at all: the oracle's
//! cost, and the law of [`haltwise_core::tune::gain`]. `tune` sees one capture, made under the setting in
//! force, and nothing of the sweep. Non-goals: the module's other parameters, which belong to the
//! machine: only ceilings of VMs (`KVM_CAP_HALT_POLL`) are varied, and `tune` is asked for no more.

mod chosen;
mod judged;
mod rounds;
mod said;
mod table;

use std::path::Path;

use anyhow::{Context, Result};
use haltwise_core::workload::SplitMix64;

use self::chosen::Costs;
use self::rounds::Time;
use self::said::Said;
use super::cell::{self, Measured};
use super::kept::{Figures, Kept};
use super::loads::Load;
use super::run::{Programs, bench};

/// Options of the tuning benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Repetitions of every load under every ceiling
    #[arg(long, default_value_t = 4)]
    rounds: u32,
    /// Repetitions at most where an interval straddles a line
    #[arg(long, default_value_t = 24)]
    most_rounds: u32,
    /// Time in which the last run begins, the build not included
    #[arg(long, default_value_t = 24)]
    minutes: u32,
    /// Time of the guest in each run, in milliseconds
    #[arg(long, default_value_t = 400)]
    run: u32,
    /// Time of the guest in the capture that `tune` sees, in milliseconds
    #[arg(long, default_value_t = 3_000)]
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

/// What a halt took on average. Times in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Account {
    poll_ns: f64,
    /// Share of the halts that slept.
    blocks: f64,
    latency_ns: f64,
}

impl Account {
    /// Cost of a halt in nanoseconds for a goal by its place, as `core::replay::Cost` has it.
    fn cost_ns(&self, switch_cpu_ns: f64, goal: usize) -> f64 {
        self.poll_ns + self.blocks * switch_cpu_ns + GOALS[goal].1 * self.latency_ns
    }
}

/// One run under one ceiling.
#[derive(Debug, Clone, Copy)]
struct Run {
    round: u32,
    halts: f64,
    account: Account,
    /// The oracle's on the same halts, for each goal; of runs without polling, which show every
    /// sleep.
    least: Option<[Account; 3]>,
    trip_ns: Option<[f64; 2]>,
}

/// All runs of a load under one ceiling.
struct Ceiling {
    ns: u64,
    runs: Vec<Run>,
}

struct Tuned {
    load: Load,
    said: Said,
    /// What a halt costs that sleeps, for each goal, as calibrated.
    break_even_ns: [f64; 3],
    ceilings: Vec<Ceiling>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    bench(args.discard, |programs| {
        Ok(Kept {
            name: "tune",
            method: table::METHOD,
            columns: &table::COLUMNS,
            figures: figures(programs, args)?,
        })
    })
}

fn figures(programs: &Programs, args: &Args) -> Result<Figures> {
    let folder = tempfile::tempdir().context("create a folder for the captures")?;
    let time = Time::of_minutes(args.minutes);
    time.say("calibrate");
    let calibration = cell::calibrate(programs, folder.path())?;
    let bench = Bench {
        programs,
        args,
        costs: Costs::read(&calibration)?,
        calibration: &calibration,
        folder: folder.path(),
    };
    let mut all = bench.ask(&time)?;
    let mut order = SplitMix64(u64::from(args.rounds));
    for round in 0..args.most_rounds.max(args.rounds) {
        let (cells, what) = if round < args.rounds {
            (rounds::whole(&all), format!("of {}", args.rounds))
        } else {
            let undecided: usize = all.iter().map(|it| rounds::undecided(it).len()).sum();
            (
                rounds::contested(&all),
                format!("for {undecided} undecided"),
            )
        };
        if cells.is_empty() || time.is_over() {
            break;
        }
        let runs = cells.len();
        time.say(&format!("round {} {what}, {runs} runs", round + 1));
        for (load, ceiling) in rounds::shuffled(cells, &mut order) {
            if time.is_over() {
                break;
            }
            let run = bench.measure(&all[load], ceiling, round)?;
            all[load].ceilings[ceiling].runs.push(run);
        }
    }
    Ok(table::figures(&all))
}

/// What a round of a guest takes beside its gap, in nanoseconds: exits that KVM emulates and the host's
/// answer, some 50 us here. It only decides how many rounds make up a run.
const BESIDE_NS: u64 = 50_000;

/// No run is shorter than this many rounds.
const FEWEST: u64 = 500;

/// What all runs have in common.
struct Bench<'a> {
    programs: &'a Programs,
    args: &'a Args,
    costs: Costs,
    calibration: &'a Path,
    folder: &'a Path,
}

impl Bench<'_> {
    /// Records every load once and asks `tune`.
    fn ask(&self, time: &Time) -> Result<Vec<Tuned>> {
        let only = self.args.only.as_ref();
        let wanted = |load: &Load| only.is_none_or(|only| load.name.contains(only.as_str()));
        let mut all: Vec<Tuned> = Vec::new();
        let in_force_ns = said::in_force_ns(self.programs)?;
        let loads = self.costs.loads(in_force_ns);
        for load in loads.into_iter().filter(wanted) {
            time.say(&format!("tune {} ({})", load.name, load.gap));
            let trips = trips(&load, self.args.seen)?;
            let said = said::ask(self.programs, &load, trips, self.calibration, self.folder)?;
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
                said,
                break_even_ns: self.costs.of_load(&load)?,
                ceilings: all_ns.into_iter().map(ceiling).collect(),
                load,
            });
        }
        Ok(all)
    }

    /// One run of a load under one of its ceilings.
    fn measure(&self, tuned: &Tuned, ceiling: usize, round: u32) -> Result<Run> {
        let (load, ns) = (&tuned.load, tuned.ceilings[ceiling].ns);
        let folder = tempfile::tempdir().context("create a folder for the capture")?;
        let capture = folder.path().join("capture");
        let trips = trips(load, self.args.run)?;
        let cap = format!("{ns}ns");
        let Measured {
            halts,
            per_halt,
            trip_ns,
        } = cell::record(self.programs, load, Some(&cap), trips, &capture)?;
        let least = (ns == 0).then(|| said::least(self.programs, &capture, self.calibration));
        Ok(Run {
            round,
            halts,
            account: Account {
                poll_ns: per_halt.poll_ns,
                blocks: per_halt.blocks,
                latency_ns: said::latency_ns(self.programs, &capture)?,
            },
            least: least.transpose()?,
            trip_ns,
        })
    }
}

/// How many rounds of a load fill so many milliseconds, as [`cell::record`] takes them.
fn trips(load: &Load, millis: u32) -> Result<u32> {
    let round_ns = chosen::mean_gap_ns(load)? + BESIDE_NS;
    let rounds = (u64::from(millis) * 1_000_000 / round_ns).max(FEWEST);
    Ok(u32::try_from(rounds)?.saturating_mul(load.fewer))
}
