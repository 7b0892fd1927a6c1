//! Output of undo, on a screen.

use haltwise_host::knob::Why;

use super::{StepView, Undone};
use crate::knob::text::{changes, page_cut_off};
use crate::page::{Page, harmless};

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
    let turns = || undone.steps.iter().flat_map(|step| &step.turns);
    if turns().any(|turn| turn.name.starts_with("ceiling of ")) {
        let text = "KVM cannot take a ceiling away: a VM whose ceiling was set keeps the restored value, and \
                    does not follow halt_poll_ns until it is restarted.";
        page.wrapped("", text, 2);
    }
    let left = || undone.steps.iter().flat_map(|step| &step.left);
    page.line(if !undone.done {
        "Nothing was changed."
    } else if left().any(|left| left.why == Why::NoAnswer) {
        "All else of haltwise is undone; undo again once it answers and permits it."
    } else {
        "No setting of haltwise is in force."
    });
    if let Some(pid) = undone.pilot_pid {
        page.wrapped("Note: ", &pilot(pid), 2);
    }
    page.finish()
}

pub(super) fn pilot(pid: u32) -> String {
    format!(
        "a pilot (process {pid}) runs, and may change settings again; in the off periods of a trial nothing is in \
         force. Stop it, then undo: systemctl stop haltwise-pilot"
    )
}

fn left(page: &mut Page, step: &StepView) {
    for left in &step.left {
        let found = match &left.found {
            Some(value) if !left.name.starts_with('/') => format!(" ({value})"),
            _ => String::new(),
        };
        let why = match left.why {
            Why::Theirs => "left alone: modified externally",
            Why::Restored if left.name.contains(" in ") => {
                "already restored, or reset by a boot of the guest"
            }
            Why::Restored => "already restored",
            Why::Ended => "is gone: the VM has ended",
            Why::NoAnswer if left.name.starts_with("ceiling of ") => {
                "left as it is: the VMM does not answer"
            }
            Why::NoAnswer => "left as it is",
            Why::GuestBooted => "left alone: the guest has booted since",
            Why::Rebooted => "already reset by a reboot or a reload of KVM",
        };
        let said = match &left.said {
            Some(said) if !left.name.starts_with("ceiling of ") => format!(": {}", harmless(said)),
            _ => String::new(),
        };
        let text = format!("{}{found} {why}{said}", harmless(&left.name));
        page.wrapped("  ", &text, 4);
    }
}
