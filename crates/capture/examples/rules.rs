//! Cost of rules that choose the window of a halt, on gaps that are drawn from a seed and on recorded ones.
//!
//!     cargo run --release -p haltwise-capture --example rules -- crates/cli/tests/golden/recorded/*
//!
//! Prints a row of CSV for each load and for each vCPU of the recordings with at least [`LEAST_HALTS`] halts: cost as a multiple
//! of the oracle's under each of [`RULES`], under the one setting of KVM's parameters that is best for all rows, and
//! under the setting that is best for the row, chosen in hindsight. A summary follows. All wake-ups of a row take as long. A
//! sleep costs that latency and 0.4 of it in CPU time. Gaps stay as they are, however a halt ends.

#![expect(clippy::print_stdout, reason = "an example prints its figures")]

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use haltwise_capture::capture::Capture;
use haltwise_core::event::{Halt, WakeSource};
use haltwise_core::kvm::{Arch, Knobs, Rule, Version};
use haltwise_core::policy::{Setting, Spec, Start};
use haltwise_core::replay::arrivals::Follow;
use haltwise_core::replay::grid::{Choice, Grid};
use haltwise_core::replay::latency::Table;
use haltwise_core::replay::run::{Frame, LeastCost, Run};
use haltwise_core::replay::session::{Survey, VcpuKey};
use haltwise_core::replay::{Arrivals, Cost, Sample, Sums};
use haltwise_core::workload::Gaps;

const SEED: u64 = 7;
const HALTS: usize = 40_000;
const LEAST_HALTS: usize = 200;
const LATENCIES_US: [u64; 4] = [7, 20, 40, 100];
const RECORDED_LATENCY_NS: u64 = 20_000;
const RUN_NS: u64 = 5_000;

const LOADS: [&str; 13] = [
    "fixed:20us",
    "fixed:125us",
    "fixed:150us",
    "exp:10us",
    "exp:30us",
    "exp:60us",
    "exp:200us",
    "uniform:5us:400us",
    "uniform:1ms:4ms",
    "bimodal:0.8:15us:2ms",
    "bimodal:0.5:30us:300us",
    "phases:12us*2:2ms",
    "phases:20us*200:3ms*50",
];

/// Columns, and the policies that they play. The last one is the unit of all.
const RULES: [(&str, &str); 5] = [
    ("off", "off"),
    ("default", "kvm:knobs=default"),
    ("payback", "payback"),
    ("leader", "leader"),
    ("oracle", "clairvoyant"),
];

const CEILINGS_US: [u32; 12] = [10, 20, 30, 50, 75, 100, 150, 200, 300, 400, 500, 1_000];

struct Row {
    name: String,
    latency_ns: u64,
    samples: Vec<Sample>,
    table: Table,
    follow: Follow,
    cost: Cost,
}

/// Costs of a row as multiples of the oracle's.
struct Ratios {
    rules: Vec<f64>,
    settings: Vec<f64>,
}

fn main() -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for load in LOADS {
        for latency_us in LATENCIES_US {
            let mut gaps = Gaps::new(load.parse()?, SEED)?;
            let gaps_ns: Vec<u64> = (0..HALTS).map(|_| gaps.draw().0).collect();
            rows.extend(Row::new(
                format!("{load} {latency_us}us"),
                &gaps_ns,
                latency_us * 1_000,
            ));
        }
    }
    let drawn = rows.len();
    for directory in std::env::args().skip(1) {
        for (name, gaps_ns) in recorded(Path::new(&directory)).context(directory.clone())? {
            rows.extend(Row::new(name, &gaps_ns, RECORDED_LATENCY_NS));
        }
    }
    let choices = choices();
    let ratios: Vec<Ratios> = (rows.iter())
        .map(|row| row.ratios(&choices))
        .collect::<Result<_, _>>()?;
    print(&rows, &ratios, &choices, drawn);
    Ok(())
}

