//! The pilot's decisions as lines of a log, and its state as figures.

use haltwise_capture::info::Clock;
use haltwise_core::event::Vm;
use haltwise_core::pilot::decision::{Decision, Kind};
use haltwise_core::pilot::guards;
use haltwise_core::pilot::input::Scope;
use haltwise_core::pilot::standing::{OfVm, Standing};
use haltwise_core::stats::Interval;
use haltwise_host::clock;

use crate::number::{nanos, whole};
use crate::page::harmless;
use crate::pilot_state::{PilotDecisions, PilotErrors, PilotGuard, PilotVm};

pub(crate) fn utc() -> String {
    of_ago(0)
}

fn of_ago(ago_ns: u64) -> String {
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

fn finite(of: Interval) -> Option<Interval> {
    of.is_known().then_some(of)
}

pub(crate) fn vm(of: &OfVm, known: Option<&Vm>) -> PilotVm {
    let goal = of.seen.goal.as_ref();
    let second = |ns: u64| of.counts.map(|counts| 100.0 * counts.per_s(ns) / 1e9);
    PilotVm {
        vm: of.seen.name.clone(),
        uuid: known.and_then(|vm| vm.identity.uuid.clone()),
        pid: of.seen.key.pid.0,
        vcpus: of.seen.vcpus,
        goal: goal.map_or("excluded", |goal| &goal.name).to_owned(),
        state: of.state.to_owned(),
        ceiling_ns: of.ceiling_ns.map(u64::from),
        found_ns: of.found_ns.map(u64::from),
        since_utc: of_ago(of.for_ns),
        state_ns: Some(of.for_ns),
        why: of.why.clone(),
        decision: of.decided.map(|(kind, _)| kind.as_str().to_owned()),
        decision_ago_ns: of.decided.map(|(_, ago_ns)| ago_ns),
        would_set_ns: of.would_set_ns.map(u64::from),
        predicted: of.predicted.and_then(finite),
        measured: of.measured.and_then(finite),
        saved_ns: of.saved_ns.and_then(finite),
        is_saved: Some(of.is_saved),
        regret: of.regret,
        halts_per_s: of.counts.map(|counts| counts.per_s(counts.halts)),
        poll_cpu_percent: of.counts.and_then(|counts| second(counts.poll_ns)),
        failed_poll_cpu_percent: of.counts.and_then(|counts| second(counts.failed_poll_ns)),
        latency_mean_ns: of.latency_mean_ns.map(whole),
        phase_ns: of.phase_ns,
    }
}

pub(crate) fn guard(of: &guards::Standing) -> PilotGuard {
    PilotGuard {
        guard: of.guard.as_str().to_owned(),
        holds: of.holds,
        value: of.value,
        limit: of.limit,
        why: of.why(),
    }
}

pub(crate) fn decisions(of: &Standing) -> PilotDecisions {
    let count = |kind| of.decided.get(&kind).copied().unwrap_or(0);
    PilotDecisions {
        would_set: count(Kind::WouldSet),
        tried: count(Kind::Try),
        kept: count(Kind::Keep) + count(Kind::Again),
        went_back: count(Kind::GoBack),
        restored: count(Kind::Restore),
        hands_off: count(Kind::HandsOff),
        failed: of.failed,
    }
}

pub(crate) fn errors(of: &Standing) -> PilotErrors {
    PilotErrors {
        trials: of.trials as u64,
        proofs: Some(of.proofs as u64),
        p50: of.errors.percentile(0.5),
        p90: of.errors.percentile(0.9),
    }
}
