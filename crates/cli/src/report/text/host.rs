//! The head of the report: the host and its settings; and the figures of an account in a row.

use haltwise_core::account::idle::StateUse;
use haltwise_core::parameter::Parameter;
use haltwise_core::recording::Side;
use haltwise_core::stats::total;
use haltwise_core::topology::Distance;

use crate::number::{maybe_nanos, nanos, scaled, share, three_digits};
use crate::page::{Page, Stands, harmless};
use crate::report::view::{AccountFigures, Report, ReportedSetting};
use crate::words::{bound, bound_sign, plural};

pub(super) fn host(page: &mut Page, report: &Report) {
    let host = &report.host;
    let side = report.recording.side;
    let what = match side {
        Side::Host => "Host",
        Side::Guest => "Guest",
    };
    page.heading(&format!("{what} {}", harmless(&host.name)));
    let mut machine = vec![format!("Linux {}", harmless(&host.kernel))];
    machine.extend(host.cpus.map(|n| plural(n.into(), "CPU")));
    let busy = |cpus| format!("{} of them busy", three_digits(cpus));
    machine.extend(host.busy_cpus.map(busy));
    let pressure = |p| format!("CPU pressure {} (PSI)", share(p));
    machine.extend(host.cpu_pressure.map(pressure));
    let steal = |s| format!("steal {}", share(s));
    let awake = |cpus| format!("{} awake (C0)", three_digits(cpus));
    machine.extend(host.awake_cpus.map(awake));
    let power = |watts| format!("CPU packages {} W", three_digits(watts));
    machine.extend(host.package_watts.map(power));
    let cycles = |rate| format!("{} cycles/s", scaled(rate));
    machine.extend(host.cycles_per_s.map(cycles));
    let each = |ipc| format!("{} instructions/cycle", three_digits(ipc));
    machine.extend(host.instructions_per_cycle.map(each));
    machine.extend(host.steal.filter(|&s| s > 0.0).map(steal));
    page.wrapped("  ", &machine.join(", "), 2);
    idle_states(page, &host.idle_states);
    knobs(page, &host.knobs, side);
    let account = &host.account;
    let cpus_polling = account.poll.ns.map(|ns| {
        let cpus = ns as f64 / account.span_ns.max(1) as f64;
        let bound = bound(account.poll.bound);
        format!(", polling takes {bound}{} of a CPU", share(cpus))
    });
    page.wrapped(
        "  ",
        &format!(
            "{} in {}: {}, {} halts/s{}",
            match side {
                Side::Host => {
                    let vms = plural(host.vms as u64, "VM");
                    format!("{vms}, {}", plural(account.vcpus as u64, "vCPU"))
                }
                Side::Guest => plural(account.vcpus as u64, "CPU"),
            },
            nanos(account.span_ns),
            plural(account.halts, "halt"),
            scaled(account.halts_per_s),
            cpus_polling.unwrap_or_default(),
        ),
        2,
    );
    let wakers = Distance::ALL.map(Distance::as_str).into_iter();
    let counts = host.wakers.unwrap_or_default();
    let wakers = wakers.zip(counts).filter(|(_, n)| *n > 0);
    let all = total(counts) as f64;
    let wakers = wakers.map(|(name, n)| format!("{name} {}", share(n as f64 / all)));
    let wakers: Vec<String> = wakers.collect();
    if !wakers.is_empty() {
        page.wrapped("  wakers ran on: ", &wakers.join(", "), 17);
    }
    if report.vms.len() < host.vms {
        let shown = report.vms.len();
        let text = format!("Below: {shown} of these VMs; the figures above cover all of them.");
        page.wrapped("  ", &text, 2);
    }
}

/// States of cpuidle in which the CPUs were at all, each with its share of their time.
fn idle_states(page: &mut Page, states: &[StateUse]) {
    let used = states.iter().filter(|state| state.entries > 0);
    let each = |state: &StateUse| {
        format!(
            "{} {} ({}/s, {} each)",
            harmless(&state.name),
            share(state.share),
            scaled(state.entries_per_s),
            maybe_nanos(state.mean_ns),
        )
    };
    let used: Vec<String> = used.map(each).collect();
    if !used.is_empty() {
        page.wrapped("  cpuidle: ", &used.join(", "), 11);
    }
}

