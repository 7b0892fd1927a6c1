//! The pilot's reports on a VM, in words: the same in `haltwise status` and in `haltwise top`.

use haltwise_core::pilot::standing::{PilotVm, VmState};
use haltwise_core::stats::Interval;

use super::PilotStatus;
use crate::number::{maybe_nanos, nanos, whole};
use crate::page::{Page, fit_middle, harmless};

/// Meaning of the figures of [`benefit`].
pub(crate) const SAVED: &str = "Saved: CPU time, with latency by the goal, against the ceiling found, by replay; in \
                                brackets its 95 % interval.";

pub(crate) fn pilot(status: &PilotStatus) -> String {
    format!(
        "pid {}, mode {}, goal {}; state of {}",
        status.pid,
        harmless(&status.mode),
        harmless(&status.goal),
        harmless(&status.written_utc)
    )
}

/// Since when a VM is in its state; `None` where the pilot can set nothing for it, and so found nothing.
pub(crate) fn since(vm: &PilotVm) -> Option<String> {
    vm.found_ns.map(|_| harmless(&vm.since_utc))
}

fn setting(vm: &PilotVm) -> String {
    let since = since(vm).map_or_else(String::new, |since| format!(" since {since}"));
    let found = vm
        .found_ns
        .map_or_else(String::new, |ns| format!(", found {}", nanos(ns.into())));
    let (state, ceiling) = (vm.state, maybe_nanos(vm.ceiling_ns.map(u64::from)));
    format!("{state}{since}, ceiling {ceiling}{found}")
}

/// Benefit of the setting so far, and the reason for the setting: sentences without their end.
pub(crate) fn benefit_and_why(vm: &PilotVm) -> String {
    let why = harmless(&vm.why);
    benefit(vm).map_or_else(|| why.clone(), |benefit| format!("{benefit}; {why}"))
}

/// Text before a paragraph about VMs: their names, cut where they would fill the first line.
pub(crate) fn name(name: &str, width: usize) -> String {
    format!("  {}: ", fit_middle(&harmless(name), width / 2))
}

pub(crate) fn vm(page: &mut Page, first: &str, vm: &PilotVm) {
    let text = format!("{}; {}", setting(vm), benefit_and_why(vm));
    page.wrapped(first, &text, 4);
}

/// `saved 12.3 s of CPU (10.1 to 14.9)`, behind what it would set where it only observes; `None` where it is not known.
fn benefit(vm: &PilotVm) -> Option<String> {
    let saved = vm.saved_ns.as_ref()?;
    // A figure that an earlier version wrote is a saving where a setting was kept.
    let is_saved = vm.is_saved.unwrap_or(vm.state == VmState::Kept);
    let saved = if is_saved {
        format!("saved {}", time(saved))
    } else {
        format!("would have saved {}", time(saved))
    };
    Some(match vm.would_set_ns {
        Some(ns) => format!("would set {}, {saved}", nanos(ns.into())),
        None => saved,
    })
}

/// A time of either sign with its interval, in the unit of the largest of them.
fn time(of: &Interval) -> String {
    let ends = [of.value, of.low, of.high];
    let largest = ends.iter().fold(0.0_f64, |most, end| most.max(end.abs()));
    let (divisor, unit) = match largest {
        0.0 => return "nothing so far".to_owned(),
        ns if ns < 1e6 => (1e3, "us"),
        ns if ns < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let decimals = match largest / divisor {
        most if most < 9.995 => 2,
        most if most < 99.95 => 1,
        _ => 0,
    };
    let [value, low, high] = ends.map(|ns| format!("{:.decimals$}", ns / divisor));
    format!("{value} {unit} of CPU ({low} to {high})")
}

/// The same in a narrow column: the estimate alone, in brackets where it would have been saved.
pub(crate) fn short(vm: &PilotVm) -> Option<String> {
    let ns = vm.saved_ns.as_ref()?.value;
    let sign = if ns < 0.0 { "-" } else { "" };
    let time = nanos(whole(ns.abs()));
    Some(match vm.is_saved {
        Some(false) => format!("({sign}{time})"),
        _ => format!("{sign}{time}"),
    })
}

#[cfg(test)]
mod test;
