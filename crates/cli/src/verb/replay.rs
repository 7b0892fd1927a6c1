//! `haltwise replay DIR`: what the recorded halts would have cost under other policies.

use std::path::PathBuf;

use haltwise_capture::note::Note;
use haltwise_core::kvm::{Arch, Version};
use haltwise_core::policy::{POLICIES, Setting, Spec};
use haltwise_core::replay::Arrivals;
use haltwise_core::units::Nanos;

use super::costs::{Costs, reading};
use super::listing::Listing;
use super::time;
use crate::exit::{Exit, Failure, Outcome};
use crate::page::Page;
use crate::reading::opened::Opened;
use crate::recommend::goal::Weight;
use crate::replay::play::{self, Wish};
use crate::replay::text::Options;
use crate::replay::view::Subject;
use crate::replay::{price, text, view};
use crate::terminal::{self, Width};

/// Arguments of `haltwise replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise replay cap                                  a selection of policies
  haltwise replay cap --policy off --policy kvm:max=50us
  haltwise replay cap --policy kvm:max=80us,shrink=0 --goal latency
  haltwise replay cap --policy 'budget:2%|learned' --vcpus
  haltwise replay cap --policy off --policy guest-haltpoll --exit-cpu 1500ns
  haltwise replay --policies                           list the policies
  haltwise replay cap --json | jq '.host.played[].from_zero.ratio'

`kvm` without parameters is the recorded kernel's algorithm with the recorded
parameters. Two rows for one policy mean two steady states; a VM may end in
either.

Exits with 5 if the capture is truncated or damaged, or if events were lost.")]
pub(crate) struct Arguments {
    /// Capture directory, written by `haltwise record` or `import`
    #[arg(value_name = "DIR", required_unless_present = "policies")]
    dir: Option<PathBuf>,
    /// Policy to replay; may be repeated [default: off, kvm, kvm:knobs=default,
    /// learned, clairvoyant]
    #[arg(long = "policy", short, value_name = "SPEC")]
    policy: Vec<Spec>,
    /// List the policies and their parameters
    #[arg(long)]
    policies: bool,
    #[command(flatten)]
    weight: Weight,
    /// How the next wake event moves when a vCPU wakes earlier: by-source, fixed-gap
    /// or fixed-time
    #[arg(long, value_name = "READING", default_value = "by-source", value_parser = reading)]
    arrivals: Arrivals,
    #[command(flatten)]
    costs: Costs,
    /// CPU time of one HLT exit, which guest polling avoids [default: calibrated, else
    /// not counted]
    #[arg(long, value_name = "TIME", value_parser = time::nanoseconds)]
    exit_cpu: Option<Nanos>,
    /// CPU time that an IPI costs the sending vCPU [default: one exit; 0 where the CPU
    /// delivers it]
    #[arg(long, value_name = "TIME", value_parser = time::nanoseconds)]
    ipi_cpu: Option<Nanos>,
    /// Kernel release whose algorithm `kvm` uses [default: recorded]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<Version>,
    /// Architecture [default: recorded]
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,
    /// Seed of randomized policies
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    listing: Listing,
    /// As --detail, with tables for each vCPU
    #[arg(long)]
    vcpus: bool,
    /// Print JSON (schema 1, see docs/replay-json.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// Policies that are played when none is named.
const FIRST_LOOK: [&str; 5] = ["off", "kvm", "kvm:knobs=default", "learned", "clairvoyant"];

/// Plays and prints.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let width = arguments.width.columns();
    let Some(dir) = arguments.dir.as_deref().filter(|_| !arguments.policies) else {
        terminal::print(&list(width))?;
        return Ok(Exit::Done);
    };
    let specs = specs(arguments)?;
    let opened = Opened::open(dir)?;
    let told = arguments.costs.told();
    let wish = Wish {
        specs: specs.iter().map(|subject| subject.spec.clone()).collect(),
        latency_weight_milli: arguments.weight.named().1,
        arrivals: arguments.arrivals,
        told,
        price: price::Told {
            exit_cpu_ns: arguments.exit_cpu.map(|Nanos(ns)| ns),
            ipi_cpu_ns: arguments.ipi_cpu.map(|Nanos(ns)| ns),
        },
        kernel: arguments.kernel,
        arch: arguments.arch,
        seed: arguments.seed,
    };
    let replayed = play::play(&opened, wish)?;
    let partial = opened
        .capture()
        .notes()
        .iter()
        .any(|note| !matches!(note, Note::OutOfOrder { .. } | Note::Dropped(_)));
    let arrivals = arguments.arrivals;
    let view = view::view(
        opened.info(),
        &replayed,
        &specs,
        arrivals,
        arguments.vcpus,
        partial,
    );
    let options = Options {
        width,
        top: arguments.listing.most(),
        detail: arguments.listing.detail() || arguments.vcpus,
    };
    terminal::show(arguments.json, &view, |view| text::render(view, options))?;
    Ok(if partial || view.basis.lost > 0 {
        Exit::Partial
    } else {
        Exit::Done
    })
}

/// The policies wanted, each tried before a long capture is read.
fn specs(arguments: &Arguments) -> Result<Vec<Subject>, Failure> {
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
        Ok(Subject {
            spec,
            side: policy.side(),
            sees_the_future: policy.sees_the_future(),
        })
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
