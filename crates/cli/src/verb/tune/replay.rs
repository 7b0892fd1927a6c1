//! `haltwise tune --policy SPEC DIR`: what the recorded halts would have cost under given policies.

use anyhow::anyhow;

use haltwise_core::kvm::guest::Params;
use haltwise_core::kvm::{Arch, Version};
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::policy::{POLICIES, Setting, Spec, SpecError};
use haltwise_core::recording::Side;
use haltwise_document::Document;

use crate::exit::{Exit, Failure, Outcome};
use crate::offered::Offered;
use crate::reading::opened::Opened;
use crate::reading::rule;
use crate::recommend::is_partial;
use crate::replay::play::{self, ReplayRequest};
use crate::replay::view::Subject;
use crate::replay::{page, view};

use super::Arguments;

#[derive(Debug, Clone)]
pub(super) enum Asked {
    /// The first that one compares: see [`FIRST_LOOK`] and [`FIRST_LOOK_GUEST`].
    Usual,
    One(Spec),
}

pub(super) const POLICY: Offered<Asked> = Offered {
    names: &POLICY_NAMES,
    read: |text| match text {
        "usual" => Ok(Asked::Usual),
        _ => (text.parse().map(Asked::One)).map_err(|error: SpecError| error.to_string()),
    },
};

const POLICY_NAMES: [&str; POLICIES.len() + 1] = {
    let mut names = ["usual"; POLICIES.len() + 1];
    let mut at = 0;
    while at < POLICIES.len() {
        names[at] = POLICIES[at].name;
        at += 1;
    }
    names
};

const FIRST_LOOK: [&str; 5] = ["off", "kvm", "kvm:knobs=default", "leader", "clairvoyant"];

/// The same for a guest: its governor as it was set is the first, see [`guest_policy`].
const FIRST_LOOK_GUEST: [&str; 10] = [
    "guest-haltpoll:max=50us,grow_start=10us",
    "guest-haltpoll:max=100us",
    "guest-haltpoll",
    "guest-haltpoll:max=500us",
    "guest-haltpoll:max=1ms",
    "guest-haltpoll:max=2400us,grow_start=2400us",
    "smart-idle-poll",
    "idle-poll",
    "cpu-pm",
    "clairvoyant",
];

pub(super) fn run(arguments: &Arguments, opened: &Opened) -> Outcome {
    let shown = &arguments.shown;
    if !arguments.goals.of_vms(&opened.info().roster)?.is_empty() {
        let error = anyhow!("--goal VM=GOAL: a policy is replayed with one goal for all VMs");
        return Err(Failure::new(Exit::Usage, error).hint("give --goal GOAL"));
    }
    let subjects = subjects(&arguments.policy, opened)?;
    let request = ReplayRequest {
        specs: subjects
            .iter()
            .map(|subject| subject.spec.clone())
            .collect(),
        latency_weight_milli: arguments.goals.of_all()?.weight_milli(),
        costs: arguments.costs.clone(),
        price: arguments.price,
    };
    let replayed = play::play(opened, request)?;
    let partial = is_partial(opened);
    let mut view = view::build(opened.info(), replayed, &subjects, partial);
    shown.sort(&mut [&mut view.vms])?;
    let document = |top| page::document(&view, top, shown.is_sorted(), arguments.detail);
    shown.print(&view, document)?;
    Ok(Exit::of_partial(partial || view.basis.lost > 0))
}

/// The policies asked for, each built once before a long capture is read.
fn subjects(asked: &[Asked], opened: &Opened) -> Result<Vec<Subject>, Failure> {
    let mut specs: Vec<Spec> = Vec::new();
    for asked in asked {
        let wanted = match asked {
            Asked::Usual => usual(opened)?,
            Asked::One(spec) => vec![spec.clone()],
        };
        for spec in wanted {
            if !specs.contains(&spec) {
                specs.push(spec);
            }
        }
    }
    let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 0);
    let tried = specs.into_iter().map(|spec| {
        let policy = spec.build(&setting).map_err(|error| {
            Failure::new(Exit::Usage, error).hint("`haltwise tune --policies` lists them all")
        })?;
        Ok(Subject {
            spec,
            side: policy.side(),
            sees_the_future: policy.sees_the_future(),
        })
    });
    tried.collect()
}

fn usual(opened: &Opened) -> Result<Vec<Spec>, SpecError> {
    let in_force = guest_policy(opened);
    let guest = || ["off", &in_force].into_iter().chain(FIRST_LOOK_GUEST);
    match opened.info().side {
        Side::Host => FIRST_LOOK.into_iter().map(str::parse).collect(),
        Side::Guest => guest().map(str::parse).collect(),
    }
}

fn guest_policy(opened: &Opened) -> String {
    if rule::governor(opened).as_deref() != Some("haltpoll") {
        return "off".to_owned();
    }
    let knobs = &opened.info().knobs;
    // Values that are the module's default are left out, except guest_halt_poll_ns.
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

pub(super) fn list() -> Document {
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
