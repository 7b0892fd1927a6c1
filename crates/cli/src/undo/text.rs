//! What undo says, on a screen.

use super::{Undone, UndoneStep};
use crate::knob::text::{page_settled, turns};
use crate::page::{Page, harmless};

/// Lays it out.
pub(crate) fn render(undone: &Undone, width: usize) -> String {
    let mut page = Page::new(width);
    if let Some(settled) = &undone.settled {
        page_settled(&mut page, settled);
    }
    for step in &undone.steps {
        let what = if undone.done { "Undone" } else { "Would undo" };
        let text = format!("step {} (`{}`):", step.step, harmless(&step.who));
        page.wrapped(&format!("{what}: "), &text, 2);
        turns(&mut page, &step.turns);
        left(&mut page, step);
    }
    if !undone.done {
        page.line("Nothing was changed.");
    }
    let numbers: Vec<String> = undone.in_force.iter().map(u64::to_string).collect();
    page.line(&if numbers.is_empty() {
        "No setting of haltwise is in force.".to_owned()
    } else {
        format!("Still in force: step {}", numbers.join(", "))
    });
    page.finish()
}

fn left(page: &mut Page, step: &UndoneStep) {
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
