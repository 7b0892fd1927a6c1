//! Four VMs whose loads change, under the kernel's default, under static ceilings, and under the pilot.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use haltwise_core::prove::rank::Interval;
use serde_json::Value;

use super::super::kept::Figures;
use super::super::run::Programs;
use super::{Args, Calibrated, Ends, row};
use crate::say;

/// Gaps in nanoseconds: idle, ticking, request and response at 15, 50 and 150 us, bulk.
const LOADS: [(&str, u64); 6] = [
    ("idle", 20_000_000),
    ("ticking", 4_000_000),
    ("rr-15us", 15_000),
    ("rr-50us", 50_000),
    ("rr-150us", 150_000),
    ("bulk", 5_000),
];

const VMS: usize = 4;

/// The kernel's default, then static ceilings.
const STATIC: [Option<&str>; 5] = [None, Some("0"), Some("30us"), Some("80us"), Some("400us")];

/// What halts cost in a second, slice by slice and VM by VM, in nanoseconds of CPU.
type Costs = Vec<[f64; VMS]>;

pub(super) fn measure(
    programs: &Programs,
    args: &Args,
    calibrated: &Calibrated,
    folder: &Path,
    figures: &mut Figures,
) -> Result<()> {
    let mut fixed = Vec::new();
    for ceiling in STATIC {
        say::step(&format!(
            "phases under {}",
            ceiling.unwrap_or("the default")
        ));
        let costs = arm(programs, args, calibrated, folder, ceiling, false)?;
        keep(figures, ceiling.unwrap_or("default"), &costs);
        fixed.push(costs);
    }
    say::step("phases under the pilot");
    let pilot = arm(programs, args, calibrated, folder, None, true)?;
    keep(figures, "pilot", &pilot);
    say_all(figures, &fixed, &pilot);
    Ok(())
}

fn keep(figures: &mut Figures, arm: &str, costs: &Costs) {
    for (slice, vms) in costs.iter().enumerate() {
        for (vm, cost) in vms.iter().enumerate() {
            let name = format!("phased-{vm}");
            figures
                .rows
                .push(row("phases", arm, slice, &name, "cost_ns_per_s", *cost));
        }
    }
}

/// All costs, in ms of CPU in a second.
fn say_all(figures: &mut Figures, fixed: &[Costs], pilot: &Costs) {
    let total =
        |costs: &Costs| costs.iter().flatten().sum::<f64>() / costs.len().max(1) as f64 / 1e6;
    let least = |of: &dyn Fn(&Costs) -> f64| fixed.iter().map(of).fold(f64::INFINITY, f64::min);
    let of_vm = |costs: &Costs, vm: usize| costs.iter().map(|slice| slice[vm]).sum::<f64>();
    let slices = pilot.len().max(1) as f64;
    let by_vm: f64 = (0..VMS).map(|vm| least(&|costs| of_vm(costs, vm))).sum();
    let by_phase: f64 = (0..pilot.len())
        .flat_map(|slice| (0..VMS).map(move |vm| (slice, vm)))
        .map(|(slice, vm)| least(&|costs| costs[slice][vm]))
        .sum();
    let [default, own] = [&fixed[0], pilot].map(total);
    let oracle = by_phase / slices / 1e6;
    let differ: Vec<f64> = (fixed[0].iter().zip(pilot))
        .map(|(default, pilot)| (pilot.iter().sum::<f64>() - default.iter().sum::<f64>()) / 1e6)
        .collect();
    let mut line = |what: &str, value: f64| {
        let line = format!("phases: {what:28} {value:8.1} ms of CPU in a second\n");
        figures.summary.push_str(&line);
    };
    line("default", default);
    line("best static ceiling", least(&total));
    line("best static for each VM", by_vm / slices / 1e6);
    line("best for each VM and phase", oracle);
    line("pilot", own);
    let saved = (default - own) / (default - oracle);
    let interval = Interval::of(&differ).map_or_else(String::new, |it| {
        format!(
            "; pilot less default, slice by slice: {:+.1} ({:+.1} to {:+.1})",
            it.estimate, it.low, it.high
        )
    });
    let line = format!(
        "phases: the pilot saves {:.0} % of what the oracle saves{interval}\n",
        saved * 100.0
    );
    figures.summary.push_str(&line);
}

