//! `haltwise calibrate`: what sleeping and waking cost on this host, for the verbs that replay.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use haltwise_host::root::Root;
use haltwise_host::wakeup::{self, Plan, prices};

use crate::calibrate::{page, recorded};
use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Outcome};
use crate::prices::kept;
use crate::terminal::{self, Width};

#[derive(Debug, Args)]
#[command(
    about = "Measure what a sleep and a wake-up cost on this host",
    long_about = "Measure what a sleep and a wake-up cost on this host, without a VM

Two threads, each on a CPU of its own, wake each other after gaps of different \
lengths: the wake-up latency by length of sleep, and the CPU time of a block \
and wake-up. A vCPU's sleep costs more, since KVM takes its state off the CPU \
and puts it back. With a capture of this host, what its sleeps took longer is \
added to every length. In a guest on x86 it also measures what an exit, a \
write of the timer and an IPI cost, for captures of this guest. What is measured is kept with the host, \
unless other tasks wanted the CPUs: recordings carry it, and every verb uses it. Does not change any setting. Measure while two CPUs are idle.",
    after_long_help = "EXAMPLES
  haltwise calibrate                        print the costs
  haltwise calibrate --json > cal.json      for --calibration of other commands
  haltwise calibrate cap --json > cal.json  with the sleeps of a capture

In a guest on x86 it also measures what an exit, a write of the timer and an
IPI cost. tune takes exit and IPI for captures of this guest.
Exits with 5 if polls were preempted or it was interrupted, so that less was
measured than planned."
)]
pub(crate) struct Arguments {
    /// Capture of this host, whose sleeps say what KVM adds
    dir: Option<PathBuf>,
    /// A rough idea in five seconds, instead of a good one in half a minute
    #[arg(long)]
    quick: bool,
    /// Print JSON (schema 1, see docs/calibrate-json.md): a calibration, as --calibration takes it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let recorded = arguments.dir.as_deref().map(recorded::sleeps).transpose()?;
    let [sleeper, waker] = wakeup::idlest_cpus(&Root::host()).context("read our CPU affinity")?;
    let plan = Plan::new(arguments.quick, sleeper, waker);
    let interrupt = Interrupt::watch()?;
    terminal::say(&format!(
        "Measuring on CPUs {sleeper} and {waker} for at most {} s.",
        plan.budget.0 / 1_000_000_000
    ));
    let mut found = wakeup::measure(&plan, || interrupt.came().is_some())
        .with_context(|| format!("measure on CPUs {sleeper} and {waker}"))?;
    let (is_partial, is_undisturbed) = (!found.notes.is_empty(), found.is_undisturbed());
    if interrupt.came().is_none() {
        prices::add(&mut found, &plan);
    }
    found.host = Some(wakeup::host(&Root::host()));
    if let Some(recorded) = &recorded {
        recorded::add(&mut found, recorded);
    }
    if is_undisturbed && interrupt.came().is_none() {
        kept::keep(&Root::host(), &found);
    }
    if arguments.json {
        terminal::print(&terminal::json(&found)?)?;
    } else {
        let document = page::document(&found, recorded.is_some());
        terminal::document(&document, arguments.width.columns())?;
    }
    Ok(Exit::of_partial(is_partial))
}
