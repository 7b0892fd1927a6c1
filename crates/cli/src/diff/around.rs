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
use super::pair::{Pair, Pairing, Whose};
use super::view::Circumstance;
use crate::number::{count, nanos, percent, scaled, share, three_digits};
use crate::words::{ceiling_source, plural};

/// Lengths that differ by less than this share are as good as the same.
const SAME_LENGTH: f64 = 0.05;

/// CPUs busy beside each other that differ by less than this are as good as the same.
const SAME_CPUS: f64 = 0.1;

/// Powers that differ by less than this share are as good as the same.
const SAME_POWER: f64 = 0.05;

/// Rates of cycles that differ by less than this share are as good as the same.
const SAME_CYCLES: f64 = 0.05;

/// Shares of the CPUs' time in a state of cpuidle that differ by less than this are as good as the same.
const SAME_RESIDENCY: f64 = 0.05;

/// Shares of time in which some task waited for a CPU: the same.
const SAME_PRESSURE: f64 = 0.1;

/// Everything that differs, what was set first.
pub(crate) fn circumstances(a: &Side<'_>, b: &Side<'_>, pairing: &Pairing) -> Vec<Circumstance> {
    let mut all = Vec::new();
    settings(&mut all, a, b);
    for pair in &pairing.pairs {
        of_vm(&mut all, a, b, pair);
    }
    let (one, other) = (&a.recording, &b.recording);
    let (info, other_info) = (a.opened.info(), b.opened.info());
    let mut say = |what: &str, a: String, b: String| differ(&mut all, what, a, b);
    say("host", one.hostname.clone(), other.hostname.clone());
    say("kernel", one.kernel.clone(), other.kernel.clone());
    if let Some((one, other)) = pending(a).zip(pending(b)) {
        say("HLT with an event pending", one.into(), other.into());
    }
    let cpu = |info: &haltwise_capture::info::CaptureInfo| {
        let host = &info.host;
        let model = host.cpu_model.as_deref().unwrap_or(&host.arch);
        format!("{} x {model}", host.cpus)
    };
    say("CPUs", cpu(info), cpu(other_info));
    say("source", one.rung.to_string(), other.rung.to_string());
    say("mode", one.mode.to_string(), other.mode.to_string());
    let length = |side: &Side<'_>| {
        side.recording
            .end_ns
            .saturating_sub(side.recording.start_ns)
    };
    let (long, short) = (length(a).max(length(b)), length(a).min(length(b)));
    if (long - short) as f64 > SAME_LENGTH * long as f64 {
        say("length", nanos(length(a)), nanos(length(b)));
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
    let lost = |side: &Side<'_>| side.recording.without_row();
    if lost(a) > 0 || lost(b) > 0 {
        say("events lost", count(lost(a)), count(lost(b)));
    }
    let whole = |side: &Side<'_>| match (side.recording.cut, side.recording.damaged) {
        (false, false) => "whole",
        (true, false) => "cut",
        _ => "damaged",
    };
    say("capture", whole(a).to_owned(), whole(b).to_owned());
    all
}

/// How KVM treats a HLT whose event is already pending; `None` if unknown or not x86.
fn pending(side: &Side<'_>) -> Option<&'static str> {
    let version: Version = side.recording.kernel.parse().ok()?;
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
    let mut say = |what: &str, both: Option<(f64, f64)>, least: Least, text: fn(f64) -> String| {
        if let Some((one, other)) = both.filter(|both| least.is_reached(*both)) {
            differ(all, what, text(one), text(other));
        }
    };
    let both = |of: fn(&HostUse) -> Option<f64>| of(one).zip(of(other));
    let watts = |watts| format!("{} W", three_digits(watts));
    let power = both(HostUse::package_watts);
    say("CPU packages", power, Least::Share(SAME_POWER), watts);
    let cycles = both(HostUse::cycles_per_s);
    say("cycles/s", cycles, Least::Share(SAME_CYCLES), scaled);
    let busy = both(HostUse::busy_cpus);
    say("CPUs busy", busy, Least::By(SAME_CPUS), three_digits);
    let states = |side: &Side<'_>| -> BTreeMap<(u32, String), f64> {
        let used = side.recording.ledger.idle_states.used();
        used.map(|it| ((it.state, it.name.to_owned()), it.share()))
            .collect()
    };
    let (ours, theirs) = (states(a), states(b));
    for (key, time) in &ours {
        let what = format!("CPU time in {}", key.1);
        let both = theirs.get(key).map(|other| (*time, *other));
        say(&what, both, Least::By(SAME_RESIDENCY), share);
    }
}

/// By how much two figures must differ to be worth a line.
#[derive(Debug, Clone, Copy)]
enum Least {
    By(f64),
    Share(f64),
}

impl Least {
    fn is_reached(self, (one, other): (f64, f64)) -> bool {
        let least = match self {
            Self::By(least) => least,
            Self::Share(share) => share * one.max(other),
        };
        (one - other).abs() >= least && one.max(other) > 0.0
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

/// Settings of the host, and of the machine as another's guest.
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
    let (Whose::Vm(in_a), Whose::Vm(in_b)) = (&pair.a, &pair.b) else {
        return;
    };
    let name = pair.name_a.as_deref().unwrap_or_default();
    if pair.name_a != pair.name_b {
        let other = pair.name_b.clone().unwrap_or_default();
        differ(all, "VM", name.to_owned(), other);
    }
    let account = |side: &Side<'_>, indices: &[haltwise_core::ids::VmIndex]| {
        let mut sum = Account::default();
        for index in indices {
            sum.fold(&side.recording.ledger.vm(*index));
        }
        sum
    };
    let (one, other) = (account(a, in_a), account(b, in_b));
    differ(
        all,
        &format!("ceiling of {name}"),
        ceiling(&one),
        ceiling(&other),
    );
    let vcpus = |side: &Side<'_>, indices: &[haltwise_core::ids::VmIndex]| {
        let vcpus = side.recording.roster.vcpus.iter();
        let theirs = vcpus.filter(|vcpu| indices.contains(&vcpu.vm));
        let ids: BTreeSet<_> = theirs.map(|vcpu| (vcpu.vm, vcpu.id)).collect();
        ids.len().to_string()
    };
    differ(
        all,
        &format!("vCPUs of {name}"),
        vcpus(a, in_a),
        vcpus(b, in_b),
    );
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
    let missing = side.recording.missing.iter();
    let fields: BTreeSet<&str> = missing.flat_map(fields).collect();
    if fields.is_empty() {
        "nothing".to_owned()
    } else {
        fields.into_iter().collect::<Vec<_>>().join(", ")
    }
}