fn arm(
    programs: &Programs,
    args: &Args,
    calibrated: &Calibrated,
    folder: &Path,
    ceiling: Option<&str>,
    with_pilot: bool,
) -> Result<Costs> {
    let vms: Result<Vec<Ends>> = (0..VMS)
        .map(|vm| start(programs, args, vm, ceiling))
        .collect();
    let vms = vms?;
    let pilot = with_pilot
        .then(|| pilot(programs, calibrated))
        .transpose()?;
    let mut costs = Costs::new();
    for slice in 0..LOADS.len() {
        let capture = folder.join(format!(
            "{}-{with_pilot}-{slice}",
            ceiling.unwrap_or("default")
        ));
        costs.push(of_slice(programs, args, calibrated, &capture)?);
    }
    if let Some(mut pilot) = pilot {
        let _killed = Command::new("kill")
            .args(["-TERM", &pilot.id().to_string()])
            .status();
        let _ended = pilot.wait();
    }
    drop(vms);
    Ok(costs)
}

fn start(programs: &Programs, args: &Args, vm: usize, ceiling: Option<&str>) -> Result<Ends> {
    let parts = (0..LOADS.len()).map(|phase| {
        let (_, gap_ns) = LOADS[(phase + vm) % LOADS.len()];
        format!("{gap_ns}ns*{}", args.phase * 1_000_000_000 / gap_ns)
    });
    let gaps = format!("phases:{}", parts.collect::<Vec<_>>().join(":"));
    let mut command = Command::new(&programs.lab);
    command.args([
        "run",
        "tick",
        "--name",
        &format!("phased-{vm}"),
        "--gap",
        &gaps,
    ]);
    command.args(["--duration", "3600s"]);
    if let Some(ceiling) = ceiling {
        command.args(["--cap", ceiling]);
    }
    Ends::start(&mut command)
}

fn pilot(programs: &Programs, calibrated: &Calibrated) -> Result<Child> {
    let mut command = Command::new(&programs.haltwise);
    command.args(["pilot", "--act", "--vm", "phased-*", "--calibration"]);
    command.arg(&calibrated.path).stdout(Stdio::null());
    command.spawn().context("start the pilot")
}

/// What a slice cost, VM by VM.
fn of_slice(
    programs: &Programs,
    args: &Args,
    calibrated: &Calibrated,
    capture: &Path,
) -> Result<[f64; VMS]> {
    let record = Command::new(&programs.haltwise)
        .args([
            "record",
            "--mode",
            "counts",
            "--duration",
            &format!("{}s", args.phase),
            "-o",
        ])
        .arg(capture)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    if !matches!(record.code(), Some(0 | 5)) {
        bail!("haltwise record ended with {record}");
    }
    let report = Command::new(&programs.haltwise)
        .arg("report")
        .arg(capture)
        .arg("--json")
        .output()?;
    let told: Value = serde_json::from_slice(&report.stdout).context("read the report")?;
    let vms = told["vms"].as_array().context("the report lists VMs")?;
    let mut costs = [0.0; VMS];
    for (number, cost) in costs.iter_mut().enumerate() {
        let name = format!("phased-{number}");
        let of = vms.iter().find(|vm| vm["name"] == name.as_str());
        let account = &of.with_context(|| format!("{name} was recorded"))?["account"];
        let number = |of: &Value| of.as_f64().unwrap_or(0.0);
        let parts = &account["parts"];
        let slept = number(&account["halts"]) - number(&account["poll"]["successful"]);
        let cpu = number(&parts["poll_success_ns"]) + number(&parts["poll_fail_ns"]);
        let latency = number(&parts["wake_latency_ns"]);
        *cost = (cpu + slept.max(0.0) * calibrated.switch_cpu_ns + latency) / args.phase as f64;
    }
    Ok(costs)
}
