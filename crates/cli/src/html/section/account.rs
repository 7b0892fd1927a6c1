//! Where halted time goes: the host, and a line for each VM.

use haltwise_document::Unit;
use haltwise_document::block::Part;

use super::table::{Cell, Table, cell, maybe, number};
use super::{details, note, p, vms};
use crate::html::chart::bars;
use crate::html::content::Content;
use crate::html::markup::{Element, Markup, el, name};
use crate::number::{scaled, share};
use crate::report::quality::is_paused;
use crate::report::view::AccountFigures;
use crate::words::setting;

/// Parts of halted time: colour, and name in the legend.
const PARTS: [(&str, &str); 6] = [
    ("s-poll-woken", "polled, and woken by it"),
    ("s-poll-vain", "failed polls"),
    ("s-sleep", "slept: the CPU was free for others"),
    ("s-wake", "wake-up latency: woken, not yet running"),
    ("s-turned", "woken before schedule()"),
    ("s-unknown", "not known"),
];

const WAKES: [(&str, &str); 5] = [
    ("w-timer", "timer"),
    ("w-ipi", "IPI of another vCPU"),
    ("w-device", "device"),
    ("w-other", "other"),
    ("w-unknown", "not known"),
];

/// VMs in the table; with more the page says how many.
const MOST: usize = 150;

/// The columns of [`row`] after the first.
const COLUMNS: [(Unit, &str); 9] = [
    (Unit::Drawn, "halted time"),
    (Unit::Number, "halted"),
    (Unit::Number, "polling, of a CPU"),
    (Unit::Number, "of it failed"),
    (Unit::Number, "halts/s"),
    (Unit::Number, "sleeps/s"),
    (Unit::Number, "gap, median"),
    (Unit::Number, "wake-up, median"),
    (Unit::Drawn, "woken by"),
];

/// The section. `None` if no VM was seen.
pub(super) fn account(content: &Content) -> Option<Markup> {
    let report = &content.report;
    if report.vms.is_empty() && report.host.account.halts == 0 {
        return None;
    }
    let text = "Each halt splits into what its vCPU did: polled on its CPU, slept, or waited to run \
                again after it was woken. The bars show shares of the halted time.";
    let mut table = table("Halted time of each VM", "VM").sortable("accounts");
    let with_figures: Vec<u32> = vms::shown(content).iter().map(|vm| vm.index).collect();
    for vm in report.vms.iter().take(MOST) {
        let link = if with_figures.contains(&vm.index) {
            let link = el("a").attr("href", format!("#vm-{}", vm.index));
            Markup::from(link.with(name(&vm.name)))
        } else {
            name(&vm.name)
        };
        let instead = if vm.not_observable.is_some() && vm.account.halts == 0 {
            "not observable (this does not mean idle)"
        } else if is_paused(vm) {
            "paused (this does not mean idle)"
        } else {
            table.row(row(link, &vm.name, &vm.account));
            continue;
        };
        let mut cells = vec![cell(link), cell(instead)];
        cells.resize_with(COLUMNS.len() + 1, || cell("-"));
        table.row(cells);
    }
    if let Some(unplaced) = &report.unplaced {
        table.row(row("halts of unknown VMs", "unplaced", unplaced));
    }
    let mut out = Markup::none()
        .and(p(text))
        .and((report.host.account.halts > 0).then(|| legends(&report.host.account)))
        .and(table.finish());
    if report.vms.len() > MOST {
        let text = format!(
            "The first {MOST} of {} VMs; `haltwise report --json` has all.",
            report.vms.len()
        );
        out.push(note(text));
    }
    Some(out.and(settings(content)))
}

/// Meaning of the colours that are seen.
pub(super) fn legends(account: &AccountFigures) -> Markup {
    let legend = |title: &str, keys: &[(&'static str, &'static str)], parts: &[Part]| {
        let seen = keys.iter().zip(parts).filter(|(_, part)| part.value > 0);
        let legend = bars::legend(seen.map(|(key, _)| *key));
        el("div").class("keyed").with(p(title)).with(legend)
    };
    el("div")
        .class("keys")
        .with(legend("Halted time", &PARTS, &parts(account)))
        .with(legend("Woken by", &WAKES, &wakes(account)))
        .into()
}

pub(super) fn table(caption: &str, first: &'static str) -> Table {
    let first = [(Unit::Word, first)].into_iter();
    Table::new(caption, first.chain(COLUMNS))
}

pub(super) fn row(first: impl Into<Markup>, whose: &str, account: &AccountFigures) -> Vec<Cell> {
    let whose = crate::html::markup::short(whose);
    let median = |spread: Option<haltwise_core::account::Spread>| {
        maybe(
            spread.map(|spread| spread.p50 as f64),
            crate::number::nanos_f64,
        )
    };
    let percent = |percent: Option<f64>| maybe(percent, |percent| share(percent / 100.0));
    vec![
        cell(first),
        number(
            account.halted_ns as f64,
            bars::stacked(&parts(account), &format!("{whose}, halted time")),
        ),
        number(account.halted_share, share(account.halted_share)),
        percent(account.poll.cpu_percent),
        percent(account.poll.wasted_cpu_percent),
        number(account.halts_per_s, scaled(account.halts_per_s)),
        number(account.waits_per_s, scaled(account.waits_per_s)),
        median(account.gap_ns),
        median(account.wake_latency_ns),
        cell(bars::stacked(
            &wakes(account),
            &format!("{whose}, woken by"),
        )),
    ]
}

pub(super) fn parts(account: &AccountFigures) -> [Part; 6] {
    let named = account.parts.named();
    std::array::from_fn(|n| Part {
        class: PARTS[n].0,
        name: named[n].0.into(),
        value: named[n].1,
    })
}

fn wakes(account: &AccountFigures) -> [Part; 5] {
    std::array::from_fn(|n| Part {
        class: WAKES[n].0,
        name: WAKES[n].1.into(),
        value: account.wakes[n],
    })
}

fn settings(content: &Content) -> Option<Element> {
    let knobs = &content.report.host.knobs;
    if knobs.is_empty() {
        return None;
    }
    let mut table = Table::new(
        "Settings in force",
        [
            (Unit::Word, "parameter"),
            (Unit::Word, "of"),
            (Unit::Number, "value"),
            (Unit::Number, "changes while recording"),
        ],
    );
    let side = content.report.recording.side;
    for knob in knobs {
        let vm = |index: u32| {
            let vms = content.recording.roster.vms.iter();
            let mut vms = vms.filter(|vm| vm.index.0 == index);
            vms.next()
                .map_or_else(|| Markup::text(&format!("VM {index}")), |vm| name(&vm.name))
        };
        let of = match (knob.scope, knob.vm) {
            ("vm", Some(index)) => vm(index),
            _ if !side.is_host() => "the guest".into(),
            ("guest-of-other", _) => "this host as a guest of another".into(),
            _ => "the host".into(),
        };
        let value = crate::html::markup::short(&setting(&knob.name, &knob.value));
        table.row(vec![
            cell(name(&knob.name)),
            cell(of),
            cell(value),
            number(knob.changes as f64, knob.changes.to_string()),
        ]);
    }
    Some(details("Settings in force", table.finish()))
}
