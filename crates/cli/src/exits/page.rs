//! The result as shown on a screen and on the page of `report --html`.

use haltwise_core::exit::Kind;
use haltwise_core::stats;
use haltwise_document::{Document, Rows, Table, Untrusted, prose};

use super::view::{ExitReason, ExitsGroup, ExitsResult};
use crate::number::{count, nanos, share};
use crate::words::plural;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitsTable {
    Reasons,
    Subs,
    /// By VM, vCPU or second.
    Groups,
}

/// Rows of details below the reasons; `--by sub` has all.
const DETAILS: usize = 8;

pub(crate) fn document(view: &ExitsResult, wanted: ExitsTable, top: usize) -> Document {
    let mut document = Document::new();
    opening(&mut document, view);
    let (rows, returns) = (&view.reasons, &view.userspace);
    match wanted {
        ExitsTable::Reasons => {
            if !rows.is_empty() {
                document.heading("Exits by reason");
                document.table(reasons("Exits by reason", rows, top).finish());
                halted(&mut document, view);
            }
            if !returns.is_empty() {
                document.heading("Returns to the VMM");
                document.table(reasons("Returns to the VMM", returns, top).finish());
            }
            if !view.subs.is_empty() {
                document.heading("Exit details");
                document.table(subs(&view.subs, top.min(DETAILS)));
            }
        }
        ExitsTable::Subs => {
            document.heading("Exit details");
            if !view.subs.is_empty() {
                document.table(subs(&view.subs, top));
            } else if view.recording.sub_keys.is_empty() {
                let all = "--exits=msr,pio,mmio,gpa,hypercall,vector,cpuid";
                document.prose(format!("Not recorded: `haltwise record {all}` does."));
            } else {
                document.prose("No details were recorded for these exits.");
            }
        }
        ExitsTable::Groups => {
            document.heading("Exits without those of halts");
            document.table(groups(&view.groups, top));
        }
    }
    notes(&mut document, view);
    document.remark(
        "Times run from kvm_exit to the next kvm_entry of the vCPU (returns to the VMM: to the next \
         KVM_RUN) and are within 12.5 %.",
    );
    document
}

fn opening(document: &mut Document, view: &ExitsResult) {
    let source = &view.recording.source;
    let exits = match view.total.exits {
        0 => "KVM does not report exits".to_owned(),
        exits => plural(exits, "exit"),
    };
    let text = format!(
        "{exits} of {} in {}, recorded by {}, Linux ",
        plural(source.vms as u64, "VM"),
        nanos(source.duration_ns),
        source.rung,
    );
    document.fact(
        Untrusted::from(&source.host),
        prose![text, Untrusted::from(&source.kernel)],
    );
    summary(document, view);
    let list = |items: Vec<String>| items.join(", ");
    let vcpus = view.recording.only_vcpus.iter().map(u32::to_string);
    let only = [
        ("vCPUs", list(vcpus.collect())),
        ("reasons", list(view.recording.only_reasons.clone())),
    ];
    for (what, wanted) in only.into_iter().filter(|(_, wanted)| !wanted.is_empty()) {
        document.prose(prose![
            format!("Recorded: only the {what} "),
            Untrusted::from(wanted)
        ]);
    }
}

pub(crate) fn summary(document: &mut Document, view: &ExitsResult) {
    let total = &view.total;
    if total.exits > 0 {
        let span_ns = view.recording.source.duration_ns.max(1) as f64;
        document.prose(format!(
            "Exits cost the host {}, {} of a CPU, {} of it in the VMM; {} are halts, whose sleep is not counted.",
            nanos(total.host_ns),
            share(total.host_ns as f64 / span_ns),
            nanos(total.user_ns),
            count(total.halt_exits),
        ));
    } else {
        document.prose(
            "The tracepoint kvm_exit did not fire. It does not fire for instructions that KVM emulates, while KVM's \
             counter `exits` (kvm_vcpu_stat) grows; these are counted as emulated.",
        );
    }
    let counted = [
        (total.entries, "entry", "entries"),
        (
            total.userspace_exits,
            "return to the VMM",
            "returns to the VMM",
        ),
        (
            total.injections,
            "interrupt injected",
            "interrupts injected",
        ),
        (
            total.emulations,
            "instruction emulated",
            "instructions emulated",
        ),
    ];
    let counted = counted.map(|(n, one, many)| {
        let word = if n == 1 { one } else { many };
        format!("{} {word}", count(n))
    });
    document.prose(format!("Counted: {}.", counted.join(", ")));
}

