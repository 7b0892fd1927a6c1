//! What ceilings of single VMs save over the best setting for all: three unlike VMs on one host, as `tune` predicts
//! from one capture and as `prove` measures the plan against that best setting.
//!
//! Goals: one for all VMs, and a goal for each VM. Only ceilings are set, so that the host's parameters stay as they
//! are: the best setting for all is the best ceiling that all have.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::kept::{Figures, Kept, Row};
use super::run::{Programs, bench};
use crate::say;

/// Options of this benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds of each proof
    #[arg(long, default_value_t = 12)]
    rounds: u32,
    /// Length of the capture that `tune` sees
    #[arg(long, default_value = "15s")]
    seen: String,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

/// VMs that wake themselves: their gaps do not depend on what other threads of the host get. The first waits for gaps
/// in the order of its ceiling, the second for gaps of all lengths, the third ticks.
const VMS: [(&str, &str); 3] = [
    ("web", "exp:80us"),
    ("batch", "uniform:20us:300us"),
    ("idle", "fixed:1ms"),
];

/// What is wanted, and how `tune` is told.
const GOALS: [(&str, &[&str]); 4] = [
    ("density", &["--goal", "density"]),
    ("balanced", &["--goal", "balanced"]),
    ("latency", &["--goal", "latency"]),
    (
        "a goal for each VM",
        &["--goal", "density", "--goal", "web=latency"],
    ),
];

const COLUMNS: [&str; 9] = [
    "goal",
    "current_ns",
    "one_ns",
    "own_ns",
    "oracle_ns",
    "ceilings_ns",
    "a_ns",
    "b_ns",
    "within",
];

/// The VMs, which end with it.
struct Vms(Vec<Child>);

impl Vms {
    fn start(programs: &Programs) -> Result<Self> {
        let mut vms = Self(Vec::new());
        for (seed, (name, gap)) in VMS.iter().enumerate() {
            let child = Command::new(&programs.lab)
                .args(["run", "tick", "--name", name, "--gap", gap, "--seed"])
                .arg((seed + 1).to_string())
                .args(["--duration", "3600s"])
                .stdout(Stdio::null())
                .spawn()
                .with_context(|| format!("start VM {name}"))?;
            vms.0.push(child);
        }
        std::thread::sleep(Duration::from_secs(2));
        Ok(vms)
    }
}

impl Drop for Vms {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended has nothing to be killed.
            let _killed = child.kill();
            let _ended = child.wait();
        }
    }
}

