//! Differences in setup: where, with what, under which settings, for how long. A difference
//! of figures may come from any of these.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::account::Account;
use haltwise_core::account::ledger::HostUse;
use haltwise_core::event::KnobScope;
use haltwise_core::kvm::{Arch, Version};
use haltwise_core::stats::Fold;
use haltwise_core::stats::total;

use super::load::{Side, fields};
use super::pair::{Named, Pair, Pairing};
use super::view::Circumstance;
use crate::number::{count, nanos, percent, scaled, share, three_digits};
use crate::words::{ceiling_source, plural};

/// Lengths, powers and rates of cycles that differ by less than this share are as good as the same.
const SAME_SHARE: f64 = 0.05;

/// CPUs busy beside each other that differ by less than this are as good as the same.
const SAME_CPUS: f64 = 0.1;

/// Shares of the CPUs' time in a state of cpuidle that differ by less than this are as good as the same.
const SAME_RESIDENCY: f64 = 0.05;

/// Shares of time in which some task waited for a CPU: the same.
const SAME_PRESSURE: f64 = 0.1;

pub(crate) fn circumstances(a: &Side<'_>, b: &Side<'_>, pairing: &Pairing) -> Vec<Circumstance> {
    let mut all = Vec::new();
    settings(&mut all, a, b);
    for pair in &pairing.pairs {
        of_vm(&mut all, a, b, pair);
    }
    let (one, other) = (&a.recording, &b.recording);
    let (info, other_info) = (a.opened.info(), b.opened.info());
    let mut say = |what: &str, a: String, b: String| differ(&mut all, what, a, b);
    say("host", one.hostname(), other.hostname());
    say("kernel", one.kernel(), other.kernel());
    if let Some((one, other)) = pending(a).zip(pending(b)) {
        say("HLT with an event pending", one.into(), other.into());
    }
    let cpu = |info: &haltwise_capture::info::CaptureInfo| {
        let host = &info.host;
        let model = host.cpu_model.as_deref().unwrap_or(&host.arch);
        format!("{} x {model}", host.cpus)
    };
    say("CPUs", cpu(info), cpu(other_info));
    let (one, other) = (&one.reported, &other.reported);
    say("source", one.rung.to_string(), other.rung.to_string());
    say("mode", one.mode.to_string(), other.mode.to_string());
    let [ours_ns, theirs_ns] = [one, other].map(|it| it.duration_ns);
    if ours_ns.abs_diff(theirs_ns) as f64 > SAME_SHARE * ours_ns.max(theirs_ns) as f64 {
        say("length", nanos(ours_ns), nanos(theirs_ns));
    }
    machine(&mut all, a, b);
    let mut say = |what: &str, a: String, b: String| differ(&mut all, what, a, b);
    let pressure = |side: &Side<'_>| side.recording.ledger.host.cpu_pressure();
    if let (Some(one), Some(other)) = (pressure(a), pressure(b))
        && (one - other).abs() >= SAME_PRESSURE
    {
        say(
            "time with tasks waiting for a CPU",
            share(one),
            share(other),
        );
    }
    say("exits", exits(a), exits(b));
    say("not recorded", missing(a), missing(b));
    let lost = |side: &Side<'_>| side.recording.reported.lost;
    if lost(a) > 0 || lost(b) > 0 {
        say("events lost", count(lost(a)), count(lost(b)));
    }
    let whole = |side: &Side<'_>| match (side.recording.reported.cut, side.recording.damaged) {
        (false, false) => "whole",
        (true, false) => "cut",
        _ => "damaged",
    };
    say("capture", whole(a).to_owned(), whole(b).to_owned());
    all
}

/// Whether both kernels count the same halts as successful polls.
pub(super) fn polls_compare(a: &Side<'_>, b: &Side<'_>) -> bool {
    let pending = pending(a).zip(pending(b));
    pending.is_none_or(|(a, b)| a == b)
}

/// How KVM treats a HLT whose event is already pending; `None` if unknown or not x86.
fn pending(side: &Side<'_>) -> Option<&'static str> {
    let version: Version = side.recording.kernel().parse().ok()?;
    if Arch::of_machine(&side.opened.info().host.arch) != Some(Arch::X86) {
        return None;
    }
    Some(if version < Version::new(6, 12) {
        "a halt, and a successful poll where the window is open"
    } else {
        "no halt (fast path of Linux 6.12): shares of successful polls and halts for each HLT do not compare"
    })
}

fn machine(all: &mut Vec<Circumstance>, a: &Side<'_>, b: &Side<'_>) {
    let [one, other] = [a, b].map(|side| &side.recording.ledger.host);
    let mut say = |what: &str, both: Option<(f64, f64)>, least: f64, text: fn(f64) -> String| {
        let is_seen =
            |(one, other): &(f64, f64)| (one - other).abs() >= least && one.max(*other) > 0.0;
        if let Some((one, other)) = both.filter(is_seen) {
            differ(all, what, text(one), text(other));
        }
    };
    let least_of = |both: Option<(f64, f64)>| both.map_or(0.0, |(a, b)| SAME_SHARE * a.max(b));
    let both = |of: fn(&HostUse) -> Option<f64>| of(one).zip(of(other));
    let watts = |watts| format!("{} W", three_digits(watts));
    let power = both(HostUse::package_watts);
    say("CPU packages", power, least_of(power), watts);
    let cycles = both(HostUse::cycles_per_s);
    say("cycles/s", cycles, least_of(cycles), scaled);
    let busy = both(HostUse::busy_cpus);
    say("CPUs busy", busy, SAME_CPUS, three_digits);
    let states = |side: &Side<'_>| -> BTreeMap<(u32, String), f64> {
        let used = side.recording.ledger.idle_states.used();
        used.map(|it| ((it.state, it.name), it.share)).collect()
    };
    let (ours, theirs) = (states(a), states(b));
    for (key, time) in &ours {
        let what = format!("CPU time in {}", key.1);
        let both = theirs.get(key).map(|other| (*time, *other));
        say(&what, both, SAME_RESIDENCY, share);
    }
}

