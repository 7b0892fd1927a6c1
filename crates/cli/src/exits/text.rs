//! The view on a screen.

use haltwise_core::account::Spread;
use haltwise_core::exit::Kind;

use super::view::{GroupView, ReasonView, View};
use super::words::{NONE_SEEN, passed};
use crate::number::{count, maybe_nanos, nanos, share};
use crate::page::{Page, Stands, harmless};
use crate::words::{self, plural};

/// Which table is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// By reason.
    Reasons,
    /// By what the exits were about.
    Subs,
    /// By VM, vCPU or second.
    Groups,
}

/// What to show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Columns of the screen.
    pub(crate) width: usize,
    pub(crate) table: Table,
    /// Rows of a table of sub-keys; the rest is summed up.
    pub(crate) rows: usize,
}

/// Lays the page out.
pub(crate) fn render(view: &View, options: Options) -> String {
    let mut page = Page::new(options.width);
    opening(&mut page, view);
    match options.table {
        Table::Reasons => {
            if !view.reasons.is_empty() {
                page.heading("Exits by reason");
                reasons(&mut page, &view.reasons, options.rows);
                halted(&mut page, view);
            }
            if !view.userspace.is_empty() {
                page.heading("Returns to the VMM");
                reasons(&mut page, &view.userspace, options.rows);
            }
        }
        Table::Subs => {
            page.heading("What exits were about");
            if view.subs.is_empty() {
                page.wrapped("  ", &no_subs(view), 2);
            } else {
                subs(&mut page, &view.subs, options.rows);
            }
        }
        Table::Groups => {
            page.heading("Exits but those of halts");
            groups(&mut page, &view.groups, options.rows);
        }
    }
    closing(&mut page, view);
    page.finish()
}

