//! Every experiment of the lab in one run, kept, and the page that is made of it.
//!
//! Goals: `haltwise-lab experiment all` as anybody can run it, its JSON kept beside README and raw
//! samples, and `docs/experiments.md` written anew from that JSON. Non-goals: measuring or judging
//! anything here; the lab does both.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::kept::{Figures, Kept, Row};
use super::run::{Programs, obstacle};
use crate::{repo, say, tool};

/// Options of the run of all experiments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which experiment; only a run of all of them is kept
    #[arg(long, default_value = "all")]
    only: String,
    /// Seed of orders and loads
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Time for each experiment
    #[arg(long, default_value = "70s")]
    budget: String,
    /// Do not keep the run under measurements/, nor write docs/experiments.md
    #[arg(long)]
    discard: bool,
}

/// What is kept beside the figures: all that the lab printed.
const JSON: &str = "run.json";

/// Runs, prints, keeps, writes the page.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(reason) = obstacle() {
        say::skipped(reason);
        return Ok(());
    }
    let programs = Programs::build()?;
    let json = tool::ask_watched(
        Command::new(&programs.lab)
            .args(["experiment", &args.only, "--json", "--budget", &args.budget])
            .args(["--seed", &args.seed.to_string(), "--haltwise"])
            .arg(&programs.haltwise),
    )?;
    let scratch = tempfile::tempdir().context("make a folder")?;
    let file = scratch.path().join(JSON);
    std::fs::write(&file, &json).context("write what the lab printed")?;
    let shown = |form: &[&str]| shown(&programs, &file, form);
    let summary = shown(&[])?;
    summary.lines().for_each(say::note);
    if args.discard || args.only != "all" {
        return Ok(());
    }
    let report = serde_json::from_str(&json).context("read what the lab printed")?;
    let folder = Kept {
        name: "experiments",
        method: "`haltwise-lab experiment all`: every variant once in each round, in an order drawn \
                 anew, while haltwise records the lab itself. `run.json` is what it printed \
                 (docs/lab-experiments-json.md), and docs/experiments.md is made of it.",
        columns: &["experiment", "group", "variant", "figure", "round", "value"],
        figures: Figures {
            rows: rows(&report),
            summary,
        },
    }
    .write()?;
    std::fs::write(folder.join(JSON), &json).context("keep what the lab printed")?;
    let page = repo::root().join("docs/experiments.md");
    std::fs::write(&page, shown(&["--markdown"])?).context("write docs/experiments.md")?;
    say::note("written: docs/experiments.md");
    Ok(())
}

/// What the lab makes of a run's JSON.
fn shown(programs: &Programs, file: &Path, form: &[&str]) -> Result<String> {
    let mut command = Command::new(&programs.lab);
    tool::ask(command.args(["experiment", "--read"]).arg(file).args(form))
}

/// Every sample, a row each.
fn rows(report: &Value) -> Vec<Row> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().replace(',', ";");
    let mut rows = Vec::new();
    for experiment in list(&report["experiments"]) {
        let figures = list(&experiment["figures"]);
        for variant in list(&experiment["variants"]) {
            for (figure, samples) in figures.iter().zip(list(&variant["samples"])) {
                for (round, value) in list(&samples).iter().enumerate() {
                    rows.push(vec![
                        text(&experiment["name"]),
                        text(&variant["group"]),
                        text(&variant["name"]),
                        text(&figure["name"]),
                        round.to_string(),
                        value
                            .as_f64()
                            .map_or(String::new(), |value| value.to_string()),
                    ]);
                }
            }
        }
    }
    rows
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_sample_is_a_row_and_what_is_missing_is_empty() {
        let report = serde_json::json!({"experiments": [{
            "name": "one",
            "figures": [{"name": "cpu"}, {"name": "latency"}],
            "variants": [{"group": "a, b", "name": "on", "samples": [[1.5, null], [2.0, 3.0]]}],
        }]});
        let cells = |row: &[&str]| row.iter().map(ToString::to_string).collect::<Row>();
        let expected = vec![
            cells(&["one", "a; b", "on", "cpu", "0", "1.5"]),
            cells(&["one", "a; b", "on", "cpu", "1", ""]),
            cells(&["one", "a; b", "on", "latency", "0", "2"]),
            cells(&["one", "a; b", "on", "latency", "1", "3"]),
        ];
        assert_eq!(rows(&report), expected);
    }
}