/// Gaps of each vCPU of a host's capture that halted often enough.
fn recorded(path: &Path) -> anyhow::Result<Vec<(String, Vec<u64>)>> {
    let capture = Capture::open(path)?;
    let mut seats: BTreeMap<VcpuKey, Vec<u64>> = BTreeMap::new();
    for halt in capture.halts()?.filter(|_| capture.info().side.is_host()) {
        let halt = halt?;
        let gap_ns = halt
            .halt_ns
            .saturating_sub(halt.wake_latency_ns.unwrap_or(0));
        seats.entry(VcpuKey::of(&halt)).or_default().push(gap_ns);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let named = |(at, gaps_ns): (usize, Vec<u64>)| (format!("{name} {at}"), gaps_ns);
    let often = seats
        .into_values()
        .filter(|gaps_ns| gaps_ns.len() >= LEAST_HALTS);
    Ok(often.enumerate().map(named).collect())
}

impl Row {
    /// Halts with these gaps, as if they had been recorded without polling.
    fn new(name: String, gaps_ns: &[u64], latency_ns: u64) -> Option<Self> {
        let (mut survey, mut start_ns) = (Survey::default(), 0);
        let halt = |&gap_ns: &u64| {
            let halt = Halt {
                start_ns,
                halt_ns: gap_ns + latency_ns,
                waited: true,
                valid: true,
                window_ns: Some(0),
                poll_ns: Some(0),
                wake_latency_ns: Some(latency_ns),
                wake: WakeSource::Device,
                ..Halt::default()
            };
            start_ns = halt.end_ns() + RUN_NS;
            survey.halt(&halt);
            halt
        };
        let halts: Vec<Halt> = gaps_ns.iter().map(halt).collect();
        let seat = survey.seats().next()?;
        let table = survey.table_of(seat, None)?;
        let sample = |(halt, turn)| Sample::new(halt, &table, turn);
        Some(Self {
            name,
            samples: halts.iter().zip(0..).map(sample).collect(),
            follow: survey.follow(seat, Arrivals::FixedGap),
            cost: Cost {
                switch_cpu_ns: latency_ns * 2 / 5,
                latency_weight_milli: 1_000,
                ..Cost::FREE
            },
            latency_ns,
            table,
        })
    }

    fn ratios(&self, choices: &[Choice]) -> anyhow::Result<Ratios> {
        let costs = RULES.iter().map(|(_, spec)| self.cost_of(&spec.parse()?));
        let costs = costs.collect::<anyhow::Result<Vec<f64>>>()?;
        let oracle = costs.last().copied().unwrap_or(1.0);
        let rule = Rule::of(Version::new(6, 12), Arch::X86);
        let mut grid = Grid::new(rule, choices)?;
        grid.play(&self.samples, &self.table, &self.follow);
        let of = |sums: &Sums| sums.milli(&self.cost) as f64 / oracle;
        Ok(Ratios {
            rules: costs.iter().map(|cost| cost / oracle).collect(),
            settings: grid.tallies().iter().map(of).collect(),
        })
    }

    fn cost_of(&self, spec: &Spec) -> anyhow::Result<f64> {
        let break_even_ns = self.cost.break_even_ns(self.latency_ns);
        let setting = Setting::upstream(Version::new(6, 12), Arch::X86, break_even_ns);
        let mut run = Run::new(spec.build(&setting)?);
        let frame = Frame {
            table: &self.table,
            cost: self.cost,
            follow: self.follow,
        };
        for sample in &self.samples {
            let mut least = run.sees_the_future().then(LeastCost::default);
            run.step_beside(sample, &frame, least.as_mut());
        }
        Ok(Sums::of(run.outcome()).milli(&self.cost) as f64)
    }
}

/// 648 settings of KVM's parameters, and no polling.
fn choices() -> Vec<Choice> {
    let mut choices = vec![choice(0, 2, 10, 2)];
    for ceiling in CEILINGS_US {
        for grow in [1, 2, 4] {
            for first in [2, 5, 10, 20, 50, 100] {
                choices.extend([0, 2, 4].map(|shrink| choice(ceiling, grow, first, shrink)));
            }
        }
    }
    choices
}

/// A setting, its times in microseconds.
fn choice(ceiling: u32, grow: u32, first: u32, shrink: u32) -> Choice {
    let knobs = Knobs {
        halt_poll_ns: ceiling * 1_000,
        grow,
        grow_start: first * 1_000,
        shrink,
    };
    Choice {
        knobs,
        ceiling_ns: knobs.halt_poll_ns,
        start: Start::Zero,
    }
}

fn print(rows: &[Row], ratios: &[Ratios], choices: &[Choice], drawn: usize) {
    let mean_of = |setting: &usize| mean(ratios.iter().map(|row| row.settings[*setting]));
    let best = (0..choices.len()).min_by(|one, other| mean_of(one).total_cmp(&mean_of(other)));
    let best = best.unwrap_or(0);
    let mut columns: Vec<(&str, Vec<f64>)> = (RULES.iter().enumerate())
        .map(|(at, (rule, _))| (*rule, ratios.iter().map(|row| row.rules[at]).collect()))
        .collect();
    columns.insert(
        2,
        (
            "one setting",
            ratios.iter().map(|row| row.settings[best]).collect(),
        ),
    );
    let least = |row: &Ratios| row.settings.iter().copied().fold(f64::INFINITY, f64::min);
    columns.insert(3, ("in hindsight", ratios.iter().map(least).collect()));
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    println!("load,halts,latency_ns,{}", names.join(","));
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<String> = columns
            .iter()
            .map(|(_, of)| format!("{:.3}", of[at]))
            .collect();
        println!(
            "{},{},{},{}",
            row.name,
            row.samples.len(),
            row.latency_ns,
            cells.join(",")
        );
    }
    println!("\nseed {SEED}; one setting: {:?}", choices[best].knobs);
    println!("            geometric mean  of recorded  worst row  over default by 3 %  at most");
    for (name, of) in &columns {
        let worst = of.iter().copied().fold(0.0, f64::max);
        let over: Vec<f64> = (of.iter().zip(&columns[1].1))
            .map(|(own, default)| own / default)
            .collect();
        let most = over.iter().copied().fold(0.0, f64::max);
        let rows = over.iter().filter(|ratio| **ratio > 1.03).count();
        let (all, recorded) = (mean(of.iter().copied()), mean(of[drawn..].iter().copied()));
        println!("{name:<13} {all:>12.3} {recorded:>12.3} {worst:>10.2} {rows:>20} {most:>8.2}");
    }
}

/// The geometric mean.
fn mean(of: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = of.fold((0.0, 0.0), |(sum, count), it| (sum + it.ln(), count + 1.0));
    (sum / f64::max(count, 1.0)).exp()
}