fn opening(page: &mut Page, view: &View) {
    let recording = &view.recording;
    page.wrapped(
        &format!("{}: ", harmless(&recording.host)),
        &format!(
            "{} of {} in {}, Linux {}, recorded by {}",
            plural(view.total.exits, "exit"),
            plural(recording.vms as u64, "VM"),
            nanos(recording.duration_ns),
            harmless(&recording.kernel),
            recording.rung,
        ),
        2,
    );
    let total = &view.total;
    if total.exits > 0 {
        let text = format!(
            "cost the host {}; but for halts, {} in the kernel and {} in the VMM",
            nanos(total.host_ns),
            nanos(total.kernel_ns),
            nanos(total.user_ns),
        );
        page.wrapped("  ", &text, 2);
    } else {
        page.wrapped("  ", NONE_SEEN, 2);
    }
    page.wrapped("  ", &passed(total), 2);
    let only = [
        ("vCPU", list(&recording.only_vcpus)),
        ("reason", list(&recording.only_reasons)),
    ];
    for (what, wanted) in only.iter().filter(|(_, wanted)| !wanted.is_empty()) {
        page.wrapped(
            "  ",
            &format!("Recorded: only {what} {}", harmless(wanted)),
            2,
        );
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    items.join(", ")
}

const HEAD: [&str; 8] = [
    "count", "time", "share", "in VMM", "p50", "p95", "p99", "max",
];

fn reasons(page: &mut Page, rows: &[ReasonView], most: usize) {
    let mut cells = vec![heads("reason", &HEAD)];
    cells.extend(rows.iter().take(most).map(reason));
    let mut stands = vec![Stands::Left];
    stands.resize(HEAD.len() + 1, Stands::Right);
    page.table(0, &stands, &cells);
    more(page, rows.len(), most);
}

fn heads(first: &str, rest: &[&str]) -> Vec<String> {
    let rest = rest.iter().map(|head| (*head).to_owned());
    std::iter::once(first.to_owned()).chain(rest).collect()
}

/// A time without the space before its unit: nine columns of them must fit.
fn tight(ns: u64) -> String {
    nanos(ns).replace(' ', "")
}

/// A row's figures: count, time, share, time in the VMM, and the spread; a dash where nothing of it has
/// a time, since it did not come with an exit.
fn figures(row: &ReasonView) -> [String; 8] {
    let none = || "-".to_owned();
    let timed = row.count > row.untimed;
    let time = |ns: u64| if timed { tight(ns) } else { none() };
    let spread =
        |of: fn(&Spread) -> u64| row.spread_ns.as_ref().map_or_else(none, |it| tight(of(it)));
    let in_vmm = match row.kind {
        Kind::UserspaceExit => none(),
        _ => time(row.user_ns),
    };
    let part = row.share.filter(|_| timed);
    [
        count(row.count).replace(' ', ""),
        time(row.host_ns),
        part.map_or_else(none, |part| share(part).replace(' ', "")),
        in_vmm,
        spread(|spread| spread.p50),
        spread(|spread| spread.p95),
        spread(|spread| spread.p99),
        spread(|spread| spread.max),
    ]
}

fn reason(row: &ReasonView) -> Vec<String> {
    // All have the same beginning.
    let name = match row.kind {
        Kind::UserspaceExit => row.name.trim_start_matches("KVM_EXIT_"),
        _ => &row.name,
    };
    let mut cells = vec![harmless(name)];
    cells.extend(figures(row));
    cells
}

const SUB_HEAD: [&str; 7] = ["reason", "count", "time", "share", "p50", "p99", "max"];

fn subs(page: &mut Page, rows: &[ReasonView], most: usize) {
    let mut cells = vec![heads("what", &SUB_HEAD)];
    cells.extend(rows.iter().take(most).map(|row| {
        let [count, time, share, _, p50, _, p99, max] = figures(row);
        let what = row.sub_name.clone().unwrap_or_default();
        vec![what, harmless(&row.name), count, time, share, p50, p99, max]
    }));
    let mut stands = vec![Stands::Left; 2];
    stands.resize(SUB_HEAD.len() + 1, Stands::Right);
    page.table(0, &stands, &cells);
    more(page, rows.len(), most);
}

fn more(page: &mut Page, rows: usize, most: usize) {
    if rows > most {
        let text = format!("and {} more (--all shows all)", count((rows - most) as u64));
        page.wrapped("  ", &text, 2);
    }
}

/// The halt account in place of one meaningless duration.
fn halted(page: &mut Page, view: &View) {
    let Some(row) = view.reasons.iter().find(|row| row.is_halt) else {
        return;
    };
    let parts: Vec<String> = view
        .halted
        .named()
        .iter()
        .filter(|(_, ns)| *ns > 0)
        .map(|(name, ns)| format!("{name} {}", nanos(*ns)))
        .collect();
    let parts = if parts.is_empty() {
        "of which no halt was recorded".to_owned()
    } else {
        parts.join(", ")
    };
    let text = format!(
        "{}: {} in all; {parts}. Sleep is no work of the host: it is left out above.",
        row.name,
        nanos(row.time_ns),
    );
    page.wrapped("  ", &text, 2);
}

fn no_subs(view: &View) -> String {
    if view.recording.sub_keys.is_empty() {
        "Not recorded: `haltwise record --exits=msr,pio,mmio,gpa,hypercall,vector,cpuid` tells \
         them."
            .to_owned()
    } else {
        "Nothing of what was recorded belongs to these exits.".to_owned()
    }
}

const GROUP_HEAD: [&str; 8] = [
    "exits", "time", "in VMM", "p50", "p99", "halts", "to VMM", "irqs",
];

fn groups(page: &mut Page, rows: &[GroupView], most: usize) {
    let mut cells = vec![heads("", &GROUP_HEAD)];
    cells.extend(rows.iter().take(most).map(group));
    let mut stands = vec![Stands::Left];
    stands.resize(GROUP_HEAD.len() + 1, Stands::Right);
    page.table(0, &stands, &cells);
    more(page, rows.len(), most);
}

fn group(row: &GroupView) -> Vec<String> {
    let name = row.vm_name.as_deref().unwrap_or("unknown VM");
    let who = match (row.second, row.vcpu) {
        (Some(second), _) => format!("second {second}"),
        (None, Some(vcpu)) => format!("{} vCPU {vcpu}", harmless(name)),
        (None, None) => harmless(name),
    };
    let short = |n: u64| count(n).replace(' ', "");
    let spread = |ns: Option<u64>| maybe_nanos(ns).replace(' ', "");
    vec![
        who,
        short(row.exits),
        tight(row.time_ns),
        tight(row.user_ns),
        spread(row.spread_ns.map(|spread| spread.p50)),
        spread(row.spread_ns.map(|spread| spread.p99)),
        short(row.halt_exits),
        short(row.userspace_exits),
        short(row.injections),
    ]
}

fn closing(page: &mut Page, view: &View) {
    let (total, recording) = (&view.total, &view.recording);
    let mut notes = Vec::new();
    if total.untimed > 0 {
        notes.push(format!(
            "{} whose time is not known: no next entry was seen in that thread",
            plural(total.untimed, "exit")
        ));
    }
    if total.lone_entries > 0 {
        notes.push(format!(
            "{} entries with no exit told before them",
            count(total.lone_entries)
        ));
    }
    if total.other > 0 {
        notes.push(format!(
            "{} found no room in the recorder's table: they are in no row but `other`",
            plural(total.other, "exit")
        ));
    }
    notes.extend(words::of_recording(recording.lost, recording.cut));
    let missing = recording.missing.iter().filter(|it| it.field == "exits");
    notes.extend(missing.map(|missing| missing.reason.clone()));
    notes.extend(recording.notes.iter().cloned());
    page.notes(&notes);
    page.wrapped(
        "",
        "Times run from kvm_exit to the next kvm_entry of the vCPU, known to 12.5 %; of a return \
         to the VMM, to the next KVM_RUN.",
        0,
    );
}
