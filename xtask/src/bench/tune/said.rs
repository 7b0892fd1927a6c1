//! What `haltwise tune` says of a load that it sees once.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::GOALS;
use crate::bench::cell;
use crate::bench::loads::Load;
use crate::bench::run::Programs;
use crate::tool;

/// Recommendations, goal by goal in the order of [`GOALS`].
#[derive(Debug)]
pub(super) struct Said {
    /// The ceiling in force.
    pub(super) in_force_ns: u64,
    /// What a block costs, by the calibration.
    pub(super) switch_cpu_ns: f64,
    /// One for each goal.
    pub(super) goals: Vec<Recommended>,
}

/// The setting that should stand.
#[derive(Debug)]
pub(super) struct Recommended {
    /// Its ceiling.
    pub(super) ceiling_ns: u64,
    /// In a word, why.
    pub(super) verdict: String,
    /// By how much it changes the cost, as a share of it, as predicted.
    pub(super) cost_share: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Tune {
    in_force: Setting,
    basis: Basis,
    played: Played,
}

#[derive(Debug, Deserialize)]
struct Basis {
    switch_cpu_ns: f64,
}

#[derive(Debug, Deserialize)]
struct Played {
    goals: Vec<Advice>,
}

#[derive(Debug, Deserialize)]
struct Advice {
    goal: Name,
    verdict: String,
    setting: Setting,
    cost_share: Option<Share>,
}

#[derive(Debug, Deserialize)]
struct Name {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Setting {
    halt_poll_ns: u64,
}

#[derive(Debug, Deserialize)]
struct Share {
    value: f64,
}

/// Records a load under the setting in force, and asks.
pub(super) fn ask(
    programs: &Programs,
    load: &Load,
    trips: u32,
    calibration: &Path,
    folder: &Path,
) -> Result<Said> {
    let capture = folder.join("seen");
    cell::record(programs, load, None, trips, &capture)?;
    let mut tune = Command::new(&programs.haltwise);
    tune.arg("tune").arg(&capture);
    tune.args(["--ceiling-only", "--json", "--calibration"])
        .arg(calibration);
    let text = tool::ask(&mut tune)?;
    std::fs::remove_dir_all(&capture).context("remove a capture")?;
    let tuned: Tune = serde_json::from_str(&text).context("read what tune says")?;
    let mut goals = Vec::new();
    for (name, _) in GOALS {
        let Some(goal) = tuned.played.goals.iter().find(|it| it.goal.name == name) else {
            bail!("tune says nothing of the goal {name}");
        };
        goals.push(Recommended {
            ceiling_ns: goal.setting.halt_poll_ns,
            verdict: goal.verdict.clone(),
            cost_share: goal.cost_share.as_ref().map(|share| share.value),
        });
    }
    Ok(Said {
        in_force_ns: tuned.in_force.halt_poll_ns,
        switch_cpu_ns: tuned.basis.switch_cpu_ns,
        goals,
    })
}
