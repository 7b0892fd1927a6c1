//! Where halted time goes: the host, and a line for each VM.

use haltwise_core::account::Spread;
use haltwise_document::block::Part;
use haltwise_document::html;
use haltwise_document::{Rows, Unit};
use serde_json::{Value, json};

use super::{details, note, p, vms};
use crate::html::chart::bars::{self, Parts};
use crate::html::content::Content;
use crate::html::markup::{Element, Markup, el, short};
use crate::report::quality::is_paused;
use crate::report::view::{AccountFigures, ReportedSetting};
use crate::words::{bound_sign, plural, setting};

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

/// VMs in the table; the others are in a table that is folded.
const OPEN: usize = 20;

/// VMs in both tables; with more the page says how many.
const MOST: usize = 150;

/// A row of the table: its name, and the account, or what stands in its place.
pub(super) struct Line<'a> {
    pub(super) name: Value,
    pub(super) whose: String,
    pub(super) account: Result<&'a AccountFigures, &'static str>,
}

impl Line<'_> {
    fn drawn(&self, what: &str, parts: Vec<Part>) -> Value {
        let whose = format!("{}, {what}", short(&self.whose));
        json!(Parts { whose, parts })
    }
}

/// The section. `None` if no VM was seen.
pub(super) fn account(content: &Content) -> Option<Markup> {
    let report = &content.report;
    if report.vms.is_empty() && report.host.account.halts == 0 {
        return None;
    }
    let text = "Each halt splits into what its vCPU did: polled on its CPU, slept, or waited to run \
                again after it was woken. The bars show shares of the halted time.";
    let lines = report.vms.iter().take(MOST).enumerate();
    let lines = lines.map(|(place, vm)| Line {
        name: if place < vms::MOST {
            json!([format!("vm-{}", vm.index), vm.name])
        } else {
            json!(vm.name)
        },
        whose: vm.name.clone(),
        account: if vm.not_observable.is_some() && vm.account.halts == 0 {
            Err("not observable (this does not mean idle)")
        } else if is_paused(vm) {
            Err("paused (this does not mean idle)")
        } else {
            Ok(&vm.account)
        },
    });
    let mut lines: Vec<Line<'_>> = lines.collect();
    let folded = lines.split_off(lines.len().min(OPEN));
    lines.extend(report.unplaced.as_ref().map(|account| Line {
        name: json!("halts of unknown VMs"),
        whose: "unplaced".to_owned(),
        account: Ok(account),
    }));
    let table = |caption, lines: &[Line<'_>], id| {
        html::table(&table(caption, "VM", lines).sortable(id).finish())
    };
    let mut out = Markup::none()
        .and(p(text))
        .and((report.host.account.halts > 0).then(|| legends(&report.host.account)))
        .and(table("Halted time of each VM", &lines, "accounts"));
    if !folded.is_empty() {
        let title = format!("{} more", plural(folded.len() as u64, "VM"));
        let table = table("Halted time of more VMs", &folded, "more-accounts");
        out.push(details(title, table));
    }
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

pub(super) fn table<'a, 'b>(
    caption: &'static str,
    first: &str,
    lines: &'b [Line<'a>],
) -> Rows<'b, Line<'a>> {
    type Figure = fn(&AccountFigures) -> Option<f64>;
    let of = |figure: Figure| move |line: &Line<'a>| figure(line.account.ok()?);
    Rows::undeclared(caption, lines, usize::MAX)
        .with(first, Unit::Linked, |line| line.name.clone())
        .with("halted time", Unit::Drawn, |line| match line.account {
            Ok(account) => line.drawn("halted time", parts(account)),
            Err(instead) => instead.into(),
        })
        .with("halted", Unit::Share, of(|it| Some(it.halted_share)))
        .with(
            "polling, of a CPU",
            Unit::CpuPercent,
            of(|it| it.poll.cpu_percent),
        )
        .with(
            "of it failed",
            Unit::CpuPercent,
            of(|it| it.poll.wasted_cpu_percent),
        )
        .bounded(&["polling, of a CPU", "of it failed"], |line| {
            line.account.map_or("", |it| bound_sign(it.poll.bound))
        })
        .with("halts/s", Unit::PerSecond, of(|it| Some(it.halts_per_s)))
        .with("sleeps/s", Unit::PerSecond, of(|it| Some(it.waits_per_s)))
        .with("gap, median", Unit::MeanNanos, of(|it| median(it.gap_ns)))
        .with(
            "wake-up, median",
            Unit::MeanNanos,
            of(|it| median(it.wake_latency_ns)),
        )
        .with("woken by", Unit::Drawn, |line| {
            let parts = line.account.ok().map(wakes);
            parts.map(|parts| line.drawn("woken by", parts))
        })
}

fn median(spread: Option<Spread>) -> Option<f64> {
    spread.map(|spread| spread.p50 as f64)
}

pub(super) fn parts(account: &AccountFigures) -> Vec<Part> {
    let named = account.parts.named().into_iter().zip(PARTS);
    named
        .map(|((name, ns), (class, _))| Part::new(class, name, ns))
        .collect()
}

fn wakes(account: &AccountFigures) -> Vec<Part> {
    let counted = account.wakes.into_iter().zip(WAKES);
    counted
        .map(|(count, (class, name))| Part::new(class, name, count))
        .collect()
}

fn settings(content: &Content) -> Option<Element> {
    let knobs = &content.report.host.knobs;
    if knobs.is_empty() {
        return None;
    }
    let side = content.report.recording.side;
    let of = |knob: &ReportedSetting| match (knob.scope, knob.vm) {
        ("vm", Some(index)) => {
            let mut vms = content.recording.info.roster.vms.iter();
            let vm = vms.find(|vm| vm.index.0 == index);
            vm.map_or_else(|| format!("VM {index}"), |vm| vm.name.clone())
        }
        _ if !side.is_host() => "the guest".to_owned(),
        ("guest-of-other", _) => "this host as a guest of another".to_owned(),
        _ => "the host".to_owned(),
    };
    let table = Rows::new("Settings in force", knobs, usize::MAX)
        .show(&["name"])
        .with("of", Unit::Name, of)
        .with("value", Unit::Name, |knob| setting(&knob.name, &knob.value))
        .show(&["changes"])
        .titled("changes", "changes while recording");
    let table = html::table(&table.finish());
    Some(details("Settings in force", table))
}
