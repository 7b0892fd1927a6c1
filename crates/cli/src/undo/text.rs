//! What undo says, on a screen.

use super::{StepView, Undone};
use crate::knob::text::{changes, page_cut_off};
use crate::page::{Page, harmless};

/// Lays it out.
pub(crate) fn render(undone: &Undone, width: usize) -> String {
    let mut page = Page::new(width);
    if let Some(cut_off) = &undone.settled {
        page_cut_off(&mut page, cut_off);
    }
    for step in &undone.steps {
        let what = if undone.done { "Undone" } else { "Would undo" };
        let text = format!("apply {} (`{}`):", step.step, harmless(&step.who));
        page.wrapped(&format!("{what}: "), &text, 2);
        changes(&mut page, &step.turns);
        left(&mut page, step);
    }
    page.line(if undone.done {
        "No setting of haltwise is in force."
    } else {
        "Nothing was changed."
    });
    page.finish()
}

fn left(page: &mut Page, step: &StepView) {
    for left in &step.left {
        let found = match &left.found {
            Some(value) if !left.name.starts_with('/') => format!(" ({value})"),
            _ => String::new(),
        };
        let why = match left.why {
            "theirs" => "left alone: modified externally",
            _ => "already reset by a reboot or a reload of KVM",
        };
        page.wrapped("  ", &format!("{}{found} {why}", left.name), 4);
    }
}
