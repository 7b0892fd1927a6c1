//! `haltwise tune DIR`: which setting of KVM's parameters serves the recorded halts best.

use std::path::PathBuf;

use haltwise_capture::capture::Capture;
use haltwise_capture::note::Note;
use haltwise_core::kvm::{Arch, Version};
use haltwise_core::recording::Mode;
use haltwise_core::replay::Arrivals;

use super::costs::Costs;
use super::replay::reading;
use super::report::wanted;
use crate::exit::{Exit, Outcome};
use crate::open::explain;
use crate::terminal::{self, Width};
use crate::tune::goal::{self, Named};
use crate::tune::seek::{self, Wish};
use crate::tune::view::{self, View};
use crate::tune::{counted, plan, text};

/// Arguments of `haltwise tune`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise tune cap                                  the best setting, if there is a better one
  haltwise tune cap --goal density --max-poll-cpu 2%
  haltwise tune cap --lambda 3 --calibration cal.json
  haltwise tune cap --plan plan.json && haltwise apply plan.json
  haltwise tune cap --vm web-1 --json | jq '.played.front'

The first half of the capture's time chooses, the second judges: what is said of a
setting is said of halts that did not choose it. Nothing is changed on any machine.
A capture made with --mode counts gives a fixed threshold, with bounds.

Exits with 5 if the capture was cut or damaged, or if events were lost.")]
pub(crate) struct Arguments {
    /// The capture: a directory that `haltwise record` or `import` made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// What latency is worth: density counts CPU alone, balanced a nanosecond of
    /// latency as one of CPU, latency as ten
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    goal: Named,
    /// The same as a number: nanoseconds of CPU for one of latency
    #[arg(long, value_name = "X", conflicts_with = "goal", value_parser = goal::weight)]
    lambda: Option<u64>,
    /// The most that polling may take, in % of one CPU for all vCPUs together
    #[arg(long, value_name = "SHARE", value_parser = goal::percent)]
    max_poll_cpu: Option<f64>,
    /// Only this VM, by name or by the process of its VMM; parameters hold for all
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    /// Write the recommendation to a file that `haltwise apply` takes (docs/plan-json.md)
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Seek a ceiling alone, as each VM can have one of its own: the other parameters
    /// stay as they are, and ceilings that VMs have of their own may move
    #[arg(long)]
    ceiling_only: bool,
    /// Whether waking earlier makes the next gap longer
    #[arg(long, value_name = "READING", default_value = "by-source", value_parser = reading)]
    arrivals: Arrivals,
    #[command(flatten)]
    costs: Costs,
    /// The kernel whose parameters are sought [default: the capture's]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<Version>,
    /// Its architecture [default: the capture's]
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,
    /// Seed of the intervals, and of policies that draw
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON (schema 1, see docs/tune-json.md) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// Seeks and prints.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let width = arguments.width.columns();
    let capture = Capture::open(&arguments.dir).map_err(explain)?;
    let partial = (capture.notes().iter()).any(|note| !matches!(note, Note::OutOfOrder { .. }));
    let weight = match arguments.lambda {
        Some(milli) => ("lambda".to_owned(), milli),
        None => (
            arguments.goal.as_str().to_owned(),
            arguments.goal.weight_milli(),
        ),
    };
    let selector = arguments.vm.as_deref();
    let vms = selector.map(|vm| wanted(&capture.info().roster, Some(vm)));
    let wish = Wish {
        weight,
        max_poll_cpu_percent: arguments.max_poll_cpu,
        vms: vms.transpose()?,
        arrivals: arguments.arrivals,
        told: arguments.costs.told(),
        kernel: arguments.kernel,
        arch: arguments.arch,
        seed: arguments.seed,
        ceiling_only: arguments.ceiling_only,
    };
    let view: View = match capture.info().mode {
        Mode::Full => view::view(&capture, &seek::seek(&capture, &wish)?, partial),
        Mode::Counts | Mode::Stats => counted::seek(&capture, &wish, partial)?,
    };
    if let Some(path) = &arguments.plan {
        plan::plan(capture.info(), &view).write(path)?;
    }
    let text = if arguments.json {
        terminal::json(&view)?
    } else {
        let plan = arguments
            .plan
            .as_ref()
            .map(|path| path.display().to_string());
        text::render(&view, plan.as_deref(), width)
    };
    terminal::print(&text)?;
    Ok(if partial || view.basis.lost > 0 {
        Exit::Partial
    } else {
        Exit::Done
    })
}
