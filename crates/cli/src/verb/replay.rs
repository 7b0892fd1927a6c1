//! `haltwise replay DIR`: what the recorded halts would have cost under other policies.

use std::path::PathBuf;

use haltwise_capture::capture::Capture;
use haltwise_capture::note::Note;
use haltwise_core::kvm::{Arch, Version};
use haltwise_core::policy::{POLICIES, Setting, Side, Spec};
use haltwise_core::replay::Arrivals;

use super::costs::Costs;
use crate::exit::{Exit, Failure, Outcome};
use crate::open::explain;
use crate::page::Page;
use crate::replay::play::{self, Wish};
use crate::replay::{text, view};
use crate::terminal::{self, Width};
use crate::tune::goal::{self, Named};

/// Arguments of `haltwise replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise replay cap                                  some policies to begin with
  haltwise replay cap --policy off --policy kvm:max=50us
  haltwise replay cap --policy kvm:max=80us,shrink=0 --goal latency
  haltwise replay cap --policy 'budget:2%|learned' --vcpus
  haltwise replay --policies                           what policies there are
  haltwise replay cap --json | jq '.host.played[].from_zero.ratio'

`kvm` alone is the rule and the settings that were recorded. Two rows for one
policy mean two steady states: which of them a VM lands in is chance.

Exits with 5 if the capture was cut or damaged, or if events were lost.")]
pub(crate) struct Arguments {
    /// The capture: a directory that `haltwise record` or `import` made
    #[arg(value_name = "DIR", required_unless_present = "policies")]
    dir: Option<PathBuf>,
    /// A policy; more than one may be given [default: off, kvm, kvm:knobs=default,
    /// learned, clairvoyant]
    #[arg(long = "policy", short, value_name = "SPEC")]
    policy: Vec<Spec>,
    /// List the policies and what they take
    #[arg(long)]
    policies: bool,
    /// What latency is worth: density counts CPU alone, balanced a nanosecond of
    /// latency as one of CPU, latency as ten
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    goal: Named,
    /// The same as a number: nanoseconds of CPU for one of latency
    #[arg(long, value_name = "X", conflicts_with = "goal", value_parser = goal::weight)]
    lambda: Option<u64>,
    /// Whether waking earlier makes the next gap longer
    #[arg(long, value_name = "READING", default_value = "by-source", value_parser = reading)]
    arrivals: Arrivals,
    #[command(flatten)]
    costs: Costs,
    /// The kernel whose rule `kvm` means [default: the capture's]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<Version>,
    /// Its architecture [default: the capture's]
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,
    /// Seed of policies that draw
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Tables for each vCPU too
    #[arg(long)]
    vcpus: bool,
    /// Print JSON (schema 1, see docs/replay-json.md) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// Policies that are played when none is named.
const FIRST_LOOK: [&str; 5] = ["off", "kvm", "kvm:knobs=default", "learned", "clairvoyant"];

/// Reads how gaps follow wake-ups.
pub(super) fn reading(text: &str) -> Result<Arrivals, String> {
    let found = Arrivals::ALL
        .into_iter()
        .find(|reading| reading.as_str() == text);
    found.ok_or_else(|| "expected by-source, fixed-gap or fixed-time".to_owned())
}

/// Plays and prints.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let width = arguments.width.columns();
    let Some(dir) = arguments.dir.as_deref().filter(|_| !arguments.policies) else {
        terminal::print(&list(width))?;
        return Ok(Exit::Done);
    };
    let specs = specs(arguments)?;
    let capture = Capture::open(dir).map_err(explain)?;
    let told = arguments.costs.told();
    let wish = Wish {
        specs: specs.iter().map(|(spec, _)| spec.clone()).collect(),
        latency_weight_milli: arguments.lambda.unwrap_or(arguments.goal.weight_milli()),
        arrivals: arguments.arrivals,
        told,
        kernel: arguments.kernel,
        arch: arguments.arch,
        seed: arguments.seed,
    };
    let replayed = play::play(&capture, wish)?;
    let partial = capture
        .notes()
        .iter()
        .any(|note| !matches!(note, Note::OutOfOrder { .. }));
    let arrivals = arguments.arrivals;
    let view = view::view(
        capture.info(),
        &replayed,
        &specs,
        arrivals,
        arguments.vcpus,
        partial,
    );
    let text = if arguments.json {
        terminal::json(&view)?
    } else {
        text::render(&view, width)
    };
    terminal::print(&text)?;
    Ok(if partial || view.basis.lost > 0 {
        Exit::Partial
    } else {
        Exit::Done
    })
}

/// The policies wanted, each tried before a long capture is read.
fn specs(arguments: &Arguments) -> Result<Vec<(Spec, Side)>, Failure> {
    let wanted: Vec<Spec> = if arguments.policy.is_empty() {
        FIRST_LOOK
            .iter()
            .map(|text| text.parse())
            .collect::<Result<_, _>>()?
    } else {
        arguments.policy.clone()
    };
    let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 0);
    let tried = wanted.into_iter().map(|spec| {
        let policy = spec.build(&setting).map_err(|error| {
            Failure::new(Exit::Usage, error).hint("`haltwise replay --policies` lists them all")
        })?;
        Ok((spec, policy.side()))
    });
    tried.collect()
}

fn list(width: usize) -> String {
    let mut page = Page::new(width);
    page.heading("Policies");
    for entry in POLICIES {
        page.wrapped(&format!("  {:<17}", entry.name), entry.summary, 20);
        if !entry.form.is_empty() {
            page.wrapped(&format!("{:20}", ""), entry.form, 20);
        }
    }
    page.finish()
}
