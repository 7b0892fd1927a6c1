//! VM by VM: what its account says of polling, how its gaps, wake-ups and polls are distributed, its
//! windows over time, and its vCPUs.

use haltwise_core::account::Account;
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::Side;
use haltwise_document::html;

use super::account::{Line, parts, table};
use super::{details, note, p};
use crate::html::chart::{Series, bars, distribution, windows};
use crate::html::content::Content;
use crate::html::markup::{Element, Markup, el, name, short};
use crate::number::{scaled, share};
use crate::report::quality::{NO_HALT, is_paused, limits};
use crate::report::verdict::{ceilings, verdict};
use crate::report::view::{AccountFigures, CeilingFigures, ReportedVm};
use crate::words::plural;

const OPEN: usize = 2;

/// VMs with figures; the others have their line in the table above.
pub(super) const MOST: usize = 48;

const VCPUS: usize = 64;

/// The section. `None` if no VM was seen.
pub(super) fn vms(content: &Content) -> Option<Markup> {
    let vms = &content.report.vms;
    if vms.is_empty() {
        return None;
    }
    let made = vms.iter().take(MOST).enumerate();
    let made = made.map(|(place, vm)| one(content, vm, place < OPEN));
    let mut out: Markup = made.collect();
    let all = vms.len();
    if all > MOST {
        let text = format!("Figures are here for the first {MOST} of {all} VMs.");
        out.push(note(text));
    }
    Some(out)
}

fn one(content: &Content, vm: &ReportedVm, is_open: bool) -> Element {
    let account = &vm.account;
    let mut facts = vec![plural(vm.vcpus.len() as u64, "vCPU")];
    if account.halts > 0 {
        facts.push(format!("{} halts/s", scaled(account.halts_per_s)));
        let polls = |percent: f64| format!("polls {} of a CPU", share(percent / 100.0));
        facts.extend(account.poll.cpu_percent.map(polls));
    } else if vm.not_observable.is_some() {
        facts.push("not observable".to_owned());
    } else if is_paused(vm) {
        facts.push("paused".to_owned());
    } else {
        facts.push("no halt".to_owned());
    }
    let head = el("h3").with(name(&vm.name));
    let whose = format!("{}, halted time", short(&vm.name));
    let bar = (account.halts > 0).then(|| bars::stacked(&parts(account), &whose));
    let summary = Markup::none()
        .and(head)
        .and(el("span").class("facts").with(facts.join(", ")))
        .and(bar);
    let made = details(summary, body(content, vm))
        .class("vm")
        .attr("id", format!("vm-{}", vm.index));
    if is_open { made.flag("open") } else { made }
}

fn body(content: &Content, vm: &ReportedVm) -> Markup {
    let account = &vm.account;
    let which = match content.report.recording.side {
        Side::Host => format!("{}, pid {}, ceiling {}.", vm.vmm, vm.pid, ceilings(vm)),
        Side::Guest => "The CPUs of this guest.".to_owned(),
    };
    let mut out = Markup::none().and(el("p").class("which").with(which));
    out.push(html::render(&limits(vm, &content.report)));
    if account.halts == 0 {
        if vm.not_observable.is_none() && !is_paused(vm) {
            out.push(p(NO_HALT));
        }
        return out;
    }
    let vetoed = vm.vcpus.iter().any(|vcpu| vcpu.guest_veto == Some(true));
    out.push(p(verdict(account, vetoed)));
    let ledger = content.recording.ledger.vm(VmIndex(vm.index));
    let charts = charts(content, account, &ledger);
    out.and(el("div").class("charts").with_all(charts))
        .and(vcpus(vm))
}

fn charts(content: &Content, account: &AccountFigures, ledger: &Account) -> Vec<Element> {
    // Counts do not tell which halts a ceiling governed.
    let any = account.ceilings.iter().all(|ceiling| ceiling.halts == 0);
    let governs = |ceiling: &&CeilingFigures| any || ceiling.halts > 0;
    let ceilings = account.ceilings.iter().filter(governs);
    let ceiling = u64::from(ceilings.map(|ceiling| ceiling.ns).max().unwrap_or(0));
    let series = |name, class, hist| Series { name, class, hist };
    let gap = series("gap", "s-gap", &ledger.gap_ns);
    let late = series("wake-up latency", "s-wake", &ledger.wake_latency_ns);
    let met = series("ended by a wake", "s-poll-woken", &ledger.poll_success_ns);
    let failed = series("failed", "s-poll-vain", &ledger.poll_fail_ns);
    let entry = series("window", "s-sleep", &ledger.window_ns);
    let of = |what, series: &[Series<'_>]| distribution(what, series, ceiling);
    let charts = [
        (
            "Gaps",
            "from the halt to the wake event; a poll can catch what is left of the ceiling",
            of("gaps", &[gap]),
        ),
        (
            "Wake-up latency",
            "from the wake event until the vCPU ran, of halts that slept",
            of("wake-up latency", &[late]),
        ),
        (
            "Polls by duration",
            "polls by duration, successful and failed",
            of("polls by duration", &[met, failed]),
        ),
        (
            "Windows at entry",
            "polling window of each halt",
            of("windows at entry", &[entry]),
        ),
        (
            "Windows over time",
            "mean (line) and largest (area) of each moment; dashed: the ceiling",
            windows(&content.report.recording, account),
        ),
    ];
    let figure = |(title, what, chart): (&str, &str, Option<Markup>)| {
        let none = || el("p").class("none").with("not known, or none").into();
        let caption = el("figcaption").with(el("b").with(title));
        el("figure")
            .with(chart.unwrap_or_else(none))
            .with(caption.with(format!(": {what}")))
    };
    charts.map(figure).into()
}

fn vcpus(vm: &ReportedVm) -> Option<Element> {
    if vm.vcpus.len() < 2 {
        return None;
    }
    let lines = vm.vcpus.iter().take(VCPUS).map(|vcpu| Line {
        name: match vcpu.guest_veto {
            Some(true) => format!("{} (guest's veto)", vcpu.id).into(),
            _ => vcpu.id.to_string().into(),
        },
        whose: format!("vCPU {}", vcpu.id),
        account: Ok(&vcpu.account),
    });
    let lines: Vec<Line<'_>> = lines.collect();
    let table = table("Halted time of each vCPU", "vCPU", &lines);
    let title = match vm.vcpus.len() {
        all if all > VCPUS => format!("The first {VCPUS} of {all} vCPUs"),
        all => format!("Its {}", plural(all as u64, "vCPU")),
    };
    Some(details(title, html::table(&table.finish())))
}
