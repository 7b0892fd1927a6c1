//! The head of the report: the host and its settings; a table of the VMs that cost most, and a note for what concerns many
//! of them.

use std::cmp::Ordering;

use haltwise_core::account::idle::StateUse;
use haltwise_core::event::CeilingSource;
use haltwise_core::parameter::Parameter;
use haltwise_core::recording::Side;
use haltwise_core::stats::total;
use haltwise_core::topology::Distance;

use crate::number::{maybe_nanos, nanos, scaled, share, three_digits};
use crate::page::{Page, Stands, fit_middle, harmless};
use crate::report::quality::{came_or_went, is_paused};
use crate::report::text::Options;
use crate::report::verdict::concerns;
use crate::report::view::{AccountFigures, Report, ReportedSetting, ReportedVm};
use crate::words::{bound, bound_sign, ceiling_source, grouped, of_cpu, plural, some};

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
    page.prose(&machine.join(", "));
    idle_states(page, &host.idle_states);
    knobs(page, &host.knobs, side);
    let account = &host.account;
    let cpus_polling = account.poll.ns.map(|ns| {
        let cpus = ns as f64 / account.span_ns.max(1) as f64;
        let bound = bound(account.poll.bound);
        format!(", polling takes {bound}{} of a CPU", share(cpus))
    });
    page.prose(&format!(
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
    ));
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
        page.prose(&text);
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

fn polls(account: &AccountFigures, cpu_percent: Option<f64>) -> String {
    let sign = cpu_percent.map_or("", |_| bound_sign(account.poll.bound));
    format!("{sign}{}", of_cpu(cpu_percent))
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
        cells.insert(0, of_cpu(cpu));
    }
    cells
}

const NAMES: usize = 4;

const NAME_WIDTH: usize = 32;

pub(super) fn vms(page: &mut Page, report: &Report, options: Options) {
    if report.vms.is_empty() {
        page.prose("No VM was seen.");
        return;
    }
    page.gap();
    let (shown, rest) = report.vms.split_at(options.top.min(report.vms.len()));
    let has_cpu = shown.iter().any(|vm| vm.cpu.is_some());
    let mut rows = vec![header("VM", has_cpu)];
    let common = common_end(shown);
    rows.extend(shown.iter().map(|vm| cells(vm, common, has_cpu)));
    page.table(2, &STANDS, &rows);
    if !rest.is_empty() {
        page.prose(&others(rest));
    }
    if !options.detail {
        notes(page, report);
    }
}

/// Puts those first that take most CPU time; where that was not recorded, those that poll most. Those whose halts were
/// not observed come last.
pub(crate) fn order(vms: &mut [Box<ReportedVm>]) {
    let rank = |vm: &ReportedVm| {
        let seen = vm.account.halts > 0 || (vm.not_observable.is_none() && !is_paused(vm));
        // Those that do not poll cost by their halts.
        let [poll, halts] = [vm.account.poll.cpu_percent, Some(vm.account.halts_per_s)];
        let cpu = vm.cpu.map(|cpu| cpu.cpu_percent);
        let figures = [cpu, poll, halts].map(|figure| figure.unwrap_or(-1.0));
        (seen, figures)
    };
    vms.sort_by(|a, b| {
        let ((b_seen, b), (a_seen, a)) = (rank(b), rank(a));
        let orders = b.into_iter().zip(a).map(|(b, a)| b.total_cmp(&a));
        orders.fold(b_seen.cmp(&a_seen), Ordering::then)
    });
}

/// Bytes of the end that all of these names share: it tells none from another, so a long one is left out.
fn common_end(vms: &[Box<ReportedVm>]) -> usize {
    const SHORT: usize = 4;
    let [first, others @ ..] = vms else { return 0 };
    let shared = |other: &ReportedVm| {
        let pairs = first.name.chars().rev().zip(other.name.chars().rev());
        let same = pairs.take_while(|(a, b)| a == b);
        same.map(|(c, _)| c.len_utf8()).sum::<usize>()
    };
    let common = others.iter().map(|vm| shared(vm)).min().unwrap_or(0);
    if common > SHORT { common } else { 0 }
}

fn cells(vm: &ReportedVm, common_end: usize, has_cpu: bool) -> Vec<String> {
    let own = vm.name.len().saturating_sub(common_end);
    let name = match vm.name.get(..own) {
        Some(own) if common_end > 0 && !own.is_empty() => format!("{}~", harmless(own)),
        _ => harmless(&vm.name),
    };
    let cpu = vm.cpu.map(|cpu| cpu.cpu_percent);
    let mut cells = vec![name];
    let blind = match () {
        () if vm.not_observable.is_some() && vm.account.halts == 0 => Some("not seen"),
        () if is_paused(vm) => Some("not run"),
        () => None,
    };
    match blind {
        Some(why) => {
            cells.extend(has_cpu.then(|| of_cpu(cpu)));
            cells.push(why.to_owned());
            cells.resize(STANDS.len(), "-".to_owned());
        }
        None => cells.extend(row(&vm.account, has_cpu, cpu)),
    }
    cells
}

fn others(rest: &[Box<ReportedVm>]) -> String {
    let halts: f64 = rest.iter().map(|vm| vm.account.halts_per_s).sum();
    let polls = rest.iter().filter_map(|vm| vm.account.poll.cpu_percent);
    let polls: f64 = polls.sum();
    format!(
        "and {}: {} halts/s, polling {} of a CPU (--rows all)",
        plural(rest.len() as u64, "more VM"),
        scaled(halts),
        share(polls / 100.0)
    )
}

fn short(name: &str) -> String {
    fit_middle(&harmless(name), NAME_WIDTH)
}

/// Remarks on VMs, each stated once for all VMs that it concerns.
fn notes(page: &mut Page, report: &Report) {
    let vms = || report.vms.iter();
    let concern = vms().flat_map(|vm| concerns(vm).into_iter().map(move |what| (what, vm)));
    let moved = vms().filter_map(|vm| Some((came_or_went(vm, report)?.to_owned(), vm)));
    let halted = vms().filter(|vm| vm.account.halts > 0);
    let governed = halted.map(|vm| (ceiling(vm), vm));
    page.gap();
    for (what, concerned) in grouped(concern.chain(moved).chain(governed)) {
        let names: Vec<String> = concerned.iter().map(|vm| short(&vm.name)).collect();
        let who = plural(names.len() as u64, "VM");
        let text = format!("{who}: {} ({})", harmless(&what), some(&names, NAMES));
        page.wrapped("  ", &text, 4);
    }
}

/// Source of a VM's ceiling. Its length is left to the VM's own screen, but for the module's.
fn ceiling(vm: &ReportedVm) -> String {
    match &vm.account.ceilings[..] {
        [] => "ceiling not known".to_owned(),
        [one] => match one.source {
            CeilingSource::Param => format!("ceiling {}, module parameter", nanos(one.ns.into())),
            CeilingSource::Cap => {
                "a ceiling of its own, to which halt_poll_ns does not apply".to_owned()
            }
            other => format!("ceiling {}", ceiling_source(other)),
        },
        _ => "the ceiling changed, or differs between vCPUs".to_owned(),
    }
}
