//! What `haltwise` says: `tune` of a load that it sees once, `replay` and `report` of a run.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::{Account, GOALS};
use crate::bench::cell;
use crate::bench::loads::Load;
use crate::bench::run::{Programs, number};
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

/// The oracle's account of the halts of a capture, for each goal.
pub(super) fn least(
    programs: &Programs,
    capture: &Path,
    calibration: &Path,
) -> Result<[Account; 3]> {
    let one = |goal: &str| -> Result<Account> {
        let mut replay = Command::new(&programs.haltwise);
        replay.arg("replay").arg(capture).arg("--json");
        replay.args(["--policy", "clairvoyant", "--goal", goal]);
        replay.arg("--calibration").arg(calibration);
        let said: Value =
            serde_json::from_str(&tool::ask(&mut replay)?).context("read the replay")?;
        let halts = number(&said, "/host/halts")?.max(1.0);
        let of = |name: &str| number(&said, &format!("/host/played/0/from_zero/{name}"));
        Ok(Account {
            poll_ns: of("poll_ns")? / halts,
            blocks: of("blocks")? / halts,
            latency_ns: of("latency_ns")? / halts,
        })
    };
    let [density, balanced, latency] = GOALS.map(|(goal, _)| goal);
    Ok([one(density)?, one(balanced)?, one(latency)?])
}

/// Wake-up latency of a halt, as recorded, in nanoseconds.
pub(super) fn latency_ns(programs: &Programs, capture: &Path) -> Result<f64> {
    let mut report = Command::new(&programs.haltwise);
    let said = tool::ask(report.arg("report").arg(capture).arg("--json"))?;
    let said: Value = serde_json::from_str(&said).context("read the report")?;
    let account = |name: &str| number(&said, &format!("/vms/0/account/{name}"));
    Ok(account("parts/wake_latency_ns")? / account("halts")?.max(1.0))
}

/// The module's ceiling in force on this host, in nanoseconds.
pub(super) fn in_force_ns(programs: &Programs) -> Result<u64> {
    let said = Command::new(&programs.haltwise)
        .args(["doctor", "--json"])
        .output();
    let said = said.context("start `haltwise doctor`")?;
    let said: Value = serde_json::from_slice(&said.stdout).context("read what doctor says")?;
    let knobs = said["knobs"].as_array().context("doctor names no knobs")?;
    let ceiling = knobs.iter().find(|knob| knob["name"] == "halt_poll_ns");
    let value = ceiling.and_then(|knob| knob["value"].as_str());
    let value = value.context("doctor does not know halt_poll_ns")?;
    value.parse().context("read halt_poll_ns")
}
