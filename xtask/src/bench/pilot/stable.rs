//! What the pilot chooses for each load while nothing changes, measured against the ceiling it found and static ceilings:
//! one VM, second by second under each in a drawn order.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::kept::Figures;
use super::super::run::Programs;
use super::drawn::{Drawn, against, median};
use super::parts::{GOALS, Parts};
use super::phases::{BUSY, LOADS};
use super::{Args, Calibrated, Ends, row};
use crate::say;

/// Static ceilings beside the one found and those chosen, in nanoseconds.
const SWEEP_NS: [u64; 4] = [0, 30_000, 80_000, 400_000];

/// The VM that is measured under each ceiling.
const STABLE: &str = "stable";

pub(super) fn measure(
    programs: &Programs,
    args: &Args,
    calibrated: &Calibrated,
    folder: &Path,
    figures: &mut Figures,
) -> Result<()> {
    figures.summary.push_str(
        "stable: load      goal       found    chosen   (ns) chosen against found         against the best, in other rounds\n",
    );
    for (load, gap) in LOADS {
        if load == BUSY {
            continue;
        }
        let mut chosen = Vec::new();
        for (goal, weight) in GOALS {
            say::step(&format!("stable {load}, goal {goal}"));
            let choice = choose(programs, args, calibrated, (load, gap), goal)?;
            chosen.push((goal, weight, choice));
        }
        say::step(&format!("stable {load}, under each ceiling"));
        let mut ceilings_ns: Vec<u64> = SWEEP_NS.to_vec();
        for (_, _, choice) in &chosen {
            ceilings_ns.extend([choice.found_ns, choice.chosen_ns]);
        }
        ceilings_ns.sort_unstable();
        ceilings_ns.dedup();
        let vm = start(programs, STABLE, gap)?;
        super::wait(2);
        let rounds = args.stable_rounds;
        let settings = Drawn::under(&ceilings_ns, &[STABLE]);
        let drawn = Drawn::new(programs, folder, rounds, &settings, &[STABLE.to_owned()])?;
        drop(vm);
        let swept = Swept { ceilings_ns, drawn };
        for (goal, weight, choice) in chosen {
            let cost = |parts: &Parts| {
                parts.cost_ns(calibrated.switch_cpu_ns, weight) / parts.halts.max(1.0)
            };
            tell(figures, load, goal, &choice, &swept, &cost);
        }
    }
    Ok(())
}

/// One VM under each ceiling.
struct Swept {
    ceilings_ns: Vec<u64>,
    drawn: Drawn,
}

/// What the pilot found, and came to.
struct Choice {
    found_ns: u64,
    chosen_ns: u64,
    state: String,
    own_percent: f64,
}

/// Runs the pilot beside a VM of its own until it has decided.
fn choose(
    programs: &Programs,
    args: &Args,
    calibrated: &Calibrated,
    (load, gap): (&str, &str),
    goal: &str,
) -> Result<Choice> {
    let name = format!("{load}-{goal}");
    let vm = start(programs, &name, gap)?;
    super::wait(2);
    let output = calibrated
        .pilot(programs, &name, goal)
        .args(["--for", &format!("{}s", args.stable)])
        .output()
        .context("run the pilot")?;
    drop(vm);
    let told: Value = serde_json::from_slice(&output.stdout).context("read the pilot's state")?;
    let vms = told["vms"].as_array().context("the pilot lists VMs")?;
    let of = vms.iter().find(|vm| vm["vm"] == name.as_str());
    let of = of.context("the pilot saw the VM")?;
    let ns = |name: &str| {
        of[name]
            .as_u64()
            .with_context(|| format!("{name} is known"))
    };
    Ok(Choice {
        found_ns: ns("found_ns")?,
        chosen_ns: ns("ceiling_ns")?,
        state: of["state"].as_str().unwrap_or_default().to_owned(),
        own_percent: told["own"]["cpu_percent"].as_f64().unwrap_or(f64::NAN),
    })
}

pub(super) fn start(programs: &Programs, name: &str, gap: &str) -> Result<Ends> {
    Ends::start(
        Command::new(&programs.lab)
            .args(["run", "tick", "--name", name, "--duration", "7200s"])
            .args(["--gap", &format!("fixed:{gap}")]),
    )
}

/// The ceiling under which a halt cost least in every other round. The others measure against it: the least of several
/// noisy figures is too low.
fn best(swept: &Swept, cost: &dyn Fn(&Parts) -> f64) -> Option<usize> {
    let every_other = |at: usize| swept.drawn.figures(at, cost).into_iter().step_by(2);
    let of = |at: &usize| median(every_other(*at).collect());
    (0..swept.ceilings_ns.len()).min_by(|a, b| of(a).total_cmp(&of(b)))
}

fn tell(
    figures: &mut Figures,
    load: &str,
    goal: &str,
    choice: &Choice,
    swept: &Swept,
    cost: &dyn Fn(&Parts) -> f64,
) {
    let arm = format!("stable {goal}");
    let costs = |at: usize| swept.drawn.figures(at, cost);
    for (at, ns) in swept.ceilings_ns.iter().enumerate() {
        let figure = format!("cost_ns_per_halt_at_{ns}");
        for (number, cost) in costs(at).into_iter().enumerate() {
            let row = row("stable", &arm, number, load, &figure, cost);
            figures.rows.push(row);
        }
    }
    let at = |of: u64| swept.ceilings_ns.iter().position(|ns| *ns == of);
    let (Some(found), Some(chosen)) = (at(choice.found_ns), at(choice.chosen_ns)) else {
        return;
    };
    let best = best(swept, cost).unwrap_or(found);
    let others = |at: usize| costs(at).into_iter().skip(1).step_by(2).collect::<Vec<_>>();
    let line = format!(
        "stable: {load:<9} {goal:<8} {:>7} {:>9}       {:<29} {} at {} ns; {}, {:.2} % of a CPU",
        choice.found_ns,
        choice.chosen_ns,
        against(&costs(chosen), &costs(found)),
        against(&others(chosen), &others(best)),
        swept.ceilings_ns[best],
        choice.state,
        choice.own_percent,
    );
    let figure = row(
        "stable",
        &arm,
        0,
        load,
        "pilot_cpu_percent",
        choice.own_percent,
    );
    figures.add(figure, &line);
}
