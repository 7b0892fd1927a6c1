//! What the pilot chooses for each load while nothing changes, measured against the ceiling it found and static ceilings:
//! one VM, second by second under each in a drawn order.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use haltwise_core::prove::rank::Interval;
use haltwise_core::workload::SplitMix64;
use serde_json::Value;

use super::super::kept::Figures;
use super::super::run::Programs;
use super::parts::{GOALS, Parts};
use super::phases::LOADS;
use super::{Args, Calibrated, Ends, row};
use crate::say;

/// Static ceilings beside the one found and those chosen, in nanoseconds.
const SWEEP_NS: [u64; 4] = [0, 30_000, 80_000, 400_000];

/// The busy one never halts: there is nothing to choose.
const BUSY: &str = "bulk";

/// The same load, under each ceiling once in a round.
struct Measured {
    ceilings_ns: Vec<u64>,
    rounds: Vec<Vec<Parts>>,
}

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
        let measured = Measured::new(programs, args, gap, ceilings_ns, folder)?;
        for (goal, weight, choice) in chosen {
            let cost = |parts: &Parts| {
                parts.cost_ns(calibrated.switch_cpu_ns, weight) / parts.halts.max(1.0)
            };
            tell(figures, load, goal, &choice, &measured, &cost);
        }
    }
    Ok(())
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

fn start(programs: &Programs, name: &str, gap: &str) -> Result<Ends> {
    Ends::start(
        Command::new(&programs.lab)
            .args(["run", "tick", "--name", name, "--duration", "7200s"])
            .args(["--gap", &format!("fixed:{gap}")]),
    )
}

impl Measured {
    fn new(
        programs: &Programs,
        args: &Args,
        gap: &str,
        ceilings_ns: Vec<u64>,
        folder: &Path,
    ) -> Result<Self> {
        let names = ["stable".to_owned()];
        let vm = start(programs, &names[0], gap)?;
        super::wait(2);
        let mut draw = SplitMix64(u64::from(args.stable_rounds));
        let mut rounds = Vec::new();
        for _ in 0..args.stable_rounds {
            let mut order: Vec<usize> = (0..ceilings_ns.len()).collect();
            let mut round = vec![Parts::default(); order.len()];
            while !order.is_empty() {
                let at = usize::try_from(draw.below(order.len() as u64))?;
                let at = order.swap_remove(at);
                set(programs, &names[0], ceilings_ns[at])?;
                // Until the window has found its length.
                std::thread::sleep(Duration::from_millis(100));
                let capture = tempfile::tempdir_in(folder)?;
                let parts = Parts::record(programs, 1, &capture.path().join("cap"), &names)?;
                round[at] = parts.first().copied().unwrap_or_default();
            }
            rounds.push(round);
        }
        drop(vm);
        Ok(Self {
            ceilings_ns,
            rounds,
        })
    }

    fn at(&self, ceiling_ns: u64) -> Option<usize> {
        self.ceilings_ns.iter().position(|ns| *ns == ceiling_ns)
    }

    /// Of each round, what a halt cost under a ceiling.
    fn costs(&self, at: usize, cost: &dyn Fn(&Parts) -> f64) -> Vec<f64> {
        self.rounds.iter().map(|round| cost(&round[at])).collect()
    }

    /// The ceiling under which a halt cost least in every other round. The others measure against it: the least of several
    /// noisy figures is too low.
    fn best(&self, cost: &dyn Fn(&Parts) -> f64) -> Option<usize> {
        let of = |at: &usize| median(self.costs(*at, cost).into_iter().step_by(2).collect());
        (0..self.ceilings_ns.len()).min_by(|a, b| of(a).total_cmp(&of(b)))
    }
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied().unwrap_or(f64::NAN)
}

/// By how much one costs more than the other, round by round, in % of the other's median.
fn against(one: &[f64], other: &[f64]) -> String {
    let differ: Vec<f64> = one
        .iter()
        .zip(other)
        .map(|(one, other)| one - other)
        .collect();
    let of = median(other.to_vec()) / 100.0;
    Interval::of(&differ).map_or_else(
        || "too few rounds".to_owned(),
        |it| {
            format!(
                "{:+.1} % ({:+.1} to {:+.1})",
                it.estimate / of,
                it.low / of,
                it.high / of
            )
        },
    )
}

/// Sets the ceiling of the VM, as people do.
fn set(programs: &Programs, name: &str, ceiling_ns: u64) -> Result<()> {
    let output = Command::new(&programs.haltwise)
        .args(["apply", "--yes", "--vm", name, "--ceiling"])
        .arg(ceiling_ns.to_string())
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        bail!("apply: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn tell(
    figures: &mut Figures,
    load: &str,
    goal: &str,
    choice: &Choice,
    measured: &Measured,
    cost: &dyn Fn(&Parts) -> f64,
) {
    let arm = format!("stable {goal}");
    for (number, round) in measured.rounds.iter().enumerate() {
        for (ns, parts) in measured.ceilings_ns.iter().zip(round) {
            let figure = format!("cost_ns_per_halt_at_{ns}");
            let row = row("stable", &arm, number, load, &figure, cost(parts));
            figures.rows.push(row);
        }
    }
    let places = (measured.at(choice.found_ns), measured.at(choice.chosen_ns));
    let (Some(found), Some(chosen)) = places else {
        return;
    };
    let best = measured.best(cost).unwrap_or(found);
    let costs = |at: usize| measured.costs(at, cost);
    let others = |at: usize| costs(at).into_iter().skip(1).step_by(2).collect::<Vec<_>>();
    let line = format!(
        "stable: {load:<9} {goal:<8} {:>7} {:>9}       {:<29} {} at {} ns; {}, {:.2} % of a CPU",
        choice.found_ns,
        choice.chosen_ns,
        against(&costs(chosen), &costs(found)),
        against(&others(chosen), &others(best)),
        measured.ceilings_ns[best],
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
