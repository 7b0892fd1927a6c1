//! `haltwise-lab`: parses the command line, calls the library, prints, picks the exit code.

mod args;

use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use haltwise_lab::calibrate::calibrate;
use haltwise_lab::event::Interrupt;
use haltwise_lab::load::LoadError;
use haltwise_lab::program::{self, print};
use haltwise_lab::render;
use haltwise_lab::run::{Finished, run};

use crate::args::{CalibrateArgs, Cli, RunArgs, Verb};

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Run(args) => run_verb(&args),
        Verb::Calibrate(args) => calibrate_verb(&args),
        Verb::List { verbose } => list(verbose),
    };
    program::end(done, |error| {
        error
            .is::<LoadError>()
            .then_some("see `haltwise-lab run --help`")
    })
}

fn run_verb(args: &RunArgs) -> anyhow::Result<()> {
    let load = args.load()?;
    let interrupt = Interrupt::new().context("listen for signals")?;
    let finished = run(&load, &interrupt)?;
    if let Some(file) = &args.rounds_out {
        write_rounds(file, &finished).with_context(|| format!("write `{}`", file.display()))?;
    }
    if args.json {
        print(&(serde_json::to_string_pretty(&finished.outcome)? + "\n"))
    } else {
        print(&render::outcome(&finished.outcome))
    }
}

/// Every round as CSV.
fn write_rounds(path: &Path, finished: &Finished) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "vm,vcpu,round,gap_ns,signal_ns,woke_ns,answer_ns")?;
    for (vm, vcpus) in finished.rounds.iter().enumerate() {
        for (vcpu, rounds) in vcpus.iter().enumerate() {
            for (index, round) in rounds.rounds.iter().enumerate() {
                let (gap, signal, answer) = (round.gap_ns, round.signal_ns, round.answer_ns);
                let woke = rounds
                    .woke_ns(round)
                    .map_or(String::new(), |ns| ns.to_string());
                writeln!(file, "{vm},{vcpu},{index},{gap},{signal},{woke},{answer}")?;
            }
        }
    }
    Ok(file.flush()?)
}

fn list(verbose: bool) -> anyhow::Result<()> {
    print(&render::guests(verbose).context("assemble")?)
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
