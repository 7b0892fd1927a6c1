//! Status on a screen.

use haltwise_core::parameter::Parameter;
use haltwise_core::pilot::standing::PilotVm;

use super::view::{KnobView, Status, StepView};
use crate::knob::text::{changes, of_vms, page_cut_off, vm_table, vms};
use crate::number::maybe_nanos;
use crate::page::{Page, Stands, harmless};
use crate::pilot_state::{PilotStatus, text};
use crate::words::setting;

pub(crate) fn render(status: &Status, width: usize, rows: usize) -> String {
    let mut page = Page::new(width).listing(rows);
    page.heading(&format!("In force (Linux {})", harmless(&status.kernel)));
    let mut rows = vec![
        ["parameter", "value", "default", "set by"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(status.knobs.iter().map(row));
    page.table(2, &[Stands::Left; 4], &rows);
    for knob in &status.knobs {
        if let (Some(origin), Some(value)) = (&knob.origin, knob.value) {
            let value = written(knob.name, value);
            let text = format!("{}={value} is set in {}", knob.name, harmless(origin));
            page.wrapped("  ", &text, 4);
        }
    }
    for text in &status.remarks {
        page.wrapped("  Warning: ", &harmless(text), 4);
    }
    for text in &status.theirs {
        page.wrapped("  Modified externally: ", &harmless(text), 4);
    }
    if !status.persisted.is_empty() {
        let values = status.persisted.iter();
        let values: Vec<String> = values
            .map(|it| format!("{}={}", it.name, written(it.name, it.value)))
            .collect();
        page.wrapped("  Set again at every boot: ", &values.join(" "), 4);
    }
    page.heading("Set by haltwise");
    if status.journal.unknown.is_some() {
        page.line("  Not known.");
    } else if status.steps.is_empty() {
        page.line("  None.");
    }
    for it in &status.steps {
        step(&mut page, it);
    }
    if let Some(it) = status.steps.first() {
        page.whole_line(&format!("  Undo: {}", harmless(&it.undo)));
    }
    page.heading("Running VMs");
    if status.vms.is_empty() && status.vms_unwatched.is_none() {
        page.line("  None was found.");
    }
    vms(&mut page, &status.vms, status.vms_unwatched.as_deref());
    if let Some(it) = &status.pilot {
        pilot(&mut page, it);
    }
    journal(&mut page, status);
    page.finish()
}

fn written(name: &str, value: u32) -> String {
    let parameter = name.parse::<Parameter>();
    parameter.map_or_else(|_| value.to_string(), |it| it.written(value))
}

fn row(knob: &KnobView) -> Vec<String> {
    let text = |value: Option<u32>| match value {
        None => "-".to_owned(),
        Some(value) => setting(knob.name, &written(knob.name, value)),
    };
    let set_by = match (knob.value, knob.set_by, knob.step) {
        _ if knob.origin.is_some() => "see below".to_owned(),
        (None, ..) => "not in this kernel".to_owned(),
        (_, _, Some(step)) => format!("haltwise, apply {step}"),
        (_, "default", _) => "the kernel".to_owned(),
        (_, "unknown", _) => "not known".to_owned(),
        _ => "externally".to_owned(),
    };
    vec![
        knob.name.to_owned(),
        text(knob.value),
        text(knob.default),
        set_by,
    ]
}

fn step(page: &mut Page, step: &StepView) {
    let lasts = if step.persists { ", at every boot" } else { "" };
    page.line(&format!("  Apply {}, {}{lasts}", step.step, step.time));
    page.wrapped("    by: ", &harmless(&step.who), 8);
    changes(page, &step.turns);
    for it in &step.unknown {
        let set = it.set.as_deref().unwrap_or("-");
        let (name, why) = (harmless(&it.name), harmless(&it.why));
        let text = format!("{name}: not known, last set to {set}: {why}");
        page.wrapped("  ", &text, 4);
    }
    for name in &step.gone {
        page.line(&format!("  {} was modified externally", harmless(name)));
    }
}

fn journal(page: &mut Page, status: &Status) {
    let journal = &status.journal;
    page.heading("Journal");
    let path = harmless(&journal.path);
    if let Some(why) = &journal.unknown {
        let text = format!("{path}: cannot be read: {}.", harmless(why));
        page.wrapped("  ", &text, 4);
    } else {
        page.wrapped("  ", &path, 4);
    }
    if let Some(open) = &journal.open {
        page_cut_off(page, open);
    }
}

fn pilot(page: &mut Page, pilot: &PilotStatus) {
    page.heading("Pilot");
    page.wrapped("  ", &text::pilot(pilot), 4);
    let header = ["vm", "ceiling", "found", "state", "since"];
    let rows = pilot.vms.iter().map(pilot_row);
    vm_table(page, &[Stands::Left; 5], &header, rows.collect());
    of_vms(
        page,
        (pilot.vms.iter()).map(|vm| (&*vm.vm, text::benefit_and_why(vm))),
    );
    if pilot.vms.iter().any(|vm| vm.saved_ns.is_some()) {
        page.wrapped("  ", text::SAVED, 4);
    }
    for guard in pilot.guards.iter().filter(|it| it.holds) {
        page.wrapped("  Guard: ", &harmless(&guard.why), 4);
    }
}

fn pilot_row(vm: &PilotVm) -> Vec<String> {
    vec![
        harmless(&vm.vm),
        maybe_nanos(vm.ceiling_ns.map(u64::from)),
        maybe_nanos(vm.found_ns.map(u64::from)),
        vm.state.to_string(),
        text::since(vm).unwrap_or_else(|| "-".to_owned()),
    ]
}
