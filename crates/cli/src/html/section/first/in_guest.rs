//! Advice for a guest that recorded itself: its setting, polling in its host instead, or nothing.

use haltwise_document::html;

use super::super::{command, note, prose};
use crate::html::markup::{Markup, el};
use crate::recommend::guest::say;
use crate::recommend::guest::view::GuestTuneResult;
use crate::tune::guest::rows;

pub(super) fn title(tuned: &GuestTuneResult) -> String {
    let to = tuned.recommended.as_ref();
    say::what(tuned.place, &tuned.in_force, to, &tuned.host)
}

pub(super) fn reason(tuned: &GuestTuneResult) -> Markup {
    prose(&tuned.reason)
}

/// The commands, what must be known beside them, and the settings that were compared.
pub(super) fn to_do(tuned: &GuestTuneResult) -> Markup {
    let mut out = Markup::none();
    for (title, commands) in commands(tuned) {
        out.push(el("h2").with(title));
        out.push(command(&commands));
    }
    for text in &tuned.notes {
        out.push(note(text));
    }
    out.and(html::table(&rows(tuned, usize::MAX)))
}

fn commands(tuned: &GuestTuneResult) -> Vec<(&'static str, Vec<String>)> {
    if let Some((on_host, in_guest)) = tuned.host_commands.split_last() {
        let in_guest = (!in_guest.is_empty()).then(|| ("In the guest", in_guest.to_vec()));
        let on_host = ("Then on its host", vec![on_host.clone()]);
        return in_guest.into_iter().chain([on_host]).collect();
    }
    let Some(apply) = &tuned.apply else {
        return Vec::new();
    };
    vec![
        ("Apply it, in the guest", vec![apply.clone()]),
        ("Undo it", vec!["haltwise undo".to_owned()]),
        (
            "Or for every boot, on the guest's kernel command line",
            vec![tuned.command_line.join(" ")],
        ),
    ]
}