fn differ(all: &mut Vec<Circumstance>, what: &str, a: String, b: String) {
    if a != b {
        all.push(Circumstance {
            what: what.to_owned(),
            a,
            b,
        });
    }
}

fn settings(all: &mut Vec<Circumstance>, a: &Side<'_>, b: &Side<'_>) {
    let named = |side: &Side<'_>| -> BTreeSet<(KnobScope, String)> {
        let rows = side.recording.ledger.knobs.rows();
        rows.map(|(key, _)| key.clone())
            .filter(|(scope, _)| !matches!(scope, KnobScope::Vm(_)))
            .collect()
    };
    let mut keys = named(a);
    keys.extend(named(b));
    for key in keys {
        let value = |side: &Side<'_>| {
            let seen = side.recording.ledger.knobs.get(&key);
            let value = seen.and_then(|seen| seen.now.value().cloned());
            let changes = seen.map_or(0, |seen| seen.told.count.saturating_sub(1));
            match (value, changes) {
                (None, _) => "not recorded".to_owned(),
                (Some(value), 0) => value,
                (Some(value), n) => format!("{value} at the end, after {}", plural(n, "change")),
            }
        };
        let what = match key.0 {
            KnobScope::GuestOfOther => format!("{}, as a guest", key.1),
            _ => key.1.clone(),
        };
        differ(all, &what, value(a), value(b));
    }
}

fn of_vm(all: &mut Vec<Circumstance>, a: &Side<'_>, b: &Side<'_>, pair: &Pair) {
    let Some([in_a, in_b]) = pair else {
        return;
    };
    let name = &in_a.name;
    differ(all, "VM", name.clone(), in_b.name.clone());
    let ceiling = |side: &Side<'_>, of: &Named| {
        let mut sum = Account::default();
        for index in &of.vms {
            sum.fold(&side.recording.ledger.vm(*index));
        }
        ceiling(&sum)
    };
    let what = format!("ceiling of {name}");
    differ(all, &what, ceiling(a, in_a), ceiling(b, in_b));
    let vcpus = |side: &Side<'_>, of: &Named| {
        let vcpus = side.recording.info.roster.vcpus.iter();
        let theirs = vcpus.filter(|vcpu| of.vms.contains(&vcpu.vm));
        let ids: BTreeSet<_> = theirs.map(|vcpu| (vcpu.vm, vcpu.id)).collect();
        ids.len().to_string()
    };
    let what = format!("vCPUs of {name}");
    differ(all, &what, vcpus(a, in_a), vcpus(b, in_b));
}

/// The ceiling that governed most halts, and for how many if there were others.
fn ceiling(account: &Account) -> String {
    let rows: Vec<_> = account.ceilings.rows().collect();
    let all = total(rows.iter().map(|(_, span)| span.count));
    let most = rows.iter().max_by_key(|(_, span)| span.count);
    most.map_or_else(
        || "not recorded".to_owned(),
        |(ceiling, span)| {
            let source = ceiling_source(ceiling.source);
            let value = format!("{}, {source}", nanos(u64::from(ceiling.ns)));
            if rows.len() > 1 {
                let share = percent(span.count as f64, all as f64);
                format!("{value} ({share} of halts)")
            } else {
                value
            }
        },
    )
}

fn exits(side: &Side<'_>) -> String {
    match &side.opened.info().exits {
        None => "not recorded".to_owned(),
        Some(recorded) => {
            let vcpus: Vec<String> = recorded.vcpus.iter().map(ToString::to_string).collect();
            let only = |what: &str, list: &[String]| {
                (!list.is_empty()).then(|| format!(", only {what} {}", list.join(" ")))
            };
            let mut text = "recorded".to_owned();
            text.extend(only("of vCPU", &vcpus));
            text.extend(only("reason", &recorded.reasons));
            text
        }
    }
}

fn missing(side: &Side<'_>) -> String {
    let missing = side.recording.reported.missing.iter();
    let fields: BTreeSet<&str> = missing.flat_map(fields).collect();
    if fields.is_empty() {
        "nothing".to_owned()
    } else {
        fields.into_iter().collect::<Vec<_>>().join(", ")
    }
}