/// Exits, or returns to the VMM, by reason. A row without any time did not come with an exit.
pub(crate) fn reasons<'a>(
    caption: &'static str,
    rows: &'a [ExitReason],
    top: usize,
) -> Rows<'a, ExitReason> {
    let mut table = Rows::new(caption, rows, top).show(&["name", "host_ns", "share", "count"]);
    table = table.show(&["per_second"]);
    // All of a return is in the VMM.
    if rows.iter().any(|row| row.kind != Kind::UserspaceExit) {
        table = table.show(&["user_ns"]);
    }
    table
        .show(&["spread_ns.p50", "spread_ns.p95", "spread_ns.p99"])
        .show(&["spread_ns.max"])
        .unknown(&["host_ns", "share", "user_ns"], untimed)
        .spare(&["per_second", "spread_ns.p95"])
}

fn untimed(row: &ExitReason) -> bool {
    row.count == row.untimed
}

pub(crate) fn subs<'a>(rows: impl IntoIterator<Item = &'a ExitReason>, top: usize) -> Table {
    let rows: Vec<&ExitReason> = rows.into_iter().collect();
    Rows::new("Exit details", &rows, top)
        .show(&["sub_name", "name", "host_ns", "share", "count"])
        .show(&["per_second", "spread_ns.p50", "spread_ns.p99"])
        .unknown(&["host_ns", "share"], |row| untimed(row))
        .spare(&["per_second", "name"])
        .finish()
}

pub(crate) fn groups(rows: &[ExitsGroup], top: usize) -> Table {
    let has = |of: fn(&ExitsGroup) -> bool| rows.iter().any(of);
    let who: &[&str] = match (
        has(|row| row.second.is_some()),
        has(|row| row.vcpu.is_some()),
    ) {
        (true, _) => &["second"],
        (_, true) => &["vm_name", "vcpu"],
        _ => &["vm_name"],
    };
    Rows::new("Exits without those of halts", rows, top)
        .show(who)
        .show(&["time_ns", "user_ns", "exits", "spread_ns.p50"])
        .show(&["spread_ns.p99", "halt_exits", "userspace_exits"])
        .show(&["injections"])
        .finish()
}

pub(crate) fn halted(document: &mut Document, view: &ExitsResult) {
    let halts = view.reasons.iter().filter(|row| row.is_halt);
    let names: Vec<&str> = halts.clone().map(|row| &*row.name).collect();
    if names.is_empty() {
        return;
    }
    let time_ns = stats::total(halts.map(|row| row.time_ns));
    let parts = view.halted.named();
    let parts = parts.iter().filter(|(_, ns)| *ns > 0);
    let parts: Vec<String> = parts
        .map(|(name, ns)| format!("{name} {}", nanos(*ns)))
        .collect();
    let parts = if parts.is_empty() {
        "no halts were recorded".to_owned()
    } else {
        parts.join(", ")
    };
    let text = format!(": {} in all; {parts}.", nanos(time_ns));
    document.prose(prose![Untrusted::from(names.join(" and ")), text]);
}

pub(crate) fn notes(document: &mut Document, view: &ExitsResult) {
    let total = &view.total;
    let mut note = |n: u64, of: String, what: &str| {
        if n > 0 {
            document.note(format!("{of} {what}"));
        }
    };
    let untimed = "without a time: no later kvm_entry of that thread was seen";
    let other = "did not fit into the recorder's table and are counted in the row `other` only";
    note(total.untimed, plural(total.untimed, "exit"), untimed);
    let lone = "entries without an exit before them";
    note(total.lone_entries, count(total.lone_entries), lone);
    note(total.other, plural(total.other, "exit"), other);
    view.recording.source.note(document, "exits");
}