pub(super) fn recommendation(page: &mut Page, report: &Report) {
    page.gap();
    page.advice("  tune: ", &report.recommendation.text(), 8);
}

/// The rule's four parameters in one line, then what else is set, then what changed.
fn knobs(page: &mut Page, knobs: &[ReportedSetting], side: Side) {
    let of_host: Vec<&ReportedSetting> = knobs.iter().filter(|k| k.scope == "host").collect();
    let value = |name: &str| {
        let knob = of_host.iter().find(|knob| knob.name == name)?;
        Some(harmless(&knob.value))
    };
    let mut rule: Vec<String> = Vec::new();
    for parameter in Parameter::HOST {
        let Some(value) = value(parameter.name()) else {
            continue;
        };
        rule.push(format!("{} {value}", parameter.short()));
    }
    // Those of KVM bind VMs of a guest, if it has any.
    if !rule.is_empty() && side.is_host() {
        page.wrapped("  kvm: ", &rule.join(", "), 7);
    }
    let others = of_host
        .iter()
        .filter(|knob| !Parameter::HOST.iter().any(|it| it.name() == knob.name));
    let others: Vec<String> = others
        .map(|knob| format!("{} {}", harmless(&knob.name), harmless(&knob.value)))
        .collect();
    if !others.is_empty() {
        page.wrapped("  also: ", &others.join(", "), 8);
    }
    let guest = knobs.iter().filter(|k| k.scope == "guest-of-other");
    let guest: Vec<String> = guest
        .map(|knob| {
            let name = knob
                .name
                .strip_prefix("guest_halt_poll_")
                .unwrap_or(&knob.name);
            let name = if name == "ns" { &knob.name } else { name };
            let name = name.strip_prefix("cpuidle_haltpoll.").unwrap_or(name);
            format!("{} {}", harmless(name), harmless(&knob.value))
        })
        .collect();
    if !guest.is_empty() {
        let mut text = guest.join(", ");
        if side.is_host() {
            text.push_str(" (this host is itself a guest)");
        }
        page.wrapped("  haltpoll: ", &text, 12);
    }
    for knob in knobs.iter().filter(|knob| knob.changes > 0) {
        let times = plural(knob.changes, "time");
        let text = format!("{} changed {times} while recording", harmless(&knob.name));
        page.wrapped("  note: ", &text, 8);
    }
}

/// How the columns of [`row`] stand, a name before them.
pub(super) const STANDS: [Stands; 8] = Stands::of_numbers();

/// Names of the columns of [`row`].
pub(super) fn header(first: &str, has_cpu: bool) -> Vec<String> {
    let mut names = vec![first, "halts/s", "halted", "poll CPU", "failed"];
    names.extend((!has_cpu).then_some("sleeps/s"));
    names.extend(["gap p50", "wake p50"]);
    if has_cpu {
        names.insert(1, "CPU");
    }
    names.into_iter().map(str::to_owned).collect()
}

pub(super) fn percent(percent: Option<f64>) -> String {
    percent.map_or_else(|| "-".to_owned(), |percent| share(percent / 100.0))
}

fn polls(account: &AccountFigures, cpu_percent: Option<f64>) -> String {
    let sign = cpu_percent.map_or("", |_| bound_sign(account.poll.bound));
    format!("{sign}{}", percent(cpu_percent))
}

/// An account in a row; where CPU time was recorded, it stands first, in place of the waits.
pub(super) fn row(account: &AccountFigures, has_cpu: bool, cpu: Option<f64>) -> Vec<String> {
    let mut cells = vec![
        scaled(account.halts_per_s),
        share(account.halted_share),
        polls(account, account.poll.cpu_percent),
        polls(account, account.poll.wasted_cpu_percent),
    ];
    cells.extend((!has_cpu).then(|| scaled(account.waits_per_s)));
    cells.extend([
        maybe_nanos(account.gap_ns.map(|spread| spread.p50)),
        maybe_nanos(account.wake_latency_ns.map(|spread| spread.p50)),
    ]);
    if has_cpu {
        cells.insert(0, percent(cpu));
    }
    cells
}