/// What haltwise prints, also where it says that something is missing (5).
fn haltwise(programs: &Programs, arguments: &[&str]) -> Result<String> {
    let output = Command::new(&programs.haltwise).args(arguments).output()?;
    if !matches!(output.status.code(), Some(0 | 5)) {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("haltwise {}: {}", arguments.join(" "), stderr.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(crate) fn run(args: &Args) -> Result<()> {
    bench(args.discard, |programs| {
        let folder = tempfile::tempdir().context("create a folder for the captures")?;
        let vms = Vms::start(programs)?;
        let capture = folder.path().join("cap");
        let capture = capture.to_str().context("a folder with a plain name")?;
        say::step("record");
        haltwise(
            programs,
            &["record", "--duration", &args.seen, "-o", capture],
        )?;
        let mut figures = Figures::new(head());
        for (name, goal) in GOALS {
            say::step(name);
            let (row, line) = of_goal(programs, args, folder.path(), capture, name, goal)?;
            figures.add(row, &line);
        }
        drop(vms);
        Ok(Kept {
            name: "ceilings",
            method: "Three VMs of the lab (tick with gaps exp:80us, uniform:20us:300us and fixed:1ms). What a halt costs, \
                     by each VM's goal: as recorded, under the best one ceiling for all, with ceilings of their own, under \
                     the oracle, all by replay of one capture; and measured by `prove`, the best one ceiling (A) against \
                     the plan (B). Where no ceilings are worth a plan, nothing is measured.",
            columns: &COLUMNS,
            figures,
        })
    })
}

/// Tunes, and proves the plan if there is one.
fn of_goal(
    programs: &Programs,
    args: &Args,
    folder: &Path,
    capture: &str,
    name: &str,
    goal: &[&str],
) -> Result<(Row, String)> {
    let plan = folder.join(format!("{}.plan.json", name.replace(' ', "-")));
    let plan = plan.to_str().context("a folder with a plain name")?;
    let tune = ["tune", capture, "--ceiling-only", "--json", "--plan", plan];
    let tuned: Value = serde_json::from_str(&haltwise(programs, &[&tune[..], goal].concat())?)?;
    let own = &tuned["played"]["caps"];
    let costs =
        ["current_ns", "one_ns", "own_ns", "oracle_ns"].map(|cost| own["costs"][cost].as_f64());
    let [Some(_), Some(one), Some(with), Some(oracle)] = costs else {
        return Ok((
            vec![name.to_owned()],
            format!("{name:<20} no ceilings are considered"),
        ));
    };
    let ceilings: Vec<String> = (own["vms"].as_array().into_iter().flatten())
        .map(|vm| vm["ceiling_ns"].to_string())
        .collect();
    let mut row = vec![name.to_owned()];
    row.extend(costs.iter().flatten().map(|cost| format!("{cost:.0}")));
    row.push(ceilings.join("/"));
    let predicted = format!(
        "{name:<20} {one:>9.0} {with:>9.0} {oracle:>9.0} {:>6.0} %",
        100.0 * (one - with) / (one - oracle)
    );
    if !own["withheld"].is_null() {
        let line = format!("{predicted}   not in the plan: {}", own["withheld"]);
        return Ok((row, line));
    }
    let common = format!("kvm:max={}ns", own["one_setting"]["halt_poll_ns"]);
    let rounds = args.rounds.to_string();
    let names = VMS.iter().flat_map(|(name, _)| ["--vm", name]);
    let prove = [
        "prove",
        "--plan",
        plan,
        "--a",
        &common,
        "--rounds",
        &rounds,
        "--duration",
        "1s",
    ];
    let more = ["--ledger", "/dev/null", "--yes", "--json"];
    let arguments: Vec<&str> = prove.into_iter().chain(more).chain(names).collect();
    let proof: Value = serde_json::from_str(&haltwise(programs, &arguments)?)?;
    let (a, b, within) = measured(&proof).context("a proof without figures of its VMs")?;
    row.extend([format!("{a:.0}"), format!("{b:.0}"), within.clone()]);
    let line = format!(
        "{predicted} {a:>9.0} {b:>9.0} {:>6.0} %   {within}",
        100.0 * (a - b) / (one - oracle)
    );
    Ok((row, line))
}

/// What a halt cost under A and under B, all VMs together, and in how many VMs the difference was as predicted.
fn measured(proof: &Value) -> Option<(f64, f64, String)> {
    let scopes = proof["scopes"].as_array()?;
    let sum = |of: &str| -> Option<f64> {
        let each = scopes
            .iter()
            .map(|scope| Some(scope[of].as_f64()? * scope["halts"].as_f64()?));
        each.sum()
    };
    let halts: f64 = scopes
        .iter()
        .filter_map(|scope| scope["halts"].as_f64())
        .sum();
    let within = scopes
        .iter()
        .filter(|scope| scope["within"] == true)
        .count();
    Some((
        sum("a")? / halts,
        sum("b")? / halts,
        format!("{within} of {}", scopes.len()),
    ))
}

fn head() -> String {
    format!(
        "cost of a halt in ns       predicted                        measured\n{:<20} {:>9} {:>9} {:>9} {:>8} {:>9} {:>9} {:>8}   as predicted\n",
        "goal", "one", "own", "oracle", "saved", "one (A)", "own (B)", "saved"
    )
}

#[cfg(test)]
mod test {
    use super::*;
    use serde_json::json;

    #[test]
    fn vms_count_by_their_halts() {
        let scope = |halts, a, b, within| json!({"halts": halts, "a": a, "b": b, "within": within});
        let proof = json!({"scopes": [scope(300, 10.0, 8.0, true), scope(100, 50.0, 52.0, false)]});
        let (a, b, within) = measured(&proof).unwrap();
        assert_eq!((a, b, &*within), (20.0, 19.0, "1 of 2"));
        assert!(measured(&json!({})).is_none());
    }
}
