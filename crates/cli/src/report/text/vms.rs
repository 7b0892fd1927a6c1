//! The VMs of a report: a table of those that cost most, and a note for what concerns many of them.

use std::cmp::Ordering;

use haltwise_core::event::CeilingSource;

use super::Options;
use super::host::{STANDS, header, percent, row};
use crate::number::{nanos, scaled, share};
use crate::page::{Page, fit_middle, harmless};
use crate::report::quality::{came_or_went, is_paused};
use crate::report::verdict::concerns;
use crate::report::view::{Report, ReportedVm};
use crate::words::{ceiling_source, grouped, plural, some};

const NAMES: usize = 4;

const NAME_WIDTH: usize = 32;

pub(super) fn vms(page: &mut Page, report: &Report, options: Options) {
    if report.vms.is_empty() {
        page.wrapped("  ", "No VM was seen.", 2);
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
        page.wrapped("  ", &others(rest), 2);
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
            cells.extend(has_cpu.then(|| percent(cpu)));
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
