//! `haltwise replay DIR`: what the recorded halts would have cost under other policies.

use std::path::PathBuf;

use haltwise_capture::note::Note;
use haltwise_core::kvm::guest::Params;
use haltwise_core::kvm::{Arch, Version};
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::policy::{POLICIES, Setting, Spec, SpecError};
use haltwise_core::recording::Side;
use haltwise_document::Document;

use crate::exit::{Exit, Failure, Outcome};
use crate::offered;
use crate::prices::GivenCosts;
use crate::prices::price::GivenPrice;
use crate::reading::opened::Opened;
use crate::reading::rule;
use crate::recommend::goal::Weight;
use crate::replay::build::Subject;
use crate::replay::play::{self, ReplayRequest};
use crate::replay::{build, page};
use crate::shown::Shown;
use crate::terminal;

#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  haltwise replay cap                                  a selection of policies
  haltwise replay cap --policy off --policy kvm:max=50us
  haltwise replay cap --policy kvm:max=80us,shrink=0 --goal latency
  haltwise replay cap --policy learned --vcpus
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
    /// learned, oracle; of a guest off, settings of guest-haltpoll, smart-idle-poll,
    /// oracle]
    #[arg(long = "policy", short, value_name = "SPEC", hide_possible_values = true, value_parser = offered::known::<Spec>(&POLICY_NAMES))]
    policy: Vec<Spec>,
    /// List the policies and their parameters
    #[arg(long)]
    policies: bool,
    #[command(flatten)]
    weight: Weight,
    #[command(flatten)]
    costs: GivenCosts,
    #[command(flatten)]
    price: GivenPrice,
    /// Also print each VM in detail, as for a capture of one VM
    #[arg(long)]
    detail: bool,
    /// As --detail, with tables for each vCPU
    #[arg(long)]
    vcpus: bool,
    #[command(flatten)]
    shown: Shown,
}

const POLICY_NAMES: [&str; POLICIES.len()] = {
    let mut names = [""; POLICIES.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = POLICIES[at].name;
        at += 1;
    }
    names
};

/// Policies that are played when none is named.
const FIRST_LOOK: [&str; 5] = ["off", "kvm", "kvm:knobs=default", "learned", "clairvoyant"];

/// The same for a guest: its governor as it was set is the first, see [`guest_policy`].
const FIRST_LOOK_GUEST: [&str; 12] = [
    "guest-haltpoll:max=50us,grow_start=10us",
    "guest-haltpoll:max=100us",
    "guest-haltpoll",
    "guest-haltpoll:max=500us",
    "guest-haltpoll:max=1ms",
    "guest-haltpoll:max=2400us,grow_start=2400us",
    "smart-idle-poll",
    "menu",
    "teo",
    "idle-poll",
    "cpu-pm",
    "clairvoyant",
];

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let shown = &arguments.shown;
    let Some(dir) = arguments.dir.as_deref().filter(|_| !arguments.policies) else {
        terminal::document(&list(), shown.width())?;
        return Ok(Exit::Done);
    };
    let opened = Opened::open(dir)?;
    let specs = specs(arguments, &opened)?;
    let request = ReplayRequest {
        specs: specs.iter().map(|subject| subject.spec.clone()).collect(),
        latency_weight_milli: arguments.weight.milli(),
        costs: arguments.costs.clone(),
        price: arguments.price,
    };
    let by_vcpu = arguments.vcpus;
    let replayed = play::play(&opened, request)?;
    let partial = opened
        .capture()
        .notes()
        .iter()
        .any(|note| !matches!(note, Note::OutOfOrder { .. } | Note::Dropped(_)));
    let detail = arguments.detail || by_vcpu;
    let subjects = (&specs[..], by_vcpu);
    let mut view = build::build(opened.info(), replayed, subjects, partial);
    shown.sort(&mut [&mut view.vms])?;
    let document = |top| page::document(&view, top, shown.is_sorted(), detail);
    shown.print(&view, document)?;
    Ok(Exit::of_partial(partial || view.basis.lost > 0))
}

/// The policies wanted, each tried before a long capture is read.
fn specs(arguments: &Arguments, opened: &Opened) -> Result<Vec<Subject>, Failure> {
    let side = opened.info().side;
    let parse = |all: &[&str]| -> Result<Vec<Spec>, SpecError> {
        all.iter().map(|text| text.parse()).collect()
    };
    let wanted: Vec<Spec> = match side {
        _ if !arguments.policy.is_empty() => arguments.policy.clone(),
        Side::Host => parse(&FIRST_LOOK)?,
        Side::Guest => {
            let in_force = guest_policy(opened).parse()?;
            let mut specs = vec!["off".parse()?];
            for spec in std::iter::once(in_force).chain(parse(&FIRST_LOOK_GUEST)?) {
                if !specs.contains(&spec) {
                    specs.push(spec);
                }
            }
            specs
        }
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

/// The governor of a guest as it was set when it was recorded.
fn guest_policy(opened: &Opened) -> String {
    if rule::governor(opened).as_deref() != Some("haltpoll") {
        return "off".to_owned();
    }
    let knobs = &opened.info().knobs;
    // What is the module's default goes without saying, but for the one that everybody asks for.
    let recorded = Values::recorded(knobs);
    let default = Values::from(Params::default());
    let each = Parameter::GUEST.into_iter().filter_map(|it| {
        let value = recorded.get(it)?;
        let is_said = Some(value) != default.get(it) || it == Parameter::GuestHaltPollNs;
        let unit = if it.is_time() { "ns" } else { "" };
        is_said.then(|| format!("{}={}{unit}", it.key(), it.written(value)))
    });
    format!("guest-haltpoll:{}", each.collect::<Vec<_>>().join(","))
}

fn list() -> Document {
    let mut list = Document::new();
    list.heading("Policies");
    for entry in POLICIES {
        list.fact(entry.name, entry.summary);
        if !entry.form.is_empty() {
            list.fact(format!("    {}", entry.name), entry.form);
        }
    }
    list
}
