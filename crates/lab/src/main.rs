//! `haltwise-lab`: parses the command line, calls the library, prints, picks the exit code.

mod args;
mod csv;
mod experiment_verb;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use haltwise_core::policy::Spec;
use haltwise_lab::calibrate::calibrate;
use haltwise_lab::halt_loop::{HaltPolicy, windows_of};
use haltwise_lab::interrupt::Interrupt;
use haltwise_lab::render;
use haltwise_lab::run::{RunError, run};
use haltwise_lab::vm::OpenError;

use crate::args::{CalibrateArgs, Cli, RunArgs, Verb};
use crate::experiment_verb::UnknownExperiment;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.verb {
        Verb::Run(args) => run_verb(&args),
        Verb::Calibrate(args) => calibrate_verb(&args),
        Verb::Experiment(args) => experiment_verb::verb(&args),
        Verb::Windows { policy, file } => windows(policy, &file),
        Verb::List { verbose } => list(verbose),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn run_verb(args: &RunArgs) -> anyhow::Result<()> {
    let load = args.load()?;
    let interrupt = Interrupt::new().context("listen for signals")?;
    let finished = run(&load, &interrupt)?;
    if let Some(file) = &args.rounds_out {
        csv::rounds(file, &finished).with_context(|| format!("write `{}`", file.display()))?;
    }
    if let Some(file) = &args.halts_out {
        csv::halts(file, &finished).with_context(|| format!("write `{}`", file.display()))?;
    }
    if args.json {
        print(&(serde_json::to_string_pretty(&finished.outcome)? + "\n"))
    } else {
        print(&render::outcome(&finished.outcome))
    }
}

fn windows(policy: Spec, file: &Path) -> anyhow::Result<()> {
    let policy = HaltPolicy::here(policy);
    let windows = windows_of(&policy, &csv::lengths(file)?)?;
    let lines = windows.iter().map(|window| window.to_string() + "\n");
    print(&lines.collect::<String>())
}

fn list(verbose: bool) -> anyhow::Result<()> {
    let guests = render::guests(verbose).context("assemble")?;
    let experiments = render::experiments(verbose);
    print(&format!(
        "GUESTS (run)\n{guests}\nEXPERIMENTS (experiment)\n{experiments}"
    ))
}

fn calibrate_verb(args: &CalibrateArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::new().context("listen for signals")?;
    let terminal = std::io::stderr().is_terminal();
    let found = calibrate(&args.plan()?, &interrupt, |done, all| {
        if terminal {
            let end = if done == all { "\n" } else { "\r" };
            // A stderr that takes nothing is no reason to stop measuring.
            let _ = write!(std::io::stderr(), "repetition {done} of {all}{end}");
        }
    })?;
    print(&if args.json {
        serde_json::to_string_pretty(&found)? + "\n"
    } else {
        render::calibration(&found)
    })
}

/// Prints; a reader that has left (`| head`) is not our failure.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("write to stdout"),
    }
}

/// Says what went wrong and what to do, and picks the exit code.
#[expect(
    clippy::print_stderr,
    reason = "the rim: the one place that speaks of errors"
)]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    let (code, hint) = match error.downcast_ref::<RunError>() {
        Some(RunError::Open(OpenError::Unsupported(_))) => (
            3,
            "load the kvm module (modprobe kvm_intel or kvm_amd), or enable nested \
             virtualisation of this machine",
        ),
        Some(RunError::Open(OpenError::Denied(_))) => (
            4,
            "run as root, or as a member of the group that owns /dev/kvm",
        ),
        Some(RunError::Load(_)) => (2, "see `haltwise-lab run --help`"),
        _ if error.is::<UnknownExperiment>() => (2, "`haltwise-lab list` names them all"),
        _ => return ExitCode::from(1),
    };
    eprintln!("hint: {hint}");
    ExitCode::from(code)
}
