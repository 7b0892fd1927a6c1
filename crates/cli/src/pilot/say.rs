//! The pilot's decisions as lines of a log.

use haltwise_capture::info::Clock;
use haltwise_core::pilot::decision::{Decision, Kind};
use haltwise_core::pilot::input::Scope;
use haltwise_core::stats::Interval;
use haltwise_host::clock;

use crate::number::nanos;
use crate::page::harmless;

pub(crate) fn utc(ago_ns: u64) -> String {
    Clock::new(0, clock::wall_ns().saturating_sub(ago_ns)).start_utc
}

/// One line for a decision: what, why, what is expected, what was measured, and how it is undone.
pub(crate) fn line(decision: &Decision, name: &str) -> String {
    let who = match decision.scope {
        Scope::Vm(vm) => format!("VM {} (pid {})", harmless(name), vm.pid),
        Scope::Host => "the host's parameters".to_owned(),
    };
    let mut line = format!("{}: {who}", decision.kind.as_str());
    if let Some(change) = decision.change.filter(|change| change.from != change.to) {
        line += ": halt_poll_ns ";
        line += &nanos(change.from.halt_poll_ns.into());
        line += " -> ";
        line += &nanos(change.to.halt_poll_ns.into());
        for (name, from, to) in [
            ("grow", change.from.grow, change.to.grow),
            ("grow_start", change.from.grow_start, change.to.grow_start),
            ("shrink", change.from.shrink, change.to.shrink),
        ] {
            if from != to {
                let moved = format!(", {name} {from} -> {to}");
                line += &moved;
            }
        }
    }
    line += "; ";
    line += &harmless(&decision.why);
    if let Some(gain) = decision.expected {
        line += "; expected ";
        line += &change(&-gain);
    }
    if let Some(measured) = &decision.measured {
        line += "; measured ";
        line += &change(measured);
    }
    if decision.is_made || decision.kind == Kind::Try {
        line.push_str("; undo: haltwise undo");
    }
    line
}

fn change(of: &Interval) -> String {
    // The ends of an interval are estimates too: nothing costs less than nothing.
    let percent = |share: f64| format!("{:+.0} %", share.max(-1.0) * 100.0);
    format!(
        "{} ({} to {})",
        percent(of.value),
        percent(of.low),
        percent(of.high)
    )
}
