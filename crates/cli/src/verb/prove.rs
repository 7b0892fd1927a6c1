//! `haltwise prove`: the command line; the work is in [`crate::prove`].

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use haltwise_core::prove::setting::Wanted as Setting;
use haltwise_core::recording::Rung;
use haltwise_core::units::Nanos;
use haltwise_host::discovery::VmSelector;
use regex::Regex;

use crate::exit::{Exit, Failure, Outcome};
use crate::ledger;
use crate::prove::view::View;
use crate::prove::{self, SCHEMA, Wanted};
use crate::terminal::Width;
use crate::tune::goal::{self, Named};

/// Arguments of `haltwise prove`.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Measure two settings in turn and say which is better

Each round holds three blocks of the same load in an order that is drawn: one \
under A, one under B, and A once more as the control. Compared are blocks of \
one round only. The verdict is about the cost of a halt: CPU for polling and \
switching, and wake-up latency at the weight of the goal.

A COMMAND with {halt_poll_ns} among its words starts VMs itself, and gives \
them the ceiling in nanoseconds that stands there then; nothing on the host is \
changed. Without it the host's own parameters are set, which needs --yes, and \
put back at the end.",
    after_help = "EXAMPLES
  haltwise prove --a off --b kvm:max=50us -- \\
      haltwise-lab run pingpong --gap exp:60us --cap {halt_poll_ns}
  haltwise prove --a current --b kvm:max=80us,shrink=0 --duration 10s --yes
  haltwise prove --a current --b off --metric 'p99 +([0-9.]+)' --yes -- \\
      ./load.sh
  haltwise prove --from result.json        the page of a result kept with --json

SPEC is `off`, `current`, or `kvm:max=TIME,grow=N,grow_start=TIME,shrink=N` with
what is not given as it is in force.

Exits with 5 if it was interrupted or if events were lost."
)]
pub(crate) struct Arguments {
    /// The setting to measure against
    #[arg(long, value_name = "SPEC", required_unless_present = "from")]
    a: Option<Setting>,
    /// The setting in question
    #[arg(long, value_name = "SPEC", required_unless_present = "from")]
    b: Option<Setting>,
    /// Rounds of three blocks; of twelve, one may be disturbed without harm
    #[arg(long, value_name = "N", default_value_t = 12,
          value_parser = clap::value_parser!(u32).range(2..=200))]
    rounds: u32,
    /// Length of a block, where no command sets it
    #[arg(long, value_name = "TIME", default_value = "5s")]
    duration: Nanos,
    /// What to cut off the beginning of each block [default: a tenth of it]
    #[arg(long, value_name = "TIME")]
    warm_up: Option<Nanos>,
    /// Seed of the order of blocks
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The command's own figure: a regular expression with one group, which holds a
    /// number; the last match in its output counts
    #[arg(long, value_name = "REGEX", value_parser = metric, requires = "command")]
    metric: Option<Regex>,
    /// What latency is worth: density counts CPU alone, balanced a nanosecond of
    /// latency as one of CPU, latency as ten
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    goal: Named,
    /// The same as a number: nanoseconds of CPU for one of latency
    #[arg(long, value_name = "X", conflicts_with = "goal", value_parser = goal::weight)]
    lambda: Option<u64>,
    /// The smallest difference that matters, in percent of A: a host too noisy to
    /// show it is said to be
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = percent)]
    detect: f64,
    /// What `haltwise-lab calibrate --json` measured on this host
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// CPU time of one block and wake [default: calibrated, else taken from the halts]
    #[arg(long, value_name = "TIME")]
    switch_cpu: Option<Nanos>,
    /// Wake-up latency where no halt slept
    #[arg(long, value_name = "TIME")]
    wake_latency: Option<Nanos>,
    /// Only this VM, by process number or name; may be given again [default: all]
    #[arg(long = "vm", value_name = "PID|NAME")]
    vms: Vec<VmSelector>,
    /// Source of the facts: bpf or tracepoints [default: the best that works]
    #[arg(long)]
    rung: Option<Rung>,
    /// Write the host's parameters, and put them back at the end
    #[arg(long)]
    yes: bool,
    /// Where predictions and outcomes are kept [default: see `haltwise ledger --help`]
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Keep no prediction
    #[arg(long, conflicts_with = "ledger")]
    no_ledger: bool,
    /// Measure nothing: print a result that was kept with --json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["a", "b", "command"])]
    from: Option<PathBuf>,
    /// Print JSON (schema 1, see docs/prove-json.md) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
    /// Command of each block: starts the VMs, or makes the load
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn metric(text: &str) -> Result<Regex, String> {
    let regex = Regex::new(text).map_err(|error| error.to_string())?;
    match regex.captures_len() {
        2 => Ok(regex),
        n => Err(format!(
            "one group in round brackets is needed, not {}",
            n - 1
        )),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let number = number.ok().filter(|number| (0.0..=100.0).contains(number));
    let percent = number.ok_or_else(|| "expected a share from 0% to 100%".to_owned())?;
    Ok(percent / 100.0)
}

/// Measures, or prints what was measured before.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let width = arguments.width.columns();
    if let Some(file) = &arguments.from {
        let view = read(file)?;
        prove::show(&view, arguments.json, width)?;
        return Ok(prove::exit_of(&view));
    }
    let (Some(a), Some(b)) = (arguments.a, arguments.b) else {
        return Err(Failure::new(Exit::Usage, anyhow!("--a and --b are needed")));
    };
    let ledger = match (arguments.ledger, arguments.no_ledger) {
        (Some(file), _) => Some(file),
        (None, true) => None,
        (None, false) => ledger::usual_place(),
    };
    let duration = |ns: Nanos| Duration::from_nanos(ns.0);
    prove::run(&Wanted {
        a,
        b,
        rounds: arguments.rounds,
        duration: duration(arguments.duration),
        warm_up: arguments.warm_up.map(duration),
        seed: arguments.seed,
        metric: arguments.metric,
        latency_weight_milli: arguments.lambda.unwrap_or(arguments.goal.weight_milli()),
        detect: arguments.detect,
        calibration: arguments.calibration,
        switch_cpu_ns: arguments.switch_cpu.map(|Nanos(ns)| ns),
        wake_latency_ns: arguments.wake_latency.map(|Nanos(ns)| ns),
        vms: arguments.vms,
        rung: arguments.rung,
        yes: arguments.yes,
        ledger,
        json: arguments.json,
        width,
        command: arguments.command,
    })
}

/// Reads a result that was kept.
pub(crate) fn read(file: &Path) -> Result<View, Failure> {
    let text = fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let hint = "`haltwise prove --json` writes such files";
    let refuse = |error: anyhow::Error| Failure::new(Exit::Failed, error).hint(hint);
    let value: serde_json::Value = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a result of prove", file.display()))
        .map_err(refuse)?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(schema) if schema == u64::from(SCHEMA) => {}
        Some(other) => {
            let file = file.display();
            return Err(refuse(anyhow!(
                "{file} has schema {other}; this haltwise reads {SCHEMA}"
            )));
        }
        None => {
            return Err(refuse(anyhow!(
                "{} is not a result of prove",
                file.display()
            )));
        }
    }
    serde_json::from_value(value)
        .with_context(|| format!("{} is not a result of prove", file.display()))
        .map_err(refuse)
}
