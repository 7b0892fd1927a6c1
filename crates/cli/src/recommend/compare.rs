//! Comparison of a recommendation with other settings and other rules, and which settings
//! reach which VMs. `tune` prints it, and the page of `report --html` says the same.

use haltwise_core::replay::GoalName;
use haltwise_core::stats::Interval;

use haltwise_document::table::Table;
use haltwise_document::{Rows, Unit};

use super::candidates::SettingRow;
use super::caps::Withheld;
use super::say;
use super::view::{PlayedSettings, SettingFigures, TuneResult, VmCeilings};
use crate::number::{self, nanos_f64};
use crate::page::harmless;
use crate::words::some;

pub(crate) const CAPS: &str = "A ceiling for each VM";

pub(crate) fn in_force(view: &TuneResult, played: &PlayedSettings) -> String {
    let mut text = format!("Current: {}.", say::setting(&view.recommendation.in_force));
    if played.is_default_in_force {
        text.push_str(" This is the kernel's default.");
    }
    let others = view.basis.other_ceiling_vcpus;
    if others > 0 {
        text = format!("{text} {others} of the vCPUs had a different ceiling.");
    }
    text
}

/// Against the kernel's default, where something else is in force.
pub(crate) fn default(view: &TuneResult, played: &PlayedSettings) -> Option<String> {
    let who = if view.recommendation.changes {
        "The recommended setting"
    } else {
        "The best setting found"
    };
    let against = played.against_default.as_ref();
    let against = against.filter(|_| !played.is_default_in_force)?;
    Some(format!(
        "{who} costs {} {} the kernel's default.",
        difference(&against.cost_share),
        say::than(against.cost_share.value),
    ))
}

/// How far the parameters are from the policy that learns.
pub(crate) fn distance(played: &PlayedSettings) -> Option<String> {
    let best = played.best_policy.as_ref()?;
    let is_ours =
        |row: &&SettingFigures| row.row == SettingRow::Choice || row.row == SettingRow::InForce;
    let ours = played
        .rows
        .iter()
        .filter(is_ours)
        .map(|row| row.figures.cost_ns_per_halt);
    let ours = ours.fold(f64::INFINITY, f64::min);
    let theirs = best.figures.cost_ns_per_halt;
    let name = &best.policy;
    let change = theirs / ours.max(f64::MIN_POSITIVE) - 1.0;
    Some(format!(
        "The policy {name}, which no kernel has, would cost {} {} the best setting of KVM's parameters.",
        say::change(change),
        say::than(change)
    ))
}

/// Gain from a ceiling for each VM, in a sentence or two.
pub(crate) fn caps(played: &PlayedSettings) -> Option<String> {
    let own = played.caps.as_ref()?;
    if own.cost_share.value >= 0.0 {
        return Some("Would not improve the best single setting.".to_owned());
    }
    let saved = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), number::share);
    let costs = &own.costs;
    let mut text = format!(
        "A halt costs {} now, {} under the best single setting ({} of what the oracle saves), {} with ceilings \
         ({}), {} under the oracle. Ceilings cost {} {} the single setting.",
        nanos_f64(costs.current_ns),
        nanos_f64(costs.one_ns),
        saved(own.one_of_oracle),
        nanos_f64(costs.own_ns),
        saved(own.own_of_oracle),
        nanos_f64(costs.oracle_ns),
        difference(&own.cost_share),
        say::than(own.cost_share.value),
    );
    text.push_str(match own.withheld {
        None => "",
        Some(Withheld::NotSettable) => {
            " No VM could be given one when this was recorded (docs/ceilings.md); --ceilings all plans for VMs \
             that are to be started so."
        }
        Some(Withheld::OverLimit) => {
            " They poll for more than is allowed, because VMs that keep their ceiling do: the plan has none."
        }
        Some(Withheld::NoGain) => " That is too little, or may be chance: the plan has none.",
        Some(Withheld::SameName) => {
            " Several VMs have the same name, by which a plan names them: the plan has none."
        }
    });
    Some(text)
}

pub(crate) fn ceilings(own: &VmCeilings, top: usize) -> Table {
    Rows::new("VMs", &own.vms, top)
        .with("VM", Unit::Name, |vm| {
            let follow = "those that follow halt_poll_ns";
            vm.name.clone().unwrap_or_else(|| follow.to_owned())
        })
        .show(&["goal"])
        .with("ceiling", Unit::Word, |vm| match vm.ceiling_ns {
            0 => "off".to_owned(),
            ns => say::time(ns),
        })
        .show(&["current_ns", "one_ns", "own_ns", "oracle_ns"])
        .finish()
}

const NAMED: usize = 4;

/// VMs with a goal of their own, and what that means for the host's parameters.
pub(crate) fn vm_goals(view: &TuneResult) -> Option<String> {
    let of = |goal: GoalName| {
        let vms = view.vm_goals.iter().filter(|vm| vm.goal == goal.as_str());
        let names: Vec<String> = vms.map(|vm| harmless(&vm.name)).collect();
        (!names.is_empty()).then(|| format!("{} for {}", goal.as_str(), some(&names, NAMED)))
    };
    let goals: Vec<String> = GoalName::ALL.into_iter().filter_map(of).collect();
    (!goals.is_empty()).then(|| {
        format!(
            "Goals of single VMs: {}. The host's parameters are chosen by the sum of the costs of all VMs, each \
             by its own goal.",
            goals.join("; ")
        )
    })
}

pub(crate) fn snapshot(view: &TuneResult) -> Option<&'static str> {
    let text = "On this kernel (5.8 to 6.0) a VM keeps the ceiling it was started with: halt_poll_ns \
                applies to VMs that are started afterwards.";
    view.basis.ceiling_is_snapshot.then_some(text)
}

fn difference(of: &Interval) -> String {
    format!("{} ({})", say::change(of.value), say::interval(of))
}
