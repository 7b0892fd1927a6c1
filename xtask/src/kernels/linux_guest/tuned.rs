//! What `tune` chose inside the Linux guest, against the default by measurement: each load was recorded under both. Only
//! where checks are thorough: where BPF programs are attached again and again inside, the emulator ended early or stood
//! still in six of eight boots.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Binaries;
use crate::kernels::witness::Found;

/// What we read of `haltwise replay --json`.
#[derive(Debug, Deserialize)]
struct Replayed {
    host: Host,
}

#[derive(Debug, Deserialize)]
struct Host {
    halts: u64,
    recorded: Costs,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Costs {
    hlt_exits: u64,
    timer_exits: u64,
    ipis: u64,
    poll_ns: u64,
    cost_ns: f64,
}

/// What we read of `haltwise tune --json`.
#[derive(Debug, Deserialize)]
struct Tuned {
    place: String,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    #[serde(rename = "row")]
    name: String,
    cost_ns_per_halt: f64,
    exits_per_s: f64,
}

/// A predicted change of exits that is smaller than this says nothing: a guest has other work, too.
const LEAST: f64 = 0.1;

/// Judges what the guest left in a folder: in nine of ten loads exits become fewer or more as predicted. Costs hang on
/// times, which are not judged here.
pub(super) fn judge(dir: &Path, binaries: &Binaries) -> Found {
    let mut found = Found::default();
    if dir.join("without-governor").exists() {
        "this kernel has no governor haltpoll".clone_into(&mut found.summary);
        return found;
    }
    let mut loads = Vec::new();
    for number in 1.. {
        let dir = dir.join(number.to_string());
        if !dir.is_dir() {
            break;
        }
        match load(&dir, binaries) {
            Ok(load) => loads.push(load),
            Err(error) => found
                .disagreements
                .push(format!("load {number}: {error:#}")),
        }
    }
    let worse: Vec<&Load> = loads.iter().filter(|load| load.is_unlike()).collect();
    if loads.is_empty() || worse.len() * 10 > loads.len() {
        let worse: Vec<String> = worse.iter().map(|load| load.text()).collect();
        found.disagreements.push(format!(
            "exits of {} of {} loads changed unlike predicted: {worse:?}",
            worse.len(),
            loads.len()
        ));
    }
    let texts: Vec<String> = loads.iter().map(Load::text).collect();
    found.summary = texts.join("; ");
    found
}

/// A load under the default and under what was chosen.
#[derive(Debug)]
struct Load {
    name: String,
    place: String,
    /// By how much less, or more, a halt was to cost, as a share.
    predicted: f64,
    /// The same of exits by second.
    exits: f64,
    /// Cost of a halt in nanoseconds, exits, IPIs, time polled, each for one halt.
    each: [[f64; 4]; 2],
}

impl Load {
    /// By how much a figure of each halt changed, as a share.
    fn change(&self, figure: usize) -> f64 {
        self.each[1][figure] / self.each[0][figure] - 1.0
    }

    /// Whether exits became more where they were to become fewer, or the other way round.
    fn is_unlike(&self) -> bool {
        self.exits.abs() >= LEAST && self.exits.signum() * self.change(1) < 0.0
    }

    fn text(&self) -> String {
        let [was, now] = self.each;
        format!(
            "{} ({}): cost {:+.0} % predicted, {:+.0} % measured, exits a halt {:.2} -> {:.2}, IPIs {:.2} -> {:.2}, polled \
             {:.0} -> {:.0} us",
            self.name,
            self.place,
            100.0 * self.predicted,
            100.0 * self.change(0),
            was[1],
            now[1],
            was[2],
            now[2],
            was[3] / 1e3,
            now[3] / 1e3,
        )
    }
}

fn load(dir: &Path, binaries: &Binaries) -> Result<Load> {
    let name = std::fs::read_to_string(dir.join("load"))?;
    let tuned = std::fs::read(dir.join("tune.json"))?;
    let tuned: Tuned = serde_json::from_slice(&tuned).context("understand haltwise tune")?;
    let row = |name: &str| tuned.rows.iter().find(|row| row.name == name);
    // Nothing is set where its host should poll instead.
    let is_set = tuned.place == "guest";
    let chosen = row(if is_set { "choice" } else { "in-force" });
    let (current, chosen) = row("in-force").zip(chosen).context("no such row")?;
    let each = [
        measured(&dir.join("default"), binaries)?,
        measured(&dir.join("tuned"), binaries)?,
    ];
    Ok(Load {
        name: name.trim().to_owned(),
        place: tuned.place,
        predicted: chosen.cost_ns_per_halt / current.cost_ns_per_halt - 1.0,
        exits: chosen.exits_per_s / current.exits_per_s - 1.0,
        each,
    })
}

/// What a halt cost as recorded, by the same prices for both: the block of the emulated machine.
fn measured(capture: &Path, binaries: &Binaries) -> Result<[f64; 4]> {
    let output = Command::new(&binaries.haltwise)
        .args([
            "replay",
            "--json",
            "--switch-cpu",
            "100us",
            "--policy",
            "off",
        ])
        .arg(capture)
        .output()
        .context("start haltwise")?;
    let replayed: Replayed =
        serde_json::from_slice(&output.stdout).context("understand haltwise replay")?;
    let (halts, recorded) = (replayed.host.halts.max(1) as f64, replayed.host.recorded);
    Ok([
        recorded.cost_ns / halts,
        (recorded.hlt_exits + recorded.timer_exits) as f64 / halts,
        recorded.ipis as f64 / halts,
        recorded.poll_ns as f64 / halts,
    ])
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn exits_that_change_the_other_way_are_unlike() {
        for (exits, now, is_unlike) in [
            (-0.5, 0.4, false),
            (-0.5, 1.2, true),
            (0.5, 0.8, true),
            (-0.05, 1.2, false),
            (0.5, 1.0, false),
        ] {
            let load = Load {
                name: String::new(),
                place: "guest".to_owned(),
                predicted: 0.0,
                exits,
                each: [[1.0; 4], [1.0, now, 1.0, 1.0]],
            };
            assert_eq!(load.is_unlike(), is_unlike, "{}", load.text());
        }
    }
}
