//! How much faster Spark plays the captures of a fleet with two tasks at a time than with one, beside plain loops. All
//! have to find the same sums, to the unit.

use anyhow::{Context, Result, ensure};
use haltwise_core::stats::percentile_of_sorted;
use serde_json::Value;
use tempfile::TempDir;

use super::kept::{Figures, Kept};
use crate::{python, repo, say, tool};

/// Options of the Spark benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Captures of the fleet
    #[arg(long, default_value_t = 200)]
    captures: u64,
    /// Halts of each VM; a capture has one to three
    #[arg(long, default_value_t = 5_000)]
    halts: u64,
    /// Rounds; in each, all ways one after the other
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

/// The ways, as the script names them.
const WAYS: [&str; 4] = ["loop", "two loops", "local[1]", "local[2]"];

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = repo::root();
    if tool::find("java").is_none() {
        say::skipped("Spark: java is not installed (tools/setup)");
        return Ok(());
    }
    say::step("install the Python package in an environment of its own");
    let Some(environment) = python::installed(&root, &python::home(), |_, _| Ok(()))? else {
        return Ok(());
    };
    let folder = captures(args)?;
    say::step(&format!("{} rounds", args.rounds));
    let mut script = environment.python();
    script
        .arg(root.join("python/benches/fleet.py"))
        .arg(folder.path())
        .arg(args.rounds.to_string());
    let said = tool::ask(&mut script)?;
    let rounds = said.lines().map(serde_json::from_str);
    let rounds: Vec<Value> = rounds.collect::<Result<_, _>>()?;
    let mut figures = Figures::new(String::new());
    for round in &rounds {
        let text = |name: &str| {
            let value = &round[name];
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        ensure!(
            round["sums"] == rounds[0]["sums"],
            "{} has other sums",
            text("way")
        );
        let halts = round["sums"]["halts"].to_string();
        figures
            .rows
            .push(vec![text("round"), text("way"), text("seconds"), halts]);
    }
    summary(&mut figures, &rounds)?;
    say::note(figures.summary.trim_end());
    if !args.discard {
        let kept = Kept {
            name: "spark",
            method: "Seeded captures (`seeded_captures`), of each the costs of 65 settings, added up: by a loop in one thread, by two \
                     such loops at once with half of the captures each (what two CPUs of the machine gain at most), by Spark with one task at a time, with two. Wall-clock time, without the start of Spark and of its workers. \
                     All ways have the same sums, which is checked.",
            columns: &["round", "way", "seconds", "halts"],
            figures,
        };
        kept.write()?;
    }
    Ok(())
}

fn captures(args: &Args) -> Result<TempDir> {
    let folder = tempfile::tempdir_in(repo::target_dir())?;
    say::step(&format!("make {} captures", args.captures));
    let mut made = tool::cargo(&repo::root());
    made.args(["run", "--quiet", "--profile=demo", "-p", "haltwise-capture"]);
    made.args(["--example", "seeded_captures", "--"])
        .arg(folder.path())
        .args([args.captures.to_string(), args.halts.to_string()]);
    tool::run(&mut made)?;
    Ok(folder)
}

/// Medians, and how much faster two tasks are than one, round by round.
fn summary(figures: &mut Figures, rounds: &[Value]) -> Result<()> {
    let seconds = |way: &str| -> Vec<f64> {
        let of_way = rounds.iter().filter(|round| round["way"] == way);
        of_way
            .filter_map(|round| round["seconds"].as_f64())
            .collect()
    };
    let median = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        percentile_of_sorted(&sorted, 0.5).context("no round was measured")
    };
    for way in WAYS {
        let line = format!("{way:<9} {:6.2} s\n", median(&seconds(way))?);
        figures.summary.push_str(&line);
    }
    for [one, two] in [[WAYS[0], WAYS[1]], [WAYS[2], WAYS[3]]] {
        let (ones, twos) = (seconds(one), seconds(two));
        let ratios: Vec<f64> = ones.iter().zip(&twos).map(|(one, two)| one / two).collect();
        let line = format!(
            "{one} / {two}, round by round: {:.2} (median)\n",
            median(&ratios)?
        );
        figures.summary.push_str(&line);
    }
    Ok(())
}
