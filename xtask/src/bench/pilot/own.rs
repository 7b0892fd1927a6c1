//! What the pilot itself takes beside many VMs: CPU time of its process and of its BPF programs, and memory, minute by
//! minute.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::kept::Figures;
use super::super::run::Programs;
use super::{Args, Ends, load_average, row, status};
use crate::say;

/// VMs of two vCPUs: fifty vCPUs.
const VMS: usize = 25;

/// What it has taken so far.
#[derive(Debug, Clone, Copy)]
struct Taken {
    at_s: f64,
    process_ns: f64,
    kernel_ns: f64,
    memory: f64,
}

pub(super) fn measure(programs: &Programs, args: &Args, figures: &mut Figures) -> Result<()> {
    say::step(&format!("own cost, {} s", args.own));
    let mut vms = Vec::new();
    for number in 0..VMS {
        let mut lab = Command::new(&programs.lab);
        lab.args(["run", args.own_gap.as_ref().map_or("ipi", |_| "tick")])
            .args(["--vcpus", "2", "--duration", "7200s"])
            .args(["--name", &format!("own-{number}")])
            .args(args.own_gap.iter().flat_map(|gap| ["--gap", gap]));
        vms.push(Ends::start(&lab)?);
    }
    super::wait(2);
    let mut pilot = Command::new(&programs.haltwise);
    pilot.args(["pilot", "--observe", "--vm", "own-*", "--json"]);
    pilot.args(["--for", &format!("{}s", args.own)]);
    let pilot = pilot
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("start the pilot")?;
    let began = Instant::now();
    let mut series = vec![Taken {
        at_s: 0.0,
        process_ns: 0.0,
        kernel_ns: 0.0,
        memory: f64::NAN,
    }];
    while began.elapsed() + Duration::from_mins(1) < Duration::from_secs(args.own) {
        super::wait(60);
        series.push(taken(&status(programs)?, began.elapsed().as_secs_f64()));
    }
    let output = pilot.wait_with_output()?;
    let told: Value = serde_json::from_slice(&output.stdout).context("read the pilot's state")?;
    series.push(taken(&told, began.elapsed().as_secs_f64()));
    let rates = told["vms"].as_array().into_iter().flatten();
    let halts_per_s: f64 = rates.filter_map(|vm| vm["halts_per_s"].as_f64()).sum();
    tell(&series, halts_per_s, figures);
    Ok(())
}

fn taken(pilot: &Value, at_s: f64) -> Taken {
    let own = |name: &str| pilot["own"][name].as_f64().unwrap_or(f64::NAN);
    Taken {
        at_s,
        process_ns: own("process_cpu_ns"),
        kernel_ns: own("kernel_cpu_ns"),
        memory: own("memory_bytes"),
    }
}

fn tell(series: &[Taken], halts_per_s: f64, figures: &mut Figures) {
    // Formatting into a String cannot fail.
    let _ = writeln!(
        figures.summary,
        "own: {VMS} VMs of two vCPUs, {halts_per_s:.0} halts/s in all; minute, process, BPF programs (% of a CPU), MiB, load"
    );
    let percent = |ns: f64, from: &Taken, to: &Taken| ns / 1e7 / (to.at_s - from.at_s);
    let of = |figure, number, value| row("own", "pilot", number, "all", figure, value);
    figures.rows.push(of("halts_per_s", 0, halts_per_s));
    for (number, pair) in series.windows(2).enumerate() {
        let [from, to] = pair else { continue };
        let process = percent(to.process_ns - from.process_ns, from, to);
        let kernel = percent(to.kernel_ns - from.kernel_ns, from, to);
        let mib = to.memory / f64::from(1 << 20);
        let line = format!(
            "  {:3} {process:7.3} {kernel:7.3} {mib:6.1} {:.1}",
            number + 1,
            load_average()
        );
        figures.add(of("process_percent", number, process), &line);
        figures.rows.push(of("kernel_percent", number, kernel));
        figures.rows.push(of("memory_mib", number, mib));
    }
    let (Some(middle), Some(last)) = (series.get(series.len() / 2), series.last()) else {
        return;
    };
    let both = last.process_ns - middle.process_ns + last.kernel_ns - middle.kernel_ns;
    let half = percent(both, middle, last);
    let line = format!("  second half: {half:.3} % of a CPU");
    figures.add(of("second_half_percent", 0, half), &line);
}
