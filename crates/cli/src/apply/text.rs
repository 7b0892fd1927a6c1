//! Output of apply, on a screen.

use super::view::Applied;
use crate::knob::ceilings::Unset;
use crate::knob::text::{changes, page_cut_off, vms};
use crate::page::{Page, harmless};

pub(crate) fn render(view: &Applied, width: usize) -> String {
    let mut page = Page::new(width);
    if let Some(settled) = &view.settled {
        page_cut_off(&mut page, settled);
    }
    if let Some(plan) = &view.plan {
        let text = format!("{}: {}", harmless(&plan.goal), harmless(&plan.reason));
        page.wrapped("Plan: ", &text, 6);
    }
    for already in &view.already {
        let name = harmless(&already.name);
        page.wrapped("", &format!("{name} is {} already.", already.value), 2);
    }
    if view.turns.is_empty() {
        page.line("There is nothing to do.");
    } else {
        let what = if view.done { "Set" } else { "Would set" };
        let whom = match view.scope {
            "vm" | "both" => "",
            "guest" => ", for all CPUs of this guest",
            _ => ", for the whole host (every VM without its own ceiling)",
        };
        page.wrapped("", &format!("{what}{whom}:"), 2);
        changes(&mut page, &view.turns);
        for text in &view.taken_over {
            page.wrapped("Taken over: ", &harmless(text), 2);
        }
    }
    for Unset { vm, why } in &view.unset {
        let text = format!("{}: {}.", harmless(vm), harmless(why));
        page.wrapped("Not set: ", &text, 9);
    }
    for warning in &view.warnings {
        page.wrapped("Warning: ", &harmless(warning), 9);
    }
    if view.done {
        vms(&mut page, &view.vms, view.vms_unwatched.as_deref());
    } else if !view.turns.is_empty() {
        let reverts = harmless(&view.reverts);
        let text =
            format!("Nothing was changed; --yes makes the changes, `{reverts}` reverts them.");
        page.wrapped("", &text, 2);
    }
    if let Some(undo) = &view.undo {
        page.whole_line(&format!("Undo: {}", harmless(undo)));
    }
    page.finish()
}
