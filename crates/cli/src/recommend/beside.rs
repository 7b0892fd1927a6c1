//! What stands beside a recommendation: how it compares with other settings and other rules, and what
//! reaches whom. `tune` says it, and the page of `report --html` says the same.

use haltwise_core::tune::interval::Interval;

use super::candidates::SettingRow;
use super::say;
use super::view::{PlayedSettings, SettingFigures, TuneResult};
use crate::number::count;
use crate::page::{fit_middle, harmless};
use crate::plan::Settings;

/// VMs that are named.
const NAMED: usize = 6;

/// Columns that a VM's name may take in a sentence.
const NAME_WIDTH: usize = 40;

/// What [`caps`] is about.
pub(crate) const CAPS: &str = "A ceiling for each VM";

/// What is set now, and for whom it is not.
pub(crate) fn in_force(view: &TuneResult, played: &PlayedSettings) -> String {
    let mut text = format!("Current: {}.", say::setting(&view.in_force));
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
    let who = if view.changes {
        "The recommended setting"
    } else {
        "The best setting found"
    };
    let against = played.against_default.as_ref();
    let against = against.filter(|_| !played.is_default_in_force)?;
    let difference = difference(&against.cost_share);
    Some(format!(
        "{who} compared with the kernel's default: {difference}."
    ))
}

/// How far the parameters are from the best policy of any kind.
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
    Some(if theirs < ours {
        format!(
            "The best of seven other policies, {name}, would cost {} than the best setting of KVM's \
             parameters.",
            say::change(theirs / ours - 1.0)
        )
    } else {
        format!(
            "None of seven other policies beats the best setting of KVM's parameters here; the best of \
             them, {name}, would cost {}.",
            say::change(theirs / ours.max(f64::MIN_POSITIVE) - 1.0)
        )
    })
}

/// What a ceiling for each VM would add.
pub(crate) fn caps(view: &TuneResult, played: &PlayedSettings) -> Option<String> {
    let caps = played.caps.as_ref()?;
    let stands = if view.changes {
        "the recommended setting"
    } else {
        "the current setting"
    };
    if caps.cost_share.value >= 0.0 {
        return Some(format!("Would not improve {stands}."));
    }
    let mut vms: Vec<String> = (caps.vms.iter().take(NAMED))
        .map(|cap| {
            let name = harmless(cap.name.as_deref().unwrap_or("?"));
            let name = fit_middle(&name, NAME_WIDTH);
            let ceiling = match cap.ceiling_ns {
                0 => "off".to_owned(),
                ns => say::time(ns),
            };
            format!("{name} {ceiling}")
        })
        .collect();
    if caps.vms.len() > NAMED {
        let more = caps.vms.len() - NAMED;
        vms.push(format!("{} more, see --json", count(more as u64)));
    }
    Some(format!(
        "Would cost {} than {stands}: {}, with {}.",
        difference(&caps.cost_share),
        vms.join(", "),
        say::parameters(&Settings {
            halt_poll_ns: None,
            ..caps.setting
        }),
    ))
}

/// Which VMs a new ceiling does not reach.
pub(crate) fn snapshot(view: &TuneResult) -> Option<&'static str> {
    let text = "On this kernel (5.8 to 6.0) a VM keeps the ceiling it was started with: halt_poll_ns \
                applies to VMs that are started afterwards.";
    view.basis.ceiling_is_snapshot.then_some(text)
}

fn difference(of: &Interval) -> String {
    format!("{} ({})", say::change(of.value), say::interval(of))
}
