//! Two vCPUs that are woken each 125 us, +-10 %, under a ceiling of 200 us: polling takes all of their time, and finds
//! nothing that a sleep would miss by more than its wake-up.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::kept::Figures;
use super::super::run::Programs;
use super::{Args, Calibrated, Ends, load_average, row};
use crate::say;

/// The first seconds in which the pilot has not acted yet, and as many at the end.
const SECONDS: usize = 12;

/// What one round came to.
struct Round {
    before_percent: f64,
    after_percent: f64,
    poll_percent: f64,
    predicted: f64,
    measured: f64,
    own_percent: f64,
    load: f64,
}

pub(super) fn measure(
    programs: &Programs,
    args: &Args,
    calibrated: &Calibrated,
    figures: &mut Figures,
) -> Result<()> {
    if args.rounds == 0 {
        return Ok(());
    }
    figures
        .summary
        .push_str("published: VM's CPU before -> after, polling after, cost predicted / measured, pilot's CPU, load\n");
    for number in 0..args.rounds as usize {
        say::step(&format!("published case, round {}", number + 1));
        let round = one(programs, args, calibrated)?;
        let line = format!(
            "  {:6.1} % -> {:6.1} % ({:.1} times less), {:5.1} %, {:+.0} % / {:+.0} %, {:.2} %, {:.1}",
            round.before_percent,
            round.after_percent,
            round.before_percent / round.after_percent,
            round.poll_percent,
            round.predicted * 100.0,
            round.measured * 100.0,
            round.own_percent,
            round.load,
        );
        let of = |figure, value| row("published", "pilot", number, "published", figure, value);
        figures.add(of("cpu_before_percent", round.before_percent), &line);
        figures
            .rows
            .push(of("cpu_after_percent", round.after_percent));
        figures
            .rows
            .push(of("poll_after_percent", round.poll_percent));
        figures.rows.push(of("predicted_share", round.predicted));
        figures.rows.push(of("measured_share", round.measured));
        figures
            .rows
            .push(of("pilot_cpu_percent", round.own_percent));
        figures.rows.push(of("load_average", round.load));
    }
    Ok(())
}

fn one(programs: &Programs, args: &Args, calibrated: &Calibrated) -> Result<Round> {
    let vm = Ends::start(
        Command::new(&programs.lab)
            .args(["run", "tick", "--name", "published", "--vcpus", "2"])
            .args(["--gap", "uniform:112500ns:137500ns", "--duration", "3600s"]),
    )?;
    super::wait(2);
    let pilot = calibrated
        .pilot(programs, "published", "density")
        .args(["--for", &format!("{}s", args.seconds)])
        .spawn()
        .context("start the pilot")?;
    let mut series = Vec::new();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(args.seconds.saturating_sub(1)) {
        series.push((began.elapsed().as_secs_f64(), cpu_s(vm.pid())?));
        super::wait(1);
    }
    let output = pilot.wait_with_output()?;
    let told: Value = serde_json::from_slice(&output.stdout).context("read the pilot's state")?;
    let vms = told["vms"].as_array().context("the pilot lists VMs")?;
    let of = vms.iter().find(|vm| vm["vm"] == "published");
    let of = of.context("the pilot saw the VM")?;
    let number = |of: &Value| of.as_f64().unwrap_or(f64::NAN);
    let last = series.len().saturating_sub(1);
    Ok(Round {
        before_percent: percent(&series, 0, SECONDS.min(last)),
        after_percent: percent(&series, last.saturating_sub(SECONDS), last),
        poll_percent: number(&of["poll_cpu_percent"]),
        predicted: number(&of["predicted"]["value"]),
        measured: number(&of["measured"]["value"]),
        own_percent: number(&told["own"]["cpu_percent"]),
        load: load_average(),
    })
}

fn percent(series: &[(f64, f64)], from: usize, to: usize) -> f64 {
    match (series.get(from), series.get(to)) {
        (Some(from), Some(to)) => 100.0 * (to.1 - from.1) / (to.0 - from.0),
        _ => f64::NAN,
    }
}

/// CPU time of a process, in seconds: fields 14 and 15 of its `stat`, in ticks of 10 ms.
fn cpu_s(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let rest = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> = rest
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse().ok())
        .collect();
    Ok(fields.iter().sum::<f64>() / 100.0)
}
