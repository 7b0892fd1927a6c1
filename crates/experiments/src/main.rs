//! `haltwise-experiments`: which ones, where the findings go, progress on stderr.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use haltwise_core::units::Nanos;
use haltwise_experiments::experiment::conduct::{Options, conduct};
use haltwise_experiments::experiment::found::{Report, SCHEMA};
use haltwise_experiments::experiment::recorder::Haltwise;
use haltwise_experiments::experiment::registry::{EXPERIMENTS, find};
use haltwise_experiments::experiment::{Experiment, verdicts};
use haltwise_experiments::render;
use haltwise_lab::event::Interrupt;
use haltwise_lab::program::{self, print};

const EXAMPLES: &str = "\
EXAMPLES:
  haltwise-experiments poll-sweep
  haltwise-experiments dynamic --budget 15s --json
  haltwise-experiments all > experiments.md
  haltwise-experiments --read run.json";

/// Reproduces what a source document reports: reported beside measured here
#[derive(Debug, Parser)]
#[command(version, help_expected = true, after_help = EXAMPLES)]
struct Args {
    /// The experiment, or all of them [default: lists them]
    #[arg(conflicts_with = "read")]
    name: Option<String>,
    /// List what each experiment compares, too
    #[arg(short, long, conflicts_with_all = ["name", "read"])]
    verbose: bool,
    /// Print JSON (schema 1, see docs/lab-experiments-json.md) instead of Markdown
    #[arg(long)]
    json: bool,
    /// Measure nothing: show what an earlier --json printed, judged by this version's rules
    #[arg(long, value_name = "FILE")]
    read: Option<PathBuf>,
    /// Seed of the order of variants and of all loads
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Most time for each experiment, which ends sooner once all of its effects are decided
    #[arg(long, value_name = "TIME", default_value = "2m")]
    budget: Nanos,
    /// Number of rounds, however long they take [default: until all effects are decided]
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// The program that records meanwhile [default: beside this one, else in PATH]
    #[arg(long, value_name = "PATH", conflicts_with = "no_haltwise")]
    haltwise: Option<PathBuf>,
    /// Record nothing meanwhile
    #[arg(long)]
    no_haltwise: bool,
}

impl Args {
    fn options(&self) -> Options {
        Options {
            seed: self.seed,
            budget: self.budget,
            rounds: self.rounds,
            haltwise: if self.no_haltwise {
                Err(anyhow::anyhow!("not wanted (--no-haltwise)"))
            } else {
                Haltwise::find(self.haltwise.as_deref())
            },
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an experiment")]
struct UnknownExperiment(String);

fn main() -> ExitCode {
    program::end(run(&Args::parse()), |error| {
        let unknown = error.is::<UnknownExperiment>();
        unknown.then_some("`haltwise-experiments` lists them all")
    })
}

fn run(args: &Args) -> anyhow::Result<()> {
    let report = match (&args.read, &args.name) {
        (Some(file), _) => read(file)?,
        (None, Some(name)) => measure(args, &named(name)?)?,
        (None, None) => return print(&render::list(args.verbose)),
    };
    print(&if args.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        render::markdown(&report)
    })?;
    let experiments = report.experiments.iter();
    let failed = experiments.filter(|found| found.failed.is_some());
    let failed: Vec<&str> = failed.map(|found| found.name.as_str()).collect();
    anyhow::ensure!(failed.is_empty(), "could not do {}", failed.join(", "));
    Ok(())
}

fn named(name: &str) -> Result<Vec<&'static Experiment>, UnknownExperiment> {
    if name == "all" {
        return Ok(EXPERIMENTS.iter().collect());
    }
    let found = find(name).ok_or_else(|| UnknownExperiment(name.to_owned()))?;
    Ok(vec![found])
}

fn read(file: &Path) -> anyhow::Result<Report> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("read `{name}`"))?;
    let report = serde_json::from_str::<Report>(&text);
    let report = report.with_context(|| format!("`{name}` is not what --json prints"))?;
    let schema = report.schema;
    anyhow::ensure!(
        schema == SCHEMA,
        "`{name}` is of schema {schema}, this program knows {SCHEMA}"
    );
    Ok(verdicts::judge(report))
}

fn measure(args: &Args, experiments: &[&'static Experiment]) -> anyhow::Result<Report> {
    let interrupt = Interrupt::new().context("listen for signals")?;
    let terminal = std::io::stderr().is_terminal();
    let mut last = String::new();
    let report = conduct(experiments, &args.options(), &interrupt, |name, at| {
        // A stderr that takes nothing is no reason to stop measuring.
        if terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K{name}: {at}");
        } else if last != name {
            let _ = writeln!(std::io::stderr(), "{name}");
        }
        name.clone_into(&mut last);
    })?;
    if terminal {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    Ok(report)
}
